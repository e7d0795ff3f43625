import { setTimeout as sleep } from 'node:timers/promises'
import { type Host, type Receipt, type SendError, ServiceError, type Services } from 'rowhouse'
import { Deadline, jittered, pauseAfter } from 'rowhouse/queue'
import { afterEvent, type ProviderEvent, type Standing } from './after-event.js'
import type { NotifyConfig } from './config.js'
import { type Channel, channelOf, type ClaimedMessage, type ProviderMessage, providerMessage } from './message.js'
import type { MessageRecord } from './message-list.js'
import { type AttemptResult, CONFIRMED_BY_EVENT, isAccepted, type Outbox } from './outbox.js'
import type { ProviderChain } from './provider-chain.js'
import { attemptTimedOut, type ProviderReply } from './provider-reply.js'
import { describeRecipients, finalState, maybeSent, openRecipients, someGotIt } from './recipients.js'
import { checkSendLimits } from './send-limits.js'
import type { Suppression } from './suppression.js'

/** Maximum pause between two attempts. */
const MAX_PAUSE_SECONDS = 15 * 60
/** Maximum pause that a provider can request. */
const MAX_RETRY_AFTER_SECONDS = 60 * 60
/** Milliseconds between attempts to store a result. */
const STORE_PAUSES = [100, 300, 1000, 2000, 4000]
/** Maximum number of claims without a stored result of a call. */
const MAX_LOSSES = 5

interface DeliveryComponents {
  readonly host: Host
  readonly outbox: Outbox
  readonly suppression: Suppression
  readonly chains: Readonly<Record<Channel, ProviderChain>>
  readonly config: NotifyConfig
}

/** Sends claimed messages, and stores the results. */
export class Delivery {
  private readonly log: Services['log']
  private readonly active = new Set<Deadline>()
  private readonly count: (channel: Channel, state: AttemptResult['state']) => void

  constructor(private readonly components: DeliveryComponents) {
    this.log = components.host.use('log')
    const help = 'attempts to send a message, by result'
    const messages = components.host.metric.counter('messages_total', help, ['kind', 'state'])
    this.count = (kind, state) => messages.inc({ kind, state })
  }

  /**
   * Makes one attempt. Never throws for a faulty message or provider.
   * @param since when the message was claimed, by `performance.now()`
   * @returns the updated message; undefined when another process has claimed it since
   */
  async deliver(row: ClaimedMessage, since: number): Promise<MessageRecord | undefined> {
    const told = tellEvents(row)
    if (told.proof && told.state === 'sent') return this.store(row, confirmed(told.proof))
    row = { ...row, recipients: told.recipients, unknown_for: told.uncertain ? row.unknown_for : null }
    const lost = await this.resultOfLosses(row)
    if (lost) return this.store(row, lost)
    const deadline = new Deadline((this.components.config.queue.leaseSeconds * 1000) / 2, since)
    this.active.add(deadline)
    try {
      return await this.store(row, await this.attempt(row, deadline, since))
    } finally {
      deadline.clear()
      this.active.delete(deadline)
    }
  }

  /** Aborts all attempts. */
  abortAll(): void {
    for (const deadline of this.active) deadline.end()
  }

  /**
   * A message whose earlier claim ended without a stored result may have been sent.
   * @returns undefined when the message may be sent again
   */
  private async resultOfLosses(row: ClaimedMessage): Promise<AttemptResult | undefined> {
    const tooOften = row.losses >= MAX_LOSSES
    if (row.losses === 0 || (!tooOften && row.mode === 'queue' && (await this.mayRepeat(row)))) return undefined
    const often = tooOften ? ` ${row.losses} times in a row` : ''
    const error = `a server claimed it${often} and stored no result; it may have been sent`
    return untraced(row, error, { provider: row.provider })
  }

  private async attempt(row: ClaimedMessage, deadline: Deadline, since: number): Promise<AttemptResult> {
    const { provider } = row
    // A message that may have been sent is never reported as failed.
    const giveUp = row.unknown_for === null ? failed : unknown
    let message: ProviderMessage
    try {
      message = providerMessage(row)
    } catch (error) {
      return giveUp(row, (error as Error).message, { code: 'invalid_payload', provider })
    }
    const only = openRecipients(row.recipients, row.unknown_for !== null)
    // An event has told of the others.
    if (only?.length === 0) return giveUp(row, 'no recipient is left', { provider })
    // As long as nobody got it, a provider that cannot send to some of the recipients sends it to all.
    const reached = someGotIt(row.recipients) ? only : undefined
    const exceeded = await checkSendLimits(message, reached, this.components)
    if (exceeded) return giveUp(row, exceeded.why, { code: exceeded.code, provider })
    if (row.age > this.components.config.queue.maxAgeSeconds) {
      return giveUp(row, 'too old to send (queue.maxAgeSeconds)', { provider })
    }
    if (row.unknown_for !== null && !(await this.mayRepeat(row))) {
      return unknown(row, 'the provider no longer recognizes a repeated message', { provider })
    }
    return this.callProviders(row, message, deadline, since)
  }

  private async callProviders(
    row: ClaimedMessage,
    message: ProviderMessage,
    deadline: Deadline,
    since: number,
  ): Promise<AttemptResult> {
    const chain = this.components.chains[channelOf(row.kind)]
    const uncertain = row.unknown_for !== null
    const names = uncertain ? [row.provider as string] : startingWith(row.provider, chain.providers)
    const replies: Unconfirmed[] = []
    let assigned = row.provider
    let { recipients } = row
    for (const name of names) {
      if (deadline.isOver) {
        replies.push({ name, reply: attemptTimedOut })
        break
      }
      // Stored before the call, for the process that claims the message if this one is killed.
      if (row.mode === 'queue' && name !== assigned && !(await this.components.outbox.assign(row, name))) break
      assigned = name
      const reply = await chain.call(name, message, recipients, uncertain, deadline)
      if (reply.kind === 'sent') return this.afterSent(row, name, reply)
      replies.push({ name, reply })
      if (reply.kind === 'skipped') continue
      const { error } = reply
      recipients = reply.recipients
      const { outcome, response } = error
      this.log.warn(
        { message: row.id, provider: name, outcome, why: error.message, response },
        'a provider did not send a message',
      )
      const more = { cause: error, provider: name, called: true }
      const after = { ...row, recipients }
      if (error.limit) continue
      const open = openRecipients(recipients, outcome === 'unknown' || (uncertain && outcome === 'retry'))
      if (open === undefined ? outcome === 'refused' : open.length === 0) {
        return (uncertain ? unknown : failed)(after, describeReplies(replies), more)
      }
      if (outcome !== 'unknown') continue
      const unknownFor = row.unknown_for ?? (performance.now() - since) / 1000
      return this.afterUnknown({ ...after, provider: name, unknown_for: unknownFor }, describeReplies(replies), error)
    }
    return this.afterFailures({ ...row, recipients }, replies)
  }

  /** The provider has accepted the message, at least for some recipients. */
  private afterSent(row: ClaimedMessage, provider: string, { receipt, caught, recipients }: SentReply): AttemptResult {
    const { id, detail, truncated } = receipt
    if (truncated) this.log.warn({ message: row.id, provider }, 'a long receipt was truncated')
    if (recipients === null || finalState(recipients) === 'sent') {
      return { state: caught ? 'caught' : 'sent', provider, providerId: id, detail }
    }
    const after = { ...row, recipients, unknown_for: null }
    const why = `${provider}: ${describeRecipients(recipients)}`
    const more = { receipt, provider, called: true }
    if (row.mode === 'sync' || !openRecipients(recipients, false)?.length) return failed(after, why, more)
    return queued(after, why, { ...more, retryIn: this.pause(row) })
  }

  /** The last provider may have sent the message. */
  private async afterUnknown(row: ClaimedMessage, why: string, cause: SendError): Promise<AttemptResult> {
    const more = { cause, provider: row.provider, called: true }
    const retryIn = this.pause(row, cause.retryAfter)
    // A provider whose response cannot be read has accepted the message, and would respond the same again.
    const repeated = row.mode === 'queue' && !cause.unreadable && (await this.mayRepeat(row))
    if (repeated) return queued(row, why, { ...more, retryIn })
    // Recipients that were postponed certainly did not get it.
    if (row.mode === 'queue' && openRecipients(row.recipients, false)?.length) {
      return queued({ ...row, unknown_for: null }, why, { ...more, retryIn })
    }
    return unknown(row, `${why}; it may have been sent`, more)
  }

  /** No provider has sent the message in this attempt. */
  private afterFailures(row: ClaimedMessage, replies: readonly Unconfirmed[]): AttemptResult {
    const why = describeReplies(replies) || 'no provider is configured'
    const errors = replies.flatMap(({ reply }) => (reply.kind === 'failed' ? [reply.error] : []))
    const waits = replies.flatMap(({ reply }) => (reply.kind === 'skipped' ? [reply.seconds] : []))
    const never = replies.length > 0 && replies.every(({ reply }) => isFinal(reply))
    const uncertain = row.unknown_for !== null
    const cause = errors.at(-1)
    const more = {
      cause,
      ...(never ? { code: 'invalid_payload' } : {}),
      called: errors.length > 0,
      provider: uncertain ? row.provider : (replies.at(-1)?.name ?? null),
    }
    if (row.mode === 'sync' || never) return (uncertain ? unknown : failed)(row, why, more)
    if (!more.called) {
      const soonest = Math.min(...waits.filter((wait) => wait > 0 && wait < Infinity), MAX_PAUSE_SECONDS)
      return queued(row, why, { ...more, provider: row.provider, retryIn: jittered(soonest) })
    }
    const retryAfter = Math.max(0, ...errors.map(({ retryAfter = 0 }) => retryAfter))
    const provider = uncertain ? row.provider : null
    return queued(row, why, { ...more, provider, retryIn: this.pause(row, retryAfter) })
  }

  /** Returns whether a message that may have been sent may be sent again. */
  private async mayRepeat({ at_most_once, kind, provider, unknown_for }: ClaimedMessage): Promise<boolean> {
    if (!at_most_once) return true
    return (unknown_for ?? 0) < (await this.components.chains[channelOf(kind)].sendsOnceFor(provider as string))
  }

  /** Returns the pause in seconds. It doubles with each attempt. */
  private pause({ attempts }: ClaimedMessage, retryAfter = 0): number {
    const pause = pauseAfter(attempts, this.components.config.queue.retrySeconds, MAX_PAUSE_SECONDS)
    return jittered(Math.max(Math.min(retryAfter, MAX_RETRY_AFTER_SECONDS), pause))
  }

  /** Stores a result. Retries for some seconds, because the provider may have accepted the message. */
  private async store(row: ClaimedMessage, result: AttemptResult): Promise<MessageRecord | undefined> {
    for (const pause of STORE_PAUSES) {
      try {
        return await this.storeOnce(row, result)
      } catch (error) {
        this.log.warn(
          { err: error, message: row.id, state: result.state },
          'the state of a message could not be stored',
        )
        if (isRejected(error)) return this.storeOnce(row, notStorable(row, result))
        await sleep(pause)
      }
    }
    return this.storeOnce(row, result)
  }

  /** Adds the events that arrived since the message was claimed, also those that arrive while it is stored. */
  private async storeOnce(row: ClaimedMessage, result: AttemptResult): Promise<MessageRecord | undefined> {
    const { outbox } = this.components
    for (let events: ClaimedMessage['events'] | undefined = row.events; events !== undefined;) {
      const settled = withEvents(result, events ?? [])
      const record = await outbox.storeResult(row, settled, events)
      if (record) this.count(channelOf(row.kind), settled.state)
      if (record) return record
      events = await outbox.eventsSince(row)
    }
    this.log.warn({ message: row.id }, 'the lease of a message expired, and another process has claimed it')
    return undefined
  }
}

/** What is known of a claimed message. After a lost claim, recipients that were postponed may have got it. */
function tellEvents({ recipients, events, losses, unknown_for }: ClaimedMessage): Standing {
  const known = losses === 0 ? recipients : maybeSent(recipients, 'a server claimed it and stored no result')
  const before: Standing = { state: 'queued', recipients: known, uncertain: unknown_for !== null }
  return (events ?? []).reduce(afterEvent, before)
}

/** Returns a result with what events prove. They outweigh the answer of a provider, or that there was none. */
function withEvents(result: AttemptResult, events: readonly ProviderEvent[]): AttemptResult {
  if (isAccepted(result) || events.length === 0) return result
  const { state, recipients, uncertain, proof } = events.reduce(afterEvent, {
    state: result.state,
    recipients: result.recipients,
    uncertain: result.unknownFor !== null,
  })
  if (proof && state === 'sent') return confirmed(proof)
  return {
    ...result,
    state: state as typeof result.state,
    recipients,
    unknownFor: uncertain && state !== 'partly_sent' ? result.unknownFor : null,
    reference: result.reference ?? (proof ? { provider: proof.provider, id: proof.id } : null),
  }
}

const confirmed = ({ provider, id }: ProviderEvent): AttemptResult => ({
  state: 'sent',
  provider,
  providerId: id,
  detail: CONFIRMED_BY_EVENT,
})

type SentReply = Extract<ProviderReply, { readonly kind: 'sent' }>

/** A reply that does not confirm that the message was sent. */
interface Unconfirmed {
  readonly name: string
  readonly reply: Exclude<ProviderReply, { readonly kind: 'sent' }>
}
/** Returns whether the provider can never send the message, though another one may. */
const isFinal = (reply: Unconfirmed['reply']): boolean =>
  reply.kind === 'skipped' ? reply.seconds === Infinity : reply.error.limit

const describeReplies = (replies: readonly Unconfirmed[]): string =>
  replies.map(({ name, reply }) => `${name}: ${reply.kind === 'skipped' ? reply.why : reply.error.message}`).join('; ')

function startingWith(first: string | null, providers: readonly string[]): readonly string[] {
  if (first === null || !providers.includes(first)) return providers
  return [first, ...providers.filter((name) => name !== first)]
}

/** Returns whether PostgreSQL would reject the same row again. */
const isRejected = (error: unknown): boolean => error instanceof ServiceError && error.status === 400

const notStorable = (row: ClaimedMessage, { provider }: AttemptResult): AttemptResult =>
  untraced(row, 'its result could not be stored; it may have been sent', { provider, called: true })

interface ResultDetails {
  readonly code?: string
  readonly cause?: SendError
  /** Of a provider that has accepted the message for some recipients. */
  readonly receipt?: Receipt
  readonly provider?: string | null
  readonly retryIn?: number
  readonly called?: boolean
}

function result(
  state: 'failed' | 'unknown' | 'queued' | 'partly_sent',
  row: ClaimedMessage,
  error: string,
  more: ResultDetails,
): AttemptResult {
  const { cause, receipt, code = cause?.unreadable ? 'response_changed' : 'unexpected' } = more
  return {
    state,
    recipients: row.recipients,
    reference: receipt && more.provider ? { provider: more.provider, id: receipt.id } : null,
    error,
    code,
    detail: receipt?.detail ?? cause?.response ?? null,
    provider: more.provider ?? null,
    unknownFor: state === 'failed' || state === 'partly_sent' ? null : row.unknown_for,
    retryIn: more.retryIn ?? 0,
    called: more.called ?? false,
  }
}

const queued = (row: ClaimedMessage, error: string, more: ResultDetails): AttemptResult =>
  result('queued', row, error, more)

/** The message is not tried again. Its state follows from the outcomes of its recipients, if they have their own. */
function ended(state: 'failed' | 'unknown', row: ClaimedMessage, error: string, more: ResultDetails): AttemptResult {
  const final = row.recipients === null ? state : finalState(row.recipients)
  return result(final === 'sent' ? 'unknown' : final, row, error, more)
}
const failed = (row: ClaimedMessage, error: string, more: ResultDetails): AttemptResult =>
  ended('failed', row, error, more)
const unknown = (row: ClaimedMessage, error: string, more: ResultDetails): AttemptResult =>
  ended('unknown', row, error, more)
/** Nothing is known of the attempt: everybody to whom it was to send may have got the message. */
const untraced = (row: ClaimedMessage, error: string, more: ResultDetails): AttemptResult =>
  unknown({ ...row, recipients: maybeSent(row.recipients, error) }, error, more)
