import { createHash, randomUUID } from 'node:crypto'
import { type Attachment, type EmailSender, type Receipt, ServiceError } from 'rowhouse'
import type { AttachmentDraft } from './attachments.js'
import { type Channel, maySendFrom } from './channel.js'
import type { NotifyConfig } from './config.js'
import type { Delivery } from './delivery.js'
import { invalidPayload, noTemplates, type WhyNot } from './errors.js'
import { domainOf } from './mailbox.js'
import { channelOf } from './message.js'
import type { NewMessage, Once, Outbox } from './outbox.js'
import type { Draft, Payload } from './payload.js'
import type { MessageRecord } from './record.js'
import type { Worker } from './worker.js'

/** What a request is answered with. */
export interface Sent extends Receipt {
  /** Of several recipients, in their order. */
  readonly results?: readonly ((Receipt & { readonly to: string }) | Failure)[]
}
interface Failure extends WhyNot {
  readonly to: string
  readonly code: string
  readonly message: string
}

/** With the ids of the messages. */
export interface Answered extends Sent {
  readonly messages: readonly string[]
}

export interface SendParts {
  readonly outbox: Outbox
  readonly delivery: Delivery
  readonly workers: Readonly<Record<'email' | 'sms', Worker>>
  readonly channels: Readonly<Record<'email' | 'sms', Channel>>
  readonly config: NotifyConfig
  /** Makes a mail of a template that is kept here; undefined: there is none of that name. */
  readonly render: (draft: Draft) => Promise<Draft | undefined>
  /** The bytes of a file of the filestore. */
  readonly readFile: (
    id: string,
    maxBytes: number,
  ) => Promise<{ readonly contentType: string; readonly content: Buffer }>
}

/** Sends messages on request: stored first, then handed over while the caller waits, or later. */
export class Sending {
  private readonly parts: SendParts

  constructor(parts: SendParts) {
    this.parts = parts
  }

  /**
   * @param once the caller's `Idempotency-Key`, if there is one
   * @throws ServiceError as the API promises it
   */
  async send(payload: Payload, once?: Pick<Once, 'caller' | 'key'>): Promise<Answered> {
    const { outbox, workers, delivery, config } = this.parts
    const request = once && { ...once, hash: hashOf(payload) }
    // What came before needs nothing that it needed then.
    const before = request && (await this.repeated(request, payload))
    if (before) return before
    const drafts = await this.prepare(payload.drafts)
    const attachments = await this.bytes(payload.attachments)
    const messages = drafts.map((draft): NewMessage => ({ ...draft, id: randomUUID() }))
    const mode = payload.queue ? 'queue' : 'sync'
    const since = performance.now()
    const stored = await outbox.put(messages, mode, attachments, config.queue.leaseSeconds, request)
    if (!stored) {
      const meanwhile = await this.repeated(request as Once, payload)
      if (meanwhile) return meanwhile
      throw inProgress()
    }
    const ids = messages.map(({ id }) => id)
    if (payload.queue) {
      workers[channelOf((messages[0] as NewMessage).kind)].wake()
      return { ...queued(ids, payload), messages: ids }
    }
    const records = await each(stored, config.queue.concurrency, (message) => delivery.deliver(message, since))
    return records.includes(undefined) ? this.answer(ids, payload) : answerOf(records as MessageRecord[], payload)
  }

  /** Whether these can be sent at all, and how. */
  async prepare(drafts: readonly Draft[]): Promise<readonly Draft[]> {
    const [first] = drafts as [Draft, ...Draft[]]
    const channel = this.parts.channels[channelOf(first.kind)]
    const { name, sender } = await channel.default()
    if (first.kind === 'sms') return drafts
    if (first.kind === 'email-template' && !(sender as EmailSender).sendTemplate) {
      // They differ in their recipients only.
      const made = await this.parts.render(first)
      if (!made) throw noTemplates(name, first.template as string)
      drafts = drafts.map(({ to }) => ({ ...made, to }))
    }
    if (!(await this.maySend(channel, first.from))) {
      const { domains = [] } = sender as EmailSender
      const path = first.kind === 'email' ? '$.from' : '$.fromEmail'
      throw invalidPayload(
        `${name} sends from ${domains.join(', ')} only, not from ${domainOf(first.from as string)}`,
        path,
      )
    }
    return drafts
  }

  /** @param from undefined: a permission sets it, and the provider is asked when it is sent */
  private async maySend(channel: Channel, from: Draft['from']): Promise<boolean> {
    if (typeof from !== 'string') return true
    for (const name of channel.providers) {
      const sender = await channel.sender(name).catch(() => undefined)
      if (sender === undefined || maySendFrom(sender as EmailSender, from)) return true
    }
    return false
  }

  private async bytes(drafts: readonly AttachmentDraft[]): Promise<readonly Attachment[]> {
    let left = this.parts.config.email.maxAttachmentBytes
    const stored: Attachment[] = []
    for (const draft of drafts) {
      if ('content' in draft) stored.push(draft)
      else {
        const { content, contentType } = await this.parts.readFile(draft.fileId, left)
        stored.push({ filename: draft.filename, contentType: draft.contentType ?? contentType, content })
      }
      left -= stored.at(-1)?.content.length ?? 0
    }
    return stored
  }

  /** The answer that the same request had before; undefined when there was none. */
  private async repeated(request: Once, payload: Payload): Promise<Answered | undefined> {
    const before = await this.parts.outbox.before(request)
    if (!before) return undefined
    if (before.hash.equals(request.hash)) return this.answer(before.messages, payload)
    throw new ServiceError(409, 'idempotency_key_reused', 'this Idempotency-Key came with another request before')
  }

  private async answer(ids: readonly string[], payload: Payload): Promise<Answered> {
    if (payload.queue) return { ...queued(ids, payload), messages: ids }
    const records = await this.parts.outbox.records(ids)
    if (records.length < ids.length) throw inProgress()
    return answerOf(records, payload)
  }
}

/** The answer for messages that were tried. @throws ServiceError when none was sent */
function answerOf(records: readonly MessageRecord[], { several }: Payload): Answered {
  if (records.some(isUnderWay)) throw inProgress()
  const messages = records.map(({ id }) => id)
  const [sent] = records.filter(({ state }) => state === 'sent')
  if (!sent) throw errorOf(records[0] as MessageRecord)
  if (!several) return { ...receiptOf(sent), messages }
  const results = records.map((record) => {
    if (record.state === 'sent') return { to: record.to, ...receiptOf(record) }
    const { code, message, internal } = errorOf(record)
    return { to: record.to, code, message, ...(internal as WhyNot) }
  })
  const count = results.filter((result) => !('code' in result)).length
  return { id: sent.provider_id as string, detail: `${count} of ${records.length} sent`, results, messages }
}

/** The answer for messages that are stored. */
export function queued(ids: readonly string[], { several, drafts }: Payload): Sent {
  const one = { id: ids[0] as string, detail: 'queued' }
  return several
    ? { ...one, results: ids.map((id, i) => ({ to: drafts[i]?.to as string, id, detail: 'queued' })) }
    : one
}

const isUnderWay = ({ state }: MessageRecord): boolean => state === 'queued' || state === 'sending'
const receiptOf = ({ provider_id, detail }: MessageRecord): Receipt => ({
  id: provider_id as string,
  detail: detail as string,
})
const inProgress = () =>
  new ServiceError(409, 'in_progress', 'the same request is still being worked on', '$', { retryAfter: 1 })

const STATUS: Readonly<Record<string, number>> = {
  invalid_payload: 400,
  suppressed: 400,
  not_allowed: 400,
  too_many: 429,
}

/** Why a message was not sent, as the API promises it. */
export function errorOf({ id, kind, state, provider, detail, error, error_code }: MessageRecord): ServiceError {
  const code = error_code ?? 'unexpected'
  const internal: WhyNot = { id, state, provider, detail: [error, detail].filter(Boolean).join(': ') }
  const status = STATUS[code] ?? 500
  if (status !== 500) return new ServiceError(status, code, error ?? '', '$', { internal })
  const message =
    code === 'response_changed'
      ? (detail ?? '')
      : `unexpected response from the ${kind === 'sms' ? 'sms' : 'email'} provider`
  return new ServiceError(500, code, message, '$', { internal })
}

/** Of what the caller wants, not of how it is written. */
function hashOf({ drafts, attachments, queue }: Payload): Buffer {
  const hash = createHash('sha256').update(JSON.stringify([drafts, queue]))
  for (const attachment of attachments) {
    const { filename, contentType } = attachment
    const bytes =
      'content' in attachment ? createHash('sha256').update(attachment.content).digest('hex') : attachment.fileId
    hash.update(JSON.stringify([filename, contentType, bytes]))
  }
  return hash.digest()
}

/** So many at once; the results are in the order of the items. */
async function each<T, R>(items: readonly T[], atOnce: number, fn: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const run = async () => {
    while (next < items.length) {
      const i = next++
      results[i] = await fn(items[i] as T)
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, run))
  return results
}
