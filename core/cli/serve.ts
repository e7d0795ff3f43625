import type { Server } from '../host/server.js'
import { endAsked } from '../processes/signals.js'
import type { Uncaught } from './uncaught.js'

/** What else ends a server, and what follows. */
export interface Ends {
  /** Resolves when another process has taken over. It listens already, so there is no reason to wait before the drain. */
  readonly retired?: Promise<void> | undefined
  /** Resolves with the reason when the server cannot continue. */
  readonly failed?: Promise<Error> | undefined
  readonly afterwards?: () => Promise<void>
}
const NEVER = new Promise<never>(() => {})

const FINISHING = 'finishing in-flight requests; press Ctrl-C again to stop immediately'

/**
 * Waits for a signal or an uncaught error, then finishes in-flight requests and closes the server. A second signal ends
 * the process immediately.
 * @returns the exit code
 */
export async function serve(
  server: Server,
  uncaught: Uncaught,
  { afterwards, failed, retired = NEVER }: Ends = {},
): Promise<number> {
  const asked = endAsked().then((by) => server.log.info({ by }, 'stopping'))
  const isRetired = retired.then(() => true as const)
  const failure = await Promise.race([asked, isRetired, uncaught.first, failed?.then(tell) ?? NEVER])
  const since = performance.now()
  const told =
    process.stderr.isTTY && failure === undefined ? setTimeout(() => console.error(FINISHING), 1000) : undefined
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
  clearTimeout(told)
  await afterwards?.()
  return failure instanceof Error || !closed ? 1 : 0
}

function tell(failure: Error): Error {
  console.error(failure.message)
  return failure
}
