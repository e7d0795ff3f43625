import { setTimeout as sleep } from 'node:timers/promises'
import { type Host, type SendError, ServiceError, type Services } from 'rowhouse'
import { type Answer, tooLate } from './answer.js'
import type { Channel } from './channel.js'
import type { NotifyConfig } from './config.js'
import { Deadline } from './deadline.js'
import { channelOf, type Channel as ChannelName, type Claimed, type Message, messageOf } from './message.js'
import type { Ending, Outbox } from './outbox.js'
import type { MessageRecord } from './record.js'
import { stopOf } from './stops.js'
import type { Suppression } from './suppression.js'

/** Between two tries of one message. */
const MOST_PAUSE_SECONDS = 15 * 60
/** What providers ask for is longer, at most. */
const MOST_RETRY_AFTER_SECONDS = 60 * 60
/** Between two tries to write down how a message stands, in milliseconds. */
const RECORD_PAUSES = [100, 300, 1000, 2000, 4000]
/** So often a message may be taken without a word of how that ended. */
const MOST_LOSSES = 5

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
  private readonly underWay = new Set<Deadline>()
  private readonly ended: (channel: ChannelName, state: Ending['state']) => void

  constructor(parts: DeliveryParts) {
    this.parts = parts
    this.outbox = parts.outbox
    this.channels = parts.channels
    this.config = parts.config
    this.log = parts.host.use('log')
    const help = 'tries to send a message, by how they ended'
    const messages = parts.host.metric.counter('messages_total', help, ['kind', 'state'])
    this.ended = (kind, state) => messages.inc({ kind, state })
  }

  /**
   * Makes one attempt. Never throws for what is wrong with a message or a provider.
   * @param since when the message was claimed, by `performance.now()`
   * @returns the message after that; undefined when another process has claimed it since
   */
  async deliver(row: Claimed, since: number): Promise<MessageRecord | undefined> {
    const lost = await this.lostFor(row)
    if (lost) return this.record(row, lost)
    const deadline = new Deadline((this.config.queue.leaseSeconds * 1000) / 2, since)
    this.underWay.add(deadline)
    try {
      return await this.record(row, await this.attempt(row, deadline, since))
    } finally {
      deadline.clear()
      this.underWay.delete(deadline)
    }
  }

  /**
   * A message that was claimed before without a stored outcome may have been sent.
   * @returns undefined when it may be sent again all the same
   */
  private async lostFor(row: Claimed): Promise<Ending | undefined> {
    const tooOften = row.losses >= MOST_LOSSES
    if (row.losses === 0 || (!tooOften && row.mode === 'queue' && (await this.mayRepeat(row)))) return undefined
    const often = tooOften ? `, ${row.losses} times in a row` : ''
    const why = `whoever was sending it was not heard of again${often}; it may have been sent`
    return unknown(row, why, { provider: row.provider })
  }

  /** Gives up what is under way: providers say at once how far they are. */
  hurry(): void {
    for (const deadline of this.underWay) deadline.end()
  }

  /** A provider has it, perhaps: that is worth more than one try to write it down. */
  private async record(row: Claimed, ending: Ending): Promise<MessageRecord | undefined> {
    for (const pause of RECORD_PAUSES) {
      try {
        return await this.recordOnce(row, ending)
      } catch (error) {
        this.log.warn({ err: error, message: row.id, state: ending.state }, 'how a message stands could not be written')
        if (isRefused(error)) return this.recordOnce(row, notStored(row, ending))
        await sleep(pause)
      }
    }
    return this.recordOnce(row, ending)
  }

  private async recordOnce(row: Claimed, ending: Ending): Promise<MessageRecord | undefined> {
    const record = await this.outbox.end(row, ending)
    // Who comes too late has been taken for dead.
    if (!record) this.log.warn({ message: row.id }, 'the lease of a message was lost')
    else this.ended(channelOf(row.kind), ending.state)
    return record
  }

  private async attempt(row: Claimed, deadline: Deadline, since: number): Promise<Ending> {
    const { provider } = row
    // What may have been sent has not failed, whatever keeps it from being sent again.
    const over = row.unknown_for === null ? failed : unknown
    let message: Message
    try {
      message = messageOf(row)
    } catch (error) {
      return over(row, (error as Error).message, { code: 'invalid_payload', provider })
    }
    const stop = await stopOf(message, this.parts)
    if (stop) return over(row, stop.why, { code: stop.code, provider })
    if (row.age > this.config.queue.maxAgeSeconds) {
      return over(row, 'it is too old to be sent (queue.maxAgeSeconds)', { provider })
    }
    if (row.unknown_for !== null && !(await this.mayRepeat(row))) {
      return unknown(row, 'the provider no longer knows whether it took it', { provider })
    }
    return this.handOver(row, message, deadline, since)
  }

  private async handOver(row: Claimed, message: Message, deadline: Deadline, since: number): Promise<Ending> {
    const channel = this.channels[message.channel]
    const uncertain = row.unknown_for !== null
    const names = uncertain ? [row.provider as string] : inTurn(channel, row.provider)
    const answers: Told[] = []
    let holder = row.provider
    for (const name of names) {
      if (deadline.isOver) {
        answers.push({ name, answer: tooLate })
        break
      }
      // Who sends has to be known before it does; whoever waits for an answer tells in the end.
      if (row.mode === 'queue' && name !== holder && !(await this.outbox.hand(row, name))) break
      holder = name
      const answer = await channel.ask(name, message, deadline)
      if (answer.kind === 'sent') {
        const { receipt, caught } = answer
        if (receipt.cut) this.log.warn({ message: row.id, provider: name }, 'a long receipt was cut')
        return { state: 'sent', provider: name, providerId: receipt.id, detail: receipt.detail, caught }
      }
      answers.push({ name, answer })
      if (answer.kind === 'passed') continue
      const { error } = answer
      const { outcome, response } = error
      this.log.warn(
        { message: row.id, provider: name, outcome, why: error.message, response },
        'a message was not sent',
      )
      const more = { cause: error, provider: name, asked: true }
      if (outcome === 'refused') return (uncertain ? unknown : failed)(row, told(answers), more)
      if (outcome !== 'unknown') continue
      const unknownFor = row.unknown_for ?? (performance.now() - since) / 1000
      return this.notKnown({ ...row, provider: name, unknown_for: unknownFor }, told(answers), error)
    }
    return this.later(row, answers)
  }

  private async notKnown(row: Claimed, why: string, cause: SendError): Promise<Ending> {
    const more = { cause, provider: row.provider, asked: true }
    // A provider that answered once in a way that nobody can read has taken the message, and would answer so again.
    if (row.mode === 'sync' || cause.unreadable || !(await this.mayRepeat(row))) {
      return unknown(row, `${why}; it may have been sent`, more)
    }
    return queued(row, why, { ...more, seconds: this.pause(row, cause.retryAfter) })
  }

  /** Nobody has taken it, and nobody may have. */
  private later(row: Claimed, answers: readonly Told[]): Ending {
    const why = told(answers) || 'no provider is configured'
    const errors = answers.flatMap(({ answer }) => (answer.kind === 'not sent' ? [answer.error] : []))
    const waits = answers.flatMap(({ answer }) => (answer.kind === 'passed' ? [answer.seconds] : []))
    const uncertain = row.unknown_for !== null
    const cause = errors.at(-1)
    const more = {
      cause,
      asked: errors.length > 0,
      provider: uncertain ? row.provider : (answers.at(-1)?.name ?? null),
    }
    const never = answers.length > 0 && waits.length === answers.length && waits.every((wait) => wait === Infinity)
    if (row.mode === 'sync' || never) return (uncertain ? unknown : failed)(row, why, more)
    if (!more.asked) {
      const soonest = Math.min(...waits.filter((wait) => wait > 0 && wait < Infinity), MOST_PAUSE_SECONDS)
      return queued(row, why, { ...more, provider: row.provider, seconds: jittered(soonest) })
    }
    const asked = Math.max(0, ...errors.map(({ retryAfter = 0 }) => retryAfter))
    return queued(row, why, { ...more, provider: uncertain ? row.provider : null, seconds: this.pause(row, asked) })
  }

  /** Whether a message that may have been sent may be sent again: it does no harm, or its sender has nothing against it. */
  private async mayRepeat({ at_most_once, kind, provider, unknown_for }: Claimed): Promise<boolean> {
    if (!at_most_once) return true
    return (unknown_for ?? 0) < (await this.channels[channelOf(kind)].onceFor(provider as string))
  }

  /** In seconds: longer each time. */
  private pause({ attempts }: Claimed, wanted = 0): number {
    const doubled = this.config.queue.retrySeconds * 2 ** Math.min(attempts, 20)
    return jittered(Math.max(Math.min(wanted, MOST_RETRY_AFTER_SECONDS), Math.min(doubled, MOST_PAUSE_SECONDS)))
  }
}

/** What a provider said. */
interface Told {
  readonly name: string
  readonly answer: Exclude<Answer, { readonly kind: 'sent' }>
}
const told = (answers: readonly Told[]): string =>
  answers
    .map(({ name, answer }) => `${name}: ${answer.kind === 'passed' ? answer.why : answer.error.message}`)
    .join('; ')

/** The chain, beginning with the one that was chosen for a message. */
function inTurn({ providers }: Channel, first: string | null): readonly string[] {
  if (first === null || !providers.includes(first)) return providers
  return [first, ...providers.filter((name) => name !== first)]
}

/** Not all at the same moment. */
const jittered = (seconds: number): number => seconds * (1 + Math.random() / 2)

/** PostgreSQL takes no such row, however often it is asked. */
const isRefused = (error: unknown): boolean => error instanceof ServiceError && error.status === 400

/** How a message ends whose outcome cannot be stored as the provider said it. */
const notStored = (row: Claimed, { provider }: Ending): Ending =>
  unknown(row, 'what became of it could not be stored; it may have been sent', { provider, asked: true })

interface NotSent {
  readonly code?: string
  readonly cause?: SendError | undefined
  readonly provider?: string | null
  readonly seconds?: number
  readonly asked?: boolean
}
const ending =
  (state: 'failed' | 'unknown' | 'queued') =>
  (row: Claimed, error: string, more: NotSent): Ending => {
    const { cause, code = cause?.unreadable ? 'response_changed' : 'unexpected' } = more
    return {
      state,
      error,
      code,
      detail: cause?.response ?? null,
      provider: more.provider ?? null,
      unknownFor: state === 'failed' ? null : row.unknown_for,
      seconds: more.seconds ?? 0,
      asked: more.asked ?? false,
    }
  }
const failed = ending('failed')
const unknown = ending('unknown')
const queued = ending('queued')
