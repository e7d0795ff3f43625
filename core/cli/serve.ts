import type { Server } from '../host/server.js'

/**
 * Waits for the signal to end, then finishes what is under way. A second signal ends the process at once.
 * @returns the exit code
 */
export async function serve(server: Server, afterwards: () => Promise<void> = async () => {}): Promise<number> {
  await new Promise<void>((resolve) => {
    let asked = false
    const onSignal = () => {
      if (asked) process.exit(130)
      asked = true
      resolve()
    }
    process.on('SIGINT', onSignal)
    process.on('SIGTERM', onSignal)
  })
  try {
    await server.close()
  } finally {
    await afterwards()
  }
  return 0
}
