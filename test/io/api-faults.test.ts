import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { randomUUID } from 'node:crypto'
import tap, { type Test } from 'tap'
import { createApi } from '../../providers/api.js'
import { fakePostmark, POSTMARK_TOKEN } from '../kit/fake-apis/postmark.js'
import type { Answer } from '../kit/fake-apis/server.js'
import { patience } from '../kit/patience.js'
import { makeProvider } from '../kit/provider.js'
import { startProxy } from '../kit/proxy.js'

/** Some cases wait for it; the others are answered long before. */
const HASTY_MS = patience(1_000)
const soon = () => AbortSignal.timeout(patience(60_000))
const mail = () => ({
  id: randomUUID(),
  to: { address: 'reader@example.com' },
  from: { address: 'shop@example.org' },
  subject: 'Hello',
  text: 'Hello',
})
const postmark = (t: Test, url: string, timeoutMs = HASTY_MS) =>
  makeProvider('email', 'postmark', { serverToken: POSTMARK_TOKEN, url, timeoutMs }).then((sender) => {
    t.teardown(() => sender.close?.())
    return sender
  })

const SENT = JSON.stringify({ ErrorCode: 0, Message: 'OK', MessageID: 'x', To: 'reader@example.com' })
const HTML = '<!doctype html><html><body>Welcome to our network. Please log in.</body></html>'
const date = (fromNowSeconds: number) => new Date(Date.now() + fromNowSeconds * 1000).toUTCString()

tap.test('what an answer, or the lack of one, says of a message', async (t) => {
  const api = await fakePostmark(t)
  let elsewhereAsked = 0
  const elsewhere = createServer((_req, res) => {
    elsewhereAsked++
    res.end(SENT)
  }).listen(0, '127.0.0.1')
  await once(elsewhere, 'listening')
  t.teardown(() => elsewhere.close())
  const sender = await postmark(t, api.url)

  const drip = async (res: ServerResponse) => {
    res.writeHead(200)
    while (!res.destroyed) {
      res.write(' ')
      await sleep(20)
    }
  }
  const large = (res: ServerResponse) => {
    res.writeHead(200)
    res.end(Buffer.alloc(10 * 1024 * 1024, ' '))
  }
  const half = (res: ServerResponse) => {
    res.writeHead(200, { 'content-length': SENT.length })
    res.write(SENT.slice(0, 20), () => res.destroy())
  }
  const silent = () => {}
  const gone = (res: ServerResponse) => res.destroy()
  const upgrade = (res: ServerResponse) => {
    res.socket?.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n')
  }
  const garbage = (res: ServerResponse) => {
    res.socket?.end('\x00\xff not HTTP at all\r\n\r\n')
  }
  const unreadable = { outcome: 'unknown', unreadable: true }
  const cases: Readonly<Record<string, readonly [Answer | ((res: ServerResponse) => void), object]>> = {
    'a bad gateway': [{ status: 502, body: HTML }, { outcome: 'unknown' }],
    'a gateway that waited in vain': [{ status: 504 }, { outcome: 'unknown' }],
    'a fault of the provider': [{ status: 500, body: HTML }, { outcome: 'retry' }],
    'the provider is busy': [{ status: 503 }, { outcome: 'retry', retryAfter: undefined }],
    'busy for 7 seconds': [
      { status: 503, headers: { 'retry-after': '7' } },
      { outcome: 'retry', retryAfter: 7 },
    ],
    'busy until a date': [{ status: 429, headers: { 'retry-after': date(3600) } }, { outcome: 'retry' }],
    'busy until a past date': [
      { status: 429, headers: { 'retry-after': date(-3600) } },
      { outcome: 'retry', retryAfter: undefined },
    ],
    ...Object.fromEntries(
      [
        'later',
        'foo 1',
        '1e3',
        '-7',
        '7.5',
        '7 s',
        '2100-01-01',
        `${date(3600)}, 7`,
        date(3600).replace('GMT', 'UTC'),
      ].map((text) => [
        `busy until ${text}`,
        [
          { status: 429, headers: { 'retry-after': text } },
          { outcome: 'retry', retryAfter: undefined },
        ],
      ]),
    ),
    ...Object.fromEntries(
      (
        [
          [{ 'ratelimit-reset': '7' }, 7],
          [{ 'x-ratelimit-reset': '7' }, 7],
          [{ 'retry-after': '5', 'ratelimit-reset': '7', 'x-ratelimit-reset': '9' }, 5],
          [{ 'ratelimit-reset': '7', 'x-ratelimit-reset': '9' }, 7],
          [{ 'x-ratelimit-reset': '1392815263' }, undefined],
          [{ 'x-ratelimit-reset': 'soon' }, undefined],
          [{ 'ratelimit-reset': '0' }, undefined],
        ] as const
      ).map(([headers, retryAfter]) => [
        `a rate limit: ${JSON.stringify(headers)}`,
        [
          { status: 429, headers },
          { outcome: 'retry', retryAfter },
        ],
      ]),
    ),
    'what is left of a rate limit': [
      { status: 503, headers: { 'ratelimit-reset': '7' } },
      { outcome: 'retry', retryAfter: undefined },
    ],
    'a conflict': [{ status: 409 }, { outcome: 'unknown' }],
    'it did not get all': [{ status: 408 }, { outcome: 'retry' }],
    'an empty 200': [{ status: 200 }, unreadable],
    'an empty 204': [{ status: 204 }, unreadable],
    'a page with 200': [{ status: 200, body: HTML }, unreadable],
    'JSON of another form': [{ status: 200, body: '{"id": "x"}' }, unreadable],
    null: [{ status: 200, body: 'null' }, unreadable],
    'a list': [{ status: 200, body: '[{"MessageID": "x"}]' }, unreadable],
    'half of the JSON': [{ status: 200, body: SENT.slice(0, 20) }, unreadable],
    'a redirect': [
      {
        status: 307,
        headers: { location: `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/email` },
      },
      { outcome: 'unknown' },
    ],
    '10 MB': [large, { outcome: 'unknown', message: /longer than 1048576 bytes/ }],
    'a slow drip': [drip, { outcome: 'unknown', message: new RegExp(`no response within ${HASTY_MS} ms`) }],
    silence: [silent, { outcome: 'unknown', message: new RegExp(`no response within ${HASTY_MS} ms`) }],
    'a connection cut before the answer': [gone, { outcome: 'unknown' }],
    'a connection cut in the answer': [half, { outcome: 'unknown' }],
    'another protocol': [upgrade, { outcome: 'unknown' }],
    'no HTTP': [garbage, { outcome: 'unknown' }],
  }
  for (const [name, [answer, expected]] of Object.entries(cases)) {
    const before = api.asked.length
    api.next(answer)
    const error = await sender.send(mail(), soon()).catch((error: unknown) => error)
    t.match(error, { name: 'SendError', unreadable: false, ...expected }, name)
    t.notMatch(String(error) + JSON.stringify(error), POSTMARK_TOKEN)
    t.equal(api.asked.length, before + 1, `${name}: it asked once`)
  }
  for (const reset of [Date.now() + 3_600_000, Math.floor(Date.now() / 1000) + 3600]) {
    api.next({ status: 429, headers: { 'x-ratelimit-reset': String(reset) } })
    const error = await sender.send(mail(), soon()).catch((error: unknown) => error)
    const { retryAfter } = error as { retryAfter: number }
    t.ok(retryAfter > 3000 && retryAfter <= 3600, `a Unix time: ${reset}`)
  }
  const { TZ } = process.env
  for (const zone of ['UTC', 'America/New_York', 'Asia/Tokyo']) {
    process.env['TZ'] = zone
    const [, day = '', month = '', year = '', clock = ''] = date(3600).split(/,? /)
    const asctime = `${date(3600).slice(0, 3)} ${month} ${day.replace(/^0/, ' ')} ${clock} ${year}`
    for (const text of [date(3600), asctime]) {
      api.next({ status: 429, headers: { 'retry-after': text } })
      const error = await sender.send(mail(), soon()).catch((error: unknown) => error)
      const { retryAfter } = error as { retryAfter: number }
      t.ok(retryAfter > 3000 && retryAfter <= 3600, `a date is so many seconds away: ${text} in ${zone}`)
    }
  }
  if (TZ === undefined) delete process.env['TZ']
  else process.env['TZ'] = TZ
  t.equal(elsewhereAsked, 0, 'nobody else was asked')
  t.match(await sender.send(mail(), soon()), { detail: /^200 / }, 'the next one is sent')
})

tap.test('what the way there says of a message', async (t) => {
  const api = await fakePostmark(t)
  const sends = async (url: string) => (await postmark(t, url)).send(mail(), soon()).catch((error: unknown) => error)

  await t.test('nobody listens', async (t) => {
    const closed = await startProxy(t, api.url)
    await closed.close()
    t.match(await sends(closed.url), { name: 'SendError', outcome: 'retry' })
  })
  await t.test('an address where clouds keep credentials', async (t) => {
    t.match(await sends('http://169.254.169.254'), { name: 'SendError', outcome: 'retry', message: /link-local/ })
  })
  await t.test('a name that nobody has', async (t) => {
    t.match(await sends('http://nobody.invalid'), { name: 'SendError', outcome: 'retry' })
  })
  await t.test('no TLS where it should be', async (t) => {
    t.match(await sends(api.url.replace('http:', 'https:')), { name: 'SendError', outcome: 'retry' })
  })
  await t.test('a connection that is reset before anything was read', async (t) => {
    const proxy = await startProxy(t, api.url)
    proxy.set({ kind: 'refuse' })
    // The system may report it while it connects, when surely nothing was sent, or after.
    t.match(await sends(proxy.url), { name: 'SendError', outcome: /^(retry|unknown)$/ })
  })
  await t.test('a connection that is reset when the request was read, and nothing was done', async (t) => {
    const server = createTcpServer((socket) => socket.once('data', () => socket.resetAndDestroy()))
    server.listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    t.match(await sends(`http://127.0.0.1:${port}`), { name: 'SendError', outcome: 'unknown' })
  })
  await t.test('a connection on which nothing moves', async (t) => {
    const proxy = await startProxy(t, api.url)
    proxy.set({ kind: 'hang' })
    t.match(await sends(proxy.url), { name: 'SendError', outcome: 'unknown', message: /no response within/ })
  })
  t.equal(api.asked.length, 0)

  await t.test('a connection that is reset when the message has been taken', async (t) => {
    const proxy = await startProxy(t, api.url)
    proxy.set({ kind: 'cut', afterBytes: 0 })
    t.match(await sends(proxy.url), { name: 'SendError', outcome: 'unknown' })
    t.equal(api.taken.length, 1, 'it was taken, once')
  })
  await t.test('a kept connection that is reset: the message is not sent again by itself', async (t) => {
    const proxy = await startProxy(t, api.url)
    const sender = await postmark(t, proxy.url)
    await sender.send(mail(), soon())
    proxy.set({ kind: 'cut', afterBytes: 0, times: 1 })
    await t.rejects(sender.send(mail(), soon()), { name: 'SendError', outcome: 'unknown' })
    t.equal(api.taken.length, 3)
    t.match(await sender.send(mail(), soon()), { detail: /^200 / })
  })
})

tap.test('who no longer waits hears so, and the message may have been sent', async (t) => {
  const api = await fakePostmark(t)
  const sender = await postmark(t, api.url, 30_000)
  const waiting = new AbortController()
  api.next(() => waiting.abort())

  await t.rejects(sender.send(mail(), waiting.signal), { name: 'SendError', outcome: 'unknown' })
  await t.rejects(sender.send(mail(), AbortSignal.abort()), {
    name: 'SendError',
    outcome: 'retry',
    message: 'the send was cancelled before it started',
  })
  t.equal(api.asked.length, 1)
})

tap.test('a provider may say itself what refuses a message', async (t) => {
  const api = await fakePostmark(t)
  const own = createApi(
    { timeoutMs: patience(60_000), secrets: [] },
    (status, text, headers) => status === 418 && text === 'no' && headers['x-why'] === 'tea',
  )
  t.teardown(() => own.close())
  const ask = () => own.send({ url: api.url, headers: {} }, soon())

  api.next({ status: 418, body: 'no', headers: { 'x-why': 'tea' } })
  await t.rejects(ask(), { name: 'SendError', outcome: 'refused' })
  api.next({ status: 422, body: 'no' })
  await t.rejects(ask(), { name: 'SendError', outcome: 'retry' })
})

tap.test('an error hides a credential of short words, as a whole', async (t) => {
  const api = await fakePostmark(t)
  const own = createApi({ timeoutMs: patience(60_000), secrets: ['my cat is red and old'] })
  t.teardown(() => own.close())

  api.next({ status: 401, body: 'wrong key: my cat is red and old' })
  const error = await own.send({ url: api.url, headers: {} }, soon()).catch((thrown: unknown) => thrown)

  t.match(error, { name: 'SendError', response: '401 wrong key: ***' })
})
