import { once } from 'node:events'
import { Agent, type IncomingMessage, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { SignJWT } from 'jose'
import t from 'tap'
import type { Test } from 'tap'
import { permissionDenied, serviceError, ServiceError } from '../../core/errors.js'
import { resolveSection } from '../../core/host/resolve-section.js'
import { createApp } from '../../core/http/app.js'
import type { AppOptions } from '../../core/http/app.js'
import { readBody } from '../../core/http/body.js'
import { authConfig, httpConfig } from '../../core/http/config.js'
import type { AuthConfig, HttpConfig } from '../../core/http/config.js'
import { assertSameOrigin, requireJson } from '../../core/http/csrf.js'
import { createRouter } from '../../core/http/router.js'
import { createAuthenticate } from '../../core/http/session.js'
import type { Authenticate } from '../../core/http/session.js'
import { createTraffic } from '../../core/http/traffic.js'
import { createLogger } from '../../core/log.js'
import { createMetrics } from '../../core/metrics.js'
import type { Schema } from '../../core/schema.js'
import type { Session } from '../../core/session.js'
import { patience } from '../kit/patience.js'
import { HELD } from '../kit/held.js'

const ADMIN = 'admin-secret-marker-0123456789abcdef'
const MIB = 1024 * 1024

/** Trusts the header that names `via` and role: these tests are not about proof. */
const trusting: Authenticate = async (req) => {
  const role = String(req.headers['x-test-role'] ?? 'user')
  const via = String(req.headers['x-test-via'] ?? 'token') as Session['via']
  if (role === 'wrong') throw new ServiceError(401, 'access-denied', 'wrong')
  return { role, via, variables: new Map() }
}

t.test('every request has an id, which is the client’s own if it is a plain word', async (t) => {
  const { get } = await start(t)
  const ids = ['abc_-9', 'a'.repeat(64), 'a'.repeat(65), 'a b', '', 'a"b']

  const answered = await Promise.all(
    ids.map(async (id) => (await get('/echo', { 'x-request-id': id })).headers.get('x-request-id')),
  )

  t.same(answered.slice(0, 2), ids.slice(0, 2))
  for (const id of answered.slice(2)) t.match(id, /^[0-9a-f-]{36}$/)
})

t.test('answers carry the headers that fit data', async (t) => {
  const { get } = await start(t)

  const { headers } = await get('/echo')

  t.equal(headers.get('x-content-type-options'), 'nosniff')
  t.equal(headers.get('cache-control'), 'no-store')
  t.match(headers.get('content-security-policy'), /default-src 'none'/)
})

t.test('a plugin throws and the core answers', async (t) => {
  const { get, lines } = await start(t)

  await t.test('a known error has path, error and code, and PostgreSQL’s words for admin alone', async (t) => {
    const known = { path: '$.args.columns[0]', error: 'not for you', code: 'permission-denied' }
    t.match(await get('/denied'), { status: 400, headers: { get: Function } })
    t.same(await (await get('/denied')).json(), known)
    t.same(await (await get('/internal')).json(), { path: '$', error: 'bad', code: 'data-exception' })
    t.same(await (await get('/internal', { 'x-test-role': 'admin' })).json(), {
      path: '$',
      error: 'bad',
      code: 'data-exception',
      internal: { sqlstate: '22012' },
    })
  })
  await t.test('an unknown error says nothing but the request id, under which the log has the stack', async (t) => {
    const answer = await get('/bug', { 'x-request-id': 'find-me' })
    t.equal(answer.status, 500)
    t.same(await answer.json(), { path: '$', error: 'internal error', code: 'unexpected', request_id: 'find-me' })
    const logged = lines().find((line) => line['requestId'] === 'find-me' && line['msg'] === 'request failed')
    t.match(logged, { level: 'error', err: { type: 'TypeError', stack: /a detail of ours/ } })
    t.notMatch(JSON.stringify(logged), 'a bound value')
  })
  await t.test('what is unavailable for now is a warning without a stack', async (t) => {
    t.equal((await get('/busy', { 'x-request-id': 'busy' })).status, 503)
    const logged = lines().find((line) => line['requestId'] === 'busy' && line['msg'] === 'request failed')
    t.match(logged, { level: 'warn', code: 'unavailable', error: 'all is busy', cause: 'its pool', err: undefined })
  })
  await t.test('a plugin may have a format of its own', async (t) => {
    const answer = await get('/other/denied')
    t.equal(answer.status, 403)
    t.same(await answer.json(), { code: 'access_denied', message: 'access denied', to: 'user' })
  })
  await t.test('headers about the body that was meant do not stay on the error', async (t) => {
    const { headers } = await get('/half')
    t.match(headers.get('content-type'), 'application/json')
    for (const name of ['etag', 'content-disposition', 'content-encoding']) t.equal(headers.get(name), null, name)
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(headers.get('retry-after'), '7')
  })
})

t.test('what is raised before a plugin has path, error, code and message', async (t) => {
  const { get, raw } = await start(t)
  const bodies: [Promise<Response>, number, string][] = [
    [get('/nowhere'), 404, 'not-found'],
    [get('/echo/'), 404, 'not-found'],
    [get('/Echo'), 404, 'not-found'],
    [get('/echo', {}, 'DELETE'), 405, 'method-not-allowed'],
    [get('/healthz', {}, 'POST'), 405, 'method-not-allowed'],
    [get('/echo', { 'x-test-role': 'wrong' }), 401, 'access-denied'],
  ]
  for (const [answer, status, code] of bodies) {
    const response = await answer
    const body = (await response.json()) as Record<string, unknown>
    t.equal(response.status, status)
    t.match(body, { path: '$', code })
    t.same(Object.keys(body), ['path', 'error', 'code', 'message'])
  }
  t.equal((await get('/echo', {}, 'DELETE')).headers.get('allow'), 'POST, GET')
  t.equal((await get('/healthz', {}, 'POST')).headers.get('allow'), 'GET, HEAD')
  t.equal((await get('/echo', { 'x-test-role': 'wrong' })).headers.get('www-authenticate'), 'Bearer')
  t.match(await raw('TRACE /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'), /^HTTP\/1.1 405/)
})

t.test('HEAD runs what was registered for HEAD and never a GET route', async (t) => {
  const { get, calls } = await start(t)

  for (const path of ['/echo', '/any', '/v1/version', '/metrics']) {
    const { status, headers } = await get(path, {}, 'HEAD')
    t.equal(status, 405, path)
    t.notMatch(headers.get('allow'), 'HEAD')
  }
  t.same(calls, [])
  for (const path of ['/with-head', '/healthz', '/readyz', '/'])
    t.equal((await get(path, {}, 'HEAD')).status, 200, path)
  t.same(calls, ['head'])
})

t.test('bodies', async (t) => {
  const { get, raw, base, errors, calls } = await start(t, { maxJsonBytes: 1000, jsonTimeoutMs: patience(1_000) })
  const post = (body: string, headers: Record<string, string> = {}) =>
    fetch(`${base}/echo`, { method: 'POST', body, headers, duplex: 'half' } as RequestInit)
  const head = 'POST /echo HTTP/1.1\r\nHost: a\r\n'

  await t.test('are read up to the limit', async (t) => {
    t.equal(await (await post('x'.repeat(1000))).text(), 'x'.repeat(1000))
    t.equal(await (await post('')).text(), '')
    t.equal(await (await post('é', { 'content-encoding': 'identity' })).text(), 'é')
  })
  await t.test('are refused by their declared length before they are sent', async (t) => {
    const answer = await raw(`${head}Content-Length: 1099511627776\r\n\r\n`)
    t.match(answer, /^HTTP\/1.1 413 /)
    t.match(answer, /"code":"payload-too-large"/)
    t.match(answer, /http\.maxJsonBytes/)
    t.match(answer, /Connection: close/i)
  })
  await t.test('are refused when they turn out to be too long', async (t) => {
    const answer = await raw(`${head}Transfer-Encoding: chunked\r\n\r\n3e9\r\n${'x'.repeat(1001)}\r\n`)
    t.match(answer, /^HTTP\/1.1 413 /)
  })
  await t.test('that are refused leave the client time to read why', async (t) => {
    const answer = await post('x'.repeat(20 * MIB))
    t.equal(answer.status, 413)
    t.match(await answer.json(), { code: 'payload-too-large' })
  })
  await t.test('that are refused leave even a client that sends first and reads later its answer', async (t) => {
    errors.length = 0
    const socket = connect(Number(new URL(base).port), '127.0.0.1').pause()
    socket.write(`${head}Content-Length: ${20 * MIB}\r\n\r\n${'x'.repeat(MIB)}`)
    await until(() => errors.length > 0)
    await sleep(50)
    socket.write('x'.repeat(MIB))
    await sleep(50)
    const received = once(socket, 'data')
    socket.resume()
    t.match(String((await received)[0]), /^HTTP\/1.1 413 /)
    socket.destroy()
  })
  await t.test('are refused when compressed', async (t) => {
    const answer = await post('x', { 'content-encoding': 'gzip' })
    t.equal(answer.status, 415)
    t.match(await answer.json(), { code: 'unsupported-media-type', message: /gzip/ })
  })
  await t.test('must arrive in time', async (t) => {
    const answer = await raw(`${head}Content-Length: 10\r\n\r\nabc`)
    t.match(answer, /^HTTP\/1.1 408 /)
    t.match(answer, /"code":"request-timeout"/)
  })
  await t.test('that end early are an error of the client', async (t) => {
    errors.length = calls.length = 0
    const socket = connect(Number(new URL(base).port), '127.0.0.1')
    socket.write(`${head}X-Test-Slow: 1\r\nContent-Length: 10\r\n\r\nabc`)
    await until(() => calls.includes('post'))
    socket.destroy()
    await until(() => errors.length > 0)
    t.match(errors[0], { status: 400, code: 'parse-failed' })
  })
  await t.test('that HTTP cannot frame are refused', async (t) => {
    const requests = {
      'length and chunks': `${head}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      'two lengths': `${head}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`,
      'a bad chunk': `${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
      'no host': 'POST /echo HTTP/1.1\r\nContent-Length: 0\r\n\r\n',
      'large headers': `${head}A: ${'x'.repeat(20_000)}\r\n\r\n`,
      'many headers': `${head}Connection: close\r\nContent-Length: 0\r\n${'a: b\r\n'.repeat(100)}\r\n`,
      'very many headers': `${head}Connection: close\r\nContent-Length: 0\r\n${'a: b\r\n'.repeat(2000)}\r\n`,
    }
    for (const [name, request] of Object.entries(requests)) {
      t.match(await raw(request), name.includes('headers') ? /^HTTP\/1.1 431 / : /^HTTP\/1.1 400 /, name)
    }
    for (const path of ['/healthz', '/readyz', '/', '/metrics', '/nowhere']) {
      const many = `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${'a: b\r\n'.repeat(100)}\r\n`
      t.match(await raw(many), /^HTTP\/1.1 431 [^]*http\.maxHeaders/, path)
    }
    t.equal((await get('/echo')).status, 200, 'others are still served')
  })
})

t.test('only requests for hosts of http.hosts are answered', async (t) => {
  const { base } = await start(t, { hosts: ['localhost', '[::1]', 'shop.test'] })
  const ask = async (host: string, path = '/echo') => {
    const headers = { host, 'X-Service-CSRF': '1' }
    const [response] = (await once(httpRequest(`${base}${path}`, { headers }).end(), 'response')) as [IncomingMessage]
    return { status: response.statusCode, body: await text(response) }
  }

  for (const host of ['localhost', 'LocalHost:80', '[::1]:8080', 'shop.test', 'localhost:'])
    t.equal((await ask(host)).status, 200, host)
  for (const host of ['127.0.0.1', 'evil.test', 'shop.test.evil.test', 'a.shop.test', 'localhost@evil.test', ''])
    t.match(await ask(host), { status: 421, body: /"code":"unknown-host"/ }, host)
  for (const path of ['/healthz', '/', '/metrics', '/nowhere'])
    t.equal((await ask('evil.test', path)).status, 421, path)
})

t.test('cookie callers', async (t) => {
  const { base } = await start(t, { cors: { origins: ['https://app.example'] } })
  const status = async (headers: Record<string, string>) =>
    (await fetch(`${base}/write`, { method: 'POST', headers, body: '{}' })).status
  const json = { 'content-type': 'application/json; charset=utf-8' }
  const cookie = { ...json, 'x-test-via': 'cookie' }

  const table: [string, Record<string, string>, number][] = [
    ['with a page of our own', { ...cookie, 'sec-fetch-site': 'same-origin' }, 200],
    ['typed by hand', { ...cookie, 'sec-fetch-site': 'none' }, 200],
    ['with a listed origin', { ...cookie, origin: 'https://app.example' }, 200],
    ['with the header that other sites cannot send', { ...cookie, 'x-service-csrf': '1' }, 200],
    ['with nothing', cookie, 403],
    ['from another site', { ...cookie, 'sec-fetch-site': 'cross-site' }, 403],
    ['from a neighbour', { ...cookie, 'sec-fetch-site': 'same-site' }, 403],
    ['with an unlisted origin', { ...cookie, origin: 'https://app.example.evil' }, 403],
    ['with the null origin', { ...cookie, origin: 'null' }, 403],
    ['prefetched', { ...cookie, 'sec-fetch-site': 'same-origin', 'sec-purpose': 'prefetch;prerender' }, 403],
    ['as a form', { 'x-test-via': 'cookie', 'sec-fetch-site': 'same-origin', 'content-type': 'text/plain' }, 415],
    [
      'not at all: a token, from anywhere, as anything',
      { 'sec-fetch-site': 'cross-site', 'content-type': 'text/plain' },
      200,
    ],
  ]
  for (const [name, headers, expected] of table) t.equal(await status(headers), expected, name)
})

t.test('cookie callers of this very origin, as far as its scheme and host are known', async (t) => {
  const status = async (base: string, headers: Record<string, string>) => {
    const { port } = new URL(base)
    const sent = { host: `app.example:${port}`, 'content-type': 'application/json', 'x-test-via': 'cookie', ...headers }
    const asked = httpRequest({ host: '127.0.0.1', port, path: '/write', method: 'POST', headers: sent, agent: false })
    asked.end('{}')
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    answer.resume()
    return answer.statusCode
  }
  const plain = (await start(t)).base
  const { port } = new URL(plain)
  const own = `http://app.example:${port}`
  const https = { origin: 'https://app.example', 'x-forwarded-proto': 'https', 'x-forwarded-host': 'app.example' }
  const direct: [string, Record<string, string>, number][] = [
    ['its own page', { origin: own }, 200],
    ['a browser that says more about its own page', { origin: own, 'sec-fetch-site': 'same-origin' }, 200],
    ['a page of another host', { origin: `http://evil.example:${port}` }, 403],
    ['a page of another port', { origin: 'http://app.example:1' }, 403],
    ['a page of another scheme', { origin: `https://app.example:${port}` }, 403],
    ['a browser that says it is another site', { origin: own, 'sec-fetch-site': 'cross-site' }, 403],
    ['a proxy that is not trusted', https, 403],
    ['a page of a host behind that proxy', { ...https, origin: own }, 403],
    ['prefetched', { origin: own, 'sec-purpose': 'prefetch' }, 403],
  ]
  for (const [what, headers, expected] of direct) t.equal(await status(plain, headers), expected, what)

  const proxied = (await start(t, { trustedProxies: ['127.0.0.1'] })).base
  const kept = { host: 'app.example' }
  const behind: [string, Record<string, string>, number][] = [
    ['its own page', https, 200],
    [
      'its own page, where the proxy keeps Host',
      { ...kept, origin: 'https://app.example', 'x-forwarded-proto': 'https' },
      200,
    ],
    ['a page of another host', { ...https, origin: 'https://evil.example' }, 403],
    ['a page without encryption', { ...https, origin: 'http://app.example' }, 403],
    ['a proxy that does not say the scheme', { ...kept, origin: 'http://app.example' }, 403],
    ['two proxies that say different hosts', { ...https, 'x-forwarded-host': 'app.example, evil.example' }, 403],
  ]
  for (const [what, headers, expected] of behind) t.equal(await status(proxied, headers), expected, `proxy: ${what}`)
})

t.test('CORS', async (t) => {
  const preflight = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-service-role' }
  const ours = { origin: 'https://app.example' }

  await t.test('is off unless origins are listed', async (t) => {
    const { get } = await start(t)
    const { headers } = await get('/echo', ours)
    t.equal(headers.get('access-control-allow-origin'), null)
    t.equal(headers.get('vary'), null)
    t.equal((await get('/echo', { ...ours, ...preflight }, 'OPTIONS')).status, 405)
  })
  await t.test('answers exactly the listed origins', async (t) => {
    const { get } = await start(t, { cors: { origins: ['https://app.example'], credentials: true } })
    const read = await get('/echo', ours)
    t.equal(read.headers.get('access-control-allow-origin'), 'https://app.example')
    t.equal(read.headers.get('access-control-allow-credentials'), 'true')
    t.equal(read.headers.get('vary'), 'Origin')
    const asked = await get('/echo', { ...ours, ...preflight }, 'OPTIONS')
    t.equal(asked.status, 204)
    t.equal(asked.headers.get('access-control-allow-methods'), 'POST')
    t.equal(asked.headers.get('access-control-allow-headers'), 'x-service-role')
    t.equal(asked.headers.get('access-control-max-age'), '600')
    const failed = await get('/denied', ours)
    t.equal(failed.headers.get('access-control-allow-origin'), 'https://app.example', 'errors can be read too')
    for (const origin of ['https://app.example.evil', 'http://app.example', 'https://APP.example', 'null', '*']) {
      const other = await get('/echo', { origin, ...preflight }, 'OPTIONS')
      t.equal(other.headers.get('access-control-allow-origin'), null, origin)
      t.equal(other.headers.get('access-control-allow-credentials'), null, origin)
      t.equal(other.headers.get('vary'), 'Origin')
    }
  })
})

t.test('C1: connections that send nothing, or too slowly, are closed and others served', async (t) => {
  const { base, get } = await start(t, { headersTimeoutMs: patience(1_000), checkIntervalMs: 50 })
  const starts = ['', 'G', 'GET /echo HTTP/1.1\r\nHost: a\r\nA: ']

  const slow = starts
    .flatMap((begin) => Array.from({ length: 30 }, () => begin))
    .map(async (begin) => {
      const socket = connect(Number(new URL(base).port), '127.0.0.1')
        .on('error', () => {})
        .resume()
      socket.write(begin)
      const trickle = setInterval(() => begin !== '' && socket.write('a'), 50)
      await once(socket, 'close')
      clearInterval(trickle)
    })
  const good = Array.from({ length: 30 }, () => get('/echo'))

  t.ok((await Promise.all(good)).every(({ status }) => status === 200))
  await Promise.all(slow)
  t.pass('all were closed')
})

t.test('a client that stops reading is cut off, and its request is told', async (t) => {
  const { base, calls, lines } = await start(t, { idleWriteTimeoutMs: 200 })
  const socket = connect(Number(new URL(base).port), '127.0.0.1').on('error', () => {})
  socket.pause()
  socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n')

  await until(() => calls.includes('aborted'))

  await until(() => lines().some((line) => line['route'] === '/endless'))
  t.match(
    lines().find((line) => line['route'] === '/endless'),
    { aborted: true },
  )
  socket.destroy()
})

t.test('a request that is being worked on is not cut for its silence', async (t) => {
  const { get, release } = await start(t, { idleWriteTimeoutMs: 50 })
  const answer = get('/wait')
  await sleep(300)

  release()

  t.equal((await answer).status, 200)
})

t.test('an answer that breaks off is reset, not ended', async (t) => {
  const { base, lines } = await start(t)
  const socket = connect(Number(new URL(base).port), '127.0.0.1')
  const received: Buffer[] = []
  socket.on('data', (chunk) => received.push(chunk))
  const broken = once(socket, 'error')
  socket.write('GET /breaks HTTP/1.0\r\n\r\n')

  const [error] = await broken

  t.match(error, { code: 'ECONNRESET' })
  t.match(Buffer.concat(received).toString(), /^HTTP\/1.1 200 .*first part/s)
  await until(() => lines().some((line) => line['msg'] === 'request failed'))
})

t.test('an answer that breaks before its first byte is an error like others', async (t) => {
  const { get } = await start(t)

  const answer = await get('/breaks-at-once')

  t.equal(answer.status, 500)
  t.match(await answer.json(), { code: 'unexpected', error: 'internal error' })
})

t.test('more requests than may be under way are turned away, those of the core are not', async (t) => {
  const { get, release, calls } = await start(t, { maxConcurrentRequests: 1 })
  const first = get('/wait')
  await until(() => calls.includes('wait'))

  const second = await get('/echo')

  t.equal(second.status, 503)
  t.equal(second.headers.get('retry-after'), '1')
  t.match(await second.json(), { code: 'too-busy', message: String })
  t.equal((await get('/healthz')).status, 200)
  release()
  t.equal((await first).status, 200)
  for (let i = 0; i < 5; i++) {
    t.equal((await get('/echo')).status, 200)
    t.equal((await get('/echo', { 'x-test-role': 'wrong' })).status, 401)
  }
})

t.test('one address has half of the room, unless it is a proxy of this machine', async (t) => {
  const config = { maxConcurrentRequests: 4, trustedProxies: ['127.0.0.1'] }
  const { get, release, calls } = await start(t, config)
  const from = (address: string) => get('/wait', { 'x-forwarded-for': address })
  const first = [from('192.0.2.1'), from('192.0.2.1')]
  await until(() => calls.length === 2)

  const more = await from('192.0.2.1')
  t.equal(more.status, 429)
  t.match(await more.json(), { code: 'too-many-requests', error: /^this address has 2 requests in progress/ })
  const others = [from('192.0.2.2'), get('/wait')]
  await until(() => calls.length === 4)
  t.equal((await get('/echo')).status, 503)
  release()
  for (const each of [...first, ...others]) t.equal((await each).status, 200)
})

t.test('all requests of a connection that ends are aborted', async (t) => {
  const { base, calls } = await start(t)
  const socket = connect(Number(new URL(base).port), '127.0.0.1')
  socket.write('GET /wait HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(3))
  await until(() => calls.filter((call) => call === 'wait').length === 3)

  socket.destroy()

  await until(() => calls.filter((call) => call === 'aborted').length === 3)
})

t.test('a connection that is owed a hundred answers is cut', async (t) => {
  const { base, release, calls } = await start(t)
  const request = 'GET /wait HTTP/1.1\r\nhost: x\r\n\r\n'
  const socket = connect(Number(new URL(base).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(request.repeat(100))
  await until(() => calls.length > 0)
  t.equal(socket.destroyed, false)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write(request)
  await closed
  release()
})

t.test('guessing is slowed per address, and right credentials are not', async (t) => {
  const { get } = await start(t, { failedAuthPerMinute: 3 })
  const guess = () => get('/echo', { 'x-test-role': 'wrong' })

  for (let i = 0; i < 3; i++) t.equal((await guess()).status, 401)
  const late = await guess()

  t.equal(late.status, 429)
  t.equal(late.headers.get('retry-after'), '60')
  t.match(await late.json(), { code: 'too-many-failures', message: String })
  t.equal((await get('/echo')).status, 200)
})

t.test('a guess that is kept waiting takes no room from others', async (t) => {
  const { get } = await start(t, { failedAuthPerMinute: 1, maxConcurrentRequests: 1 })
  const guess = () => get('/echo', { 'x-test-role': 'wrong' })
  t.equal((await guess()).status, 401)
  const late = guess()
  await sleep(200)

  t.equal((await get('/echo')).status, 200)

  t.equal((await late).status, 429)
})

t.test('P8: a drain under load fails no request', async (t) => {
  let failed = 0
  let answered = 0
  let apps = [await start(t), await start(t)]
  const stop = new AbortController()
  const clients = Array.from({ length: 8 }, async () => {
    const agent = new Agent({ keepAlive: true })
    let target = 0
    while (!stop.signal.aborted) {
      const result = await once200(`${apps[target]!.base}/echo`, agent)
      if (result === 'refused') target = 1 - target
      else if (result === 'ok') answered++
      else failed++
    }
    agent.destroy()
  })

  for (let roll = 0; roll < 4; roll++) {
    const before = answered
    await until(() => answered > before + 500)
    const gone = apps[roll % 2]!
    const slow = gone.get('/wait')
    await until(() => gone.calls.includes('wait'))
    const drained = gone.app.drain()
    await until(() => gone.app.state === 'draining')
    gone.release()
    t.equal((await slow).status, 200)
    await drained
    apps = apps.with(roll % 2, await start(t))
  }
  stop.abort()
  await Promise.all(clients)

  t.equal(failed, 0, `${answered} requests answered`)
})

t.test('a drain', async (t) => {
  await t.test('says so while the listener is still open', async (t) => {
    const { app, get } = await start(t, { drainDelayMs: 1_500, metrics: 'open' })
    const drained = app.drain()
    t.equal(app.state, 'leaving')
    const answer = await get('/readyz')
    t.equal(answer.status, 503)
    t.match(await answer.json(), { status: 'not ready', probes: [{ name: 'draining', ok: false }] })
    t.equal((await get('/healthz')).status, 200)
    await drained
    await t.rejects(get('/healthz'), 'nobody listens any more')
  })
  await t.test('is one drain, however often it is asked for, and closing after it is harmless', async (t) => {
    const { app } = await start(t)
    const first = app.drain()
    t.equal(app.drain(), first)
    await first
    await app.close()
    t.equal(app.state, 'closed')
    t.equal(app.address, undefined)
  })
  await t.test('does not wait for connections that nobody uses', async (t) => {
    const { app, base } = await start(t, { drainTimeoutMs: 600_000, headersTimeoutMs: 600_000 })
    const opened = connect(Number(new URL(base).port), '127.0.0.1').resume()
    await once(opened, 'connect')
    const agent = new Agent({ keepAlive: true })
    t.equal(await once200(`${base}/echo`, agent), 'ok')
    await app.drain()
    agent.destroy()
  })
  await t.test('serves the connections that wait', async (t) => {
    const { app, base } = await start(t)
    await setImmediate()
    const waiting = Array.from({ length: 20 }, () => once200(`${base}/echo`, new Agent()))
    // By then the system has connected them, and the server has not accepted them.
    process.nextTick(() => process.nextTick(stall, 50))
    const drained = app.drain()
    t.same(await Promise.all(waiting), Array<string>(20).fill('ok'))
    await drained
  })
  await t.test('reads what has come before it ends connections, also on a busy machine', async (t) => {
    const { app, base } = await start(t)
    const socket = connect(Number(new URL(base).port), '127.0.0.1').on('error', () => {})
    await once(socket, 'connect')
    socket.write('GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')
    await once(socket, 'data')
    const drained = app.drain()
    await until(() => app.state === 'draining')
    // After it come the timers, before what has arrived.
    await setImmediate()
    socket.write('GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')
    stall(1_200)
    t.match(String((await Promise.race([once(socket, 'data'), once(socket, 'close')]))[0]), /200 OK/)
    await drained
  })
  await t.test('answers with Connection: close, and cuts what does not end in time', async (t) => {
    const { app, base, get, calls } = await start(t, { drainTimeoutMs: patience(2_000) })
    const stuck = t.rejects(get('/wait'))
    await until(() => calls.includes('wait'))
    const socket = connect(Number(new URL(base).port), '127.0.0.1').on('error', () => {})
    await once(socket, 'connect')
    // The server has taken it from its queue once an answer has come.
    socket.write('GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')
    t.match(String((await once(socket, 'data'))[0]), /keep-alive/)
    const drained = app.drain()
    await until(() => app.state === 'draining')
    socket.write('GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')
    t.match(String((await once(socket, 'data'))[0]), /Connection: close/i)
    await drained
    await stuck
  })
})

t.test('the endpoints of the core', async (t) => {
  const probes = [{ name: 'database', ok: false, detail: 'connection refused' }]
  const about = () => ({
    version: '1.2.3',
    database: 'down' as const,
    links: [{ title: 'A <b>console</b>', href: '/console?a="b"' }],
  })
  const open = await start(t, { metrics: 'open' }, { about, ready: async () => ({ ready: false, probes }) })
  const closed = await start(
    t,
    { metricsToken: 'metrics-token-marker' },
    { ready: async () => ({ ready: true, probes }) },
  )

  await t.test('/healthz says that the server lives', async (t) => {
    t.same(await (await open.get('/healthz')).json(), { status: 'ok' })
    t.equal((await closed.get('/healthz', { 'x-test-role': 'wrong' })).status, 200, 'without asking who is there')
  })
  await t.test('/readyz names the probes for admin alone, unless they are open', async (t) => {
    const answer = await open.get('/readyz')
    t.equal(answer.status, 503)
    t.same(await answer.json(), { status: 'not ready', probes })
    t.same(await (await closed.get('/readyz')).json(), { status: 'ready' })
    t.same(await (await closed.get('/readyz', { 'x-test-role': 'admin' })).json(), { status: 'ready', probes })
  })
  await t.test('/metrics is for admin and the holder of its token, unless it is open', async (t) => {
    await closed.get('/echo')
    const status = async (headers: Record<string, string>) => (await closed.get('/metrics', headers)).status
    t.equal((await open.get('/metrics')).status, 200)
    t.equal(await status({}), 401)
    t.equal(await status({ authorization: 'Bearer metrics-token-wrong' }), 401)
    t.equal(await status({ 'x-test-role': 'admin' }), 200)
    const text = await (await closed.get('/metrics', { authorization: 'Bearer metrics-token-marker' })).text()
    t.match(text, /rowhouse_http_request_duration_seconds_count\{.*route="\/echo".*plugin="one"/)
    t.match(text, /process_cpu_seconds_total/)
  })
  await t.test('/metrics is unavailable while nobody can be recognized, and /readyz names no probes', async (t) => {
    const unavailable = () => Promise.reject(serviceError('unavailable', 'the database is down'))
    const unsure = await start(t, { metricsToken: 'metrics-token-marker' }, {}, () => unavailable)
    const metrics = await unsure.get('/metrics')
    t.equal(metrics.status, 503)
    t.match(await metrics.json(), { code: 'unavailable' })
    t.equal((await unsure.get('/metrics', { authorization: 'Bearer metrics-token-marker' })).status, 200)
    t.same(await (await unsure.get('/readyz')).json(), { status: 'ready' })
  })
  await t.test('/v1/version', async (t) => {
    t.same(await (await open.get('/v1/version')).json(), { version: '1.2.3' })
  })
  await t.test('/ is a page of its own, or JSON when that is asked for', async (t) => {
    const page = await open.get('/', { accept: 'text/html,*/*' })
    const html = await page.text()
    t.match(page.headers.get('content-type'), 'text/html')
    t.match(page.headers.get('content-security-policy'), /^default-src 'none'; style-src 'sha256-/)
    t.match(html, /PostgreSQL is <span class="down">down/)
    t.match(html, 'A &lt;b&gt;console&lt;/b&gt;')
    t.match(html, 'href="/console?a=&quot;b&quot;"')
    t.match(html, /<html lang="en">/)
    t.notMatch(html, /<script|src=|@import|url\(/)
    for (const text of ['one', '/echo', 'href="/healthz"', 'href="/readyz"', 'href="/metrics"']) t.match(html, text)
    const json = await (await open.get('/', { accept: 'application/json' })).json()
    t.match(json, { version: '1.2.3', database: 'down', plugins: [{ name: 'one' }, { name: 'two' }] })
  })
})

t.test('what is written about a request', async (t) => {
  await t.test('is one line when it ends', async (t) => {
    const { get, lines } = await start(t)
    await get('/echo?token=query-marker', { 'x-request-id': 'r1' })
    await until(() => lines().length > 0)
    const { ms, bytes, time, ...line } = lines()[0]!
    t.same(line, {
      level: 'info',
      requestId: 'r1',
      method: 'GET',
      route: '/echo',
      status: 200,
      plugin: 'one',
      client: '127.0.0.1',
      role: 'user',
      msg: 'request',
    })
    t.ok(Number(ms) > 0 && Number(bytes) > 0 && typeof time === 'string')
  })
  await t.test('health checks leave a line only when they fail', async (t) => {
    let isReady = true
    const { get, lines } = await start(t, {}, { ready: async () => ({ ready: isReady, probes: [] }) })
    await get('/healthz')
    await get('/readyz')
    isReady = false
    await get('/readyz')
    await get('/echo')
    await until(() => lines().length === 2)
    t.match(lines(), [
      { level: 'info', route: '/readyz', status: 503 },
      { level: 'info', route: '/echo' },
    ])
  })
  await t.test('tells when the client went away', async (t) => {
    const { base, calls, lines } = await start(t)
    const gone = new AbortController()
    const answer = t.rejects(fetch(`${base}/wait`, { signal: gone.signal }))
    await until(() => calls.includes('wait'))
    gone.abort()
    await answer
    await until(() => calls.includes('aborted'))
    await until(() => lines().length > 0)
    t.match(lines()[0], { route: '/wait', aborted: true })
  })
  await t.test('holds no secret, header, body or query', async (t) => {
    const key = 'jwt-key-marker-0123456789abcdef0123456789'
    const config = filled(authConfig, {
      adminSecret: ADMIN,
      gatewaySecret: 'gateway-marker-0123456789abcdef0123456789',
      jwt: { algorithms: ['HS256'], key },
    }) as AuthConfig
    const server = await start(
      t,
      { metricsToken: 'metrics-token-marker', maxJsonBytes: 100, failedAuthPerMinute: 1000 },
      {},
      (log) => createAuthenticate(config, log, []),
    )
    const token = await new SignJWT({
      rowhouse: { 'x-service-allowed-roles': ['user'], 'x-service-a': 'variable-marker' },
    })
      .setProtectedHeader({ alg: 'HS256' })
      .setExpirationTime('1h')
      .sign(Buffer.from(key))
    const attempts: Record<string, string>[] = [
      { 'x-service-admin-secret': ADMIN, 'x-service-b': 'variable-marker' },
      { 'x-service-admin-secret': `${ADMIN}x` },
      { 'x-service-gateway-secret': 'wrong-marker' },
      { 'x-service-role': 'marker' },
      { authorization: `Bearer ${token}` },
      { authorization: `Bearer ${token}marker` },
      { authorization: 'Basic marker' },
      { cookie: `rowhouse_session=${token}marker` },
      { 'user-agent': 'marker', referer: 'http://marker', 'x-request-id': 'no id: marker' },
    ]
    const bodies: string[] = []
    for (const headers of attempts) {
      for (const path of ['/echo', '/bug', '/breaks-at-once', '/metrics', '/readyz', '/nowhere/marker']) {
        bodies.push(await (await server.get(`${path}?a=query-marker`, headers)).text())
      }
      const body = 'body-marker'.repeat(20)
      bodies.push(await (await fetch(`${server.base}/echo`, { method: 'POST', body, headers })).text())
    }
    const written = server.lines().filter(({ err }) => err === undefined)
    t.ok(written.length >= 60)
    t.notMatch(JSON.stringify(server.lines()), new RegExp(token.slice(-20)))
    t.notMatch(JSON.stringify(server.lines()), /marker/)
    t.notMatch(bodies.filter((text) => !text.includes('is not held')).join('\n'), /marker/, 'nor does an answer')
  })
})

// What the tests need.

async function start(
  t: Test,
  http: object = {},
  more: Partial<AppOptions> = {},
  authenticate: (log: AppOptions['log']) => Authenticate = () => trusting,
) {
  const config = filled(httpConfig, http) as HttpConfig
  const calls: string[] = []
  const errors: unknown[] = []
  const released = new AbortController()
  let text = ''
  const destination = new Writable({
    write(chunk: Buffer, _, done) {
      text += chunk.toString()
      done()
    },
  })
  const log = createLogger({ level: 'info', destination })
  const metrics = createMetrics()
  metrics.addProcess()
  const app = createApp({
    fast: true,
    config,
    log,
    traffic: createTraffic(config, metrics, HELD),
    authenticate: authenticate(log),
    ready: async () => ({ ready: true, probes: [] }),
    about: () => ({ version: '0.0.0', database: 'up', links: [] }),
    ...more,
  })
  const one = createRouter()
  one.post('/echo', async (ctx) => {
    calls.push('post')
    const timeoutMs = ctx.get('X-Test-Slow') ? 600_000 : config.jsonTimeoutMs
    try {
      ctx.body = await readBody(ctx.req, { maxBytes: config.maxJsonBytes, timeoutMs })
    } catch (error) {
      errors.push(error)
      throw error
    }
  })
  one.get('/echo', (ctx) => {
    if (ctx.state.session.role === 'head') calls.push('get')
    ctx.body = 'hello'
  })
  one.all('/any', (ctx) => {
    calls.push('any')
    ctx.body = ''
  })
  one.get('/with-head', () => void calls.push('get'))
  one.head('/with-head', (ctx) => {
    calls.push('head')
    ctx.body = 'x'
  })
  one.get('/busy', () => {
    throw serviceError('unavailable', 'all is busy', '$', { cause: new Error('its pool') })
  })
  one.get('/denied', () => {
    throw permissionDenied('not for you', '$.args.columns[0]')
  })
  one.get('/internal', () => {
    throw new ServiceError(400, 'data-exception', 'bad', '$', { internal: { sqlstate: '22012' } })
  })
  one.get('/bug', () => {
    throw Object.assign(new TypeError('a detail of ours'), { detail: 'a bound value' })
  })
  one.get('/half', (ctx) => {
    ctx.set({
      ETag: '"a"',
      'Content-Disposition': 'attachment',
      'Content-Encoding': 'gzip',
      'Cache-Control': 'max-age=60',
    })
    throw new ServiceError(503, 'unavailable', 'later', '$', { retryAfter: 6.2 })
  })
  one.post('/write', (ctx) => {
    requireJson(ctx, ctx.state.session)
    assertSameOrigin(ctx, ctx.state.session)
    ctx.body = 'written'
  })
  one.get('/wait', async (ctx) => {
    calls.push('wait')
    ctx.state.signal.addEventListener('abort', () => calls.push('aborted'))
    await once(released.signal, 'abort', { signal: ctx.state.signal })
    ctx.body = 'done'
  })
  one.get('/endless', (ctx) => {
    ctx.state.signal.addEventListener('abort', () => calls.push('aborted'))
    ctx.body = Readable.from(zeros(), { objectMode: false })
  })
  one.get('/breaks', (ctx) => {
    ctx.body = Readable.from(breaks('first part'), { objectMode: false })
  })
  one.get('/breaks-at-once', (ctx) => {
    ctx.body = Readable.from(breaks(), { objectMode: false })
  })
  const two = createRouter()
  two.get('/other/denied', () => {
    throw new ServiceError(403, 'access_denied', 'access denied')
  })
  app.use({ name: 'one', router: one })
  app.use({
    name: 'two',
    router: two,
    formatError: ({ code, message }, session) => ({ code, message, to: session?.role }),
  })
  const { port } = await app.listen('127.0.0.1', 0)
  const base = `http://127.0.0.1:${port}`
  t.teardown(() => app.close())
  return {
    app,
    base,
    calls,
    errors,
    release: () => released.abort(),
    get: (path: string, headers: Record<string, string> = {}, method = 'GET') =>
      fetch(base + path, { method, headers }),
    /** Sends bytes and reads until the server closes. */
    async raw(bytes: string): Promise<string> {
      const socket = connect(Number(new URL(base).port), '127.0.0.1').on('error', () => {})
      const chunks: Buffer[] = []
      socket.on('data', (chunk) => chunks.push(chunk))
      socket.write(bytes)
      await once(socket, 'close')
      return Buffer.concat(chunks).toString()
    },
    lines: () =>
      text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  }
}

function* zeros() {
  for (;;) yield Buffer.alloc(64 * 1024)
}

async function* breaks(first?: string) {
  if (first !== undefined) {
    yield Buffer.from(first)
    await sleep(50)
  }
  throw new Error('the source is gone')
}

function filled(schema: Schema, config: object): unknown {
  const resolved = resolveSection({ path: '$', schema, value: config, settings: [], where: 'a test' })
  if (!resolved.ok) throw new Error(JSON.stringify(resolved.mistakes))
  return resolved.value
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(5)
}

/** Keeps the process from doing anything, as a busy machine does. */
const stall = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

/** One GET on a connection of the agent: a refused connection is not a failed request. */
function once200(url: string, agent: Agent): Promise<'ok' | 'refused' | 'failed'> {
  return new Promise((resolve) => {
    const req = httpRequest(url, { agent }, (res) => {
      res.on('error', () => resolve('failed'))
      res.on('end', () => resolve(res.complete && res.statusCode === 200 ? 'ok' : 'failed'))
      res.resume()
    })
    req.on('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED' ? 'refused' : 'failed'))
    req.end()
  })
}
