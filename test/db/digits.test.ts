import pg from 'pg'
import t from 'tap'
import { stringifyJson, NumberText, type Json } from '../../core/json/parse.js'
import fc, { cases } from '../kit/property.js'
import { type As, testServer } from '../kit/server.js'

/** The numbers of a row, as they are written. */
interface Numbers {
  readonly b: string
  readonly n: string
  readonly f: string
  /** The number in an object of jsonb. */
  readonly j: string
  /** The number in an array. */
  readonly a: string
}

const decimal = fc.stringMatching(/^-?(0|[1-9]\d{0,25})(\.\d{1,12})?$/).filter((text) => !/^-0(\.0*)?$/.test(text))
const numbers: fc.Arbitrary<Numbers> = fc.record({
  b: fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String),
  n: decimal,
  f: fc.double({ noDefaultInfinity: true, noNaN: true }).map((value) => JSON.stringify(value)),
  j: decimal,
  a: decimal,
})

const USER: As = { role: 'user' }

t.test('a number has all its digits, through whatever door it comes', async (t) => {
  const server = await testServer(t)
  const database = new pg.Client({ connectionString: server.databaseUrl })
  await database.connect()
  t.teardown(() => database.end())
  await server.sql(
    `create table v (id serial primary key, b int8, n numeric, f float8, j jsonb, a numeric[], of int references v)`,
  )
  const own = ['b', 'n', 'f', 'j', 'a'].map((name) => [name, { param: name }])
  const objects = { param: 'objects' }
  await server.must('bulk', [
    { type: 'track_table', args: 'v' },
    {
      type: 'create_array_relationship',
      args: { table: 'v', name: 'vs', using: { foreign_key_constraint_on: { table: 'v', column: 'of' } } },
    },
    { type: 'create_select_permission', args: { table: 'v', role: 'user', permission: { columns: '*', filter: {} } } },
    ...Object.entries({
      add: { type: 'insert', args: { table: 'v', objects } },
      change: { type: 'update', args: { table: 'v', where: {}, $set: Object.fromEntries(own) } },
    }).map(([name, template]) => ({ type: 'create_query_template', args: { name, template } })),
  ])

  const json = ({ b, n, f, j, a }: Numbers) => `{"b":${b},"n":${n},"f":${f},"j":{"x":${j}},"a":[${a}]}`
  const literal = ({ b, n, f, j, a }: Numbers) => `b: ${b}, n: ${n}, f: ${f}, j: {x: ${j}}, a: [${a}]`
  const post = async (path: string, body: string, as?: As) => {
    const answer = await server.fetch(path, { method: 'POST', body }, as)
    if (answer.status !== 200 || answer.body?.errors) throw new Error(`${path} ${body}: ${answer.text}`)
  }
  const mutate = (document: string, variables = '{}', path = '/v1/graphql') =>
    post(path, `{"query":${JSON.stringify(`mutation ${document}`)},"variables":${variables}}`)
  const query = (type: string, args: string, as?: As) => post('/v1/query', `{"type":"${type}","args":${args}}`, as)
  const types = '$b: bigint, $n: numeric, $f: float8, $j: jsonb, $a: [numeric!]'
  const given = 'b: $b, n: $n, f: $f, j: $j, a: $a'
  const defaults = ({ b, n, f, j, a }: Numbers) =>
    `$b: bigint = ${b}, $n: numeric = ${n}, $f: float8 = ${f}, $j: jsonb = {x: ${j}}, $a: [numeric!] = [${a}]`
  const EMPTY = 'insert into v default values'
  const constants = (v: Numbers): Json => ({
    b: new NumberText(v.b),
    n: new NumberText(v.n),
    f: new NumberText(v.f),
    j: { x: new NumberText(v.j) },
    a: [new NumberText(v.a)],
  })

  /** Each leaves one row with the numbers. */
  const DOORS: Readonly<Record<string, (v: Numbers) => Promise<unknown>>> = {
    'insert of literals': (v) => mutate(`{ insert_v(objects: [{${literal(v)}}]) { affected_rows } }`),
    'insert of one': (v) => mutate(`{ insert_v_one(object: {${literal(v)}}) { id } }`),
    'insert, older dialect': (v) =>
      mutate(`{ insert_v(objects: [{${literal(v)}}]) { affected_rows } }`, '{}', '/v1alpha1/graphql'),
    'insert of a row as a variable': (v) =>
      mutate('($o: v_insert_input!) { insert_v_one(object: $o) { id } }', `{"o":${json(v)}}`),
    'insert of variables': (v) => mutate(`(${types}) { insert_v_one(object: {${given}}) { id } }`, json(v)),
    'insert of defaults': (v) => mutate(`(${defaults(v)}) { insert_v_one(object: {${given}}) { id } }`),
    'a default row': (v) => mutate(`($o: v_insert_input! = {${literal(v)}}) { insert_v_one(object: $o) { id } }`),
    'upsert of literals': (v) =>
      mutate(
        `{ insert_v_one(object: {id: 1, ${literal(v)}}, on_conflict: {constraint: v_pkey, update_columns: [b, n, f, j, a]}) { id } }`,
      ),
    'nested insert of literals': async (v) => {
      await mutate(`{ insert_v_one(object: {b: 1, vs: {data: [{${literal(v)}}]}}) { id } }`)
      await database.query('update v set of = null; delete from v where n is null')
    },
    'update by literals': async (v) => {
      await database.query(EMPTY)
      await mutate(`{ update_v(where: {}, _set: {${literal(v)}}) { affected_rows } }`)
    },
    'update by defaults': async (v) => {
      await database.query(EMPTY)
      await mutate(`(${defaults(v)}) { update_v(where: {}, _set: {${given}}) { affected_rows } }`)
    },
    'several updates': async (v) => {
      await database.query(EMPTY)
      await mutate(`{ update_v_many(updates: [{where: {}, _set: {${literal(v)}}}]) { affected_rows } }`)
    },
    'JSON insert': (v) => query('insert', `{"table":"v","objects":[${json(v)}]}`),
    'JSON update': async (v) => {
      await database.query(EMPTY)
      await query('update', `{"table":"v","where":{},"$set":${json(v)}}`)
    },
    'rows of a template': (v) => post('/v1/template/add', `{"objects":[${json(v)}]}`),
    'values of a template': async (v) => {
      await database.query(EMPTY)
      await post('/v1/template/change', json(v))
    },
    'presets of a permission': async (v) => {
      const permission = { set: constants(v), check: {}, columns: ['id'] } as unknown as Json
      const args = stringifyJson({ table: 'v', role: 'user', permission })
      await query('create_insert_permission', args)
      try {
        await query('insert', '{"table":"v","objects":[{"id":1}]}', USER)
      } finally {
        await server.must('drop_insert_permission', { table: 'v', role: 'user' })
      }
    },
  }

  for (const [name, door] of Object.entries(DOORS)) {
    await t.test(name, async () => {
      // Changes of metadata take longer.
      const count = name.startsWith('presets') ? 20 : 100
      await fc.assert(
        fc.asyncProperty(numbers, async (v) => {
          await database.query('truncate v restart identity')
          await door(v)
          const { rows } = await database.query(
            `select b::text, n::text, f::text, j->>'x' as j, a[1]::text as a, array_length(a, 1) as length from v`,
          )
          const [row] = rows
          const same = rows.length === 1 && row.b === v.b && row.n === v.n && Number(row.f) === Number(v.f)
          if (!same || row.j !== v.j || row.a !== v.a || row.length !== 1)
            throw new Error(`${JSON.stringify(v)} became ${JSON.stringify(rows)}`)
        }),
        { numRuns: cases(count) },
      )
    })
  }
})
