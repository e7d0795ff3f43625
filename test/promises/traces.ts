import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { trace as api } from '@opentelemetry/api'
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node'
import type { Test } from 'tap'
import { CLIENT, INTERNAL, otlpReceiver, type ReceivedSpan, type Receiver, SERVER } from '../kit/otlp.js'
import { area, type Case } from '../kit/promises.js'
import { type Answered, type As, TEST_FAST, testServer, type TestServer } from '../kit/server.js'
import { type SqlTap, startSqlTap } from '../kit/sql-tap.js'
import { type Remote, stubRemote } from '../kit/stitch.js'
import { summaryOf } from '../../core/db/query-summary.js'
import { databaseForServer } from '../kit/database.js'
import { until } from '../kit/until.js'

/** What a trace of OpenTelemetry says about a request. */
const PROMISES = {
  'trace.request':
    'a traced request has spans of its own, of its compilation, of the wait for a connection, and of its SQL',
  'trace.routes': 'spans have the name of the route, and of the template or GraphQL operation, but no path',
  'trace.outbound': 'webhooks and hooks get traceparent and tracestate of the trace, and no baggage',
  'trace.errors': 'the spans of a failed request have the code of PostgreSQL and its own',
  'trace.providers': 'methods of providers have spans, which name the server that a provider says it asks',
  'trace.statements':
    'every statement of a request has a span named after its verb and its tables: those of run_sql, files and other plugins, and of transactions',
  'trace.client':
    'the span of a request says who asked, with what, and the address that was used, also behind a trusted proxy',
  'trace.tags': 'database.queryTags adds a comment to the SQL of requests whose trace is recorded, and to no other',
  'trace.unrecorded': 'the traceparent of the caller says whether its trace is recorded; health checks leave no spans',
  'trace.shared': 'traced requests still share connections, unless database.queryTags is on',
  'trace.values': 'no span contains a value of a request',
} as const

const TRACE = '0af7651916cd43dd8448eb211c80319c'
/** Fast lanes are off in a run of their own. */
const SHARED = process.env[TEST_FAST] === 'false' ? 'pool' : 'shared'
const CALLER = 'b7ad6b7169203331'
const IN = { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: 'shop=1', baggage: 'user=marker' }

const USER: As = { variables: { 'x-service-user-id': '1' } }

/** Statements of the server's own work, which no request asks for. */
const UNASKED = /^(listen|select 1$)|pg_stat_activity|svc_message.*for update|svc_upload/s

const select = { table: 'note', columns: ['id'], where: { word: 'marker' }, limit: 1 }

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Traced>>> = {
  'trace.request': async (t, server) => {
    const { trace, ask } = server
    const spans = await trace((headers) => ask('select', select, headers))

    const [request] = spans.filter(({ kind }) => kind === SERVER)
    t.match(request, {
      name: 'POST /v1/query',
      parentSpanId: CALLER,
      status: 0,
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/v1/query',
        'http.response.status_code': 200,
        'rowhouse.plugin': 'query',
        'rowhouse.role': 'admin',
        'rowhouse.request_id': String,
      },
    })
    const inside = spans.filter(({ parentSpanId }) => parentSpanId === request?.spanId)
    t.same(inside.map(({ name }) => name).sort(), ['SELECT note', 'compile', 'pool wait'])
    t.match(
      inside.find(({ name }) => name === 'compile'),
      { attributes: { 'rowhouse.planner': 'query', 'rowhouse.by': 'process' } },
    )
    t.match(
      inside.find(({ name }) => name === 'SELECT note'),
      {
        kind: CLIENT,
        attributes: {
          'db.system.name': 'postgresql',
          'db.operation.name': 'SELECT',
          'db.collection.name': 'note',
          'db.query.summary': 'SELECT note',
          'db.query.text': /from "public"."note".*\$1/s,
          'db.namespace': /./,
          'server.address': '127.0.0.1',
          'server.port': Number,
          'rowhouse.lane': 'pool',
        },
      },
    )
  },
  'trace.routes': async (t, server) => {
    const { trace } = server
    const template = await trace((headers) => server.fetch('/v1/template/by_word?word=marker', { headers }))
    const graph = (name: string) =>
      trace((headers) => {
        const body = JSON.stringify({ query: `query ${name} { note { id } }`, operationName: name })
        return server.fetch('/v1/graphql', { method: 'POST', body, headers })
      })
    const graphql = await graph('Notes')

    const named = (spans: readonly ReceivedSpan[]) => spans.find(({ kind }) => kind === SERVER)?.name
    const operation = (spans: readonly ReceivedSpan[]) =>
      spans.find(({ name }) => name === 'SELECT note')?.attributes['rowhouse.operation']
    t.equal(named(template), 'GET /v1/template/:name')
    t.equal(operation(template), 'by_word')
    t.equal(named(graphql), 'POST /v1/graphql')
    t.equal(operation(graphql), 'Notes')
    t.equal(operation(await graph('N'.repeat(1000))), 'N'.repeat(100))
  },
  'trace.outbound': async (t, server) => {
    const { service, trace } = server
    service.got.length = 0
    const spans = await trace((headers) =>
      server.bare('/v1/file/marker?a=marker', { headers: { ...headers, 'x-asked-role': 'user' } }),
    )

    t.match(
      spans.find(({ name }) => name === 'GET authorization webhook'),
      { kind: CLIENT, attributes: { 'http.request.method': 'GET', 'http.response.status_code': 200 } },
    )
    t.ok(spans.some(({ name }) => name === 'GET filestore hook'))
    t.equal(service.got.length, 2)
    for (const { headers } of service.got) {
      const span = spans.find(({ spanId }) => String(headers['traceparent']).includes(spanId))
      t.equal(span?.kind, CLIENT, 'the service is below the span of the request to it')
      t.equal(headers['tracestate'], 'shop=1')
    }
    t.equal(service.got.at(-1)?.headers['baggage'], undefined)
  },
  'trace.errors': async (t, server) => {
    const { trace, ask } = server
    const spans = await trace((headers) =>
      ask('insert', { table: 'note', objects: [{ id: 1, word: 'bad marker' }] }, headers),
    )

    t.match(
      spans.find(({ name }) => name === 'INSERT note'),
      { status: 2, attributes: { 'error.type': String, 'db.response.status_code': '23514' } },
    )
    t.match(
      spans.find(({ kind }) => kind === SERVER),
      { status: 0, attributes: { 'http.response.status_code': 400, 'rowhouse.code': String } },
    )
  },
  'trace.providers': async (t, server) => {
    const { receiver } = server
    await server.must('send_email', {
      to: 'marker@example.com',
      from: 'a@example.com',
      sub: 'marker',
      text: 'marker',
    })
    await until('the mail was sent', () => receiver.spans.some(({ name }) => name === 'email.send'))

    t.match(
      receiver.spans.find(({ name }) => name === 'email.send'),
      { kind: INTERNAL, attributes: { 'rowhouse.provider': 'email.memory' } },
    )
    // Nothing listens there. The server has a database of its own, because servers share their queue.
    const smtp = { host: '127.0.0.1', port: 9, security: 'none' }
    const config = { providers: { email: { smtp } } }
    const remote = await testServer(t, {
      notify: true,
      providers: { email: { smtp: new URL('../../providers/email/smtp.js', import.meta.url) } },
      config,
    })
    await remote.must('send_email', { to: 'a@example.com', from: 'a@example.com', sub: 'a', text: 'a' })
    const ofServer = () => receiver.spans.find(({ attributes }) => attributes['rowhouse.provider'] === 'email.smtp')
    await until('the mail server was asked', () => ofServer() !== undefined)
    t.match(ofServer(), { kind: CLIENT, attributes: { 'server.address': '127.0.0.1', 'server.port': 9 } })
  },
  'trace.statements': async (t, server) => {
    const { tap, trace, ask } = server
    const insert = (id: number) => ({ type: 'insert', args: { table: 'note', objects: [{ id, word: 'marker' }] } })
    const file = (headers: Record<string, string>) =>
      server.fetch(
        '/v1/file/statements',
        { method: 'PUT', body: 'marker', headers: { ...headers, 'content-type': 'text/plain' } },
        USER,
      )
    const mail = { to: 'marker@example.com', from: 'a@example.com', sub: 'marker', text: 'marker' }
    const asked: Readonly<Record<string, (headers: Record<string, string>) => Promise<unknown>>> = {
      bulk: (headers) => ask('bulk', [insert(21), insert(22)], headers),
      run_sql: (headers) =>
        ask(
          'run_sql',
          { sql: `/* marker */ select word from note n, lines where word = 'marker'; -- marker` },
          headers,
        ),
      'run_sql outside of a transaction': (headers) =>
        ask('run_sql', { sql: 'vacuum note', no_transaction: true }, headers),
      track_table: (headers) => ask('track_table', 'lines', headers),
      'PUT /v1/file': file,
      'GET /v1/file': (headers) => server.fetch('/v1/file/statements', { headers }, USER),
      send_email: (headers) => ask('send_email', mail, headers),
      explain: (headers) => {
        const body = JSON.stringify({ query: { type: 'select', args: select } })
        return server.fetch('/v1/query/explain', { method: 'POST', body, headers })
      },
      CSV: (headers) => ask('select', { table: 'lines', columns: ['id'] }, { ...headers, accept: 'text/csv' }),
    }
    for (const [name, request] of Object.entries(asked)) {
      const before = new Set(tap.texts)
      const spans = await trace(async (headers) => t.match(await request(headers), { status: /^2/ }, name))
      const traced = new Set(spans.map(({ attributes }) => attributes['db.query.text']))
      const sent = [...tap.texts].filter((text) => !before.has(text) && !UNASKED.test(text))
      t.same(
        sent
          .map((text) => text.replace(/ ?\/\*route=.*$/s, '').slice(0, 8192))
          .filter((text) => !traced.has(text) && !traced.has(summaryOf(text).text)),
        [],
        `${name}: all that was sent is traced`,
      )
      const statements = spans.filter(({ attributes }) => attributes['db.system.name'] === 'postgresql')
      t.ok(statements.length > 0, name)
      for (const { kind, name: title, attributes } of statements) {
        t.equal(kind, CLIENT)
        t.equal(title, attributes['db.query.summary'])
      }
      const names = statements.map(({ name: title }) => title)
      if (name === 'bulk') t.same(names, ['BEGIN', 'INSERT note', 'INSERT note', 'COMMIT'])
      if (name === 'run_sql') t.ok(names.includes('SELECT note lines'), names.join())
      if (name === 'PUT /v1/file')
        t.ok(
          names.some((title) => title.includes('svc_catalog.svc_')),
          names.join(),
        )
    }
  },
  'trace.client': async (t, server) => {
    const { trace, ask, url } = server
    const requestOf = async (headers: Record<string, string>, send = ask) => {
      const spans = await trace((own) => send('select', select, { ...own, ...headers }))
      return spans.find(({ kind }) => kind === SERVER)
    }
    const { hostname, port } = new URL(url)
    t.match(await requestOf({ 'user-agent': `check/1 ${'x'.repeat(1000)}` }), {
      attributes: {
        'url.scheme': 'http',
        'server.address': hostname,
        'server.port': Number(port),
        'client.address': '127.0.0.1',
        'user_agent.original': `check/1 ${'x'.repeat(248)}`,
        'network.protocol.version': '1.1',
        'http.request.method_original': undefined,
      },
    })
    const forwarded = {
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'shop.example',
      'x-forwarded-for': '203.0.113.7',
    }
    t.match(await requestOf(forwarded), { attributes: { 'url.scheme': 'http', 'client.address': '127.0.0.1' } })
    const behind = await testServer(t, {
      databaseUrl: server.databaseUrl,
      config: { http: { trustedProxies: ['127.0.0.1'] } },
    })
    const sent: typeof ask = (type, args, headers) => behind.raw(JSON.stringify({ type, args }), {}, headers)
    t.match(await requestOf(forwarded, sent), {
      attributes: {
        'url.scheme': 'https',
        'server.address': 'shop.example',
        'server.port': 443,
        'client.address': '203.0.113.7',
      },
    })
    const other = await trace((headers) => server.fetch('/v1/query', { method: 'PROPFIND', headers }))
    t.match(
      other.find(({ kind }) => kind === SERVER),
      { attributes: { 'http.request.method': '_OTHER', 'http.request.method_original': 'PROPFIND' } },
    )
  },
  'trace.tags': async (t, server) => {
    const { tap, ask } = server
    await ask('select', { ...select, limit: 7 }, { ...IN, traceparent: `00-${TRACE}-${CALLER}-01` })
    await server.fetch(`/v1/graphql`, {
      method: 'POST',
      body: JSON.stringify({ query: `query A { note { word } }`, operationName: 'A' }),
      headers: IN,
    })
    const tagged = [...tap.texts].filter((text) => text.includes(TRACE))
    const tags = tagged.map((text) => /\/\*.*\*\/$/.exec(text)?.[0])

    t.equal(tagged.length, 2)
    t.match(
      tags[0],
      /^\/\*route='%2Fv1%2Fquery',traceparent='00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01'\*\/$/,
    )
    t.match(tags[1], /^\/\*action='A',route='%2Fv1%2Fgraphql',traceparent='/)

    const unrecorded = `00-${TRACE.replace('0a', '0b')}-${CALLER}-00`
    await ask('select', { ...select, limit: 8 }, { traceparent: unrecorded })
    t.ok([...tap.texts].some((text) => /"note"/.test(text) && text.includes('word') && !text.includes('/*')))
    t.notOk([...tap.texts].some((text) => text.includes(TRACE.replace('0a', '0b'))))
  },
  'trace.unrecorded': async (t, server) => {
    const { receiver, provider, ask } = server
    const before = receiver.spans.length
    const headers = { traceparent: `00-${TRACE.replace('0a', '0c')}-${CALLER}-00` }
    for (let i = 0; i < 30; i++) await ask('select', { ...select, limit: 9 }, headers)
    await server.fetch('/healthz')
    await server.fetch('/readyz')
    await provider.forceFlush()

    const own = receiver.spans.slice(before).filter(({ name }) => name !== 'email.send')
    t.same(
      own.map(({ name }) => name),
      [],
    )
  },
  'trace.shared': async (t, server) => {
    const { databaseUrl, trace } = server
    const shares = await testServer(t, { databaseUrl: databaseUrl })
    const read = (headers: Record<string, string>) =>
      shares.raw(JSON.stringify({ type: 'select', args: select }), {}, headers)
    const laneOf = (spans: readonly ReceivedSpan[]) =>
      spans.find(({ name }) => name === 'SELECT note')?.attributes['rowhouse.lane']

    await until('reads share a connection', async () => laneOf(await trace(read)) === SHARED)
    const koa = await trace((headers) => read({ ...headers, accept: 'text/csv' }))
    t.equal(koa.find(({ kind }) => kind === SERVER)?.name, 'POST /v1/query')
    t.equal(laneOf(koa), 'stream')
  },
  'trace.values': async (t, server) => {
    const { receiver } = server
    t.notMatch(receiver.text(), /refused/)
    t.notMatch(receiver.text(), /marker|secret-path|user=/)
  },
}

const PAGES = {
  'core/http/observability.md': {
    Traces: {
      '`POST /v1/query`': ['trace.request', 'trace.client', 'trace.errors'],
      '`compile`': 'trace.request',
      '`pool wait`': 'trace.request',
      '`SELECT note`, `INSERT note`, `BEGIN`': ['trace.request', 'trace.errors', 'trace.statements', 'trace.tags'],
      '`email.send`, `storage.get` and other methods of providers': 'trace.providers',
      '`GET authorization webhook`, `GET filestore hook`, `POST the schema "weather"`, requests of providers':
        'trace.outbound',
    },
  },
} as const

export const traces = area('traces', { promises: PROMISES, pages: PAGES, cases: CASES, start })

interface Traced extends TestServer {
  readonly receiver: Receiver
  readonly provider: NodeTracerProvider
  readonly tap: SqlTap
  readonly service: Remote
  trace(ask: (headers: Record<string, string>) => Promise<unknown>): Promise<readonly ReceivedSpan[]>
  ask(type: string, args: unknown, headers: Record<string, string>, as?: As): Promise<Answered>
}

async function start(t: Test): Promise<Traced> {
  const receiver = await otlpReceiver(t)
  // The one SDK of this process, as `node --import ./otel.mjs` registers it.
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter({ url: receiver.url }))],
  })
  provider.register()
  t.teardown(async () => {
    api.disable()
    await provider.shutdown()
  })
  const database = await databaseForServer()
  t.teardown(() => database.drop())
  const tap = await startSqlTap(t, database.url)
  const service = await stubRemote(t, ({ headers }, res) => {
    const role = headers['x-asked-role']
    res.setHeader('content-type', 'application/json')
    res.end(JSON.stringify(role === undefined ? {} : { 'x-service-role': role, 'x-service-user-id': '1' }))
  })
  const server = await testServer(t, {
    databaseUrl: tap.url,
    files: true,
    notify: true,
    config: {
      auth: { webhook: { url: service.url, method: 'GET' } },
      database: { queryTags: true },
      plugins: { filestore: { hook: { url: `${service.url}/secret-path` } } },
      providers: { email: { default: 'memory', memory: { keep: 10 } } },
    },
  })
  await server.sql(
    `create table note (id int primary key, word text check (word <> 'bad marker')); create table lines (id int)`,
  )
  await server.must('track_table', 'note')
  await server.must('create_query_template', {
    name: 'by_word',
    template: { type: 'select', args: { table: 'note', columns: ['id'], where: { word: '{{word}}' } } },
  })

  const traceIds = new Set<string>()
  /** Sends a request of a new trace, and returns its spans. */
  async function trace(ask: (headers: Record<string, string>) => Promise<unknown>): Promise<readonly ReceivedSpan[]> {
    const traceId = `${traceIds.size + 1}`.padStart(32, 'a')
    traceIds.add(traceId)
    await ask({ ...IN, traceparent: `00-${traceId}-${CALLER}-01` })
    const own = () => receiver.spans.filter((span) => span.traceId === traceId)
    await until('the span of the request came', () => own().some(({ kind }) => kind === SERVER))
    await provider.forceFlush()
    return own()
  }
  const ask = (type: string, args: unknown, headers: Record<string, string>, as?: As) =>
    server.raw(JSON.stringify({ type, args }), as, headers)
  return { ...server, receiver, provider, tap, service, trace, ask }
}
