import type { Logger } from 'pino'
import type { Periodic } from './periodic.js'

/** Maximum time for what is in progress when the worker stops. */
const STOP_MS = 15_000

/** The work of a worker, and how many pieces it does at a time. */
export interface Work<T> {
  readonly concurrency: number
  /**
   * How many must be free for the end of one to claim more, so that claims are few; the next interval claims for any. Defaults
   * to 1.
   */
  readonly batch?: number
  /** Claims up to `limit` pieces of work that are due, so that no other process gets them until their lease ends. */
  claim(limit: number): Promise<readonly T[]>
  /**
   * Does one. If it fails, another attempt follows after the lease ends.
   * @param since when it was claimed, by `performance.now()`
   */
  run(claimed: T, since: number): Promise<unknown>
  /** Aborts what is in progress, because the server stops. */
  abort(): void
}

/** Does work that is stored in the database. Every server has a worker; only one server at a time claims a piece of work. */
export class Worker<T extends { readonly id: string }> {
  private readonly active = new Set<Promise<void>>()
  private polling: Pick<Periodic, 'run' | 'stop'> | undefined
  private isStopped = false

  constructor(
    private readonly log: Pick<Logger, 'warn'>,
    private readonly work: Work<T>,
  ) {}

  /** @param every calls what it is given at intervals, as `host.every` does */
  start(every: (task: () => Promise<void>) => Pick<Periodic, 'run' | 'stop'>): void {
    if (this.work.concurrency === 0) return
    this.polling = every(() => this.poll())
    this.wake()
  }

  /** Looks for work that is due. */
  wake(): void {
    this.polling?.run()
  }

  /** Stops claiming. Resolves when all that is in progress has ended or was aborted. */
  async stop(): Promise<void> {
    await this.polling?.stop(STOP_MS)
    this.isStopped = true
    const timer = setTimeout(() => this.work.abort(), STOP_MS)
    await Promise.all(this.active)
    clearTimeout(timer)
  }

  private async poll(): Promise<void> {
    const free = this.work.concurrency - this.active.size
    // Each that ends wakes the worker again.
    if (free === 0) return
    const since = performance.now()
    const claimed = await this.work.claim(free)
    // After `stop`, the server does not wait for this work. Another worker takes it when the lease ends.
    if (!this.isStopped) for (const each of claimed) this.run(each, since)
  }

  private run(claimed: T, since: number): void {
    const done: Promise<void> = this.work
      .run(claimed, since)
      .then(() => {})
      .catch((error: unknown) => this.log.warn({ err: error, id: claimed.id }, 'an attempt failed'))
      .finally(() => {
        this.active.delete(done)
        const { concurrency, batch = 1 } = this.work
        if (concurrency - this.active.size >= batch) this.wake()
      })
    this.active.add(done)
  }
}
