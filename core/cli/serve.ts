import type { Server } from '../host/server.js'
import type { Uncaught } from './uncaught.js'

const FINISHING = 'finishing in-flight requests; press Ctrl-C again to stop immediately'

/**
 * Waits for a signal or an uncaught error, then finishes in-flight requests and closes the server. A second signal ends
 * the process immediately.
 * @param failed resolves with the reason when the server cannot continue
 * @returns the exit code
 */
export async function serve(
  server: Server,
  uncaught: Uncaught,
  afterwards: () => Promise<void> = async () => {},
  failed: Promise<Error> = new Promise(() => {}),
): Promise<number> {
  const signalled = new Promise<void>((resolve) => {
    let asked = false
    const onSignal = () => {
      if (asked) process.exit(130)
      asked = true
      resolve()
    }
    process.on('SIGINT', onSignal)
    process.on('SIGTERM', onSignal)
  })
  const failure = await Promise.race([signalled, uncaught.first, failed.then(tell)])
  const told = process.stderr.isTTY && !failure ? setTimeout(() => console.error(FINISHING), 1000) : undefined
  const closed = await server.close().then(
    () => true,
    (error: Error) => {
      server.log.error(`the shutdown failed: ${error.message}`)
      return false
    },
  )
  clearTimeout(told)
  await afterwards()
  return failure || !closed ? 1 : 0
}

function tell(failure: Error): Error {
  console.error(failure.message)
  return failure
}
