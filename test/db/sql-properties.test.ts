import pg from 'pg'
import t from 'tap'
import { openCatalog } from '../../core/catalog/catalog.js'
import { inTransaction } from '../../core/db/database.js'
import { readCatalog } from '../../core/metadata/change.js'
import { compile } from '../../core/compile/compile.js'
import { type Json, parseJson } from '../../core/json/parse.js'
import { bind } from '../../core/sql/bind.js'
import { liftCount, liftSelect } from '../../plugins/query/rows/lift/reads.js'
import { liftDelete, liftInsert, liftUpdate } from '../../plugins/query/rows/lift/writes.js'
import plan from '../../plugins/query/rows/plan.js'
import fc, { cases } from '../kit/property.js'
import { testServer } from '../kit/server.js'

/** Names that would be SQL, JavaScript or our own syntax if anything took them for it. */
const HOSTILE = [
  'a"; drop table x; --',
  "it's",
  '__proto__',
  'constructor',
  '$eq',
  '_eq',
  'a.b',
  'back\\slash',
  'x',
  't0',
  'c0',
  'ord',
  'excluded',
  'select',
  '*',
  ' ',
  '$1',
  'naïve 表 🏠',
  'n'.repeat(63),
]

t.test('names of any kind are names and nothing else', async (t) => {
  const server = await testServer(t)
  const ident = (name: string) => `"${name.replaceAll('"', '""')}"`
  for (const [i, name] of HOSTILE.entries()) {
    const column = HOSTILE[(i + 5) % HOSTILE.length] as string
    const table = ident(name)
    await server.must('run_sql', {
      sql: `create table ${table} (id int primary key, ${ident(column)} text, up int references ${table})`,
    })
    const manual = { remote_table: name, column_mapping: { up: 'id' } }
    const relation = HOSTILE[(i + 9) % HOSTILE.length] as string
    const bulk = await server.query('bulk', [
      { type: 'track_table', args: name },
      {
        type: 'create_object_relationship',
        args: { table: name, name: relation, using: { manual_configuration: manual } },
      },
      {
        type: 'create_select_permission',
        args: {
          table: name,
          role: 'user',
          permission: { columns: '*', filter: { $or: [{ [column]: { $ne: 'hidden' } }] } },
        },
      },
      {
        type: 'create_insert_permission',
        args: {
          table: name,
          role: 'user',
          permission: { check: { $and: [{ [relation]: { id: 1 } }] }, allow_upsert: true },
        },
      },
    ])
    t.equal(bulk.status, 200, bulk.text)
    // A key such as `*` or one with a dot means something else in a list of columns; such columns are reached by `*`.
    const plain = !column.startsWith('*')
    await server.must('insert', {
      table: name,
      objects: [
        { id: 1, [column]: 'v' },
        { id: 2, [column]: name, up: 1 },
      ],
    })
    for (const as of [{}, { role: 'user' }]) {
      const asked = await server.query(
        'select',
        {
          table: name,
          columns: ['id', ...(plain ? [column] : []), { name: relation, alias: 'other', columns: ['*'] }],
          where: { $and: [{ [column]: { $ne: 'nothing' } }, { $or: [{ [relation]: { $and: [{ [column]: 'v' }] } }] }] },
          order_by: [{ column: [relation, column] }, { column: ['id'] }],
        },
        as,
      )
      const expected = [{ id: 2, ...(plain ? { [column]: name } : {}), other: { id: 1, [column]: 'v', up: null } }]
      t.equal(asked.status, 200, asked.text)
      t.same(JSON.parse(asked.text), JSON.parse(JSON.stringify(expected)))
    }
    const upsert = await server.query(
      'insert',
      {
        table: name,
        objects: [
          { id: 3, [column]: '3', up: 1 },
          { id: 4, up: 1 },
        ],
        returning: ['id'],
        on_conflict: { action: 'ignore', constraint_on: 'id' },
      },
      { role: 'user' },
    )
    t.same(
      upsert.body,
      { affected_rows: 2, returning: [{ id: 3 }] },
      'a row without the column is null there, which the filter hides',
    )
    const updated = await server.query('update', { table: name, where: { id: 1 }, $set: { [column]: null } })
    t.same(updated.body, { affected_rows: 1 }, updated.text)
  }
})

const LIFT = {
  select: (args: Json) => liftSelect(args),
  count: (args: Json) => liftCount(args),
  insert: (args: Json) => liftInsert(args),
  update: (args: Json) => liftUpdate(args),
  delete: (args: Json) => liftDelete(args),
}

t.test('values never change the text of a statement, and never stand in it', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table w (id int primary key, s text, j jsonb, up int references w)' })
  await server.must('bulk', [
    { type: 'track_table', args: 'w' },
    {
      type: 'create_object_relationship',
      args: { table: 'w', name: 'parent', using: { foreign_key_constraint_on: 'up' } },
    },
    {
      type: 'create_select_permission',
      args: { table: 'w', role: 'user', permission: { columns: '*', filter: { s: 'marker-of-a-permission' } } },
    },
  ])
  const client = new pg.Client({ connectionString: server.databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  const catalog = openCatalog(await inTransaction(client, () => readCatalog(client)))
  const compiled = (type: keyof typeof LIFT, args: object, role: string) => {
    const request = parseJson(JSON.stringify(args), undefined, /^\/objects$/)
    const { shape, values } = LIFT[type](request)
    return { values, ...compile({ planner: 'query', shape, role, form: 'array' }, plan as never, catalog) }
  }

  const text = fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 20 })
  const marker = fc.stringMatching(/^[a-z0-9']{16}$/)
  /** A request whose values are the four texts and the number. */
  const request = fc.constantFrom<readonly [keyof typeof LIFT, (s: readonly string[], n: number) => object]>(
    [
      'select',
      (s, n) => ({
        table: 'w',
        columns: ['id'],
        where: { s: s[0], $or: [{ parent: { s: { $in: [s[1], s[2]] } } }, { j: { $contains: { k: s[3] } } }] },
        limit: n,
        offset: n,
      }),
    ],
    [
      'select',
      (s, n) => ({
        table: 'w',
        columns: [{ name: 'parent', columns: ['*'] }],
        where: { $not: { s: { $like: `${s[0]}%` } }, id: { $gt: n }, j: { $has_keys_any: [s[1]] } },
      }),
    ],
    ['count', (s) => ({ table: 'w', where: { s: { $regex: s[0], $nin: [s[1]] } }, distinct: ['s'] })],
    [
      'insert',
      (s, n) => ({ table: 'w', objects: [{ id: n, s: s[0], j: { [s[1] as string]: s[2] } }], returning: ['id'] }),
    ],
    ['update', (s, n) => ({ table: 'w', where: { s: s[0] }, $set: { s: s[1], j: [s[2], s[3]] }, $inc: { up: n } })],
    ['delete', (s, n) => ({ table: 'w', where: { id: n, s: { $ilike: `${s[0]}_` } }, returning: ['s'] })],
  )
  const four = <T>(of: fc.Arbitrary<T>) => fc.tuple(of, of, of, of)

  await t.test('shape: other values, the same text', (t) => {
    fc.assert(
      fc.property(request, four(text), four(text), fc.nat(1000), fc.nat(1000), ([type, make], one, two, m, n) => {
        const texts = (s: readonly string[], number: number) =>
          compiled(type, make(s, number), 'admin').statements.map((each) => each.text)
        return JSON.stringify(texts(one, m)) === JSON.stringify(texts(two, n))
      }),
      { numRuns: cases(2000) },
    )
    t.end()
  })

  await t.test('canary: no marker in a text, not even that of a permission', (t) => {
    fc.assert(
      fc.property(request, four(marker), fc.constantFrom('admin', 'user'), ([type, make], markers, role) => {
        if (role === 'user' && type !== 'select' && type !== 'count') return true
        const all = compiled(type, make(markers, 1), role)
          .statements.map((each) => each.text)
          .join()
        return ![...markers, 'marker-of-a-permission'].some((each) => all.includes(each))
      }),
      { numRuns: cases(2000) },
    )
    t.end()
  })

  await t.test('execution: any text is data', async () => {
    await fc.assert(
      fc.asyncProperty(request, four(fc.string({ maxLength: 30 })), fc.nat(1000), async ([type, make], texts, n) => {
        const safe = texts.map((each) => each.replaceAll('\0', ''))
        const { statements, values } = compiled(type, make(safe, n), 'admin')
        for (const statement of statements) {
          const bound = bind(statement.params, { values, variables: new Map() })
          const state = await client
            .query(`explain ${statement.text}`, bound)
            .then(() => '00000')
            .catch((error: pg.DatabaseError) => error.code ?? 'none')
          // Only data errors (class 22, such as a bad regular expression).
          if (state !== '00000' && !state.startsWith('22')) throw new Error(`${state}: ${statement.text}`)
        }
      }),
      { numRuns: cases(500) },
    )
  })
})

t.test('a column that a role may not see is not mistaken for a related row, whatever its name', async (t) => {
  const server = await testServer(t)
  const names = ['x', 'xx', 'r', 't0', 't1', 'c0', 'a', 'g', 'l0', 'k0', 'w']
  await server.must('run_sql', {
    sql: `create table node (id int primary key, up int references node, ${names.map((name) => `${name} text default 'hidden'`).join(', ')});
      insert into node (id, up) values (1, null), (2, 1), (3, 1)`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'node' },
    {
      type: 'create_object_relationship',
      args: { table: 'node', name: 'parent', using: { foreign_key_constraint_on: 'up' } },
    },
    {
      type: 'create_array_relationship',
      args: { table: 'node', name: 'below', using: { foreign_key_constraint_on: { table: 'node', column: 'up' } } },
    },
    {
      type: 'create_select_permission',
      args: { table: 'node', role: 'user', permission: { columns: ['id'], filter: {}, allow_aggregations: true } },
    },
  ])
  const below = { name: 'below', columns: ['id', { name: 'parent', columns: ['id'] }], order_by: ['id'] }
  const columns = ['id', { name: 'parent', columns: ['id', below] }, below]
  const inner = [2, 3].map((id) => ({ id, parent: { id: 1 } }))
  const expected = { id: 2, parent: { id: 1, below: inner }, below: [] }
  for (const as of [{}, { role: 'user' }]) {
    const asked = await server.query('select', { table: 'node', columns, where: { id: 2 } }, as)
    t.same(asked.body, [expected])
    const nested =
      'id parent { id below(order_by: {id: asc}) { id parent { id } } } below(order_by: {id: asc}) { id parent { id } }'
    const query = `{ node(where: {id: {_eq: 2}}) { ${nested} } node_by_pk(id: 1) { below_aggregate(order_by: {id: asc}) { aggregate { count max { id } } nodes { id parent { id } } } } }`
    const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, as)
    t.same(body.data, {
      node: [expected],
      node_by_pk: { below_aggregate: { aggregate: { count: 2, max: { id: 3 } }, nodes: inner } },
    })
  }
})
