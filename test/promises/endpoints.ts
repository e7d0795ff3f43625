import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import { serviceError } from '../../core/errors.js'
import { httpApp } from '../kit/http-app.js'
import { area, type Case } from '../kit/promises.js'
import { rawRequest } from '../kit/raw-http.js'
import { ADMIN_SECRET, testServer, type TestServer } from '../kit/server.js'
import { until } from '../kit/until.js'

/** What the server says about itself, and how it stops. */
const PROMISES = {
  'healthz.status': '/healthz says that the process runs, without credentials, and whatever they are',
  'readyz.status': '/readyz is 200 while the server can answer requests, and 503 while it cannot',
  'readyz.probes': '/readyz names the probes for admin, or for everybody with http.metrics open',
  'readyz.unsure': '/readyz needs no authentication service',
  'metrics.access':
    '/metrics is for admin and the holder of http.metricsToken, or for everybody with http.metrics open',
  'metrics.unsure': '/metrics is a 503 while credentials cannot be checked, except for the token',
  'metrics.requests': 'metrics count requests by method, route, status and plugin, with their durations',
  'metrics.errors': 'metrics count errors by route and code at every door, also those that GraphQL answers with 200',
  'metrics.in-flight': 'metrics say how many requests are in progress',
  'metrics.refused': 'metrics count refused requests: overload, invalid HTTP, wrong credentials',
  'metrics.database': 'metrics show connections, waiting and the duration of queries, by pool and kind',
  'metrics.plans': 'metrics count plans by their source',
  'metrics.metadata': 'metrics show the version of the metadata, and whether the server listens for changes',
  'metrics.outbox': 'metrics show the messages that wait, and the age of the oldest',
  'metrics.process': 'metrics describe the process, under the usual names',
  'version.public': '/v1/version tells everybody the version and the build',
  'home.page': '/ is a page with plugins, routes and links, which runs no script and escapes what it shows',
  'home.json': '/ is JSON for clients that ask for it',
  'home.redirect': 'http.home redirects browsers from / to a page of a plugin that is loaded',
  'timing.admin':
    'with http.serverTiming, responses for admin list the duration of each step; those of other roles do not',
  'drain.announced': 'a drain makes /readyz a 503 while the server still answers, for http.drainDelayMs',
  'drain.close': 'during a drain, responses have Connection: close, and new connections are refused',
  'drain.cut': 'a request that does not end within http.drainTimeoutMs is cut',
  'shutdown.in-flight': 'a shutdown answers the requests in progress before it ends',
} as const

const TOKEN = 'metrics-token-marker'
const probes = [{ name: 'database', ok: false, detail: 'connection refused' }]
const about = () => ({
  version: '1.2.3',
  build: 'abc',
  database: 'down' as const,
  links: [{ title: 'A <b>console</b>', href: '/console?a="b"' }],
})
const READ = { table: 'note', columns: ['id'], limit: 1 }

/** Returns the value of a metric. */
const metric = async (server: TestServer, name: string): Promise<number> => {
  const { text } = await server.fetch('/metrics')
  const line = text.split('\n').find((each) => each.startsWith(`rowhouse_${name} `))
  return Number(line?.split(' ')[1])
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'healthz.status': async (t, server) => {
    const { status, body } = await server.bare('/healthz')
    t.same([status, body], [200, { status: 'ok' }])
    t.equal((await server.bare('/healthz', { headers: { 'x-service-admin-secret': 'wrong' } })).status, 200)
  },
  'readyz.status': async (t, server) => {
    const { status, body } = await server.bare('/readyz')
    t.same([status, body], [200, { status: 'ready' }])
    const down = await httpApp(t, {}, { ready: async () => ({ ready: false, probes }) })
    const answer = await down.get('/readyz')
    t.equal(answer.status, 503)
    t.equal(answer.headers.get('retry-after'), '1')
    t.same(await answer.json(), { status: 'not ready' })
  },
  'readyz.probes': async (t, server) => {
    const { body } = await server.fetch('/readyz')
    t.match(body, { status: 'ready', probes: [{ name: String, ok: true }] })
    t.ok(body.probes.some(({ name }: { name: string }) => name === 'database'))
    t.same((await server.fetch('/readyz', {}, { role: 'user' })).body, { status: 'ready' })
    const open = await httpApp(t, { metrics: 'open' }, { ready: async () => ({ ready: false, probes }) })
    t.same(await (await open.get('/readyz')).json(), { status: 'not ready', probes })
  },
  'readyz.unsure': async (t) => {
    const unsure = await unavailable(t)
    const answer = await unsure.get('/readyz')
    t.equal(answer.status, 200)
    t.same(await answer.json(), { status: 'ready' })
  },
  'metrics.access': async (t, server) => {
    const withToken = (token: string) => server.bare('/metrics', { headers: { authorization: `Bearer ${token}` } })
    t.match(await server.bare('/metrics'), { status: 401, body: { code: 'access-denied' } })
    t.match(await server.fetch('/metrics', {}, { role: 'user' }), { status: 401 })
    t.equal((await withToken('metrics-token-wrong')).status, 401)
    const { status, text, headers } = await withToken(TOKEN)
    t.equal(status, 200)
    t.equal(headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
    t.ok(text.includes('# TYPE rowhouse_http_requests_in_flight gauge'))
    t.equal((await server.fetch('/metrics')).status, 200)
    t.equal((await server.bare('/readyz', { headers: { authorization: `Bearer ${TOKEN}` } })).body?.probes, undefined)
    const open = await httpApp(t, { metrics: 'open' })
    t.equal((await open.get('/metrics')).status, 200)
  },
  'metrics.unsure': async (t) => {
    const unsure = await unavailable(t)
    const answer = await unsure.get('/metrics')
    t.equal(answer.status, 503)
    t.match(await answer.json(), { code: 'unavailable' })
    t.equal((await unsure.get('/metrics', { authorization: `Bearer ${TOKEN}` })).status, 200)
  },
  'metrics.requests': async (t, server) => {
    const labels = (status: number) => `{method="POST",route="/v1/query",status="${status}",plugin="query"}`
    const name = (status: number) => `http_request_duration_seconds_count${labels(status)}`
    const before = await metric(server, name(200))
    await server.must('select', READ)
    await server.query('nothing', {})
    t.equal(await metric(server, name(200)), before + 1)
    t.equal(await metric(server, name(400)), 1)
    t.ok((await metric(server, `http_request_duration_seconds_sum${labels(200)}`)) > 0)
    t.equal((await server.fetch('/metrics')).text.includes('/v1/secret-path'), false)
    await server.fetch('/v1/secret-path')
    t.notMatch((await server.fetch('/metrics')).text, /secret-path/, 'a path of a client is no route')
  },
  'metrics.errors': async (t, server) => {
    const full = { table: 'full', objects: [{ id: 1 }] }
    const write = 'mutation { insert_full(objects: [{id: 1}]) { affected_rows } }'
    const relayed = 'query { nothing_connection { edges { node { id } } } }'
    const post = (body: unknown, headers = {}): RequestInit => ({ method: 'POST', body: JSON.stringify(body), headers })
    const batch = [{ query: write }, { query: '{ note { id } }' }, { query: '{ note { nothing } }' }, { query: write }]
    const doors: [
      path: string,
      init: RequestInit,
      status: number,
      errors: Readonly<Record<string, number>>,
      route?: string,
    ][] = [
      ['/v1/query', post({ type: 'insert', args: full }), 503, { unavailable: 1 }],
      ['/v1/query', post({ type: 'bulk', args: [{ type: 'insert', args: full }] }), 503, { unavailable: 1 }],
      [
        '/v1/query',
        post({ type: 'insert', args: full }, { 'x-service-role': 'user' }),
        400,
        { 'permission-denied': 1 },
      ],
      ['/v1/template/filled', post({}), 503, { unavailable: 1 }, '/v1/template/:name'],
      ['/v1/graphql', post({ query: write }), 200, { unavailable: 1 }],
      ['/v1/graphql', post({ query: write }, { accept: 'application/graphql-response+json' }), 503, { unavailable: 1 }],
      ['/v1/graphql', post(batch), 200, { unavailable: 2, 'validation-failed': 1 }],
      ['/v1/graphql', post({ nothing: 1 }), 400, { 'parse-failed': 1 }],
      ['/v1/graphql?query={nothing}', {}, 200, { 'validation-failed': 1 }, '/v1/graphql'],
      ['/v1alpha1/graphql', post({ query: write }), 503, { unavailable: 1 }],
      ['/v1beta1/relay', post({ query: relayed }), 200, { 'validation-failed': 1 }],
      ['/v1/graphql', post({ query: '{ note { id } }' }), 200, {}],
      ['/v1/nowhere', post({}), 404, { 'not-found': 1 }, '(none)'],
    ]
    const counts = async (): Promise<ReadonlyMap<string, number>> => {
      const { text } = await server.fetch('/metrics')
      const found = text.matchAll(/^rowhouse_errors_total\{route="([^"]*)",code="([^"]*)"\} (\d+)$/gm)
      return new Map([...found].map(([, route, code, count]) => [`${route} ${code}`, Number(count)]))
    }
    for (const [path, init, status, errors, route = path] of doors) {
      const before = await counts()
      const answer = await server.fetch(path, init)
      t.equal(answer.status, status, `${path}: ${answer.text}`)
      const wanted = Object.entries(errors).map(([code, count]) => [`${route} ${code}`, count] as const)
      // The end of a response is counted after the client has it.
      await until(`${path}: ${JSON.stringify(errors)}`, async () => {
        const more = [...(await counts())].map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const)
        return isDeepStrictEqual(new Map(more.filter(([, count]) => count > 0)), new Map(wanted))
      })
    }
  },
  'metrics.in-flight': async (t, server) => {
    t.equal(await metric(server, 'http_requests_in_flight'), 1, 'this request')
  },
  'metrics.refused': async (t, server) => {
    const before = await metric(server, 'auth_failures_total')
    await server.bare('/v1/query', { method: 'POST', headers: { 'x-service-admin-secret': 'wrong' } })
    t.equal(await metric(server, 'auth_failures_total'), before + 1)
    await rawRequest(server.url, 'hello\r\n\r\n')
    t.equal(await metric(server, 'http_unread_total{code="parse-failed"}'), 1)
    t.equal(await metric(server, 'http_overload_total'), 0)
  },
  'metrics.database': async (t, server) => {
    const read = (lane: string) => `database_query_duration_seconds_count{kind="read",lane="${lane}"}`
    const before = (await metric(server, read('stream'))) || 0
    await server.must('select', { table: 'note', columns: ['id'] })
    t.equal(await metric(server, read('stream')), before + 1)
    t.ok((await metric(server, read('pool'))) > 0)
    t.ok((await metric(server, 'database_pool_wait_seconds_count{pool="main"}')) > 0)
    t.equal(await metric(server, 'database_connections{pool="main",state="waiting"}'), 0)
    t.ok((await metric(server, 'database_connections{pool="main",state="idle"}')) > 0)
    t.equal(await metric(server, 'database_breaker_open'), 0)
    for (const caller of ['anonymous', 'user', 'admin']) t.equal(await metric(server, `streams{caller="${caller}"}`), 0)
    t.match((await server.fetch('/metrics')).text, /# TYPE rowhouse_database_batches_total counter/)
  },
  'metrics.plans': async (t, server) => {
    const made = 'compilations_total{by="process"}'
    const cached = 'compilations_total{by="cache"}'
    const select = (alias: string) => server.must('select', { table: 'note', columns: ['id'], where: { [alias]: 1 } })
    await select('id')
    const [before, hits] = [await metric(server, made), (await metric(server, cached)) || 0]
    await select('id')
    t.same([await metric(server, made), await metric(server, cached)], [before, hits + 1])
    await server.must('select', { table: 'note', columns: ['id'], where: { id: { $gt: 1 } }, limit: 1 })
    t.equal(await metric(server, made), before + 1)
    for (const state of ['busy', 'waiting']) t.equal(await metric(server, `compile_tasks{state="${state}"}`), 0)
  },
  'metrics.metadata': async (t, server) => {
    const before = await metric(server, 'metadata_version')
    await server.must('create_query_template', { name: 'all', template: { type: 'select', args: READ } })
    t.equal(await metric(server, 'metadata_version'), before + 1)
    t.equal(await metric(server, 'metadata_listening'), 1)
    const { build } = (await server.bare('/v1/version')).body
    t.equal(await metric(server, `build_info{version="0.1.0",build="${build}"}`), 1)
  },
  'metrics.outbox': async (t, server) => {
    t.equal(await metric(server, 'notify_outbox_messages{kind="sms",state="queued"}'), 1)
    t.equal(await metric(server, 'notify_outbox_messages{kind="email",state="queued"}'), 0)
    t.equal(await metric(server, 'notify_outbox_messages{kind="sms",state="failed"}'), 0)
    t.ok((await metric(server, 'notify_outbox_oldest_seconds{kind="sms"}')) >= 3600)
  },
  'metrics.process': async (t, server) => {
    const { text } = await server.fetch('/metrics')
    const lag = ['nodejs_eventloop_lag_seconds', 'nodejs_eventloop_lag_p99_seconds']
    for (const name of [...lag, 'nodejs_heap_size_used_bytes', 'process_resident_memory_bytes'])
      t.match(text, new RegExp(`^${name} \\d`, 'm'))
    t.match(text, /^process_cpu_seconds_total \d/m)
  },
  'version.public': async (t, server) => {
    const { status, body } = await server.bare('/v1/version')
    t.equal(status, 200)
    t.match(body, { version: '0.1.0', build: /^[0-9a-f]{12}$/ })
    t.same(Object.keys(body), ['version', 'build'])
  },
  'home.page': async (t) => {
    const { get } = await httpApp(t, {}, { about })
    const page = await get('/', { accept: 'text/html,*/*' })
    const html = await page.text()
    t.match(page.headers.get('content-type'), 'text/html')
    t.match(page.headers.get('content-security-policy'), /^default-src 'none'; style-src 'sha256-/)
    t.match(html, /PostgreSQL is <span class="down">down/)
    t.match(html, 'A &lt;b&gt;console&lt;/b&gt;')
    t.match(html, 'href="/console?a=&quot;b&quot;"')
    t.match(html, /<html lang="en">/)
    t.notMatch(html, /<script|src=|@import|url\(/)
    for (const text of ['one', '/echo', 'href="/healthz"', 'href="/readyz"', 'href="/metrics"']) t.match(html, text)
  },
  'home.json': async (t, server) => {
    const { status, body } = await server.bare('/', { headers: { accept: 'application/json' } })
    t.equal(status, 200)
    t.match(body, { version: '0.1.0', database: 'up' })
    const query = body.plugins.find(({ name }: { name: string }) => name === 'query')
    t.match(query, { routes: [{ methods: ['POST'], path: '/v1/query' }] })
  },
  'home.redirect': async (t) => {
    const { get } = await httpApp(t, { home: '/console?a="b"' }, { about })
    t.equal((await get('/', { accept: 'application/json' })).status, 200)
    const there = await fetchManually(t, '/console?a="b"')
    t.equal(there.status, 302)
    t.match(there.headers['location'], /^\/console/)
    t.equal((await fetchManually(t, '/elsewhere')).status, 200, 'a page that no plugin has')
  },
  'timing.admin': async (t, server) => {
    const steps = /^parse;dur=[\d.]+, lift;dur=[\d.]+, compile;dur=[\d.]+, bind;dur=[\d.]+, run;dur=[\d.]+$/
    for (const limit of [1, 100_000]) {
      const { headers } = await server.query('select', { ...READ, limit })
      t.match(headers.get('server-timing'), steps)
    }
    const { headers, status } = await server.query('select', READ, { role: 'user' })
    t.equal(status, 200)
    t.notOk(headers.has('server-timing'))
  },
  'drain.announced': async (t) => {
    const { app, raw } = await httpApp(t, { drainDelayMs: 150, metrics: 'open' })
    const drained = app.drain()
    const ask = (path: string) => raw(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    t.equal(app.state, 'leaving')
    const { status, body } = await ask('/readyz')
    t.equal(status, 503)
    t.match(JSON.parse(body), { status: 'not ready', probes: [{ name: 'draining', ok: false }] })
    t.equal((await ask('/healthz')).status, 200)
    t.equal((await ask('/echo')).status, 200)
    await drained
    t.equal((await ask('/healthz')).text, '', 'the socket is closed')
  },
  'drain.close': async (t) => {
    const { app, base } = await httpApp(t)
    const port = Number(new URL(base).port)
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    const ask = async () => {
      socket.write('GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')
      return String((await once(socket, 'data'))[0])
    }
    t.match(await ask(), /keep-alive/)
    const drained = app.drain()
    while (app.state !== 'draining') await sleep(1)
    t.equal((await rawRequest({ port }, 'GET /echo HTTP/1.1\r\nHost: a\r\n\r\n')).text, '', 'a new connection')
    t.match(await ask(), /^HTTP\/1\.1 200 [^]*Connection: close/)
    await drained
  },
  'drain.cut': async (t) => {
    const { app, raw, calls } = await httpApp(t, { drainTimeoutMs: 100 })
    const stuck = raw('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
    while (!calls.includes('wait')) await sleep(1)
    await app.drain()
    t.equal((await stuck).text, '')
    t.equal(app.state, 'closed')
  },
  'shutdown.in-flight': async (t, server) => {
    const sql = { type: 'run_sql', args: { sql: 'select pg_sleep(0.2)' } }
    const body = JSON.stringify(sql)
    const head = `POST /v1/query HTTP/1.1\r\nHost: a\r\nX-Service-Admin-Secret: ${ADMIN_SECRET}`
    const answer = rawRequest(server.url, `${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    while ((await metric(server, 'http_requests_in_flight')) < 2) await sleep(5)
    const closed = server.close()
    t.match(await answer, { status: 200, body: /"TuplesOk"/ })
    await closed
    await t.rejects(fetch(`${server.url}/healthz`))
  },
}

/** An app that cannot check credentials for now. */
const unavailable = (t: Test) =>
  httpApp(
    t,
    { metricsToken: TOKEN },
    {},
    () => () => Promise.reject(serviceError('unavailable', 'the database is down')),
  )

/** A browser opens `/`. */
async function fetchManually(t: Test, home: string) {
  const { raw } = await httpApp(t, { home }, { about })
  return raw('GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n')
}

const PAGES = {
  'core/http/README.md': {
    Endpoints: {
      '`/healthz`': 'healthz.status',
      '`/readyz`': ['readyz.status', 'readyz.probes', 'readyz.unsure'],
      '`/metrics`': ['metrics.access', 'metrics.unsure'],
      '`/v1/version`': 'version.public',
      '`/`': ['home.page', 'home.json', 'home.redirect'],
    },
  },
  'core/http/observability.md': {
    Metrics: {
      '`http_request_duration_seconds`': 'metrics.requests',
      '`errors_total`': 'metrics.errors',
      '`http_requests_in_flight`': 'metrics.in-flight',
      '`http_overload_total`, `http_unread_total`, `auth_failures_total`': 'metrics.refused',
      '`database_connections`': 'metrics.database',
      '`database_pool_wait_seconds`': 'metrics.database',
      '`database_query_duration_seconds`': 'metrics.database',
      '`streams`': 'metrics.database',
      '`database_breaker_open`': 'metrics.database',
      '`database_batches_total`': 'metrics.database',
      '`compilations_total`': 'metrics.plans',
      '`compile_tasks`': 'metrics.plans',
      '`metadata_version`, `metadata_listening`': 'metrics.metadata',
      '`notify_outbox_messages`': 'metrics.outbox',
      '`notify_outbox_oldest_seconds`': 'metrics.outbox',
      '`build_info`': 'metrics.metadata',
      '`nodejs_eventloop_lag_seconds`, `nodejs_heap_size_used_bytes`, `process_resident_memory_bytes`, ...':
        'metrics.process',
    },
  },
} as const

export const endpoints = area('endpoints', { promises: PROMISES, pages: PAGES, cases: CASES, start })

async function start(t: Test) {
  const server = await testServer(t, {
    notify: true,
    config: {
      plugins: { graphql: { relay: true } },
      http: { metricsToken: TOKEN, serverTiming: true },
      providers: { email: { default: 'memory', memory: { keep: 10 } } },
    },
  })
  const sql = `create table note (id int primary key);
    create table "full" (id int primary key);
    create function refuse_it() returns trigger language plpgsql as $$ begin
      raise exception using errcode = '53100', message = 'no space'; end $$;
    create trigger refuse_it before insert on "full" for each row execute function refuse_it();
    insert into svc_catalog.svc_outbox (kind, "to", country_code, message) values ('sms', '5550100', '1', 'Hello');
    update svc_catalog.svc_outbox set next_at = now() + interval '1 day', queued_at = now() - interval '1 hour'`
  await server.sql(sql)
  await server.must('track_table', 'note')
  await server.must('track_table', 'full')
  const template = { type: 'insert', args: { table: 'full', objects: [{ id: 1 }] } }
  await server.must('create_query_template', { name: 'filled', template })
  const permission = { columns: ['id'], filter: {} }
  await server.must('create_select_permission', { table: 'note', role: 'user', permission })
  return server
}
