import {
  buildClientSchema,
  buildSchema,
  getIntrospectionQuery,
  getNamedType,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLSchema,
  type IntrospectionQuery,
  isEnumType,
  isInputObjectType,
  isLeafType,
  isObjectType,
  isScalarType,
  isSpecifiedScalarType,
  parse,
  printSchema,
  validateSchema,
} from 'graphql'
import t, { type Test } from 'tap'
import { ADMIN_SECRET, type As, testServer, type TestServer } from '../../kit/server.js'
import { packages } from '../packages.js'
import * as awkward from './awkward.js'
import { type Client, client } from './client.js'

type Row = Readonly<Record<string, unknown>>
/** What to do with a table: a row that is inserted, what its update sets, what finds the row. */
interface Sample {
  readonly row: Row
  readonly set: Row
  readonly key: Row
}
type Samples = Readonly<Record<string, Sample>>

const home = await packages(t, 'codegen')
const buyer: As = { role: 'customer', variables: { 'x-service-user-id': '786' } }

t.test('clients of the sample shop', async (t) => {
  const server = await testServer(t, {
    builtins: { sample: new URL('../../../plugins/sample/index.js', import.meta.url) },
  })
  await roundTrip(t, server, 'alpha', {}, SHOP)
  await roundTrip(t, server, 'modern', {}, SHOP)
  await roundTrip(t, server, 'modern', buyer, OF_BUYER)
  for (const role of ['staff', 'anonymous']) await roundTrip(t, server, 'modern', { role }, SHOP)
})

t.test('clients of awkward tables', async (t) => {
  // Each on rows of its own: some tables have no key, and lose all that they have.
  await roundTrip(t, await awkwardServer(t), 'alpha', {}, AWKWARD)
  const server = await awkwardServer(t)
  await roundTrip(t, server, 'modern', {}, MODERN)
  for (const role of ['clerk', 'peeper', 'nobody']) await roundTrip(t, server, 'modern', { role }, MODERN)
})

async function awkwardServer(t: Test): Promise<TestServer> {
  const server = await testServer(t)
  await server.must('run_sql', { sql: awkward.SQL })
  await server.must('replace_metadata', awkward.METADATA)
  return server
}

const SHOP: Samples = {
  customer: {
    row: { id: 90001, name: 'Zoe', email: 'zoe@example.com', city: 'Oslo', country: 'Norway' },
    set: { city: 'Bergen' },
    key: { id: 90001 },
  },
  product: {
    row: {
      id: 90001,
      sku: 'SKU-X',
      name: 'Paper hat',
      category: 'travel',
      price: 3.5,
      attributes: { a: [1] },
      stock: 1,
    },
    set: { price: 4.25, stock: 2, attributes: { b: null } },
    key: { id: 90001 },
  },
  orders: {
    row: { id: 90001, customer_id: 90001, status: 'new', placed_at: '2024-05-06T07:08:09Z', note: null },
    set: { status: 'paid', note: 'ring' },
    key: { id: 90001 },
  },
  item: {
    row: { order_id: 90001, product_id: 90001, quantity: 2, unit_price: 3.5 },
    set: { quantity: 3 },
    key: { order_id: 90001, product_id: 90001 },
  },
  review: {
    row: { id: 90001, product_id: 90001, customer_id: 90001, stars: 5, body: 'Good.' },
    set: { stars: 4 },
    key: { product_id: 90001, customer_id: 90001 },
  },
}

/** The buyer may change itself, and review what it bought. */
const OF_BUYER: Samples = {
  ...SHOP,
  customer: { row: {}, set: { city: 'Bergen' }, key: { id: 786 } },
  review: {
    row: { id: 90001, product_id: 4, stars: 5, body: 'Good.' },
    set: { stars: 4 },
    key: { product_id: 4 },
  },
}

const PERSON = {
  firstName: 'Cy',
  mood: 'so so',
  moods: ['happy', null],
  type: 'x',
  class: 2,
  default: false,
  true: 't',
  null: 1,
  born: '1999-12-31',
  seen: '2024-01-01T00:00:00Z',
  woke: '2024-01-01T00:00:00',
  at: '01:02',
  att: '01:02+03',
  gap: '2 days',
  price: 1.25,
  ratio: 0.5,
  part: 2.5,
  big: [1, null],
  flags: [true, false],
  js: { z: 1 },
  jb: { k: [] },
  jbs: [{ a: 1 }, 'text'],
  bytes: '\\x01',
  uid: '00000000-0000-0000-0000-00000000000c',
  uids: [],
  tags: ['a', 'b'],
  matrix: [3],
  net: '::1',
  span: '[1,2)',
  spans: '{[1,2)}',
  cost: '3.50',
  bits: '110',
  doc: '<r/>',
  pos: 1,
  home: { x: 1, y: 2 },
  homes: [{ x: 3, y: null }],
  code: 'abcde',
  search: 'a b',
  days: ['2024-02-29'],
  prices: [1.5],
}

const AWKWARD: Samples = {
  Person: {
    row: { id: 9, ...PERSON },
    set: { class: 5, tags: [], jb: [null], home: '(2,3)', moods: ['it\'s "odd"'] },
    key: { firstName: 'Cy' },
  },
  enrolment: {
    row: { person_id: 1, course: 'music', since: '2024-09-01', mark: 7.5 },
    set: { mark: 8 },
    key: { course: 'music' },
  },
  person: {
    row: { id: '00000000-0000-0000-0000-000000000009', Person: 1, mood: 'm' },
    set: { mood: 'n' },
    key: { id: '00000000-0000-0000-0000-000000000009' },
  },
  bigint: { row: { id: 9, bigint: 12 }, set: { bigint: 13 }, key: { id: 9 } },
  heap: { row: { words: 'w', number: 9 }, set: { words: 'v' }, key: { number: 9 } },
  only_json: { row: { doc: [1] }, set: { doc: 'x' }, key: {} },
  strange: { row: {}, set: {}, key: {} },
  true: { row: { true: 9, false: true, null: 'x' }, set: { false: false }, key: { true: 9 } },
  store_stock: { row: { shelf: 9, place: 9, what: 'tea' }, set: { what: 'salt' }, key: { shelf: 9, place: 9 } },
  courses: { row: {}, set: {}, key: {} },
}
/** The older dialect leaves out columns whose names are not valid in GraphQL. */
const MODERN: Samples = { ...AWKWARD, strange: { row: { a_b: 9, _1: 'x' }, set: { _1: 'y' }, key: { a_b: 9 } } }

/**
 * Gets the schema as a role sees it, has a client generated with an operation for every root field, compiles it, runs
 * it, and compiles the answers as values of the types that were generated for them.
 */
async function roundTrip(t: Test, server: TestServer, dialect: 'alpha' | 'modern', as: As, samples: Samples) {
  const who = as.role ?? 'admin'
  await t.test(`${dialect}, as ${who}`, async (t) => {
    const made = await client(home, `${t.fullname}`)
    const schema = dialect === 'alpha' ? await alphaSchema(server) : await modernSchema(server, as)
    t.same(
      validateSchema(schema).map(({ message }) => message),
      [],
      'the schema is valid',
    )
    const operations = operationsOf(schema)
    await generate(made, schema, operations)
    const calls = callsOf(operations, samples)
    await made.write('client.ts', clientText(calls))
    t.equal(await made.compile(), '', 'the client compiles')

    const headers = {
      'x-service-admin-secret': ADMIN_SECRET,
      ...(as.role ? { 'x-service-role': as.role } : {}),
      ...as.variables,
    }
    const path = dialect === 'alpha' ? '/v1alpha1/graphql' : '/v1/graphql'
    const answers = JSON.parse(
      await made.run(['client.js'], { URL: server.url + path, HEADERS: JSON.stringify(headers) }),
    ) as { readonly status: number; readonly body: { readonly data?: Row; readonly errors?: unknown } }[]
    for (const [i, { status, body }] of answers.entries()) {
      const { name, variables } = calls[i] as Call
      if (status !== 200 || body.errors) t.fail(`${name} ${JSON.stringify(variables)}: ${JSON.stringify(body)}`)
    }
    t.equal(answers.length, calls.length, `${calls.length} calls of ${operations.length} operations`)

    const idle = operations.filter(
      ({ name, field }) => !answers.some(({ body }, i) => calls[i]?.name === name && met(body.data?.[field.name])),
    )
    if (as.role === undefined)
      t.same(
        idle.map(({ name }) => name),
        [],
        'every operation meets rows',
      )

    await made.write(
      'answers.ts',
      answersText(
        calls,
        answers.map(({ body }) => body.data),
      ),
    )
    t.equal(await made.compile(), '', 'the answers are what their types say')
  })
}

/** Whether there are rows in the answer of a field. */
function met(answer: unknown): boolean {
  if (Array.isArray(answer)) return answer.some(met)
  if (typeof answer !== 'object' || answer === null) return false
  return !('affected_rows' in answer) || answer.affected_rows !== 0
}

async function alphaSchema(server: TestServer): Promise<GraphQLSchema> {
  const { body } = await server.fetch('/v1alpha1/graphql/schema')
  return buildSchema(body.schema as string)
}

async function modernSchema(server: TestServer, as: As): Promise<GraphQLSchema> {
  const body = JSON.stringify({ query: getIntrospectionQuery({ inputValueDeprecation: true }) })
  const answer = await server.fetch('/v1/graphql', { method: 'POST', body }, as)
  if (answer.status !== 200 || !answer.body.data) throw new Error(answer.text)
  return buildClientSchema(answer.body.data as IntrospectionQuery)
}

/** A document that has one root field with all its arguments, as variables of the same names. */
interface Operation {
  readonly name: string
  readonly field: GraphQLField<unknown, unknown>
  readonly text: string
}

function operationsOf(schema: GraphQLSchema): readonly Operation[] {
  const of = (kind: 'query' | 'mutation', root: GraphQLObjectType | null | undefined) =>
    Object.values(root?.getFields() ?? {}).map((field): Operation => {
      const variables = field.args.map(({ name, type }) => `$${name}: ${type.toString()}`)
      const args = field.args.map(({ name }) => `${name}: $${name}`)
      const type = getNamedType(field.type)
      const fields = isObjectType(type) ? selection(type, 1) : ''
      const name = `do_${field.name}`
      return {
        name,
        field,
        text: `${kind} ${name}${inBrackets(variables)} { ${field.name}${inBrackets(args)} ${fields} }`,
      }
    })
  return [...of('query', schema.getQueryType()), ...of('mutation', schema.getMutationType())]
}

const inBrackets = (parts: readonly string[]): string => (parts.length === 0 ? '' : `(${parts.join(', ')})`)

/** Every scalar and one relationship of each kind: to one row, to many. */
function selection(type: GraphQLObjectType, depth: number): string {
  const parts: string[] = []
  const kinds = new Set<string>()
  for (const field of Object.values(type.getFields())) {
    const inner = getNamedType(field.type)
    if (isLeafType(inner)) parts.push(field.name)
    else if (isObjectType(inner)) {
      const wraps = ['aggregate', 'nodes', 'returning'].includes(field.name) || inner.name.endsWith('_fields')
      const kind = `${field.args.length} ${inner.name.endsWith('_aggregate')}`
      if (!wraps && (depth === 0 || kinds.has(kind))) continue
      if (!wraps) kinds.add(kind)
      const some = field.args.some(({ name }) => name === 'limit') ? '(limit: 2)' : ''
      parts.push(`${field.name}${some} ${selection(inner, wraps ? depth : depth - 1)}`)
    }
  }
  return `{ ${parts.join(' ')} }`
}

async function generate({ load, write }: Client, schema: GraphQLSchema, operations: readonly Operation[]) {
  const { codegen } = load('@graphql-codegen/core')
  const pluginMap = {
    types: load('@graphql-codegen/typescript'),
    operations: load('@graphql-codegen/typescript-operations'),
    documents: load('@graphql-codegen/typed-document-node'),
  }
  const config = {
    strictScalars: true,
    namingConvention: 'keep',
    useTypeImports: true,
    typesPrefix: 'Of_',
    scalars: scalarsOf(schema),
  }
  const common = { schema: parse(printSchema(schema), { noLocation: true }), pluginMap, config }
  const documents = operations.map(({ text, name }) => ({
    location: `${name}.graphql`,
    document: parse(text, { noLocation: true }),
  }))
  const [types, client] = await Promise.all([
    codegen({ ...common, filename: 'types.ts', documents: [], plugins: [{ types: {} }] }),
    codegen({ ...common, filename: 'operations.ts', documents, plugins: [{ operations: {} }, { documents: {} }] }),
  ])
  await write('types.ts', types)
  await write('operations.ts', client)
}

/** The JSON of each scalar, as plugins/graphql/README.md has it. */
function scalarsOf(schema: GraphQLSchema): Record<string, string> {
  const own = Object.values(schema.getTypeMap()).filter((type) => isScalarType(type) && !isSpecifiedScalarType(type))
  return Object.fromEntries(own.map(({ name }) => [name, JSON_OF.get(name.replace(/_scalar$/, '')) ?? 'string']))
}
const JSON_OF: ReadonlyMap<string, string> = new Map([
  ...['smallint', 'bigint', 'numeric', 'float8'].map((name): [string, string] => [name, 'number']),
  ['json', 'unknown'],
  ['jsonb', 'unknown'],
  ['place_row', 'string | { x: number | null; y: number | null }'],
])

interface Call {
  readonly name: string
  readonly variables: Row
}

/** Every operation at least once, in an order in which each finds its row. */
function callsOf(operations: readonly Operation[], samples: Samples): readonly Call[] {
  const byField = new Map(operations.map((operation) => [operation.field.name, operation]))
  const named = (names: readonly (string | undefined)[], sample: Sample) =>
    names.flatMap((name) => {
      const operation = byField.get(name ?? '')
      return operation ? [{ name: operation.name, variables: variablesOf(operation.field, sample) }] : []
    })
  const tables = Object.entries(samples)
  const there = tables.flatMap(([table, sample]) => {
    const one = `insert_${table}_one`
    const insert = byField.has(one) ? one : `insert_${table}`
    const updates = [`update_${table}`, `update_${table}_by_pk`, `update_${table}_many`]
    return named([table, `${table}_aggregate`, insert, `${table}_by_pk`, ...updates], sample)
  })
  const back = tables.toReversed().flatMap(([table, sample]) => {
    const again = byField.has(`insert_${table}_one`) ? `insert_${table}` : undefined
    const remove = `delete_${table}`
    return named([`delete_${table}_by_pk`, remove, again, again && remove], sample)
  })
  const missed = operations.filter(({ name }) => ![...there, ...back].some((call) => call.name === name))
  return [...there, ...back, ...missed.map(({ name }) => ({ name, variables: {} }))]
}

function variablesOf({ args }: GraphQLField<unknown, unknown>, { row, set, key }: Sample): Row {
  const where = Object.fromEntries(Object.entries(key).map(([name, value]) => [name, { _eq: value }]))
  const values: Row = { ...row, ...key }
  return Object.fromEntries(
    args.flatMap(({ name, type }): [string, unknown][] => {
      const inner = getNamedType(type)
      const part = (of: Row): Row =>
        isInputObjectType(inner)
          ? Object.fromEntries(Object.entries(of).filter(([key]) => key in inner.getFields()))
          : {}
      switch (name) {
        case 'where':
          return type.toString().endsWith('!') ? [[name, part(where)]] : []
        case 'distinct_on':
          // PostgreSQL cannot tell whether two values of type json are the same.
          return isEnumType(inner) && !('doc' in row) ? [[name, [inner.getValues()[0]?.name]]] : []
        case 'limit':
          return [[name, 3]]
        case 'object':
          return [[name, part(row)]]
        case 'objects':
          return [[name, [part(row)]]]
        case 'on_conflict': {
          const constraint = isInputObjectType(inner) ? getNamedType(inner.getFields()['constraint']?.type) : undefined
          return isEnumType(constraint) ? [[name, { constraint: constraint.getValues()[0]?.name }]] : []
        }
        case '_set':
          return [[name, part(set)]]
        case 'pk_columns':
          return [[name, part(values)]]
        case 'updates': {
          const changes = isInputObjectType(inner) ? getNamedType(inner.getFields()['_set']?.type) : undefined
          const seen = isInputObjectType(changes)
            ? Object.entries(set).filter(([key]) => key in changes.getFields())
            : []
          return [[name, [{ where, _set: Object.fromEntries(seen) }]]]
        }
        default:
          return name in values ? [[name, values[name]]] : []
      }
    }),
  )
}

const clientText = (calls: readonly Call[]): string => `
import type { TypedDocumentNode } from '@graphql-typed-document-node/core'
import { print } from 'graphql'
import * as operations from './operations.js'
declare const process: { env: { URL: string; HEADERS: string }; stdout: { write(text: string): void } }

const answers: unknown[] = []
async function call<Data, Variables>(query: TypedDocumentNode<Data, Variables>, variables: Variables): Promise<void> {
  const body = JSON.stringify({ query: print(query), variables })
  const headers = { 'content-type': 'application/json', ...JSON.parse(process.env.HEADERS) }
  const answer = await fetch(process.env.URL, { method: 'POST', headers, body })
  answers.push({ status: answer.status, body: await answer.json() })
}
${calls.map(({ name, variables }) => `await call(operations.${name}Document, ${JSON.stringify(variables)})`).join('\n')}
process.stdout.write(JSON.stringify(answers))
`

const answersText = (calls: readonly Call[], answers: readonly unknown[]): string => `
import type * as operations from './operations.js'
${answers
  .map((data, i) => {
    const { name } = calls[i] as Call
    const type = `operations.Of_${name}${name.match(/^do_(insert|update|delete)_/) ? 'Mutation' : 'Query'}`
    return `export const answer${i}: ${type} = ${JSON.stringify(data)}`
  })
  .join('\n')}
`
