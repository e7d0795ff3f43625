import type { Context } from 'koa'
import { assertSameOrigin, callOf, type Host, isAdmin, type Json, readJson, serviceError } from 'rowhouse'
import type { Worker } from 'rowhouse/queue'
import type { NotifyConfig } from './config.js'
import { invalidPayload, missingKey, notFound, unauthorized } from './errors.js'
import { Fields } from './fields.js'
import { readMailbox } from './mailbox.js'
import type { Channel } from './message.js'
import { isId, type MessageList } from './message-list.js'
import type { Outbox } from './outbox.js'
import { type Payload, readEmail, readSms, readTemplateEmail } from './payload.js'
import type { ProviderChain } from './provider-chain.js'
import type { Sending } from './sending.js'
import type { Suppression } from './suppression.js'

interface RouteComponents {
  readonly host: Host
  readonly config: NotifyConfig
  readonly sending: Sending
  readonly outbox: Outbox
  readonly messages: MessageList
  readonly suppression: Suppression
  readonly chains: Readonly<Record<Channel, ProviderChain>>
  readonly workers: Readonly<Record<Channel, Pick<Worker<never>, 'wake'>>>
}

/** @throws ServiceError 401 */
export function adminOnly(ctx: Context): void {
  if (!isAdmin(ctx.state.session)) throw unauthorized()
}

export function sendRoutes(components: RouteComponents): void {
  const { host, config, sending, outbox, messages, suppression, chains, workers } = components
  const { router } = host
  const route = (read: (body: Json) => Payload) => async (ctx: Context) => {
    adminOnly(ctx)
    const call = callOf(ctx)
    if (call.dryRun) throw serviceError('not-supported', 'a message cannot be sent as a dry run', '$.headers.Prefer')
    const { ids, response } = await sending.send(read(await readJson(ctx)), call)
    ctx.set('Location', `/v1/send/${ids[0]}`)
    ctx.body = response
  }
  const sends = {
    '/v1/send/email': (body: Json) => readEmail(body, config.email),
    '/v1/send/email-template': (body: Json) => readTemplateEmail(body, config.email),
    '/v1/send/sms': readSms,
  }
  for (const [path, read] of Object.entries(sends)) {
    host.idempotent(path, { by: 'server' })
    router.post(path, route(read))
  }

  router.get('/v1/send/providers', async (ctx) => {
    adminOnly(ctx)
    ctx.body = { email: await chains.email.describe(), sms: await chains.sms.describe() }
  })

  router.get('/v1/send/suppressed', async (ctx) => {
    adminOnly(ctx)
    const { after = '', search = '' } = ctx.query
    if (typeof after !== 'string') throw invalidPayload('expecting an address', '$.after')
    if (typeof search !== 'string') throw invalidPayload('expecting one text', '$.search')
    for (const [key, text] of Object.entries({ after, search }))
      if (text.includes('\0')) throw invalidPayload('expecting text without U+0000', `$.${key}`)
    ctx.body = { suppressed: await suppression.list(after, search, MAX_SUPPRESSED) }
  })
  router.post('/v1/send/suppressed', async (ctx) => {
    adminOnly(ctx)
    const fields = new Fields(await readJson(ctx), ['address', 'reason'])
    const address = fields.text('address')
    if (address === undefined) throw missingKey('address')
    const plain = plainAddress(address, fields.at('address'))
    await suppression.add(plain, fields.line('reason') ?? 'added by an admin')
    ctx.body = { address: plain }
  })
  router.delete('/v1/send/suppressed/:address', async (ctx) => {
    adminOnly(ctx)
    assertSameOrigin(ctx, ctx.state.session)
    const address = plainAddress((ctx['params'] as { address: string }).address, '$')
    if (!(await suppression.remove(address)))
      throw serviceError('not-found', `the address "${address}" is not suppressed`)
    ctx.body = { address }
  })

  const page = host.find('console')?.pathOf('messages')
  if (page !== undefined) host.link('Messages', page)
  router.get('/v1/send', async (ctx) => {
    ctx.vary('Accept')
    if (page !== undefined && ctx.accepts('json', 'html') === 'html') return ctx.redirect(page)
    adminOnly(ctx)
    ctx.body = await messages.page(ctx.query)
  })
  router.get('/v1/send/:id', async (ctx) => {
    adminOnly(ctx)
    const { id } = ctx['params'] as { id: string }
    const found = await messages.find(id)
    if (!found) throw notFound(id)
    ctx.body = found
  })
  router.get('/v1/send/:id/attachments/:position', async (ctx) => {
    adminOnly(ctx)
    const { id, position } = ctx['params'] as { id: string; position: string }
    const found = /^\d{1,3}$/.test(position) ? await messages.attachment(id, Number(position)) : undefined
    if (!found) throw serviceError('not-found', `message ${id} has no attachment ${position}`)
    ctx.set('X-Content-Type-Options', 'nosniff')
    ctx.attachment(found.filename, { fallback: found.filename.replaceAll(/[^ -~]/g, '?') })
    ctx.set('Content-Type', found.contentType)
    ctx.body = found.content
  })
  router.post('/v1/send/:id/retry', async (ctx) => {
    adminOnly(ctx)
    assertSameOrigin(ctx, ctx.state.session)
    const { id } = ctx['params'] as { id: string }
    if (!isId(id) || !(await messages.find(id))) throw notFound(id)
    if (!(await outbox.requeue(id))) {
      throw serviceError('not_failed', 'only a message in state failed, unknown or partly_sent can be sent again')
    }
    for (const worker of Object.values(workers)) worker.wake()
    ctx.body = { id, detail: 'queued' }
  })
}

/** Maximum addresses of one answer. */
const MAX_SUPPRESSED = 1000

/** Returns an address in the form of the suppression list. */
function plainAddress(text: string, path: string): string {
  const read = readMailbox(text)
  if (!read || read.name !== undefined) throw invalidPayload('expecting an address', path)
  return read.address.toLowerCase()
}
