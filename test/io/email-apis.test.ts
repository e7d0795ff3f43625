import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import tap, { type Test } from 'tap'
import type { Mail, TemplateMail } from '../../core/host/contracts.js'
import { MAILGUN_DOMAIN, MAILGUN_KEY, fakeMailgun } from '../kit/fake-apis/mailgun.js'
import { fakePostmark, POSTMARK_TOKEN } from '../kit/fake-apis/postmark.js'
import { fakeResend, RESEND_KEY } from '../kit/fake-apis/resend.js'
import { fakeSendgrid, SENDGRID_KEY } from '../kit/fake-apis/sendgrid.js'
import type { Answer, FakeApi } from '../kit/fake-apis/server.js'
import { fakeSes, SES_KEYS } from '../kit/fake-apis/ses.js'
import { patience } from '../kit/patience.js'
import { makeProvider } from '../kit/provider.js'

const ID = '3f0c9d5e-8f43-4a7c-9d5b-1f5a0e5c7a11'
const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
const HEAD = {
  id: ID,
  to: { address: 'reader@example.com', name: 'Reader, "A" \\ B' },
  from: { address: 'shop@example.org', name: 'Rowhöuse Ærø & søn: ein Name, der länger ist als ein Wort 🏘️' },
  cc: [{ address: 'one@example.com', name: "O'One" }, { address: 'two@example.com' }],
  bcc: [{ address: 'three@example.com' }],
  replyTo: { address: 'answers@example.org', name: 'Answers' },
  attachments: [
    { filename: 'ü "1".txt', contentType: 'text/plain; charset=utf-8', content: Buffer.from('attached') },
    { filename: 'every.bin', contentType: 'application/octet-stream', content: EVERY_BYTE },
  ],
}
const MAIL: Mail = { ...HEAD, subject: 'Grüße: 1 < 2', text: 'Hällo\r\n.\r\n', html: '<p>Hällo & "all"' }
const WELCOME: TemplateMail = {
  ...HEAD,
  template: 'welcome',
  content: [
    { name: 'name', content: 'Ä "B"' },
    { name: '__proto__', content: 'x' },
  ],
}
const DATA = JSON.parse('{"name": "Ä \\"B\\"", "__proto__": "x"}') as Record<string, string>

const FROM = '"Rowhöuse Ærø & søn: ein Name, der länger ist als ein Wort 🏘️" <shop@example.org>'
const TO = String.raw`"Reader, \"A\" \\ B" <reader@example.com>`
const CC = ["O'One <one@example.com>", 'two@example.com']
const BYTES = EVERY_BYTE.toString('base64')

interface Case {
  readonly fake: (t: Test) => Promise<FakeApi>
  readonly settings: Readonly<Record<string, unknown>>
  /** Settings with a wrong credential. */
  readonly wrong: Readonly<Record<string, unknown>>
  /** What the fake must have understood. */
  readonly mail: object
  readonly templateMail: object
  /** How an answer ends; `retryAfter` where it says so. */
  readonly answers: readonly (readonly [Answer, string])[]
  /** 2xx without the reference. */
  readonly strange: readonly Answer[]
}

const json = (status: number, body: unknown, headers = {}): Answer => ({ status, headers, body: JSON.stringify(body) })

const sendgridHead = {
  from: { email: 'shop@example.org', name: HEAD.from.name },
  reply_to: { email: 'answers@example.org', name: 'Answers' },
  attachments: [
    { content: 'YXR0YWNoZWQ=', type: 'text/plain', filename: 'ü "1".txt', disposition: 'attachment' },
    { content: BYTES, type: 'application/octet-stream', filename: 'every.bin', disposition: 'attachment' },
  ],
}
const sendgridTo = {
  to: [{ email: 'reader@example.com', name: HEAD.to.name }],
  cc: [{ email: 'one@example.com', name: "O'One" }, { email: 'two@example.com' }],
  bcc: [{ email: 'three@example.com' }],
  custom_args: { rowhouse_id: ID },
}
const sendgridError = (status: number, headers = {}) =>
  json(status, { errors: [{ message: 'no', field: null }] }, headers)

const postmarkHead = {
  From: FROM,
  To: TO,
  Cc: CC.join(', '),
  Bcc: 'three@example.com',
  ReplyTo: 'Answers <answers@example.org>',
  MessageStream: 'broadcast',
  Metadata: { rowhouse_id: ID },
  Attachments: [
    { Name: 'ü "1".txt', Content: 'YXR0YWNoZWQ=', ContentType: 'text/plain; charset=utf-8' },
    { Name: 'every.bin', Content: BYTES, ContentType: 'application/octet-stream' },
  ],
}
const postmarkError = (status: number, ErrorCode: number, headers = {}) =>
  json(status, { ErrorCode, Message: 'no' }, headers)

const mailgunHead = {
  from: [FROM],
  to: [TO],
  cc: CC,
  bcc: ['three@example.com'],
  'h:Reply-To': ['Answers <answers@example.org>'],
  'v:rowhouse_id': [ID],
  attachment: [
    { filename: 'ü %221%22.txt', type: 'text/plain', content: 'YXR0YWNoZWQ=' },
    { filename: 'every.bin', type: 'application/octet-stream', content: BYTES },
  ],
}

const word = (text: string) => `=?UTF-8?B?${Buffer.from(text).toString('base64')}?=`
const sesHead = {
  FromEmailAddress: `${word('Rowhöuse Ærø & søn: ein Name, der länger')} ${word(' ist als ein Wort 🏘️')} <shop@example.org>`,
  Destination: { ToAddresses: [TO], CcAddresses: CC, BccAddresses: ['three@example.com'] },
  ReplyToAddresses: ['Answers <answers@example.org>'],
  EmailTags: [{ Name: 'rowhouse_id', Value: ID }],
  ConfigurationSetName: 'events',
}
const sesFile = { ContentDisposition: 'ATTACHMENT', ContentTransferEncoding: 'BASE64' }
const sesAttachments = [
  { ...sesFile, FileName: 'ü "1".txt', ContentType: 'text/plain; charset=utf-8', RawContent: 'YXR0YWNoZWQ=' },
  { ...sesFile, FileName: 'every.bin', ContentType: 'application/octet-stream', RawContent: BYTES },
]
const sesError = (status: number, type: string, headers = {}) =>
  json(status, { message: 'no' }, { 'x-amzn-errortype': type, ...headers })

const resendHead = {
  from: FROM,
  to: [TO],
  cc: CC,
  bcc: ['three@example.com'],
  reply_to: 'Answers <answers@example.org>',
  attachments: [
    { filename: 'ü "1".txt', content: 'YXR0YWNoZWQ=', content_type: 'text/plain; charset=utf-8' },
    { filename: 'every.bin', content: BYTES, content_type: 'application/octet-stream' },
  ],
  tags: [{ name: 'rowhouse_id', value: ID }],
}
const resendError = (statusCode: number, name: string, headers = {}) =>
  json(statusCode, { statusCode, name, message: 'no' }, headers)

const RETRY_7 = { 'retry-after': '7' }
const LATER = 'retry after 7'

const CASES: Readonly<Record<string, Case>> = {
  sendgrid: {
    fake: fakeSendgrid,
    settings: { apiKey: SENDGRID_KEY },
    wrong: { apiKey: 'SG.wrong-secret' },
    mail: {
      ...sendgridHead,
      personalizations: [sendgridTo],
      subject: MAIL.subject,
      content: [
        { type: 'text/plain', value: MAIL.text },
        { type: 'text/html', value: MAIL.html },
      ],
    },
    templateMail: {
      ...sendgridHead,
      personalizations: [{ ...sendgridTo, dynamic_template_data: DATA }],
      template_id: 'welcome',
    },
    answers: [
      [sendgridError(400), 'refused'],
      [sendgridError(413), 'refused'],
      [sendgridError(401), 'retry'],
      [sendgridError(403), 'retry'],
      [sendgridError(404), 'retry'],
      [sendgridError(406), 'retry'],
      [sendgridError(429, RETRY_7), LATER],
      [sendgridError(500), 'retry'],
      [sendgridError(503), 'retry'],
    ],
    strange: [{ status: 202 }, { status: 200, body: '{"id": "other"}' }],
  },
  postmark: {
    fake: fakePostmark,
    settings: { serverToken: POSTMARK_TOKEN, messageStream: 'broadcast' },
    wrong: { serverToken: 'wrong-secret' },
    mail: {
      ...postmarkHead,
      path: '/email',
      Subject: MAIL.subject,
      TextBody: MAIL.text,
      HtmlBody: MAIL.html,
    },
    templateMail: { ...postmarkHead, path: '/email/withTemplate', TemplateAlias: 'welcome', TemplateModel: DATA },
    answers: [
      [postmarkError(422, 300), 'refused'],
      [postmarkError(422, 406), 'refused'],
      [postmarkError(422, 1101), 'refused'],
      [postmarkError(413, 0), 'refused'],
      [postmarkError(422, 400), 'retry'],
      [postmarkError(422, 401), 'retry'],
      [postmarkError(422, 405), 'retry'],
      [postmarkError(422, 412), 'retry'],
      [postmarkError(422, 413), 'retry'],
      [{ status: 422, body: 'no JSON' }, 'refused'],
      [postmarkError(401, 10), 'retry'],
      [postmarkError(403, 0), 'retry'],
      [postmarkError(429, 429, RETRY_7), LATER],
      [postmarkError(500, 0), 'retry'],
      [postmarkError(503, 100), 'retry'],
    ],
    strange: [json(200, { ErrorCode: 0, Message: 'OK' }), json(200, { ErrorCode: 300, MessageID: 'x' })],
  },
  mailgun: {
    fake: fakeMailgun,
    settings: { apiKey: MAILGUN_KEY, domain: MAILGUN_DOMAIN },
    wrong: { apiKey: 'wrong-secret', domain: MAILGUN_DOMAIN },
    mail: { ...mailgunHead, subject: [MAIL.subject], text: [MAIL.text], html: [MAIL.html] },
    templateMail: { ...mailgunHead, template: ['welcome'], 't:variables': [JSON.stringify(DATA)] },
    answers: [
      [json(400, { message: 'no' }), 'refused'],
      [json(413, { message: 'no' }), 'refused'],
      [{ status: 401, body: 'Forbidden' }, 'retry'],
      [json(402, { message: 'no' }), 'retry'],
      [{ status: 403, body: 'Forbidden' }, 'retry'],
      [json(404, { message: 'no' }), 'retry'],
      [json(429, { message: 'no' }, RETRY_7), LATER],
      [json(500, { message: 'no' }), 'retry'],
      [json(503, { message: 'no' }), 'retry'],
    ],
    strange: [json(200, { message: 'Queued. Thank you.' }), { status: 200, body: 'Mailgun Magnificent API' }],
  },
  ses: {
    fake: fakeSes,
    settings: { ...SES_KEYS, configurationSet: 'events', sessionToken: 'token/of+a session' },
    wrong: { ...SES_KEYS, secretAccessKey: 'wrong-secret' },
    mail: {
      ...sesHead,
      Content: {
        Simple: {
          Subject: { Data: MAIL.subject, Charset: 'UTF-8' },
          Body: { Text: { Data: MAIL.text, Charset: 'UTF-8' }, Html: { Data: MAIL.html, Charset: 'UTF-8' } },
          Attachments: sesAttachments,
        },
      },
    },
    templateMail: {
      ...sesHead,
      Content: {
        Template: { TemplateName: 'welcome', TemplateData: JSON.stringify(DATA), Attachments: sesAttachments },
      },
    },
    answers: [
      [sesError(400, 'BadRequestException'), 'refused'],
      [sesError(400, 'MessageRejected:http://internal.amazon.com/'), 'refused'],
      [sesError(413, ''), 'refused'],
      [sesError(400, 'AccountSuspendedException'), 'retry'],
      [sesError(400, 'LimitExceededException'), 'retry'],
      [sesError(400, 'MailFromDomainNotVerifiedException'), 'retry'],
      [sesError(400, 'SendingPausedException'), 'retry'],
      [sesError(400, 'ThrottlingException'), 'retry'],
      [sesError(400, 'ExpiredTokenException'), 'retry'],
      [json(400, { message: 'no' }), 'retry'],
      [sesError(403, 'UnrecognizedClientException'), 'retry'],
      [sesError(404, 'NotFoundException'), 'retry'],
      [sesError(429, 'TooManyRequestsException', RETRY_7), LATER],
      [sesError(500, 'InternalFailure'), 'retry'],
      [sesError(503, 'ServiceUnavailable'), 'retry'],
    ],
    strange: [json(200, {}), json(200, { MessageId: 7 })],
  },
  resend: {
    fake: fakeResend,
    settings: { apiKey: RESEND_KEY },
    wrong: { apiKey: 're_wrong-secret' },
    mail: { ...resendHead, subject: MAIL.subject, text: MAIL.text, html: MAIL.html },
    templateMail: { ...resendHead, template: { id: 'welcome', variables: DATA } },
    answers: [
      [resendError(400, 'validation_error'), 'refused'],
      [resendError(422, 'missing_required_field'), 'refused'],
      [resendError(401, 'missing_api_key'), 'retry'],
      [resendError(403, 'validation_error'), 'retry'],
      [resendError(409, 'concurrent_idempotent_requests'), 'unknown'],
      [resendError(409, 'invalid_idempotent_request'), 'unknown'],
      [resendError(429, 'rate_limit_exceeded', RETRY_7), LATER],
      [resendError(429, 'daily_quota_exceeded'), 'retry'],
      [resendError(451, 'security_error'), 'retry'],
      [resendError(500, 'internal_server_error'), 'retry'],
    ],
    strange: [json(200, { object: 'email' }), json(200, { id: '' })],
  },
}

/** Settings that are sent along, and are secrets. */
const SECRETS = ['apiKey', 'serverToken', 'secretAccessKey', 'sessionToken']

const soon = () => AbortSignal.timeout(patience(60_000))

const make = (name: string, settings: object) => makeProvider('email', name, settings)

for (const [name, { fake, settings, wrong, mail, templateMail, answers, strange }] of Object.entries(CASES)) {
  tap.test(name, async (t) => {
    const api = await fake(t)
    const sender = await make(name, { ...settings, url: api.url, domains: ['example.org'] })
    t.teardown(() => sender.close?.())

    await t.test(
      'sends to an address with a slash at its end, and from any domain unless told otherwise',
      async (t) => {
        const provider = await make(name, { ...settings, url: `${api.url}/` })
        t.teardown(() => provider.close?.())
        await t.resolves(provider.send({ ...MAIL, id: crypto.randomUUID() }, soon()))
        t.equal(provider.domains, undefined)
      },
    )

    await t.test('sends every part of a mail', async (t) => {
      const { id, detail } = await sender.send(MAIL, soon())

      t.strictSame(api.taken.at(-1), mail)
      t.not(id, '')
      t.notMatch(id, /[<>]/)
      t.match(detail, /^20[02]/)
      t.strictSame(sender.domains, ['example.org'])
    })

    await t.test('sends a mail of the least that there is', async (t) => {
      const { id, to, from } = { ...HEAD, to: { address: 'reader@example.com' }, from: { address: 'a@example.org' } }
      const before = api.taken.length
      await sender.send({ id: `${id}-1`, to, from, subject: 'Hi', html: '<p>Hi' }, soon())
      await sender.send({ id: `${id}-2`, to, from, subject: 'Hi', text: 'Hi', cc: [], attachments: [] }, soon())

      t.equal(api.taken.length, before + 2)
    })

    await t.test('sends a mail that would break a rule of the API so that it breaks none', async (t) => {
      const { to, from } = { to: { address: 'reader@example.com' }, from: { address: 'a@example.org' } }
      const boxes = (...addresses: readonly string[]) => addresses.map((address) => ({ address }))
      const cases: readonly [string, Partial<Mail>, readonly string[]][] = [
        ['an address twice', { cc: boxes('Reader@Example.com'), bcc: boxes('reader@EXAMPLE.com') }, []],
        ['an address twice in cc', { cc: boxes('one@example.com', 'ONE@example.com') }, ['one@example.com']],
        [
          'an address in cc and bcc',
          { cc: boxes('one@example.com'), bcc: boxes('One@example.com', 'two@example.com') },
          ['one@example.com', 'two@example.com'],
        ],
        ['an empty text', { text: '' }, []],
        ['an empty HTML', { text: undefined, html: '' }, []],
        ['an empty text and HTML', { text: '', html: '' }, []],
        ['an empty text beside HTML', { text: '', html: '<p>' }, []],
        ['an empty HTML beside a text', { html: '' }, []],
        ['an empty subject', { subject: '' }, []],
        ['a blank subject', { subject: ' ' }, []],
        [
          'only an attachment',
          { text: '', attachments: [{ filename: 'a', contentType: 'a/b', content: Buffer.from('a') }] },
          [],
        ],
      ]
      for (const [what, more, others] of cases) {
        const before = api.taken.length
        const mail = { id: crypto.randomUUID(), to, from, subject: 'Hi', text: 'Hi', ...more } as Mail
        await t.resolves(sender.send(mail, soon()), what)
        t.equal(api.taken.length, before + 1)
        const found = JSON.stringify(api.taken.at(-1)).match(/[\w.]+@example\.com/gi)
        t.same(found, ['reader@example.com', ...others], what)
        const template = { ...WELCOME, id: crypto.randomUUID(), cc: mail.cc ?? [], bcc: mail.bcc ?? [] }
        await t.resolves(sender.sendTemplate!(template, soon()), `${what}: from a template`)
      }
    })

    await t.test('says why a mail is beyond the limits of the API', async (t) => {
      const many = (count: number) => Array.from({ length: count }, (_, i) => ({ address: `r${i}@example.com` }))
      const file = (bytes: number) => [{ filename: 'a.txt', contentType: 'a/b', content: Buffer.alloc(bytes) }]
      const limit = name === 'sendgrid' || name === 'mailgun' ? 1000 : 50
      const plain: Mail = { id: ID, to: HEAD.to, from: HEAD.from, subject: 'Hi', text: 'Hi' }
      const problem = (more: Partial<Mail>) => sender.problemWith?.({ ...plain, ...more })

      t.equal(problem({}), undefined)
      const most = { cc: many(limit - 1) }
      t.equal(problem(most), undefined)
      await t.resolves(sender.send({ ...plain, ...most, id: crypto.randomUUID() }, soon()))
      t.match(problem({ cc: many(limit) }), `at most ${limit} recipients`)
      await t.rejects(sender.send({ ...plain, cc: many(limit), id: crypto.randomUUID() }, soon()), {
        name: 'SendError',
        outcome: 'refused',
      })
      t.equal(problem({ cc: many(limit - 1), bcc: many(limit - 1) }), undefined, 'nobody is counted twice')
      t.equal(problem({ attachments: file(6_000_000) }), undefined)
      t.match(problem({ attachments: file(40_000_000) }), /MB/)
    })

    await t.test('sends a mail from a template', async (t) => {
      await sender.sendTemplate?.({ ...WELCOME, id: `${ID}-3` }, soon())

      const expected = JSON.stringify(templateMail).replaceAll(ID, `${ID}-3`)
      t.strictSame(api.taken.at(-1), JSON.parse(expected))
    })

    await t.test('says what is known of a mail that it did not send', async (t) => {
      for (const [answer, outcome] of answers) {
        api.next(answer)
        const before = api.asked.length
        const error = await sender.send(MAIL, soon()).catch((error: unknown) => error)
        const expected = outcome === LATER ? { outcome: 'retry', retryAfter: 7 } : { outcome, retryAfter: undefined }
        t.match(error, { name: 'SendError', unreadable: false, ...expected }, `${answer.status} ${answer.body}`)
        t.match(error, { response: new RegExp(`^${answer.status} `), limit: answer.status === 413 })
        t.equal(api.asked.length, before + 1, 'it asked once')
      }
    })

    await t.test('an answer without a reference is unreadable', async (t) => {
      for (const answer of strange) {
        api.next(answer)
        await t.rejects(sender.send(MAIL, soon()), { name: 'SendError', outcome: 'unknown', unreadable: true })
      }
    })

    await t.test('a wrong credential is no fault of the mail, and is not shown', async (t) => {
      const stranger = await make(name, { ...wrong, url: api.url })
      const error = await stranger.send(MAIL, soon()).catch((error: unknown) => error)
      await stranger.close?.()

      t.match(error, { name: 'SendError', outcome: 'retry', response: /^40[13] / })
      t.notMatch(JSON.stringify(error, Object.getOwnPropertyNames(error)), /wrong-secret/)
    })

    await t.test('a key that an answer repeats is not shown', async (t) => {
      const secrets = SECRETS.flatMap((key) => (settings[key] as string | undefined)?.split(' ') ?? [])
      const encoded = name === 'mailgun' ? [Buffer.from(`api:${secrets[0]}`).toString('base64')] : []
      const repeated = [...secrets, ...encoded]
      api.next({ status: 500, body: repeated.join(' ') })
      const error = await sender.send(MAIL, soon()).catch((error: unknown) => error)

      t.not(secrets.length, 0)
      t.match(error, { name: 'SendError', message: 'the provider did not accept the message' })
      t.match(error, { response: /^500 \*\*\*( \*\*\*)*$/ })
    })

    await t.test('the README configures it, and events need their secret', async (t) => {
      const example = await exampleOf(name)
      const configured = await make(name, example)
      const bare = await make(name, settings)
      for (const each of [configured, bare]) await each.close?.()

      t.equal(typeof configured.events, name === 'ses' ? 'undefined' : 'function')
      t.equal(bare.events, undefined)
    })
  })
}

tap.test('postmark takes a number for the id of a template', async (t) => {
  const api = await fakePostmark(t)
  const sender = await make('postmark', { serverToken: POSTMARK_TOKEN, url: api.url })
  await sender.sendTemplate?.({ ...WELCOME, template: '1234' }, soon())
  await sender.close?.()

  t.match(api.taken[0], { TemplateId: 1234, TemplateAlias: undefined, MessageStream: 'outbound' })
})

tap.test('a name is not taken for more than a name', async (t) => {
  const names = ['a@b.c', '=?utf-8?q?x?=', 'One, Two', '<x@example.com>', '"', '\\', 'J. R.', 'Ärzte; e.V. (Ä)', ' ']
  const api = await fakePostmark(t)
  const ses = await fakeSes(t)
  const senders = [
    await make('postmark', { serverToken: POSTMARK_TOKEN, url: api.url }),
    await make('ses', { ...SES_KEYS, url: ses.url }),
  ]
  for (const name of names)
    for (const sender of senders) await sender.send({ ...MAIL, from: { address: 'a@example.org', name } }, soon())
  for (const sender of senders) await sender.close?.()

  const froms = [
    '"a@b.c" <a@example.org>',
    '"=?utf-8?q?x?=" <a@example.org>',
    '"One, Two" <a@example.org>',
    '"<x@example.com>" <a@example.org>',
    String.raw`"\"" <a@example.org>`,
    String.raw`"\\" <a@example.org>`,
    '"J. R." <a@example.org>',
    '"Ärzte; e.V. (Ä)" <a@example.org>',
    'a@example.org',
  ]
  t.strictSame(
    api.taken.map((mail) => mail['From']),
    froms,
  )
  t.strictSame(
    ses.taken.map((mail) => mail['FromEmailAddress']),
    froms.with(7, `${word('Ärzte; e.V. (Ä)')} <a@example.org>`),
  )
})

tap.test('an address may have a path in front', async (t) => {
  const api = await fakeSendgrid(t)
  const sender = await make('sendgrid', { apiKey: SENDGRID_KEY, url: `${api.url}/behind/` })
  await t.rejects(sender.send(MAIL, soon()), { name: 'SendError', outcome: 'retry' })
  await sender.close?.()

  t.equal(api.asked[0]?.path, '/behind/v3/mail/send')
})

tap.test('resend sends what it has already sent only once', async (t) => {
  const api = await fakeResend(t)
  const sender = await make('resend', { apiKey: RESEND_KEY, url: api.url })
  const ids = [await sender.send(MAIL, soon()), await sender.send(MAIL, soon())].map(({ id }) => id)
  await t.rejects(sender.send({ ...MAIL, subject: 'other' }, soon()), { name: 'SendError', outcome: 'unknown' })
  await sender.close?.()

  t.equal(ids[0], ids[1])
  t.equal(api.taken.length, 1)
  t.equal(sender.sendsOnceForSeconds, 82_800)
  t.equal(api.asked[0]?.headers['idempotency-key'], ID)
})

/** What stands in the environment of the README's examples, where not any text will do. */
const ENV: Readonly<Record<string, string>> = {
  SENDGRID_VERIFICATION_KEY:
    'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA==',
  RESEND_WEBHOOK_SECRET: 'whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz',
}

/** The settings of a provider as its README has them, with something for each `{$env}`. */
async function exampleOf(name: string): Promise<Readonly<Record<string, unknown>>> {
  const readme = await readFile(fileURLToPath(new URL('../../../providers/email/README.md', import.meta.url)), 'utf8')
  const section = readme.split(/^## /m).find((text) => text.startsWith(`\`${name}\``)) ?? ''
  const source = /```js\n(.*?)```/s.exec(section)?.[1] ?? ''
  const inserted = source.replaceAll(/\{ \$env: '(\w+)' \}/g, (_all, name: string) => JSON.stringify(ENV[name] ?? name))
  const module = `data:text/javascript,${encodeURIComponent(`export const { providers } = {${inserted}}`)}`
  const { providers } = (await import(module)) as { providers: { email: Record<string, Record<string, unknown>> } }
  return providers.email[name] ?? {}
}
