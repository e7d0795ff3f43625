import { createHash } from 'node:crypto'
import { type Kind, nested, NONCE, times } from './kind.js'

const MODERN = '/v1/graphql'
const ALPHA = '/v1alpha1/graphql'
const MIB = 1048576

/** GraphQL documents that try to cost more than they should, against the sample shop. */
export const DOCUMENTS: readonly Kind[] = [
  // Depth
  ...both('levels of fields, 1,600', () => nested(1600, '{ product ', '{ id }', '}'), 'refused'),
  ...both('open braces, 60,000', () => '{'.repeat(60_000), 'refused'),
  ...both(
    'nested lists in a value, 2,400',
    () => `{ product(where: ${nested(2400, '[', '', ']')}) { id } }`,
    'refused',
  ),
  ...both(
    'nested objects in a value, 1,200',
    () => `{ product(where: ${nested(1200, '{_not:', '{}', '}')}) { id } }`,
    'refused',
  ),
  modern('nested inline fragments, 1,600', () => `{ product { ${nested(1600, '...{', 'id', '}')} } }`),
  modern(
    'nested list type of a variable, 2,000',
    () => `query ($v: ${nested(2000, '[', 'Int', ']')}) { product { id } }`,
    'refused',
  ),
  modern(
    'nested default of a variable, 1,000',
    () => `query ($v: product_bool_exp = ${nested(1000, '{_not:', '{}', '}')}) { product(where: $v) { id } }`,
    'refused',
  ),
  modern(
    '17 levels with a limit each',
    () => `{ product(limit: 2) ${nested(8, '{ reviews(limit: 2) { product ', '{ id }', '} }')} }`,
  ),
  modern(
    '17 levels without a limit',
    () => `{ product ${nested(8, '{ reviews { product ', '{ id }', '} }')} }`,
    'refused',
  ),

  // Width
  ...both('root fields, 5,000 aliases', () => `{ ${times(5000, (i) => `a${i}: product { id } `)} }`, 'refused'),
  ...both(
    'root fields, 50',
    () => `{ ${times(50, (i) => `a${i}: product(limit: 1, where: {id: {_gt: ${i}}}) { id name } `)} }`,
  ),
  ...both('aliases of a column, 190', () => `{ product(limit: 10) { ${times(190, (i) => `a${i}: name `)} } }`),
  ...both('the same field, 4,900 times', () => `{ product(limit: 10) { ${times(4900, 'id ')} } }`),
  ...both('the same field, 30,000 times', () => `{ product(limit: 10) { ${times(30_000, 'id ')} } }`, 'refused'),
  modern(
    'the same field with arguments, 330 times',
    () => `{ product(limit: 1) { ${times(330, 'reviews(limit: 1, offset: 2) { id stars } ')} } }`,
  ),
  modern('fields that conflict, 1,200', () => `{ ${times(600, 'product { a: id } product { a: name } ')} }`, 'refused'),
  ...both(
    'tokens at the limit',
    () => `{ product(limit: 1, where: {id: {_in: [${times(4970, (i) => `${i} `)}]}}) { id } }`,
  ),
  modern('operations, 600', () => times(600, (i) => `query q${i} { product { id } } `), 'refused'),
  modern(
    'variables that nobody uses, 1,000',
    () => `query (${times(1000, (i) => `$v${i}: Int `)}) { product { id } }`,
    'refused',
  ),

  // Fragments
  modern('a fragment that spreads itself', () => '{ product { ...f } } fragment f on product { id ...f }', 'refused'),
  modern(
    'a cycle of 600 fragments',
    () => `{ product { ...f0 } } ${times(600, (i) => `fragment f${i} on product { ...f${(i + 1) % 600} } `)}`,
    'refused',
  ),
  modern(
    'fragments that double, 2^100',
    () =>
      `{ product { ...f0 } } ${times(100, (i) => `fragment f${i} on product { ...f${i + 1} ...f${i + 1} } `)} fragment f100 on product { id }`,
    'refused',
  ),
  modern(
    'fragments that double by relationships, 2^9',
    () =>
      `{ product(limit: 1) { ...f0 } } ${times(9, (i) => `fragment f${i} on product { a: reviews(limit: 1) { product { ...f${i + 1} } } b: reviews(limit: 1) { product { ...f${i + 1} } } } `)} fragment f9 on product { id }`,
    'refused',
  ),
  modern(
    '100 by 15 inline fragments',
    () => `{ product(limit: 1) { ${times(100, `... on product { ${times(15, 'id ')} } `)} } }`,
  ),
  modern(
    'a chain of 700 fragments',
    () =>
      `{ product(limit: 1) { ...f0 } } ${times(700, (i) => `fragment f${i} on product { ...f${i + 1} } `)} fragment f700 on product { id }`,
  ),
  modern(
    'one fragment, 1,500 spreads',
    () => `{ product(limit: 1) { ${times(1500, '...f ')} } } fragment f on product { id name }`,
  ),
  modern(
    'fragments that nobody uses, 800',
    () => `{ product(limit: 1) { id } } ${times(800, (i) => `fragment f${i} on product { id } `)}`,
    'refused',
  ),

  // Directives
  modern('directives on a field, 900', () => `{ product(limit: 1) { id ${times(900, '@include(if: true) ')} } }`),
  modern('unknown directives, 2,400', () => `{ product { id ${times(2400, '@a ')} } }`, 'refused'),
  modern(
    'a directive with 1,200 arguments',
    () => `{ product { id @skip(${times(1200, (i) => `a${i}: true `)}) } }`,
    'refused',
  ),

  // Conditions
  ...both(
    '_not, 49 deep',
    () => `{ product(limit: 1, where: ${nested(49, '{_not: ', '{id: {_gt: 1}}', '}')}) { id } }`,
  ),
  ...both(
    '_and in _or, 60 deep',
    () => `{ product(where: ${nested(30, '{_and: [{_or: [', '{}', ']}]}')}) { id } }`,
    'refused',
  ),
  modern('_or of 4,000 in a variable', () =>
    given('query ($w: product_bool_exp!) { product(limit: 1, where: $w) { id } }', {
      w: { _or: Array.from({ length: 4000 }, (_, i) => ({ id: { _eq: i } })) },
    }),
  ),
  modern('_or of 1,900 in a variable', () =>
    given('query ($w: product_bool_exp!) { product(limit: 1, where: $w) { id } }', {
      w: { _or: Array.from({ length: 1900 }, (_, i) => ({ id: { _eq: i } })) },
    }),
  ),
  modern(
    'relationships in a condition, 40 deep',
    () => `{ product(limit: 1, where: ${nested(20, '{reviews: {product: ', '{id: {_eq: 1}}', '}}')}) { id } }`,
  ),
  modern('order_by of 1,000', () => `{ product(limit: 1, order_by: [${times(1000, '{id: asc} ')}]) { id } }`),

  // Long texts
  ...both('a string of 240,000', () => `{ product(where: {name: {_eq: "${'x'.repeat(240_000)}"}}) { id } }`),
  ...both(
    'a document of 300,000',
    () => `{ product(where: {name: {_eq: "${'x'.repeat(300_000)}"}}) { id } }`,
    'refused',
  ),
  ...both('a document of 9 MiB', () => `{ product { id } } #${'x'.repeat(9 * MIB)}`, 'refused'),
  modern(
    'a block string of 120,000 lines',
    () => `{ product(where: {name: {_eq: """${' \n'.repeat(120_000)}"""}}) { id } }`,
  ),
  modern('a string of 40,000 escapes', () => `{ product(where: {name: {_eq: "${'\\u0041'.repeat(40_000)}"}}) { id } }`),
  modern('a string without an end', () => `{ product(where: {name: {_eq: "${'\\\\'.repeat(120_000)}`, 'refused'),
  modern('a number of 240,000 digits', () => `{ product(where: {price: {_eq: ${'9'.repeat(240_000)}}}) { id } }`),
  modern('an exponent of 9 digits', () => '{ product(where: {price: {_eq: 1e999999999}}) { id } }', 'refused'),
  modern('a name of 240,000', () => `{ ${'a'.repeat(240_000)} }`, 'refused'),
  modern('comments, 120,000 lines', () => `${'#\n'.repeat(120_000)} { product(limit: 1) { id } }`),
  modern('commas, 250,000', () => `{ product(limit: 1) { id ${','.repeat(250_000)} } }`),
  modern('names alike, for suggestions', () => `{ product { ${times(1500, (i) => `nam${i} `)} } }`, 'refused'),

  // Patterns
  modern('like with 60,000 wildcards', () =>
    given('query ($p: String!) { review(limit: 1, where: {body: {_like: $p}}) { id } }', {
      p: `${'%a'.repeat(30_000)}b`,
    }),
  ),
  modern('a regular expression that backtracks', () =>
    given('query ($p: String!) { review(limit: 1, where: {body: {_regex: $p}}) { id } }', {
      p: `^(([a-z. ])+.)+[A-Z]([a-z. ])+$`,
    }),
  ),
  modern('a regular expression of 4,000 groups', () =>
    given('query ($p: String!) { review(limit: 1, where: {body: {_regex: $p}}) { id } }', { p: '(a|b)*'.repeat(4000) }),
  ),

  // To be kept by their hash
  raw(
    'a document of 9 MiB with its hash',
    MODERN,
    () => JSON.stringify({ query: LONG_DOCUMENT, ...hashOf(LONG_DOCUMENT) }),
    'refused',
  ),
  raw('no document, with its hash', MODERN, () => JSON.stringify({ query: '}}}', ...hashOf('}}}') }), 'refused'),

  // Variables
  modern('a string of 9 MiB in a variable', () =>
    given('query ($s: String!) { product(where: {name: {_eq: $s}}) { id } }', { s: 'x'.repeat(9 * MIB) }),
  ),
  modern('a list of 1,200,000 in a variable', () =>
    given('query ($l: [Int!]!) { product(limit: 1, where: {id: {_in: $l}}) { id } }', {
      l: Array.from({ length: 1_200_000 }, (_, i) => i),
    }),
  ),
  modern('a list of 200,000 strings in a variable', () =>
    given('query ($l: [String!]!) { product(limit: 1, where: {name: {_in: $l}}) { id } }', {
      l: Array.from({ length: 200_000 }, (_, i) => `name "${i}"`),
    }),
  ),
  modern(
    '200,000 objects in a variable',
    () =>
      given('query ($w: product_bool_exp!) { product(where: $w) { id } }', {
        w: { _or: Array.from({ length: 200_000 }, () => ({})) },
      }),
    'refused',
  ),
  modern(
    '64 levels in a variable',
    () =>
      given('query ($w: product_bool_exp!) { product(where: $w) { id } }', {
        w: JSON.parse(nested(60, '{"_not":', '{}', '}')) as object,
      }),
    'refused',
  ),
  {
    ...modern('8,000 rows in a variable', () => '', 'refused'),
    as: ['customer'],
    body: () =>
      given('mutation ($rows: [review_insert_input!]!) { insert_review(objects: $rows) { affected_rows } }', {
        rows: Array.from({ length: 8000 }, (_, i) => ({ product_id: i, stars: i === 7999 ? true : 1 })),
      }),
  },
  modern('900 variables that nobody declared', () =>
    given('{ product(limit: 1) { id } }', Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`v${i}`, i]))),
  ),
  modern(
    'names that JavaScript knows',
    () => '{ product { constructor __proto__ toString hasOwnProperty } }',
    'refused',
  ),
  modern(
    '200,000 rows to insert',
    () =>
      given('mutation ($o: [product_insert_input!]!) { insert_product(objects: $o) { affected_rows } }', {
        o: Array.from({ length: 60_000 }, (_, i) => ({ sku: `S${i}`, price: 'none' })),
      }),
    'refused',
  ),
  modern(
    '50 mutations of nothing',
    () => `mutation { ${times(50, (i) => `a${i}: delete_review(where: {id: {_eq: -1}}) { affected_rows } `)} }`,
  ),

  // Introspection
  modern(
    'introspection, the whole',
    () =>
      `{ __schema { types { name description fields(includeDeprecated: true) { name args { name type { name kind ofType { name kind ofType { name } } } } type { name kind ofType { name kind ofType { name } } } } inputFields { name } enumValues { name } } } }`,
  ),
  modern(
    'introspection, round and round',
    () => `{ __schema { types ${nested(5, '{ fields { type { ofType { fields { type ', '{ name }', '} } } } }')} } }`,
  ),
  modern('introspection, 8 levels', () => `{ __schema { types ${nested(4, '{ fields { type ', '{ name }', '} }')} } }`),
  modern(
    'introspection, 50 aliases',
    () => `{ ${times(50, (i) => `a${i}: __schema { types { name fields { name type { name } } } } `)} }`,
  ),
  modern(
    'introspection, possibleTypes',
    () => `{ __schema { types ${nested(6, '{ possibleTypes { interfaces ', '{ name }', '} }')} } }`,
  ),

  // Batches
  batch(
    'a batch of 20 at the limit of tokens',
    20,
    () => `{ product(limit: 1, where: {id: {_in: [${times(4900, (i) => `${i} `)}]}}) { id } }`,
  ),
  batch('a batch of 21', 21, () => '{ product(limit: 1) { id } }', 'refused'),
  batch('a batch of 100,000', 100_000, () => '{ a }', 'refused'),
  raw('a batch of batches', MODERN, () => `[${'[[{"query":"{ product { id } }"}]],'.repeat(19)}[]]`, 'refused'),
  raw(
    'persisted documents that nobody left',
    MODERN,
    () => `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"${'0'.repeat(58)}${NONCE}"}}}`,
    'refused',
  ),
  raw(
    'an operation name of 1 MiB',
    MODERN,
    () => `{"query":"{ product(limit: 1) { id } } #${NONCE}","operationName":"${'o'.repeat(MIB)}"}`,
    'refused',
  ),
]

type Outcome = 'refused' | 'either'
type Text = () => string | Buffer

function modern(name: string, text: Text, outcome: Outcome = 'either'): Kind {
  return { name, path: MODERN, body: () => asBody(text()), refused: outcome === 'refused' }
}
function both(name: string, text: Text, outcome: Outcome = 'either'): readonly Kind[] {
  const kind = modern(name, text, outcome)
  return [kind, { ...kind, name: `${name} (alpha)`, path: ALPHA }]
}
function batch(name: string, count: number, text: () => string, outcome: Outcome = 'either'): Kind {
  const body = () =>
    Buffer.from(JSON.stringify(Array.from({ length: count }, (_, i) => ({ query: `${text()} #${i} ${NONCE}` }))))
  return { name, path: MODERN, body, refused: outcome === 'refused' }
}
function raw(name: string, path: string, body: () => string, outcome: Outcome = 'either'): Kind {
  return { name, path, body: () => Buffer.from(body()), refused: outcome === 'refused' }
}

const LONG_DOCUMENT = `#${'x'.repeat(9 * MIB)}\n{ product { id } }`
const hashOf = (document: string) => ({
  extensions: { persistedQuery: { version: 1, sha256Hash: createHash('sha256').update(document).digest('hex') } },
})

/** A document with variables. */
const given = (query: string, variables: object): Buffer =>
  Buffer.from(JSON.stringify({ query: `${query} #${NONCE}`, variables }))
const asBody = (text: string | Buffer): Buffer =>
  typeof text === 'string' ? Buffer.from(JSON.stringify({ query: `${text}\n#${NONCE}` })) : text
