/**
 * Makes intervals of a certain length short in this process, so that a test need not wait for what a server does at long
 * intervals.
 * @param ms their length
 */
export function fastInterval(t: { teardown(fn: () => void): unknown }, ms: number): void {
  const real = globalThis.setInterval
  const fast = (run: () => void, every?: number, ...args: unknown[]) =>
    real(run, every === ms ? SHORT_MS : every, ...(args as []))
  globalThis.setInterval = Object.assign(fast, real) as typeof setInterval
  t.teardown(() => void (globalThis.setInterval = real))
}

const SHORT_MS = 20
