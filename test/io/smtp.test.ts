import t from 'tap'
import { type Mail, SendError } from '../../core/host/contracts.js'
import { selfSigned } from '../kit/certificate.js'
import { emailContract } from '../kit/index.js'
import fc from '../kit/property.js'
import { mail, parse, sender, smtpStage, soon, startSink, USER } from '../kit/smtp.js'

const starttls = { security: 'starttls', ...USER } as const

t.test('the smtp provider keeps the contract', async (t) => {
  const stage = await smtpStage(t)
  for (const { name, run } of emailContract) await t.resolves(run(stage), name)
})

t.test('mails go one after the other by one connection', async (t) => {
  const sink = await startSink(t)
  const provider = await sender(t, { port: sink.port, ...starttls })
  for (let i = 0; i < 5; i++) await provider.send(mail(), soon())

  t.equal(sink.received.length, 5)
  t.equal(sink.connections, 1)
})

t.test('a mail goes out as its user, through TLS', async (t) => {
  for (const [what, security, options] of [
    ['STARTTLS', 'starttls', {}],
    ['TLS from the first byte', 'tls', { secure: true }],
  ] as const) {
    const sink = await startSink(t, options)
    const provider = await sender(t, { port: sink.port, security, ...USER })
    const one = mail()

    const receipt = await provider.send(one, soon())

    t.same(receipt, { id: `${one.id}@example.com`, detail: '250 queued as 1' }, what)
    t.match(sink.received, [{ from: 'shop@example.com', to: ['reader@example.org'], user: 'rowhouse', secure: true }])
    t.equal((await parse(sink.received[0]!.bytes)).messageId, `<${receipt.id}>`)
  }
})

t.test(
  'a plain connection is only for those who ask for it, and a password never goes over the net in one',
  async (t) => {
    const sink = await startSink(t, { authOptional: true })
    const plain = await startSink(t, { authOptional: true, disabledCommands: ['STARTTLS'] })

    const local = await sender(t, { host: '127.0.0.1', port: sink.port, security: 'none' })
    await local.send(mail(), soon())
    t.match(sink.received, [{ secure: false }])
    const careful = await sender(t, { port: plain.port, security: 'starttls' })
    await t.rejects(
      careful.send(mail(), soon()),
      { name: 'SendError', outcome: 'retry' },
      'a server without STARTTLS gets nothing',
    )
    t.same(plain.received, [])
    const config = { host: 'mail.example.com', port: 25 } as const
    await t.rejects(sender(t, { ...config, security: 'none', ...USER }), /on this machine only/)
    await t.rejects(sender(t, { ...config, username: 'x' }), /must be set together/)
    await t.resolves(sender(t, { ...config, security: 'none' }))
    await t.resolves(sender(t, { ...config, ...USER }), 'STARTTLS is the default')
  },
)

t.test('what was sent is what is read', async (t) => {
  const sink = await startSink(t)
  const provider = await sender(t, { port: sink.port, ...starttls })
  const name = 'Ünï, "the" <first> \\ 👋'
  const cases: Readonly<Record<string, Partial<Mail>>> = {
    'Unicode, quotes and commas in names': {
      from: { address: 'shop@example.com', name },
      to: { address: "o'brien+news@example.org", name: `${name}, second` },
      cc: [
        { address: 'cc@example.org', name: 'One, Two; "Three"' },
        { address: 'plain@example.net' },
        { address: 'encoded@example.net', name: '=?utf-8?Q?a?=' },
      ],
      replyTo: { address: 'answers@example.com', name: '(x)' },
      subject: 'Grüße, 世界 👋: "quoted", =?UTF-8?Q?=41?=',
    },
    'text and HTML': { text: 'Grüße\n\n世界', html: '<p>Grüße <b>世界</b>' },
    'only HTML': { text: '', html: '<p>x</p>' },
    'a subject of one word of 3,000 characters': { subject: 'x'.repeat(3_000) },
    'a subject of many words': { subject: 'words and '.repeat(200) },
    'a name of 1,200 characters': { to: { address: 'a@example.org', name: '"\\'.repeat(600) } },
    'lines that are longer than SMTP has room for': {
      text: `${'y'.repeat(3_000)}\n${'ü'.repeat(2_000)}`,
      html: 'x'.repeat(5_000),
    },
    'dots at the start of lines': { text: '.\n..\n.x\n\n.\nQUIT\n.' },
    'no text and no subject': { text: '', subject: '' },
    'spaces around the subject': { subject: '  a  b  ' },
  }

  for (const [what, more] of Object.entries(cases)) {
    const sent = mail(more)
    await provider.send(sent, soon())
    const { bytes } = sink.received.at(-1)!
    const read = await parse(bytes)
    t.same(
      { from: read.from, to: read.to, cc: read.cc ?? [], replyTo: read.replyTo ?? [], subject: read.subject ?? '' },
      {
        from: seen(sent.from),
        to: [seen(sent.to)],
        cc: (sent.cc ?? []).map(seen),
        replyTo: sent.replyTo ? [seen(sent.replyTo)] : [],
        subject: sent.subject,
      },
      what,
    )
    t.equal((read.text ?? '').trimEnd(), sent.text ?? '', `${what}: text`)
    t.equal((read.html ?? '').trimEnd(), sent.html ?? '', `${what}: HTML`)
    t.ok(longest(bytes) <= 998, `${what}: no line is too long`)
  }
})

t.test('a line with an encoded word has at most 76 characters, and no header begins with an empty line', async (t) => {
  const sink = await startSink(t)
  const provider = await sender(t, { port: sink.port, ...starttls })
  const texts = [
    'é',
    `é${'x'.repeat(200)}`,
    '世界'.repeat(90),
    '👋'.repeat(60),
    `${'word '.repeat(60)}ü`,
    'Ünï, "the" <first>',
  ]
  const boxOf = (name: string, i: number) => ({ address: `${'a'.repeat((i * 13) % 60)}b@example.org`, name })
  const mixed = fc.string({ unit: fc.constantFrom('a', ' ', 'é', '世', '👋', '"'), minLength: 1, maxLength: 150 })
  const names = [...texts, ...fc.sample(mixed, 60), 'Plain Name', `${'Plain '.repeat(9)}Name`]
  for (const [i, name] of names.entries()) {
    const sent = mail({
      from: { address: 'shop@example.com', name },
      to: boxOf(name, i),
      cc: [boxOf(name, i + 1), { address: 'plain@example.net' }, boxOf('Plain', i + 2)],
      replyTo: boxOf(name, i + 3),
      subject: name,
    })
    await provider.send(sent, soon())
    const { bytes } = sink.received.at(-1)!
    const lines = bytes.toString('latin1').split('\r\n\r\n')[0]!.split('\r\n')
    for (const line of lines) {
      if (line.includes('=?')) t.ok(line.length <= 76, `${line.length}: ${line}`)
      if (/^[A-Z][\w-]*:/.test(line)) t.match(line, /^[\w-]+: ?\S/, 'the first line of a header has a text')
      t.match(line, /\S/, 'no line is empty')
    }
    const read = await parse(bytes)
    t.same(
      [read.from, read.to, read.cc, read.replyTo, read.subject],
      [seen(sent.from), [seen(sent.to)], sent.cc?.map(seen), [seen(sent.replyTo!)], sent.subject],
      JSON.stringify(name),
    )
  }
})

const seen = ({ address, name = '' }: { readonly address: string; readonly name?: string }) => ({ address, name })
const longest = (bytes: Buffer): number =>
  Math.max(
    ...bytes
      .toString('latin1')
      .split('\r\n')
      .map(({ length }) => length),
  )

t.test('attachments arrive byte by byte', async (t) => {
  const sink = await startSink(t)
  const provider = await sender(t, { port: sink.port, ...starttls })
  const every = Buffer.from(Array.from({ length: 70_000 }, (_, i) => (i * 7) % 256))
  const attachments = [
    { filename: 'Grüße "x"; \\ 世界.bin', contentType: 'application/octet-stream', content: every },
    {
      filename: `${'long-'.repeat(40)}.txt`,
      contentType: 'text/plain; charset=iso-8859-1',
      content: Buffer.from('.\r\n\n\rx'),
    },
    {
      filename: 'forwarded.eml',
      contentType: 'message/rfc822',
      content: Buffer.from(`Subject: é\r\n\r\n${'z'.repeat(2_000)}`),
    },
    { filename: 'parts', contentType: 'multipart/mixed; boundary=x', content: Buffer.from('--x\r\n') },
    { filename: 'page.html', contentType: 'text/html', content: Buffer.from('<p>ü') },
    { filename: 'nothing', contentType: 'image/png', content: Buffer.alloc(0) },
  ]

  await provider.send(mail({ html: '<p>x', attachments }), soon())
  await provider.send(mail({ text: '', attachments: attachments.slice(0, 1) }), soon())

  const [all, one] = await Promise.all(sink.received.map(({ bytes }) => parse(bytes)))
  t.same(
    all?.attachments.map(({ filename, content, disposition }) => [filename, base64(content), disposition]),
    attachments.map(({ filename, content }) => [filename, base64(content), 'attachment']),
  )
  t.same(
    all?.attachments.map(({ mimeType }) => mimeType),
    ['application/octet-stream', 'text/plain', ...Array(2).fill('application/octet-stream'), 'text/html', 'image/png'],
  )
  t.same(
    one?.attachments.map(({ content }) => base64(content)),
    [base64(every)],
  )
  t.ok(sink.received.every(({ bytes }) => longest(bytes) <= 998))
})

const base64 = (content: ArrayBuffer | Uint8Array | string): string =>
  Buffer.from(content as Uint8Array).toString('base64')

t.test('everybody of the envelope gets it, and nobody reads who got it blind', async (t) => {
  const sink = await startSink(t)
  const provider = await sender(t, { port: sink.port, ...starttls })
  const sent = mail({
    cc: [{ address: 'cc@example.org' }, { address: 'READER@example.org' }],
    bcc: [{ address: 'hidden@example.net', name: 'Hidden' }, { address: 'cc@EXAMPLE.org' }],
  })

  await provider.send(sent, soon())

  t.same(sink.received[0]!.to, ['reader@example.org', 'cc@example.org', 'hidden@example.net'])
  t.notMatch(sink.received[0]!.bytes.toString(), /hidden|^bcc:/im)
})

const reply = (responseCode: number, text: string) => Object.assign(new Error(text), { responseCode })

t.test(
  'each recipient has the outcome that the server gives it, and the receipt has those that did not get it',
  async (t) => {
    const later = ['450', '451', '452', '421', '552', '503', '521', '530']
    const never = ['550', '551', '553', '554', '501']
    const sink = await startSink(t, {
      onRcptTo: ({ address }, _session, done) => {
        const code = /^r(\d+)/.exec(address)?.[1]
        done(code === undefined ? null : reply(Number(code), `because ${address}`))
      },
    })
    const provider = await sender(t, { port: sink.port, ...starttls })
    t.equal(provider.sendsToSome, true)
    const to = (code: string) => ({ address: `r${code}@example.org` })
    const outcomeOf = (code: string, outcome: string) => ({
      address: `r${code}@example.org`,
      outcome,
      detail: new RegExp(`^${code} .*because r${code}`),
    })
    const rejected = [
      ...later.filter((code) => code !== '421').map((code) => outcomeOf(code, 'postponed')),
      ...never.map((code) => outcomeOf(code, 'refused')),
    ]
    const codes = [...later.filter((code) => code !== '421'), ...never]

    const receipt = await provider.send(mail({ cc: codes.map(to) }), soon())
    t.equal(receipt.detail, '250 queued as 1')
    t.match(receipt.recipients, rejected)
    t.equal(receipt.recipients?.length, codes.length)
    t.equal((await provider.send(mail(), soon())).recipients, undefined, 'a mail that all get has none')

    const first = await provider.send(mail({ to: to('550'), cc: [{ address: 'ok@example.org' }] }), soon())
    t.match(first.recipients, [outcomeOf('550', 'refused')], 'also when it is the main recipient')
    for (const [all, outcome] of [
      [['550', '551'], 'refused'],
      [['450', '451'], 'retry'],
      [['550', '450'], 'retry'],
      [['450', '550'], 'retry'],
      [['552'], 'retry'],
    ] as const) {
      const [main, ...others] = all.map(to)
      const error = await provider.send(mail({ to: main!, cc: others }), soon()).catch((thrown: unknown) => thrown)
      t.match(error, {
        name: 'SendError',
        outcome,
        recipients: all.map((code) => outcomeOf(code, never.includes(code) ? 'refused' : 'postponed')),
      })
    }
  },
)

t.test('a mail goes to some of its recipients only, and its headers show all', async (t) => {
  const sink = await startSink(t)
  const provider = await sender(t, { port: sink.port, ...starttls })
  const sent = mail({ cc: [{ address: 'cc@example.org' }], bcc: [{ address: 'hidden@example.net' }] })

  await provider.send({ ...sent, only: ['CC@example.org', 'hidden@example.net'] }, soon())

  t.same(sink.received[0]!.to, ['cc@example.org', 'hidden@example.net'])
  const { to, cc } = await parse(sink.received[0]!.bytes)
  t.match([to, cc], [[{ address: 'reader@example.org' }], [{ address: 'cc@example.org' }]])
})

t.test(
  'when a mail fails after its recipients were answered, those that were rejected keep their outcome',
  async (t) => {
    const sink = await startSink(t, {
      onRcptTo: ({ address }, _session, done) => {
        const code = /^r(\d+)/.exec(address)?.[1]
        done(code === undefined ? null : reply(Number(code), 'no'))
      },
    })
    const provider = await sender(t, { port: sink.port, ...starttls })
    const one = () => mail({ cc: [{ address: 'r450@example.org' }, { address: 'r550@example.org' }] })
    const recipients = [
      { address: 'r450@example.org', outcome: 'postponed' },
      { address: 'r550@example.org', outcome: 'refused' },
    ]
    for (const [atEnd, outcome] of [
      [() => sink.cut(), 'unknown'],
      [() => sink.cut('451 4.3.0 later'), 'retry'],
      [() => sink.cut('554 5.7.1 spam'), 'refused'],
    ] as const) {
      sink.atEnd = atEnd
      const error = await provider.send(one(), soon()).catch((thrown: unknown) => thrown)
      t.match(error, { name: 'SendError', outcome, recipients })
    }
  },
)

t.test('connections are kept, as many as configured, and one that the server closed is not missed', async (t) => {
  const sink = await startSink(t)
  const provider = await sender(t, { port: sink.port, ...starttls, connections: 2 })

  await Promise.all(Array.from({ length: 20 }, () => provider.send(mail(), soon())))
  t.equal(sink.received.length, 20)
  t.equal(sink.connections, 2)
  sink.cut()
  await Promise.all(Array.from({ length: 4 }, () => provider.send(mail(), soon())))
  t.equal(sink.received.length, 24)
  t.equal(sink.connections, 4)
  await Promise.all(Array.from({ length: 200 }, () => provider.send(mail(), soon())))
  t.equal(sink.received.length, 224)
  t.ok(sink.connections >= 6, 'each is used for 100 mails')
  t.equal(new Set(sink.received.map(({ bytes }) => /Message-ID: (.*)/.exec(bytes.toString())?.[1])).size, 224)
})

t.test('a mail larger than the server announces is refused before it leaves', async (t) => {
  const sink = await startSink(t, { size: 20_000 })
  const provider = await sender(t, { port: sink.port, ...starttls })
  const sized = (bytes: number) =>
    mail({
      id: '00000000-0000-4000-8000-000000000000',
      text: 'a'.repeat(70).concat('\r\n').repeat(bytes).slice(0, bytes),
    })
  const tooLarge = {
    name: 'SendError',
    outcome: 'refused',
    limit: true,
    message: /has \d+ bytes, and the server takes at most 20000$/,
  }

  t.equal(provider.problemWith?.(sized(50_000)), undefined, 'nothing is known before')
  await t.rejects(provider.send(sized(19_900), soon()), tooLarge, 'with its headers it is larger')
  t.match(provider.problemWith?.(sized(20_001)), 'at most 20000 bytes')
  const file = (bytes: number) => [{ filename: 'a', contentType: 'a/b', content: Buffer.alloc(bytes) }]
  t.match(provider.problemWith?.(mail({ attachments: file(15_100) })), 'at most 20000 bytes', 'files count in base64')
  t.equal(provider.problemWith?.(mail({ attachments: file(14_000) })), undefined)
  const header = 19_900 - ((await lengthOf(sized(19_000))) - 19_000)
  // The largest that fits, and one byte more.
  await provider.send(sized(header + 100), soon())
  await t.rejects(provider.send(sized(header + 101), soon()), tooLarge)
  await provider.send(mail(), soon())

  t.same(
    sink.received.map(({ bytes }) => bytes.length > 19_990),
    [false, true, false],
  )
  t.equal(sink.connections, 1, 'the connection is kept')
  for (const size of [0, undefined]) {
    const other = await startSink(t, size === undefined ? { hideSize: true } : { size })
    const without = await sender(t, { port: other.port, ...starttls })
    await without.send(mail({ attachments: file(100_000) }), soon())
    t.equal(without.problemWith?.(mail({ attachments: file(1_000_000) })), undefined)
  }

  async function lengthOf(one: Mail): Promise<number> {
    await provider.send(one, soon())
    return sink.received.at(-1)!.bytes.length
  }
})

t.test('a wrong password is not shown, and sends nothing', async (t) => {
  const sink = await startSink(t, { onAuth: ({ password }, _session, done) => done(new Error(`is it ${password}?`)) })
  const provider = await sender(t, { port: sink.port, ...starttls, password: 'top secret' })

  const error = (await provider.send(mail(), soon()).catch((thrown: unknown) => thrown)) as SendError
  t.match(error, { outcome: 'retry', message: /user name and password/, response: /^535/ })
  t.notMatch(`${error.message} ${error.response}`, /secret/)
  t.notMatch(JSON.stringify(error), /top secret|dG9wIHNlY3JldA/)
})

t.test('a certificate has to be of the server and of somebody trusted', async (t) => {
  const sink = await startSink(t)
  const stranger = selfSigned('localhost').cert
  for (const wrong of [{ ca: stranger }, { host: '127.0.0.1' }, { servername: 'other.example.com' }]) {
    const provider = await sender(t, { port: sink.port, ...starttls, ...wrong })
    await t.rejects(provider.send(mail(), soon()), { name: 'SendError', outcome: 'retry', message: /cert|altnames/i })
  }
  const named = await sender(t, { host: '127.0.0.1', servername: 'localhost', port: sink.port, ...starttls })
  await t.resolves(named.send(mail(), soon()), 'a name of the certificate can be configured')
  t.equal(sink.received.length, 1)
})

t.test('after closing nothing is sent, and what was under way is', async (t) => {
  const sink = await startSink(t)
  const provider = await sender(t, { port: sink.port, ...starttls, connections: 1 })
  const sends = [provider.send(mail(), soon()), provider.send(mail(), soon())]
  await Promise.all([sends[0], provider.send(mail(), AbortSignal.abort()).catch(() => {})])

  await provider.close?.()

  await t.rejects(provider.send(mail(), soon()), { name: 'SendError', outcome: 'retry' })
  const settled = await Promise.allSettled(sends)
  t.equal(settled.filter(({ status }) => status === 'fulfilled').length, sink.received.length)
})

t.test('no text in an address, a name, a subject or a file name makes a header or a recipient', async (t) => {
  const sink = await startSink(t)
  const provider = await sender(t, { port: sink.port, ...starttls })
  const hostile = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc.array(fc.constantFrom(...PARTS)).map((parts) => parts.join('')),
  )
  const tame = fc
    .array(fc.constantFrom(...PARTS.filter((part) => !/[\p{Cc}\p{Cs}]/u.test(part))))
    .map((parts) => parts.join(''))
  const text = fc.oneof({ weight: 5, arbitrary: tame }, { weight: 1, arbitrary: hostile })
  const address = fc.oneof(
    { weight: 6, arbitrary: fc.constant('reader@example.org') },
    hostile,
    hostile.map((part) => `${part}@example.org`),
    hostile.map((part) => `reader@${part}`),
  )
  const type = fc.oneof({ weight: 6, arbitrary: fc.constant('text/plain') }, hostile)
  const given = fc.record({ to: address, from: text, name: text, subject: text, filename: text, type })
  let sent = 0

  const encoded = mail({ to: { address: '=?UTF-8?Q?=0A?=@example.org' } })
  await t.rejects(provider.send(encoded, soon()), { name: 'SendError', outcome: 'refused' })
  await fc.assert(
    fc.asyncProperty(given, async ({ to, from, name, subject, filename, type }) => {
      const before = sink.received.length
      const one = mail({
        to: { address: to, name },
        from: { address: 'shop@example.com', name: from },
        subject,
        attachments: [{ filename, contentType: type, content: Buffer.from('x') }],
      })
      const receipt = await provider.send(one, soon()).catch((error: unknown) => error)
      if (receipt instanceof SendError) {
        return receipt.outcome === 'refused' && sink.received.length === before
      }
      sent++
      const { to: recipients, from: envelopeFrom, bytes } = sink.received.at(-1)!
      const read = await parse(bytes)
      t.same(recipients, [to])
      t.equal(envelopeFrom, 'shop@example.com')
      t.same(
        read.headers.map(({ key }) => key).sort(),
        HEADERS.filter((key) => key !== 'subject' || subject !== ''),
      )
      t.same(
        [read.to, read.from, read.subject ?? ''],
        [[{ address: to, name }], { address: 'shop@example.com', name: from }, subject],
      )
      t.ok(longest(bytes) <= 998)
      return sink.received.length === before + 1
    }),
    { numRuns: 600 },
  )
  t.ok(sent > 60, `${sent} of 600 were mails`)
})

const HEADERS = ['content-type', 'date', 'from', 'message-id', 'mime-version', 'subject', 'to']
const PARTS = [
  '\r',
  '\n',
  '\r\n',
  'Bcc: evil@example.net',
  'evil@example.net',
  '=?UTF-8?Q?=0A?=',
  'word',
  '👋',
  ...Array.from('\0\t\u0085\u2028\ud800ü <>,;:"\\@.%\'='),
]
