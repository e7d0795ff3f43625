/** A task that runs at intervals. */
export interface Periodic {
  /** Runs it now, unless it is running. */
  run(): void
  /** Aborts the signal of the task and waits until it has ended. */
  stop(): Promise<void>
}

/** Runs a task at intervals, never twice at the same time. After a failure the next run tries again. */
export function runEvery(
  intervalMs: number,
  task: (signal: AbortSignal) => Promise<void>,
  onError: (error: unknown) => void,
): Periodic {
  const stopping = new AbortController()
  let running: Promise<void> | undefined
  const run = (): void => {
    running ??= task(stopping.signal)
      .catch(onError)
      .finally(() => (running = undefined))
  }
  const timer = setInterval(run, intervalMs)
  timer.unref()
  return {
    run,
    async stop() {
      clearInterval(timer)
      stopping.abort()
      await running
    },
  }
}
