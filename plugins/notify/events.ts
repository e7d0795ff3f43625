import type { Context } from 'koa'
import { type Data, type DeliveryEvent, type Host, readBody, ServiceError } from 'rowhouse'
import type { Channel as ChannelName } from './message.js'
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
  host.router.post('/v1/send/events/:kind/:provider', async (ctx: Context) => {
    const { kind, provider } = ctx['params'] as { kind: string; provider: string }
    const sender = await senderOf(host, kind, provider)
    if (!sender?.events) throw new ServiceError(404, 'not_found', 'nobody posts events here')
    const { signal } = ctx.state
    const body = await readBody(ctx.req, { maxBytes: MAX_BYTES, setting: 'of events', timeoutMs: TIMEOUT_MS, signal })
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
const mark = (data: Data, provider: string, { id, kind, detail }: DeliveryEvent) =>
  data.query(
    `update svc_catalog.svc_outbox set delivery = $3, delivery_detail = left($4, 1000), delivery_at = now()
     where provider = $1 and provider_id = $2 and coalesce(${WEIGHT} delivery), 0) <= ${WEIGHT} $3::text)`,
    [provider, id, kind, detail],
  )

/** Of what is given several times, the first. */
const first = (values: Readonly<Record<string, string | readonly string[] | undefined>>) =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, typeof value === 'string' ? value : value?.[0]] as const),
  )
