import type { Host, Services } from 'rowhouse'
import type { Periodic } from 'rowhouse/queue'
import type { NotifyConfig } from './config.js'
import type { Delivery } from './delivery.js'
import type { ClaimedMessage } from './message.js'
import type { Outbox } from './outbox.js'
import type { ProviderChain } from './provider-chain.js'

/** Maximum time for deliveries when the server stops. */
const STOP_MS = 15_000

interface WorkerComponents {
  readonly host: Host
  readonly outbox: Outbox
  readonly delivery: Delivery
  readonly chain: ProviderChain
  readonly config: NotifyConfig
}

/**
 * Sends the queued messages of one channel, so that a slow provider does not delay the other channel. Every server has both
 * workers; only one server at a time claims a message.
 */
export class Worker {
  private readonly log: Services['log']
  private readonly active = new Set<Promise<void>>()
  private polling: Pick<Periodic, 'run' | 'stop'> | undefined

  constructor(private readonly components: WorkerComponents) {
    this.log = components.host.use('log')
  }

  start(): void {
    const { host, config } = this.components
    if (config.queue.concurrency === 0) return
    this.polling = host.every('read the outbox', config.queue.pollMs, () => this.poll())
    this.wake()
  }

  /** Checks the outbox for due messages. */
  wake(): void {
    this.polling?.run()
  }

  /** Stops claiming messages. Resolves when all deliveries have ended or were aborted. */
  async stop(): Promise<void> {
    await this.polling?.stop(STOP_MS)
    const timer = setTimeout(() => this.components.delivery.abortAll(), STOP_MS)
    await Promise.all(this.active)
    clearTimeout(timer)
  }

  private async poll(): Promise<void> {
    const { config, outbox, chain } = this.components
    const free = config.queue.concurrency - this.active.size
    // Each delivery that ends wakes the worker again.
    if (free === 0) return
    const since = performance.now()
    const claimed = await outbox.claim(chain.channel, free, config.queue.leaseSeconds, chain.first ?? null)
    for (const row of claimed) this.deliver(row, since)
  }

  private deliver(row: ClaimedMessage, since: number): void {
    const done: Promise<void> = this.components.delivery
      .deliver(row, since)
      .then(() => {})
      // Another attempt follows after the lease ends.
      .catch((error: unknown) => this.log.warn({ err: error, message: row.id }, 'a delivery failed'))
      .finally(() => {
        this.active.delete(done)
        this.wake()
      })
    this.active.add(done)
  }
}
