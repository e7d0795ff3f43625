import type { Host, Services } from 'rowhouse'
import type { Channel } from './channel.js'
import type { NotifyConfig } from './config.js'
import type { Delivery } from './delivery.js'
import type { Claimed } from './message.js'
import type { Outbox } from './outbox.js'

/** How long messages under way may take when the server stops. */
const STOP_MS = 15_000

/**
 * Sends what waits in the outbox for one channel, so that a provider that is slow holds up nobody else's. Every server has
 * them, and each message is with one of them at a time.
 */
export class Worker {
  private readonly outbox: Outbox
  private readonly delivery: Delivery
  private readonly channel: Channel
  private readonly config: NotifyConfig
  private readonly log: Services['log']
  private readonly active = new Set<Promise<void>>()
  private timer: NodeJS.Timeout | undefined
  private looking: Promise<void> | undefined
  private more = false
  private stopped = false

  constructor(parts: {
    readonly host: Host
    readonly outbox: Outbox
    readonly delivery: Delivery
    readonly channel: Channel
    readonly config: NotifyConfig
  }) {
    this.outbox = parts.outbox
    this.delivery = parts.delivery
    this.channel = parts.channel
    this.config = parts.config
    this.log = parts.host.use('log')
  }

  start(): void {
    this.timer = setInterval(() => this.wake(), this.config.queue.pollMs).unref()
    this.wake()
  }

  /** Something may be due. */
  wake(): void {
    this.more = true
    if (this.stopped) return
    this.looking ??= this.look()
      .catch((error: unknown) => this.log.warn({ err: error }, 'the outbox could not be read'))
      .finally(() => (this.looking = undefined))
  }

  /** Takes no more; resolves when those under way have ended, or were given up. */
  async stop(): Promise<void> {
    this.stopped = true
    clearInterval(this.timer)
    await this.looking
    const timer = setTimeout(() => this.delivery.hurry(), STOP_MS)
    await Promise.all(this.active)
    clearTimeout(timer)
  }

  private async look(): Promise<void> {
    while (this.more && !this.stopped) {
      this.more = false
      const free = this.config.queue.concurrency - this.active.size
      // Each that ends wakes again.
      if (free === 0) return
      const { name, first = null } = this.channel
      const since = performance.now()
      const claimed = await this.outbox.claim(name, free, this.config.queue.leaseSeconds, first)
      for (const row of claimed) this.run(row, since)
      if (claimed.length === free) this.more = true
    }
  }

  private run(row: Claimed, since: number): void {
    const done: Promise<void> = this.delivery
      .deliver(row, since)
      .then(() => {})
      // Its lease ends, and it is tried again.
      .catch((error: unknown) => this.log.warn({ err: error, message: row.id }, 'a message could not be tried'))
      .finally(() => {
        this.active.delete(done)
        this.wake()
      })
    this.active.add(done)
  }
}
