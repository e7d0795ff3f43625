import type { Attachment, Data, Transaction } from 'rowhouse'
import { type Channel, type ClaimedMessage, type NewMessage } from './message.js'
import { MESSAGE_COLUMNS, type MessageRecord } from './message-list.js'
import type { Recipients } from './recipients.js'

const TABLE = 'svc_catalog.svc_outbox'

/** The columns of a new message. */
const NEW_COLUMNS = `id, kind, "to", "from", from_name, sub, text, html, cc, bcc, reply_to, template, content, country_code,
  message, at_most_once, mode`

const CONTENTS = ['text', 'html', 'message', 'content', 'cc', 'bcc', 'reply_to']
/** Deletes the contents of a message that a provider has accepted. */
export const DELETE_CONTENTS = CONTENTS.map((name) => `${name} = null`).join(', ')

/** The detail of a message that no answer of the provider confirmed. */
export const CONFIRMED_BY_EVENT = 'confirmed by an event of the provider'
/** A list with one reference. The arguments are SQL. */
export const REFERENCE = (provider: string, id: string) =>
  `pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object('provider', ${provider}::text, 'id', ${id}::text))`
/** The column `accepted` with one more reference, unless it has it. */
export const ACCEPTED = (provider: string, id: string) =>
  `case when accepted @> ${REFERENCE(provider, id)} then accepted
    else coalesce(accepted, '[]') || ${REFERENCE(provider, id)} end`

/** The columns of `ClaimedMessage`. */
const CLAIMED = `${NEW_COLUMNS}, o.attempts, o.claims, o.losses, o.provider, o.recipients, o.events,
  extract(epoch from pg_catalog.now() - o.unknown_since)::float8 as unknown_for, extract(epoch from pg_catalog.now() - o.queued_at)::float8 as age,
  (select pg_catalog.json_agg(pg_catalog.json_build_object('filename', filename, 'content_type', content_type, 'content', pg_catalog.encode(content, 'base64'))
    order by position) from svc_catalog.svc_outbox_attachment a where a.message_id = o.id) as attachments`

/** The messages of a channel in one state. */
export interface Backlog {
  readonly channel: Channel
  readonly state: 'queued' | 'sending' | 'partly_sent' | 'failed' | 'unknown'
  readonly count: number
  /** Seconds since the oldest was queued. */
  readonly age: number
}

/** The result of one attempt to send a message. */
export type AttemptResult = AcceptedResult | OtherResult

/** A provider's reference of a message. */
interface Reference {
  readonly provider: string
  readonly id: string
}

interface AcceptedResult {
  /** The contents of a message that was caught are kept. */
  readonly state: 'sent' | 'caught'
  readonly provider: string
  readonly providerId: string
  readonly detail: string
}
interface OtherResult {
  readonly state: 'partly_sent' | 'failed' | 'unknown' | 'queued'
  readonly recipients: Recipients
  /** Of the provider that has accepted the message for some recipients. */
  readonly reference: Reference | null
  readonly error: string
  readonly code: string
  /** The provider's response. */
  readonly detail: string | null
  /** The provider that failed, or that may have sent the message. */
  readonly provider: string | null
  /** Seconds since `provider` may have sent the message; null if it has not. */
  readonly unknownFor: number | null
  /** Seconds until the next attempt. */
  readonly retryIn: number
  /** Whether a provider was called. If not, the previous error is kept as well. */
  readonly called: boolean
}
export const isAccepted = (result: AttemptResult): result is AcceptedResult =>
  result.state === 'sent' || result.state === 'caught'

/** Stores and claims the messages in the database. */
export class Outbox {
  constructor(private readonly data: Data) {}

  /**
   * Stores messages, all or none, before any of them is sent. Messages of mode `sync` are claimed in the same statement: the
   * caller delivers them, and no other process does until the lease ends.
   */
  async put(
    messages: readonly NewMessage[],
    mode: 'queue' | 'sync',
    attachments: readonly Attachment[],
    leaseSeconds: number,
    transaction?: Transaction,
  ): Promise<readonly ClaimedMessage[]> {
    const rows = messages.map((message) => ({ ...message, mode }))
    const files = attachments.map(({ filename, contentType, content }, position) => ({
      position,
      filename,
      content_type: contentType,
      content: content.toString('base64'),
    }))
    await this.data.query(PUT, [JSON.stringify(rows), JSON.stringify(files), leaseSeconds], transaction)
    return rows.map((row) => ({ ...NEW, ...row, attachments }))
  }

  /**
   * Claims messages of a channel that are due: no other process gets them until the lease ends.
   * @param provider is assigned to messages without one
   */
  async claim(
    channel: Channel,
    limit: number,
    leaseSeconds: number,
    provider: string | null,
  ): Promise<readonly ClaimedMessage[]> {
    const rows = await this.data.query<ClaimedRow>(CLAIM, [channel === 'sms', limit, leaseSeconds, provider])
    return rows.map((row) => ({ ...row, attachments: (row.attachments ?? []).map(attachment) }))
  }

  /** Stores the provider to call next. @returns false when another process has claimed the message since */
  async assign({ id, claims }: ClaimedMessage, provider: string): Promise<boolean> {
    const rows = await this.data.query(`update ${TABLE} set provider = $3 where ${OWNED} returning 1`, [
      id,
      claims,
      provider,
    ])
    return rows.length > 0
  }

  /**
   * Stores a result, unless events have arrived that it does not contain.
   * @param events those that it contains
   * @returns the updated message; undefined for such events, and when another process has claimed it since
   */
  async storeResult(
    { id, claims }: ClaimedMessage,
    result: AttemptResult,
    events: ClaimedMessage['events'],
  ): Promise<MessageRecord | undefined> {
    const known = events && JSON.stringify(events)
    const [record] = isAccepted(result)
      ? await this.data.query<MessageRecord>(result.state === 'caught' ? CAUGHT : SENT, [
          id,
          claims,
          known,
          result.provider,
          result.providerId,
          result.detail,
        ])
      : await this.data.query<MessageRecord>(NOT_SENT, [
          id,
          claims,
          known,
          result.state,
          result.error,
          result.code,
          result.detail,
          result.provider,
          result.unknownFor,
          result.retryIn,
          result.called,
          result.reference?.provider ?? null,
          result.reference?.id ?? null,
          result.recipients && JSON.stringify(result.recipients),
        ])
    return record
  }

  /** @returns what was posted since the message was claimed; undefined when another process has claimed it since */
  async eventsSince({ id, claims }: ClaimedMessage): Promise<ClaimedMessage['events'] | undefined> {
    const [found] = await this.data.query<Pick<ClaimedMessage, 'events'>>(
      `select events from ${TABLE} where ${OWNED}`,
      [id, claims],
    )
    return found?.events
  }

  /** Returns messages in the order of `ids`. */
  async records(ids: readonly string[]): Promise<readonly MessageRecord[]> {
    return this.data.query<MessageRecord>(
      `select ${MESSAGE_COLUMNS} from ${TABLE} where id = any($1::uuid[]) order by pg_catalog.array_position($1::uuid[], id)`,
      [ids],
    )
  }

  /**
   * Queues a `failed`, `unknown` or `partly_sent` message again, the latter for the recipients who did not get it.
   * @returns false for any other message, or one without contents
   */
  async requeue(id: string): Promise<boolean> {
    const rows = await this.data.query(
      `update ${TABLE} set state = 'queued', mode = 'queue', claims = claims + 1, losses = 0, next_at = pg_catalog.now(),
         queued_at = pg_catalog.now(), provider = null, unknown_since = null, error = null, error_code = null, detail = null,
         delivery = ${OF_SOME('delivery')}, delivery_detail = ${OF_SOME('delivery_detail')}, delivery_at = ${OF_SOME('delivery_at')},
         recipients = case when state = 'partly_sent' then ${REOPENED} end
       where id = $1 and state in ('failed', 'unknown', 'partly_sent') and (text is not null or html is not null or message is not null
         or kind = 'email-template') returning 1`,
      [id],
    )
    return rows.length > 0
  }

  /** Counts the SMS to the same number in the hour before this one. */
  async smsWithinHour(id: string): Promise<number> {
    return this.count(
      `o.country_code || o."to" = m.country_code || m."to" and o.created_at > m.created_at - interval '1 hour'`,
      id,
    )
  }
  /** Counts all SMS in the day before this one. */
  async smsWithinDay(id: string): Promise<number> {
    return this.count(`o.created_at > m.created_at - interval '1 day'`, id)
  }
  private async count(condition: string, id: string): Promise<number> {
    const [counted] = await this.data.query<{ count: number }>(
      `select pg_catalog.count(*)::int from ${TABLE} m, ${TABLE} o where m.id = $1 and o.kind = 'sms' and o.state <> 'failed'
         and (o.created_at, o.id) < (m.created_at, m.id) and ${condition}`,
      [id],
    )
    return counted?.count ?? 0
  }

  /** Counts the messages that were not sent, or not to all. */
  async backlog(): Promise<readonly Backlog[]> {
    return this.data.query<Backlog>(
      `select case kind when 'sms' then 'sms' else 'email' end as channel, state, pg_catalog.count(*)::int as count,
         extract(epoch from pg_catalog.now() - pg_catalog.min(queued_at))::float8 as age
       from ${TABLE} where state <> 'sent' and state <> 'caught' group by 1, 2`,
    )
  }

  /** Deletes up to 1,000 old messages. @returns whether there may be more */
  async prune(keepDays: number): Promise<boolean> {
    const deleted = await this.data.query(
      `delete from ${TABLE} where id in (select id from ${TABLE} where state not in ('queued', 'sending')
         and created_at < pg_catalog.now() - pg_catalog.make_interval(days => $1) order by created_at limit 1000) returning 1`,
      [keepDays],
    )
    return deleted.length === 1000
  }
}

/** A message that was just stored. */
const NEW = {
  attempts: 0,
  claims: 0,
  losses: 0,
  provider: null,
  recipients: null,
  events: null,
  unknown_for: null,
  age: 0,
} as const

type ClaimedRow = Omit<ClaimedMessage, 'attachments'> & { readonly attachments: readonly StoredFile[] | null }
interface StoredFile {
  readonly filename: string
  readonly content_type: string
  /** base64, which PostgreSQL breaks into lines */
  readonly content: string
}
const attachment = (file: StoredFile): Attachment => ({
  filename: file.filename,
  contentType: file.content_type,
  content: Buffer.from(file.content, 'base64'),
})

const MESSAGES = `insert into ${TABLE} (${NEW_COLUMNS}, next_at) select ${NEW_COLUMNS}, pg_catalog.now() + pg_catalog.make_interval(secs => $3)
  from pg_catalog.json_populate_recordset(null::${TABLE}, $1::json)`
const ATTACHMENTS = `insert into svc_catalog.svc_outbox_attachment (message_id, position, filename, content_type, content)
  select m.id, a.position, a.filename, a.content_type, pg_catalog.decode(a.content, 'base64') from m,
  pg_catalog.json_to_recordset($2::json) as a (position int, filename text, content_type text, content text)`
const PUT = `with m as (${MESSAGES} returning id), a as (${ATTACHMENTS}) select 1 from m`

const CLAIM = `with due as (
    select id, state = 'sending' as lost from ${TABLE}
    where state in ('queued', 'sending') and next_at <= pg_catalog.now() and (kind = 'sms') = $1
    order by next_at limit $2 for update skip locked),
  o as (
    update ${TABLE} t set state = 'sending', claims = t.claims + 1, next_at = pg_catalog.now() + pg_catalog.make_interval(secs => $3),
      provider = coalesce(t.provider, $4::text),
      unknown_since = case when due.lost then coalesce(t.unknown_since, t.next_at - pg_catalog.make_interval(secs => $3))
        else t.unknown_since end,
      losses = t.losses + due.lost::int
    from due where t.id = due.id returning t.*)
  select ${CLAIMED} from o`

const OWNED = `id = $1 and claims = $2 and state in ('queued', 'sending')`
/** $3 are the events that the result contains. */
const AS_KNOWN = `${OWNED} and events is not distinct from $3::jsonb`
const DONE = `sent_at = pg_catalog.now(), attempts = attempts + 1, provider = $4, provider_id = $5, detail = $6,
  error = null, error_code = null, unknown_since = null, recipients = null, events = null`
const CAUGHT = `update ${TABLE} set state = 'caught', ${DONE} where ${AS_KNOWN} returning ${MESSAGE_COLUMNS}`
const SENT = `with m as (update ${TABLE} set state = 'sent', ${DONE}, ${DELETE_CONTENTS} where ${AS_KNOWN} returning *),
  a as (delete from svc_catalog.svc_outbox_attachment where message_id in (select id from m))
  select ${MESSAGE_COLUMNS} from m`
/** What stays of a message that some recipients got. */
const OF_SOME = (column: string) => `case when state = 'partly_sent' then ${column} end`
/** The recipients who did not get a message, to be tried again. */
const REOPENED = `(select pg_catalog.jsonb_agg(case when r ->> 'outcome' = 'sent' then r
      else r - 'delivery' - 'delivery_detail' || '{"outcome": "postponed"}' end order by n)
  from pg_catalog.jsonb_array_elements(recipients) with ordinality as e (r, n))`
/** $11 is whether a provider was called. If not, the new error is followed by that of the last call. */
const NOT_SENT = `update ${TABLE} set state = $4,
    error = $5 || case when $11 then '' else coalesce('; before that: ' || pg_catalog.split_part(error, '; before that: ', -1), '') end,
    error_code = coalesce(case when $11 then null else error_code end, $6),
    detail = coalesce($7, case when $11 then null else detail end),
    attempts = attempts + case when $11 then 1 else 0 end, provider = $8,
    losses = case when $11 then 0 else losses end, provider_id = coalesce($13, provider_id),
    accepted = case when $13 is null then accepted else ${ACCEPTED('$12', '$13')} end, recipients = $14, events = null,
    sent_at = case when $4 = 'partly_sent' then pg_catalog.now() end,
    unknown_since = case when $9::float8 is null then null
      else coalesce(unknown_since, pg_catalog.now() - pg_catalog.make_interval(secs => $9)) end,
    next_at = pg_catalog.now() + pg_catalog.make_interval(secs => $10)
  where ${AS_KNOWN} returning ${MESSAGE_COLUMNS}`
