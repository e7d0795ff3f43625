import fc from 'fast-check'
import { hostileValue, MARKER, mutation } from './hostile.js'
import { mutate, print, type Tree, treeOf } from './tree.js'
import { EXPLAIN, METADATA, REFUSED, VALID } from './valid.js'

/** What is sent. `raw` goes over a socket as it is, which is then read to its end. */
export type Attack =
  | {
      readonly kind: 'http'
      readonly method: string
      readonly path: string
      readonly role: 'admin' | 'user' | 'anonymous'
      readonly headers: Readonly<Record<string, string>>
      readonly body: Buffer
    }
  | { readonly kind: 'raw'; readonly bytes: Buffer }

const trees = (requests: readonly unknown[]): fc.Arbitrary<Tree> => fc.constantFrom(...requests.map(treeOf))

const mutated = (tree: fc.Arbitrary<Tree>, most = 3): fc.Arbitrary<Tree> =>
  fc
    .tuple(tree, fc.array(fc.tuple(fc.nat(500), mutation), { minLength: 0, maxLength: most }))
    .map(([start, changes]) => changes.reduce((at, [place, change]) => mutate(at, place, change), start))

const role = fc.constantFrom('admin', 'user', 'user', 'anonymous')
const plain = { method: 'POST', path: '/v1/query', headers: {} }

/** The admin may do everything, except to what the test keeps watch over. */
function post(who: 'admin' | 'user' | 'anonymous', text: string | Buffer, more: object = {}): Attack {
  const body = Buffer.from(text)
  return { kind: 'http', ...plain, role: body.includes('vault') && who === 'admin' ? 'user' : who, body, ...more }
}

const start = trees([...VALID, ...VALID, ...REFUSED])
const data = fc
  .tuple(role, fc.oneof(mutated(start, 1), mutated(start)))
  .map(([who, tree]) => post(who as 'admin', print(tree)))

/** Undone at its end, so that what follows still meets a server with tables; a few go through. */
const metadata = fc
  .tuple(role, fc.oneof(mutated(trees(METADATA), 1), mutated(trees(METADATA))), fc.nat(9))
  .map(([who, tree, dice]) => {
    const text = print(tree)
    const kept = dice === 0 && !text.includes('run_sql')
    return post(who === 'user' ? 'admin' : (who as 'admin'), kept ? text : undone(text))
  })
const undone = (text: string): string => `{"type":"bulk","args":[${text},{"type":"undo","args":{}}]}`

const SQL = [
  ['select', 'from', 'where', 'person', 'town', 'id', 'name', '1', ',', '(', ')', '*', ';', "'", '"', '$$', '--', '/*'],
  ['insert into', 'values', 'update', 'set', 'delete', 'alter table', 'add column', 'drop column', 'drop table', 'int'],
  ['create table', 'x', 'cascade', 'create view', 'as', 'rename to', 'commit', 'rollback', 'begin', 'savepoint s'],
  ['copy', 'from stdin', 'to stdout', 'prepare transaction', 'set role', 'nobody', 'reset all', 'discard all', 'null'],
  ['listen', 'notify', 'lock table', 'explain', 'do', 'return', 'call', 'vacuum', 'analyze', 'truncate', 'with', '='],
  [
    'union',
    'order by',
    'limit',
    '1/0',
    "'x'::int",
    'generate_series(1,20000)',
    'declare c cursor for',
    'fetch all in c',
  ],
  ['type', 'mood', 'cast', 'text', 'numeric', 'set search_path to nowhere;', 'create index concurrently', "E'\\x'"],
  [
    'deallocate all',
    'execute',
    'prepare p as',
    'raise',
    'merge into',
    'returning',
    'grant',
    'comment on',
    '\\',
    '\u{1F600}',
  ],
].flat()
const sql = fc
  .oneof(
    fc.array(fc.constantFrom(...SQL), { maxLength: 12 }).map((words) => words.join(' ')),
    fc.constantFrom(
      `select ${'('.repeat(20_000)}1${')'.repeat(20_000)}`,
      `select 1${' or true'.repeat(20_000)}`,
      'drop table person cascade; create table person (id int)',
      'alter table person rename to people',
      'alter table town alter name type int using 1',
      'set role pg_monitor; select 1',
      "select pg_catalog.set_config('role', 'pg_monitor', false)",
      `select '${MARKER}'::int`,
      'savepoint a; rollback to a; commit; begin',
      'create function f() returns int language sql as $$select 1$$; drop function f; select 1; select 2',
    ),
  )
  .map((text) => post('admin', undone(JSON.stringify({ type: 'run_sql', args: { sql: text, cascade: true } }))))

const explain = fc
  .tuple(role, mutated(trees(EXPLAIN), 2))
  .map(([who, tree]) => post(who as 'admin', print(tree), { path: '/v1/query/explain' }))

const noJson = fc
  .tuple(role, mutated(trees(VALID), 1).map(print), fc.nat(), fc.nat(15))
  .map(([who, text, at, how]) => post(who as 'admin', broken(text, at % (text.length + 1), how)))

function broken(text: string, at: number, how: number): Buffer {
  const [before, after] = [text.slice(0, at), text.slice(at)]
  switch (how) {
    case 0:
      return Buffer.from(before)
    case 1:
      return Buffer.from(`\ufeff${text}`)
    case 2:
      return Buffer.from(text, 'utf16le')
    case 3:
      return Buffer.concat([Buffer.from(before), Buffer.from([0xc3, 0x28, 0xff]), Buffer.from(after)])
    case 4:
      return Buffer.from(`${before}/* comment */${after}`)
    case 5:
      return Buffer.from(text.replaceAll('}', ',}'))
    case 6:
      return Buffer.from(text.replaceAll('"', "'"))
    case 7:
      return Buffer.from(text + text)
    case 8:
      return Buffer.from(`${before}\0${after}`)
    case 9:
      return Buffer.from(`${before}${'\t \n'.repeat(5000)}${after}`)
    case 10:
      return Buffer.alloc(0)
    case 11:
      return Buffer.concat([Buffer.from(before), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from(after)])
    case 12:
      return Buffer.from('x'.repeat(at))
    case 13:
      return Buffer.from('['.repeat(400_000))
    case 14:
      return Buffer.from(`{"type":"insert","args":{"table":"person","objects":[${'{},'.repeat(100_000)}{}]}}`)
    default:
      return Buffer.from(`${before}${after.slice(1)}`)
  }
}

const route = fc
  .tuple(
    role,
    fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'),
    fc.constantFrom(
      '/',
      '/v1',
      '/v1/query',
      '/v1/query/',
      '/V1/query',
      '/v1/query/explain',
      '/v1//query',
      '/v1/query%2f',
      '/%00',
      '/%',
      '/../v1/query',
      '/__proto__',
      '/healthz',
      '/readyz',
      '/metrics',
      '/v1/version',
      `/${'a'.repeat(3000)}`,
    ),
    fc.constantFrom('', '?', '?a=1&a=2', '?__proto__[x]=1', '?%ff', '?type=select'),
    mutated(trees(VALID), 1).map(print),
  )
  .map(([who, method, path, query, text]) =>
    post(who as 'admin', ['GET', 'HEAD'].includes(method) ? '' : text, { method, path: path + query }),
  )

const SELECT = '{"type":"select","args":{"table":"landmark","columns":["id"]}}'
const HEADERS: readonly string[] = [
  [
    'X-Service-Role: user',
    'x-service-role: admin',
    'X_Service_Role: admin',
    'X-Service_Role: admin',
    'X-Service-Role:',
  ],
  [
    'X-Service-Role: user, admin',
    'X-Service-User-Id: 1 or 1=1',
    'X-Service-User-Id: 99999999999999999999',
    'X.Service.Role: a',
  ],
  [
    'X-Service-Admin-Secret: wrong',
    'x-service-admin-secret:',
    'X-Service-Gateway-Secret: x',
    'X-Service-Allowed-Roles: admin',
  ],
  [
    'X-Service-\u00e9: 1',
    'X-Service-A: \u00e9',
    'X-Service-A: \x01',
    'X-Service-A:\t b ',
    'X-Service-: 1',
    'X-Service-Role : admin',
  ],
  [
    'X-Service-constructor: 1',
    'X-Service-__proto__: 1',
    '__proto__: 1',
    'X-Service-Role:\r\n admin',
    'Authorization: Basic YTpi',
  ],
  [
    'Authorization: Bearer',
    'Authorization: Bearer a.b.c',
    'Authorization: Bearer x\r\nAuthorization: Bearer y',
    'Cookie: rowhouse_session=x',
  ],
  [
    'Content-Encoding: gzip',
    'Content-Type: text/html',
    'Content-Type: \x7f',
    'Accept: text/csv',
    'Accept: application/x-ndjson',
    'Accept: */*;q=x',
  ],
  [
    'Expect: 100-continue',
    'Expect: nonsense',
    'Connection: upgrade\r\nUpgrade: h2c',
    'Transfer-Encoding: chunked',
    'Transfer-Encoding: gzip, chunked',
  ],
  [
    'Content-Length: 1',
    'Content-Length: 62',
    'Content-Length: -1',
    'Content-Length: 1e3',
    'Content-Length: 99999999999',
    'Content-Length: 5, 6',
  ],
  [
    'Host: a\r\nHost: b',
    'Origin: null',
    'Origin: http://evil.example',
    'X-Request-Id: a b',
    'Range: bytes=0-',
    'If-Match: *',
    'no colon at all',
  ],
  [
    ': empty',
    `X-Long: ${'x'.repeat(20_000)}`,
    `X-Service-Long: ${'x'.repeat(9_000)}`,
    Array.from({ length: 150 }, (_, i) => `X-${i}: 1`).join('\r\n'),
  ],
].flat()
const LINES = [
  'POST /v1/query HTTP/1.1',
  'POST /v1/query HTTP/1.0',
  'GET /v1/query HTTP/1.1',
  'POST http://a/v1/query HTTP/1.1',
  'TRACE / HTTP/1.1',
  'BREW / HTTP/1.1',
  'POST /v1/query HTTP/9.9',
  'POST  /v1/query',
  '\x16\x03\x01',
  'CONNECT a:1 HTTP/1.1',
]
const raw = fc
  .tuple(
    fc.oneof(
      { weight: 8, arbitrary: fc.constant(LINES[0] as string) },
      { weight: 3, arbitrary: fc.constantFrom(...LINES) },
    ),
    fc.array(fc.constantFrom(...HEADERS), { minLength: 1, maxLength: 3 }),
    fc.constantFrom(
      SELECT,
      SELECT,
      '',
      '5\r\nabc',
      `${SELECT.length.toString(16)}\r\n${SELECT}\r\n0\r\n\r\n`,
      'zz\r\n',
      `ffffffffff\r\n${SELECT}`,
    ),
  )
  .map(([line, headers, body]): Attack => {
    const length = headers.some((header) => /^(Content-Length|Transfer-Encoding)/.test(header))
      ? []
      : [`Content-Length: ${Buffer.byteLength(body)}`]
    const head = [line, 'Host: a', 'Connection: close', ...length, ...headers].join('\r\n')
    return { kind: 'raw', bytes: Buffer.from(`${head}\r\n\r\n${body}`, 'latin1') }
  })

/** Over the limits of the fuzzed server, in one value, in many, and in rows. */
const huge = fc
  .tuple(role, fc.constantFrom(1_048_576, 1_100_000, 2_200_000), fc.nat(2), hostileValue)
  .map(([who, size, how, value]) => {
    const unit = how === 0 ? 'x' : how === 1 ? '"}' : `${value},`
    const filler = unit.repeat(Math.ceil(size / unit.length))
    return post(who as 'admin', `{"type":"insert","args":{"table":"person","objects":[{"name":"${filler}"}]}}`)
  })

/** Everything that is thrown at the server, a few hundred a second. */
export const attack: fc.Arbitrary<Attack> = fc.oneof(
  { weight: 640, arbitrary: data },
  { weight: 120, arbitrary: metadata },
  { weight: 50, arbitrary: sql },
  { weight: 40, arbitrary: explain },
  { weight: 60, arbitrary: noJson },
  { weight: 30, arbitrary: route },
  { weight: 60, arbitrary: raw },
  { weight: 2, arbitrary: huge },
)
