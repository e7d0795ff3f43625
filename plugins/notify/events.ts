import type { Context } from 'koa'
import { type Data, type DeliveryEvent, type Host, readBody, serviceError } from 'rowhouse'
import type { Channel } from './message.js'
import { isId } from './message-list.js'
import { DELETE_CONTENTS } from './outbox.js'
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
    const events = await sender.events({ headers: first(ctx.headers), query: first(ctx.query), body })
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

/** Events arrive in any order. An earlier stage does not replace a later one. */
const STAGE = `pg_catalog.array_position(array['deferred', 'delivered', 'bounced', 'complained'], `
const notEarlier = (delivery: string) => `coalesce(${STAGE} ${delivery}), 0) <= ${STAGE} $3::text)`
const SET_DELIVERY = `delivery = case when not_earlier then $3 else delivery end,
  delivery_detail = case when not_earlier then pg_catalog.left($4, 1000) else delivery_detail end,
  delivery_at = case when not_earlier then pg_catalog.now() else delivery_at end`
const CONFIRMED = `sent_at = pg_catalog.now(), provider = $1, provider_id = $2, unknown_since = null,
  detail = 'confirmed by an event of the provider'`

/** The recipients after an event about one of them. One without an address is about all that may have got the message. */
const RECIPIENTS = `(select pg_catalog.jsonb_agg(case
      when $6::text is not null and pg_catalog.lower(r ->> 'address') <> pg_catalog.lower($6) then r
      else r || case when r ->> 'outcome' = 'unknown' then '{"outcome": "sent"}' else '{}'::jsonb end
        || case when $6::text is not null and ${notEarlier(`r ->> 'delivery'`)}
          then pg_catalog.jsonb_build_object('delivery', $3::text, 'delivery_detail', pg_catalog.left($4, 1000)) else '{}' end
      end order by n)
    from pg_catalog.jsonb_array_elements(o.recipients) with ordinality as e (r, n))`
const SOME = (...outcomes: readonly string[]) =>
  `(${outcomes.map((outcome) => `recipients @> '[{"outcome": "${outcome}"}]'`).join(' or ')})`

/**
 * An event may arrive before the result of its message is stored; $5, our id, then identifies the message. An event proves
 * that the provider accepted the message: one in state `unknown` becomes `sent`, or `partly_sent` if others of its
 * recipients did not get it. When all got it, its contents are deleted.
 */
const STORE_EVENT = `with found as (
    select o.id, o.state, ${notEarlier('o.delivery')} as not_earlier, ${RECIPIENTS} as recipients
    from svc_catalog.svc_outbox o
    where (o.provider = $1 and o.provider_id = $2) or (o.id = $5::uuid and (o.provider = $1 or o.state = 'unknown'))
    for update),
  judged as (
    select id, state, not_earlier, recipients,
      case when recipients is null then state = 'unknown'
        else state in ('unknown', 'partly_sent', 'queued') and not ${SOME('unknown', 'postponed', 'refused')} end as all_got_it,
      coalesce(state = 'unknown' and ${SOME('sent')}, false) as some_got_it
    from found),
  known as (update svc_catalog.svc_outbox o set recipients = judged.recipients, ${SET_DELIVERY} from judged
    where o.id = judged.id and not all_got_it and not some_got_it),
  partly as (update svc_catalog.svc_outbox o set state = 'partly_sent', ${CONFIRMED}, recipients = judged.recipients,
      ${SET_DELIVERY} from judged where o.id = judged.id and not all_got_it and some_got_it),
  resolved as (
    update svc_catalog.svc_outbox o set state = 'sent', ${CONFIRMED}, error = null, error_code = null, recipients = null,
      ${DELETE_CONTENTS}, ${SET_DELIVERY} from judged where o.id = judged.id and all_got_it returning o.id)
  delete from svc_catalog.svc_outbox_attachment where message_id in (select id from resolved)`

const storeEvent = (data: Data, provider: string, { id, message, kind, detail, address }: DeliveryEvent) =>
  data.query(STORE_EVENT, [provider, id, kind, detail, isId(message) ? message : null, address ?? null])

/** Returns the first value of each name. */
const first = (values: Readonly<Record<string, string | readonly string[] | undefined>>) =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, typeof value === 'string' ? value : value?.[0]] as const),
  )
