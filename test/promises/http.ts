import { once } from 'node:events'
import { connect } from 'node:net'
import { SignJWT } from 'jose'
import { authConfig, type AuthConfig } from '../../core/http/config.js'
import { createAuthenticate } from '../../core/http/admission.js'
import { filled, httpApp } from '../kit/http-app.js'
import { area, type Case } from '../kit/promises.js'
import { rawRequest } from '../kit/raw-http.js'
import { ADMIN_SECRET, testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What every request meets before and after the plugin that answers it. */
const PROMISES = {
  'id.own': 'a request keeps its X-Request-Id of 1 to 64 letters, digits, - and _, and gets a UUID otherwise',
  'headers.data': 'responses forbid sniffing, framing, caching and scripts, and do not leak the address of the page',
  'headers.type': 'JSON comes as application/json; charset=utf-8 with its length in bytes',
  'timing.off': 'without http.serverTiming, no response has Server-Timing',
  'error.known': 'an error of a plugin has path, error and code, and details of PostgreSQL for admin only',
  'error.unexpected': 'an unexpected error is a 500 with the request id only, and the log has its stack',
  'error.unavailable': 'an error for lack of capacity is a warning in the log, without a stack',
  'error.gateway': 'an error with a status that a proxy may return has a message in the default format',
  'error.format': 'a plugin may format the errors of its routes',
  'error.format-of-path': 'an error that no route raises has the format of the plugin whose path it is',
  'error.headers': 'an error has none of the headers of the body that it replaces, and Retry-After in whole seconds',
  'error.edge': 'an error raised before a plugin has path, error, code and message',
  'route.missing': 'a path that nothing answers is a 404, and paths are literal: case and slashes matter',
  'route.method': 'a method that the path does not support is a 405, and Allow lists the methods',
  'route.options': 'OPTIONS is a 204 with the methods of the path',
  'head.as-get': 'HEAD answers as GET where GET is, without the body; a HEAD route of its own goes first',
  'head.every-path': 'HEAD of every path of the core and of plugins has the status and the headers of its GET',
  'head.stream': 'HEAD of a stream ends it',
  'asset.versions': 'each representation of an asset has an ETag, and a GET with a condition on it is a 304 or 412',
  'body.limit': 'a body up to http.maxJsonBytes is read, byte for byte',
  'body.declared':
    'a body with a declared length above the limit is a 413 before it is sent, and the connection closes',
  'body.chunked': 'a body without a length is a 413 when it exceeds the limit',
  'body.read-why': 'a client that sends a large body to its end can read the 413',
  'body.compressed': 'a compressed body is a 415 with Accept-Encoding',
  'body.slow': 'a body that does not arrive within http.jsonTimeoutMs is a 408',
  'body.early-end': 'a body that ends early is a 400 of the client',
  'body.framing': 'a body with two lengths, with a length and chunks, or with a bad chunk is a 400',
  'request.not-http': 'what is not HTTP/1.1 is a 400 with the usual body, closes the connection, and is counted',
  'request.host': 'HTTP/1.1 without Host, or with two, is a 400; HTTP/1.0 needs none',
  'request.version': 'another version of HTTP than 1.1 and 1.0 is a 505',
  'request.coding': 'a transfer coding other than chunked is a 501, or a 400 where the body has no end',
  'request.expect': 'Expect is 100-continue or a 417',
  'expect.unread': 'bytes after a request that got its status before its body was asked for are never another request',
  'expect.judged': 'with Expect, the body is asked for when it is read, and a refused request gets its status at once',

  'headers.many': 'more than http.maxHeaders headers are a 431, on every path',
  'headers.large': 'headers of more than http.maxHeaderBytes are a 431',
  'headers.slow': 'headers that do not end within http.headersTimeoutMs are a 408',
  'busy.total': 'above http.maxConcurrentRequests, a request is a 503 with Retry-After, but not those of health checks',
  'busy.address': 'one address, except loopback, has half of http.maxConcurrentRequests',
  'guess.limited': 'wrong credentials beyond http.failedAuthPerMinute are a 429 for their address, correct ones work',
  'client.proxy': 'the client is the right-most address in X-Forwarded-For that is not a trusted proxy',
  'client.untrusted': 'X-Forwarded-For of a peer that is not a trusted proxy is ignored',
  'client.gone': 'a client that disconnects aborts its requests',
  'stream.broken': 'a response that breaks off resets the connection, so that nobody takes it for complete',
  'stream.early': 'a response that breaks before its first byte is an ordinary error',
  'connections.most':
    'of more than http.maxConnections, the address with most loses its oldest idle one, and none that has a request',
  'stream.unread': 'a client that stops reading for http.idleWriteTimeoutMs loses its connection',
  'log.request': 'each request is one line in the log, with its route, status, caller and duration',
  'log.health': 'health checks have a line only when they fail',
  'log.secrets': 'no log line and no response contains a secret, a token, a query or a body',
  'auth.header': 'an Authorization that is not Bearer and a token is a 400',
  'auth.secret': 'a wrong admin or gateway secret is a 401 access-denied',
  'auth.token': 'an invalid token is a 401 with the same message for all reasons; refusalReasons adds why',
  'auth.gateway': 'with auth.mode gateway, a request without the gateway secret is a 401',
  'auth.role': 'a role that the caller does not hold is a 403',
} as const

const MIB = 1024 * 1024
const GET = 'GET /echo HTTP/1.1\r\nHost: a\r\n'
const POST = 'POST /echo HTTP/1.1\r\nHost: a\r\n'
const DATA = {
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
}
const ADMIN = 'admin-secret-marker-0123456789abcdef'
const KEY = 'jwt-key-marker-0123456789abcdef0123456789'

const EDGE = ['path', 'error', 'code', 'message']

/** What HEAD and GET have in common. */
function headOf({ status, headers }: { readonly status: number; readonly headers: Headers }, anyLength = false) {
  const volatile = [
    ...(anyLength ? ['content-length'] : []),
    'connection',
    'content-security-policy',
    'date',
    'keep-alive',
    'transfer-encoding',
    'x-request-id',
  ]
  return [status, [...headers].filter(([name]) => !volatile.includes(name))]
}

/**
 * Sends the head of a request, and its body after a 100 only.
 * @returns the statuses that came, and the last head
 */
async function expecting(url: string, head: string, body: string) {
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(url).port) })
  const statuses: number[] = []
  let text = ''
  socket.on('error', () => {}).write(head)
  for await (const chunk of socket.setEncoding('latin1')) {
    text += chunk as string
    const lines = [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map((found) => Number(found[1]))
    if (lines.length > statuses.length && lines.at(-1) === 100) socket.write(body)
    statuses.splice(0, Infinity, ...lines)
    if (lines.at(-1) !== 100 && text.slice(text.lastIndexOf('HTTP/1.1 ')).includes('\r\n\r\n')) break
  }
  socket.destroy()
  return { statuses, last: text.slice(text.lastIndexOf('HTTP/1.1 ')) }
}

/** Sends bytes at once. @returns the statuses that came before the server closed the connection */
async function statusesUntilEnd(url: string, bytes: string): Promise<readonly number[]> {
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(url).port) })
  let text = ''
  socket.on('error', () => {}).write(bytes)
  socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk))
  await once(socket, 'close')
  return [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map((found) => Number(found[1]))
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'id.own': async (t) => {
    const { get } = await httpApp(t)
    const idOf = async (id: string, path = '/echo') =>
      (await get(path, { 'x-request-id': id })).headers.get('x-request-id')
    for (const id of ['abc_-9', 'a'.repeat(64)]) t.equal(await idOf(id), id)
    for (const id of ['a'.repeat(65), 'a b', '', 'a"b', 'a.b']) t.match(await idOf(id), /^[0-9a-f-]{36}$/, id)
    t.equal(await idOf('of-an-error', '/nowhere'), 'of-an-error')
  },
  'connections.most': async (t) => {
    const { base, release, calls } = await httpApp(t, { maxConnections: 3 })
    const port = Number(new URL(base).port)
    const open = async (localAddress: string) => {
      const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {})
      t.teardown(() => socket.destroy())
      await once(socket, 'connect')
      return socket
    }
    const busy = await open('127.0.0.2')
    busy.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
    await until('a request is in progress', () => calls.length > 0)
    const idle = await open('127.0.0.2')
    const other = await open('127.0.0.3')
    const closed = once(idle, 'close')
    const fresh = await open('127.0.0.4')
    await closed
    fresh.write(`${GET}Connection: close\r\n\r\n`)
    t.match(String((await once(fresh, 'data'))[0]), /^HTTP\/1\.1 200/)
    t.equal(other.destroyed || busy.destroyed, false)
    release()
    t.match(String((await once(busy, 'data'))[0]), /^HTTP\/1\.1 200/)
  },
  'headers.data': async (t, server) => {
    const { get, raw } = await httpApp(t)
    const answers = {
      'a route': await get('/echo'),
      'an error of a plugin': await get('/denied'),
      'an error of the core': await get('/nowhere'),
      'the data API': await server.query('bulk', []),
      'the data API through Koa': await server.fetch('/v1/query', {
        method: 'POST',
        body: '{"type":"bulk","args":[]}',
        headers: { accept: 'text/html, application/json;q=0.5' },
      }),
    }
    for (const [what, { headers }] of Object.entries(answers))
      for (const [name, value] of Object.entries(DATA)) t.equal(headers.get(name), value, `${what}: ${name}`)
    const { headers } = await raw('hello\r\n\r\n')
    t.match(headers, { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' })
  },
  'headers.type': async (t, server) => {
    const { headers, text } = await server.query('run_sql', { sql: `select 'é' as "ü"` })
    t.equal(headers.get('content-type'), 'application/json; charset=utf-8')
    t.equal(headers.get('content-length'), String(Buffer.byteLength(text)))
    t.match(text, '[["ü"],["é"]]')
  },
  'timing.off': async (t, server) => {
    t.equal((await server.query('run_sql', { sql: 'select 1' })).headers.get('server-timing'), null)
  },
  'error.known': async (t) => {
    const { get } = await httpApp(t)
    const denied = await get('/denied')
    t.equal(denied.status, 400)
    t.same(await denied.json(), { path: '$.args.columns[0]', error: 'not for you', code: 'permission-denied' })
    const known = { path: '$', error: 'bad', code: 'data-exception' }
    t.same(await (await get('/internal')).json(), known)
    const asAdmin = await get('/internal', { 'x-test-role': 'admin' })
    t.same(await asAdmin.json(), { ...known, internal: { sqlstate: '22012' } })
  },
  'error.unexpected': async (t) => {
    const { get, lines } = await httpApp(t)
    const answer = await get('/bug', { 'x-request-id': 'find-me' })
    t.equal(answer.status, 500)
    t.same(await answer.json(), { path: '$', error: 'internal error', code: 'unexpected', request_id: 'find-me' })
    const logged = lines().find((line) => line['requestId'] === 'find-me' && line['msg'] === 'request failed')
    t.match(logged, { level: 'error', err: { type: 'TypeError', stack: /a detail of ours/ } })
    t.notMatch(JSON.stringify(logged), 'a bound value')
  },
  'error.unavailable': async (t) => {
    const { get, lines } = await httpApp(t)
    t.equal((await get('/busy', { 'x-request-id': 'busy' })).status, 503)
    const logged = lines().find((line) => line['requestId'] === 'busy' && line['msg'] === 'request failed')
    t.match(logged, { level: 'warn', code: 'unavailable', error: 'all is busy', cause: 'its pool', err: undefined })
  },
  'error.gateway': async (t) => {
    const { get } = await httpApp(t)
    const busy = { path: '$', error: 'all is busy', code: 'unavailable', message: 'all is busy' }
    t.same(await (await get('/busy')).json(), busy)
  },
  'error.format': async (t) => {
    const { get } = await httpApp(t)
    const answer = await get('/other/denied')
    t.equal(answer.status, 403)
    t.same(await answer.json(), { code: 'access_denied', message: 'access denied', to: 'user' })
  },
  'error.format-of-path': async (t, server) => {
    const { get } = await httpApp(t)
    const answer = await get('/other/denied', {}, 'DELETE')
    t.same([answer.status, answer.headers.get('allow')], [405, 'GET, HEAD'])
    const message = 'this path does not support DELETE'
    t.same(await answer.json(), { code: 'method-not-allowed', message, to: 'user' })
    const keyed = await get('/other/denied', { 'idempotency-key': 'a' })
    t.match([keyed.status, await keyed.json()], [400, { code: 'not-supported', to: 'user' }])
    t.same(Object.keys((await (await get('/other/nowhere', {}, 'DELETE')).json()) as object), EDGE)
    const unproven = await get('/other/denied', { 'x-test-role': 'wrong' })
    t.same(Object.keys((await unproven.json()) as object), EDGE, 'the caller is not known yet')
    for (const [method, headers] of [
      ['PATCH', {}],
      ['PUT', { 'idempotency-key': '' }],
      ['PUT', { 'idempotency-key': 'é' }],
    ] as const) {
      const { body } = await server.fetch('/v1/file/a', { method, headers })
      t.same(Object.keys(body), ['code', 'message'], JSON.stringify([method, headers]))
    }
  },
  'error.headers': async (t) => {
    const { get } = await httpApp(t)
    const { headers } = await get('/half')
    t.match(headers.get('content-type'), 'application/json')
    for (const name of ['etag', 'content-disposition', 'content-encoding']) t.equal(headers.get(name), null, name)
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(headers.get('retry-after'), '7')
  },
  'error.edge': async (t, server) => {
    const { get } = await httpApp(t)
    const answers: [Promise<Response>, number, string][] = [
      [get('/nowhere'), 404, 'not-found'],
      [get('/echo', {}, 'DELETE'), 405, 'method-not-allowed'],
      [get('/healthz', {}, 'POST'), 405, 'method-not-allowed'],
      [get('/echo', { 'x-test-role': 'wrong' }), 401, 'access-denied'],
    ]
    for (const [answer, status, code] of answers) {
      const response = await answer
      const body = (await response.json()) as Record<string, unknown>
      t.equal(response.status, status)
      t.match(body, { path: '$', code })
      t.same(Object.keys(body), ['path', 'error', 'code', 'message'])
      t.equal(response.headers.get('www-authenticate'), status === 401 ? 'Bearer' : null)
    }
    t.same(Object.keys((await server.fetch('/v1/nowhere')).body), ['path', 'error', 'code', 'message'])
  },
  'route.missing': async (t) => {
    const { get } = await httpApp(t)
    for (const path of ['/nowhere', '/echo/', '/Echo', '//echo']) t.equal((await get(path)).status, 404, path)
    t.equal((await get('/echo?a=b')).status, 200)
  },
  'route.method': async (t, server) => {
    const { get, raw } = await httpApp(t)
    t.equal((await get('/echo', {}, 'DELETE')).headers.get('allow'), 'POST, GET, HEAD')
    t.equal((await get('/healthz', {}, 'POST')).headers.get('allow'), 'GET, HEAD')
    t.match(await raw(`TRACE${GET.slice(3)}\r\n`), { status: 405 })
    const { status, headers } = await server.fetch('/v1/query', {})
    t.same([status, headers.get('allow')], [405, 'POST'])
  },
  'route.options': async (t, server) => {
    const { get } = await httpApp(t)
    for (const [path, allow] of [
      ['/echo', 'POST, GET, HEAD'],
      ['/healthz', 'GET, HEAD'],
      ['/write', 'POST'],
    ] as const) {
      const { status, headers } = await get(path, { origin: 'https://a.example' }, 'OPTIONS')
      t.same([status, headers.get('allow')], [204, allow], path)
    }
    t.equal((await get('/nowhere', {}, 'OPTIONS')).status, 404)
    const { status, headers } = await server.fetch('/v1/query', { method: 'OPTIONS' })
    t.same([status, headers.get('allow')], [204, 'POST'])
  },
  'head.as-get': async (t) => {
    const { get, calls } = await httpApp(t, { metrics: 'open' })
    for (const path of [
      '/echo',
      '/any',
      '/v1/version',
      '/metrics',
      '/healthz',
      '/readyz',
      '/',
      '/denied',
      '/half',
      '/nowhere',
    ]) {
      const [wanted, found] = [await get(path), await get(path, {}, 'HEAD')]
      // The length of the metrics is another one each time.
      t.same(headOf(found, path === '/metrics'), headOf(wanted, path === '/metrics'), path)
      t.equal(await found.text(), '', path)
    }
    calls.length = 0
    t.equal((await get('/with-head', {}, 'HEAD')).status, 200)
    t.same(calls, ['head'])
    t.equal((await get('/write', {}, 'HEAD')).status, 405)
  },
  'head.every-path': async (t, server) => {
    const { body } = await server.fetch('/', { headers: { accept: 'application/json' } })
    const paths = (body.plugins as { routes: { methods: string[]; path: string }[] }[])
      .flatMap(({ routes }) => routes)
      .filter(({ methods, path }) => methods.includes('GET') && !/[:*{]/.test(path))
      .map(({ path }) => path)
    t.ok(
      paths.includes('/v1/graphql') && paths.includes('/v1/openapi.json') && paths.includes('/v1/template'),
      paths.join(),
    )
    const others = [
      '/v1/openapi/assets/page.js',
      '/v1/openapi/assets/nothing.js',
      '/v1/graphql?query={__typename}',
      '/v1/template/nothing',
    ]
    for (const path of [...paths, ...others])
      for (const accept of ['*/*', 'text/html']) {
        const ask = (method: string) =>
          server.fetch(path, { method, headers: { accept, 'accept-encoding': 'identity' } })
        const [wanted, found] = [await ask('GET'), await ask('HEAD')]
        t.same(headOf(found), headOf(wanted), `${path}, ${accept}`)
        t.equal(found.text, '', path)
      }
  },
  'head.stream': async (t) => {
    const { get, calls } = await httpApp(t)
    const { status, headers } = await get('/endless', {}, 'HEAD')
    t.same([status, headers.get('content-length')], [200, null])
    await until('the stream has ended', () => calls.includes('ended'))
    t.equal((await get('/breaks-at-once', {}, 'HEAD')).status, 500)
  },
  'asset.versions': async (t, server) => {
    const path = '/v1/openapi/assets/page.js'
    const tags = new Set<string>()
    for (const coding of ['identity', 'gzip']) {
      const ask = (headers: Record<string, string>, method = 'GET') =>
        server.fetch(path, { method, headers: { 'accept-encoding': coding, ...headers } })
      const { headers, status } = await ask({})
      const tag = headers.get('etag')!
      t.same([status, headers.get('vary')], [200, 'Accept-Encoding'])
      tags.add(tag)
      for (const method of ['GET', 'HEAD']) {
        for (const known of [tag, `W/${tag}`, `"a", ${tag}`, `"a",W/${tag} , "b"`, '*']) {
          const answer = await ask({ 'if-none-match': known }, method)
          t.same([answer.status, answer.headers.get('etag'), answer.text], [304, tag, ''], known)
        }
        for (const other of ['"a"', tag.replaceAll('"', ''), `"x${tag.slice(1)}`, 'W/"a"'])
          t.equal((await ask({ 'if-none-match': other }, method)).status, 200, other)
        for (const match of [tag, `"a", ${tag}`, '*'])
          t.equal((await ask({ 'if-match': match }, method)).status, 200, match)
        for (const match of ['"a"', `W/${tag}`]) t.equal((await ask({ 'if-match': match }, method)).status, 412, match)
      }
    }
    t.equal(tags.size, 2)
  },
  'body.limit': async (t) => {
    const { post } = await httpApp(t, { maxJsonBytes: 1000 })
    t.equal(await (await post('x'.repeat(1000))).text(), 'x'.repeat(1000))
    t.equal(await (await post('')).text(), '')
    t.equal(await (await post('é', { 'content-encoding': 'identity' })).text(), 'é')
    t.equal((await post('x'.repeat(1001))).status, 413)
  },
  'body.declared': async (t) => {
    const { raw, calls } = await httpApp(t, { maxJsonBytes: 1000 })
    const answer = await raw(`${POST}Content-Length: 1099511627776\r\n\r\n`)
    t.match(answer, { status: 413, headers: { connection: 'close' } })
    t.match(answer.body, /"code":"payload-too-large".*1000 bytes.*http\.maxJsonBytes/)
    t.same(calls, ['post'])
  },
  'body.chunked': async (t) => {
    const { raw } = await httpApp(t, { maxJsonBytes: 1000 })
    const chunked = (bytes: number) => {
      const chunk = `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n0\r\n\r\n`
      return raw(`${POST}Transfer-Encoding: chunked\r\n\r\n${chunk}`)
    }
    t.match(await chunked(1000), { status: 200, body: 'x'.repeat(1000) })
    t.match(await chunked(1001), { status: 413, body: /payload-too-large/ })
  },
  'body.read-why': async (t) => {
    const { post } = await httpApp(t, { maxJsonBytes: 1000 })
    const answer = await post('x'.repeat(4 * MIB))
    t.equal(answer.status, 413)
    t.match(await answer.json(), { code: 'payload-too-large' })
  },
  'body.compressed': async (t) => {
    const { post } = await httpApp(t)
    const answer = await post('x', { 'content-encoding': 'gzip' })
    t.equal(answer.status, 415)
    t.equal(answer.headers.get('accept-encoding'), 'identity')
    t.match(await answer.json(), { code: 'unsupported-media-type', message: /gzip/ })
    for (const coding of ['br', 'identity, gzip', 'x'])
      t.equal((await post('x', { 'content-encoding': coding })).status, 415, coding)
    for (const coding of ['Identity', '', 'identity, identity'])
      t.equal((await post('x', { 'content-encoding': coding })).status, 200, coding)
    const typed = await post(
      'x',
      { 'x-test-via': 'cookie', 'x-service-csrf': '1', 'content-type': 'text/plain' },
      '/write',
    )
    t.same([typed.status, typed.headers.get('accept-encoding')], [415, null], 'for its type')
  },
  'body.slow': async (t) => {
    const { raw } = await httpApp(t, { jsonTimeoutMs: 100 })
    const answer = await raw(`${POST}Content-Length: 10\r\n\r\nabc`)
    t.match(answer, { status: 408, body: /"code":"request-timeout".*100 ms/ })
  },
  'body.early-end': async (t) => {
    const { base, calls, errors } = await httpApp(t)
    const socket = connect(Number(new URL(base).port), '127.0.0.1')
    socket.write(`${POST}X-Test-Slow: 1\r\nContent-Length: 10\r\n\r\nabc`)
    await until('the route runs', () => calls.includes('post'))
    socket.destroy()
    await until('its body has failed', () => errors.length > 0)
    t.match(errors[0], { status: 400, code: 'parse-failed' })
  },
  'body.framing': async (t) => {
    const { raw, calls, get } = await httpApp(t, { metrics: 'open' })
    for (const request of [
      `${POST}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      `${POST}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`,
      `${POST}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
    ])
      t.match(await raw(request), { status: 400, body: /"code":"parse-failed"/ }, request)
    t.equal(calls.length, 1, 'the first two are refused before the route')
    t.match(await (await get('/metrics')).text(), /http_unread_total\{code="parse-failed"\} 3\n/)
  },
  'request.not-http': async (t) => {
    const { raw, get } = await httpApp(t, { metrics: 'open' })
    const counted = async () =>
      /http_unread_total\{code="parse-failed"\} (\d+)/.exec(await (await get('/metrics')).text())?.[1] ?? '0'
    const requests: Record<string, RegExp> = {
      'hello there\r\n\r\n': /not HTTP/,
      [`${GET}: b\r\n\r\n`]: /header/,
      '\x16\x03\x01\x02\x00\x01\x00': /not HTTP/,
    }
    for (const [request, message] of Object.entries(requests)) {
      const { status, headers, body } = await raw(request)
      t.equal(status, 400)
      t.match(headers, { connection: 'close', 'content-type': /json/, 'content-length': String(body.length) })
      const answer = JSON.parse(body) as Record<string, unknown>
      t.match(answer, { path: '$', code: 'parse-failed', error: message, message })
      t.same(Object.keys(answer), ['path', 'error', 'code', 'message'])
    }
    t.equal(await counted(), '3')
  },
  'request.host': async (t, server) => {
    const { raw } = await httpApp(t)
    const answer = await raw('GET /echo HTTP/1.1\r\n\r\n')
    t.match(answer, { status: 400, headers: { connection: 'close', 'x-request-id': String }, body: /parse-failed/ })
    const twice = 'POST /v1/query HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 2\r\n\r\n{}'
    t.match(await rawRequest(server.url, twice), { status: 400, body: /parse-failed.*host/i })
    t.match(await raw('GET /echo HTTP/1.0\r\n\r\n'), { status: 200 })
  },
  'request.expect': async (t) => {
    const { raw } = await httpApp(t)
    const answer = await raw(`${POST}Expect: 200-maybe\r\nContent-Length: 3\r\n\r\n`)
    t.match(answer, { status: 417, headers: { connection: 'close' }, body: /"code":"expectation-failed"/ })
    for (const expect of ['100-continue', '100-Continue', '100-continue, 100-continue']) {
      const continued = await raw(`${POST}Expect: ${expect}\r\nContent-Length: 1\r\n\r\nx`)
      t.match(continued, { status: 200, body: 'x' }, expect)
    }
    for (const expect of ['x-100-continue', '100-continue, x', '100-continue;q=1'])
      t.match(await raw(`${POST}Expect: ${expect}\r\nContent-Length: 3\r\n\r\n`), { status: 417 }, expect)
    t.match(await raw('GET /echo HTTP/1.0\r\nExpect: 200-maybe\r\n\r\n'), { status: 200 })
  },
  'request.version': async (t) => {
    const { raw } = await httpApp(t)
    for (const version of ['0.9', '2.0', '3.0', '1.2', '9.9'])
      t.match(
        await raw(`GET /echo HTTP/${version}\r\nHost: a\r\n\r\n`),
        { status: 505, headers: { connection: 'close' }, body: /"code":"version-not-supported"/ },
        version,
      )
    t.match(await raw('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), { status: 505 })
    for (const version of ['x', '1', '11.1'])
      t.equal((await raw(`GET /echo HTTP/${version}\r\nHost: a\r\n\r\n`)).status, 400)
  },
  'request.coding': async (t, server) => {
    const { raw, calls } = await httpApp(t)
    const chunks = '1\r\na\r\n0\r\n\r\n'
    const ask = (coding: string) => raw(`${POST}Transfer-Encoding: ${coding}\r\n\r\n${chunks}`)
    for (const coding of ['gzip, chunked', 'GZIP,chunked', 'x-y, chunked', 'identity, chunked'])
      t.match(
        await ask(coding),
        { status: 501, headers: { connection: 'close' }, body: /coding-not-supported/ },
        coding,
      )
    for (const coding of ['gzip', 'identity', 'chunked, gzip', 'chunked, chunked'])
      t.match(await ask(coding), { status: 400, headers: { connection: 'close' } }, coding)
    const older = await raw(`POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`)
    t.match(older, { status: 400, headers: { connection: 'close' } })
    t.same(calls, [])
    t.match(await ask('Chunked'), { status: 200, body: 'a' })
    const direct = `POST /v1/query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n${chunks}`
    t.equal((await rawRequest(server.url, direct)).status, 501)
  },
  'expect.judged': async (t, server) => {
    const secret = `X-Service-Admin-Secret: ${ADMIN_SECRET}\r\nX-Service-User-Id: 1\r\n`
    const file = { body: 'hello', lines: `${secret}Content-Type: text/plain\r\n` }
    await server.bare('/v1/file/expected', {
      method: 'PUT',
      body: 'x',
      headers: { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-user-id': '1', 'content-type': 'text/plain' },
    })
    const TUS = 'Tus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\n'
    const LARGE = `Content-Length: 99999999999\r\n`
    const table: [what: string, line: string, lines: string, statuses: number[]][] = [
      ['a read body', 'PUT /v1/file/expected', file.lines, [100, 200]],
      ['a condition that holds', 'PUT /v1/file/expected', `${file.lines}If-Match: *\r\n`, [100, 200]],
      ['a query', 'POST /v1/query', secret, [100, 400]],
      ['a GraphQL request', 'POST /v1/graphql', secret, [100, 400]],
      ['too many bytes', 'PUT /v1/file/expected', `${file.lines}${LARGE}`, [413]],
      ['too many bytes of JSON', 'POST /v1/query', `${secret}${LARGE}`, [413]],
      ['a wrong secret', 'PUT /v1/file/expected', 'X-Service-Admin-Secret: wrong\r\n', [401]],
      ['a role that is not held', 'POST /v1/query', 'X-Service-Role: user\r\n', [403]],
      ['no permission', 'PUT /v1/file/expected', 'Content-Type: text/plain\r\n', [403]],
      ['a condition that fails', 'PUT /v1/file/expected', `${file.lines}If-Match: "a"\r\n`, [412]],
      ['a part of a file', 'PUT /v1/file/expected', `${file.lines}Content-Range: bytes 0-4/5\r\n`, [400]],
      ['a compressed body', 'POST /v1/query', `${secret}Content-Encoding: gzip\r\n`, [415]],
      ['no such path', 'POST /nowhere', secret, [404]],
      ['no such method', 'PATCH /v1/query', secret, [405]],
      ['no such upload', 'PATCH /v1/upload/nothing', `${secret}${TUS}`, [404]],
      ['two of a header', 'POST /v1/query', `${secret}${secret}`, [400]],
      ['another expectation', 'POST /v1/query', `${secret}Expect: x\r\n`, [417]],
      ['a GET that reads no body', 'GET /v1/version', '', [200]],
    ]
    for (const [what, line, lines, statuses] of table) {
      const length = lines.includes('Content-Length') ? '' : `Content-Length: ${file.body.length}\r\n`
      const head = `${line} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${length}${lines}\r\n`
      const { statuses: found, last } = await expecting(server.url, head, file.body)
      t.same(found, statuses, what)
      if (!statuses.includes(100)) t.match(last, /connection: close/i, what)
    }
    const text = await server.bare('/v1/file/expected', {
      headers: { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-user-id': '1' },
    })
    t.equal(text.text, file.body)
  },
  'expect.unread': async (t, server) => {
    const next = 'GET /v1/version HTTP/1.1\r\nHost: a\r\n\r\n'
    const secret = `X-Service-Admin-Secret: ${ADMIN_SECRET}\r\n`
    for (const [line, lines, status] of [
      ['POST /v1/query', 'X-Service-Admin-Secret: wrong\r\n', 401],
      ['POST /v1/query', `${secret}Content-Encoding: gzip\r\n`, 415],
      ['PUT /v1/file/nothing', `${secret}Content-Type: text/plain\r\nX-Service-User-Id: 1\r\nIf-Match: *\r\n`, 412],
      ['GET /v1/version', '', 200],
      ['HEAD /v1/version', '', 200],
      ['POST /nowhere', '', 404],
    ] as const)
      for (const [framing, body] of [
        [`Content-Length: ${next.length}`, next],
        ['Content-Length: 9000', next],
        ['Transfer-Encoding: chunked', `${next.length.toString(16)}\r\n${next}\r\n0\r\n\r\n`],
      ] as const) {
        const head = `${line} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${framing}\r\n${lines}\r\n`
        t.same(await statusesUntilEnd(server.url, head + body + next), [status], `${line}, ${framing}`)
      }
  },
  'headers.many': async (t, server) => {
    const { raw } = await httpApp(t, { maxHeaders: 10 })
    const ask = (path: string, count: number) =>
      raw(`GET ${path} HTTP/1.1\r\nHost: a\r\n${'a: b\r\n'.repeat(count - 1)}\r\n`)
    t.match(await ask('/echo', 10), { status: 200 })
    for (const path of ['/echo', '/healthz', '/readyz', '/', '/metrics', '/nowhere'])
      t.match(await ask(path, 11), { status: 431, body: /"code":"too-many-headers"/ }, path)
    const many = `GET /healthz HTTP/1.1\r\nHost: a\r\n${'a: b\r\n'.repeat(100)}\r\n`
    t.match(await rawRequest(server.url, many), { status: 431, body: /100 headers \(http\.maxHeaders\)/ }, 'by default')
    const veryMany = `GET /healthz HTTP/1.1\r\nHost: a\r\n${'a: b\r\n'.repeat(2500)}\r\n`
    t.match(await rawRequest(server.url, veryMany), { status: 431 })
  },
  'headers.large': async (t, server) => {
    const { raw, get } = await httpApp(t, { maxHeaderBytes: 2000, metrics: 'open' })
    const ask = (bytes: number) => raw(`${GET}A: ${'x'.repeat(bytes)}\r\n\r\n`)
    t.match(await ask(1800), { status: 200 })
    t.match(await ask(20_000), { status: 431, body: /"code":"headers-too-large".*2000 bytes \(http.maxHeaderBytes\)/ })
    t.match(await (await get('/metrics')).text(), /http_unread_total\{code="headers-too-large"\} 1/)
    const large = `GET /healthz HTTP/1.1\r\nHost: a\r\nA: ${'x'.repeat(20_000)}\r\n\r\n`
    t.match(await rawRequest(server.url, large), { status: 431, body: /16384 bytes/ }, 'by default')
  },
  'headers.slow': async (t) => {
    const { raw, get } = await httpApp(t, { headersTimeoutMs: 100, metrics: 'open' })
    t.match(await raw(`${GET}A: b\r\n`), { status: 408, body: /"code":"request-timeout".*100 ms/ })
    t.match(await (await get('/metrics')).text(), /http_unread_total\{code="request-timeout"\} 1\n/)
  },
  'busy.total': async (t) => {
    const { get, release, calls } = await httpApp(t, { maxConcurrentRequests: 1, metrics: 'open' })
    const first = get('/wait')
    await until('the first runs', () => calls.includes('wait'))
    const second = await get('/echo')
    t.equal(second.status, 503)
    t.equal(second.headers.get('retry-after'), '1')
    t.match(await second.json(), { code: 'too-busy', message: /http\.maxConcurrentRequests/ })
    t.equal((await get('/healthz')).status, 200)
    t.match(await (await get('/metrics')).text(), /rowhouse_http_overload_total 1\n/)
    release()
    t.equal((await first).status, 200)
    for (let i = 0; i < 5; i++) {
      t.equal((await get('/echo')).status, 200)
      t.equal((await get('/echo', { 'x-test-role': 'wrong' })).status, 401)
    }
  },
  'busy.address': async (t) => {
    const { get, release, calls } = await httpApp(t, { maxConcurrentRequests: 4, trustedProxies: ['127.0.0.1'] })
    const from = (address: string) => get('/wait', { 'x-forwarded-for': address })
    const first = [from('2001:db8::1'), from('2001:db8::2')]
    await until('both run', () => calls.length === 2)
    const more = await from('2001:db8::3')
    t.equal(more.status, 429)
    t.match(await more.json(), { code: 'too-many-requests', error: /^this address has 2 requests in progress/ })
    const others = [from('192.0.2.2'), get('/wait')]
    await until('others run', () => calls.length === 4)
    t.equal((await get('/echo')).status, 503)
    release()
    for (const each of [...first, ...others]) t.equal((await each).status, 200)
  },
  'guess.limited': async (t) => {
    const apps = [
      { trustedProxies: ['127.0.0.1'], isTrusted: true },
      { trustedProxies: [], isTrusted: false },
    ]
    const prove = async ({ isTrusted, trustedProxies }: (typeof apps)[number]) => {
      const http = { trustedProxies, failedAuthPerMinute: 2, maxConcurrentRequests: 1 }
      const { get } = await httpApp(t, http)
      const guess = (from: string) =>
        get('/echo', { 'x-test-role': 'wrong', 'x-forwarded-for': `203.0.113.9, ${from}` })
      for (let i = 0; i < 2; i++) t.equal((await guess('192.0.2.1')).status, 401)
      const late = guess('192.0.2.1')
      t.equal((await get('/echo')).status, 200, 'the delayed refusal takes no room from others')
      t.equal((await guess('192.0.2.2')).status, isTrusted ? 401 : 429, 'another client of the proxy')
      const refused = await late
      t.equal(refused.status, 429)
      t.equal(refused.headers.get('retry-after'), '60')
      t.match(await refused.json(), { code: 'too-many-failures', message: /http\.failedAuthPerMinute/ })
    }
    await Promise.all(apps.map(prove))
  },
  'client.proxy': async (t) => {
    const { get, lines } = await httpApp(t, { trustedProxies: ['127.0.0.0/8', '10.0.0.0/8'] })
    const chains = ['192.0.2.1', '198.51.100.9, 192.0.2.1', '192.0.2.1, 10.9.9.9', '192.0.2.1:4711', '198.51.100.9, x']
    for (const chain of chains) await get('/echo', { 'x-forwarded-for': chain })
    await until('each has its line', () => lines().length === chains.length)
    t.same(
      lines().map(({ client }) => client),
      ['192.0.2.1', '192.0.2.1', '192.0.2.1', '192.0.2.1', '127.0.0.1'],
    )
  },
  'client.untrusted': async (t) => {
    const { get, lines } = await httpApp(t, { trustedProxies: ['10.0.0.0/8'] })
    await get('/echo', { 'x-forwarded-for': '192.0.2.1' })
    await until('it has its line', () => lines().length === 1)
    t.equal(lines()[0]?.['client'], '127.0.0.1')
  },
  'client.gone': async (t) => {
    const { base, calls, lines } = await httpApp(t)
    const socket = connect(Number(new URL(base).port), '127.0.0.1')
    socket.write('GET /wait HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(3))
    await until('all run', () => calls.filter((call) => call === 'wait').length === 3)
    socket.destroy()
    await until('all are aborted', () => calls.filter((call) => call === 'aborted').length === 3)
    await until('all have their line', () => lines().length >= 3)
    t.match(lines()[0], { route: '/wait', aborted: true })
  },
  'stream.broken': async (t) => {
    const { base, lines } = await httpApp(t)
    const socket = connect(Number(new URL(base).port), '127.0.0.1')
    let received = ''
    socket.on('data', (chunk) => (received += chunk.toString()))
    const broken = once(socket, 'error')
    socket.write('GET /breaks HTTP/1.0\r\n\r\n')
    const [error] = await broken
    t.match(error, { code: 'ECONNRESET' })
    t.match(received, /^HTTP\/1.1 200 .*first part/s)
    await until('the log says so', () => lines().some((line) => line['msg'] === 'request failed'))
  },
  'stream.early': async (t) => {
    const { get } = await httpApp(t)
    const answer = await get('/breaks-at-once')
    t.equal(answer.status, 500)
    t.match(await answer.json(), { code: 'unexpected', error: 'internal error' })
  },
  'stream.unread': async (t) => {
    const { base, calls, lines, get, release } = await httpApp(t, { idleWriteTimeoutMs: 100 })
    const waiting = get('/wait')
    const socket = connect(Number(new URL(base).port), '127.0.0.1').on('error', () => {})
    socket.pause()
    socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n')
    await until('the request is aborted', () => calls.includes('aborted'))
    const ended = () => lines().find((line) => line['route'] === '/endless')
    await until('it has its line', () => ended() !== undefined)
    t.match(ended(), { aborted: true })
    socket.destroy()
    release()
    t.equal((await waiting).status, 200, 'a request in progress is not cut for its silence')
  },
  'log.request': async (t) => {
    const { get, lines } = await httpApp(t)
    await get('/echo?token=query-marker', { 'x-request-id': 'r1' })
    await until('it has its line', () => lines().length > 0)
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
  },
  'log.health': async (t) => {
    let isReady = true
    const { get, lines } = await httpApp(t, {}, { ready: async () => ({ ready: isReady, probes: [] }) })
    await get('/healthz')
    await get('/readyz')
    isReady = false
    await get('/readyz')
    await get('/echo')
    await until('both have their lines', () => lines().length === 2)
    t.match(lines(), [
      { level: 'info', route: '/readyz', status: 503 },
      { level: 'info', route: '/echo' },
    ])
  },
  'log.secrets': async (t) => {
    const auth = { ...SECRETS, gatewaySecret: 'gateway-marker-0123456789abcdef0123456789' }
    const config = filled(authConfig, auth) as AuthConfig
    const http = { metricsToken: 'metrics-token-marker', maxJsonBytes: 100, failedAuthPerMinute: 1000 }
    const server = await httpApp(t, http, {}, (log) => createAuthenticate(config, log, []))
    const token = await tokenOf({ 'x-service-a': 'variable-marker' })
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
      for (const path of ['/echo', '/bug', '/breaks-at-once', '/metrics', '/readyz', '/nowhere/marker'])
        bodies.push(await (await server.get(`${path}?a=query-marker`, headers)).text())
      bodies.push(await (await server.post('body-marker'.repeat(20), headers)).text())
    }
    const written = JSON.stringify(server.lines())
    t.ok(server.lines().filter(({ err }) => err === undefined).length >= 60)
    t.notMatch(written, token.slice(-20))
    t.notMatch(written, /marker/)
    t.notMatch(bodies.filter((text) => !text.includes('is not held')).join('\n'), /marker/)
  },
  'auth.header': async (t) => {
    const { get } = await secured(t)
    for (const authorization of ['Basic marker', 'Bearer', 'Bearer a b', 'token']) {
      const answer = await get('/echo', { authorization })
      t.equal(answer.status, 400, authorization)
      t.match(await answer.json(), { code: 'malformed-authorization-header' })
    }
  },
  'auth.secret': async (t) => {
    const { get } = await secured(t)
    for (const name of ['x-service-admin-secret', 'x-service-access-key', 'x-service-gateway-secret']) {
      const answer = await get('/echo', { [name]: 'wrong' })
      t.equal(answer.status, 401, name)
      t.equal(answer.headers.get('www-authenticate'), 'Bearer')
      t.match(await answer.json(), { code: 'access-denied', path: '$' })
    }
    t.equal((await get('/echo', { 'x-service-admin-secret': ADMIN })).status, 200)
  },
  'auth.token': async (t) => {
    const { get } = await secured(t)
    const late = await tokenOf({}, '-1h')
    const wrong = [late, 'no-token', `${await tokenOf({})}x`]
    for (const token of wrong) {
      const answer = await get('/echo', { authorization: `Bearer ${token}` })
      t.equal(answer.status, 401)
      const error = 'invalid authorization token'
      t.same(await answer.json(), { path: '$', error, code: 'invalid-token', message: error })
    }
    t.equal((await get('/echo', { authorization: `Bearer ${await tokenOf({})}` })).status, 200)
    const open = await secured(t, {}, { refusalReasons: true })
    const told = (await (await open.get('/echo', { authorization: `Bearer ${late}` })).json()) as object
    t.match(told, { code: 'invalid-token', internal: { reason: /exp/ } })
  },
  'auth.gateway': async (t) => {
    const gatewaySecret = 'the gateway of a test, 32 letters.'
    const { get } = await secured(t, { mode: 'gateway', gatewaySecret })
    const answer = await get('/echo')
    t.equal(answer.status, 401)
    t.match(await answer.json(), { code: 'missing-credentials' })
    t.equal((await get('/echo', { authorization: `Bearer ${await tokenOf({})}` })).status, 401)
    t.equal((await get('/echo', { 'x-service-gateway-secret': gatewaySecret })).status, 200)
    t.equal((await get('/echo', { 'x-service-admin-secret': ADMIN })).status, 200)
  },
  'auth.role': async (t) => {
    const { get } = await secured(t)
    const authorization = `Bearer ${await tokenOf({})}`
    const answer = await get('/echo', { authorization, 'x-service-role': 'editor' })
    t.equal(answer.status, 403)
    t.match(await answer.json(), { code: 'access-denied', error: 'role "editor" is not held by this caller' })
    t.equal((await get('/echo', { authorization, 'x-service-role': 'user' })).status, 200)
    t.equal((await get('/echo', { 'x-service-role': 'user' })).status, 403)
  },
}

const SECRETS = { adminSecret: ADMIN, jwt: { algorithms: ['HS256'], key: KEY } }

/** An app that authenticates its callers. */
const secured = (t: Parameters<typeof httpApp>[0], auth: object = {}, http: object = {}) =>
  httpApp(t, http, {}, (log) => createAuthenticate(filled(authConfig, { ...SECRETS, ...auth }) as AuthConfig, log, []))

const tokenOf = (variables: object, expires = '1h'): Promise<string> =>
  new SignJWT({ rowhouse: { 'x-service-allowed-roles': ['user'], ...variables } })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime(expires)
    .sign(Buffer.from(KEY))

const PAGES = {
  'core/http/README.md': {
    'Limits of callers': {
      'Open connections (`http.maxConnections`)': 'connections.most',
    },
    Errors: {
      '400 `parse-failed`': ['request.not-http', 'request.host', 'body.early-end', 'body.framing'],
      '404 `not-found`, 405 `method-not-allowed`': ['route.missing', 'route.method', 'route.options', 'head.as-get'],
      '408 `request-timeout`, 413 `payload-too-large`, 415 `unsupported-media-type`': [
        'body.slow',
        'body.limit',
        'body.declared',
        'body.chunked',
        'body.compressed',
        'headers.slow',
      ],
      '501 `coding-not-supported`': 'request.coding',
      '429 `too-many-failures`': 'guess.limited',
    },
  },
} as const

export const http = area('http', {
  promises: PROMISES,
  pages: PAGES,
  cases: CASES,
  start: (t) => testServer(t, { files: true }),
})
