import pg from 'pg'
import t from 'tap'
import { introspect } from '../../core/metadata/introspect.js'
import { operatorsOn } from '../../core/plan/operators.js'
import fc, { cases } from '../kit/property.js'
import { type Answered, type As, testServer, type TestServer } from '../kit/server.js'

const ASKED_FOR = process.env['ROWHOUSE_FUZZ_REQUESTS']
const REQUESTS = cases(1_250, 'ROWHOUSE_FUZZ_REQUESTS')
/** Unless a number is asked for, a slow machine sends fewer. */
const BUDGET_MS = ASKED_FOR === undefined ? 25_000 : Infinity
const SEED = Number(process.env['ROWHOUSE_FUZZ_SEED'] ?? 1)
const AT_ONCE = 4
const ROUND = Math.min(500, REQUESTS)

t.test(`a value that PostgreSQL cannot read is never a fault of the server (seed ${SEED})`, async (t) => {
  const server = await testServer(t)
  const columns = await makeTable(server)
  const piece = pieceOf(columns)
  const faults: string[] = []
  const seen = new Map<string, number>()
  const deadline = performance.now() + BUDGET_MS
  const isOver = (round: number) => round * ROUND >= REQUESTS || performance.now() > deadline || faults.length > 20

  for (let round = 0; !isOver(round); round++) {
    const pieces = fc.sample(piece, { seed: SEED * 1_000_003 + round, numRuns: ROUND }).values()
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (const each of pieces) {
          const answer = await DOORS[each.door](server, each)
          const kind = `${each.door} ${answer.status}`
          seen.set(kind, (seen.get(kind) ?? 0) + 1)
          const wrong = judge(each, answer)
          if (wrong !== undefined) faults.push(`${wrong}: ${JSON.stringify(each).slice(0, 500)}\n${answer.text}`)
        }
      }),
    )
    // Rows that were written may be large.
    await server.must('run_sql', { sql: 'truncate rubbish; insert into rubbish (id) values (1)' })
  }

  t.comment([...seen].map(([kind, count]) => `${kind}: ${count}`).join(', '))
  t.same(faults, [])
  t.same((await server.query('count', { table: 'rubbish' })).body, { count: 1 }, 'the server goes on')
})

interface Column {
  readonly name: string
  readonly type: string
  /** Without `$`. */
  readonly operators: readonly string[]
}

interface Piece {
  readonly door: keyof typeof DOORS
  readonly column: Column
  readonly operator: string
  /** JSON text: it may be a number that JavaScript would change. */
  readonly value: string
  readonly isAdmin: boolean
}

/** A table with a column of each type that one can have, of PostgreSQL and of its extensions. */
async function makeTable(server: TestServer): Promise<readonly Column[]> {
  const client = new pg.Client({ connectionString: server.databaseUrl })
  await client.connect()
  const types = new Map<string, string>()
  try {
    await client.query(`create type mood as enum ('calm', 'wild'); create type pair as (a int, b text);
      create domain positive as int check (value > 0); create domain word as text check (value ~ '^[a-z]+$');
      create domain few as int[] check (cardinality(value) < 3); create type floats as range (subtype = float8)`)
    const { rows: extensions } = await client.query<{ name: string }>('select name from pg_available_extensions')
    // Some need a language or a library that is not there.
    for (const { name } of extensions)
      await client.query(`create extension if not exists "${name}" cascade`).catch(() => {})
    const { rows } = await client.query<{ type: string }>(`
      select format_type(t.oid, null) as type from pg_type t left join pg_class c on c.oid = t.typrelid
      where t.typtype <> 'p' and t.typname !~ '^_?svc_' and t.typnamespace::regnamespace::text in ('pg_catalog', 'public')
        and coalesce(c.relkind, 'c') = 'c'
        and not exists (select from pg_type e join pg_class c on c.oid = e.typrelid where e.oid = t.typelem and c.relkind <> 'c')
      order by 1`)
    await client.query('create table rubbish (id int primary key)')
    for (const [i, { type }] of rows.entries()) {
      const made = await client.query(`alter table rubbish add column c${i} ${type}`).then(
        () => true,
        () => false,
      )
      if (made) types.set(`c${i}`, type)
    }
    const { tables } = await introspect(client, [{ schema: 'public', name: 'rubbish' }])
    await client.query('insert into rubbish (id) values (1)')
    const [table] = tables.values()
    const columns = table!.columns
      .filter(({ name }) => name !== 'id')
      .map(({ name, type }) => ({
        name,
        type: types.get(name)!,
        operators: operatorsOn(type).map(([operator]) => operator),
      }))
    await expose(server, columns)
    return columns
  } finally {
    await client.end()
  }
}

const named = (parameter: string) => ({ param: parameter })

async function expose(server: TestServer, columns: readonly Column[]): Promise<void> {
  const columnsAnd = (more: object) => ({ columns: '*', ...more })
  const allowed = {
    select: columnsAnd({ filter: {} }),
    insert: columnsAnd({ check: {} }),
    update: columnsAnd({ filter: {} }),
    delete: { filter: {} },
  }
  await server.must('bulk', [
    { type: 'track_table', args: 'rubbish' },
    ...Object.entries(allowed).map(([action, permission]) => ({
      type: `create_${action}_permission`,
      args: { table: 'rubbish', role: 'user', permission },
    })),
    ...columns
      .filter(({ operators }) => operators.includes('eq'))
      .map(({ name }) => ({
        type: 'create_select_permission',
        args: {
          table: 'rubbish',
          role: name,
          permission: { columns: ['id'], filter: { [name]: { $eq: 'X-Service-Value' } } },
        },
      })),
    ...columns.map(({ name, operators }) => ({
      type: 'create_query_template',
      args: {
        name,
        template: operators.includes('eq')
          ? { type: 'select', args: { table: 'rubbish', columns: ['id'], where: { [name]: { $eq: named('value') } } } }
          : { type: 'update', args: { table: 'rubbish', where: { id: 1 }, $set: { [name]: named('value') } } },
      },
    })),
  ])
}

type Door = (server: TestServer, piece: Piece) => Promise<Answered>

const as = ({ isAdmin }: Piece): As => (isAdmin ? {} : { role: 'user' })
/** As text, for values that JavaScript would change. */
const query = (type: string, args: (piece: Piece) => string): Door => {
  return (server, piece) => server.raw(`{"type":"${type}","args":{"table":"rubbish",${args(piece)}}}`, as(piece))
}
const where = ({ column, operator, value }: Piece): string => `"where":{"${column.name}":{"$${operator}":${value}}}`
const document = (path: string, text: (piece: Piece) => string, variables: (piece: Piece) => string): Door => {
  return async (server, piece) => {
    const body = `{"query":${JSON.stringify(text(piece))},"variables":${variables(piece)}}`
    return server.fetch(path, { method: 'POST', body }, as(piece))
  }
}
const MODERN = '/v1/graphql'
const ALPHA = '/v1alpha1/graphql'
const filter = ({ column, operator, value }: Piece): string => `{"w":{"${column.name}":{"_${operator}":${value}}}}`
const object = ({ column, value }: Piece): string => `{"o":[{"id":2,"${column.name}":${value}}]}`

const DOORS = {
  select: query('select', (piece) => `"columns":["id"],${where(piece)}`),
  count: query('count', where),
  delete: query('delete', where),
  insert: query('insert', ({ column, value }) => `"objects":[{"id":2,"${column.name}":${value}}]`),
  set: query('update', ({ column, value }) => `"where":{"id":1},"$set":{"${column.name}":${value}}`),
  inc: query('update', ({ column, value }) => `"where":{"id":1},"$inc":{"${column.name}":${value}}`),
  mul: query('update', ({ column, value }) => `"where":{"id":1},"$mul":{"${column.name}":${value}}`),
  template: async (server, piece) => {
    const args = `{"name":"${piece.column.name}","args":{"value":${piece.value}}}`
    return server.raw(`{"type":"execute_query_template","args":${args}}`, as(piece))
  },
  rest: async (server, piece) => {
    const body = `{"value":${piece.value}}`
    return server.fetch(`/v1/template/${piece.column.name}`, { method: 'POST', body }, as(piece))
  },
  modernWhere: document(MODERN, () => 'query q($w: rubbish_bool_exp) { rubbish(where: $w) { id } }', filter),
  modernInsert: document(
    MODERN,
    () => 'mutation m($o: [rubbish_insert_input!]!) { insert_rubbish(objects: $o) { affected_rows } }',
    object,
  ),
  alphaWhere: document(ALPHA, () => 'query q($w: rubbish_bool_exp) { rubbish(where: $w) { id } }', filter),
  alphaInsert: document(
    ALPHA,
    () => 'mutation m($o: [rubbish_input!]!) { insert_rubbish(objects: $o) { affected_rows } }',
    object,
  ),
  session: async (server, { column, value }) => {
    const variables = { 'x-service-value': headerOf(value) }
    return server.query('select', { table: 'rubbish', columns: ['id'] }, { role: column.name, variables })
  },
} satisfies Record<string, Door>

/** A header holds printable ASCII, and not much of it. */
const headerOf = (value: string): string =>
  value
    .replace(/^"|"$/g, '')
    .replaceAll(/[^ -~]/g, '?')
    .slice(0, 4000)
    .trim()

/** Where a value of the JSON API is; undefined: it has no path of its own. */
function pathOf({ door, column, operator }: Piece): string | undefined {
  switch (door) {
    case 'select':
    case 'count':
    case 'delete':
      return `$.args.where.${column.name}.$${operator}`
    case 'insert':
      return `$.args.objects[0].${column.name}`
    case 'set':
    case 'inc':
    case 'mul':
      return `$.args.$${door}.${column.name}`
    case 'template':
      return '$.args.args.value'
    case 'rest':
    case 'session':
    case 'modernWhere':
    case 'modernInsert':
    case 'alphaWhere':
    case 'alphaInsert':
      return undefined
  }
}

function judge(piece: Piece, { status, text, body }: Answered): string | undefined {
  if (status >= 500) return `status ${status}`
  if (status === 200) return text.includes('"code":"unexpected"') ? 'an internal error' : undefined
  const path = pathOf(piece)
  if (path === undefined) return undefined
  const said = body?.path
  // An element of a list, or a part of an object, is below.
  const fits = typeof said === 'string' && (path.startsWith(said) || said.startsWith(path) || isOfTemplate(said))
  return fits ? undefined : `path ${said}, not at or above ${path}`
}

/** What is not said of an argument is said of the template. */
const isOfTemplate = (path: string): boolean => path.startsWith('$.args.template.')

const TEXTS: readonly string[] = [
  ['', ' ', 'a', '1', '-1', '-0', '0', '1.5', '1e400', '1e131073', 'NaN', 'nan', 'Infinity', '-infinity', 'true', 't'],
  [
    'now',
    'epoch',
    'allballs',
    '2020-13-45',
    '294277-01-01',
    '4714-01-01 BC',
    '25:00',
    '1 decade',
    'P1Y',
    '@',
    '24:00:01',
  ],
  ['{', '}', '{}', '{{}}', '{{1},{2,3}}', '{1,NULL}', '[2:1]={}', '[1:2]={1}', '[-2147483648:2147483647]={1}', '{"'],
  ['(', '(1', '(1,', '(1,2)', '(1,2),(3,4)', '((1,2),3)', '<(1,2),-3>', '[1,2', '[1,2)', '[2,1)', 'empty', '{[1,2),[3'],
  [
    'public',
    'pg_catalog.pg_class',
    'no.such',
    'a.b.c.d.e',
    'int4(',
    '+(int4,int4)',
    'lower(text)',
    '"',
    '""',
    '"a',
    '-',
  ],
  ["a'", "'a':1 &", 'a & b', 'a &', '!', '!!', '(a', 'a <-> b', 'a:*', 'a => b', 'a=>', '"a"=>"b', 'a.b', 'a..b', '.a'],
  [
    '$',
    '$.',
    '$.a ? (@ > 1)',
    '$[*',
    'lax',
    '*{1',
    '*{99999}',
    'a|b',
    '@',
    '1 .. 2',
    '~1',
    '<1',
    '1(+-)2',
    '1 (',
    '1&',
  ],
  [
    '::',
    '::1/129',
    '1.2.3.4/33',
    '08:00:2b',
    '10101',
    '012',
    'x1F',
    '\\x0',
    '\\xzz',
    '\\',
    '\\000',
    '1/',
    '1:1:1',
    '1:2:x',
  ],
  [
    '978-0-393-04002-9',
    '0000000000000',
    '1234-5678',
    'M-1',
    '<a',
    '<a>',
    '<?',
    '<a/>',
    '{"a"',
    '[1,',
    '$1',
    '1,000',
    '(0,99999999999)',
  ],
  [
    'calm',
    'angry',
    '%',
    '%\\',
    '*',
    '(?',
    'a{99999}',
    '[',
    '[[:x:]]',
    '\u00e9',
    '\u{1F600}',
    '\u202e',
    '\u0001',
    '\t\n',
  ],
  ['2147483648', '-2147483649', '9223372036854775808', '18446744073709551616', '4294967296', '1_000', '0x1F', '0o8'],
].flat()

const JSONS: readonly string[] = [
  ['null', 'true', 'false', '0', '-0', '1', '-1', '1.5', '1e400', '-1e400', '1e-400', '32768', '2147483648'],
  ['9223372036854775808', '18446744073709551616', '9'.repeat(400), '1e131072', '[]', '{}', '[[]]', '[null]', '[{}]'],
  [
    '[1,"a",null,true]',
    '[[1],[2,3]]',
    '[[[[[[[1]]]]]]]',
    '{"a":1}',
    '{"":null}',
    '{"a":"x","b":[1]}',
    '{"type":"Point"}',
  ],
  ['["{"]', '["now"]', '[[["x"]]]', '["a","b","c","d"]', '[1,2,3]', '[1e400]', '{"a":{"b":{"c":[]}}}'],
].flat()

const text = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...TEXTS) },
  {
    weight: 3,
    arbitrary: fc.tuple(fc.constantFrom(...TEXTS), fc.constantFrom(...TEXTS)).map((parts) => parts.join('')),
  },
  // NUL and half surrogates are refused before they come to a type.
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 20 }).map((each) => each.replaceAll('\0', '')) },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...TEXTS), fc.constantFrom(100, 3000, 70_000)).map(longOf) },
)
function longOf([part, length]: readonly [string, number]): string {
  return (part === '' ? 'x' : part).repeat(length / Math.max(1, part.length))
}

const value = fc.oneof(
  { weight: 5, arbitrary: text.map((each) => JSON.stringify(each)) },
  { weight: 2, arbitrary: fc.constantFrom(...JSONS) },
  { weight: 2, arbitrary: fc.array(text, { maxLength: 3 }).map((list) => JSON.stringify(list)) },
  { weight: 1, arbitrary: fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(String) },
  { weight: 1, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }).map((each) => JSON.stringify(each)) },
)

function pieceOf(columns: readonly Column[]): fc.Arbitrary<Piece> {
  const doors = Object.keys(DOORS) as (keyof typeof DOORS)[]
  return fc
    .record({
      door: fc.constantFrom(...doors),
      column: fc.constantFrom(...columns),
      dice: fc.nat(),
      value,
      isAdmin: fc.boolean(),
    })
    .map(({ dice, ...piece }) => {
      const { operators } = piece.column
      return { ...piece, operator: operators[dice % operators.length] ?? 'eq' }
    })
}
