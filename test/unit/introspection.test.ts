import { gunzipSync } from 'node:zlib'
import { buildSchema, executeSync, type FieldNode, getIntrospectionQuery, parse } from 'graphql'
import t from 'tap'
import { readDocument } from '../../plugins/graphql/plan/document.js'
import { introspectionText } from '../../plugins/graphql/plan/introspection.js'

const columns = Array.from({ length: 2000 }, (_, i) => `column_${i}(size: Int = ${i}): [note!]!`).join('\n')
const schema = buildSchema(`
  "A \\"quoted\\" word, größer\\n"
  type note { id: ID! @deprecated(reason: "no more"), ${columns} }
  enum side { left right @deprecated }
  input wish { side: side = left, texts: [String!] = ["a"] }
  type Query { note(wish: wish!): note }`)

const DOCUMENTS: readonly (readonly [string, Record<string, never> | Record<string, string | boolean>])[] = [
  [getIntrospectionQuery({ specifiedByUrl: true, directiveIsRepeatable: true, inputValueDeprecation: true }), {}],
  [
    '{ __schema { a: queryType { __typename name } a: queryType { fields { n: name } } subscriptionType { name } } }',
    {},
  ],
  [
    `query ($name: String!, $yes: Boolean = true, $no: Boolean!) {
      __type(name: $name) { ...T @include(if: $yes) name @skip(if: $yes) ... @include(if: $no) { kind } }
      none: __type(name: "none") { name }
    }
    fragment T on __Type { fields { name } enumValues(includeDeprecated: $yes) { name isDeprecated deprecationReason } }`,
    { name: 'side', no: false },
  ],
]

t.test('introspection is answered as the GraphQL library answers it', (t) => {
  for (const [text, variables] of DOCUMENTS) {
    const document = readDocument(text, undefined)
    const fields = document.operation.selectionSet.selections as readonly FieldNode[]

    const pieces = introspectionText(schema, document, fields, variables)

    const unzipped = pieces.map((piece) => gunzipSync(Buffer.from(piece, 'base64')).toString()).join('')
    const { data } = executeSync({ schema, document: parse(text), variableValues: variables })
    t.equal(unzipped, JSON.stringify(data))
  }
  t.end()
})

t.test('a long answer comes in pieces', (t) => {
  const document = readDocument(getIntrospectionQuery(), undefined)

  const pieces = introspectionText(schema, document, document.operation.selectionSet.selections as FieldNode[], {})

  t.ok(pieces.length > 3)
  t.end()
})

t.test('fragments that multiply, and fields that would where there is nothing, cost nothing', (t) => {
  const levels = Array.from(
    { length: 40 },
    (_, i) => `
    fragment F${i} on __Type { name ...F${i + 1} a: ofType { ...F${i + 1} } b: ofType { ...F${i + 1} } ...F${i + 1} }`,
  )
  const text = `{ __type(name: "note") { ...F0 } } ${levels.join('')} fragment F40 on __Type { kind }`
  const document = readDocument(text, undefined)

  const pieces = introspectionText(schema, document, document.operation.selectionSet.selections as FieldNode[], {})

  t.equal(pieces.length, 1)
  t.end()
})

t.test('an answer has 64 MiB at most', (t) => {
  const large = buildSchema(`"${'x'.repeat(2 ** 20)}" type Query { id: ID }`)
  const run = (times: number) => {
    const aliases = Array.from({ length: times }, (_, i) => `a${i}: __type(name: "Query") { description }`)
    const document = readDocument(`{ ${aliases.join(' ')} }`, undefined)
    return introspectionText(large, document, document.operation.selectionSet.selections as FieldNode[], {})
  }

  t.doesNotThrow(() => run(63))
  t.throws(() => run(64), { status: 400, code: 'validation-failed', path: '$.query' })
  t.end()
})

t.test('variables of another type are refused', (t) => {
  const document = readDocument('query ($name: String!) { __type(name: $name) { name } }', undefined)

  const run = () =>
    introspectionText(schema, document, document.operation.selectionSet.selections as FieldNode[], { name: 1 })

  t.throws(run, { status: 400, code: 'validation-failed' })
  t.end()
})

t.test('null in a variable with a default is refused where null may not be', (t) => {
  for (const [text, variables] of [
    ['query ($name: String = "note") { __type(name: $name) { name } }', { name: null }],
    ['query ($yes: Boolean = true) { __schema @include(if: $yes) { queryType { name } } }', { yes: null }],
    ['query ($yes: Boolean = true) { __schema { queryType { name @skip(if: $yes) } } }', { yes: null }],
  ] as const) {
    const document = readDocument(text, undefined)

    const run = () =>
      introspectionText(schema, document, document.operation.selectionSet.selections as FieldNode[], variables)

    t.throws(run, { status: 400, code: 'validation-failed', path: '$.query', message: /must not be null/ }, text)
  }
  t.end()
})
