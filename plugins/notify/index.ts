import { definePlugin, type Receipt } from 'rowhouse'
import { Channel } from './channel.js'
import { config } from './config.js'
import { Delivery } from './delivery.js'
import { errorBody, invalidPayload } from './errors.js'
import { eventRoutes } from './events.js'
import { MessageList } from './list.js'
import { sendOperations } from './operations.js'
import { Outbox } from './outbox.js'
import { readEmail, readSms } from './payload.js'
import { sendRoutes } from './routes.js'
import { migrations } from './schema.js'
import { Sending } from './send.js'
import { Suppression } from './suppression.js'
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
  config,
  migrations,
  setup(host, options) {
    const data = host.use('data')
    const outbox = new Outbox(data)
    const suppression = new Suppression(data)
    const channels = { email: new Channel(host, 'email', options), sms: new Channel(host, 'sms', options) }
    const parts = { host, config: options, outbox, suppression, channels }
    const delivery = new Delivery(parts)
    const worker = new Worker({ ...parts, delivery })
    const sending = new Sending({
      ...parts,
      delivery,
      worker,
      render: async () => undefined,
      readFile: async () => {
        throw invalidPayload('there is no filestore here', '$.attachments')
      },
    })
    host.formatError(errorBody)
    eventRoutes(host, suppression)
    sendRoutes({ ...parts, sending, worker, messages: new MessageList(data) })
    for (const [type, operation] of Object.entries(sendOperations(parts, sending, host.use('operations')))) {
      host.operation(type, operation)
    }
    host.health('providers', () => {
      const troubled = [...channels.email.troubled, ...channels.sms.troubled]
      if (troubled.length > 0) return `let alone for a while: ${troubled.join(', ')}`
    })
    host.onReady(() => worker.start())
    host.onDrain(() => worker.stop())
    const limits = options.email
    return {
      email: async (mail) => receipt(await sending.send(readEmail(mail as never, limits))),
      sms: async (sms) => receipt(await sending.send(readSms(sms as never))),
    }
  },
})

const receipt = ({ id, detail }: Receipt): Receipt => ({ id, detail })
