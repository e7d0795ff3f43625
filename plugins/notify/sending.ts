import {
  type Attachment,
  type Call,
  type Data,
  type EmailSender,
  type ErrorCode,
  ERRORS,
  jsonAnswer,
  type Mail,
  type Receipt,
  type ServiceError,
  serviceError,
  type TemplateMail,
} from 'rowhouse'
import type { Worker } from 'rowhouse/queue'
import type { AttachmentSource } from './attachments.js'
import type { NotifyConfig } from './config.js'
import type { Delivery } from './delivery.js'
import { type DeliveryProblem, invalidPayload, noTemplates, notFound } from './errors.js'
import { domainOf } from './mailbox.js'
import { type Channel, channelOf, type ClaimedMessage, type NewMessage, providerMessage } from './message.js'
import type { MessageRecord } from './message-list.js'
import type { Outbox } from './outbox.js'
import type { Payload } from './payload.js'
import { maySendFrom, type ProviderChain } from './provider-chain.js'

/** The body of a successful answer. */
interface SendResponse extends Receipt {
  /** Set if only some recipients of the mail got it: `recipients` has the outcome of each. */
  readonly state?: 'partly_sent'
  /** Results for a list of recipients, in its order. */
  readonly results?: readonly ((Receipt & { readonly to: string }) | Failure)[]
}
interface Failure extends DeliveryProblem {
  readonly to: string
  readonly code: string
  readonly message: string
}

interface SendingComponents {
  readonly data: Pick<Data, 'isKept' | 'once'>
  readonly outbox: Outbox
  readonly delivery: Delivery
  readonly workers: Readonly<Record<Channel, Pick<Worker<never>, 'wake'>>>
  readonly chains: Readonly<Record<Channel, ProviderChain>>
  readonly config: NotifyConfig
  /** Renders a template that is stored in Rowhouse. Returns undefined if there is none of that name. */
  readonly render: (message: NewMessage) => Promise<NewMessage | undefined>
  /** Reads a file of the filestore. */
  readonly readFile: (
    id: string,
    maxBytes: number,
  ) => Promise<{ readonly contentType: string; readonly content: Buffer }>
}

/** Sends messages on request. Stores each first, then sends it while the caller waits, or later. */
export class Sending {
  constructor(private readonly components: SendingComponents) {}

  /**
   * @param call of a request, which may have an `Idempotency-Key`: what is kept for it is the ids, and the answer is what has
   *   become of the messages
   * @returns the ids of the messages, and the answer for the caller
   * @throws ServiceError as documented for the API
   */
  async send(
    payload: Payload,
    call?: Call,
  ): Promise<{ readonly ids: readonly string[]; readonly response: SendResponse }> {
    const { data, outbox, workers, delivery, config } = this.components
    const { messages, queue } = payload
    const own = messages.map(({ id }) => id)
    // Outside of the transaction, because it may take long. A repeated request no longer needs the provider, template or files.
    let ready = call && (await data.isKept(call)) ? undefined : await this.ready(payload)
    let stored: readonly ClaimedMessage[] = []
    const store = async ({ transaction }: Pick<Call, 'transaction'>) => {
      ready ??= await this.ready(payload)
      const mode = queue ? 'queue' : 'sync'
      stored = await outbox.put(ready.messages, mode, ready.attachments, config.queue.leaseSeconds, transaction)
      return jsonAnswer(own)
    }
    const since = performance.now()
    const { text } = call ? await data.once(call, store) : await store({})
    const ids = JSON.parse(text) as readonly string[]
    if (queue) {
      workers[channelOf((messages[0] as NewMessage).kind)].wake()
      return { ids, response: queuedResponse(ids, payload) }
    }
    if (ids[0] !== own[0]) return { ids, response: await this.storedResponse(ids, payload) }
    const records = await mapConcurrently(stored, Math.max(1, config.queue.concurrency), (message) =>
      delivery.deliver(message, since),
    )
    const response = records.includes(undefined)
      ? await this.storedResponse(ids, payload)
      : responseOf(records as MessageRecord[], payload)
    return { ids, response }
  }

  private async ready({ messages: given, attachments: sources }: Payload) {
    const messages = await this.prepare(given)
    const attachments = await this.readAttachments(sources)
    await this.checkProviders(messages, attachments)
    return { messages, attachments }
  }

  /**
   * Checks that a provider can send these messages, and renders a template that is stored in Rowhouse.
   * @throws ServiceError as documented for the API
   */
  async prepare(messages: readonly NewMessage[]): Promise<readonly NewMessage[]> {
    const [first] = messages as [NewMessage, ...NewMessage[]]
    const chain = this.components.chains[channelOf(first.kind)]
    const { name, sender } = await chain.default()
    if (first.kind === 'sms') return messages
    if (first.kind === 'email-template' && !(sender as EmailSender).sendTemplate) {
      // The messages differ only in their recipients.
      const rendered = await this.components.render(first)
      if (!rendered) throw noTemplates(name, first.template as string)
      messages = messages.map(({ id, to }) => ({ ...rendered, id, to }))
    }
    if (!(await this.maySend(chain, first.from))) {
      const { domains = [] } = sender as EmailSender
      const path = first.kind === 'email' ? '$.from' : '$.fromEmail'
      throw invalidPayload(
        `${name} sends from ${domains.join(', ')} only, not from ${domainOf(first.from as string)}`,
        path,
      )
    }
    return messages
  }

  /**
   * Checks the limits of the providers before anything is stored.
   * @throws ServiceError 400 when no provider can ever send one of these mails
   */
  async checkProviders(messages: readonly NewMessage[], attachments: readonly Attachment[]): Promise<void> {
    for (const message of messages) {
      if (message.kind === 'sms' || !isComplete(message)) continue
      let mail: Mail | TemplateMail
      try {
        mail = providerMessage({ ...message, attachments }) as Mail | TemplateMail
      } catch {
        // The attempt to send it fails with this error.
        continue
      }
      const problem = await this.components.chains.email.problemWith(mail)
      if (problem !== undefined) throw invalidPayload(problem)
    }
  }

  /** @param from absent if a permission sets it; then it is checked when the message is sent */
  private async maySend(chain: ProviderChain, from: NewMessage['from']): Promise<boolean> {
    if (typeof from !== 'string') return true
    for (const name of chain.providers) {
      const sender = await chain.sender(name).catch(() => undefined)
      if (sender === undefined || maySendFrom(sender as EmailSender, from)) return true
    }
    return false
  }

  private async readAttachments(sources: readonly AttachmentSource[]): Promise<readonly Attachment[]> {
    let left = this.components.config.email.maxAttachmentBytes
    const attachments: Attachment[] = []
    for (const source of sources) {
      if ('content' in source) attachments.push(source)
      else {
        const { content, contentType } = await this.components.readFile(source.fileId, left)
        attachments.push({ filename: source.filename, contentType: source.contentType ?? contentType, content })
      }
      left -= attachments.at(-1)?.content.length ?? 0
    }
    return attachments
  }

  private async storedResponse(ids: readonly string[], payload: Payload): Promise<SendResponse> {
    const records = await this.components.outbox.records(ids)
    if (records.length < ids.length) throw notFound(ids[0] as string)
    return responseOf(records, payload)
  }
}

/** Returns whether no field of a mail is left to a permission. It is otherwise checked when it is sent. */
const isComplete = ({ to, from, kind, sub }: NewMessage): boolean =>
  typeof to === 'string' && typeof from === 'string' && (kind === 'email-template' || typeof sub === 'string')

/** Returns the answer after an attempt for each message. @throws ServiceError when none was sent */
function responseOf(records: readonly MessageRecord[], { several }: Payload): SendResponse {
  if (records.some(isInProgress)) throw inProgress()
  const [sent] = records.filter(isSent)
  if (!sent) throw errorOf(records[0] as MessageRecord)
  if (!several) return receiptOf(sent)
  const results = records.map((record) => {
    if (isSent(record)) return { to: record.to, ...receiptOf(record) }
    const { code, message, internal } = errorOf(record)
    return { to: record.to, code, message, ...(internal as DeliveryProblem) }
  })
  const count = results.filter((result) => !('code' in result)).length
  return { id: sent.provider_id as string, detail: `${count} of ${records.length} sent`, results }
}

/** Returns the answer for messages that will be sent later. */
export function queuedResponse(ids: readonly string[], { several, messages }: Payload): SendResponse {
  const one = { id: ids[0] as string, detail: 'queued' }
  return several
    ? { ...one, results: ids.map((id, i) => ({ to: messages[i]?.to as string, id, detail: 'queued' })) }
    : one
}

const isInProgress = ({ state }: MessageRecord): boolean => state === 'queued' || state === 'sending'
/** Whether a provider has accepted the message, at least for some recipients. */
const isSent = ({ state }: MessageRecord): boolean => ['sent', 'caught', 'partly_sent'].includes(state)
const receiptOf = ({ state, provider_id, detail, recipients }: MessageRecord): SendResponse => ({
  id: provider_id as string,
  detail: detail as string,
  ...(state === 'partly_sent' && recipients !== null ? { state, recipients } : {}),
})
const inProgress = () => serviceError('in_progress', 'the same request is still in progress', '$', { retryAfter: 1 })

/** Returns the documented error for a message that was not sent. */
function errorOf({ id, kind, state, provider, detail, error, error_code, recipients }: MessageRecord): ServiceError {
  const internal: DeliveryProblem = {
    id,
    state,
    provider,
    detail: [error, detail].filter(Boolean).join(': '),
    ...(recipients === null ? {} : { recipients }),
  }
  const code = error_code !== null && Object.hasOwn(ERRORS, error_code) ? (error_code as ErrorCode) : 'unexpected'
  const known = serviceError(code, error ?? '', '$', { internal })
  if (known.status !== 500) return known
  const message =
    code === 'response_changed'
      ? (detail ?? '')
      : `unexpected response from the ${kind === 'sms' ? 'sms' : 'email'} provider`
  return serviceError(code, message, '$', { internal })
}

/** @returns the results in the order of the items */
async function mapConcurrently<T, R>(
  items: readonly T[],
  concurrency: number,
  map: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const run = async () => {
    while (next < items.length) {
      const i = next++
      results[i] = await map(items[i] as T)
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, run))
  return results
}
