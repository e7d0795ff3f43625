import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { Test } from 'tap'
import { type ConfigError, loadConfig } from '../../core/host/config.js'
import { checks, sections } from '../../core/host/sections.js'
import { startServer } from '../../core/host/server.js'
import { databaseForServer } from '../kit/database.js'
import { area, type Case } from '../kit/promises.js'
import { type As, testServer, type TestServer } from '../kit/server.js'

/** Where the configuration comes from, and servers with other settings. */
const PROMISES = {
  'config.defaults': 'without a file and variables, settings have their documented defaults',
  'config.precedence': 'the environment overrides the file, and the command line overrides the environment',
  'config.variables': 'each setting has a variable, in any case and with or without underscores; some have short names',
  'config.text': 'the text of a variable is JSON unless the setting is a string; one value for a list is a list of one',
  'config.unset': 'an empty variable counts as unset',
  'config.secrets': '{"$env"} and {"$file"} insert a variable and a file without its last line break',
  'config.mistakes': 'all mistakes are reported together, each with its path and what would be right, and no value',
  'config.checks': 'what schemas cannot say is reported as well: proxies, keys and URLs of databases',
  'config.plugins':
    'the server reports a missing plugin, and mistakes in the settings of plugins, together with the others',
  'config.files': 'two files, and a file that is not read, are mistakes',
  'config.standbys': 'a URL of a standby that is not one of PostgreSQL, or names several hosts, is refused',
  'fast.off': 'with fast: false, responses are the same',
  'plugin.off': 'a plugin that is false is not loaded, and its paths are a 404',
  'digits.header': 'with X-Service-Digits-As-Text, bigint and numeric are strings in GraphQL',
  'digits.setting': 'with plugins.graphql.digitsAsText, they are strings for everybody',
  'relay.off': 'with plugins.graphql.relay: false, /v1beta1/relay is a 404',
  'introspection.off': 'with plugins.graphql.introspection: false, only admin can use introspection',
  'naming.convention': 'with namingConvention: graphql-default, GraphQL names are camelCase',
  'files.user-ids': 'files belong to users with integer ids, or with any text if filestore.userId is text',
  'database.read-only': 'on a read-only database reads work, and writes are refused with Retry-After',
} as const

const user = (id: string): As => ({ role: 'user', variables: { 'x-service-user-id': id } })

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Configured>>> = {
  'config.defaults': async (t) => {
    const { http, database, auth, limits, idempotency, fast, dataDir } = await load(t)
    t.match(http, { host: '127.0.0.1', port: 8080, maxJsonBytes: 10 * 1024 ** 2, maxAdminJsonBytes: 64 * 1024 ** 2 })
    t.match(http, { trustedProxies: [], failedAuthPerMinute: 10, maxConcurrentRequests: 1000, serverTiming: undefined })
    t.match(http, { cors: { origins: [], credentials: false, maxAgeSeconds: 600 }, refusalReasons: undefined })
    t.match(http, { maxHeaders: 100, maxHeaderBytes: 16 * 1024, jsonTimeoutMs: 30_000, headersTimeoutMs: 10_000 })
    t.match(database, {
      poolSize: 10,
      callerShare: 0.5,
      streamShare: 0.3,
      statementTimeoutMs: 30_000,
      poolWaitMs: 1000,
    })
    t.match(database, { maxAnswerBytes: 64 * 1024 ** 2, lockTimeoutMs: 10_000, roleTimeoutMs: { anonymous: 5000 } })
    t.match(auth, { mode: 'direct' })
    t.match(limits, { price: 1e9, newQueries: { perSecond: 20, burst: 200 } })
    t.match(limits, { patterns: { operators: 10, characters: 100, wildcards: 20 } })
    t.match(idempotency, { keepHours: 24, maxAnswerBytes: 1024 ** 2 })
    t.same([fast, dataDir], [true, './.rowhouse'])
  },
  'config.precedence': async (t) => {
    const file = { http: { port: 1, host: '::1', maxHeaders: 7 }, log: { level: 'debug' } }
    const env = { ROWHOUSE_HTTP__PORT: '2', ROWHOUSE_HTTP__MAX_HEADERS: '8' }
    const { http, log } = await load(t, { file, env, overrides: { http: { port: '3' } } })
    t.match(http, { host: '::1', maxHeaders: 8, port: 3 })
    t.match(log, { level: 'debug' })
  },
  'config.variables': async (t) => {
    const env = {
      DATABASE_URL: 'postgres://a@b/c',
      ROWHOUSE_HOST: '::1',
      ROWHOUSE_PORT: '99',
      ROWHOUSE_ADMIN_SECRET: 'marker',
      ROWHOUSE_DATA_DIR: '/d',
      ROWHOUSE_http__Max_Json_Bytes: '7',
      ROWHOUSE_DATABASE__POOLSIZE: '3',
    }
    const { http, database, auth, dataDir } = await load(t, { env })
    t.match(http, { host: '::1', port: 99, maxJsonBytes: 7 })
    t.match(database, { url: 'postgres://a@b/c', poolSize: 3 })
    t.match(auth, { adminSecret: 'marker' })
    t.equal(dataDir, '/d')
    t.same(await mistakes(load(t, { env: { ROWHOUSE_ADMIN_SECERT: 'x' } })), [
      '$: unknown variable, did you mean ROWHOUSE_ADMIN_SECRET?',
    ])
  },
  'config.text': async (t) => {
    const env = {
      ROWHOUSE_HTTP__METRICS_TOKEN: '1234567890123456',
      ROWHOUSE_HTTP__SERVER_TIMING: 'true',
      ROWHOUSE_HTTP__TRUSTED_PROXIES: '["10.0.0.1","10.0.0.2"]',
      ROWHOUSE_HTTP__CORS__ORIGINS: 'https://a.example',
    }
    const { http } = await load(t, { env })
    t.equal(http.metricsToken, '1234567890123456')
    t.equal(http.serverTiming, true)
    t.same(http.trustedProxies, ['10.0.0.1', '10.0.0.2'])
    t.same(http.cors.origins, ['https://a.example'])
  },
  'config.unset': async (t) => {
    const env = { ROWHOUSE_PORT: '', ROWHOUSE_HTTP__HOST: '', ROWHOUSE_PORT_8080_TCP: 'x' }
    t.match((await load(t, { env })).http, { host: '127.0.0.1', port: 8080 })
  },
  'config.secrets': async (t) => {
    const file = {
      http: { port: { $env: 'MY_PORT' } },
      auth: { adminSecret: { $file: 'secret.txt' }, gatewaySecret: { $env: 'GATEWAY' } },
    }
    const files = { 'secret.txt': 'a secret\n' }
    const { http, auth } = await load(t, { file, files, env: { MY_PORT: '81', GATEWAY: 'of the gateway' } })
    t.equal(http.port, 81)
    t.match(auth, { adminSecret: 'a secret', gatewaySecret: 'of the gateway' })
    const found = await mistakes(load(t, { file }))
    t.match(found, ['$.http.port: environment variable MY_PORT is not set'])
    t.ok(found.some((each) => each.startsWith('$.auth.adminSecret: cannot be read')))
    t.equal(found.length, 3)
  },
  'config.mistakes': async (t) => {
    const file = {
      databse: {},
      database: { poolSize: 0, poolsiz: 3 },
      http: { port: 'hunter2', cors: { origins: ['*'] } },
      log: { level: 'hunter2' },
    }
    const found = await mistakes(load(t, { file, env: { ROWHOUSE_HTTP__SERVER_TIMING: 'hunter2' } }))
    t.same(
      found.toSorted().map((each) => each.replace(/must match.*/, 'must match')),
      [
        '$.database.poolSize: must be >= 1',
        '$.database.poolsiz: unknown key, did you mean "poolSize"?',
        '$.databse: unknown key, did you mean "database"?',
        '$.http.cors.origins[0]: must match',
        '$.http.port: must be integer',
        '$.http.serverTiming: must be boolean',
        '$.log.level: must be one of "trace","debug","info","warn","error","fatal","silent"',
      ],
    )
    t.notMatch(found.join(), /hunter2/)
  },
  'config.checks': async (t) => {
    const file = {
      http: { trustedProxies: ['10.0.0.0/8', 'proxy.example'] },
      auth: { jwt: { algorithms: ['HS256'], key: 'marker' } },
      database: { url: 'mysql://marker' },
    }
    const found = await mistakes(load(t, { file }))
    t.match(found.toSorted(), [
      '$.auth.jwt.key: a shared secret needs at least 32 bytes',
      /^\$\.database\.url: must be a PostgreSQL URL/,
      '$.http.trustedProxies[1]: must be an IP address, a CIDR range such as 10.0.0.0/8, or "unix"',
    ])
    t.notMatch(found.join(), /marker/)
  },
  'config.plugins': async (t) => {
    const plugin = (name: string, more: string) => `export default { name: '${name}', ${more}, setup() {} }`
    const files = {
      'shy.mjs': plugin('shy', `needs: ['nobody']`),
      'set.mjs': plugin('set', `config: { type: 'object', properties: { size: { type: 'integer' } } }`),
    }
    const cwd = folder(t, files)
    const plugins = { shy: { use: './shy.mjs' }, set: { use: './set.mjs', size: 'x', sise: 1 } }
    const file = { http: { prot: 1 }, plugins }
    writeFileSync(join(cwd, 'rowhouse.config.json'), JSON.stringify(file))
    const found = await mistakes(startServer({ env: {}, cwd, builtins: { plugins: {}, providers: {} } }))
    t.match(found.toSorted(), [
      '$.http.prot: unknown key, did you mean "port"?',
      '$.plugins.set.sise: unknown key, did you mean "size"?',
      '$.plugins.set.size: must be integer',
      '$.plugins.shy: plugin "shy" needs "nobody", which no loaded plugin provides',
    ])
  },
  'config.files': async (t) => {
    t.match(await mistakes(load(t, { file: {}, files: { 'rowhouse.config.js': '' } })), [/both exist/])
    t.match(await mistakes(load(t, { files: { 'rowhouse.config.yaml': 'http:' } })), [
      /^\$: rowhouse.config.yaml is not read: write rowhouse.config.js, /,
    ])
    t.match(await mistakes(load(t, { env: { ROWHOUSE_CONFIG: 'none.json' } })), [
      /^\$: file .*none\.json does not exist$/,
    ])
    const env = { ROWHOUSE_CONFIG: 'other.json' }
    t.equal((await load(t, { env, files: { 'other.json': '{"http":{"port":7}}' } })).http.port, 7)
  },
  'config.standbys': async (t) => {
    const readUrls = ['postgres://u:marker@a/db', 'postgres://u:marker@a,b/db', 'http://marker']
    const found = await mistakes(load(t, { file: { database: { url: 'postgres://a/b', readUrls } } }))
    t.match(found, [
      /^\$\.database\.readUrls\[1\]: names several hosts/,
      /^\$\.database\.readUrls\[2\]: must be a PostgreSQL URL/,
    ])
    t.equal(found.length, 2)
    t.notMatch(found.join(), /marker/)
  },
  'fast.off': async (t, server) => {
    const slow = await testServer(t, { databaseUrl: server.databaseUrl, config: { fast: false } })
    const asks = [
      ['select', { table: 'note_item', columns: ['*'], order_by: '+item_id' }],
      ['select', { table: 'note_item', columns: ['item_id'], where: { item_id: 1 }, limit: 1 }],
      ['count', { table: 'note_item' }],
      ['select', { table: 'note_item', columns: ['nothing'] }],
    ] as const
    for (const [type, args] of asks) {
      for (const as of [{}, user('1')]) {
        const [a, b] = [await server.query(type, args, as), await slow.query(type, args, as)]
        t.same([b.status, b.text], [a.status, a.text], type)
        const names = (headers: Headers) => [...headers.keys()].filter((name) => name !== 'transfer-encoding').sort()
        t.same(names(b.headers), names(a.headers))
      }
    }
  },
  'plugin.off': async (t, server) => {
    const config = { plugins: { graphql: false } }
    const other = await testServer(t, { databaseUrl: server.databaseUrl, config })
    t.match(await graphql(other, '{ note_item { item_id } }'), { status: 404, body: { code: 'not-found' } })
    t.equal((await other.query('count', { table: 'note_item' })).status, 200)
    t.equal((await graphql(server, '{ note_item { item_id } }')).status, 200)
  },
  'digits.header': async (t, server) => {
    const query = '{ note_item(where: {item_id: {_eq: 1}}) { item_id big_one price } }'
    const row = '"item_id":1,"big_one":9007199254740993,"price":1.50'
    t.match((await graphql(server, query)).text, row)
    const headers = { 'x-service-digits-as-text': 'true' }
    t.match((await graphql(server, query, {}, headers)).text, AS_TEXT)
  },
  'digits.setting': async (t, { modern }) => {
    t.match(
      (await graphql(modern, '{ noteItem(where: {itemId: {_eq: 1}}) { itemId bigOne price } }')).text,
      AS_TEXT_CAMEL,
    )
    const send = async (path: string, table: string, asText?: string) => {
      const headers: Record<string, string> = asText === undefined ? {} : { 'x-service-digits-as-text': asText }
      const body = JSON.stringify({ query: `{ ${table} }` })
      return (await modern.fetch(path, { method: 'POST', body, headers })).text
    }
    const camel = 'noteItem(where: {itemId: {_eq: 1}}) { bigOne price }'
    const numbers = '{"data":{"noteItem":[{"bigOne":9007199254740993,"price":1.50}]}}'
    const texts = '{"data":{"noteItem":[{"bigOne":"9007199254740993","price":"1.50"}]}}'
    for (const [header, expected] of [
      [undefined, texts],
      ['false', numbers],
      ['true', texts],
      ['false', numbers],
    ] as const) {
      t.equal(await send('/v1/graphql', camel, header), expected, `header: ${header}`)
    }
    for (const header of [undefined, 'true'])
      t.equal(
        await send('/v1alpha1/graphql', 'note_item(where: {item_id: {_eq: 1}}) { big_one price }', header),
        '{"data":{"note_item":[{"big_one":9007199254740993,"price":1.50}]}}',
        'not in the older dialect',
      )
  },
  'relay.off': async (t, server) => {
    const { modern } = server
    const body = JSON.stringify({ query: '{ __typename }' })
    const ask = (to: TestServer) => to.fetch('/v1beta1/relay', { method: 'POST', body })
    t.equal((await ask(server)).status, 200)
    t.equal((await ask(modern)).status, 404)
  },
  'introspection.off': async (t, server) => {
    const query = '{ __schema { queryType { name } } }'
    const { modern: other } = server
    t.match((await graphql(other, query, user('1'))).body, { errors: [{ message: 'introspection is switched off' }] })
    t.match((await graphql(other, query)).body, { data: { __schema: { queryType: { name: 'query_root' } } } })
    t.match((await graphql(server, query, user('1'))).body, { data: { __schema: {} } })
  },
  'naming.convention': async (t, server) => {
    const { modern: other } = server
    t.same((await graphql(other, '{ noteItem(where: {itemId: {_eq: 2}}) { itemId } }')).body, {
      data: { noteItem: [{ itemId: 2 }] },
    })
    t.match((await graphql(other, '{ note_item { item_id } }')).body, { errors: [{ message: /note_item/ }] })
    t.match((await graphql(server, '{ noteItem { itemId } }')).body, { errors: [{ message: /noteItem/ }] })
  },
  'files.user-ids': async (t) => {
    const put = async (userId: string, id: string) => {
      const database = await databaseForServer()
      t.teardown(() => database.drop())
      const config = { dataDir: folder(t), plugins: { filestore: { userId } } }
      const server = await testServer(t, { files: true, databaseUrl: database.url, config })
      return server.fetch('/v1/file/a', { method: 'PUT', body: 'bytes' }, { variables: { 'x-service-user-id': id } })
    }
    t.match(await put('text', 'auth0|5f0c'), { status: 200, body: { user_id: 'auth0|5f0c' } })
    t.match(await put('integer', 'auth0|5f0c'), {
      status: 400,
      body: { message: 'X-Service-User-Id should be an integer' },
    })
  },
  'database.read-only': async (t, server) => {
    const client = new pg.Client({ connectionString: server.databaseUrl })
    await client.connect()
    const name = client.escapeIdentifier(new URL(server.databaseUrl).pathname.slice(1))
    await client.query(`alter database ${name} set default_transaction_read_only = on`)
    const other = await testServer(t, { databaseUrl: server.databaseUrl })
    t.equal((await other.query('count', { table: 'note_item' }, user('1'))).status, 200)
    const refused = await other.query('insert', { table: 'note_item', objects: [{ item_id: 9 }] })
    t.match(refused, { status: 503, body: { code: 'read-only' } })
    t.ok(refused.headers.has('retry-after'))
    await client.query(`alter database ${name} reset default_transaction_read_only`)
    await client.end()
  },
}

const AS_TEXT = '"item_id":1,"big_one":"9007199254740993","price":"1.50"'
const AS_TEXT_CAMEL = '"itemId":1,"bigOne":"9007199254740993","price":"1.50"'

const graphql = (server: TestServer, query: string, as: As = {}, headers: Record<string, string> = {}) =>
  server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }), headers }, as)

const MODERN = { digitsAsText: true, relay: false, introspection: false, namingConvention: 'graphql-default' }
/** Loads the configuration of a folder of its own, as the server does. */
async function load(
  t: Test,
  given: {
    readonly file?: object
    readonly files?: Readonly<Record<string, string>>
    readonly env?: Readonly<Record<string, string>>
    readonly overrides?: Readonly<Record<string, unknown>>
  } = {},
) {
  const { file, files = {}, env = {}, overrides = {} } = given
  const all = file === undefined ? files : { ...files, 'rowhouse.config.json': JSON.stringify(file) }
  return (await loadConfig({ sections, checks, env, overrides, cwd: folder(t, all) })).values
}

/** Returns the mistakes as `path: message`. */
const mistakes = (loading: Promise<unknown>): Promise<string[]> =>
  loading.then(
    () => [],
    (error: ConfigError) => error.mistakes.map(({ path, message }) => `${path}: ${message}`),
  )

function folder(t: Test, files: Readonly<Record<string, string>> = {}): string {
  const path = mkdtempSync(join(tmpdir(), 'rowhouse-configurations-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text)
  return path
}

export const configurations = area('configurations', { promises: PROMISES, cases: CASES, start })

interface Configured extends TestServer {
  /** The same database, with other settings of GraphQL. */
  readonly modern: TestServer
}

async function start(t: Test): Promise<Configured> {
  const server = await testServer(t)
  await server.sql(`create table note_item (item_id int primary key, big_one bigint, price numeric);
      insert into note_item values (1, 9007199254740993, 1.50), (2, 2, 2)`)
  await server.must('track_table', 'note_item')
  const permission = { columns: '*', filter: {} }
  await server.must('create_select_permission', { table: 'note_item', role: 'user', permission })
  const modern = await testServer(t, { databaseUrl: server.databaseUrl, config: { plugins: { graphql: MODERN } } })
  return { ...server, modern }
}
