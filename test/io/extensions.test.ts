import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { type Server, startServer } from '../../core/host/server.js'

t.test('a route that another route hides is refused', async (t) => {
  const get = (path: string) => `host.router.get('${path}', (ctx) => void (ctx.body = 'x'))`
  const route = (path: string) => `host.route('get', '${path}', async () => ({ kind: 'text', text: '1' }))`
  const wrong: readonly [Setups, string][] = [
    [{ a: get('/x'), b: get('/x') }, 'plugin "b" adds the route GET /x, which plugin "a" already has'],
    [
      { a: route('/x/:id'), b: get('/x/:name') },
      'plugin "b" adds the route GET /x/:name, which plugin "a" already has',
    ],
    [{ a: route('/x') + '\n' + route('/x') }, 'plugin "a" adds the route GET /x, which it already has'],
    [{ a: get('/healthz') }, 'plugin "a" adds the route GET /healthz, which the core already has'],
    [
      { a: `host.router.post('/metrics', () => {})` },
      'plugin "a" adds the route POST /metrics, which the core already has',
    ],
    [
      { a: `host.router.all('/x', () => {})`, b: get('/x') },
      'plugin "b" adds the route GET /x, which plugin "a" already has',
    ],
    [
      { a: `host.onReady(() => { ${get('/x')} })`, b: get('/x') },
      'plugin "b" adds the route GET /x, which plugin "a" already has',
    ],
  ]
  for (const [setups, message] of wrong) await t.rejects(start(t, setups), { message }, message)

  const { url } = await start(t, {
    a: `host.router.all('/x', (ctx, next) => (ctx.set('x-passed', 'yes'), next())); ${get('/x')}
        host.router.post('/x', () => {}); ${get('/x/:id')}; ${get('/x/one')}`,
    b: get('/y/:id'),
  })
  const answer = await fetch(`${url}/x`)
  t.same([answer.status, answer.headers.get('x-passed')], [200, 'yes'])
})

t.test('plugins with the same route may have listeners of their own', async (t) => {
  const get = `host.router.get('/x', (ctx) => void (ctx.body = 'x'))`

  await t.resolves(start(t, { a: get, b: get }, { listeners: [{ plugins: ['b'], port: 0 }] }))
})

t.test('what is added too late is refused', async (t) => {
  const late = {
    a: `host.onReady(() => {
          host.router.get('/ready', (ctx) => void (ctx.body = 'x'))
          try { host.middleware(() => {}) } catch (error) { process.emit('late', error.message) }
        })
        host.router.get('/later', (ctx) => {
          const tries = [
            () => host.router.get('/new', () => {}),
            () => host.route('get', '/new', async () => ({ kind: 'text', text: '1' })),
            () => host.operation('new', { run: async () => ({ kind: 'text', text: '1' }) }),
            () => host.onReady(() => {}),
          ]
          ctx.body = tries.map((each) => { try { each(); return '' } catch (error) { return error.message } })
        })`,
  }
  const told = once(process, 'late')
  const { url } = await start(t, late)

  t.same(await told, ['plugin "a": middleware can be added in "setup" only'])
  t.equal((await fetch(`${url}/ready`)).status, 200)
  t.same(await (await fetch(`${url}/later`)).json(), [
    'plugin "a": a route can be added in "setup" or "onReady" only',
    'plugin "a": a route can be added in "setup" or "onReady" only',
    'plugin "a": an operation can be added in "setup" or "onReady" only',
    'plugin "a": a ready hook can be added in "setup" or "onReady" only',
  ])
  t.equal((await fetch(`${url}/new`)).status, 404)
})

t.test('a misspelt key of an operation does not open it to everybody', async (t) => {
  await t.rejects(start(t, { a: `host.operation('drop_all', { admni: true, run: async () => {} })` }), {
    message: /plugin "a": operation "drop_all" has the unknown key "admni", did you mean "admin"\?/,
  })
})

t.test('handlers and authenticators in JavaScript may return their answers themselves', async (t) => {
  const route = (method: string, path: string) =>
    `host.route('${method}', '${path}', (exchange) => ({ kind: 'text', text: JSON.stringify([exchange.state.session.role, exchange.params.id ?? null]) }))`
  const robots = `host.authenticator((credentials) => credentials.header('x-robot') === 'yes' ? { role: 'robot', variables: new Map(), via: 'token' } : null)`
  for (const authenticator of ['', robots]) {
    const { url } = await start(t, {
      a: `${authenticator}; ${['get', 'post'].map((method) => `${route(method, '/x')}; ${route(method, '/x/:id')}`).join('; ')}`,
    })
    for (const method of ['GET', 'POST']) {
      for (const path of ['/x', '/x/1']) {
        // The first goes to the handler, the second through Koa.
        for (const accept of ['application/json', 'text/plain;q=0.5, */*']) {
          const answer = await fetch(url + path, { method, headers: { accept, 'x-robot': 'yes' } })
          const found = [answer.status, await answer.json()]
          t.same(
            found,
            [200, [authenticator ? 'robot' : 'anonymous', path === '/x' ? null : '1']],
            `${method} ${path} ${accept}`,
          )
        }
      }
    }
  }
})

t.test('a start that fails in a plugin says in which line', async (t) => {
  await t.rejects(start(t, { a: '\nhost.use("log")\nundefined.x' }), {
    message: /^plugin "a" failed in "setup": Cannot read .*'x'\) \(\/.*\/a\.mjs:4\)$/,
  })
  await t.rejects(start(t, { a: 'host.use("notify")' }), { message: /without listing it in "needs" \(.*a\.mjs:2\)$/ })
  await t.rejects(start(t, { a: 'host.onReady(async () => { throw new Error("no") })' }), {
    message: /^plugin "a" failed in "ready": no \(.*a\.mjs:2\)$/,
  })
})

/** The bodies of `setup`, by plugin. */
type Setups = Readonly<Record<string, string>>

/** A server without a database that has these plugins. */
async function start(t: Test, setups: Setups, http: object = {}): Promise<Server> {
  const cwd = mkdtempSync(join(tmpdir(), 'rowhouse-extensions-'))
  t.teardown(() => rmSync(cwd, { recursive: true }))
  const plugins = Object.entries(setups).map(([name, setup]) => {
    const file = join(cwd, `${name}.mjs`)
    writeFileSync(file, `export default { name: '${name}', database: false, setup(host) {\n${setup}\n} }`)
    return [name, pathToFileURL(file)] as const
  })
  const server = await startServer({
    env: {},
    cwd,
    builtins: { plugins: Object.fromEntries(plugins), providers: {} },
    overrides: { http: { port: 0, ...http }, log: { level: 'fatal' } },
  })
  t.teardown(() => server.close())
  return server
}
