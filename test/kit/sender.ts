import {
  type EmailSender,
  type Mail,
  type Receipt,
  SendError,
  type Sms,
  type SmsSender,
  type TemplateMail,
} from '../../core/index.js'

/** What was handed over, by provider. */
export type Handed = Mail | TemplateMail | Sms

export interface FakeSender {
  /** All that was handed over, in order, also what was then not sent. */
  readonly handed: Handed[]
  /** How the next messages are answered; when none is left they are sent. */
  readonly answers: ((message: Handed, signal: AbortSignal) => Promise<Receipt>)[]
  /** Its capabilities. */
  extra: Partial<EmailSender & SmsSender>
}

const senders = new Map<string, FakeSender>()

/** A sender of this process that does as it is told, by the `key` of its configuration. */
export function fakeSender(key: string, extra: FakeSender['extra'] = {}): FakeSender {
  const sender: FakeSender = { handed: [], answers: [], extra }
  senders.set(key, sender)
  return sender
}

/** For answers. */
export const sendError =
  (...args: ConstructorParameters<typeof SendError>) =>
  async (): Promise<Receipt> => {
    throw new SendError(...args)
  }

/** The provider of a key. */
export function senderOf(key: string): EmailSender & SmsSender {
  const sender = senders.get(key)
  if (!sender) throw new Error(`nobody has made a fake sender "${key}"`)
  const send = async (message: Handed, signal: AbortSignal): Promise<Receipt> => {
    sender.handed.push(message)
    const answer = sender.answers.shift()
    return answer ? answer(message, signal) : { id: `${key}-${sender.handed.length}`, detail: 'taken' }
  }
  // Capabilities may be given to it after the server has made it.
  return new Proxy(
    { send },
    {
      get: (own, name) => Reflect.get(sender.extra, name) ?? Reflect.get(own, name),
    },
  ) as EmailSender & SmsSender
}
