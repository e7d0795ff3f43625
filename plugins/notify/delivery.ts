import type { Host, SendError, Services } from 'rowhouse'
import type { Channel } from './channel.js'
import type { NotifyConfig } from './config.js'
import { channelOf, type Channel as ChannelName, type Message, messageOf, type OutboxRow } from './message.js'
import type { Claimed, Ending, Outbox } from './outbox.js'
import type { MessageRecord } from './record.js'
import { stopOf } from './stops.js'
import type { Suppression } from './suppression.js'

const MOST_SECONDS = 15 * 60

export interface DeliveryParts {
  readonly host: Host
  readonly outbox: Outbox
  readonly suppression: Suppression
  readonly channels: Readonly<Record<ChannelName, Channel>>
  readonly config: NotifyConfig
}

/** Hands messages over, and writes down what came of it. */
export class Delivery {
  private readonly parts: DeliveryParts
  private readonly outbox: Outbox
  private readonly channels: DeliveryParts['channels']
  private readonly config: NotifyConfig
  private readonly log: Services['log']
  private readonly underWay = new Set<AbortController>()
  private readonly ended: (channel: ChannelName, state: Ending['state']) => void

  constructor(parts: DeliveryParts) {
    this.parts = parts
    this.outbox = parts.outbox
    this.channels = parts.channels
    this.config = parts.config
    this.log = parts.host.use('log')
    const messages = parts.host.metric.counter('messages_total', 'tries to send a message, by how they ended', [
      'kind',
      'state',
    ])
    this.ended = (kind, state) => messages.inc({ kind, state })
  }

  /**
   * One try. Never throws for what is wrong with a message or a provider.
   * @returns how the message stands then; undefined when it was somebody else's by then
   */
  async try(row: OutboxRow): Promise<MessageRecord | undefined> {
    const ending = await this.attempt(row)
    this.ended(channelOf(row.kind), ending.state)
    const record = await this.outbox.end(row, ending)
    // Who comes too late has been taken for dead.
    if (!record) this.log.warn({ message: row.id }, 'the lease of a message was lost')
    return record
  }

  /** A try of whoever was sending it before: it may have been sent, and may be sent again if that does no harm. */
  async tryAfterLoss(row: Claimed): Promise<MessageRecord | undefined> {
    if (!row.lost) return this.try(row)
    const lost = 'whoever was sending it was not heard of again; it may have been sent'
    if (row.mode === 'sync' || !(await this.mayRepeat(row)))
      return this.outbox.end(row, notSent('unknown', lost, { provider: row.provider }))
    return this.try(row)
  }

  private async attempt(row: OutboxRow): Promise<Ending> {
    const channel = this.channels[channelOf(row.kind)]
    // What may have been sent has not failed, whatever keeps it from being sent again.
    const over = row.unknown_for === null ? 'failed' : 'unknown'
    let message: Message
    try {
      message = messageOf(row)
    } catch (error) {
      return notSent(over, (error as Error).message, { code: 'invalid_payload', provider: row.provider })
    }
    const stop = await stopOf(message, this.parts)
    if (stop) return notSent(over, stop.why, { code: stop.code, provider: row.provider })
    if (row.unknown_for !== null && !(await this.mayRepeat(row))) {
      return notSent('unknown', 'the provider no longer knows whether it took it', { provider: row.provider })
    }
    const controller = new AbortController()
    const { signal } = controller
    const timer = setTimeout(() => controller.abort(), (this.config.queue.leaseSeconds * 1000) / 2)
    this.underWay.add(controller)
    try {
      return await this.handOver(row, channel, message, signal)
    } finally {
      clearTimeout(timer)
      this.underWay.delete(controller)
    }
  }

  /** Gives up what is under way: providers say at once how far they are. */
  hurry(): void {
    for (const controller of this.underWay) controller.abort()
  }

  private async handOver(row: OutboxRow, channel: Channel, message: Message, signal: AbortSignal): Promise<Ending> {
    const uncertain = row.unknown_for !== null
    const why: string[] = []
    let wait = 0
    let last: SendError | undefined
    let holder = row.provider
    for (const name of uncertain ? [row.provider as string] : this.after(channel, row.provider)) {
      // Who sends has to be known before it does.
      if (row.mode === 'queue' && name !== holder && !(await this.outbox.hand(row, name)))
        return notSent('failed', 'taken over', {})
      holder = name
      const answer = await channel.ask(name, message, signal)
      if (answer.kind === 'sent') {
        const { receipt, caught } = answer
        return { state: 'sent', provider: name, providerId: receipt.id, detail: receipt.detail, caught }
      }
      if (answer.kind === 'passed') {
        why.push(`${name}: ${answer.why}`)
        continue
      }
      const { error } = answer
      this.log.warn({ err: error, message: row.id, provider: name, outcome: error.outcome }, 'a message was not sent')
      why.push(`${name}: ${error.message}`)
      last = error
      wait = Math.max(wait, error.retryAfter ?? 0)
      if (error.outcome === 'refused')
        return notSent(uncertain ? 'unknown' : 'failed', why.join('; '), { cause: error })
      if (error.outcome === 'unknown') return this.notKnown(row, name, why.join('; '), error)
    }
    return this.later(row, why.join('; ') || 'no provider is configured', wait, last)
  }

  /** The chain, beginning with the one that was chosen for it. */
  private after(channel: Channel, first: string | null): readonly string[] {
    const { providers } = channel
    return first === null || !providers.includes(first)
      ? providers
      : [first, ...providers.filter((name) => name !== first)]
  }

  private async notKnown(row: OutboxRow, provider: string, why: string, cause: SendError): Promise<Ending> {
    const again = row.mode === 'queue' && !this.isOld(row) && (await this.mayRepeat({ ...row, provider }))
    if (!again) return notSent('unknown', `${why}; it may have been sent`, { cause, provider })
    return notSent('queued', why, { cause, provider, seconds: this.pause(row, cause.retryAfter) })
  }

  private later(row: OutboxRow, why: string, wait: number, cause: SendError | undefined): Ending {
    const uncertain = row.unknown_for !== null
    const more = { cause, provider: uncertain ? row.provider : null, passed: cause === undefined }
    if (row.mode === 'sync' || this.isOld(row)) return notSent(uncertain ? 'unknown' : 'failed', why, more)
    return notSent('queued', why, { ...more, seconds: this.pause(row, wait) })
  }

  private isOld({ age }: OutboxRow): boolean {
    return age > this.config.queue.maxAgeSeconds
  }

  /** Whether a message that may have been sent may be sent again: it does no harm, or its sender has nothing against it. */
  private async mayRepeat({ at_most_once, kind, provider, unknown_for }: OutboxRow): Promise<boolean> {
    if (!at_most_once) return true
    return (unknown_for ?? 0) < (await this.channels[channelOf(kind)].onceFor(provider as string))
  }

  /** In seconds: longer each time, and not all at the same moment. */
  private pause({ attempts }: OutboxRow, atLeast = 0): number {
    const doubled = this.config.queue.retrySeconds * 2 ** Math.min(attempts - 1, 20)
    return Math.max(atLeast, Math.min(doubled, MOST_SECONDS) * (0.5 + Math.random()))
  }
}

interface NotSent {
  readonly code?: string
  readonly cause?: SendError | undefined
  readonly provider?: string | null
  readonly seconds?: number
  readonly passed?: boolean
}

function notSent(
  state: 'failed' | 'unknown' | 'queued',
  error: string,
  {
    cause,
    code = cause?.unreadable ? 'response_changed' : 'unexpected',
    provider = null,
    seconds = 0,
    passed = false,
  }: NotSent,
): Ending {
  return { state, error, code, detail: cause?.response ?? null, provider, seconds, passed }
}
