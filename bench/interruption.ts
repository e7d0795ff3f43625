import { constants } from 'node:os'
import { stopPrograms } from './program.js'

/** Takes away what a run has made, in its end or when somebody ends it before. */
export interface CleanUp {
  /** What is to be done in the end, before everything that was named earlier. */
  add(undo: () => Promise<unknown>): void
  /** Does all of it, once. */
  run(): Promise<void>
  /** Whether somebody ends the run: then this process ends by itself, and errors of the run say nothing. */
  readonly interrupted: boolean
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * From now on a signal cleans up and ends this process with 128 and its number; the servers end with this process. A reader
 * of its output who goes away ends nothing.
 */
export function watchInterruptions(say: (text: string) => void): CleanUp {
  const undos: (() => Promise<unknown>)[] = []
  let done: Promise<void> | undefined
  const all = async () => {
    for (let undo = undos.pop(); undo !== undefined; undo = undos.pop()) await undo()
  }
  let interrupted = false
  const cleanUp: CleanUp = {
    add: (undo) => void undos.push(undo),
    run: () => (done ??= all()),
    get interrupted() {
      return interrupted
    },
  }

  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  const interrupt = (name: (typeof SIGNALS)[number]) => {
    if (interrupted) return
    interrupted = true
    say('interrupted')
    stopPrograms()
    // What fails from now on fails because its servers are gone.
    for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, () => {})
    void cleanUp
      .run()
      .catch((error: unknown) => say(`not all of it could be taken away: ${String(error)}`))
      .finally(() => process.exit(128 + constants.signals[name]))
  }
  for (const name of SIGNALS) process.on(name, interrupt)
  return cleanUp
}
