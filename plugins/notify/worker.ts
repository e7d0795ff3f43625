import type { Host, Services } from 'rowhouse'
import type { Channel } from './channel.js'
import type { NotifyConfig } from './config.js'
import type { Delivery } from './delivery.js'
import type { Claimed, Outbox } from './outbox.js'

const PRUNE_MS = 60_000

/** Sends what waits in the outbox; every server has one, and each message has one of them at a time. */
export class Worker {
  private readonly outbox: Outbox
  private readonly delivery: Delivery
  private readonly channels: Readonly<Record<'email' | 'sms', Channel>>
  private readonly config: NotifyConfig
  private readonly log: Services['log']
  private readonly active = new Set<Promise<void>>()
  private readonly timers: NodeJS.Timeout[] = []
  private looking: Promise<void> | undefined
  private more = false
  private stopped = false

  constructor(parts: {
    readonly host: Host
    readonly outbox: Outbox
    readonly delivery: Delivery
    readonly channels: Readonly<Record<'email' | 'sms', Channel>>
    readonly config: NotifyConfig
  }) {
    this.outbox = parts.outbox
    this.delivery = parts.delivery
    this.channels = parts.channels
    this.config = parts.config
    this.log = parts.host.use('log')
  }

  start(): void {
    this.timers.push(setInterval(() => this.wake(), this.config.queue.pollMs).unref())
    this.timers.push(setInterval(() => void this.prune(), PRUNE_MS).unref())
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

  /** Takes no more; resolves when those under way have ended. */
  async stop(): Promise<void> {
    this.stopped = true
    for (const timer of this.timers) clearInterval(timer)
    await this.looking
    await Promise.all(this.active)
  }

  private async look(): Promise<void> {
    while (this.more && !this.stopped) {
      this.more = false
      const free = this.config.queue.concurrency - this.active.size
      // Each that ends wakes again.
      if (free === 0) return
      const { email, sms } = this.channels
      const first = { email: email.first ?? null, sms: sms.first ?? null }
      const claimed = await this.outbox.claim(free, this.config.queue.leaseSeconds, first)
      for (const row of claimed) this.run(row)
      if (claimed.length === free) this.more = true
    }
  }

  private run(row: Claimed): void {
    const done: Promise<void> = this.delivery
      .tryAfterLoss(row)
      .then(() => {})
      // Its lease ends, and it is tried again.
      .catch((error: unknown) => this.log.warn({ err: error, message: row.id }, 'a message could not be tried'))
      .finally(() => {
        this.active.delete(done)
        this.wake()
      })
    this.active.add(done)
  }

  private async prune(): Promise<void> {
    try {
      while (!this.stopped && (await this.outbox.prune(this.config.keepDays))) {}
    } catch (error) {
      this.log.warn({ err: error }, 'old messages could not be deleted')
    }
  }
}
