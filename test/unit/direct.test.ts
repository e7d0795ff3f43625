import { AsyncLocalStorage } from 'node:async_hooks'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import type { Answer } from '../../core/data/operations.js'
import { resolveSection } from '../../core/host/resolve-section.js'
import { createApp } from '../../core/http/app.js'
import { httpConfig, type HttpConfig } from '../../core/http/config.js'
import type { Exchange, HandlerRoute } from '../../core/http/exchange.js'
import { respond } from '../../core/http/respond.js'
import { createRouter } from '../../core/http/router.js'
import { anonymous } from '../../core/http/identity.js'
import { createTraffic } from '../../core/http/traffic.js'
import { createLogger } from '../../core/observe/log.js'
import { createMetrics } from '../../core/observe/metrics.js'
import { HELD } from '../kit/held.js'
import { until } from '../kit/until.js'

const resolved = resolveSection({ path: '$', schema: httpConfig, value: {}, settings: [], where: 'a test' })
if (!resolved.ok) throw new Error('the defaults are wrong')
const config: HttpConfig = resolved.value

/** A plugin's routes, as `host.route` and `host.router` make them. */
function plugin() {
  const router = createRouter()
  const handlers: HandlerRoute[] = []
  const route = (method: HandlerRoute['method'], path: string, handler: HandlerRoute['handler']) => {
    handlers.push({ method, path, handler })
    router[method](path, async (ctx) => respond(ctx, await handler(ctx as unknown as Exchange)))
  }
  return { name: 'test', router, handlers, route }
}

async function serve(t: Test, ...plugins: ReturnType<typeof plugin>[]) {
  const lines: Record<string, unknown>[] = []
  const metrics = createMetrics()
  const app = createApp({
    fast: true,
    config: { ...config, port: 0 },
    log: createLogger({ level: 'info', destination: { write: (line) => void lines.push(JSON.parse(line)) } }),
    traffic: createTraffic(config, metrics, HELD),
    authenticate: async () => anonymous(),
    ready: async () => ({ ready: true, probes: [] }),
    about: () => ({ version: '0.0.0', build: 'abc', database: 'none', links: [] }),
  })
  for (const each of plugins) app.use(each)
  t.teardown(() => app.close())
  const { port } = (await app.listen('127.0.0.1', 0)) as unknown as AddressInfo
  return {
    app,
    port,
    lines,
    metrics,
    get: (path: string, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, { headers }),
  }
}

const text = (text: string, more: Partial<Answer> = {}): Answer => ({ kind: 'text', text, ...more }) as Answer
const WAYS = { short: { accept: '*/*' }, long: { accept: 'application/json;q=1' } }

t.test('a route that may share its path with another has no short way past it', async (t) => {
  const one = plugin()
  one.router.get('/odd/new', (ctx) => void (ctx.body = 'new'))
  one.route('get', '/odd/:id', async ({ params }) => text(`id ${params['id']}`))
  one.route('get', '/healthz', async () => text('not the core'))
  one.route('get', '/wild/:id', async () => text('id'))
  one.route('get', '/plain/:id', async ({ params }) => text(`plain ${params['id']}`))
  const other = plugin()
  other.router.get(/^\/never/, (ctx) => void (ctx.body = 'pattern'))
  const server = await serve(t, one)
  const both = await serve(t, one, other)
  for (const accept of Object.values(WAYS)) {
    t.equal(await (await server.get('/odd/new', accept)).text(), 'new')
    t.equal(await (await server.get('/odd/7', accept)).text(), 'id 7')
    t.match(await (await server.get('/healthz', accept)).json(), { status: 'ok' })
    t.equal(await (await server.get('/plain/a.b-c_d', accept)).text(), 'plain a.b-c_d')
    t.equal(await (await both.get('/never/mind', accept)).text(), 'pattern')
  }
})

t.test('a route may take whatever stands behind its prefix', async (t) => {
  const one = plugin()
  one.route('get', '/rest/{*name}', async ({ params }) => text(`rest ${params['name']}`))
  one.route('put', '/rest/{*name}', async () => text('put'))
  one.route('post', '/rest/', async () => text('post'))
  const server = await serve(t, one)
  const lines = () => server.lines.filter(({ status }) => status === 200)
  for (const accept of Object.values(WAYS)) {
    t.equal(await (await server.get('/rest/a', accept)).text(), 'rest a')
    t.equal(await (await server.get('/rest/a/b', accept)).text(), 'rest a/b')
    t.equal((await server.get('/rest', accept)).status, 404)
  }
  await until('each has its line', () => lines().length === 4)
  t.same(new Set(lines().map(({ route }) => route)), new Set(['/rest/{*name}']))
})

t.test('bytes are sent as they are, few and many', async (t) => {
  const one = plugin()
  const every = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  const many = Buffer.concat(Array.from({ length: 20 }, () => every))
  one.route('get', '/few', async () => ({ kind: 'bytes', bytes: every, contentType: 'a/b' }))
  one.route('get', '/many', async () => ({ kind: 'bytes', bytes: many, contentType: 'a/b' }))
  one.route('get', '/stream', async () => ({
    kind: 'stream',
    chunks: Readable.from([every, every]),
    contentType: 'a/b',
    length: 512,
  }))
  const server = await serve(t, one)
  for (const accept of Object.values(WAYS)) {
    const bytes = async (path: string) => {
      const answer = await server.get(path, accept)
      return { bytes: Buffer.from(await answer.arrayBuffer()), length: answer.headers.get('content-length') }
    }
    t.same(await bytes('/few'), { bytes: every, length: '256' })
    t.same(await bytes('/many'), { bytes: many, length: String(many.length) })
    t.same(await bytes('/stream'), { bytes: Buffer.concat([every, every]), length: '512' })
  }
})

t.test('what a handler sets stays, and what has no body gets none', async (t) => {
  const one = plugin()
  one.route('get', '/set', async (exchange) => {
    exchange.set('Cache-Control', 'max-age=60')
    exchange.set('Content-Security-Policy', "default-src 'self'")
    return text('x', { contentType: 'text/plain', status: 201 } as Partial<Answer>)
  })
  one.route('get', '/none', async () => text('x', { status: 204 } as Partial<Answer>))
  const server = await serve(t, one)
  for (const [way, accept] of Object.entries(WAYS)) {
    const set = await server.get('/set', accept)
    t.equal(set.status, 201, way)
    t.equal(set.headers.get('cache-control'), 'max-age=60', way)
    t.equal(set.headers.get('content-security-policy'), "default-src 'self'", way)
    t.equal(set.headers.get('x-content-type-options'), 'nosniff', way)
    t.equal(set.headers.get('content-type'), 'text/plain', way)
    const none = await server.get('/none', accept)
    t.same([none.status, none.headers.get('content-length'), none.headers.get('content-type')], [204, null, null], way)
  }
})

t.test('requests sent behind others whose client has gone are counted out and logged', async (t) => {
  const one = plugin()
  let waiting = 0
  one.route('get', '/wait', async ({ state }) => {
    waiting++
    await once(state.signal, 'abort')
    return text('late')
  })
  const server = await serve(t, one)
  const socket = connect(server.port, '127.0.0.1')
  socket.write('GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(4))
  await until('all are under way', () => waiting === 4)
  socket.destroy()
  const inFlight = async () =>
    /http_requests_in_flight (\d+)/.exec(
      await server.metrics.registry.getSingleMetricAsString('rowhouse_http_requests_in_flight'),
    )?.[1]
  await until('none is in flight', async () => (await inFlight()) === '0')
  await until('each has its line', () => server.lines.filter(({ route }) => route === '/wait').length === 4)
})

t.test('requests that arrive together keep the contexts in which they arrived', async (t) => {
  const own = plugin()
  const context = new AsyncLocalStorage<string>()
  own.route('post', '/test/whose', async () => text(JSON.stringify(context.getStore())))
  const { app } = await serve(t, own)
  // As an agent that follows requests does, or the owner of a server.
  const server = createServer((req, res) => context.run(String(req.headers['x-name']), () => app.callback(req, res)))
  t.teardown(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const names = ['one', 'two', 'three']
  socket.write(
    names
      .map((name) => `POST /test/whose HTTP/1.1\r\nHost: x\r\nX-Name: ${name}\r\nContent-Length: 0\r\n\r\n`)
      .join(''),
  )
  let received = ''
  socket.on('data', (chunk) => (received += String(chunk)))
  await until('all are answered', async () => names.every((_, i) => received.split('HTTP/1.1 200').length > i + 1))
  t.strictSame(received.match(/"(one|two|three)"/g), ['"one"', '"two"', '"three"'])
})
