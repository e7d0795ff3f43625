import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import type { ConfigError } from '../../core/host/config.js'
import { type Server, startServer } from '../../core/host/server.js'
import { freshDatabase } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { ADMIN_SECRET } from '../kit/server.js'
import { until } from '../kit/until.js'

const ADMIN = { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-user-id': '1' }
const FILE = { ...ADMIN, 'content-type': 'text/plain' }
const SELECT = '{"type": "select", "args": {"table": "note", "columns": ["id"]}}'

t.test('a plugin with a listener of its own is served there, and only there', async (t) => {
  const { main, files, addresses } = await withFiles(t)
  t.same(
    addresses.map(({ plugins }) => plugins),
    [['query'], ['filestore']],
  )
  t.not(main, files)

  t.match(await ask(`${files}/v1/file/a`, { method: 'PUT', headers: FILE, body: 'hello' }), { status: 200 })
  t.match(await ask(`${files}/v1/file/a`, { headers: ADMIN }), { status: 200, body: 'hello' })
  t.match(await ask(`${main}/v1/query`, { method: 'POST', headers: ADMIN, body: SELECT }), { status: 200, body: '[]' })
  const absent = { status: 404, body: /"code":"not-found"/ }
  t.match(await ask(`${main}/v1/file/a`, { headers: ADMIN }), absent)
  t.match(await ask(`${main}/v1/file/a`, { method: 'PUT', headers: FILE, body: 'other' }), absent)
  t.match(await ask(`${files}/v1/query`, { method: 'POST', headers: ADMIN, body: SELECT }), absent)

  await t.test('a wrong method is known where the path is', async (t) => {
    t.match(await ask(`${files}/v1/file/a`, { method: 'PATCH', headers: ADMIN }), {
      status: 405,
      headers: { allow: 'POST, PUT, GET, HEAD, DELETE' },
    })
    t.match(await ask(`${main}/v1/file/a`, { method: 'PATCH', headers: ADMIN }), { status: 404 })
    t.match(await ask(`${main}/v1/query`, { headers: ADMIN }), { status: 405, headers: { allow: 'POST' } })
    t.match(await ask(`${files}/v1/query`, { headers: ADMIN }), { status: 404 })
  })
  await t.test('what is the core’s is everywhere', async (t) => {
    for (const url of [main, files]) {
      t.match(await ask(`${url}/healthz`), { status: 200, body: '{"status":"ok"}' })
      t.match(await ask(`${url}/readyz`, { headers: ADMIN }), { status: 200, body: /"database"/ })
      t.match(await ask(`${url}/v1/version`), { status: 200 })
      const measured = await ask(`${url}/metrics`, { headers: ADMIN })
      for (const plugin of ['query', 'filestore']) {
        t.ok(new RegExp(`request_duration_seconds_count\\{.*plugin="${plugin}"\\}`).test(measured.body), plugin)
      }
      t.equal(measured.body.match(/^# TYPE rowhouse_http_requests_in_flight /gm)?.length, 1)
    }
  })
  await t.test('the page at / shows what is served there', async (t) => {
    const shown = async (url: string) => {
      const { body } = await ask(url, { headers: { accept: 'application/json' } })
      const { plugins, database } = JSON.parse(body) as { plugins: { name: string }[]; database: string }
      return { names: plugins.map(({ name }) => name), database }
    }
    t.same(await shown(main), { names: ['query'], database: 'up' })
    t.same(await shown(files), { names: ['filestore'], database: 'up' })
  })
})

t.test('pages of a plugin are linked where they are', async (t) => {
  const { server } = await serve(t, { listeners: [{ plugins: ['b'], port: 0 }] })
  const links = async ({ url }: { url: string }) =>
    (JSON.parse((await ask(url, { headers: { accept: 'application/json' } })).body) as { links: object[] }).links

  t.same(await Promise.all(server.addresses.map(links)), [
    [{ title: 'Page of a', href: '/a' }],
    [{ title: 'Page of b', href: '/b' }],
  ])
})

t.test('middleware and authenticators of any plugin are in force everywhere', async (t) => {
  const { server } = await serve(t, { listeners: [{ plugins: ['b'], port: 0 }] })
  const headers = { 'x-key': 'of a' }

  for (const [index, { url }] of server.addresses.entries()) {
    const answer = await ask(`${url}/${'ab'[index]}`, { headers })
    t.match(answer, { status: 200, body: 'keyholder', headers: { 'x-passed': 'a, b' } })
  }
})

t.test('limits count for all listeners together', async (t) => {
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
})

t.test(
  'metrics and the names of probes need the admin secret, unless the setting of a listener opens them',
  async (t) => {
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
)

t.test('one may be on a unix socket', async (t) => {
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
})

t.test('no listener is open to the world without a way to authenticate', async (t) => {
  const listeners = [{ plugins: ['b'], host: '0.0.0.0', port: 0 }]

  await t.rejects(serve(t, { listeners }, { adminSecret: undefined }), {
    message: /^refusing to listen on 0\.0\.0\.0 without a way to authenticate/,
  })
  await t.resolves(serve(t, { listeners: [{ ...listeners[0], host: '127.0.0.1' }] }, { adminSecret: undefined }))
})

t.test('the end comes to all at once, and no request under way is lost', async (t) => {
  const { server, main, files } = await withFiles(t, { drainDelayMs: patience(2_000) })
  const upload = slow(`${files}/v1/file/late`, 'PUT', FILE)
  const query = slow(`${main}/v1/query`, 'POST', ADMIN)
  const underWay = async () =>
    /requests_in_flight (\d+)/.exec((await ask(`${main}/metrics`, { headers: ADMIN })).body)?.[1] === '3'
  await until('both are under way', underWay)

  const closed = server.close()
  for (const url of [main, files]) {
    t.match(await ask(`${url}/readyz`, { headers: ADMIN }), { status: 503, body: /shutting down/ })
  }
  for (const url of [main, files]) await until('it is closed', () => isRefused(url))
  upload.end('late')
  query.end(SELECT)

  t.match(await upload.answer, { status: 200, body: /"late"/ })
  t.match(await query.answer, { status: 200, body: '[]' })
  await closed
})

t.test('a port that is taken is named with its setting, and nothing stays open', async (t) => {
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
})

t.test('what cannot be right is refused with its place', async (t) => {
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
    [[{ plugins: ['a'], port: 0, socket }], ['$.http.listeners[0].socket: cannot be combined with "host" and "port"']],
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
})

// What the tests need.

/** Two plugins, each with a route of its name that says the role of the caller; `a` lets in whoever has a key. */
const PLUGINS = ['a', 'b'].map(
  (name) => `export default { name: '${name}', database: false, setup(host) {
  host.router.get('/${name}', (ctx) => void (ctx.body = ctx.state.session.role))
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

/** A server with the JSON API, and files on a listener of their own. */
async function withFiles(t: Test, http: object = {}) {
  const database = await freshDatabase()
  const builtin = (path: string) => new URL(`../../${path}`, import.meta.url)
  const dataDir = newFolder(t)
  const server: Server = await startServer({
    env: {},
    cwd: dataDir,
    builtins: {
      plugins: { query: builtin('plugins/query/index.js'), filestore: builtin('plugins/filestore/index.js') },
      providers: { storage: { disk: builtin('providers/storage/disk.js') } },
      defaults: { storage: 'disk' },
    },
    overrides: {
      http: { port: 0, listeners: [{ plugins: ['filestore'], port: 0 }], ...http },
      database: { url: database.url },
      auth: { adminSecret: ADMIN_SECRET },
      log: { level: 'fatal' },
      compile: { threads: 0 },
      dataDir,
    },
  })
  t.teardown(async () => {
    await server.close()
    await database.drop()
  })
  const { url: main, addresses } = server
  const sql = 'create table note (id int)'
  const track = {
    type: 'bulk',
    args: [
      { type: 'run_sql', args: { sql } },
      { type: 'track_table', args: 'note' },
    ],
  }
  await ask(`${main}/v1/query`, { method: 'POST', headers: ADMIN, body: JSON.stringify(track) })
  return { server, addresses, main, files: addresses[1]!.url }
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
