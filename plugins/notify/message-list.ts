import type { Attachment, Data } from 'rowhouse'
import { invalidPayload } from './errors.js'
import type { Recipients } from './recipients.js'

/** A message as returned by the API, without its contents. */
export interface MessageRecord {
  readonly id: string
  readonly kind: 'email' | 'email-template' | 'sms'
  readonly state: 'queued' | 'sending' | 'sent' | 'partly_sent' | 'caught' | 'failed' | 'unknown'
  readonly mode: 'queue' | 'sync'
  readonly to: string
  readonly from: string | null
  readonly from_name: string | null
  readonly sub: string | null
  readonly country_code: string | null
  /** The first 100 characters of an SMS, until it is sent. */
  readonly message: string | null
  readonly template: string | null
  readonly provider: string | null
  readonly provider_id: string | null
  readonly detail: string | null
  readonly error: string | null
  readonly error_code: string | null
  readonly attempts: number
  readonly next_at: string
  readonly created_at: string
  readonly sent_at: string | null
  readonly delivery: 'delivered' | 'deferred' | 'bounced' | 'complained' | null
  readonly delivery_detail: string | null
  readonly delivery_at: string | null
  /** Null unless recipients have outcomes of their own. */
  readonly recipients: Recipients
}

const time = (column: string) => `pg_catalog.to_json(${column}) #>> '{}' as ${column}`

export const MESSAGE_COLUMNS = `id::text, kind, state, mode, "to", "from", from_name, sub, country_code, template, provider,
  pg_catalog.left(message, 100) as message, provider_id, detail, error, error_code, attempts, ${time('next_at')}, ${time('created_at')}, ${time('sent_at')}, delivery,
  delivery_detail, ${time('delivery_at')}, recipients`

const STATES = ['queued', 'sending', 'sent', 'partly_sent', 'caught', 'failed', 'unknown']
/** They have a partial index, because they are few. */
const NOT_SENT: ReadonlySet<string> = new Set(STATES.filter((state) => state !== 'sent'))
const KINDS = ['email', 'email-template', 'sms']
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

interface MessagePage {
  readonly messages: readonly MessageRecord[]
  /** `before` of the next page; null on the last page. */
  readonly next: string | null
}

/** Lists messages, newest first. */
export class MessageList {
  constructor(private readonly data: Data) {}

  /** @param query of the URL: `state`, `kind`, `limit`, `before` @throws ServiceError 400 */
  async page(query: Readonly<Record<string, unknown>>): Promise<MessagePage> {
    const state = oneOf(query, 'state', STATES)
    const kind = oneOf(query, 'kind', KINDS)
    const limit = Number(query['limit'] ?? 50)
    if (!Number.isInteger(limit) || limit < 1 || limit > 1000)
      throw invalidPayload('expecting a number from 1 to 1000', '$.limit')
    const before = query['before']
    if (before !== undefined && !isId(before)) throw invalidPayload('expecting "next" of the previous page', '$.before')
    const rows = await this.data.query<MessageRecord>(
      `select ${MESSAGE_COLUMNS} from svc_catalog.svc_outbox
       where ${NOT_SENT.has(state ?? '') ? `state <> 'sent' and` : ''} ($1::text is null or state = $1)
         and ($2::text is null or kind = $2)
         and ($3::uuid is null or (created_at, id) < (select created_at, id from svc_catalog.svc_outbox where id = $3))
       order by svc_outbox.created_at desc, svc_outbox.id desc limit $4`,
      [state ?? null, kind ?? null, before ?? null, limit + 1],
    )
    return { messages: rows.slice(0, limit), next: rows.length > limit ? (rows[limit - 1]?.id ?? null) : null }
  }

  /** Returns a message with its contents, which are null after their deletion. Returns undefined if there is none. */
  async find(id: string): Promise<object | undefined> {
    if (!isId(id)) return undefined
    const [found] = await this.data.query(
      `select ${MESSAGE_COLUMNS}, text, html, message, content, cc, bcc, reply_to,
         coalesce((select pg_catalog.json_agg(pg_catalog.json_build_object('filename', filename, 'content_type', content_type, 'size', pg_catalog.length(content))
           order by position) from svc_catalog.svc_outbox_attachment where message_id = id), '[]') as attachments
       from svc_catalog.svc_outbox where id = $1`,
      [id],
    )
    return found
  }

  /** @param position in the list of attachments, from 0. Returns undefined if there is none, or none any more */
  async attachment(id: string, position: number): Promise<Attachment | undefined> {
    if (!isId(id)) return undefined
    const [found] = await this.data.query<Attachment>(
      `select filename, content_type as "contentType", content from svc_catalog.svc_outbox_attachment
       where message_id = $1 order by position offset $2 limit 1`,
      [id, position],
    )
    return found
  }
}

export const isId = (value: unknown): value is string => typeof value === 'string' && UUID.test(value)

function oneOf(query: Readonly<Record<string, unknown>>, key: string, values: readonly string[]): string | undefined {
  const value = query[key]
  if (value === undefined) return undefined
  if (typeof value === 'string' && values.includes(value)) return value
  throw invalidPayload(`expecting one of ${values.join(', ')}`, `$.${key}`)
}
