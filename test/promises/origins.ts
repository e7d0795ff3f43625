import { httpApp } from '../kit/http-app.js'
import { area, type Case } from '../kit/promises.js'
import { testServer } from '../kit/server.js'

/** What pages of other origins may do. */
const PROMISES = {
  'hosts.listed': 'with http.hosts, a request for another Host is a 421, on every path',
  'csrf.proof': 'a write with a session cookie needs a proof that it comes from one of our pages',
  'csrf.own-origin': 'without Sec-Fetch-Site, an Origin that equals the own origin of the server is a proof',
  'csrf.proxied-origin': 'behind a trusted proxy, the own origin comes from its X-Forwarded headers',
  'csrf.form': 'a write with a session cookie has Content-Type application/json, or is a 415',
  'cors.off': 'without http.cors.origins, no response has CORS headers',
  'cors.listed': 'a listed origin, and no other, may read responses, errors too',
  'cors.preflight': 'a preflight of a listed origin is a 204 with the method, the headers and the maximum age',
  'cors.server': 'responses of the data API have the same CORS headers',
  'cors.exposed': 'a page of a listed origin may read every header that has a meaning for it',
} as const

const APP = { origin: 'https://app.example' }
const EXPOSED =
  'Accept-Encoding, Accept-Ranges, Allow, Content-Disposition, Content-Range, ETag, Idempotency-Replayed, Location, Preference-Applied, Retry-After, Rowhouse-Position, Server-Timing, WWW-Authenticate, X-Request-Id'

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'hosts.listed': async (t) => {
    const { raw } = await httpApp(t, { hosts: ['localhost', '[::1]', 'shop.test'] })
    const ask = (host: string, path = '/echo') =>
      raw(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nX-Service-CSRF: 1\r\n\r\n`)
    for (const host of ['localhost', 'LocalHost:80', '[::1]:8080', 'shop.test', 'localhost:'])
      t.match(await ask(host), { status: 200 }, host)
    for (const host of ['127.0.0.1', 'evil.test', 'shop.test.evil.test', 'a.shop.test', 'localhost@evil.test', ''])
      t.match(await ask(host), { status: 421, body: /"code":"unknown-host"/ }, host)
    for (const path of ['/healthz', '/', '/metrics', '/nowhere'])
      t.match(await ask('evil.test', path), { status: 421 }, path)
  },
  'csrf.proof': async (t) => {
    const { post } = await httpApp(t, { cors: { origins: [APP.origin] } })
    const cookie = { 'content-type': 'application/json; charset=utf-8', 'x-test-via': 'cookie' }
    const table: [string, Record<string, string>, number][] = [
      ['a page of our own', { 'sec-fetch-site': 'same-origin' }, 200],
      ['typed by hand', { 'sec-fetch-site': 'none' }, 200],
      ['a listed origin', APP, 200],
      ['a listed origin, as browsers send it', { ...APP, 'sec-fetch-site': 'cross-site' }, 200],
      ['the header that other sites cannot send', { 'x-service-csrf': '1' }, 200],
      ['nothing', {}, 403],
      ['another value of the header', { 'x-service-csrf': '0' }, 403],
      ['another site', { 'sec-fetch-site': 'cross-site' }, 403],
      ['a neighbour', { 'sec-fetch-site': 'same-site' }, 403],
      ['an unlisted origin', { origin: 'https://app.example.evil' }, 403],
      ['the null origin', { origin: 'null' }, 403],
      ['prefetched', { 'sec-fetch-site': 'same-origin', 'sec-purpose': 'prefetch;prerender' }, 403],
    ]
    for (const [name, headers, expected] of table) {
      const answer = await post('{}', { ...cookie, ...headers }, '/write')
      t.equal(answer.status, expected, name)
      if (expected === 403) t.match(await answer.json(), { code: 'csrf' })
    }
    t.equal((await post('{}', { 'sec-fetch-site': 'cross-site' }, '/write')).status, 200, 'a token')
  },
  'csrf.own-origin': async (t) => {
    const { raw, base } = await httpApp(t)
    const { port } = new URL(base)
    const own = `http://app.example:${port}`
    const status = writer(raw, `app.example:${port}`)
    t.equal(await status({ origin: own }), 200)
    t.equal(await status({ origin: own, 'sec-fetch-site': 'same-origin' }), 200)
    const table: Record<string, Record<string, string>> = {
      'another host': { origin: `http://evil.example:${port}` },
      'another port': { origin: 'http://app.example:1' },
      'another scheme': { origin: `https://app.example:${port}` },
      'a browser that names another site': { origin: own, 'sec-fetch-site': 'cross-site' },
      'a proxy that is not trusted': PROXIED,
      'behind that proxy': { ...PROXIED, origin: own },
      prefetched: { origin: own, 'sec-purpose': 'prefetch' },
    }
    for (const [name, headers] of Object.entries(table)) t.equal(await status(headers), 403, name)
  },
  'csrf.proxied-origin': async (t) => {
    const { raw } = await httpApp(t, { trustedProxies: ['127.0.0.1'] })
    const status = writer(raw, 'inner')
    const kept = writer(raw, 'app.example')
    t.equal(await status(PROXIED), 200)
    t.equal(await kept({ origin: APP.origin, 'x-forwarded-proto': 'https' }), 200)
    t.equal(await status({ ...PROXIED, origin: 'https://evil.example' }), 403)
    t.equal(await status({ ...PROXIED, origin: 'http://app.example' }), 403)
    t.equal(await kept({ origin: 'http://app.example' }), 403, 'without the scheme')
    t.equal(await status({ ...PROXIED, 'x-forwarded-host': 'app.example, evil.example' }), 403)
  },
  'csrf.form': async (t) => {
    const { post } = await httpApp(t)
    const cookie = { 'x-test-via': 'cookie', 'sec-fetch-site': 'same-origin', 'content-type': 'text/plain' }
    const answer = await post('{}', cookie, '/write')
    t.equal(answer.status, 415)
    t.match(await answer.json(), { code: 'unsupported-media-type', error: /application\/json/ })
    t.equal((await post('{}', { 'content-type': 'text/plain' }, '/write')).status, 200, 'a token')
  },
  'cors.off': async (t) => {
    const { get } = await httpApp(t)
    const { headers } = await get('/echo', APP)
    t.equal(headers.get('access-control-allow-origin'), null)
    t.equal(headers.get('vary'), null)
    t.equal((await get('/echo', { ...APP, ...PREFLIGHT }, 'OPTIONS')).status, 405)
  },
  'cors.listed': async (t) => {
    const { get } = await httpApp(t, { cors: { origins: [APP.origin] } })
    for (const path of ['/echo', '/denied', '/nowhere']) {
      const { headers } = await get(path, APP)
      t.equal(headers.get('access-control-allow-origin'), APP.origin, path)
      t.equal(headers.get('access-control-allow-credentials'), null, path)
      t.equal(headers.get('access-control-expose-headers'), EXPOSED, path)
      t.equal(headers.get('vary'), 'Origin', path)
    }
    for (const origin of ['https://app.example.evil', 'http://app.example', 'https://APP.example', 'null', '*']) {
      for (const method of ['GET', 'OPTIONS']) {
        const { headers } = await get('/echo', { origin, ...PREFLIGHT }, method)
        t.equal(headers.get('access-control-allow-origin'), null, origin)
        t.equal(headers.get('access-control-allow-methods'), null, origin)
        t.equal(headers.get('vary'), 'Origin')
      }
    }
  },
  'cors.preflight': async (t) => {
    const { get } = await httpApp(t, { cors: { origins: [APP.origin], credentials: true, maxAgeSeconds: 60 } })
    const { status, headers } = await get('/echo', { ...APP, ...PREFLIGHT }, 'OPTIONS')
    t.equal(status, 204)
    t.equal(headers.get('access-control-allow-origin'), APP.origin)
    t.equal(headers.get('access-control-allow-credentials'), 'true')
    t.equal(headers.get('access-control-allow-methods'), 'POST')
    t.equal(headers.get('access-control-allow-headers'), 'x-service-role')
    t.equal(headers.get('access-control-max-age'), '60')
    t.equal(headers.get('vary'), 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers')
    const plain = await get('/echo', { ...APP, 'access-control-request-method': 'PUT' }, 'OPTIONS')
    t.same([plain.status, plain.headers.get('access-control-allow-methods')], [204, 'PUT'])
    t.equal(plain.headers.get('access-control-allow-headers'), null, 'none is asked for')
    const options = await get('/echo', APP, 'OPTIONS')
    t.same([options.status, options.headers.get('allow')], [204, 'POST, GET, HEAD'])
    t.equal(options.headers.get('access-control-allow-methods'), null, 'no preflight')
    const byDefault = await httpApp(t, { cors: { origins: [APP.origin] } })
    const answer = await byDefault.get('/echo', { ...APP, ...PREFLIGHT }, 'OPTIONS')
    t.equal(answer.headers.get('access-control-max-age'), '600')
    t.equal(answer.headers.get('access-control-allow-credentials'), null)
  },
  'cors.exposed': async (t, server) => {
    const admin = { ...APP, 'x-service-user-id': '1', 'content-type': 'text/plain' }
    const ask = (method: string, path: string, headers: object = {}, body?: string) =>
      server.fetch(path, {
        method,
        headers: { ...admin, ...(headers as Record<string, string>) },
        ...(body && { body }),
      })
    const tus = { 'tus-resumable': '1.0.0' }
    const created = await ask('POST', '/v1/upload', {
      ...tus,
      'upload-length': '1',
      'upload-metadata': 'filename YQ==',
    })
    const upload = new URL(created.headers.get('location') ?? '', server.url).pathname
    const answers = [
      created,
      await ask('HEAD', upload, tus),
      await ask('OPTIONS', '/v1/upload'),
      await ask('PUT', '/v1/file/exposed', { 'idempotency-key': 'a' }, 'some text'),
      await ask('PUT', '/v1/file/exposed', { 'idempotency-key': 'a' }, 'some text'),
      await ask('GET', '/v1/file/exposed?download=x.txt', { range: 'bytes=0-1' }),
      await ask('GET', '/v1/file/exposed', { 'x-service-admin-secret': 'wrong' }),
      await ask('PATCH', '/v1/query'),
      await ask('POST', '/v1/query', { 'content-encoding': 'gzip' }, 'x'),
      await ask('POST', '/v1/query', { prefer: 'tx=rollback' }, '{"type":"bulk","args":[]}'),
      await ask('GET', '/v1/openapi/assets/page.js'),
      await ask('GET', '/v1/openapi.json'),
      await ask('GET', '/v1/graphql?query={__typename}'),
    ]
    // Those that browsers always show, and those for the browser or the connection.
    const others =
      /^(cache-control|content-(length|type|encoding|security-policy)|last-modified|vary|date|connection|keep-alive|transfer-encoding|x-content-type-options|referrer-policy|cross-origin-.*|access-control-.*|set-cookie)$/
    for (const { headers, status } of answers) {
      const exposed = (headers.get('access-control-expose-headers') ?? '').toLowerCase().split(', ')
      t.same(
        [...headers.keys()].filter((name) => !others.test(name) && !exposed.includes(name)),
        [],
        `${status}`,
      )
    }
    const seen = new Set(answers.flatMap(({ headers }) => [...headers.keys()]))
    for (const name of [
      'accept-ranges',
      'content-disposition',
      'content-range',
      'allow',
      'upload-offset',
      'accept-encoding',
    ])
      t.ok(seen.has(name), name)
  },
  'cors.server': async (t, server) => {
    const ask = (type: string, headers: Record<string, string>) =>
      server.fetch('/v1/query', { method: 'POST', body: JSON.stringify({ type, args: [] }), headers })
    for (const [type, status] of [
      ['bulk', 200],
      ['nothing', 400],
    ] as const) {
      const { headers, status: answered } = await ask(type, APP)
      t.equal(answered, status)
      t.equal(headers.get('access-control-allow-origin'), APP.origin)
      t.equal(headers.get('access-control-allow-credentials'), 'true')
      t.equal(headers.get('access-control-expose-headers'), EXPOSED)
      const other = await ask(type, { origin: 'https://evil.example' })
      t.equal(other.headers.get('access-control-allow-origin'), null)
      t.equal(other.headers.get('vary'), 'Origin')
    }
  },
}

const PREFLIGHT = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-service-role' }
/** What a proxy that ends TLS sends. */
const PROXIED = { ...APP, 'x-forwarded-proto': 'https', 'x-forwarded-host': 'app.example' }

/** Writes with a session cookie at a host. */
const writer =
  (raw: (bytes: string) => Promise<{ status: number }>, host: string) => async (headers: Record<string, string>) => {
    const sent = { host, 'content-type': 'application/json', 'x-test-via': 'cookie', 'content-length': '2', ...headers }
    const lines = Object.entries(sent).map((pair) => pair.join(': '))
    return (await raw(`POST /write HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n{}`)).status
  }

const PAGES = {} as const

export const origins = area('origins', {
  promises: PROMISES,
  pages: PAGES,
  cases: CASES,
  start: (t) =>
    testServer(t, { files: true, config: { http: { cors: { origins: [APP.origin], credentials: true } } } }),
})
