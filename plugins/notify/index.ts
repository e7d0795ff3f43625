import { definePlugin, type Receipt } from 'rowhouse'
import { Channel } from './channel.js'
import { config } from './config.js'
import { Delivery } from './delivery.js'
import { errorBody, invalidPayload } from './errors.js'
import { eventRoutes } from './events.js'
import { MessageList } from './list.js'
import { sendOperations } from './operations.js'
import { Outbox } from './outbox.js'
import { type Draft, readEmail, readSms } from './payload.js'
import { startPruning } from './prune.js'
import { adminOnly, sendRoutes } from './routes.js'
import { lossesMigration, migrations } from './schema.js'
import { Sending } from './send.js'
import { Suppression } from './suppression.js'
import { templatesMigration } from './templates/migration.js'
import { templateRoutes } from './templates/routes.js'
import { MailTemplates } from './templates/templates.js'
import { Worker } from './worker.js'

/** What other plugins send with; bodies as those of `POST /v1/send/email` and `/v1/send/sms`. */
export interface Notify {
  /** @throws ServiceError */
  email(mail: object): Promise<Receipt>
  /** @throws ServiceError */
  sms(sms: object): Promise<Receipt>
}
declare module 'rowhouse' {
  interface Services {
    notify: Notify
  }
}

/** Email and SMS through any provider, each message stored before it is sent. */
export default definePlugin({
  name: 'notify',
  needs: ['operations'],
  wants: ['filestore'],
  config,
  migrations: [...migrations, templatesMigration, lossesMigration],
  setup(host, options) {
    const data = host.use('data')
    const outbox = new Outbox(data)
    const suppression = new Suppression(data)
    const templates = new MailTemplates(data)
    const channels = { email: new Channel(host, 'email', options), sms: new Channel(host, 'sms', options) }
    const parts = { host, config: options, outbox, suppression, channels }
    const delivery = new Delivery(parts)
    const workers = {
      email: new Worker({ ...parts, delivery, channel: channels.email }),
      sms: new Worker({ ...parts, delivery, channel: channels.sms }),
    }
    const sending = new Sending({
      ...parts,
      delivery,
      workers,
      render: async (draft) => (options.email.ownTemplates ? fillIn(templates, draft) : undefined),
      async readFile(id, maxBytes) {
        const filestore = host.find('filestore')
        if (!filestore) throw invalidPayload('the plugin filestore is not loaded', '$.attachments')
        return filestore.read(id, maxBytes, AbortSignal.timeout(READ_MS))
      },
    })
    host.formatError(errorBody)
    eventRoutes(host, suppression)
    templateRoutes(host.router, templates, { adminOnly })
    sendRoutes({ ...parts, sending, workers, messages: new MessageList(data) })
    for (const [type, operation] of Object.entries(sendOperations(parts, sending, host.use('operations')))) {
      host.operation(type, operation)
    }
    host.health('providers', () => {
      const troubled = [...channels.email.troubled, ...channels.sms.troubled]
      if (troubled.length > 0) return `let alone for a while: ${troubled.join(', ')}`
    })
    host.onReady(async () => {
      for (const channel of Object.values(channels)) await channel.open()
      for (const worker of Object.values(workers)) worker.start()
      const endPruning = startPruning(host, outbox, options.keepDays)
      host.onClose(endPruning)
    })
    host.onDrain(async () => {
      await Promise.all(Object.values(workers).map((worker) => worker.stop()))
    })
    const limits = options.email
    return {
      email: async (mail) => receipt(await sending.send(readEmail(mail as never, limits))),
      sms: async (sms) => receipt(await sending.send(readSms(sms as never))),
    }
  },
})

/** How long a file may take to be read. */
const READ_MS = 30_000

/** A mail of a template that is kept here. */
async function fillIn(templates: MailTemplates, { content, ...draft }: Draft): Promise<Draft | undefined> {
  const made = await templates.render(draft.template as string, content ?? [])
  if (!made) return undefined
  const { subject, ...bodies } = made
  return { ...draft, kind: 'email', sub: subject, ...bodies }
}

const receipt = ({ id, detail }: Receipt): Receipt => ({ id, detail })
