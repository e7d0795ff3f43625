import { definePlugin, readJson, ServiceError } from 'rowhouse'
import { messagesPage } from '../../plugins/notify/page/index.js'

/** A message as the API shows it, with its contents. */
export interface Caught {
  readonly id: string
  readonly kind: 'email' | 'email-template' | 'sms'
  readonly state: string
  readonly attempts: number
  readonly created_at: string
  readonly [key: string]: unknown
}

const EMPTY = {
  mode: 'sync',
  from: null,
  from_name: null,
  sub: null,
  country_code: null,
  template: null,
  provider: 'memory',
  provider_id: null,
  detail: null,
  error: null,
  attempts: 1,
  next_at: null,
  sent_at: null,
  delivery: null,
  delivery_detail: null,
  delivery_at: null,
}
const CONTENTS = {
  text: null,
  html: null,
  message: null,
  content: null,
  cc: null,
  bcc: null,
  reply_to: null,
  attachments: null,
}

/** Newest first: what the fake below has. */
export const caught: Caught[] = []
/** The ids that it was asked for, one at a time. */
export const asked: string[] = []

/** Puts a message in front. */
export function arrive(message: Partial<Caught> & Pick<Caught, 'id'>): void {
  caught.unshift({
    ...EMPTY,
    ...CONTENTS,
    kind: 'email',
    state: 'sent',
    to: 'ann@example.com',
    created_at: new Date().toISOString(),
    ...message,
  })
}

const shown = (message: Caught): object =>
  Object.fromEntries(Object.entries(message).filter(([key]) => !(key in CONTENTS)))

/** The page of the messages of the plugin `notify`, on an API that answers as that plugin does. */
export default definePlugin({
  name: 'notify' as string,
  setup(host) {
    const { router } = host
    const page = messagesPage(router)
    host.formatError(({ code, message }) => ({ code, message }))
    router.get('/v1/send', (ctx) => {
      ctx.vary('Accept')
      if (ctx.accepts('json', 'html') === 'html') return page(ctx)
      adminOnly(ctx.state.session.role)
      const { limit, state, kind, before } = ctx.query
      const found = caught.filter(
        (one) => (state === undefined || one.state === state) && (kind === undefined || one.kind === kind),
      )
      const start = before === undefined ? 0 : found.findIndex(({ id }) => id === before) + 1
      const messages = found.slice(start, start + Number(limit))
      const more = start + messages.length < found.length
      ctx.body = { messages: messages.map(shown), next: more ? messages.at(-1)!.id : null }
    })
    router.get('/v1/send/:id', (ctx) => {
      asked.push(ctx.params['id']!)
      adminOnly(ctx.state.session.role)
      const message = caught.find(({ id }) => id === ctx.params['id'])
      if (!message) throw new ServiceError(404, 'not_found', 'there is no such message')
      ctx.body = message
    })
    router.post('/v1/send/:id/retry', async (ctx) => {
      adminOnly(ctx.state.session.role)
      await readJson(ctx)
      const i = caught.findIndex(({ id }) => id === ctx.params['id'])
      caught[i] = { ...caught[i]!, state: 'queued' }
      ctx.body = { id: caught[i].id, detail: 'queued' }
    })
  },
})

function adminOnly(role: string): void {
  if (role !== 'admin') throw new ServiceError(401, 'unauthorized', 'admin only')
}
