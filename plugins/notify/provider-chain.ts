import {
  type EmailSender,
  type Host,
  type Mail,
  type Receipt,
  recipientsOf,
  SendError,
  type SmsSender,
  type TemplateMail,
} from 'rowhouse'
import { CircuitBreaker, type Deadline, RateLimiter } from 'rowhouse/queue'
import type { NotifyConfig } from './config.js'
import { noDefault, notConfigured } from './errors.js'
import { domainOf } from './mailbox.js'
import type { Channel, ProviderMessage } from './message.js'
import { attemptTimedOut, type ProviderReply, readError, readReceipt } from './provider-reply.js'
import { afterAttempt, openRecipients, type Recipients, someGotIt } from './recipients.js'

/** Maximum time that a message waits for the rate limit of a provider. */
const RATE_WAIT_MS = 2000
/** Maximum time that a provider may take after its signal has aborted. */
const GRACE_MS = 500

/** A configured provider, as returned by the API. */
export interface ProviderState {
  readonly name: string
  /** Position in the order of calls, from 1; null for a provider that is not called. */
  readonly position: number | null
  /** Whether it delivers nothing, and only keeps or shows messages. */
  readonly catches: boolean
  /** Whether it renders templates that are stored at the provider. */
  readonly templates: boolean
  /** Domains of sender addresses; null for any. */
  readonly domains: readonly string[] | null
  /** Whether it posts delivery events. */
  readonly events: boolean
  readonly per_second: number | null
  /** For how many more seconds this server skips it after failures; null if it does not. */
  readonly skipped_seconds: number | null
}

interface Guards {
  readonly breaker: CircuitBreaker
  readonly rate: RateLimiter
}

/** The providers of one channel: the default one, then the failover providers. */
export class ProviderChain {
  private readonly guards = new Map<string, Guards>()

  constructor(
    private readonly host: Host,
    readonly channel: Channel,
    private readonly config: NotifyConfig,
  ) {}

  /**
   * Creates the providers, so that the server does not start with wrong settings.
   * @throws Error for wrong settings of a provider, and for a setting that names an unknown provider
   */
  async open(): Promise<void> {
    const known = this.host.providerNames(this.channel)
    const { failover, perSecond } = this.config[this.channel]
    for (const [key, names] of [
      ['failover', failover],
      ['perSecond', Object.keys(perSecond)],
    ] as const) {
      const wrong = names.find((name) => !known.includes(name))
      if (wrong === undefined) continue
      const configured = known.join(', ') || 'none'
      throw new Error(
        `plugins.notify.${this.channel}.${key} names "${wrong}", which is not a configured provider (${configured})`,
      )
    }
    for (const name of this.providers) if (known.includes(name)) await this.sender(name)
  }

  /** Names in the order of calls. Empty without a default provider. */
  get providers(): readonly string[] {
    const first = this.host.providerName(this.channel)
    return first === undefined ? [] : [first, ...this.config[this.channel].failover.filter((name) => name !== first)]
  }

  /** The provider to call first. */
  get first(): string | undefined {
    return this.providers.find((name) => !this.guardsOf(name).breaker.open) ?? this.providers[0]
  }

  /** The providers that are skipped after failures. */
  get failing(): readonly string[] {
    return this.providers.filter((name) => this.guardsOf(name).breaker.open)
  }

  /** Describes all configured providers, in the order of calls, then those that are not called. */
  async describe(): Promise<readonly ProviderState[]> {
    const order = this.providers
    const unused = this.host.providerNames(this.channel).filter((name) => !order.includes(name))
    return Promise.all([...order, ...unused].map((name) => this.state(name, order.indexOf(name))))
  }

  private async state(name: string, index: number): Promise<ProviderState> {
    const sender: Partial<Omit<EmailSender, 'send'>> | undefined = await this.sender(name).catch(() => undefined)
    const { seconds } = this.guardsOf(name).breaker
    return {
      name,
      position: index < 0 ? null : index + 1,
      catches: sender?.catches === true,
      templates: sender?.sendTemplate !== undefined,
      domains: sender?.domains ?? null,
      events: sender?.events !== undefined,
      per_second: this.config[this.channel].perSecond[name] ?? null,
      skipped_seconds: seconds > 0 ? Math.ceil(seconds) : null,
    }
  }

  /** @throws ServiceError 500 `default_not_found` or `config_not_found` when there is none */
  async default(): Promise<{ readonly name: string; readonly sender: EmailSender | SmsSender }> {
    const [name] = this.providers
    if (name === undefined) throw noDefault()
    return { name, sender: await this.sender(name) }
  }

  async sender(name: string): Promise<EmailSender | SmsSender> {
    return (await this.host.provider(this.channel, name).catch((error: { readonly code?: string }) => {
      throw error.code === 'not-configured' ? notConfigured(name) : error
    })) as EmailSender | SmsSender
  }

  /** Returns why no provider can ever send a mail, or undefined. */
  async problemWith(message: Mail | TemplateMail): Promise<string | undefined> {
    const problems: string[] = []
    for (const name of this.providers) {
      const sender = await this.sender(name).catch(() => undefined)
      const problem = sender && problemOf(sender as EmailSender, message)
      if (problem === undefined) return undefined
      problems.push(`${name}: ${problem}`)
    }
    return problems.length > 0 ? problems.join('; ') : undefined
  }

  /** Returns for how many seconds a provider deduplicates messages. */
  async sendsOnceFor(name: string): Promise<number> {
    return (await this.sender(name).catch(() => undefined))?.sendsOnceForSeconds ?? 0
  }

  /**
   * Calls one provider, unless it must be skipped.
   * @param recipients outcomes of earlier attempts
   * @param uncertain whether the last attempt may have sent the message
   */
  async call(
    name: string,
    whole: ProviderMessage,
    recipients: Recipients,
    uncertain: boolean,
    deadline: Deadline,
  ): Promise<ProviderReply> {
    const { breaker, rate } = this.guardsOf(name)
    const sender = await this.sender(name).catch((error: unknown) => error as Error)
    if (sender instanceof Error) return skipped(sender.message)
    const message = messageFor(sender, whole, recipients, uncertain)
    if (typeof message === 'string') return skipped(message, Infinity)
    const send = sendFunction(sender, message)
    if (typeof send === 'string') return skipped(send, Infinity)
    const addressed = 'countryCode' in message ? [] : recipientsOf(message)
    const failing = () => skipped('skipped after repeated failures', breaker.seconds)
    if (breaker.open) return failing()
    const waitMs = await rate.acquire(RATE_WAIT_MS)
    if (waitMs > 0) return skipped('the rate limit is reached (perSecond)', waitMs / 1000)
    if (!breaker.allows()) return failing()
    if (deadline.isOver) return attemptTimedOut
    const { signal } = deadline
    try {
      const receipt = readReceipt(await withGrace(signal, send(signal)), addressed)
      breaker.succeeded()
      const after = afterAttempt(recipients, uncertain, addressed, receipt.recipients, {
        outcome: 'sent',
        detail: receipt.detail,
      })
      return { kind: 'sent', receipt, caught: sender.catches === true, recipients: after }
    } catch (thrown) {
      const error = readError(thrown, addressed)
      // A provider that answers for single recipients works.
      if (error.outcome === 'refused' || (error.outcome === 'retry' && error.recipients?.length)) breaker.succeeded()
      else breaker.failed()
      if (error.limit) return { kind: 'failed', error, recipients }
      const rest = { outcome: RECIPIENT_OUTCOMES[error.outcome], detail: error.response ?? error.message }
      const after = afterAttempt(recipients, uncertain, addressed, error.recipients ?? [], rest)
      return { kind: 'failed', error, recipients: after }
    }
  }

  private guardsOf(name: string): Guards {
    let guards = this.guards.get(name)
    if (!guards) {
      const rate = new RateLimiter(this.config[this.channel].perSecond[name])
      this.guards.set(name, (guards = { breaker: new CircuitBreaker(this.config.breaker), rate }))
    }
    return guards
  }
}

/** The outcomes of recipients, by the outcome of an error. */
const RECIPIENT_OUTCOMES = { refused: 'refused', retry: 'postponed', unknown: 'unknown' } as const

/** Stops waiting for a provider shortly after its signal has aborted. */
async function withGrace<T>(signal: AbortSignal, sending: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const giveUp = () => reject(new SendError('unknown', 'no response in time'))
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', () => (timer = setTimeout(giveUp, GRACE_MS)), { once: true })
  })
  try {
    return await Promise.race([sending, late])
  } finally {
    clearTimeout(timer)
  }
}

const skipped = (why: string, seconds = 0): ProviderReply => ({ kind: 'skipped', why, seconds })

/** Returns the message for the recipients that are still to get it, or the reason why this provider cannot send it. */
function messageFor(
  sender: EmailSender | SmsSender,
  message: ProviderMessage,
  recipients: Recipients,
  uncertain: boolean,
): ProviderMessage | string {
  const only = openRecipients(recipients, uncertain)
  if (only === undefined || only.length === recipients?.length || 'countryCode' in message) return message
  if ((sender as EmailSender).sendsToSome === true) return { ...message, only }
  return someGotIt(recipients) ? 'it cannot send to some of the recipients only' : message
}

/** Returns a function that sends the message, or the reason why this provider can never send it. */
function sendFunction(
  sender: EmailSender | SmsSender,
  message: ProviderMessage,
): ((signal: AbortSignal) => Promise<Receipt>) | string {
  if ('countryCode' in message) return (signal) => (sender as SmsSender).send(message, signal)
  const email = sender as EmailSender
  const problem = problemOf(email, message)
  if (problem !== undefined) return problem
  if ('subject' in message) return (signal) => email.send(message, signal)
  return email.sendTemplate ? (signal) => email.sendTemplate!(message, signal) : 'it has no templates'
}

/** Returns why a provider can never send a mail, or undefined. */
function problemOf(email: EmailSender, message: Mail | TemplateMail): string | undefined {
  const { address } = message.from
  if (!maySendFrom(email, address)) return `it may not send from ${domainOf(address)}`
  return email.problemWith?.(message)
}

export const maySendFrom = ({ domains }: EmailSender, address: string): boolean =>
  domains === undefined || domains.some((domain) => domain.toLowerCase() === domainOf(address))
