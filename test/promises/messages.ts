import type { Test } from 'tap'
import type { Mail, Sms } from '../../core/index.js'
import { MAIL, notifyServer, type NotifyServer, SMS } from '../kit/notify.js'
import { get, invalid, last, missing, send } from '../kit/notify-steps.js'
import { area, type Case, type Expected, like, type Step } from '../kit/promises.js'
import { sendError } from '../kit/sender.js'
import { testServer } from '../kit/server.js'

/** What sending promises to those who send: payloads, answers and errors. */
const PROMISES = {
  'mail.answer': 'an email is answered with the reference and the details of the provider, and with its URL',
  'mail.fields': 'the provider gets every field of a mail',
  'mail.from-name': 'the display name of the sender is that of fromName, otherwise that of from',
  'mail.body': 'a mail has a text, or HTML, or both',
  'mail.missing': 'a mail without to, from or sub is refused, with the missing key',
  'mail.addresses': 'an address is plain, has a name, or a domain of any language',
  'mail.one-address': 'a field of one address takes one address, and nothing that can be read as another',
  'mail.header': 'a field that becomes a header has no line break, control character or encoded word',
  'mail.types': 'a field is a string, and nothing that a library could open',
  'mail.unknown-key': 'an unknown key of a payload is refused',
  'mail.no-object': 'a payload is a JSON object',
  'mail.not-stored': 'nothing is stored of a refused payload',
  'mail.list': 'each address of a list gets a mail of its own, and the answer has the outcome of each',
  'mail.list-none': 'if no mail of a list was sent, the request fails',
  'mail.list-size': 'a list has 1 to 50 recipients',
  'mail.list-copies': 'copies need a single recipient',
  'mail.domains': 'a sender has an address of the domains of a provider',
  'attachment.content': 'an attachment arrives byte by byte, with its name and its type',
  'attachment.file': 'a file of the filestore is attached, with its own name and type unless others are given',
  'attachment.no-file': 'a file that does not exist, or a server without files, is a clear error',
  'attachment.refused': 'an attachment has a name without folders, a type, and either base64 or a file',
  'attachment.number': 'a mail has at most 20 attachments',
  'attachment.download': 'an attachment of a stored message can be downloaded by its position',
  'attachment.download-none': 'a position without an attachment is not found',
  'sms.answer': 'an SMS is answered as a mail, and its numbers are integers or digits',
  'sms.missing': 'an SMS without to, countryCode or message is refused, with the missing key',
  'sms.number': 'a national number has 4 digits at least, and 15 at most with its calling code',
  'sms.country-code': 'a calling code has one to three digits, and no zero in front',
  'sms.message': 'an SMS has 1 to 1600 characters',
  'template.provider': 'a template of the provider gets its values',
  'template.missing': 'a template mail without to, fromEmail or templateName is refused, with the missing key',
  'template.values': 'templateContent is a list of names and texts, each name once',
  'template.none': 'a template that neither the provider nor Rowhouse has is refused',
  'template.own': 'a template that is stored in Rowhouse is sent as an ordinary mail',
  'template.own-value': 'a variable without a value is an error, and nothing is sent',
  'send.admin': 'only admin sends, whatever the payload',
  'send.admin-reads': 'only admin reads and changes what is stored',
  'send.method': 'a path that does not exist, or not with this method, is an error',
  'send.no-provider':
    'without a default provider a message is refused, and so is one whose provider has no configuration',
  'send.refused': 'what a provider refuses is an error with its words, the id and the state of the message',
  'send.fault': 'after any other fault of a provider it is unknown whether the message was sent',
  'send.unreadable': 'an answer of a provider that cannot be read is in the error',
  'send.truncated': 'reference and details of a provider are cut after 1,000 characters',
} as const

const PAGES = {
  'plugins/notify/README.md': {
    notify: {
      '`POST /v1/send/email`, `/v1/send/sms`, `/v1/send/email-template`': [
        'mail.answer',
        'sms.answer',
        'template.provider',
      ],
      '`GET /v1/send/<id>/attachments/<n>`': ['attachment.download', 'attachment.download-none'],
    },
    Payloads: {
      '`to`': ['mail.addresses', 'mail.list', 'mail.list-size', 'sms.number'],
      '`from`, `fromName`': ['mail.from-name', 'mail.domains'],
      '`sub`': 'mail.header',
      '`text`, `html`': 'mail.body',
      '`cc`, `bcc`, `replyTo`': ['mail.fields', 'mail.list-copies'],
      '`attachments`': ['attachment.content', 'attachment.file', 'attachment.refused'],
      '`countryCode`': 'sms.country-code',
      '`message`': 'sms.message',
    },
    Errors: {
      '400': ['mail.missing', 'template.none'],
      '401': 'send.admin',
      '404': 'attachment.no-file',
      '500': ['send.no-provider', 'send.refused', 'send.unreadable'],
    },
  },
} as const

const mail = (more: object, expected: Expected): Step => send('email', { ...MAIL, ...more }, expected)
const ok = like({ detail: 'taken' })
const without = (body: object, key: string) => Object.fromEntries(Object.entries(body).filter(([name]) => name !== key))
const TEMPLATE_MAIL = { to: 'a@example.com', fromEmail: 'b@example.com', templateName: 'welcome' }
const base64 = (text: string) => Buffer.from(text).toString('base64')
const UNAUTHORIZED: Expected = { status: 401, body: { code: 'unauthorized', message: 'Only role: admin is allowed' } }

/** Of an email that was sent: what the provider got. */
async function handed(t: Test, server: NotifyServer, body: object): Promise<Omit<Mail, 'id'>> {
  t.equal((await server.send('email', body)).status, 200)
  const { id: _, ...others } = last(server)
  return others
}
const attached = (attachment: object, expected: Expected) => mail({ attachments: [attachment] }, expected)

const CASES: Record<keyof typeof PROMISES, Case<NotifyServer>> = {
  'mail.answer': async (t, server) => {
    server.email.answers.push(async () => ({ id: 'ref-1', detail: '250 queued as 1' }))
    const { status, body, headers } = await server.send('email', MAIL)
    t.same([status, body], [200, { id: 'ref-1', detail: '250 queued as 1' }])
    t.match(last(server).id, /^[0-9a-f-]{36}$/)
    t.equal(headers.get('location'), `/v1/send/${last(server).id}`)
  },
  'mail.fields': async (t, server) => {
    const all = {
      fromName: 'The Shop',
      html: '<p>Hi',
      cc: ['One <one@example.com>', 'two@example.com'],
      bcc: 'three@example.com',
      replyTo: 'Answers <four@example.com>',
    }
    t.same(await handed(t, server, { ...MAIL, ...all }), {
      to: { address: 'reader@example.com', name: 'A Reader' },
      from: { address: 'shop@example.com', name: 'The Shop' },
      subject: 'Hello',
      text: 'Hi',
      html: '<p>Hi',
      cc: [{ address: 'one@example.com', name: 'One' }, { address: 'two@example.com' }],
      bcc: [{ address: 'three@example.com' }],
      replyTo: { address: 'four@example.com', name: 'Answers' },
    })
    t.same(Object.keys(await handed(t, server, MAIL)), ['to', 'from', 'subject', 'text'])
  },
  'mail.from-name': async (t, server) => {
    const from = 'Own <shop@example.com>'
    t.same((await handed(t, server, { ...MAIL, from })).from, { address: 'shop@example.com', name: 'Own' })
    t.equal((await handed(t, server, { ...MAIL, from, fromName: 'Other' })).from.name, 'Other')
  },
  'mail.body': [
    send('email', { ...without(MAIL, 'text'), html: '<p>' }, ok),
    mail({ html: '<p>' }, ok),
    send('email', without(MAIL, 'text'), invalid("one of the keys 'text' and 'html' has to be present", '$')),
  ],
  'mail.missing': ['to', 'from', 'sub'].map((each) => send('email', without(MAIL, each), missing(each))),
  'mail.addresses': async (t, server) => {
    const fine: [string, object][] = [
      ['"Bee, Ann" <a@x.example>', { address: 'a@x.example', name: 'Bee, Ann' }],
      ['"\\"Ann\\"" <a@x.example>', { address: 'a@x.example', name: '"Ann"' }],
      ['Änn <a+b@x.example>', { address: 'a+b@x.example', name: 'Änn' }],
      ['<a@x.example>', { address: 'a@x.example' }],
      ['a@bücher.example', { address: 'a@xn--bcher-kva.example' }],
      ["o'hara@localhost", { address: "o'hara@localhost" }],
    ]
    for (const [to, expected] of fine) t.same((await handed(t, server, { ...MAIL, to })).to, expected)
  },
  'mail.one-address': [
    ...['to', 'from', 'replyTo', 'cc', 'bcc'].map((field) =>
      mail({ [field]: 'a@x.example, b@x.example' }, invalid('expecting one address', `$.${field}`)),
    ),
    ...[
      'a@x.example; b@x.example',
      'Name <a@x.example> <b@x.example>',
      'group: a@x.example;',
      '"quoted local"@x.example',
      'a@[127.0.0.1]',
      'a@127.0.0.1',
      'a@x..example',
      'a@-x.example',
      'a b@x.example',
      'a(comment)@x.example',
      `${'a'.repeat(65)}@x.example`,
      'a@',
      '',
    ].map((to) => mail({ to }, invalid('expecting one address', '$.to'))),
    mail({ cc: ['a@x.example', 'b'] }, invalid('expecting one address', '$.cc[1]')),
    mail({ to: `${'a'.repeat(64)}@x.example` }, ok),
  ],
  'mail.header': [
    ...['sub', 'fromName'].flatMap((field) => [
      mail(
        { [field]: 'a\r\nBcc: evil@example.com' },
        invalid('line breaks and control characters are not allowed', `$.${field}`),
      ),
      mail({ [field]: 'a\nb' }, invalid('line breaks', `$.${field}`)),
      mail({ [field]: 'a\u0085b' }, invalid('line breaks', `$.${field}`)),
      mail({ [field]: 'a\u2028b' }, invalid('line breaks', `$.${field}`)),
      mail({ [field]: 'Hi =?UTF-8*en?B?aGk=?= you' }, invalid('encoded words', `$.${field}`)),
    ]),
    ...['to', 'from', 'replyTo', 'cc', 'bcc'].flatMap((field) => [
      mail({ [field]: 'a\r\nb <a@x.example>' }, invalid('expecting one address', `$.${field}`)),
      mail({ [field]: '=?utf-8?q?a=0D=0ABcc:_e@x?= <a@x.example>' }, invalid('expecting one address', `$.${field}`)),
    ]),
    mail({ sub: 'x'.repeat(900) }, ok),
    mail({ sub: 'x'.repeat(901) }, invalid('longer than 900 characters', '$.sub')),
    mail({ sub: 'What is 2+2=?' }, ok),
  ],
  'mail.types': [
    ...[1, {}, { path: '/etc/passwd' }, true, ['a']].flatMap((value) =>
      ['sub', 'text', 'html', 'fromName'].map((field) =>
        mail({ [field]: value }, invalid('expecting a string', `$.${field}`)),
      ),
    ),
    mail({ to: 5 }, invalid('expecting a string, but found', '$.to')),
    mail({ text: 'a\u0000' }, invalid('U+0000', '$.text')),
    mail({ queue: 'true' }, invalid('expecting a boolean', '$.queue')),
    mail({ atMostOnce: 1 }, invalid('expecting a boolean', '$.atMostOnce')),
  ],
  'mail.unknown-key': [
    mail({ headers: {} }, invalid('unexpected key "headers"', '$.headers')),
    send('sms', { ...SMS, from: '1' }, invalid('unexpected key "from"', '$.from')),
  ],
  'mail.no-object': [
    send('email', '[]', invalid('Error in $: expecting an object, but found an array')),
    send('email', '{"to": ', invalid(/^Error in \$/)),
    send('sms', '5', invalid('Error in $: expecting an object, but found a number')),
  ],
  'mail.not-stored': async (t, server) => {
    const newest = await server.messages()
    const { length } = server.email.handed
    t.equal((await server.send('email', { ...MAIL, sub: 'a\nb' })).status, 400)
    t.equal((await server.send('email', { ...MAIL, to: ['a@example.com', 'b'] })).status, 400)
    t.same(await server.messages(), newest)
    t.equal(server.email.handed.length, length)
  },
  'mail.list': async (t, server) => {
    const { email } = server
    email.handed.length = 0
    const answer = async ({ to }: object & { to?: unknown }) =>
      (to as { address: string }).address.startsWith('b') ? sendError('refused', 'no')() : { id: 'x', detail: 'taken' }
    email.answers.push(answer, answer, answer)
    const sent = await server.send('email', { ...MAIL, to: ['a@example.com', 'B <b@example.com>', 'c@example.com'] })
    t.match([sent.status, sent.body], [200, { id: 'x', detail: '2 of 3 sent' }])
    t.match(sent.body.results, [
      { to: 'a@example.com', id: 'x', detail: 'taken' },
      {
        to: 'B <b@example.com>',
        code: 'unexpected',
        message: 'unexpected response from the email provider',
        state: 'failed',
        detail: 'first: no',
      },
      { to: 'c@example.com', id: 'x', detail: 'taken' },
    ])
    t.same(email.handed.map(({ to }) => (to as { address: string }).address).toSorted(), [
      'a@example.com',
      'b@example.com',
      'c@example.com',
    ])
  },
  'mail.list-none': async (t, server) => {
    server.email.answers.push(sendError('refused', 'no'), sendError('refused', 'no'))
    const failed = await server.send('email', { ...MAIL, to: ['a@example.com', 'b@example.com'] })
    t.match(failed, { status: 500, body: { code: 'unexpected', state: 'failed' } })
  },
  'mail.list-size': [
    mail({ to: [] }, invalid('must not be empty', '$.to')),
    mail({ to: Array.from({ length: 51 }, (_, i) => `a${i}@example.com`) }, invalid('more than 50 addresses', '$.to')),
    mail({ to: Array.from({ length: 50 }, (_, i) => `a${i}@example.com`) }, like({ detail: '50 of 50 sent' })),
  ],
  'mail.list-copies': ['cc', 'bcc'].map((field) =>
    mail(
      { to: ['a@example.com', 'b@example.com'], [field]: 'c@example.com' },
      invalid('need a single recipient', '$.to'),
    ),
  ),
  'mail.domains': async (t, server) => {
    const { email, second } = server
    email.extra = { domains: ['Example.com'] }
    second.extra = { domains: ['example.net'] }
    t.equal((await server.send('email', MAIL)).status, 200)
    for (const from of ['a@example.org', 'a@sub.example.com', 'a@notexample.com', 'a@example.com.evil.example'])
      t.match(await server.send('email', { ...MAIL, from }), {
        status: 400,
        body: { code: 'invalid_payload', message: /^Error in \$\.from: first sends from Example.com only, not from / },
      })
    t.match(await server.send('email', { ...MAIL, from: 'a@example.net' }), { status: 200, body: { id: /^second-/ } })
    email.extra = second.extra = {}
  },
  'attachment.content': async (t, server) => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    const attachments = [
      { filename: 'ü.bin', contentType: 'text/plain; charset=utf-8', content: bytes.toString('base64') },
      { filename: 'empty', content: '' },
    ]
    t.same((await handed(t, server, { ...MAIL, attachments })).attachments, [
      { filename: 'ü.bin', contentType: 'text/plain; charset=utf-8', content: bytes },
      { filename: 'empty', contentType: 'application/octet-stream', content: Buffer.alloc(0) },
    ])
  },
  'attachment.file': async (t, server) => {
    const stored = await server.fetch(`/v1/file/${encodeURIComponent('bills/7.txt')}`, {
      method: 'PUT',
      body: 'a bill',
      headers: { 'content-type': 'text/plain; charset=utf-8', 'x-service-user-id': '7' },
    })
    t.equal(stored.status, 200)
    const attach = async (attachment: object) =>
      (await handed(t, server, { ...MAIL, attachments: [attachment] })).attachments
    const content = Buffer.from('a bill')
    t.same(await attach({ file_id: 'bills/7.txt' }), [
      { filename: '7.txt', contentType: 'text/plain; charset=utf-8', content },
    ])
    t.same(await attach({ file_id: 'bills/7.txt', filename: 'bill', contentType: 'a/b' }), [
      { filename: 'bill', contentType: 'a/b', content },
    ])
  },
  'attachment.no-file': async (t, server) => {
    const mailed = { ...MAIL, attachments: [{ file_id: 'nothing' }] }
    t.match(await server.send('email', mailed), {
      status: 404,
      body: { code: 'not_found', message: 'file not found : nothing' },
    })
    const none = await testServer(t, {
      notify: true,
      databaseUrl: server.databaseUrl,
      config: { providers: { email: { default: 'memory', memory: {} } } },
    })
    const { status, body } = await none.fetch('/v1/send/email', { method: 'POST', body: JSON.stringify(mailed) })
    const message = 'Error in $.attachments: the plugin filestore is not loaded'
    t.match([status, body], [400, { code: 'invalid_payload', message }])
  },
  'attachment.refused': [
    attached({ filename: 'a', content: 'no base64!' }, invalid('expecting base64', '$.attachments[0].content')),
    attached({ filename: '../a', content: '' }, invalid('not a valid file name', '$.attachments[0].filename')),
    attached({ filename: 'a\\b', content: '' }, invalid('not a valid file name', '$.attachments[0].filename')),
    attached({ filename: 'a\r\nb', content: '' }, invalid('line breaks', '$.attachments[0].filename')),
    attached(
      { filename: 'a', contentType: 'x\r\ny', content: '' },
      invalid('line breaks', '$.attachments[0].contentType'),
    ),
    attached(
      { filename: 'a', contentType: 'text', content: '' },
      invalid('expecting "type/subtype"', '$.attachments[0].contentType'),
    ),
    attached({ filename: 'a', path: '/etc/passwd' }, invalid('unexpected key "path"', '$.attachments[0].path')),
    attached({ filename: 'a' }, invalid("one of the keys 'content' and 'file_id'", '$.attachments[0]')),
    attached({ file_id: 'a', content: '' }, invalid("one of the keys 'content' and 'file_id'", '$.attachments[0]')),
    attached({ content: '' }, invalid("the key 'filename' was not present", '$.attachments[0]')),
    attached(
      { filename: 'a', content: { path: '/etc/passwd' } },
      invalid('expecting a string', '$.attachments[0].content'),
    ),
  ],
  'attachment.number': [
    mail({ attachments: Array.from({ length: 20 }, () => ({ filename: 'a', content: '' })) }, ok),
    mail(
      { attachments: Array.from({ length: 21 }, () => ({ filename: 'a', content: '' })) },
      invalid('more than 20 attachments', '$.attachments'),
    ),
  ],
  'attachment.download': async (t, server) => {
    server.email.extra = { catches: true }
    const contentType = 'text/plain; charset=utf-8'
    const attachments = [
      { filename: 'ü.txt', contentType, content: base64('hällo') },
      { filename: 'b', content: base64('b') },
    ]
    const { headers } = await server.send('email', { ...MAIL, attachments })
    server.email.extra = {}
    const message = headers.get('location') as string
    const first = await server.fetch(`${message}/attachments/0`)
    t.same([first.status, first.text], [200, 'hällo'])
    t.equal(first.headers.get('content-type'), contentType)
    t.match(first.headers.get('content-disposition'), /^attachment; filename="\?\.txt"; filename\*=UTF-8''%C3%BC\.txt$/)
    t.equal(first.headers.get('x-content-type-options'), 'nosniff')
    t.equal((await server.fetch(`${message}/attachments/1`)).text, 'b')
    t.match((await server.fetch(message)).body, {
      state: 'caught',
      text: 'Hi',
      attachments: [
        { filename: 'ü.txt', content_type: contentType, size: 6 },
        { filename: 'b', content_type: 'application/octet-stream', size: 1 },
      ],
    })
  },
  'attachment.download-none': async (t, server) => {
    const [newest] = await server.messages('?limit=1')
    for (const position of ['2', '-1', 'x', '1e9', '99999999999'])
      t.match(await server.fetch(`/v1/send/${newest.id}/attachments/${position}`), {
        status: 404,
        body: { code: 'not_found' },
      })
  },
  'sms.answer': async (t, server) => {
    for (const body of [SMS, { ...SMS, to: '5550100', countryCode: '1' }]) {
      const { status, body: answer, headers } = await server.send('sms', body)
      t.match([status, answer], [200, { id: /^sms-/, detail: 'taken' }])
      const { id, ...handed } = server.sms.handed.at(-1) as Sms
      t.same(handed, { to: '5550100', countryCode: '1', message: 'Hello' })
      t.equal(headers.get('location'), `/v1/send/${id}`)
    }
  },
  'sms.missing': ['to', 'countryCode', 'message'].map((each) => send('sms', without(SMS, each), missing(each))),
  'sms.number': [
    ...['12-34', -1, 1.5, '', 1e15, '+49123', '5550100555010055'].map((to) =>
      send('sms', { ...SMS, to }, invalid('expecting a number of up to 15 digits', '$.to')),
    ),
    send('sms', { ...SMS, to: 123 }, invalid('not a valid national number', '$.to')),
    send('sms', { ...SMS, to: 1234 }, ok),
    send('sms', { ...SMS, to: '12345678901234' }, ok),
    send('sms', { ...SMS, to: '123456789012345' }, invalid('not a valid national number', '$.to')),
  ],
  'sms.country-code': [
    ...[0, 1234, '01'].map((countryCode) =>
      send('sms', { ...SMS, countryCode }, invalid('not a valid calling code', '$.countryCode')),
    ),
    send('sms', { ...SMS, countryCode: 'x' }, invalid('expecting a number', '$.countryCode')),
    send('sms', { ...SMS, countryCode: 999 }, ok),
  ],
  'sms.message': [
    send('sms', { ...SMS, message: ' ' }, invalid('must not be empty', '$.message')),
    send('sms', { ...SMS, message: 'x'.repeat(1600) }, ok),
    send('sms', { ...SMS, message: 'x'.repeat(1601) }, invalid('longer than 1600 characters', '$.message')),
  ],
  'template.provider': async (t, server) => {
    const { email } = server
    const got: unknown[] = []
    email.extra = {
      async sendTemplate({ to, from, template, content }) {
        got.push({ to, from, template, content })
        return { id: 'made', detail: 'x' }
      },
    }
    const templateContent = [{ name: 'who', content: 'Ann' }]
    const sent = await server.send('email-template', { ...TEMPLATE_MAIL, fromName: 'B', templateContent })
    t.same([sent.status, sent.body], [200, { id: 'made', detail: 'x' }])
    const expected = {
      to: { address: 'a@example.com' },
      from: { address: 'b@example.com', name: 'B' },
      template: 'welcome',
      content: templateContent,
    }
    t.same(got, [expected])
    const { fromEmail: from, ...others } = TEMPLATE_MAIL
    t.equal((await server.send('email-template', { ...others, from, fromName: 'B', templateContent })).status, 200)
    t.same(got[1], expected, 'with from as in the other payload')
    email.extra = {}
  },
  'template.missing': ['to', 'fromEmail', 'templateName'].map((each) =>
    send('email-template', without(TEMPLATE_MAIL, each), missing(each)),
  ),
  'template.values': [
    [
      [
        { name: 'a', content: 'x' },
        { name: 'a', content: 'y' },
      ],
      /duplicate name "a"/,
      '[1]',
    ],
    ['x', /expecting a list/, ''],
    [[{ name: 'a' }], /the key 'content' was not present/, '[0]'],
    [[{ content: 'a' }], /the key 'name' was not present/, '[0]'],
    [[{ name: 'a', content: 1 }], /expecting a string/, '[0].content'],
  ].map(([templateContent, message, at]) =>
    send(
      'email-template',
      { ...TEMPLATE_MAIL, templateContent },
      invalid(message as RegExp, `$.templateContent${at as string}`),
    ),
  ),
  'template.none': [
    send('email-template', TEMPLATE_MAIL, {
      status: 400,
      like: { code: 'invalid_provider', message: 'sending templates is not available for first' },
    }),
  ],
  'template.own': async (t, server) => {
    const template = { subject: 'Welcome, {{ who }}', text: 'Hi {{ who }}', html: '<p>Hi {{ who }}' }
    await server.fetch('/v1/send/template/welcome', { method: 'PUT', body: JSON.stringify(template) })
    const templateContent = [{ name: 'who', content: 'Ann & Bo' }]
    t.equal((await server.send('email-template', { ...TEMPLATE_MAIL, templateContent })).body.detail, 'taken')
    const { subject, text, html } = last(server)
    t.same({ subject, text, html }, { subject: 'Welcome, Ann & Bo', text: 'Hi Ann & Bo', html: '<p>Hi Ann &amp; Bo' })
    t.match(await server.messages('?limit=1'), [{ kind: 'email', template: 'welcome', sub: 'Welcome, Ann & Bo' }])

    const { databaseUrl } = server
    const config = { providers: { email: { default: 'memory', memory: { keep: 10 } } } }
    const trying = await testServer(t, { notify: true, databaseUrl, config })
    const tried = async (body: object) =>
      trying.fetch('/v1/send/email-template', { method: 'POST', body: JSON.stringify({ ...TEMPLATE_MAIL, ...body }) })
    t.equal((await tried({ templateContent })).status, 200)
    t.match((await trying.fetch('/v1/send?limit=1')).body.messages, [
      { sub: 'Welcome, Ann & Bo', state: 'caught', provider: 'memory' },
    ])
    t.match(await tried({ templateName: 'other' }), { status: 400, body: { code: 'invalid_provider' } })
  },
  'template.own-value': async (t, server) => {
    const { length } = server.email.handed
    t.match(await server.send('email-template', TEMPLATE_MAIL), {
      status: 400,
      body: { code: 'invalid_payload', message: /undefined variable: who/ },
    })
    t.equal(server.email.handed.length, length)
  },
  'send.admin': ['email', 'sms', 'email-template'].flatMap((what) => [
    { ...send(what, '{', UNAUTHORIZED), as: { role: 'user' } },
    { ...send(what, MAIL, UNAUTHORIZED), bare: true },
  ]),
  'send.admin-reads': [
    ['GET', ''],
    ['GET', '/x'],
    ['GET', '/x/attachments/0'],
    ['POST', '/x/retry'],
    ['GET', '/suppressed'],
    ['POST', '/suppressed'],
    ['DELETE', '/suppressed/reader@example.com'],
    ['GET', '/providers'],
  ].map(([method = '', path = '']) => ({
    path: `/v1/send${path}`,
    method,
    as: { role: 'user' },
    expected: UNAUTHORIZED,
    ...(method === 'POST' ? { body: '{}' } : {}),
  })),
  'send.method': [send('nothing', {}, { status: 405 }), get('/a/b/c/d', { status: 404 })],
  'send.no-provider': async (t, { databaseUrl }) => {
    const none = await testServer(t, { notify: true, databaseUrl })
    const other = await testServer(t, {
      notify: true,
      databaseUrl,
      config: { providers: { email: { default: 'smtp', memory: {} }, sms: { default: 'vonage', memory: {} } } },
    })
    const answer = async (server: typeof none, what: string, body: object) => {
      const { status, body: answered } = await server.fetch(`/v1/send/${what}`, {
        method: 'POST',
        body: JSON.stringify(body),
      })
      return [status, answered]
    }
    const noDefault = [500, { code: 'default_not_found', message: 'No default email/sms provider set' }]
    t.same(await answer(none, 'email', MAIL), noDefault)
    t.same(await answer(none, 'sms', SMS), noDefault)
    t.equal((await answer(none, 'email', {}))[0], 400, 'the payload comes first')
    t.same(await answer(other, 'email', MAIL), [500, { code: 'config_not_found', message: 'No smtp config found' }])
    t.same(await answer(other, 'sms', SMS), [500, { code: 'config_not_found', message: 'No vonage config found' }])
  },
  'send.refused': async (t, server) => {
    server.email.answers.push(sendError('refused', 'it said no', { response: '550 no such\nmailbox' }))
    const { status, body } = await server.send('email', MAIL)
    t.same(
      [status, body],
      [
        500,
        {
          code: 'unexpected',
          message: 'unexpected response from the email provider',
          id: last(server).id,
          state: 'failed',
          provider: 'first',
          detail: 'first: it said no: 550 no such mailbox',
        },
      ],
    )
    server.sms.answers.push(sendError('refused', 'no'))
    t.match(await server.send('sms', SMS), {
      status: 500,
      body: { code: 'unexpected', message: 'unexpected response from the sms provider', state: 'failed' },
    })
  },
  'send.fault': async (t, server) => {
    server.email.answers.push(async () => {
      throw new Error('a fault of the provider’s code')
    })
    t.match(await server.send('email', MAIL), {
      status: 500,
      body: { code: 'unexpected', state: 'unknown', detail: /it may have been sent/ },
    })
    t.same(
      server.second.handed.filter(({ id }) => id === last(server).id),
      [],
      'no other provider gets it',
    )
  },
  'send.unreadable': async (t, server) => {
    server.sms.answers.push(sendError('unknown', 'what is that', { response: '<html>', unreadable: true }))
    const { status, body } = await server.send('sms', SMS)
    t.match([status, body], [500, { code: 'response_changed', state: 'unknown', provider: 'first' }])
    t.equal(body.message, '<html>')
    server.email.answers.push(async () => ({ id: '', detail: 'sent' }))
    const empty = (await server.send('email', MAIL)).body
    t.match(empty, { code: 'response_changed', state: 'unknown' })
    t.equal(empty.message, '{id: empty, detail: string}')
  },
  'send.truncated': async (t, server) => {
    server.email.answers.push(async () => ({ id: `${'i'.repeat(999)}👋`, detail: `a\0b${'d'.repeat(5000)}` }))
    const { body } = await server.send('email', MAIL)
    t.same(body, { id: 'i'.repeat(999), detail: `a\uFFFDb${'d'.repeat(997)}` })
    server.email.answers.push(async () => ({ id: 'i'.repeat(1000), detail: 'd'.repeat(1000) }))
    t.same((await server.send('email', MAIL)).body, { id: 'i'.repeat(1000), detail: 'd'.repeat(1000) })
    server.email.answers.push(sendError('refused', `no\0${'n'.repeat(5000)}`))
    t.equal((await server.send('email', MAIL)).body.detail, `first: no\uFFFD${'n'.repeat(997)}`)
  },
}

/** Its promises, with a case for each. */
export const messages = area('messages', {
  promises: PROMISES,
  pages: PAGES,
  cases: CASES,
  start: (t: Test) => notifyServer(t, { email: { failover: ['second'] }, breaker: { failures: 1000 } }, {}, true),
})
