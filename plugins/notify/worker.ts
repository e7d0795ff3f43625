import type { Host, Services } from 'rowhouse'
import type { NotifyConfig } from './config.js'
import type { Delivery } from './delivery.js'
import type { ClaimedMessage } from './message.js'
import type { Outbox } from './outbox.js'
import type { ProviderChain } from './provider-chain.js'

/** How long deliveries may take when the server stops. */
const STOP_MS = 15_000

interface WorkerParts {
  readonly host: Host
  readonly outbox: Outbox
  readonly delivery: Delivery
  readonly chain: ProviderChain
  readonly config: NotifyConfig
}

/**
 * Sends the queued messages of one channel, so that a slow provider does not delay the other channel. Every server has
 * both workers; one of them at a time has a message.
 */
export class Worker {
  private readonly log: Services['log']
  private readonly active = new Set<Promise<void>>()
  private timer: NodeJS.Timeout | undefined
  private polling: Promise<void> | undefined
  private more = false
  private stopped = false

  constructor(private readonly parts: WorkerParts) {
    this.log = parts.host.use('log')
  }

  start(): void {
    this.timer = setInterval(() => this.wake(), this.parts.config.queue.pollMs).unref()
    this.wake()
  }

  /** Messages may be due. */
  wake(): void {
    this.more = true
    if (this.stopped) return
    this.polling ??= this.poll()
      .catch((error: unknown) => this.log.warn({ err: error }, 'cannot read the outbox'))
      .finally(() => (this.polling = undefined))
  }

  /** Claims no more messages. Resolves when the deliveries have ended, or were aborted. */
  async stop(): Promise<void> {
    this.stopped = true
    clearInterval(this.timer)
    await this.polling
    const timer = setTimeout(() => this.parts.delivery.abortAll(), STOP_MS)
    await Promise.all(this.active)
    clearTimeout(timer)
  }

  private async poll(): Promise<void> {
    const { config, outbox, chain } = this.parts
    while (this.more && !this.stopped) {
      this.more = false
      const free = config.queue.concurrency - this.active.size
      // Each delivery that ends wakes the worker again.
      if (free === 0) return
      const since = performance.now()
      const claimed = await outbox.claim(chain.channel, free, config.queue.leaseSeconds, chain.first ?? null)
      for (const row of claimed) this.deliver(row, since)
      if (claimed.length === free) this.more = true
    }
  }

  private deliver(row: ClaimedMessage, since: number): void {
    const done: Promise<void> = this.parts.delivery
      .deliver(row, since)
      .then(() => {})
      // Another attempt follows when the lease ends.
      .catch((error: unknown) => this.log.warn({ err: error, message: row.id }, 'a delivery broke off'))
      .finally(() => {
        this.active.delete(done)
        this.wake()
      })
    this.active.add(done)
  }
}
