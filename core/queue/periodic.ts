import { ServiceError } from '../errors.js'

/**
 * A task that runs at intervals, and never twice at the same time. A failure does not stop the next run. That the database is
 * a standby is no failure: there the task has nothing to do.
 */
export class Periodic {
  private readonly stopping = new AbortController()
  private timer: NodeJS.Timeout | undefined
  private running: Promise<void> | undefined
  private again = false

  constructor(
    private readonly ms: number,
    private readonly task: (signal: AbortSignal) => Promise<void>,
    private readonly onError: (error: unknown) => void,
  ) {}

  /** Runs the task after the interval, and so on. */
  start(): this {
    this.timer ??= setInterval(() => {
      if (!this.running) this.run()
    }, this.ms).unref()
    return this
  }

  /** Runs the task now; once more afterwards if it is running. Does nothing before `start` and after `stop`. */
  run(): void {
    if (!this.timer || this.stopping.signal.aborted) return
    this.again = true
    this.running ??= this.untilDone()
  }

  /** Aborts the task and waits for its end, as `untilEnded`. */
  async stop(mostMs?: number): Promise<void> {
    clearInterval(this.timer)
    this.stopping.abort()
    await untilEnded(this.running, mostMs)
  }

  private async untilDone(): Promise<void> {
    const { signal } = this.stopping
    while (this.again && !signal.aborted) {
      this.again = false
      try {
        await this.task(signal)
      } catch (error) {
        const isStandby = error instanceof ServiceError && error.code === 'read-only'
        if (!isStandby && !signal.aborted) this.onError(error)
      }
    }
    this.running = undefined
  }
}

/** Waits for aborted work to end, but not for a peer that never answers. */
export async function untilEnded(work: Promise<void> | undefined, mostMs = 2_000): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, mostMs)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}
