import { type EmailSender, type Host, type Receipt, SendError, type SmsSender } from 'rowhouse'
import { type Answer, readError, readReceipt, tooLate } from './answer.js'
import { Breaker } from './breaker.js'
import type { NotifyConfig } from './config.js'
import type { Deadline } from './deadline.js'
import { noDefault, notConfigured } from './errors.js'
import { domainOf } from './mailbox.js'
import type { Message, Channel as Name } from './message.js'
import { Rate } from './rate.js'

/** How long a message waits for its turn with a provider. */
const TURN_MS = 2000
/** How long after its signal a provider may take to say how far it was. */
const GRACE_MS = 500

interface Member {
  readonly name: string
  readonly breaker: Breaker
  readonly rate: Rate
}

/** The providers of one kind, in the order in which they are asked. */
export class Channel {
  readonly name: Name
  private readonly host: Host
  private readonly config: NotifyConfig
  private readonly members = new Map<string, Member>()

  constructor(host: Host, name: Name, config: NotifyConfig) {
    this.host = host
    this.name = name
    this.config = config
  }

  /**
   * Makes the providers, so that what is wrong with their settings shows when the server starts.
   * @throws Error also for a name that none of them has
   */
  async open(): Promise<void> {
    const known = this.host.providerNames(this.name)
    const { failover, perSecond } = this.config[this.name]
    for (const [key, names] of [
      ['failover', failover],
      ['perSecond', Object.keys(perSecond)],
    ] as const) {
      const wrong = names.find((name) => !known.includes(name))
      if (wrong === undefined) continue
      const configured = known.join(', ') || 'none'
      throw new Error(
        `plugins.notify.${this.name}.${key} names "${wrong}", which is no configured provider (${configured})`,
      )
    }
    for (const name of this.providers) if (known.includes(name)) await this.sender(name)
  }

  /** Without a default there is nobody to ask. */
  get providers(): readonly string[] {
    const first = this.host.providerName(this.name)
    return first === undefined ? [] : [first, ...this.config[this.name].failover.filter((name) => name !== first)]
  }

  /** The one whom a message goes to first. */
  get first(): string | undefined {
    return this.providers.find((name) => !this.member(name).breaker.open) ?? this.providers[0]
  }

  /** Those that are let alone now. */
  get troubled(): readonly string[] {
    return this.providers.filter((name) => this.member(name).breaker.open)
  }

  /** @throws ServiceError 500 as the API promises it when nobody can send */
  async default(): Promise<{ readonly name: string; readonly sender: EmailSender | SmsSender }> {
    const [name] = this.providers
    if (name === undefined) throw noDefault()
    return { name, sender: await this.sender(name) }
  }

  async sender(name: string): Promise<EmailSender | SmsSender> {
    return (await this.host.provider(this.name, name).catch((error: { readonly code?: string }) => {
      throw error.code === 'not-configured' ? notConfigured(name) : error
    })) as EmailSender | SmsSender
  }

  /** For so long a provider knows what it has taken, in seconds. */
  async onceFor(name: string): Promise<number> {
    return (await this.sender(name).catch(() => undefined))?.sendsOnceForSeconds ?? 0
  }

  /** Asks one provider, if that makes sense now. */
  async ask(name: string, message: Message, deadline: Deadline): Promise<Answer> {
    const { breaker, rate } = this.member(name)
    const sender = await this.sender(name).catch((error: unknown) => error as Error)
    if (sender instanceof Error) return passed(sender.message)
    const send = sendingOf(sender, message)
    if (typeof send === 'string') return passed(send, Infinity)
    const alone = () => passed('it has failed several times and is let alone for a while', breaker.seconds)
    if (breaker.open) return alone()
    const away = await rate.turn(TURN_MS)
    if (away > 0) return passed('it is sent as many messages as it may be (perSecond)', away / 1000)
    if (!breaker.allows()) return alone()
    if (deadline.isOver) return tooLate
    const { signal } = deadline
    try {
      const receipt = readReceipt(await within(signal, send(signal)))
      breaker.succeeded()
      return { kind: 'sent', receipt, caught: sender.catches === true }
    } catch (thrown) {
      const error = readError(thrown)
      if (error.outcome === 'refused') breaker.succeeded()
      else breaker.failure()
      return { kind: 'not sent', error }
    }
  }

  private member(name: string): Member {
    let member = this.members.get(name)
    if (!member) {
      const rate = new Rate(this.config[this.name].perSecond[name])
      this.members.set(name, (member = { name, breaker: new Breaker(this.config.breaker), rate }))
    }
    return member
  }
}

/** A provider that does not end when it is told to is given up a moment later. */
async function within<T>(signal: AbortSignal, sending: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const giveUp = () => reject(new SendError('unknown', 'no answer in time'))
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', () => (timer = setTimeout(giveUp, GRACE_MS)), { once: true })
  })
  try {
    return await Promise.race([sending, late])
  } finally {
    clearTimeout(timer)
  }
}

const passed = (why: string, seconds = 0): Answer => ({ kind: 'passed', why, seconds })

/** Sends the message, or why this provider cannot. */
function sendingOf(
  sender: EmailSender | SmsSender,
  message: Message,
): ((signal: AbortSignal) => Promise<Receipt>) | string {
  if (message.channel === 'sms') return (signal) => (sender as SmsSender).send(message.sms, signal)
  const email = sender as EmailSender
  const { address } = ('mail' in message ? message.mail : message.template).from
  if (!maySendFrom(email, address)) return `it may not send from ${domainOf(address)}`
  if ('mail' in message) return (signal) => email.send(message.mail, signal)
  const { template } = message
  return email.sendTemplate ? (signal) => email.sendTemplate!(template, signal) : 'it has no templates'
}

export const maySendFrom = ({ domains }: EmailSender, address: string): boolean =>
  domains === undefined || domains.some((domain) => domain.toLowerCase() === domainOf(address))
