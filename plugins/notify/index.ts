import { definePlugin, type Receipt } from 'rowhouse'
import { type Work, Worker } from 'rowhouse/queue'
import { config } from './config.js'
import { Delivery } from './delivery.js'
import { errorBody, invalidPayload } from './errors.js'
import { eventRoutes } from './events.js'
import type { Channel, ClaimedMessage, NewMessage } from './message.js'
import { MessageList } from './message-list.js'
import { sendOperations } from './operations.js'
import { Outbox } from './outbox.js'
import { addOutboxMetrics } from './outbox-metrics.js'
import { readEmail, readSms, readTemplateEmail } from './payload.js'
import { ProviderChain } from './provider-chain.js'
import { sendRoutes } from './routes.js'
import { migrations } from './schema.js'
import { Sending } from './sending.js'
import { Suppression } from './suppression.js'
import { putTemplate, templateRoutes } from './templates/routes.js'
import { MailTemplates } from './templates/templates.js'

export type { MessageRecord } from './message-list.js'
export type { ProviderState } from './provider-chain.js'

/**
 * The service for other plugins. Takes the bodies of `POST /v1/send/email`, `/email-template` and `/sms`. A receipt has
 * `recipients` if only some of them got the mail.
 */
export interface Notify {
  /** @throws ServiceError */
  email(mail: object): Promise<Receipt>
  /** @throws ServiceError */
  emailTemplate(mail: object): Promise<Receipt>
  /** @throws ServiceError */
  sms(sms: object): Promise<Receipt>
  /** Stores a mail template, or replaces it. Takes the body of `PUT /v1/send/template/<name>`. @throws ServiceError */
  putTemplate(name: string, template: object): Promise<void>
}
declare module 'rowhouse' {
  interface Services {
    notify: Notify
  }
}

/** Email and SMS through any provider. Each message is stored before it is sent. */
export default definePlugin({
  name: 'notify',
  needs: ['operations'],
  wants: ['filestore', 'console'],
  config,
  migrations,
  setup(host, options) {
    const data = host.use('data')
    const outbox = new Outbox(data)
    const suppression = new Suppression(data)
    const templates = new MailTemplates(data)
    const chains = { email: new ProviderChain(host, 'email', options), sms: new ProviderChain(host, 'sms', options) }
    const components = { host, data, config: options, outbox, suppression, chains }
    const delivery = new Delivery(components)
    const { concurrency, leaseSeconds, pollMs } = options.queue
    const work = (channel: Channel): Work<ClaimedMessage> => ({
      concurrency,
      claim: (limit) => outbox.claim(channel, limit, leaseSeconds, chains[channel].first ?? null),
      run: (message, since) => delivery.deliver(message, since),
      abort: () => delivery.abortAll(),
    })
    const log = host.use('log')
    // A slow provider of one channel does not delay the other.
    const workers = { email: new Worker(log, work('email')), sms: new Worker(log, work('sms')) }
    const sending = new Sending({
      ...components,
      delivery,
      workers,
      render: async (message) => (options.email.ownTemplates ? renderTemplate(templates, message) : undefined),
      async readFile(id, maxBytes) {
        const filestore = host.find('filestore')
        if (!filestore) throw invalidPayload('the plugin filestore is not loaded', '$.attachments')
        return filestore.read(id, maxBytes, AbortSignal.timeout(READ_MS))
      },
    })
    host.formatError(errorBody)
    if (host.background) addOutboxMetrics(host, outbox)
    eventRoutes(host, suppression)
    templateRoutes(host.router, templates)
    sendRoutes({ ...components, sending, workers, messages: new MessageList(data) })
    for (const [type, operation] of Object.entries(sendOperations(components, sending, host.use('operations')))) {
      host.operation(type, operation)
    }
    host.health('providers', () => {
      const failing = [...chains.email.failing, ...chains.sms.failing]
      if (failing.length > 0) return `skipped after failures: ${failing.join(', ')}`
    })
    host.onReady(async () => {
      for (const chain of Object.values(chains)) await chain.open()
      if (!host.background) return
      if (concurrency === 0) log.info('queued messages are left to other servers (queue.concurrency)')
      for (const worker of Object.values(workers)) worker.start((task) => host.every('read the outbox', pollMs, task))
    })
    host.every('delete old messages', PRUNE_MS, async (signal) => {
      while (!signal.aborted && (await outbox.prune(options.keepDays))) {}
    })
    host.onDrain(async () => {
      await Promise.all(Object.values(workers).map((worker) => worker.stop()))
    })
    const limits = options.email
    return {
      email: async (mail) => receiptOf((await sending.send(readEmail(mail as never, limits))).response),
      emailTemplate: async (mail) => receiptOf((await sending.send(readTemplateEmail(mail as never, limits))).response),
      sms: async (sms) => receiptOf((await sending.send(readSms(sms as never))).response),
      putTemplate: async (name, template) => void (await putTemplate(templates, name, template as never)),
    }
  },
})

/** Interval between two deletions of old messages. */
const PRUNE_MS = 60_000
/** Maximum time to read a file of the filestore. */
const READ_MS = 30_000

/** Renders a template that is stored in Rowhouse. */
async function renderTemplate(
  templates: MailTemplates,
  { content, ...message }: NewMessage,
): Promise<NewMessage | undefined> {
  const rendered = await templates.render(message.template as string, content ?? [])
  return rendered && { ...message, kind: 'email', sub: rendered.subject, text: rendered.text, html: rendered.html }
}

const receiptOf = ({ id, detail, recipients }: Receipt): Receipt => ({
  id,
  detail,
  ...(recipients ? { recipients } : {}),
})
