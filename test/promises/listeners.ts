import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import type { Test } from 'tap'
import type { ConfigError } from '../../core/host/config.js'
import { startServer } from '../../core/host/server.js'
import { httpApp } from '../kit/http-app.js'
import { area, type Case } from '../kit/promises.js'
import { rawRequest } from '../kit/raw-http.js'
import { ADMIN_SECRET, testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** Where the server listens, and what it serves there. */
const PROMISES = {
  'listener.plugins':
    'a plugin with a listener of its own is served there and nowhere else; the endpoints of the core are everywhere',
  'listener.links': 'the page at / shows what its listener serves',
  'listener.plugins-everywhere': 'middleware and authenticators of any plugin apply to all listeners',
  'listener.counters': 'limits count for all listeners together',
  'listener.metrics':
    'metrics and the names of probes need the admin secret, unless the setting of the listener opens them',
  'listener.socket': 'a listener may be on a unix socket, over which the gateway needs no secret',
  'listener.open-world': 'a listener on an address other than loopback needs a way to authenticate',
  'listener.taken': 'an address that cannot be used is named with its setting, and nothing stays open',
  'listener.mistakes': 'mistakes in listeners are reported with their path',
  'socket.mode': 'the file of a unix socket has the permissions of its mode, and is removed at the end',
  'socket.taken': 'the server does not replace the socket of a server that runs, nor another file',
  'socket.gateway': 'with auth.mode gateway, the unix socket proves the gateway; in the mode direct it proves nothing',
} as const

const ADMIN = { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-user-id': '1' }

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'listener.plugins': async (t) => {
    const { server } = await serve(t, { listeners: [{ plugins: ['b'], port: 0 }] })
    t.same(
      server.addresses.map(({ plugins }) => plugins),
      [['a'], ['b']],
    )
    const [main, own] = server.addresses.map(({ url }) => url) as [string, string]
    t.not(main, own)
    for (const [served, absent, name] of [
      [main, own, 'a'],
      [own, main, 'b'],
    ]) {
      const post = { method: 'POST', headers: ADMIN, body: 'hello' }
      t.match(await ask(`${served}/${name}`), { status: 200, body: 'anonymous' })
      t.match(await ask(`${served}/${name}`, post), { status: 200, body: 'hello' })
      t.match(await ask(`${absent}/${name}`), { status: 404, body: /"code":"not-found"/ })
      t.match(await ask(`${absent}/${name}`, post), { status: 404, body: /"code":"not-found"/ })
      const wrong = await ask(`${served}/${name}`, { method: 'PATCH' })
      t.match(wrong, { status: 405, headers: { allow: 'GET, HEAD, POST' } })
      t.match(await ask(`${absent}/${name}`, { method: 'PATCH' }), { status: 404 })
    }
    for (const url of [main, own]) {
      t.match(await ask(`${url}/healthz`), { status: 200, body: '{"status":"ok"}' })
      t.match(await ask(`${url}/readyz`), { status: 200 })
      t.match(await ask(`${url}/v1/version`), { status: 200 })
      const { body } = await ask(`${url}/metrics`, { headers: ADMIN })
      for (const plugin of ['a', 'b'])
        t.ok(new RegExp(`request_duration_seconds_count\\{.*plugin="${plugin}"\\}`).test(body), plugin)
      t.equal(body.match(/^# TYPE rowhouse_http_requests_in_flight /gm)?.length, 1)
    }
  },
  'listener.links': async (t) => {
    const { server } = await serve(t, { listeners: [{ plugins: ['b'], port: 0 }] })
    const shown = async ({ url }: { url: string }) => {
      const { body } = await ask(url, { headers: { accept: 'application/json' } })
      const { plugins, links, database } = JSON.parse(body) as { plugins: { name: string }[] } & Record<string, unknown>
      return { names: plugins.map(({ name }) => name), links, database }
    }

    t.same(await Promise.all(server.addresses.map(shown)), [
      { names: ['a'], links: [{ title: 'Page of a', href: '/a' }], database: 'none' },
      { names: ['b'], links: [{ title: 'Page of b', href: '/b' }], database: 'none' },
    ])
  },
  'listener.plugins-everywhere': async (t) => {
    const { server } = await serve(t, { listeners: [{ plugins: ['b'], port: 0 }] })
    const headers = { 'x-key': 'of a' }

    for (const [index, { url }] of server.addresses.entries()) {
      const answer = await ask(`${url}/${'ab'[index]}`, { headers })
      t.match(answer, { status: 200, body: 'keyholder', headers: { 'x-passed': 'a, b' } })
    }
  },
  'listener.counters': async (t) => {
    const http = { failedAuthPerMinute: 1, maxConcurrentRequests: 1, listeners: [{ plugins: ['b'], port: 0 }] }
    const { server } = await serve(t, http)
    const [a, b] = server.addresses.map(({ url }) => url) as [string, string]
    const wrong = { headers: { 'x-service-admin-secret': 'wrong' } }

    t.match(await ask(`${a}/a`, wrong), { status: 401 })
    t.match(await ask(`${b}/b`, wrong), { status: 429 })
    const busy = slow(`${a}/a`, 'POST', ADMIN)
    await until('there is no room', async () => (await ask(`${b}/b`)).status === 503)
    busy.end('over')
    t.match(await busy.answer, { status: 200, body: 'over' })
    t.match(await ask(`${b}/b`), { status: 200 })
  },
  'listener.metrics': async (t) => {
    const path = join(newFolder(t), 'b')
    const listeners = [
      { plugins: [], port: 0, metrics: 'open' },
      { plugins: ['b'], socket: { path } },
    ]
    const { server } = await serve(t, { listeners })
    const [main, own] = server.addresses.map(({ url }) => url)
    const places: [string, Asked, boolean][] = [
      [main!, {}, false],
      [main!, { headers: ADMIN }, true],
      ['http://any', { socketPath: path }, false],
      ['http://any', { socketPath: path, headers: ADMIN }, true],
      [own!, {}, true],
    ]
    for (const [url, as, open] of places) {
      t.match(await ask(`${url}/metrics`, as), { status: open ? 200 : 401 })
      t.match(await ask(`${url}/readyz`, as), {
        status: 200,
        body: open ? /^{"status":"ready","probes":/ : '{"status":"ready"}',
      })
    }
    t.match(await ask(`${own}/a`), { status: 404 }, 'no plugin is served on the listener of the metrics')

    const { server: other } = await serve(t, {
      metrics: 'open',
      listeners: [{ plugins: ['b'], port: 0, metrics: 'secret' }],
    })
    const [open, closed] = other.addresses.map(({ url }) => url)
    t.match(await ask(`${open}/metrics`), { status: 200 })
    t.match(await ask(`${closed}/metrics`), { status: 401 })
  },
  'listener.socket': async (t) => {
    const path = join(newFolder(t), 'b')
    const listeners = [{ plugins: ['b'], socket: { path } }]

    const { server } = await serve(t, { listeners })
    t.match(server.addresses, [{ plugins: ['a'] }, { url: `unix:${path}`, plugins: ['b'] }])
    t.match(await ask('http://any/b', { socketPath: path }), { status: 200 })
    t.match(await ask('http://any/a', { socketPath: path }), { status: 404 })
    t.match(await ask(`${server.url}/b`), { status: 404 })

    await t.test('over which the gateway is believed, and nobody else is', async (t) => {
      await server.close()
      const auth = { mode: 'gateway', adminSecret: ADMIN_SECRET, gatewaySecret: 'the secret of a gateway' }
      const gateway = await serve(t, { listeners }, auth)
      const headers = { 'x-service-role': 'editor' }
      t.match(await ask('http://any/b', { socketPath: path, headers }), { status: 200, body: 'editor' })
      t.match(await ask(`${gateway.server.url}/a`, { headers }), { status: 401, body: /from its gateway only/ })
    })
    await t.test('the others still need its secret', async (t) => {
      const needed = (setting: string) => ({
        message: `auth.gatewaySecret is required when auth.mode is "gateway" and ${setting} is not set`,
      })
      await t.rejects(serve(t, { listeners }, { mode: 'gateway' }), needed('http.socket'))
      const other = { socket: { path: join(newFolder(t), 'a') }, listeners: [{ plugins: ['b'], port: 0 }] }
      await t.rejects(serve(t, other, { mode: 'gateway' }), needed('http.listeners[0].socket'))
    })
  },
  'listener.open-world': async (t) => {
    const listeners = [{ plugins: ['b'], host: '0.0.0.0', port: 0 }]

    await t.rejects(serve(t, { listeners }, { adminSecret: undefined }), {
      message: /^refusing to listen on 0\.0\.0\.0 without a way to authenticate/,
    })
    await t.resolves(serve(t, { listeners: [{ ...listeners[0], host: '127.0.0.1' }] }, { adminSecret: undefined }))
  },
  'listener.taken': async (t) => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    t.teardown(() => taken.close())
    const { port } = taken.address() as AddressInfo
    const free = createServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    const main = (free.address() as AddressInfo).port
    free.close()

    // The delay of a drain is not for a server that never was ready.
    await t.rejects(serve(t, { port: main, drainDelayMs: 3_600_000, listeners: [{ plugins: ['b'], port }] }), {
      message: `127.0.0.1:${port} is in use by another program: choose another port (http.listeners[0].port)`,
    })
    t.ok(await isRefused(`http://127.0.0.1:${main}`))
    const path = join(newFolder(t), 'file')
    writeFileSync(path, '')
    await t.rejects(serve(t, { listeners: [{ plugins: ['b'], socket: { path } }] }), {
      message: /^http\.listeners\[0\]\.socket\.path: cannot listen on .*: the file exists and is not a socket$/,
    })
  },
  'listener.mistakes': async (t) => {
    const socket = { path: '/tmp/never' }
    const wrong: [object[], string[]][] = [
      [
        [
          { plugins: ['a'], port: 9001 },
          { plugins: ['b', 'a'], port: 9002 },
        ],
        ['$.http.listeners[1].plugins[1]: "a" already has a listener'],
      ],
      [[{ plugins: ['a', 'a'], port: 0 }], ['$.http.listeners[0].plugins[1]: "a" already has a listener']],
      [
        [{ plugins: ['nobody', 'off'], port: 0 }],
        [
          '$.http.listeners[0].plugins[0]: no plugin "nobody" is loaded',
          '$.http.listeners[0].plugins[1]: the plugin "off" is disabled',
        ],
      ],
      [[{ port: 0 }], ['$.http.listeners[0].plugins: is required']],
      [[{ plugins: ['a'] }], ['$.http.listeners[0]: requires "port" or "socket"']],
      [
        [{ plugins: ['a'], port: 0, socket }],
        ['$.http.listeners[0].socket: cannot be combined with "host" and "port"'],
      ],
      [[{ plugins: ['a'], port: 0, prot: 1 }], ['$.http.listeners[0].prot: unknown key, did you mean "port"?']],
      [
        [{ plugins: ['a'], host: '127.0.0.1', port: 8080 }],
        ['$.http.listeners[0]: has the address of another listener: add its plugins to that listener'],
      ],
      [
        [
          { plugins: ['a'], socket },
          { plugins: ['b'], socket },
        ],
        ['$.http.listeners[1]: has the address of another listener: add its plugins to that listener'],
      ],
    ]
    for (const [listeners, mistakes] of wrong) {
      const found = await serve(t, { port: 8080, listeners }).then(
        () => [],
        (error: Pick<ConfigError, 'mistakes'>) => error.mistakes,
      )
      t.same(
        found.map(({ path, message }) => `${path}: ${message}`),
        mistakes,
      )
    }
  },
  'socket.mode': async (t) => {
    for (const mode of ['660', '0600', '666']) {
      const path = join(newFolder(t), 'http')
      const { app } = await httpApp(t, { socket: { path, mode } })
      t.equal(statSync(path).mode & 0o777, Number.parseInt(mode, 8), mode)
      t.equal((await rawRequest({ path }, HELLO)).status, 200)
      await app.close()
      t.throws(() => statSync(path), { code: 'ENOENT' })
    }
  },
  'socket.taken': async (t) => {
    const path = join(newFolder(t), 'http')
    const { app } = await httpApp(t, { socket: { path } })
    await t.rejects(httpApp(t, { socket: { path } }), {
      message: /^http.socket.path: cannot listen on .*: another server is listening on it$/,
    })
    t.equal((await rawRequest({ path }, HELLO)).status, 200, 'which goes on')
    await app.close()
    writeFileSync(path, 'precious')
    await t.rejects(httpApp(t, { socket: { path } }), {
      message: /^http.socket.path: .* the file exists and is not a socket$/,
    })
    await t.rejects(httpApp(t, { socket: { path: join(newFolder(t), 'absent', 'http') } }), {
      message: /^http.socket.path: cannot listen on .*absent.http: its folder is missing or/,
    })
  },
  'socket.gateway': async (t) => {
    const path = join(newFolder(t), 'http')
    const over = (headers: Record<string, string>, at = '/a') => ask(`http://any${at}`, { socketPath: path, headers })
    const session = async (headers: Record<string, string>) => JSON.parse((await over(headers, '/a/session')).body)
    const editor = { 'x-service-role': 'editor', 'x-service-user-id': '7', 'x-service-org': 'a' }
    const { server } = await serve(t, { port: undefined, socket: { path } }, { mode: 'gateway' })
    t.equal(server.url, `unix:${path}`)
    t.strictSame(await session(editor), { role: 'editor', via: 'gateway', user: '7', org: 'a' })
    t.match(await session({}), { role: 'anonymous', user: '0' })
    t.match(await over({ 'x-service-gateway-secret': 'wrong' }), { status: 401 })
    t.match(await over({}, '/metrics'), { status: 401 }, 'the world is behind the gateway')
    await server.close()
    await serve(t, { port: undefined, socket: { path } }, { mode: 'direct' })
    t.match(await over(editor), { status: 403 })
    t.match(await session({ 'x-service-user-id': '7' }), { role: 'anonymous', user: '0' })
    await t.rejects(serve(t, {}, { mode: 'gateway' }), {
      message: 'auth.gatewaySecret is required when auth.mode is "gateway" and http.socket is not set',
    })
  },
}

const HELLO = 'GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

const PAGES = {} as const

export const listeners = area('listeners', {
  promises: PROMISES,
  pages: PAGES,
  cases: CASES,
  start: (t) => testServer(t),
})

/** Two plugins, each with a route of its name for the role of the caller, and one for its session; `a` knows a key. */
const PLUGINS = ['a', 'b'].map(
  (name) => `export default { name: '${name}', database: false, setup(host) {
  host.router.get('/${name}', (ctx) => void (ctx.body = ctx.state.session.role))
  host.router.get('/${name}/session', (ctx) => {
    const { role, via, variables } = ctx.state.session
    ctx.body = { role, via, user: variables.get('x-service-user-id'), org: variables.get('x-service-org') }
  })
  host.router.post('/${name}', async (ctx) => {
    const chunks = []
    for await (const chunk of ctx.req) chunks.push(chunk)
    ctx.body = Buffer.concat(chunks).toString()
  })
  host.link('Page of ${name}', '/${name}')
  host.middleware((ctx, next) => (ctx.append('X-Passed', '${name}'), next()))
  if ('${name}' === 'a') host.authenticator((request) =>
    request.header('x-key') === 'of a' ? { role: 'keyholder', variables: new Map(), via: 'token' } : null)
} }`,
)

/** A server with these two, without a database. */
async function serve(t: Test, http: object, auth: object = { adminSecret: ADMIN_SECRET }) {
  const cwd = newFolder(t)
  const plugins = Object.fromEntries(
    PLUGINS.map((code, i) => {
      const name = 'ab'[i]!
      const file = join(cwd, `${name}.mjs`)
      writeFileSync(file, code)
      return [name, pathToFileURL(file)]
    }),
  )
  const server = await startServer({
    env: {},
    cwd,
    builtins: { plugins: { ...plugins, off: new URL('file:///nowhere.js') }, providers: {} },
    overrides: { http: { port: 0, ...http }, log: { level: 'fatal' }, auth, plugins: { off: false } },
  })
  t.teardown(() => server.close())
  return { server }
}

/** With a path that is short enough for a socket. */
function newFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'rowhouse-listeners-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

interface Asked {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly socketPath?: string
}

/** On a connection of its own. */
async function ask(url: string, { body, ...options }: Asked = {}) {
  const req = request(url, { ...options, agent: false })
  req.end(body)
  return answerOf(req)
}

async function answerOf(req: ClientRequest) {
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  return { status: res.statusCode, headers: res.headers, body: await text(res) }
}

/** A request whose body is still to come. */
function slow(url: string, method: string, headers: Record<string, string>) {
  const req = request(url, { method, headers, agent: false })
  req.flushHeaders()
  return { end: (body: string) => void req.end(body), answer: answerOf(req) }
}

const isRefused = (url: string): Promise<boolean> =>
  ask(`${url}/healthz`).then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
  )
