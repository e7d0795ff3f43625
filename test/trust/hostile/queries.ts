import { type Kind, nested, NONCE, times } from './kind.js'

const MIB = 1048576

const KNOWN = '{"type":"select","args":{"table":"product","columns":["id"],"limit":1}}'
const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const FORGED = `${part({ alg: 'HS256' })}.${part({ exp: 2e9, x: 'y'.repeat(5600) })}.${part(['forged'])}`

/** An insert into a table where a customer may insert. */
const reviews = (rows: string): string => `{"type":"insert","args":{"table":"review","objects":[${rows}]}}`

/** Requests to the JSON query API that try to cost more than they should, against the sample shop. */
export const QUERIES: readonly Kind[] = [
  // JSON itself
  query('open brackets, 9 million', () => '['.repeat(9_000_000), 'refused'),
  query('65 levels', () => nested(65, '{"a":', '1', '}'), 'refused'),
  query('300,000 empty objects', () => `{"type":"select","args":[${times(300_000, '{},')}{}]}`, 'refused'),
  query(
    '240,000 empty arrays in a list',
    () => select(`"where":{"id":{"$in":[${times(240_000, '[],')}[]]}}`),
    'either',
  ),
  query('200,000 keys', () => `{${times(200_000, (i) => `"k${i}":0,`)}"k":0}`, 'refused'),
  query('the same key, 500,000 times', () => `{${times(500_000, '"k":0,')}"k":0}`, 'refused'),
  query('a string of 9 MiB', () => select(`"where":{"name":"${'x'.repeat(9 * MIB)}"}`)),
  query('a string of 1,500,000 escapes', () => select(`"where":{"name":"${'\\u0041'.repeat(1_500_000)}"}`)),
  query('half surrogates, 1,500,000', () => select(`"where":{"name":"${'\\ud800'.repeat(1_500_000)}"}`), 'refused'),
  query('a number of 9 million digits', () => select(`"where":{"price":${'9'.repeat(9_000_000)}}`)),
  query('white space, 9 MiB', () => `${' \n'.repeat(4.5 * MIB)}${select('"limit":1')}`),
  query('a key of 9 MiB', () => select(`"where":{"${'k'.repeat(9 * MIB)}":1}`), 'refused'),
  query('bytes that are no UTF-8', () => Buffer.alloc(9 * MIB, 0xfe), 'refused'),
  query(
    'half a body',
    () => `{"type":"select","args":{"table":"product","columns":[${times(500_000, '"id",')}`,
    'refused',
  ),
  query('more than the limit', () => ' '.repeat(11 * MIB), 'refused', ['customer', 'anonymous'], true),

  // Conditions
  query('$in with 1,000,000', () => select(`"where":{"id":{"$in":[${times(1_000_000, (i) => `${i},`)}0]}}`)),
  query(
    '$in with 300,000 of mixed kinds',
    () => select(`"where":{"id":{"$in":[${times(300_000, (i) => (i % 2 ? '"x",' : `${i}.5,`))}0]}}`),
    'refused',
  ),
  query('$in with 500,000 strings', () => select(`"where":{"name":{"$in":[${times(500_000, (i) => `"n${i}",`)}""]}}`)),
  query('$in with 9,900', () => select(`"where":{"id":{"$in":[${times(9_900, (i) => `${i},`)}0]}}`)),
  query('a new order of 1,900 conditions', () =>
    select(`"where":{"$or":[${times(1900, (i) => `{"${i % 7 === 3 ? 'id' : 'price'}":1},`)}{"id":${NONCE}}]}`),
  ),
  query('$or of 1,990', () => select(`"where":{"$or":[${times(1990, (i) => `{"id":${i}},`)}{"id":0}]}`)),
  query(
    '$or of 100,000',
    () => select(`"where":{"$or":[${times(100_000, (i) => `{"id":${i}},`)}{"id":0}]}`),
    'refused',
  ),
  query('$and in $or, 48 deep', () => select(`"where":${nested(14, '{"$and":[{"$or":[', '{"id":1}', ']}]}')}`)),
  query('$not, 60 deep', () => select(`"where":${nested(60, '{"$not":', '{}', '}')}`), 'refused'),
  query('relationships in a condition, 40 deep', () =>
    select(`"where":${nested(20, '{"reviews":{"product":', '{"id":1}', '}}')}`),
  ),
  query(
    'like with 60,000 wildcards',
    () =>
      `{"type":"select","args":{"table":"review","columns":["id"],"limit":1,"where":{"body":{"$like":"${'%a'.repeat(30_000)}b"}}}}`,
  ),
  query(
    'a regular expression that backtracks',
    () =>
      `{"type":"select","args":{"table":"review","columns":["id"],"limit":1,"where":{"body":{"$regex":"^(([a-z. ])+.)+[A-Z]([a-z. ])+$"}}}}`,
  ),

  // Columns, order
  query(
    'columns, 200,000',
    () => `{"type":"select","args":{"table":"product","columns":[${times(200_000, '"id",')}"id"]}}`,
  ),
  query(
    'relationships, 1,000 aliases',
    () =>
      `{"type":"select","args":{"table":"product","limit":1,"columns":[${times(1000, (i) => `{"name":"reviews","alias":"a${i}_${NONCE}","columns":["id"],"limit":1},`)}"id"]}}`,
  ),
  query(
    'relationships, 15 levels',
    () =>
      `{"type":"select","args":{"table":"product","limit":1,"columns":[${nested(7, '{"name":"reviews","limit":1,"columns":[{"name":"product","columns":[', '"id"', ']}]}')}]}}`,
  ),
  query(
    'wildcards of 20 levels',
    () => `{"type":"select","args":{"table":"product","limit":1,"columns":["*${'.*'.repeat(20)}"]}}`,
  ),
  query('order_by of 50,000', () => select(`"order_by":[${times(50_000, '"id",')}"id"]`)),
  query(
    'limit and offset of 300 digits',
    () => select(`"limit":${'9'.repeat(300)},"offset":${'9'.repeat(300)}`),
    'refused',
  ),
  query(
    'names alike, for suggestions',
    () => `{"type":"select","args":{"table":"product","columns":[${times(900, (i) => `"nam${i}",`)}"id"]}}`,
    'refused',
  ),

  // Many at once
  query(
    'a bulk of 1,000 new forms',
    () =>
      `{"type":"bulk","args":[${times(999, (i) => `${select(`"where":{"$or":[${times(1 + (i % 40), '{"id":1},')}{"id":2}]}`)},`)}${select('"limit":1')}]}`,
  ),
  query(
    'a bulk of 1,000 known forms',
    () =>
      `{"type":"bulk","args":[${times(999, `{"type":"select","args":{"table":"product","columns":["id"],"limit":1}},`)}{"type":"count","args":{"table":"product"}}]}`,
  ),
  query(
    'a bulk of 1,001',
    () =>
      `{"type":"bulk","args":[${times(1000, `{"type":"select","args":{"table":"product","columns":["id"],"limit":1}},`)}{"type":"count","args":{"table":"product"}}]}`,
    'refused',
  ),
  query('a bulk of 60 long answers', () => `{"type":"bulk","args":[${times(59, `${LONG},`)}${LONG}]}`),
  {
    ...query('a bulk of reads to be kept for a key', () => `{"type":"bulk","args":[${LONG}]}`),
    headers: { 'Idempotency-Key': `hostile-${NONCE}` },
  },
  {
    ...query('nothing at all to be kept for a key', () => '{"type":"bulk","args":[]}'),
    headers: { 'Idempotency-Key': `hostile-nothing-${NONCE}` },
  },
  query('a bulk of 100,000', () => `{"type":"bulk","args":[${times(100_000, '{"type":"x"},')}{}]}`, 'refused'),
  query('bulks in bulks, 25 deep', () => nested(25, '{"type":"bulk","args":[', select('"limit":1'), ']}')),
  query(
    '100,000 rows that may not be inserted',
    () =>
      `{"type":"insert","args":{"table":"product","objects":[${times(100_000, (i) => `{"sku":"S${i}","price":"none"},`)}{}]}}`,
    'refused',
  ),
  query(
    '50,000 rows with different keys',
    () =>
      `{"type":"insert","args":{"table":"product","objects":[${times(50_000, (i) => `{"k${i % 990}":${i},"l${i % 7}":0},`)}{}]}}`,
    'refused',
  ),
  query(
    '9 MiB of rows with whole numbers such as 1.0',
    () => reviews(`${times(280_000, '{"product_id":1.0,"stars":5.0},')}{"product_id":1,"stars":1.5}`),
    'refused',
    ['customer'],
  ),
  query(
    '60 KiB of rows with whole numbers such as 1.0',
    () => reviews(`${times(1900, '{"product_id":1.0,"stars":5.0},')}{"product_id":1,"stars":1.5}`),
    'refused',
    ['customer'],
  ),
  query(
    '9 MiB of rows with different keys',
    () => reviews(`${times(300_000, '{"stars":1},{"body":"not"},')}{"stars":true}`),
    'refused',
    ['customer'],
  ),
  query(
    '9 MiB of rows with rows of relationships',
    () =>
      `{"type":"insert","args":{"table":"orders","objects":[${times(250_000, '{"items":{"data":[{"quantity":1}]}},')}{"note":1}]}}`,
    'refused',
    ['customer'],
  ),
  query(
    'a bulk with references in 9 MiB of rows',
    () =>
      `{"type":"bulk","args":[{"as":"a","type":"count","args":{"table":"product"}},{"type":"insert","args":{"table":"review","objects":[${times(250_000, '{"stars":{"$ref":"a.count"}},')}{}]}}]}`,
    'refused',
    ['customer'],
  ),
  query('1,300 empty lists, read in the main thread', () => `[${times(1300, '[],')}[]]`, 'refused'),
  query('21,000 empty lists, read in the main thread', () => `[${times(21_000, '[],')}[]]`, 'refused'),
  query(
    'a bulk of 900 empty bulks',
    () => `{"type":"bulk","args":[${times(899, '{"type":"bulk","args":[]},')}{"type":"bulk","args":[]}]}`,
  ),

  // Headers
  withHeader('an Accept of 900 types', 'accept', `application/json, ${times(900, (i) => `a/b${i};q=0.1, `)}a/b`),
  withHeader(
    '1,500 cookies',
    'cookie',
    times(1500, (i) => `c${i}=1; `),
  ),
  withHeader('If-None-Match with 900 tags', 'if-none-match', times(900, '"abcd", ')),
  withHeader('a Prefer of 3,000 parts', 'prefer', times(3000, 'a=b,')),
  {
    ...query('a token of 8 KiB with a wrong signature', () => KNOWN, 'refused', ['anonymous']),
    headers: { authorization: `Bearer ${FORGED}` },
  },
  {
    ...query('a guess of the secret', () => KNOWN, 'refused', ['anonymous']),
    headers: { 'x-service-admin-secret': `guess ${NONCE}` },
  },
  query('types that JavaScript knows', () => '{"type":"constructor","args":{"__proto__":{"a":1}}}', 'refused'),
]

/** A known read with a long answer. */
const LONG = '{"type":"select","args":{"table":"review","columns":["*"],"limit":900}}'

function withHeader(name: string, header: string, value: string): Kind {
  return { ...query(name, () => KNOWN), headers: { [header]: value } }
}

function query(
  name: string,
  text: () => string | Buffer,
  outcome: 'refused' | 'either' = 'either',
  as?: Kind['as'],
  mayCut = false,
): Kind {
  return {
    name,
    path: '/v1/query',
    body: () => Buffer.from(text() as string),
    refused: outcome === 'refused',
    mayCut,
    ...(as ? { as } : {}),
  }
}

/** A read of a form that nobody has asked for before. */
function select(more: string): string {
  const related = `{"name":"reviews","alias":"r_${NONCE}","columns":["id"],"limit":1}`
  const limited = more.startsWith('"limit"') ? more : `"limit":1,${more}`
  return `{"type":"select","args":{"table":"product","columns":["id",${related}],${limited}}}`
}
