import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import type { Test } from 'tap'
import { ServiceError } from '../../core/errors.js'
import { createApp } from '../../core/http/app.js'
import { readBody } from '../../core/http/body.js'
import { httpConfig } from '../../core/http/config.js'
import type { HttpConfig } from '../../core/http/config.js'
import { createRouter } from '../../core/http/router.js'
import type { Authenticate } from '../../core/http/session.js'
import { startServer } from '../../core/host/server.js'
import type { ServerOptions } from '../../core/host/server.js'
import { resolveSection } from '../../core/host/resolve-section.js'
import { createTraffic } from '../../core/http/traffic.js'
import { createLogger } from '../../core/log.js'
import { createMetrics } from '../../core/metrics.js'
import type { Session } from '../../core/session.js'
import { freshDatabase } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { HELD } from '../kit/held.js'

const HELLO = 'GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

t.test('what Node cannot read as a request is answered like other errors, and counted', async (t) => {
  const headersTimeoutMs = patience(1_000)
  const { raw, metrics } = await start(t, { headersTimeoutMs, checkIntervalMs: 20, maxHeaderBytes: 2000 })
  const head = 'GET /hello HTTP/1.1\r\nHost: a\r\n'
  const requests: Record<string, [request: string, status: string, code: string, message: RegExp]> = {
    'a line that is no request': ['hello there\r\n\r\n', '400 Bad Request', 'parse-failed', /not HTTP/],
    'a header without a name': [`${head}: b\r\n\r\n`, '400 Bad Request', 'parse-failed', /header/],
    'two lengths': [
      'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd',
      '400 Bad Request',
      'parse-failed',
      /Content-Length/i,
    ],
    'a chunk without a size': [
      'POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      '400 Bad Request',
      'parse-failed',
      /chunk/,
    ],
    'headers that are too large': [
      `${head}A: ${'x'.repeat(200_000)}\r\n\r\n`,
      '431 Request Header Fields Too Large',
      'headers-too-large',
      /2000 bytes \(http.maxHeaderBytes\)/,
    ],
    'headers that do not end': [
      `${head}A: b\r\n`,
      '408 Request Timeout',
      'request-timeout',
      new RegExp(`${headersTimeoutMs} ms`),
    ],
    'a name in another language': ['\x16\x03\x01\x02\x00\x01\x00', '400 Bad Request', 'parse-failed', /not HTTP/],
  }

  for (const [name, [request, status, code, message]] of Object.entries(requests)) {
    await t.test(name, async (t) => {
      const before = await counted(metrics, code)
      const { line, headers, body } = parsed(await raw(request))
      t.equal(line, `HTTP/1.1 ${status}`)
      t.match(headers, { connection: 'close', 'content-type': /json/, 'content-length': String(body.length) })
      const answer = JSON.parse(body) as Record<string, unknown>
      t.match(answer, { path: '$', code, error: message, message })
      t.same(Object.keys(answer), ['path', 'error', 'code', 'message'])
      t.equal(await counted(metrics, code), before + 1)
    })
  }
})

t.test('what Node would refuse without a word is answered like other errors', async (t) => {
  const { raw } = await start(t)
  const requests: Record<string, [request: string, status: string, code: string]> = {
    'no host': ['GET /hello HTTP/1.1\r\n\r\n', '400 Bad Request', 'parse-failed'],
    'another expectation': [
      'POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 200-maybe\r\nContent-Length: 3\r\n\r\n',
      '417 Expectation Failed',
      'expectation-failed',
    ],
  }

  for (const [name, [request, status, code]] of Object.entries(requests)) {
    await t.test(name, async (t) => {
      const { line, headers, body } = parsed(await raw(request))
      t.equal(line, `HTTP/1.1 ${status}`)
      t.match(headers, { connection: 'close', 'x-request-id': String })
      const answer = JSON.parse(body) as Record<string, unknown>
      t.match(answer, { path: '$', code })
      t.same(Object.keys(answer), ['path', 'error', 'code', 'message'])
    })
  }
  t.match(await raw('GET /hello HTTP/1.0\r\n\r\n'), /^HTTP\/1.1 200 /, 'HTTP/1.0 needs no host')
})

t.test('garbage behind a request does not become its answer', async (t) => {
  const { raw, calls } = await start(t)

  t.notMatch(await raw('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n\x00\x00garbage\r\n\r\n'), /HTTP\/1.1/)
  t.same(calls, ['wait'])
})

t.test('a client that goes on sending can read why it was refused', async (t) => {
  const { port } = await start(t, { maxHeaderBytes: 2000 })
  const socket = connect({ port, host: '127.0.0.1' })
  const broken: unknown[] = []
  socket.on('error', (error) => broken.push(error))
  const closed = once(socket, 'close')
  let text = ''

  socket.write(`GET /hello HTTP/1.1\r\nHost: a\r\nA: ${'x'.repeat(3000)}`)
  for (let i = 0; i < 20; i++) {
    await sleep(10)
    socket.write('x'.repeat(10_000))
  }
  socket.on('data', (chunk) => (text += chunk.toString()))
  await closed

  t.match(text, /^HTTP\/1.1 431 .*"code":"headers-too-large"/s)
  t.same(text.match(/HTTP\/1\.1/g)?.length, 1, 'it was said once')
  t.same(broken, [])
})

t.test('a unix socket', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-socket-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'http')
  const listenOn = (t: Test, mode = '660') => start(t, { socket: { path, mode } })

  await t.test('is what the server listens on when it is configured, for whom its mode allows', async (t) => {
    for (const mode of ['660', '0600', '666']) {
      const { app } = await listenOn(t, mode)
      t.equal((await stat(path)).mode & 0o777, Number.parseInt(mode, 8), mode)
      t.match(await send({ path }, HELLO), /^HTTP\/1.1 200 /)
      await app.close()
      await t.rejects(stat(path), { code: 'ENOENT' }, 'the file is removed at the end')
    }
  })
  await t.test('takes the place of a file that a killed server left', async (t) => {
    await leaveSocket(path)
    t.ok((await stat(path)).isSocket())

    const { app } = await listenOn(t)

    t.match(await send({ path }, HELLO), /^HTTP\/1.1 200 /)
    await app.close()
  })
  await t.test('does not take the place of a server that lives, nor of another file', async (t) => {
    const { app } = await listenOn(t)
    await t.rejects(listenOn(t), {
      message: /^http.socket.path: cannot listen on .*: another server is listening on it$/,
    })
    t.match(await send({ path }, HELLO), /^HTTP\/1.1 200 /, 'which goes on')
    await app.close()
    await writeFile(path, 'precious')
    await t.rejects(listenOn(t), { message: /^http.socket.path: .* the file exists and is not a socket$/ })
    t.equal(await readFile(path, 'utf8'), 'precious')
    await rm(path)
  })
  await t.test('that cannot be made is named with its setting', async (t) => {
    const absent = start(t, { socket: { path: join(folder, 'absent', 'http') } })
    await t.rejects(absent, { message: /^http.socket.path: cannot listen on .*absent.http: its folder is missing or/ })
  })
  await t.test('has no reset: an answer that breaks off is short of its length', async (t) => {
    const { app } = await listenOn(t)
    const answer = await send({ path }, 'GET /breaks HTTP/1.1\r\nHost: a\r\n\r\n')
    t.match(answer, /first part/)
    t.notMatch(answer, /\r\n0\r\n\r\n$/, 'the last chunk is missing')
    await app.close()
  })
})

t.test('over its unix socket a server at a gateway believes who the headers say', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-socket-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'http')
  const database = await freshDatabase()
  t.teardown(database.drop)
  const run = async (t: Test, auth: object, more: Partial<ServerOptions> = {}) => {
    const server = await startServer({
      env: {},
      cwd: tmpdir(),
      builtins: { plugins: { who: whoami(folder) }, providers: {} },
      overrides: {
        database: { url: database.url },
        http: { socket: { path } },
        log: { level: 'fatal' },
        compile: { threads: 0 },
        auth,
      },
      ...more,
    })
    t.teardown(() => server.close())
    return server
  }
  const ask = async (to: Parameters<typeof send>[0], headers: Record<string, string>, at = '/who') => {
    const lines = Object.entries({ Host: 'a', Connection: 'close', ...headers }).map((pair) => pair.join(': '))
    const { line, body } = parsed(await send(to, `GET ${at} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`))
    return { status: Number(line?.split(' ')[1]), body: JSON.parse(body) as unknown }
  }
  const editor = { 'X-Service-Role': 'editor', 'X-Service-User-Id': '7', 'X-Service-Org': 'a' }

  await t.test('in gateway mode, without any secret', async (t) => {
    const server = await run(t, { mode: 'gateway' })
    t.equal(server.url, `unix:${path}`)
    t.match(await ask({ path }, editor), { status: 200, body: { role: 'editor', via: 'gateway', user: '7', org: 'a' } })
    t.match(await ask({ path }, {}), { status: 200, body: { role: 'anonymous', user: '0' } })
    t.match(await ask({ path }, { 'X-Service-Gateway-Secret': 'wrong' }), { status: 401 }, 'a wrong secret is wrong')
    t.match(await ask({ path }, {}, '/metrics'), { status: 401 }, 'the world is behind the gateway')
    await server.close()
  })
  await t.test('in direct mode nobody is believed for it', async (t) => {
    const server = await run(t, { mode: 'direct' })
    t.match(await ask({ path }, editor), { status: 403 })
    t.match(await ask({ path }, { 'X-Service-User-Id': '7' }), { status: 200, body: { role: 'anonymous', user: '0' } })
    await server.close()
  })
  await t.test('on a port a gateway needs its secret', async (t) => {
    await t.rejects(run(t, { mode: 'gateway' }, { address: { host: '127.0.0.1', port: 0 } }), {
      message: /auth.gatewaySecret is required when auth.mode is "gateway" and http.socket is not set/,
    })
  })
})

t.test(
  'a guess counts for the client that a trusted proxy names, and for the proxy where none is trusted',
  async (t) => {
    const wrong: Authenticate = async () => {
      throw new ServiceError(401, 'access-denied', 'wrong')
    }
    for (const trustedProxies of [['127.0.0.1'], []]) {
      const { raw, lines } = await start(t, { trustedProxies, failedAuthPerMinute: 2 }, wrong)
      const guess = async (from: string) => {
        const request = HELLO.replace('\r\n\r\n', `\r\nX-Forwarded-For: 203.0.113.9, ${from}\r\n\r\n`)
        return Number(parsed(await raw(request)).line?.split(' ')[1])
      }

      const first = [await guess('192.0.2.1'), await guess('192.0.2.1'), await guess('192.0.2.1')]

      t.same(first, [401, 401, 429])
      const trusted = trustedProxies.length > 0
      t.equal(await guess('192.0.2.2'), trusted ? 401 : 429, 'another client of the proxy')
      t.equal(lines()[0]?.['client'], trusted ? '192.0.2.1' : '127.0.0.1')
    }
  },
)

// What the tests need.

async function start(t: Test, http: object = {}, authenticate: Authenticate = asUser) {
  const resolved = resolveSection({ path: '$', schema: httpConfig, value: http, settings: [], where: 'a test' })
  if (!resolved.ok) throw new Error(JSON.stringify(resolved.mistakes))
  const config: HttpConfig = resolved.value
  const lines: string[] = []
  const calls: string[] = []
  const metrics = createMetrics()
  const app = createApp({
    fast: true,
    config,
    log: createLogger({ level: 'info', destination: { write: (line) => void lines.push(line) } }),
    traffic: createTraffic(config, metrics, HELD),
    authenticate,
    ready: async () => ({ ready: true, probes: [] }),
    about: () => ({ version: '0.0.0', database: 'up', links: [] }),
  })
  const router = createRouter()
  router.get('/hello', (ctx) => {
    const { role, variables } = ctx.state.session
    ctx.body = { role, variables: Object.fromEntries(variables) }
  })
  router.post('/echo', async (ctx) => {
    ctx.body = await readBody(ctx.req, { maxBytes: 1000, timeoutMs: 60_000 })
  })
  router.get('/wait', async (ctx) => {
    calls.push('wait')
    await once(ctx.state.signal, 'abort')
  })
  app.use({ name: 'test', router })
  t.teardown(() => app.close())
  router.get('/breaks', (ctx) => {
    ctx.body = Readable.from(breaks(), { objectMode: false })
  })
  if (config.socket) await app.listenOn(config.socket)
  else await app.listen('127.0.0.1', 0)
  const port = app.address?.port ?? 0
  return {
    app,
    port,
    metrics,
    calls,
    lines: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>),
    raw: (bytes: string) => send({ port, host: '127.0.0.1' }, bytes),
  }
}

async function asUser(): Promise<Session> {
  return { role: 'user', via: 'token', variables: new Map() }
}

async function* breaks() {
  yield Buffer.from('first part')
  await sleep(50)
  throw new Error('the source is gone')
}

/** A socket file on which nobody listens any more, as SIGKILL leaves it. */
async function leaveSocket(path: string): Promise<void> {
  const code = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
  await once(spawn(process.execPath, ['-e', code]), 'exit')
}

/** A plugin that says who asks. */
function whoami(folder: string): URL {
  const file = join(folder, 'who.mjs')
  const code = `export default { name: 'who', setup(host) {
    host.router.get('/who', (ctx) => {
      const { role, via, variables } = ctx.state.session
      ctx.body = { role, via, user: variables.get('x-service-user-id'), org: variables.get('x-service-org') }
    })
  } }`
  writeFileSync(file, code)
  return pathToFileURL(file)
}

/** Sends bytes and reads until the server closes. */
async function send(to: { port: number; host: string } | { path: string }, bytes: string): Promise<string> {
  const socket = connect(to).on('error', () => {})
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.write(bytes, 'latin1')
  await once(socket, 'close')
  return Buffer.concat(chunks).toString()
}

function parsed(answer: string) {
  const [head = '', body = ''] = answer.split('\r\n\r\n')
  const [line, ...lines] = head.split('\r\n')
  const headers = Object.fromEntries(lines.map((each) => each.toLowerCase().split(': ') as [string, string]))
  return { line, headers, body }
}

async function counted(metrics: ReturnType<typeof createMetrics>, code: string): Promise<number> {
  const text = await metrics.registry.metrics()
  return Number(new RegExp(`http_unread_total\\{code="${code}"\\} (\\d+)`).exec(text)?.[1] ?? 0)
}
