import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { patience } from '../kit/patience.js'
import type { Job } from '../pool.js'

/** A fault may make a test hang. */
const JOB_MS = 300_000

/**
 * Runs jobs side by side until a test of one fails, and ends the others.
 * @param folder where they run
 * @returns the name of the job that failed, and the first test in it that did
 */
export async function firstFailure(jobs: readonly Job[], folder: string): Promise<string | undefined> {
  const queue = [...jobs]
  const running = new Set<ChildProcess>()
  let failure: string | undefined

  function fail(text: string): void {
    failure ??= text
    for (const child of running) end(child)
  }
  async function worker(): Promise<void> {
    for (let job = queue.shift(); job && failure === undefined; job = queue.shift()) await run(job)
  }
  async function run({ name, command, args, env }: Job): Promise<void> {
    const options = { cwd: folder, env: { ...process.env, ...env }, detached: true } as const
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'ignore'] })
    running.add(child)
    const tooLate = setTimeout(() => fail(`${name}: it hangs`), patience(JOB_MS))
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-100_000)
      const test = /^ *not ok \d+ - (.*)/m.exec(output)?.[1]
      if (test !== undefined) fail(`${name}: ${test}`)
    })
    const [code] = (await once(child, 'exit')) as [number | null]
    clearTimeout(tooLate)
    running.delete(child)
    if (code !== 0) fail(`${name}: ended with ${code}`)
  }

  await Promise.all(Array.from({ length: availableParallelism() + 1 }, worker))
  return failure
}

/** Ends a process with those that it has started. */
function end({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}
