import tap from 'tap'
import type { Mail, Sms } from '../../core/index.js'
import { MAIL, notifyServer, SMS } from '../kit/notify.js'
import { sendError } from '../kit/sender.js'
import { testServer } from '../kit/server.js'

const ID = /^[0-9a-f-]{36}$/
const invalid = (message: RegExp | string) => ({ status: 400, body: { code: 'invalid_payload', message } })

tap.test('what the specification promises of sending', async (t) => {
  const server = await notifyServer(t)
  const { email, sms } = server

  await t.test('an email is answered with the reference and the details of the provider', async (t) => {
    email.answers.push(async () => ({ id: 'ref-1', detail: '250 queued as 1' }))
    const sent = await server.send('email', { ...MAIL, fromName: 'The Shop', html: '<p>Hi' })

    t.same([sent.status, sent.body], [200, { id: 'ref-1', detail: '250 queued as 1' }])
    const { id, ...mail } = email.handed[0] as Mail
    t.match(id, ID)
    t.equal(sent.headers.get('location'), `/v1/send/${id}`)
    t.same(mail, {
      to: { address: 'reader@example.com', name: 'A Reader' },
      from: { address: 'shop@example.com', name: 'The Shop' },
      subject: 'Hello',
      text: 'Hi',
      html: '<p>Hi',
    })
  })

  await t.test('an SMS, its numbers integers or digits', async (t) => {
    for (const body of [SMS, { ...SMS, to: '5550100', countryCode: '1' }]) {
      t.match(await server.send('sms', body), { status: 200, body: { id: String, detail: 'taken' } })
      const { id: _, ...handed } = sms.handed.at(-1) as Sms
      t.same(handed, { to: '5550100', countryCode: '1', message: 'Hello' })
    }
  })

  await t.test('a key that is missing is named', async (t) => {
    const without = (body: object, key: string) =>
      Object.fromEntries(Object.entries(body).filter(([name]) => name !== key))
    for (const key of ['to', 'from', 'sub']) {
      t.match(await server.send('email', without(MAIL, key)), invalid(`Error in $: the key '${key}' was not present`))
    }
    t.match(await server.send('email', without(MAIL, 'text')), invalid(/'text' and 'html'/))
    t.equal((await server.send('email', { ...without(MAIL, 'text'), html: '<p>' })).status, 200)
    for (const key of ['to', 'countryCode', 'message']) {
      t.match(await server.send('sms', without(SMS, key)), invalid(`Error in $: the key '${key}' was not present`))
    }
    for (const key of ['to', 'fromEmail', 'templateName']) {
      const body = { to: 'a@example.com', fromEmail: 'b@example.com', templateName: 'welcome' }
      t.match(
        await server.send('email-template', without(body, key)),
        invalid(`Error in $: the key '${key}' was not present`),
      )
    }
    t.match(await server.fetch('/v1/send/email', { method: 'POST', body: '{"to": ' }), invalid(/^Error in \$/))
    t.match(await server.send('email', []), invalid('Error in $: expecting an object, but found an array'))
  })

  await t.test('others than admin are unauthorized, whatever they send', async (t) => {
    const expected = { status: 401, body: { code: 'unauthorized', message: 'Only role: admin is allowed' } }
    for (const path of ['email', 'sms', 'email-template']) {
      const init = { method: 'POST', body: '{' }
      t.match(await server.fetch(`/v1/send/${path}`, init, { role: 'user' }), expected)
      t.match(await server.bare(`/v1/send/${path}`, init), expected, 'anonymous')
    }
    for (const path of [
      '/v1/send',
      '/v1/send/x',
      '/v1/send/x/attachments/0',
      '/v1/send/suppressed',
      '/v1/send/providers',
    ]) {
      t.match(await server.fetch(path, {}, { role: 'user' }), expected, path)
    }
  })

  await t.test('without the console a browser gets what other clients get', async (t) => {
    const accept = 'text/html,application/xhtml+xml,*/*;q=0.8'
    t.match(await server.bare('/v1/send', { headers: { accept } }), { status: 401, body: { code: 'unauthorized' } })
    t.match(await server.fetch('/v1/send', { headers: { accept } }), { status: 200, body: { messages: [] } })
  })

  await t.test('what a provider did not take', async (t) => {
    email.answers.push(sendError('refused', 'it said no', { response: '550 no such\nmailbox' }))
    t.match(await server.send('email', MAIL), {
      status: 500,
      body: {
        code: 'unexpected',
        message: 'unexpected response from the email provider',
        state: 'failed',
        detail: 'first: it said no: 550 no such mailbox',
      },
    })
    sms.answers.push(sendError('unknown', 'what is that', { response: '<html>', unreadable: true }))
    t.match(await server.send('sms', SMS), {
      status: 500,
      body: { code: 'response_changed', message: '<html>', state: 'unknown' },
    })
    email.answers.push(async () => {
      throw new Error('a fault of the provider’s code')
    })
    t.match(await server.send('email', MAIL), { status: 500, body: { code: 'unexpected', state: 'unknown' } })
    t.match(await server.fetch('/v1/send/nothing', { method: 'POST' }), { status: 405 })
  })

  await t.test('templates that the provider does not have', async (t) => {
    const mail = { to: 'a@example.com', fromEmail: 'b@example.com', templateName: 'welcome' }
    t.match(await server.send('email-template', mail), {
      status: 400,
      body: { code: 'invalid_provider', message: 'sending templates is not available for first' },
    })
  })
})

tap.test('templates of a provider', async (t) => {
  const server = await notifyServer(t)
  server.email.extra = { sendTemplate: async (mail) => ({ id: 'made', detail: JSON.stringify({ ...mail, id: 'x' }) }) }
  const templateContent = [{ name: 'who', content: 'Ann' }]
  const body = {
    to: 'a@example.com',
    fromEmail: 'b@example.com',
    fromName: 'B',
    templateName: 'welcome',
    templateContent,
  }
  const sent = await server.send('email-template', body)

  t.match(sent, { status: 200, body: { id: 'made' } })
  t.same(JSON.parse(sent.body.detail), {
    id: 'x',
    to: { address: 'a@example.com' },
    from: { address: 'b@example.com', name: 'B' },
    template: 'welcome',
    content: templateContent,
  })
  const { fromEmail, ...others } = body
  t.equal((await server.send('email-template', { ...others, from: fromEmail })).status, 200, 'as in the other payload')
  const twice = [...templateContent, ...templateContent]
  t.match(await server.send('email-template', { ...body, templateContent: twice }), invalid(/duplicate name "who"/))
})

tap.test('without a provider', async (t) => {
  const none = await testServer(t, { notify: true })
  const send = (server: typeof none, what: string, body: object) =>
    server.fetch(`/v1/send/${what}`, { method: 'POST', body: JSON.stringify(body) })
  const noDefault = { status: 500, body: { code: 'default_not_found', message: 'No default email/sms provider set' } }
  t.match(await send(none, 'email', MAIL), noDefault)
  t.match(await send(none, 'sms', SMS), noDefault)
  t.match(await send(none, 'email', {}), invalid(/'to'/), 'the payload comes first')

  const other = await testServer(t, {
    notify: true,
    config: { providers: { email: { default: 'smtp', memory: {} }, sms: { default: 'vonage', memory: {} } } },
  })
  t.match(await send(other, 'email', MAIL), {
    status: 500,
    body: { code: 'config_not_found', message: 'No smtp config found' },
  })
  t.match(await send(other, 'sms', SMS), { status: 500, body: { message: 'No vonage config found' } })
})

tap.test('fields that a header or an envelope could misread', async (t) => {
  const server = await notifyServer(t)
  const addresses = [
    'a@x.example\r\nBcc: evil@example.com',
    'a@x.example, b@x.example',
    'a@x.example; b@x.example',
    '"a@x.example\u0000@y.example"',
    '"quoted local"@x.example',
    '=?UTF-8?Q?=0A?=@x.example',
    'Name <a@x.example> <b@x.example>',
    'Name <a@x.example>, b@x.example',
    'group: a@x.example;',
    'a@[127.0.0.1]',
    'a@127.0.0.1',
    'a@x..example',
    '.a@x.example',
    'a@-x.example',
    'a@x.example\u2028b',
    'ä@x.example',
    'a(comment)@x.example',
    '<a@x.example',
    'a b@x.example',
    'Na<me <a@x.example>',
    `${'a'.repeat(65)}@x.example`,
    `a@${'x'.repeat(64)}.example`,
    '',
    ' ',
    '@x.example',
    'a@',
  ]
  for (const address of addresses) {
    for (const key of ['to', 'from', 'replyTo', 'cc', 'bcc']) {
      t.match(
        await server.send('email', { ...MAIL, [key]: address }),
        invalid(/expecting one address|U\+0000/),
        `${key}: ${encodeURIComponent(address)}`,
      )
    }
  }
  for (const value of [1, {}, { path: '/etc/passwd' }, true, ['a']]) {
    for (const key of ['from', 'sub', 'text', 'html', 'fromName']) {
      t.match(
        await server.send('email', { ...MAIL, [key]: value }),
        invalid(/^Error in \$\.\w+: expecting a string/),
        key,
      )
    }
  }
  for (const key of ['sub', 'fromName']) {
    for (const bad of ['a\r\nBcc: evil@example.com', 'a\nb', 'a\u0000', 'a\u0085b', 'a\u2028b']) {
      t.match(await server.send('email', { ...MAIL, [key]: bad }), invalid(/line breaks|U\+0000/), key)
    }
  }
  for (const word of ['=?utf-8?q?a=0D=0ABcc:_e@x?=', 'Hi =?UTF-8*en?B?aGk=?= you', '=??Q?unfinished']) {
    for (const key of ['sub', 'fromName'])
      t.match(await server.send('email', { ...MAIL, [key]: word }), invalid(/encoded words .* are not allowed/), key)
    for (const key of ['to', 'from', 'replyTo', 'cc', 'bcc']) {
      for (const name of [word, `"${word}"`])
        t.match(await server.send('email', { ...MAIL, [key]: `${name} <a@x.example>` }), invalid(/one address/), key)
    }
  }
  t.match(await server.send('email', { ...MAIL, text: 'a\u0000' }), invalid(/U\+0000/))
  t.match(await server.send('email', { ...MAIL, headers: {} }), invalid(/unexpected key "headers"/))
  for (const to of ['12-34', -1, 1.5, '', 12, 1e15, '+49123']) {
    t.match(await server.send('sms', { ...SMS, to }), invalid(/number/), `to ${to}`)
  }
  for (const countryCode of [0, 1234, '01', 'x']) {
    t.match(await server.send('sms', { ...SMS, countryCode }), invalid(/code|number/), `countryCode ${countryCode}`)
  }
  t.match(await server.send('sms', { ...SMS, message: ' ' }), invalid(/empty/))
  t.match(await server.send('sms', { ...SMS, message: 'x'.repeat(1601) }), invalid(/1600/))
  t.same(server.email.handed, [])
  t.same(await server.messages(), [], 'nothing was stored')

  const fine: [string, object][] = [
    ['Ann "the" Bee <a@x.example>', { address: 'a@x.example' }],
    ['"Bee, Ann" <a@x.example>', { address: 'a@x.example', name: 'Bee, Ann' }],
    ['"\\"Ann\\"" <a@x.example>', { address: 'a@x.example', name: '"Ann"' }],
    ['Änn <a+b@x.example>', { address: 'a+b@x.example', name: 'Änn' }],
    ['<a@x.example>', { address: 'a@x.example' }],
    ['a@bücher.example', { address: 'a@xn--bcher-kva.example' }],
    ["o'hara@localhost", { address: "o'hara@localhost" }],
  ]
  for (const [to, expected] of fine.slice(1)) {
    t.equal((await server.send('email', { ...MAIL, to })).status, 200, encodeURIComponent(to))
    t.same((server.email.handed.at(-1) as Mail).to, expected)
  }
  t.match(await server.send('email', { ...MAIL, to: fine[0]?.[0] }), invalid(/expecting one address/))
  for (const sub of ['What is 2+2=?', 'a=?b?c?d', '?=', 'Wie geht’s? =?'])
    t.equal((await server.send('email', { ...MAIL, sub })).status, 200, sub)
})

tap.test('several recipients, copies, answers elsewhere, attachments', async (t) => {
  const server = await notifyServer(t)
  const { email } = server

  const to = ['a@example.com', 'B <b@example.com>', 'c@example.com']
  email.answers.push(async ({ to }) => {
    if ((to as { address: string }).address.startsWith('b')) return sendError('refused', 'no')()
    return { id: 'x', detail: 'taken' }
  })
  email.answers.push(...email.answers, ...email.answers)
  const sent = await server.send('email', { ...MAIL, to })
  t.match(sent, {
    status: 200,
    body: {
      detail: '2 of 3 sent',
      results: [
        { to: 'a@example.com', id: 'x', detail: 'taken' },
        { to: 'B <b@example.com>', code: 'unexpected', message: /email provider/, detail: 'first: no' },
        { to: 'c@example.com', id: 'x' },
      ],
    },
  })
  t.equal(email.handed.length, 3, 'a mail each')

  email.answers.push(sendError('refused', 'no'), sendError('refused', 'no'))
  t.match(await server.send('email', { ...MAIL, to: to.slice(0, 2) }), { status: 500 }, 'none was sent')
  t.match(await server.send('email', { ...MAIL, to: [] }), invalid(/empty/))
  t.match(
    await server.send('email', { ...MAIL, to: Array.from({ length: 51 }, (_, i) => `a${i}@example.com`) }),
    invalid(/more than 50/),
  )
  t.match(await server.send('email', { ...MAIL, to, cc: 'x@example.com' }), invalid(/need a single recipient/))

  const all = {
    cc: ['One <one@example.com>', 'two@example.com'],
    bcc: 'three@example.com',
    replyTo: 'Answers <four@example.com>',
    attachments: [
      { filename: 'ü.txt', contentType: 'text/plain; charset=utf-8', content: Buffer.from('hällo').toString('base64') },
      { filename: 'empty', content: '' },
    ],
  }
  t.equal((await server.send('email', { ...MAIL, ...all })).status, 200)
  t.match(email.handed.at(-1), {
    cc: [{ address: 'one@example.com', name: 'One' }, { address: 'two@example.com' }],
    bcc: [{ address: 'three@example.com' }],
    replyTo: { address: 'four@example.com', name: 'Answers' },
    attachments: [
      { filename: 'ü.txt', contentType: 'text/plain; charset=utf-8', content: Buffer.from('hällo') },
      { filename: 'empty', contentType: 'application/octet-stream', content: Buffer.alloc(0) },
    ],
  })
  email.extra = { catches: true }
  const { headers } = await server.send('email', { ...MAIL, ...all })
  const attachment = (position: string) => server.fetch(`${headers.get('location')}/attachments/${position}`)
  const first = await attachment('0')
  t.match(first, { status: 200, text: 'hällo' })
  t.equal(first.headers.get('content-type'), 'text/plain; charset=utf-8')
  t.match(first.headers.get('content-disposition'), /^attachment; filename="\?\.txt"; filename\*=UTF-8''%C3%BC\.txt$/)
  t.equal(first.headers.get('x-content-type-options'), 'nosniff')
  t.match(await attachment('1'), { status: 200, text: '' })
  for (const position of ['2', '-1', 'x', '1e9', '99999999999'])
    t.match(await attachment(position), { status: 404, body: { code: 'not_found' } }, position)
  email.extra = {}

  const wrong: [object, RegExp][] = [
    [{ filename: 'a', content: 'no base64!' }, /base64/],
    [{ filename: '../a', content: '' }, /file name/],
    [{ filename: 'a\r\nb', content: '' }, /line breaks/],
    [{ filename: 'a', contentType: 'x\r\ny', content: '' }, /line breaks/],
    [{ filename: 'a', contentType: 'text', content: '' }, /type\/subtype/],
    [{ filename: 'a', path: '/etc/passwd' }, /unexpected key "path"/],
    [{ filename: 'a' }, /'content' and 'file_id'/],
    [{ content: '' }, /'filename'/],
    [{ filename: 'a', content: { path: '/etc/passwd' } }, /expecting a string/],
  ]
  for (const [attachment, message] of wrong) {
    t.match(await server.send('email', { ...MAIL, attachments: [attachment] }), invalid(message), String(message))
  }
  const small = await notifyServer(t, { email: { maxAttachmentBytes: 3 } })
  const content = Buffer.from('four').toString('base64')
  t.match(
    await small.send('email', { ...MAIL, attachments: [{ filename: 'a', content }] }),
    invalid(/larger than 3 bytes/),
  )
})

tap.test('a provider sends from its domains only', async (t) => {
  const server = await notifyServer(t)
  server.email.extra = { domains: ['Example.com'] }

  t.equal((await server.send('email', MAIL)).status, 200)
  for (const from of ['a@example.org', 'a@sub.example.com', 'a@notexample.com', 'a@example.com.evil.example']) {
    t.match(await server.send('email', { ...MAIL, from }), invalid(/first sends from Example.com only/), from)
  }
})

tap.test('templates that are kept here', async (t) => {
  const server = await notifyServer(t)
  const template = { subject: 'Welcome, {{ who }}', text: 'Hi {{ who }}', html: '<p>Hi {{ who }}' }
  const stored = await server.fetch('/v1/send/template/welcome', { method: 'PUT', body: JSON.stringify(template) })
  t.equal(stored.status, 200)
  const body = { to: 'a@example.com', fromEmail: 'shop@example.com', templateName: 'welcome' }
  const sent = await server.send('email-template', { ...body, templateContent: [{ name: 'who', content: 'Ann & Bo' }] })
  t.match(sent, { status: 200, body: { detail: 'taken' } })
  t.match(server.email.handed, [{ subject: 'Welcome, Ann & Bo', text: 'Hi Ann & Bo', html: '<p>Hi Ann &amp; Bo' }])
  t.match(await server.messages(), [{ kind: 'email', template: 'welcome', sub: 'Welcome, Ann & Bo' }])
  t.match(await server.send('email-template', body), invalid(/who/), 'a variable without a value')
  t.match(await server.send('email-template', { ...body, templateName: 'other' }), {
    body: { code: 'invalid_provider' },
  })

  const without = await notifyServer(t, { email: { ownTemplates: false } })
  await without.fetch('/v1/send/template/welcome', { method: 'PUT', body: JSON.stringify(template) })
  t.match(await without.send('email-template', body), { status: 400, body: { code: 'invalid_provider' } })
})

tap.test('templates that are kept here are tried out with the memory provider', async (t) => {
  const server = await testServer(t, {
    notify: true,
    config: { providers: { email: { default: 'memory', memory: { keep: 10 } } } },
  })
  const ask = (method: string, path: string, body: object) =>
    server.fetch(`/v1/send/${path}`, { method, body: JSON.stringify(body) })
  await ask('PUT', 'template/welcome', { subject: 'Welcome, {{ who }}', text: 'Hi' })
  const body = {
    to: 'a@example.com',
    fromEmail: 'shop@example.com',
    templateContent: [{ name: 'who', content: 'Ann' }],
  }

  t.equal((await ask('POST', 'email-template', { ...body, templateName: 'welcome' })).status, 200)
  t.match((await server.fetch('/v1/send')).body.messages, [{ sub: 'Welcome, Ann', state: 'sent' }])
  const unknown = await ask('POST', 'email-template', { ...body, templateName: 'other' })
  t.match(unknown, { status: 400, body: { code: 'invalid_provider' } })
})

tap.test('a file of the filestore is attached', async (t) => {
  const server = await notifyServer(t, { email: { maxAttachmentBytes: 100 } }, {}, true)
  const put = (id: string, text: string) =>
    server.fetch(`/v1/file/${encodeURIComponent(id)}`, {
      method: 'PUT',
      body: text,
      headers: { 'content-type': 'text/plain; charset=utf-8', 'x-service-user-id': '7' },
    })
  t.equal((await put('bills/7.txt', 'a bill')).status, 200)
  await put('large', 'x'.repeat(200))
  const send = (attachment: object) => server.send('email', { ...MAIL, attachments: [attachment] })

  t.equal((await send({ file_id: 'bills/7.txt' })).status, 200)
  t.equal((await send({ file_id: 'bills/7.txt', filename: 'bill', contentType: 'a/b' })).status, 200)
  const content = Buffer.from('a bill')
  t.match(server.email.handed, [
    { attachments: [{ filename: '7.txt', contentType: 'text/plain; charset=utf-8', content }] },
    { attachments: [{ filename: 'bill', contentType: 'a/b', content }] },
  ])
  t.match(await send({ file_id: 'nothing' }), { status: 404, body: { message: 'file not found : nothing' } })
  t.match(await send({ file_id: 'large' }), { status: 413 })
  t.match(await send({ file_id: 'a', content: '' }), invalid(/one of the keys/))

  const alone = await notifyServer(t)
  const answer = await alone.send('email', { ...MAIL, attachments: [{ file_id: 'a' }] })
  t.match(answer, invalid(/the plugin filestore is not loaded/))
})
