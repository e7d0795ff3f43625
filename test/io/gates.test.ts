import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type Debugger, type NodeWorker, type Profiler, Session } from 'node:inspector/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Piscina } from 'piscina'
import t, { type Test } from 'tap'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { newFolder, run } from '../kit/program.js'
import { patience } from '../kit/patience.js'
import { ADMIN_SECRET, type TestServer, testServer } from '../kit/server.js'
import { serverProcess } from '../kit/server-process.js'
import { until } from '../kit/until.js'
import { startWire, type WireEvent } from '../kit/wire.js'

/** What keeps the server fast is counted here, never timed. */

/** How a request is asked with a value that differs from time to time. */
type Door = (server: TestServer, id: number) => Promise<{ readonly status: number; readonly text: string }>

const select = (columns: readonly unknown[], rest: object): Door => {
  return (server, id) => server.query('select', { table: 'author', columns, where: { id }, ...rest })
}
const graphql = (path: string, query: string): Door => {
  return (server, id) => server.fetch(path, { method: 'POST', body: JSON.stringify({ query, variables: { id } }) })
}
const NESTED = '{ id articles(limit: 3) { id author { name } } }'
const DOORS: Readonly<Record<string, Door>> = {
  'a row by its key': select(['id', 'name'], {}),
  'a list': (server, id) =>
    server.query('select', { table: 'author', columns: ['id'], where: { id: { $gte: id } }, limit: 5 }),
  'nested rows': select(['id', { name: 'articles', columns: ['id', { name: 'author', columns: ['name'] }] }], {}),
  'a count': (server, id) => server.query('count', { table: 'author', where: { id } }),
  'a template over REST': (server, id) => server.fetch(`/v1/template/author?id=${id}`),
  'a template by its name': (server, id) => server.query('execute_query_template', { name: 'author', args: { id } }),
  '/v1/graphql': graphql('/v1/graphql', `query ($id: Int!) { author_by_pk(id: $id) ${NESTED} }`),
  '/v1alpha1/graphql': graphql(
    '/v1alpha1/graphql',
    'query ($id: Int!) { author(where: {id: {_eq: $id}}, limit: 1) { id articles { id } } }',
  ),
}
/** Ids of rows that nobody has inserted. */
let fresh = 1_000_000
const INSERTS: Readonly<Record<string, Door>> = {
  'an insert': (server) =>
    server.query('insert', { table: 'author', objects: [{ id: ++fresh, name: 'new' }], returning: ['id'] }),
  'a GraphQL insert': (server) =>
    server.fetch('/v1/graphql', {
      method: 'POST',
      body: JSON.stringify({
        query: 'mutation ($id: Int!) { insert_author_one(object: {id: $id, name: "new"}) { id } }',
        variables: { id: ++fresh },
      }),
    }),
}
const WARM = 20

t.test('what was asked before is one round trip, without a transaction, a parse or a worker', async (t) => {
  // Quick is what this machine can do, however busy it is.
  const { server, events } = await library(t, { pipelines: 1, sharedCommits: 1, pipelineMaxMs: 60_000 })
  const piscina = counted(t)

  for (const [name, ask] of Object.entries({ ...DOORS, ...INSERTS })) {
    const start = events.length
    await until('it shares a connection', async () => {
      await ask(server, 1 + (events.length % WARM))
      return events.slice(start).some(({ connection, kind }) => kind === 'bind' && isShared(connection))
    })
    const before = await compilations(server)
    const hops = piscina()
    const from = events.length

    const { status, text } = await ask(server, WARM + 1)

    t.equal(status, 200, text)
    const sent = events.slice(from).filter(forRequests)
    t.same(
      sent.map(({ kind, sql }) => (kind === 'query' ? sql : kind)),
      ['bind', 'execute', 'sync', 'ready'],
      name,
    )
    t.equal(new Set(sent.map(({ connection }) => connection)).size, 1)
    const { cache = 0, ...others } = await compilations(server)
    const { cache: cachedBefore = 0, ...othersBefore } = before
    t.ok(cache > cachedBefore, `${name}: the plan was there`)
    t.same(others, othersBefore, `${name}: nothing was compiled`)
    t.equal(piscina(), hops, `${name}: no worker was asked`)
  }
  t.ok(piscina() > 0, 'what was new went to a worker')
})

t.test('a request that was asked before runs nothing of the GraphQL library', async (t) => {
  const { server } = await library(t)
  for (const ask of Object.values(DOORS)) for (const id of [1, 2]) await ask(server, id)
  const calls = await countCalls(t)

  for (const ask of Object.values(DOORS)) t.equal((await ask(server, 3)).status, 200)

  t.same(await calls(LIBRARY), [])
  const { parse } = await import('graphql')
  parse('{ a }')
  t.ok((await calls(LIBRARY)).includes('parse'), 'it would have been seen')
})

t.test('a start with 250 tables makes no GraphQL schema and loads the GraphQL library into no worker', async (t) => {
  const { url } = await freshDatabase(t)
  const names = Array.from({ length: 250 }, (_, n) => `t${n}`)
  await rowsOf(url, names.map((name) => `create table ${name} (id int primary key)`).join(';'))
  const first = await testServer(t, { databaseUrl: url })
  await first.must('replace_metadata', { tables: names.map((table) => ({ table })), query_templates: [] })
  await first.close()
  const calls = await countCalls(t)
  const inWorkers = await workerScripts(t)

  const compile = { threads: 1, timeoutMs: patience(60_000) }
  const server = await testServer(t, { databaseUrl: url, config: { compile } })
  t.equal((await server.query('select', { table: 't7', columns: ['id'], limit: 1 })).text, '[]')

  t.same(await calls(LIBRARY, 'GraphQLSchema'), [])
  t.ok(
    inWorkers().some((script) => script.endsWith('/core/compile/worker.js')),
    'the worker runs',
  )
  t.same(inWorkers().filter(isLibrary), [])
  const asked = await server.fetch('/v1/graphql', { method: 'POST', body: '{"query": "{ t7 { id } }"}' })
  t.same(asked.body, { data: { t7: [] } })
  t.ok(inWorkers().some(isLibrary), 'it would have been seen')
  t.same(await calls(LIBRARY, 'GraphQLSchema'), [], 'nor does the first request make one here')
})

t.test('a start loads nothing that the first request can do without', async (t) => {
  const { url } = await freshDatabase(t)
  const report = join(await mkdtemp(join(tmpdir(), 'rowhouse-gates-')), 'packages.json')
  t.teardown(() => rm(dirname(report), { recursive: true }))
  const server = await serverProcess(t, url, {
    node: ['--import', `data:text/javascript,${encodeURIComponent(notingLoads(report))}`],
  })
  const asked = await fetch(`${server.url}/v1/query`, {
    method: 'POST',
    headers: { 'x-service-admin-secret': ADMIN_SECRET },
    body: '{"type": "select", "args": {"table": {"schema": "svc_catalog", "name": "svc_version"}, "columns": ["*"]}}',
  })
  t.equal(asked.status, 200)
  await server.stop()

  const { listening, end } = JSON.parse(readFileSync(report, 'utf8')) as Record<'listening' | 'end', string[]>
  const never = [
    'ajv',
    'graphql',
    'jose',
    'libpg-query',
    'nodemailer',
    'aws4fetch',
    '@vonage/auth',
    '@aws-sdk/client-s3',
    '@opentelemetry/api',
  ]
  t.same(
    never.filter((name) => listening.includes(name)),
    [],
  )
  t.same(
    never.filter((name) => end.includes(name)),
    [],
  )
  t.ok(end.length > 0, `it would have been seen: ${end.join(', ')}`)
})

t.test('the list of commands loads no package', async (t) => {
  const folder = await newFolder(t)
  const report = join(folder, 'packages.json')
  const noting = `--import=data:text/javascript,${encodeURIComponent(notingLoads(report))}`

  t.match(await run(folder, ['--help'], { NODE_OPTIONS: noting }), { code: 0, out: /\n {2}track / })

  const { end } = JSON.parse(readFileSync(report, 'utf8')) as Record<'end', string[]>
  t.same(
    end.filter((name) => !/^(node|file|data):/.test(name)),
    [],
  )
})

/** A module that writes which packages were loaded when the process first listened, and when it ended. */
const notingLoads = (file: string): string => `
  import { writeFileSync } from 'node:fs'
  import { Session } from 'node:inspector'
  import { Server } from 'node:net'
  const loaded = new Set()
  const session = new Session()
  session.connect()
  session.on('Debugger.scriptParsed', ({ params: { url } }) =>
    loaded.add(url.split('/node_modules/').at(-1).match(/^node:.*|^@[^/]+[/][^/]+|^[^/]+/)?.[0]))
  session.post('Debugger.enable')
  const { listen } = Server.prototype
  let listening
  Server.prototype.listen = function (...args) {
    listening ??= [...loaded]
    return listen.apply(this, args)
  }
  process.on('exit', () => writeFileSync(${JSON.stringify(file)}, JSON.stringify({ listening, end: [...loaded] })))`

t.test('a start asks the database as often with many tables as with one', async (t) => {
  const { url } = await freshDatabase(t)
  const wire = await startWire(t, url)
  const starting = async () => {
    const from = wire.events.length
    const server = await testServer(t, { databaseUrl: wire.url })
    const asked = wire.events.slice(from).filter(({ kind }) => kind === 'query' || kind === 'bind')
    await server.close()
    return asked.map(({ sql }) => sql).toSorted()
  }
  // The first one migrates.
  const first = await testServer(t, { databaseUrl: url })
  await first.must('run_sql', { sql: 'create table one (id int primary key)' })
  await first.must('track_table', 'one')
  const before = await starting()
  const names = Array.from({ length: 50 }, (_, n) => `t${n}`)
  await first.must('run_sql', { sql: names.map((name) => `create table ${name} (id int primary key)`).join(';') })
  await first.must('replace_metadata', { tables: names.map((table) => ({ table })), query_templates: [] })
  await first.close()

  const after = await starting()

  t.ok(before.length > 5, 'it was seen')
  t.same(after, before)
  t.notOk(
    after.some((sql) => sql.includes('advisory_lock')),
    'without anything to migrate nobody is locked out',
  )
})

t.test('nothing waits on a connection behind a statement that is not known to be quick', async (t) => {
  const { server, events } = await library(t, { pipelineMaxMs: 500 })
  const quick = DOORS['a row by its key'] as Door
  const slow: readonly Door[] = [
    (server, id) => server.query('select', { table: 'slow_view', columns: ['id', 'waited'], where: { id }, limit: 1 }),
    graphql('/v1/graphql', 'query ($id: Int!) { slow_author(args: {of: $id}, limit: 1) { id } }'),
    (server, id) => server.query('update', { table: 'slow_author_of', where: { id }, $set: { name: 'x' } }),
  ]
  for (let round = 0; round < 2; round++) {
    await Promise.all(Array.from({ length: WARM }, (_, n) => quick(server, n + 1)))
  }
  const warmed = slow.map(async (ask) => {
    for (const id of [1, 2]) t.equal((await ask(server, id)).status, 200)
  })
  await Promise.all(warmed)
  const from = events.length
  let over = false
  const repeated = slow.map(async (ask) => {
    for (let id = 3; !over; id++) t.equal((await ask(server, id)).status, 200)
  })
  await until('all slow ones are under way', () => sharing(events.slice(from)).slowNow >= slow.length)

  for (let round = 0; round < 10; round++) {
    await Promise.all(Array.from({ length: WARM }, (_, n) => quick(server, n + 1)))
  }
  over = true
  await Promise.all(repeated)

  t.ok(
    events.slice(from).some(({ connection }) => isShared(connection)),
    'the quick ones share connections',
  )
  const { quickBeside, shared } = sharing(events.slice(from))
  t.ok(quickBeside > 0, `${quickBeside} quick ones were sent while slow ones were under way`)
  t.same(shared, [])
})

/** What was sent on a connection while a statement that is slow, or was asked with it, was not over. */
function sharing(events: readonly WireEvent[]) {
  const underWay = new Map<string, string[]>()
  const shared: string[] = []
  let quickBeside = 0
  const isSlow = (sql: string) => sql.includes('slow')
  const slowNow = () => [...underWay.values()].filter((all) => all.some(isSlow)).length
  for (const { connection, kind, sql } of events.filter(forRequests)) {
    const all = underWay.get(connection) ?? []
    underWay.set(connection, all)
    if (kind === 'ready') all.shift()
    if ((kind !== 'bind' && kind !== 'query') || tellsWriter(sql)) continue
    if (all.length > 0 && [...all, sql].some(isSlow)) shared.push(`${connection}: ${sql} after ${all.join('; ')}`)
    if (!isSlow(sql) && slowNow() > 0) quickBeside++
    all.push(sql)
  }
  return { shared, quickBeside, slowNow: slowNow() }
}

/** The server looks for changes of the metadata by itself, on connections of its own. */
const forRequests = ({ connection }: WireEvent): boolean => !/^rowhouse (admin|listen) /.test(connection)

/** It is sent with the statement of the writer. */
const tellsWriter = (sql: string): boolean => sql.includes("set_config('service.role'")

const isShared = (connection: string): boolean => /^rowhouse (pipeline|commits) /.test(connection)

/** A server on one worker, behind which every message to the database is noted. */
async function library(t: Test, database: object = {}) {
  const direct = await testServer(t)
  await direct.must('run_sql', {
    sql: `create table author (id int primary key, name text);
      create table article (id int primary key, author_id int references author);
      insert into author select n, 'author ' || n from generate_series(1, 100) n;
      insert into article select n, 1 + n % 100 from generate_series(1, 300) n;
      create view slow_view as select id, pg_sleep(1)::text as waited from author;
      create function slow_author(of int) returns setof author language sql stable
        as $$ select a from author a, pg_sleep(1) where id = of $$;
      create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(1); return new; end $$;
      create table slow_author_of (id int primary key, name text);
      insert into slow_author_of select * from author;
      create trigger slowly before update on slow_author_of for each row execute function slowly()`,
  })
  await direct.must(
    'bulk',
    ['author', 'article', 'slow_view', 'slow_author_of'].map((args) => ({ type: 'track_table', args })),
  )
  await direct.must('track_function', 'slow_author')
  await direct.must('create_object_relationship', {
    table: 'article',
    name: 'author',
    using: { foreign_key_constraint_on: 'author_id' },
  })
  await direct.must('create_array_relationship', {
    table: 'author',
    name: 'articles',
    using: { foreign_key_constraint_on: { table: 'article', column: 'author_id' } },
  })
  const where = { id: { param: 'id' } }
  await direct.must('create_query_template', {
    name: 'author',
    template: { type: 'select', args: { table: 'author', columns: ['*'], where } },
  })
  await direct.close()
  const wire = await startWire(t, direct.databaseUrl)
  const server = await testServer(t, { databaseUrl: wire.url, threads: 1, config: { database } })
  return { server, events: wire.events }
}

async function compilations({ url }: TestServer): Promise<Readonly<Record<string, number>>> {
  const text = await (await fetch(`${url}/metrics`, { headers: { 'x-service-admin-secret': ADMIN_SECRET } })).text()
  const counts = [...text.matchAll(/rowhouse_compilations_total\{by="(\w+)"\} (\d+)/g)]
  return Object.fromEntries(counts.map(([, by, n]) => [by, Number(n)]))
}

/** @returns how often any pool of workers was asked */
function counted(t: Test): () => number {
  const { run } = Piscina.prototype
  let asked = 0
  Piscina.prototype.run = function (...args) {
    asked++
    return run.apply(this, args)
  }
  t.teardown(() => void (Piscina.prototype.run = run))
  return () => asked
}

const LIBRARY = '/node_modules/graphql/'
const isLibrary = (script: string): boolean => script.includes(LIBRARY)

async function inspected(t: Test): Promise<Session> {
  const session = new Session()
  session.connect()
  t.teardown(() => session.disconnect())
  return session
}

/** @returns the names of functions of scripts in that folder that this thread has run since the last call */
async function countCalls(t: Test): Promise<(folder: string, only?: string) => Promise<readonly string[]>> {
  const session = await inspected(t)
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await session.post('Profiler.takePreciseCoverage')
  return async (folder, only) => {
    const { result } = (await session.post('Profiler.takePreciseCoverage')) as Profiler.TakePreciseCoverageReturnType
    return result
      .filter(({ url }) => url.includes(folder))
      .flatMap(({ functions }) => functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
      .map(({ functionName }) => functionName)
      .filter((name) => only === undefined || name === only)
  }
}

/** @returns the scripts that worker threads have loaded */
async function workerScripts(t: Test): Promise<() => readonly string[]> {
  const session = await inspected(t)
  const scripts: string[] = []
  const send = (sessionId: string, message: object) =>
    void session.post('NodeWorker.sendMessageToWorker', { sessionId, message: JSON.stringify(message) }).catch(() => {})
  session.on('NodeWorker.attachedToWorker', ({ params }: { params: NodeWorker.AttachedToWorkerEventDataType }) =>
    send(params.sessionId, { id: 1, method: 'Debugger.enable' }),
  )
  session.on('NodeWorker.receivedMessageFromWorker', ({ params }: { params: { message: string } }) => {
    const { method, params: about } = JSON.parse(params.message) as {
      method?: string
      params: Debugger.ScriptParsedEventDataType
    }
    if (method === 'Debugger.scriptParsed') scripts.push(about.url)
  })
  await session.post('NodeWorker.enable', { waitForDebuggerOnStart: false })
  return () => scripts
}
