import { once } from 'node:events'
import type { Server } from '../host/server.js'
import type { Invocation } from './invocation.js'
import type { Uncaught } from './uncaught.js'

/** What else ends a server, and what follows. */
interface Ends {
  /** Resolves when another process has taken over. It listens already, so there is no reason to wait before the drain. */
  readonly retired?: Promise<void> | undefined
  /** Resolves with the reason when the server cannot continue. */
  readonly failed?: Promise<Error> | undefined
  readonly afterwards?: () => Promise<void>
}
const NEVER = new Promise<never>(() => {})

const FINISHING = 'finishing in-flight requests; press Ctrl-C again to stop immediately'

/**
 * Waits until the command should end, or for an uncaught error. Then finishes in-flight requests and closes the server.
 * @returns the exit code
 */
export async function serve(
  server: Server,
  uncaught: Uncaught,
  { terminal, tell }: Invocation,
  { afterwards, failed, retired = NEVER }: Ends = {},
): Promise<number> {
  const asked = aborted(terminal.signal).then((by) => server.log.info({ by }, 'stopping'))
  const isRetired = retired.then(() => true as const)
  void failed?.then(({ message }) => tell(message))
  const failure = await Promise.race([asked, isRetired, uncaught.first, failed ?? NEVER])
  const since = performance.now()
  const reminder = terminal.stderr.isTTY && failure === undefined ? setTimeout(() => tell(FINISHING), 1000) : undefined
  const closed = await server.close({ atOnce: failure === true }).then(
    () => {
      server.log.info({ ms: Math.round(performance.now() - since) }, 'stopped')
      return true
    },
    (error: Error) => {
      server.log.error(`the shutdown failed: ${error.message}`)
      return false
    },
  )
  clearTimeout(reminder)
  await afterwards?.()
  return failure instanceof Error || !closed ? 1 : 0
}

/** Resolves with the cause when the signal aborts. */
async function aborted(signal: AbortSignal): Promise<unknown> {
  if (!signal.aborted) await once(signal, 'abort')
  return (signal.reason as Error | undefined)?.cause
}
