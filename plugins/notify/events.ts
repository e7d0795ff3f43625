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
const STAGE = `array_position(array['deferred', 'delivered', 'bounced', 'complained'], `
const NOT_EARLIER = `coalesce(${STAGE} o.delivery), 0) <= ${STAGE} $3::text)`
const SET_DELIVERY = `delivery = $3, delivery_detail = left($4, 1000), delivery_at = now()`

/**
 * An event may arrive before the result of its message is stored; $5, our id, then identifies the message. An event for a
 * message in state `unknown` proves that the provider accepted it: the message becomes `sent`, and its contents are deleted.
 */
const STORE_EVENT = `with found as (
    select o.id, o.state = 'unknown' as was_unknown, ${NOT_EARLIER} as not_earlier from svc_catalog.svc_outbox o
    where (o.provider = $1 and o.provider_id = $2) or (o.id = $5::uuid and (o.provider = $1 or o.state = 'unknown'))
    for update),
  known as (update svc_catalog.svc_outbox o set ${SET_DELIVERY} from found
    where o.id = found.id and not was_unknown and not_earlier),
  resolved as (
    update svc_catalog.svc_outbox o set state = 'sent', sent_at = now(), provider = $1, provider_id = $2,
      detail = 'confirmed by an event of the provider', error = null, error_code = null, unknown_since = null,
      ${DELETE_CONTENTS},
      ${SET_DELIVERY} from found where o.id = found.id and was_unknown returning o.id)
  delete from svc_catalog.svc_outbox_attachment where message_id in (select id from resolved)`

const storeEvent = (data: Data, provider: string, { id, message, kind, detail }: DeliveryEvent) =>
  data.query(STORE_EVENT, [provider, id, kind, detail, isId(message) ? message : null])

/** Returns the first value of each name. */
const first = (values: Readonly<Record<string, string | readonly string[] | undefined>>) =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, typeof value === 'string' ? value : value?.[0]] as const),
  )
