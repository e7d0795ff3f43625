import { buildClientSchema, buildSchema, getIntrospectionQuery, validateSchema } from 'graphql'
import t from 'tap'
import { testServer, type TestServer } from '../kit/server.js'

/** Names that SQL, JavaScript, JSON or GraphQL could take for something of its own. */
const HOSTILE = [
  'a"; drop table x; --',
  "it's",
  'back\\slash',
  'a.b',
  '$1',
  '$eq',
  '_eq',
  '_or',
  '_empty',
  ' ',
  '*',
  'line\nbreak',
  'naïve 表 🏠',
  'n'.repeat(63),
  '1st',
  '{"param": "x"}',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'select',
  'user',
  'null',
  'true',
  'on',
  'x',
  't0',
  'c0',
  'excluded',
  'where',
  'limit',
  'objects',
  'param',
  'returning',
  'count',
  'aggregate',
  'nodes',
  'data',
  '__typename',
  '__schema',
  '__x',
  'query_root',
  'mutation_root',
  'order_by',
  'Int',
  'String',
  'bigint',
  'jsonb',
  'String_comparison_exp',
  'text_comparison_exp',
  'integer_comparison_exp',
  'Int_array_comparison_exp',
  'x_bool_exp',
  'x_input',
  'x_aggregate',
  'x_aggregate_bool_exp',
  'x_aggregate_bool_exp_count',
  'x_aggregate_order_by',
  'x_max_fields',
  'x_max_order_by',
  'x_sum_fields',
  'x_append_input',
  'x_delete_key_input',
  'x_select_column_x_aggregate_bool_exp_bool_and_arguments_columns',
  'x_scalar',
  'insert_x',
  'insert_x_one',
  'x_by_pk',
  'update_x_many',
]
const GRAPHQL = /^(?!__)[_A-Za-z]\w*$/

interface Names {
  readonly table: string
  readonly column: string
  readonly relation: string
}
const at = (i: number): string => HOSTILE[i % HOSTILE.length] as string
const ALL: readonly Names[] = HOSTILE.map((table, i) => ({ table, column: at(i + 5), relation: at(i + 23) }))
const own = (object: object, key: string): unknown => Object.getOwnPropertyDescriptor(object, key)?.value
const object = (...entries: readonly (readonly [string, unknown])[]): object => {
  const made: object = Object.create(null)
  for (const [key, value] of entries) Object.defineProperty(made, key, { value, enumerable: true })
  return made
}

t.test('hostile names work at every door, or are left out', async (t) => {
  const server = await testServer(t)
  const ident = (name: string) => `"${name.replaceAll('"', '""')}"`
  await server.must('run_sql', {
    sql: ALL.map(
      ({ table, column }) =>
        `create table ${ident(table)} (id int primary key, ${ident(column)} text, flag bool, extra jsonb, up int references ${ident(table)})`,
    ).join(';'),
  })
  await server.must(
    'bulk',
    ALL.flatMap(({ table, relation }) => [
      { type: 'track_table', args: table },
      {
        type: 'create_object_relationship',
        args: {
          table,
          name: relation,
          using: { manual_configuration: { remote_table: table, column_mapping: { up: 'id' } } },
        },
      },
      {
        type: 'create_array_relationship',
        args: {
          table,
          name: `${relation}_all`.slice(-63),
          using: { manual_configuration: { remote_table: table, column_mapping: { id: 'up' } } },
        },
      },
    ]),
  )

  await t.test('templates', async (t) => {
    for (const { table, column, relation } of ALL) {
      // In a condition these are not names.
      if ([column, relation].some((name) => /^_or$/.test(name))) continue
      const template = {
        type: 'bulk',
        args: [
          { type: 'insert', args: { table, objects: { param: 'the rows' } } },
          { type: 'update', args: { table, where: { id: 1 }, $set: object([column, { param: column }]) } },
          {
            type: 'select',
            args: {
              table,
              columns: ['id', { name: relation, alias: 'other', columns: ['*'] }],
              where: {
                $and: [
                  object([column, { $eq: { param: table } }]),
                  object([relation, { id: { $eq: { param: relation, default: 1 } } }]),
                ],
              },
            },
          },
          { type: 'delete', args: { table, where: object([column, { $in: [{ param: table }, { param: column }] }]) } },
        ],
      }
      const made = await server.query('create_query_template', { name: table, template })
      t.equal(made.status, 200, `${table}: ${made.text}`)
      const objects = [object(['id', 1]), object(['id', 2], [column, 'v'], ['up', 1])]
      const body = JSON.stringify(object(['the rows', objects], [table, 'v'], [column, column === table ? 'v' : 'w']))
      const answer = await server.fetch(`/v1/template/${encodeURIComponent(table)}`, { method: 'POST', body })
      t.equal(answer.status, 200, `${table}: ${answer.text}`)
      const [, , rows, gone] = answer.body ?? []
      t.same(
        [rows?.[0]?.id, own(rows?.[0]?.other ?? {}, column), gone],
        [2, column === table ? 'v' : 'w', { affected_rows: 2 }],
        table,
      )
    }
  })

  for (const dialect of ['modern', 'alpha'] as const) {
    await t.test(`the ${dialect} dialect`, async (t) => {
      const seen = await tablesOf(server, dialect)
      t.same(seen.faults, [], 'its schema is valid')
      const left = ALL.filter(({ table }) => !seen.tables.has(table)).map(({ table }) => table)
      t.comment(`left out: ${left.filter((name) => GRAPHQL.test(name)).join(', ')}`)
      t.notOk([...seen.tables.keys()].find((name) => !GRAPHQL.test(name)))
      for (const name of ['select', 'constructor', 'toString', 'where', 'true', 't0']) t.ok(seen.tables.has(name), name)
      for (const names of ALL) {
        const fields = seen.tables.get(names.table)
        if (fields) await roundTrip(t, server, dialect, names, fields)
        else if (GRAPHQL.test(names.table)) {
          const { body } = await ask(server, dialect, `{ a: ${names.table} { __typename } }`)
          t.equal(body.data, undefined, names.table)
          t.equal(body.errors[0].extensions.code, 'validation-failed', names.table)
        }
      }
    })
  }
  t.equal((await server.query('run_sql', { sql: 'select 1' })).status, 200, 'and nothing is broken')
})

const ask = (server: TestServer, dialect: 'modern' | 'alpha', query: string, variables?: object) =>
  server.fetch(dialect === 'modern' ? '/v1/graphql' : '/v1alpha1/graphql', {
    method: 'POST',
    body: JSON.stringify({ query, variables }),
  })

async function introspected(server: TestServer) {
  const { body, text } = await ask(server, 'modern', getIntrospectionQuery())
  if (!body?.data) throw new Error(text)
  return buildClientSchema(body.data)
}

/** The tables that a dialect shows, with the fields of their types, and what is wrong with its schema. */
async function tablesOf(server: TestServer, dialect: 'modern' | 'alpha') {
  const schema =
    dialect === 'modern'
      ? await introspected(server)
      : buildSchema((await server.fetch('/v1alpha1/graphql/schema')).body.schema)
  const roots = schema.getQueryType()?.getFields() ?? {}
  const tables = new Map<string, ReadonlySet<string>>()
  for (const name of Object.keys(roots)) {
    const type = schema.getType(name)
    if (type && 'getFields' in type) tables.set(name, new Set(Object.keys(type.getFields())))
  }
  return { tables, faults: validateSchema(schema).map(({ message }) => message) }
}

interface Assert {
  same(found: unknown, wanted: unknown, name: string): unknown
}

/** Inserts, reads, changes and deletes rows of a table, by its columns and relationships. */
async function roundTrip(
  t: Assert,
  server: TestServer,
  dialect: 'modern' | 'alpha',
  { table, column, relation }: Names,
  fields: ReadonlySet<string>,
): Promise<void> {
  const modern = dialect === 'modern'
  const input = `${table}_${modern ? 'insert_input' : 'input'}`
  const isColumn = GRAPHQL.test(column) && fields.has(column)
  const isRelation = GRAPHQL.test(relation) && fields.has(relation) && relation !== column
  const text = isColumn ? column : 'id'
  const data = async (query: string, variables?: object): Promise<unknown> => {
    const answer = await ask(server, dialect, query, variables)
    return answer.body?.data ?? { failed: answer.text, query }
  }
  const rows = [object(['id', 1], ...(isColumn ? ([[column, 'a']] as const) : [])), object(['id', 2], ['up', 1])]
  t.same(
    await data(`mutation ($o: [${input}!]!) { i: insert_${table}(objects: $o) { affected_rows } }`, { o: rows }),
    { i: { affected_rows: 2 } },
    `${dialect} insert ${table}`,
  )
  const order = modern
    ? `{id: asc, ${isColumn ? `${column}: asc` : 'up: asc'}}`
    : JSON.stringify(['id', ...(/^[\w$]+$/.test(column) && isColumn ? [column] : [])])
  const other = isRelation ? `r: ${relation} { id }` : ''
  t.same(
    await data(`{ q: ${table}(order_by: ${order}) { id v: ${text} ${other} } }`),
    {
      q: [
        { id: 1, v: isColumn ? 'a' : 1, ...(isRelation ? { r: null } : {}) },
        { id: 2, v: isColumn ? null : 2, ...(isRelation ? { r: { id: 1 } } : {}) },
      ],
    },
    `${dialect} select ${table}`,
  )
  const filterable = isColumn && !['_or', '_and', '_not'].includes(column)
  const where = filterable ? `{${column}: {_eq: "a"}}` : '{id: {_eq: 1}}'
  t.same(
    await data(`query ($w: ${table}_bool_exp) { q: ${table}(where: $w) { id } p: ${table}(where: ${where}) { id } }`, {
      w: filterable ? object([column, { _eq: 'a' }]) : { id: { _eq: 1 } },
    }),
    { q: [{ id: 1 }], p: [{ id: 1 }] },
    `${dialect} where ${table}`,
  )
  if (isRelation && !['_or', '_and', '_not'].includes(relation)) {
    t.same(
      await data(`{ q: ${table}(where: {${relation}: {id: {_eq: 1}}}) { id } }`),
      { q: [{ id: 2 }] },
      `${dialect} relation ${table}`,
    )
  }
  if (isColumn) {
    t.same(
      await data(
        `mutation { u: update_${table}(where: {id: {_eq: 1}}, _set: {${column}: "b"}) { returning { v: ${column} } } }`,
      ),
      { u: { returning: [{ v: 'b' }] } },
      `${dialect} update ${table}`,
    )
  }
  t.same(
    await data(
      `mutation { d: delete_${table}(where: {up: {_is_null: false}}) { affected_rows } e: delete_${table}(where: {}) { affected_rows } }`,
    ),
    { d: { affected_rows: 1 }, e: { affected_rows: 1 } },
    `${dialect} delete ${table}`,
  )
}
