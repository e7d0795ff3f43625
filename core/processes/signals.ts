/** How often to look whether npm has ended, in milliseconds. */
const POLL_MS = 500

/**
 * Resolves with what asks this process to end: SIGINT, SIGTERM, or the end of the npm that started it, which does not
 * pass signals on. A second signal calls `atOnce`, and the process exits.
 */
export function endAsked(atOnce: () => void = () => {}): Promise<string> {
  return new Promise((resolve) => {
    let asked = false
    const ask = (why: string): void => {
      if (asked) {
        atOnce()
        process.exit(130)
      }
      asked = true
      resolve(why)
    }
    process.on('SIGINT', ask)
    process.on('SIGTERM', ask)
    const parent = process.ppid
    // Variable of npm, pnpm and npx.
    if (process.env['npm_command'] === undefined) return
    const timer = setInterval(() => {
      if (process.ppid === parent) return
      clearInterval(timer)
      if (!asked) ask('the end of npm')
    }, POLL_MS)
    timer.unref()
  })
}

/** Returns a signal that aborts when this process is asked to end. The cause of its reason is what `endAsked` resolves with. */
export function endSignal(): AbortSignal {
  const abort = new AbortController()
  void endAsked().then((cause) => abort.abort(new Error('interrupted', { cause })))
  return abort.signal
}
