import { ServiceError } from 'rowhouse'

/** A task that runs at intervals. */
export interface Periodic {
  /** Runs the task now, unless it is running. */
  run(): void
  /** Aborts the task and waits for its end, as `untilEnded`. */
  stop(): Promise<void>
}

/** Ignores that the database is a standby, which needs no such work. */
function unlessReadOnly(error: unknown): void {
  if (!(error instanceof ServiceError && error.code === 'read-only')) throw error
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
      .catch(unlessReadOnly)
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
      await untilEnded(running)
    },
  }
}

/** Maximum time for aborted work to end, in milliseconds. */
const ENDING_MS = 2_000

/** Waits for aborted work to end, but not for a store that never answers: other plugins close too. */
export async function untilEnded(work: Promise<void> | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ENDING_MS)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}
