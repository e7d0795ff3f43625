/** A task that runs at intervals. */
export interface Periodic {
  /** Runs the task now, unless it is running. */
  run(): void
  /** Aborts the task and waits for its end. */
  stop(): Promise<void>
}

/** Runs a task at intervals, never twice at the same time. A failure does not stop the next run. */
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
