import { randomUUID } from 'node:crypto'
import tap, { type Test } from 'tap'
import {
  type EmailSender,
  type ObjectStore,
  type Receipt,
  SendError,
  type SmsSender,
} from '../../core/host/contracts.js'
import mailgun from '../../providers/email/mailgun.js'
import postmark from '../../providers/email/postmark.js'
import resend from '../../providers/email/resend.js'
import sendgrid from '../../providers/email/sendgrid.js'
import ses from '../../providers/email/ses.js'
import webhook from '../../providers/event/webhook.js'
import http from '../../providers/sms/http.js'
import twilio from '../../providers/sms/twilio.js'
import vonage from '../../providers/sms/vonage.js'
import {
  type ContractCase,
  emailContract,
  eventContract,
  httpStage,
  smsContract,
  type Stage,
  storageContract,
  type TakenMail,
  type TakenSms,
} from '../kit/index.js'

const SECRET = 'planted-secret-0123456789'

async function keeps<S>(t: Test, cases: readonly ContractCase<S>[], subject: S): Promise<void> {
  for (const { name, run } of cases) await t.resolves(run(subject), name)
}
/** The names of those that fail. */
async function broken<S>(cases: readonly ContractCase<S>[], subject: S, deadlineMs?: number): Promise<string[]> {
  const names: string[] = []
  for (const { name, run } of cases) await run(subject, deadlineMs).catch(() => names.push(name))
  return names
}

const json = (status: number, body: object, headers = {}) => ({ status, body: JSON.stringify(body), headers })

interface Written {
  readonly to: unknown
  readonly cc?: unknown
  readonly bcc?: unknown
  readonly subject?: unknown
  readonly text?: unknown
  readonly html?: unknown
  readonly files?: unknown
}
/** The addresses and files in a mail, however an API writes them. */
function mailOf({ to, cc, bcc, subject, text, html, files }: Written): TakenMail {
  const addresses = (field: unknown) => [...JSON.stringify(field ?? '').matchAll(/[\w.]+@[\w.]+/g)].map(([one]) => one)
  const shown = [...addresses(to), ...addresses(cc)]
  return {
    recipients: [...shown, ...addresses(bcc)],
    shown,
    subject: subject as string | undefined,
    text: text as string | undefined,
    html: html as string | undefined,
    attachments: (files as string[] | undefined)?.map((content) => Buffer.from(content, 'base64')),
  }
}

// oxlint-disable-next-line typescript/no-explicit-any
type Body = any

const EMAIL: Readonly<Record<string, () => Promise<Stage<EmailSender, TakenMail>>>> = {
  postmark: () =>
    httpStage(postmark, {
      config: (url) => ({ serverToken: SECRET, url }),
      secrets: [SECRET],
      read({ body }) {
        const { To, Cc, Bcc, Subject, TextBody, HtmlBody, Attachments } = JSON.parse(body) as Body
        const files = Attachments?.map(({ Content }: Body) => Content)
        return mailOf({ to: To, cc: Cc, bcc: Bcc, subject: Subject, text: TextBody, html: HtmlBody, files })
      },
      accepted: (id) => json(200, { ErrorCode: 0, Message: 'OK', MessageID: id }),
      refused: json(422, { ErrorCode: 300, Message: 'no' }),
    }),
  sendgrid: () =>
    httpStage(sendgrid, {
      config: (url) => ({ apiKey: SECRET, url }),
      secrets: [SECRET],
      read({ body }) {
        const { personalizations, subject, content = [], attachments } = JSON.parse(body) as Body
        const { to, cc, bcc } = personalizations[0]
        const part = (wanted: string) => content.find(({ type }: Body) => type === wanted)?.value
        const files = attachments?.map((file: Body) => file.content)
        return mailOf({ to, cc, bcc, subject, text: part('text/plain'), html: part('text/html'), files })
      },
      accepted: (id) => ({ status: 202, headers: { 'x-message-id': id } }),
      refused: json(400, { errors: [{ message: 'no', field: null }] }),
    }),
  mailgun: () =>
    httpStage(mailgun, {
      config: (url) => ({ apiKey: SECRET, domain: 'mg.example.com', url }),
      secrets: [SECRET],
      async read({ bytes, headers }) {
        const type = headers['content-type'] ?? ''
        const form = await new Response(new Uint8Array(bytes), { headers: { 'content-type': type } }).formData()
        const one = (name: string) => form.get(name) ?? undefined
        const files = form.getAll('attachment').map(async (file) => Buffer.from(await (file as File).arrayBuffer()))
        const [to, cc, bcc] = ['to', 'cc', 'bcc'].map((name) => form.getAll(name))
        const mail = mailOf({ to, cc, bcc, subject: one('subject'), text: one('text'), html: one('html') })
        return { ...mail, attachments: await Promise.all(files) }
      },
      accepted: (id) => json(200, { id: `<${id}>`, message: 'Queued. Thank you.' }),
      refused: json(400, { message: 'no' }),
    }),
  ses: () =>
    httpStage(ses, {
      config: (url) => ({ region: 'eu-west-1', accessKeyId: 'AKIDEXAMPLE', secretAccessKey: SECRET, url }),
      secrets: [SECRET],
      read({ body }) {
        const { Destination, Content } = JSON.parse(body) as Body
        const { Subject, Body = {}, Attachments } = Content.Simple ?? Content.Template
        const { ToAddresses: to, CcAddresses: cc, BccAddresses: bcc } = Destination
        const files = Attachments?.map(({ RawContent }: Body) => RawContent)
        return mailOf({ to, cc, bcc, subject: Subject?.Data, text: Body.Text?.Data, html: Body.Html?.Data, files })
      },
      accepted: (id) => json(200, { MessageId: id }),
      refused: json(400, { message: 'no' }, { 'x-amzn-errortype': 'MessageRejected' }),
    }),
  resend: () =>
    httpStage(resend, {
      config: (url) => ({ apiKey: SECRET, url }),
      secrets: [SECRET],
      read({ body, headers }) {
        const { attachments, ...mail } = JSON.parse(body) as Body
        const files = attachments?.map(({ content }: Body) => content)
        return { ...mailOf({ ...mail, files }), once: String(headers['idempotency-key']) }
      },
      accepted: (id) => json(200, { id }),
      refused: json(422, { statusCode: 422, name: 'validation_error', message: 'no' }),
    }),
}

const gateway = (more: object) =>
  httpStage(http, {
    config: (url) => ({
      url,
      headers: { 'X-Key': SECRET },
      fields: { to: '{to}', text: '{message}' },
      refusedStatuses: [422],
      idPointer: '/id',
      ...more,
    }),
    secrets: [SECRET],
    read({ body, headers }) {
      const once = headers['idempotency-key']
      return { ...(JSON.parse(body) as TakenSms), ...(typeof once === 'string' ? { once } : {}) }
    },
    accepted: (id) => json(202, { id }),
    refused: json(422, { error: 'no' }),
  })

const SMS: Readonly<Record<string, () => Promise<Stage<SmsSender, TakenSms>>>> = {
  vonage: () =>
    httpStage(vonage, {
      config: (url) => ({ apiKey: 'a-key', apiSecret: SECRET, from: 'Us', url }),
      secrets: [SECRET],
      read: ({ body }) => JSON.parse(body) as TakenSms,
      accepted: (id) => json(200, { 'message-count': '1', messages: [{ 'message-id': id, status: '0' }] }),
      refused: json(200, { 'message-count': '1', messages: [{ status: '3', 'error-text': 'no' }] }),
    }),
  twilio: () =>
    httpStage(twilio, {
      config: (url) => ({ accountSid: `AC${'0a'.repeat(16)}`, authToken: SECRET, from: 'Us', url }),
      secrets: [SECRET],
      read({ body }) {
        const form = new URLSearchParams(body)
        return { to: form.get('To') ?? '', text: form.get('Body') ?? '' }
      },
      accepted: (sid) => json(201, { sid, status: 'queued', num_segments: '1' }),
      refused: json(400, { code: 21211, message: 'no', status: 400 }),
    }),
  http: () => gateway({}),
  'http that knows repeats': () => gateway({ idempotencyHeader: 'Idempotency-Key', deduplicationSeconds: 3600 }),
}

for (const [name, stage] of Object.entries(EMAIL)) {
  tap.test(`the email provider ${name} keeps the contract`, async (t) => keeps(t, emailContract, await stage()))
}
for (const [name, stage] of Object.entries(SMS)) {
  tap.test(`the SMS provider ${name} keeps the contract`, async (t) => keeps(t, smsContract, await stage()))
}

tap.test('the event provider webhook keeps the contract', async (t) => {
  const stage = await httpStage(webhook, {
    config: (url) => ({ url, headers: { authorization: `Bearer ${SECRET}` }, secrets: [`whsec_${'ab'.repeat(20)}`] }),
    secrets: [SECRET, 'ab'.repeat(20)],
    read: ({ headers, body }) => ({ id: String(headers['webhook-id']), body }),
    accepted: () => ({ status: 204 }),
    refused: { status: 410 },
  })
  await keeps(t, eventContract, stage)
})

/** A stage whose provider does something else than what it should. */
const instead = async (send: () => Promise<Receipt>): Promise<Stage<SmsSender, TakenSms>> => ({
  ...(await gateway({})),
  provider: { send },
})

tap.test('a provider that sends to nobody breaks the contracts', async (t) => {
  const send = async () => ({ id: randomUUID(), detail: 'sent to nobody' })
  const sms = await instead(send)
  t.match(await broken(smsContract, sms), [
    'a message reaches its number as it was written, and has a receipt',
    /^two messages/,
    /^nothing is sent/,
    /refuses is refused/,
  ])
  const email = { ...(await EMAIL['postmark']!()), provider: { send } }
  t.match(await broken(emailContract, email), [/^a mail of text/, /^a mail of HTML/, /^copies/])
})

tap.test('a provider that hangs breaks the contract at a deadline', async (t) => {
  const hanging = await instead(() => new Promise(() => {}))
  const [first] = smsContract
  await t.rejects(first!.run(hanging, 50), /"a message reaches its number.*" did not end within 50 ms/)
  await hanging.close?.()

  const stuck = { put: () => new Promise(() => {}), get: () => new Promise(() => {}) } as unknown as ObjectStore
  const cases = storageContract.filter(({ name }) => name.includes('aborted'))
  t.equal(cases.length, 2)
  t.same(
    await broken(cases, stuck, 50),
    cases.map(({ name }) => name),
  )
})

tap.test('faults that a provider takes for others break the contract', async (t) => {
  const sender = async (send: (url: string) => Promise<Receipt>): Promise<string[]> => {
    let address = ''
    const provider = { kind: 'sms', name: 'careless', create: () => ({ send: () => send(address) }) } as const
    const stage = await httpStage(provider, {
      config: (url) => ((address = url), {}),
      secrets: [SECRET],
      read: () => ({ to: '15550100', text: 'Hello, wörld 👋' }),
      accepted: (id) => json(200, { id }),
      refused: json(422, {}),
    })
    return broken(smsContract, stage)
  }
  const careless = await sender(async (url) => {
    const response = await fetch(url, { method: 'POST' }).catch(() => {
      throw new SendError('retry', 'no answer')
    })
    const text = await response.text()
    if (!response.ok) throw new SendError('refused', text)
    const { id } = JSON.parse(text) as { id: string }
    return { id, detail: text }
  })
  for (const name of [
    'nothing is sent when nobody waits any more',
    'a fault of the API refuses no message',
    'wrong credentials refuse no message',
    'a message whose answer is lost may have been sent, and the provider does not send it again by itself',
    'a message that is given up while the API is silent may have been sent, and its end does not wait',
    'an accepted message with the answer "{}" has a receipt, or may have been sent',
    'no error shows a credential, even if the API repeats it',
  ])
    t.ok(careless.includes(name), name)
})
