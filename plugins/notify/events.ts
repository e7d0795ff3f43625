import type { Context } from 'koa'
import { type Data, type DeliveryEvent, type Host, readBody, serviceError } from 'rowhouse'
import { afterEvent, isNotEarlier, type ProviderEvent, type Standing } from './after-event.js'
import type { Channel } from './message.js'
import { isId } from './message-list.js'
import { ACCEPTED, CONFIRMED_BY_EVENT, DELETE_CONTENTS, REFERENCE } from './outbox.js'
import { storable } from './provider-reply.js'
import type { Suppression } from './suppression.js'

const MAX_BYTES = 1024 * 1024
const TIMEOUT_MS = 10_000
const KINDS: readonly string[] = ['email', 'sms'] satisfies Channel[]

/**
 * Adds `POST /v1/send/events/<kind>/<provider>`, to which providers post deliveries, bounces and complaints. It answers 404
 * unless the provider is configured to verify signatures, and needs no other authentication.
 */
export function eventRoutes(host: Host, suppression: Suppression): void {
  const data = host.use('data')
  const counter = host.metric.counter('events_total', 'events that providers posted about messages', ['kind', 'event'])
  host.proves('/v1/send/events/')
  host.router.post('/v1/send/events/:kind/:provider', async (ctx: Context) => {
    const { kind, provider } = ctx['params'] as { kind: string; provider: string }
    const sender = await senderOf(host, kind, provider)
    if (!sender?.events) throw serviceError('not-found', 'no provider is configured to post events here')
    const body = await readBody(ctx.req, { maxBytes: MAX_BYTES, setting: 'of events', timeoutMs: TIMEOUT_MS })
    const posted = await sender.events({ headers: first(ctx.headers), query: first(ctx.query), body })
    const events = posted.map(withStorableTexts)
    for (const event of events) {
      await storeEvent(data, provider, event)
      if (event.permanent && event.address !== undefined) {
        await suppression.add(event.address, `${event.kind}: ${event.detail}`.slice(0, 900))
      }
      counter.inc({ kind, event: event.kind })
    }
    ctx.body = { events: events.length }
  })
}

async function senderOf(host: Host, kind: string, provider: string) {
  if (!KINDS.includes(kind)) return undefined
  return host.provider(kind as Channel, provider).catch((error: { readonly code?: string }) => {
    if (error.code === 'not-configured') return undefined
    throw error
  })
}

interface Found extends Standing {
  readonly id: string
  readonly delivery: DeliveryEvent['kind'] | null
  /** Events since the message was claimed. */
  readonly events: readonly ProviderEvent[] | null
}

/**
 * The messages of an event: those with the provider's reference, also one of an earlier attempt, or with our id. An event with
 * our id may arrive before the result of its message is stored, and of a message that may be with any provider.
 */
const FIND = `select id, state, recipients, events, delivery, unknown_since is not null as uncertain from svc_catalog.svc_outbox
  where (provider = $1 and provider_id = $2) or accepted @> ${REFERENCE('$1', '$2')}
    or (id = $3::uuid and (provider = $1 or provider is null or state = 'unknown'
      or accepted @> pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object('provider', $1::text))))`

/** Changes a message that is still as it was found. */
const UPDATE = (
  more: string,
) => `update svc_catalog.svc_outbox set state = $6, recipients = $7::jsonb, events = $8::jsonb,
    delivery = case when $9 then $10 else delivery end, delivery_detail = case when $9 then $11 else delivery_detail end,
    delivery_at = case when $9 then pg_catalog.now() else delivery_at end, 
    unknown_since = case when $12 or state = 'sending' then unknown_since end
    ${more}
  where id = $1 and state = $2 and recipients is not distinct from $3::jsonb and events is not distinct from $4::jsonb
    and delivery is not distinct from $5 returning id`
const CONFIRMED = `, sent_at = pg_catalog.now(), provider = $13, provider_id = $14, detail = '${CONFIRMED_BY_EVENT}'`
const KEEP_REFERENCE = `, accepted = ${ACCEPTED('$13', '$14')}`
const TOLD = UPDATE('')
const SOME_GOT_IT = UPDATE(KEEP_REFERENCE)
const PARTLY_SENT = UPDATE(CONFIRMED + KEEP_REFERENCE)
const SENT = `with m as (${UPDATE(`${CONFIRMED}, error = null, error_code = null, ${DELETE_CONTENTS}`)}),
  a as (delete from svc_catalog.svc_outbox_attachment where message_id in (select id from m))
  select id from m`

/** Stores an event. What it changes depends on what is stored, so it tries again if that has changed in between. */
async function storeEvent(data: Data, provider: string, { message, ...posted }: DeliveryEvent): Promise<void> {
  const { id, kind, detail, address } = posted
  const event: ProviderEvent = { provider, id, kind, detail, ...(address === undefined ? {} : { address }) }
  let open: readonly string[] | undefined
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const found = await data.query<Found>(FIND, [provider, event.id, isId(message) ? message : null])
    const left = found.filter((each) => open?.includes(each.id) ?? true)
    const missed: string[] = []
    for (const each of left) if (!(await change(data, each, event))) missed.push(each.id)
    if (missed.length === 0) return
    open = missed
  }
  throw serviceError('unavailable', 'the message is being changed; post the event again', '$', { retryAfter: 1 })
}
/** Maximum number of changes in between. Each is that of a claim, a result or another event. */
const MAX_TRIES = 20

/** @returns false when the message has changed since it was found */
async function change(data: Data, before: Found, event: ProviderEvent): Promise<boolean> {
  // The server that sends it adds the events to its result.
  const isSending = before.state === 'sending'
  const after = isSending ? before : afterEvent(before, event)
  const events = isSending ? [...(before.events ?? []).filter((each) => !isSame(each, event)), event] : before.events
  const values = [
    before.id,
    before.state,
    json(before.recipients),
    json(before.events),
    before.delivery,
    after.state,
    json(after.recipients),
    json(events),
    isNotEarlier(event.kind, before.delivery),
    event.kind,
    event.detail,
    after.uncertain,
  ]
  const changed = await (after.proof === undefined
    ? data.query(TOLD, values)
    : data.query(statementFor(before, after), [...values, event.provider, event.id]))
  return changed.length > 0
}

function statementFor(before: Standing, after: Standing): string {
  if (after.state === 'sent') return SENT
  return after.state === before.state ? SOME_GOT_IT : PARTLY_SENT
}

const json = (value: unknown) => value && JSON.stringify(value)
const isSame = (a: ProviderEvent, b: ProviderEvent): boolean =>
  a.provider === b.provider && a.id === b.id && a.kind === b.kind && a.address === b.address

const withStorableTexts = ({ id, detail, address, ...rest }: DeliveryEvent): DeliveryEvent => ({
  ...rest,
  id: storable(id),
  detail: storable(detail),
  ...(address === undefined ? {} : { address: storable(address) }),
})

/** Returns the first value of each name. */
const first = (values: Readonly<Record<string, string | readonly string[] | undefined>>) =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, typeof value === 'string' ? value : value?.[0]] as const),
  )
