import type { Context } from 'koa'
import { type Data, type DeliveryEvent, type Host, readBody, ServiceError } from 'rowhouse'
import { isId } from './list.js'
import type { Channel as ChannelName } from './message.js'
import { DELETE_CONTENTS } from './outbox.js'
import type { Suppression } from './suppression.js'

const MAX_BYTES = 1024 * 1024
const TIMEOUT_MS = 10_000
const KINDS: readonly string[] = ['email', 'sms'] satisfies ChannelName[]

/**
 * `POST /v1/send/events/<kind>/<provider>`: where providers post what became of messages. The address exists where the
 * provider can tell who posts; everybody may ask, and only the provider is believed.
 */
export function eventRoutes(host: Host, suppression: Suppression): void {
  const data = host.use('data')
  const seen = host.metric.counter('events_total', 'what providers posted about messages', ['kind', 'event'])
  host.proves('/v1/send/events/')
  host.router.post('/v1/send/events/:kind/:provider', async (ctx: Context) => {
    const { kind, provider } = ctx['params'] as { kind: string; provider: string }
    const sender = await senderOf(host, kind, provider)
    if (!sender?.events) throw new ServiceError(404, 'not_found', 'nobody posts events here')
    const body = await readBody(ctx.req, { maxBytes: MAX_BYTES, setting: 'of events', timeoutMs: TIMEOUT_MS })
    const events = await sender.events({ headers: first(ctx.headers), query: first(ctx.query), body })
    for (const event of events) {
      await mark(data, provider, event)
      if (event.permanent && event.address !== undefined) {
        await suppression.add(event.address, `${event.kind}: ${event.detail}`.slice(0, 900))
      }
      seen.inc({ kind, event: event.kind })
    }
    ctx.body = { events: events.length }
  })
}

async function senderOf(host: Host, kind: string, provider: string) {
  if (!KINDS.includes(kind)) return undefined
  return host.provider(kind as ChannelName, provider).catch((error: { readonly code?: string }) => {
    if (error.code === 'not-configured') return undefined
    throw error
  })
}

/** Events come in any order: what says more is not undone by what says less. */
const WEIGHT = `array_position(array['deferred', 'delivered', 'bounced', 'complained'], `
const TELLS_MORE = `coalesce(${WEIGHT} o.delivery), 0) <= ${WEIGHT} $3::text)`
const TOLD = `delivery = $3, delivery_detail = left($4, 1000), delivery_at = now()`

/**
 * An event may come before its message is known to be sent: then our id of it, $5, says which it is. Whatever became of a
 * message of which it is unknown whether it was sent, its provider took it: it is settled, and its contents go.
 */
const MARK = `with found as (
    select o.id, o.state = 'unknown' as unsettled, ${TELLS_MORE} as more from svc_catalog.svc_outbox o
    where (o.provider = $1 and o.provider_id = $2) or (o.id = $5::uuid and (o.provider = $1 or o.state = 'unknown'))
    for update),
  told as (update svc_catalog.svc_outbox o set ${TOLD} from found where o.id = found.id and not unsettled and more),
  settled as (
    update svc_catalog.svc_outbox o set state = 'sent', sent_at = now(), provider = $1, provider_id = $2,
      detail = 'known by what became of it', error = null, error_code = null, unknown_since = null,
      ${DELETE_CONTENTS},
      ${TOLD} from found where o.id = found.id and unsettled returning o.id)
  delete from svc_catalog.svc_outbox_attachment where message_id in (select id from settled)`

const mark = (data: Data, provider: string, { id, message, kind, detail }: DeliveryEvent) =>
  data.query(MARK, [provider, id, kind, detail, isId(message) ? message : null])

/** Of what is given several times, the first. */
const first = (values: Readonly<Record<string, string | readonly string[] | undefined>>) =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, typeof value === 'string' ? value : value?.[0]] as const),
  )
