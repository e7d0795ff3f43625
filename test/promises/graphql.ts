import { buildSchema } from 'graphql'
import type { Test } from 'tap'
import {
  area,
  type Case,
  type Expected,
  is,
  like,
  query as jsonQuery,
  refused,
  type Step,
  text,
} from '../kit/promises.js'
import { type As, testServer } from '../kit/server.js'

/**
 * What GraphQL promises: the older dialect, then what differs in the newer one (`modern.`).
 */
const PROMISES = {
  'request.payload': 'POST takes operationName, query and variables',
  'request.null-parts': 'operationName and variables may be null or missing',
  'request.answer': 'the answer is {"data"}, its keys in the order of the selection',
  'request.no-query': 'a body without query is refused',
  'request.wrong-parts': 'parts of another kind are refused',
  'request.not-json': 'a body that is no JSON is refused in the same form',
  'request.get': 'there is no GET',
  'request.syntax': 'a document that cannot be read is refused',
  'error.shape':
    'an error has path, error, code, message, locations and extensions with path and code; there is no data',
  'schema.endpoint': 'GET /v1alpha1/graphql/schema answers the schema as text under the key schema',
  'schema.admin': 'to admin alone',
  'schema.query-root': 'a field for each table: where, limit, offset, order_by, a list of its type',
  'schema.mutation-root': 'insert_, update_ and delete_ for each table',
  'schema.response': 'affected_rows and returning',
  'schema.input': 'one input type for each table',
  'schema.relationship': 'relationships are fields, those to many rows with the arguments of the root',
  'schema.bool-exp': 'conditions on columns and relationships, _and, _or, _not',
  'schema.comparison': 'the operators of each type',
  'schema.public': 'tables of public alone',
  'schema.tracked': 'tracked tables alone',
  'schema.generated': 'a generated column is no input',
  'refuse.fragment': 'a fragment is not supported; the message names /v1/graphql',
  'refuse.inline-fragment': 'nor is an inline fragment',
  'refuse.unused-fragment': 'nor one that nothing spreads',
  'refuse.introspection': 'nor introspection',
  'refuse.subscription': 'subscriptions are not supported',
  'typename.everywhere': '__typename is known on every type and at the root',
  'directive.skip-include': '@skip and @include',
  'directive.unknown': 'no other directive is known',
  'select.all': 'a table is a list of its rows',
  'select.alias': 'an alias is the key of the result',
  'select.limit-offset': 'limit and offset cut a page',
  'select.null-arguments': 'null as an argument is as none',
  'select.negative': 'limit and offset are not negative',
  'select.several': 'a query has several fields',
  'select.empty': 'no rows are an empty list',
  'where.eq': '{name: {_eq: value}}',
  'where.neq': '_neq; rows with null are not returned',
  'where.order': '_gt, _lt, _gte, _lte',
  'where.in': '_in and _nin',
  'where.like': '_like, _nlike, _ilike, _nilike',
  'where.similar': '_similar, _nsimilar',
  'where.is-null': '_is_null true and false',
  'where.jsonb': '_contains on jsonb',
  'where.several': 'several keys all hold',
  'where.combinators': '_and, _or and _not',
  'where.combinators-empty': '_and of nothing is true, _or of nothing is false',
  'where.relationship': 'a relationship holds when some related row does',
  'where.one-for-list': 'one value stands for a list of one',
  'where.null': 'a comparison with null is refused, so that a condition never falls away',
  'where.null-variable': 'also when the variable is null or missing',
  'where.null-in-list': 'and in a list',
  'where.unknown-operator': 'an operator that the type does not have is refused',
  'where.text-on-number': 'a text operator needs a text column',
  'order.plus': '"+col" ascends',
  'order.minus': '"-col" descends',
  'order.plain': '"col" ascends',
  'order.several': 'a list orders by one after the other',
  'order.text': 'one text stands for a list of one',
  'order.relationship': '"+author.name" goes through object relationships',
  'order.unknown': 'an unknown column is refused',
  'order.form': 'so is a text of another form',
  'order.array-relationship': 'an array relationship cannot be sorted by',
  'order.variable': 'a variable may say what to order by',
  'relationship.object': 'an object relationship is an object or null',
  'relationship.object-arguments': 'it takes no arguments',
  'relationship.array': 'an array relationship takes where, order_by, limit, offset',
  'relationship.deep': 'relationships of relationships',
  'insert.rows': 'rows are inserted and counted',
  'insert.returning': 'returning has the rows, with their relationships',
  'insert.default': 'a missing key takes the default',
  'insert.null': 'null is null',
  'insert.one': 'one object stands for a list of one',
  'insert.empty': 'no rows are refused',
  'insert.required': 'objects are required',
  'insert.variable': 'rows come as a variable',
  'insert.unknown-column': 'an unknown column is refused',
  'update.set': '_set changes the rows of where',
  'update.null': '_set of null sets null',
  'update.empty': '_set of nothing is refused',
  'update.required': 'where and _set are required',
  'update.all': 'where: {} is every row',
  'delete.rows': 'delete_ deletes the rows of where and returns them',
  'delete.required': 'where is required',
  'mutation.order': 'the fields of a mutation are run in order',
  'mutation.atomic': 'a request is one transaction',
  'mutation.no-match': 'no rows are 0 and an empty list',
  'name.several': 'a document of several operations needs operationName',
  'name.chosen': 'which then is run',
  'name.unknown': 'an unknown one is refused',
  'name.anonymous': 'it cannot choose beside an anonymous operation',
  'name.single': 'of a single named operation it may be missing',
  'name.single-other': 'and is checked when it is there',
  'variable.default': 'a default is taken',
  'variable.default-null': 'and gives way to null',
  'variable.required': 'a non-null variable without value or default is refused',
  'variable.required-null': 'null for it too',
  'variable.nullable': 'a nullable one may be absent',
  'variable.type': 'a value of another type is refused with its path',
  'variable.position': 'the type has to fit its place',
  'variable.undeclared-used': 'a variable that is used is declared',
  'variable.unused': 'a variable that is declared is used',
  'variable.unexpected': 'a variable that is sent is declared',
  'variable.object-type': 'a variable has an input type',
  'variable.unknown-type': 'which the schema knows',
  'variable.coerced': 'one value stands for a list of one',
  'variable.condition': 'a whole condition may be a variable',
  'variable.condition-unknown': 'an unknown key in it is refused with its path',
  'variable.json': 'JSON comes as a variable',
  'variable.twice': 'a variable is declared once',
  'field.unknown': 'an unknown field is refused',
  'field.unknown-table': 'and an unknown table',
  'field.no-selection': 'an object needs a selection',
  'field.selection': 'a scalar has none',
  'field.conflict': 'one key cannot be two fields',
  'field.conflict-arguments': 'nor one field with two sets of arguments',
  'field.same': 'the same field twice is one',
  'argument.unknown': 'an unknown argument is refused',
  'argument.twice': 'an argument is given once',
  'argument.type': 'of its type',
  'input.unknown': 'an unknown key of an input is refused',
  'input.twice': 'a key is given once',
  'permission.default': 'without a permission only admin sees a table',
  'permission.unknown-role': 'a role without permissions has no fields and no mutations',
  'permission.anonymous': 'a caller without credentials is anonymous',
  'permission.role-not-held': 'a role that the caller does not hold is 403',
  'permission.filter': 'rows are those of the role',
  'permission.columns': 'columns outside the permission are not there',
  'permission.where': 'not in conditions',
  'permission.order': 'not in order_by',
  'permission.relationship': 'nor are tables behind relationships',
  'permission.related-filter': 'related rows are filtered, in conditions too',
  'permission.limit': 'the limit of a permission holds',
  'permission.insert': 'the check holds',
  'permission.update': 'the filter of an update holds',
  'permission.update-column': 'a column that may be inserted and not updated is refused as permission',
  'permission.returning': 'returning has the rows that the role sees',
  'permission.no-delete': 'what is not permitted is not there',
  'permission.no-mutations': 'a role that may only read has no mutations',
  'permission.session': 'X-SERVICE-USER-ID is the caller; a missing variable is refused',
  'database.unique': 'a duplicate is postgres-error',
  'database.check': 'so is a check of the table',
  'database.value': 'and a value that PostgreSQL cannot read',
  'numbers.out': 'numbers keep their digits in answers',
  'numbers.in': 'and in documents and variables',
  'limit.bytes': 'a document has at most 256 KiB',
  'limit.tokens': 'and 5,000 tokens',
  'limit.depth': 'and 20 levels',
  'limit.roots': 'and 50 root fields',
  'limit.aliases': 'and 200 aliases',
  'limit.condition': 'a condition nests 50 levels',
  'modern.status': '200 for application/json, whatever happened',
  'modern.response-type': '4xx for what cannot be run under application/graphql-response+json',
  'modern.role-not-held': '403 for a role that is not held',
  'modern.error': 'an error has message, locations and extensions',
  'modern.fragments': 'fragments of both kinds',
  'modern.introspection': 'introspection',
  'modern.order': 'order_by takes objects',
  'modern.codes': 'the codes are those of the newer dialect',
  'modern.null': 'null in a comparison is refused here too',
  'modern.schemas': 'tables of other schemas have their name before them',
  'modern.limits': 'the limits hold here too',
  'schema.valid': 'the schema that it answers is a valid one',
} as const

const SQL = `
create table author (id int primary key, name text, code varchar unique, age int, big bigint, num numeric, made timestamptz, data jsonb, tags text[]);
create table article (
  id int primary key, title text not null default 'untitled', rating real, published bool not null default false,
  author_id int references author, twice int generated always as (id * 2) stored, check (id < 1000)
);
create table untracked (id int primary key);
create schema other;
create table other.thing (id int primary key);
insert into author values (1, 'Ann', 'a', 30, 9007199254740993, 1.10, '2024-01-02Z', '{"k": 1}', '{x,y}'), (2, 'bob', 'b', null, 2, 2, null, '{"k": 2}', '{}'), (3, null, null, 50, null, null, null, null, null);
insert into article (id, title, rating, published, author_id) select n, 'a' || n, n, n % 2 = 0, 1 + n % 2 from generate_series(1, 4) n;
insert into article (id, title) values (5, 'orphan');`

const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const READER: As = { role: 'reader' }
const NOBODY: As = { role: 'nobody' }

interface More {
  readonly variables?: unknown
  readonly operationName?: unknown
  readonly as?: As
  readonly headers?: Readonly<Record<string, string>>
}
const to =
  (path: string) =>
  (document: string, expected: Expected, { as, headers, ...parts }: More = {}): Step => ({
    path,
    method: 'POST',
    body: JSON.stringify({ query: document, ...parts }),
    expected,
    ...(as ? { as } : {}),
    ...(headers ? { headers } : {}),
  })
const ask = to('/v1alpha1/graphql')
const modern = to('/v1/graphql')
const body = (raw: string, expected: Expected): Step => ({
  path: '/v1alpha1/graphql',
  method: 'POST',
  body: raw,
  expected,
})
const data = (all: unknown): Expected => is({ data: all })
/** One error, in all its forms, and nothing else. */
const fails = (code: string, error: string | RegExp, path?: string | RegExp): Expected => ({
  status: 400,
  like: {
    data: undefined,
    errors: [
      { code, error, message: error, extensions: { code, ...(path ? { path } : {}) }, ...(path ? { path } : {}) },
    ],
  },
})
const invalid = (error: string | RegExp, path?: string | RegExp) => fails('validation-failed', error, path)
const modernFails = (code: string, message: RegExp | string, status = 200): Expected => ({
  status,
  like: { data: undefined, errors: [{ message, extensions: { code, path: /^\$/ } }] },
})
const schema = (part: RegExp | string): Step => ({
  path: '/v1alpha1/graphql/schema',
  method: 'GET',
  expected: like({ schema: part }),
})
const noSchema = (part: RegExp): Step => schema(new RegExp(`^(?![\\s\\S]*${part.source})`))
/** A block of the schema, with all its fields. */
const block = (head: string, fields: readonly string[]): Step =>
  schema(`${head} {\n${fields.map((each) => `  ${each}\n`).join('')}}`)
const quoted = (line: string): string => line.replaceAll(/[()[\]{}|.+*?^$]/g, String.raw`\$&`)
/** A line of a block. */
const inBlock = (head: string, line: string): Step => schema(new RegExp(`${head} \\{[^}]*\n  ${quoted(line)}\n`))
const authors = (where: string, ...ids: readonly number[]): Step =>
  ask(`{ author(where: ${where}, order_by: ["id"]) { id } }`, data({ author: ids.map((id) => ({ id })) }))
const wrongWhere = (where: string, error: string | RegExp, path: string): Step =>
  ask(`{ author(where: ${where}) { id } }`, invalid(error, path))
const ordered = (order: string, ...ids: readonly number[]): Step =>
  ask(`{ article(order_by: ${order}, where: {id: {_lt: 5}}) { id } }`, data({ article: ids.map((id) => ({ id })) }))
const counted = (table: string, count: number): Step => jsonQuery('count', { table }, is({ count }))
const repeat = (count: number, fn: (i: number) => string) => Array.from({ length: count }, (_, i) => fn(i)).join(' ')
const nested = (levels: number): string =>
  levels === 1 ? 'id' : `${levels % 2 ? 'author' : 'articles(limit: 1)'} { ${nested(levels - 1)} }`
const ofBytes = (bytes: number): string => '{ author(limit: 0) { id } }#'.padEnd(bytes, 'x')
const ofTokens = (tokens: number): string =>
  `{ author(where: {id: {_in: [${repeat(tokens - 20, () => '1')}]}}) { id } }`
const WHERE_ARGS = (table: string) => `(where: ${table}_bool_exp, limit: Int, offset: Int, order_by: [String])`

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'request.payload': [
    ask(
      'query a($n: Int) { author(limit: $n, order_by: ["+id"]) { id } } query b { author { name } }',
      data({ author: [{ id: 1 }] }),
      {
        operationName: 'a',
        variables: { n: 1 },
      },
    ),
  ],
  'request.null-parts': [
    ask('{ author(limit: 0) { id } }', data({ author: [] }), { operationName: null, variables: null }),
    ask('{ author(limit: 0) { id } }', data({ author: [] }), { operationName: '' }),
  ],
  'request.answer': [
    ask(
      '{ author(where: {id: {_eq: 1}}) { name id age } a: article(limit: 0) { id } }',
      text('{"data":{"author":[{"name":"Ann","id":1,"age":30}],"a":[]}}'),
    ),
  ],
  'request.no-query': [
    body('{}', fails('parse-failed', /query/, '$.query')),
    body('{"variables": {}}', fails('parse-failed', /query/, '$.query')),
  ],
  'request.wrong-parts': [
    body('[]', fails('parse-failed', /object/, '$')),
    body('{"query": 5}', fails('parse-failed', /query/, '$.query')),
    body('{"query": "{ author { id } }", "variables": []}', fails('parse-failed', /object/, '$.variables')),
    body('{"query": "{ author { id } }", "operationName": 1}', fails('parse-failed', /string/, '$.operationName')),
  ],
  'request.not-json': [
    body('{', fails('invalid-json', /invalid json/i, '$')),
    body('', fails('invalid-json', /./, '$')),
  ],
  'request.get': [{ path: '/v1alpha1/graphql?query=%7Bauthor%7Bid%7D%7D', method: 'GET', expected: { status: 405 } }],
  'request.syntax': [
    ask('{ author { id', fails('parse-failed', /Syntax Error/, '$.query')),
    ask('', fails('parse-failed', /Syntax Error/, '$.query')),
  ],
  'error.shape': [
    ask('{\n  author { nope }\n}', {
      status: 400,
      body: {
        errors: [
          {
            path: '$.selectionSet.author.selectionSet.nope',
            error: 'field "nope" not found in type: \'author\'',
            code: 'validation-failed',
            message: 'field "nope" not found in type: \'author\'',
            locations: [{ line: 2, column: 12 }],
            extensions: { path: '$.selectionSet.author.selectionSet.nope', code: 'validation-failed' },
          },
        ],
      },
    }),
  ],
  'schema.endpoint': [schema(/^\S[\s\S]*type query_root/)],
  'schema.admin': [
    {
      path: '/v1alpha1/graphql/schema',
      method: 'GET',
      as: ANN,
      expected: refused('access-denied', 'restricted access : admin only', '$'),
    },
    {
      path: '/v1alpha1/graphql/schema',
      method: 'GET',
      bare: true,
      expected: refused('access-denied', 'restricted access : admin only', '$'),
    },
  ],
  'schema.query-root': ['article', 'author'].map((table) =>
    inBlock('type query_root', `${table}${WHERE_ARGS(table)}: [${table}]`),
  ),
  'schema.mutation-root': ['article', 'author'].flatMap((table) =>
    [
      `insert_${table}(objects: [${table}_input!]!): ${table}_mutation_response`,
      `update_${table}(where: ${table}_bool_exp!, _set: ${table}_input!): ${table}_mutation_response`,
      `delete_${table}(where: ${table}_bool_exp!): ${table}_mutation_response`,
    ].map((line) => inBlock('type mutation_root', line)),
  ),
  'schema.response': [block('type author_mutation_response', ['affected_rows: Int!', 'returning: [author]!'])],
  'schema.input': [
    block('input author_input', [
      'id: Int',
      'name: String',
      'code: String',
      'age: Int',
      'big: bigint',
      'num: numeric',
      'made: timestamptz',
      'data: jsonb',
      'tags: [String]',
    ]),
    noSchema(/_insert_input/),
    noSchema(/_set_input/),
  ],
  'schema.relationship': [
    block('type author', [
      'id: Int',
      'name: String',
      'code: String',
      'age: Int',
      'big: bigint',
      'num: numeric',
      'made: timestamptz',
      'data: jsonb',
      'tags: [String]',
      `articles${WHERE_ARGS('article')}: [article]`,
    ]),
    schema(/type article \{[^}]*\n {2}author: author\n/),
  ],
  'schema.bool-exp': [
    schema(
      /input article_bool_exp \{\n {2}_and: \[article_bool_exp\]\n {2}_not: article_bool_exp\n {2}_or: \[article_bool_exp\]\n {2}author: author_bool_exp\n {2}id: integer_comparison_exp\n/,
    ),
    schema(/input author_bool_exp \{[^}]* articles: article_bool_exp\n/),
  ],
  'schema.comparison': [
    ...['_eq', '_neq', '_gt', '_lt', '_gte', '_lte'].map((op) =>
      schema(new RegExp(`input integer_comparison_exp \\{[^}]*\\n  ${op}: Int\\n`)),
    ),
    ...['_in', '_nin'].map((op) =>
      schema(new RegExp(`input integer_comparison_exp \\{[^}]*\\n  ${op}: \\[Int!?\\]\\n`)),
    ),
    ...['_eq', '_like', '_nlike', '_ilike', '_nilike', '_similar', '_nsimilar'].map((op) =>
      schema(new RegExp(`input text_comparison_exp \\{[^}]*\\n  ${op}: String\\n`)),
    ),
    ...['boolean', 'real', 'varchar', 'bigint', 'numeric', 'timestamptz', 'jsonb'].map((type) =>
      schema(new RegExp(`input ${type}_comparison_exp \\{[^}]*\\n  _is_null: Boolean\\n`)),
    ),
  ],
  'schema.public': [noSchema(/thing/)],
  'schema.tracked': [
    noSchema(/untracked/),
    ask(
      '{ untracked { id } }',
      invalid('field "untracked" not found in type: \'query_root\'', '$.selectionSet.untracked'),
    ),
  ],
  'schema.generated': [schema(/type article \{[^}]*twice: Int/), noSchema(/input article_input \{[^}]*twice/)],
  'refuse.fragment': [
    ask(
      '{ author { ...f } } fragment f on author { id }',
      fails('not-supported', /fragment.*\/v1\/graphql/, '$.query'),
    ),
  ],
  'refuse.inline-fragment': [
    ask('{ author { ... on author { id } } }', fails('not-supported', /fragment.*\/v1\/graphql/, '$.query')),
    ask('{ author { ... { id } } }', fails('not-supported', /fragment.*\/v1\/graphql/, '$.query')),
  ],
  'refuse.unused-fragment': [
    ask('{ author { id } } fragment f on author { id }', fails('not-supported', /fragment.*\/v1\/graphql/, '$.query')),
  ],
  'refuse.introspection': [
    ask('{ __schema { types { name } } }', fails('not-supported', /introspection.*\/v1\/graphql/, '$.query')),
    ask(
      '{ a: __type(name: "author") { name } author { id } }',
      fails('not-supported', /introspection.*\/v1\/graphql/, '$.query'),
    ),
  ],
  'refuse.subscription': [ask('subscription { author { id } }', invalid('subscriptions are not supported', '$.query'))],
  'typename.everywhere': [
    ask(
      '{ __typename author(limit: 1) { __typename articles(limit: 1) { t: __typename } } }',
      data({ __typename: 'query_root', author: [{ __typename: 'author', articles: [{ t: 'article' }] }] }),
    ),
    ask(
      'mutation { __typename delete_author(where: {id: {_eq: 99}}) { __typename } }',
      data({ __typename: 'mutation_root', delete_author: { __typename: 'author_mutation_response' } }),
    ),
    ask('{ __typename }', data({ __typename: 'query_root' })),
  ],
  'directive.skip-include': [true, false].map((x) =>
    ask(
      'query ($x: Boolean!) { author(limit: 1) { a: id @include(if: $x) b: id @skip(if: $x) c: id @include(if: true) @skip(if: false) } }',
      data({ author: [x ? { a: 1, c: 1 } : { b: 1, c: 1 }] }),
      { variables: { x } },
    ),
  ),
  'directive.unknown': [ask('{ author { id @nope } }', invalid(/nope/))],
  'select.all': [ask('{ author { id } }', data({ author: [{ id: 1 }, { id: 2 }, { id: 3 }] }))],
  'select.alias': [ask('{ all: author(limit: 1) { number: id } }', text('{"data":{"all":[{"number":1}]}}'))],
  'select.limit-offset': [
    ask('{ author(order_by: ["+id"], limit: 1, offset: 1) { id } }', data({ author: [{ id: 2 }] })),
  ],
  'select.null-arguments': [
    ask(
      '{ author(where: null, limit: null, offset: null, order_by: null) { id } }',
      data({ author: [{ id: 1 }, { id: 2 }, { id: 3 }] }),
    ),
  ],
  'select.negative': [
    ask('{ author(limit: -1) { id } }', invalid(/non-negative/, '$.selectionSet.author.args.limit')),
    ask('{ author(offset: -1) { id } }', invalid(/non-negative/, '$.selectionSet.author.args.offset')),
  ],
  'select.several': [
    ask(
      '{ a: author(limit: 1) { id } b: author(offset: 2) { id } article(limit: 0) { id } }',
      data({ a: [{ id: 1 }], b: [{ id: 3 }], article: [] }),
    ),
  ],
  'select.empty': [authors('{id: {_eq: 99}}')],
  'where.eq': [authors('{name: {_eq: "Ann"}}', 1)],
  'where.neq': [authors('{name: {_neq: "Ann"}}', 2)],
  'where.order': [
    authors('{age: {_gt: 30}}', 3),
    authors('{age: {_lt: 50}}', 1),
    authors('{age: {_gte: 30}}', 1, 3),
    authors('{age: {_lte: 30}}', 1),
  ],
  'where.in': [
    authors('{id: {_in: [1, 3]}}', 1, 3),
    authors('{id: {_nin: [1]}}', 2, 3),
    authors('{id: {_in: []}}'),
    authors('{id: {_nin: []}}', 1, 2, 3),
  ],
  'where.like': [
    authors('{name: {_like: "A%"}}', 1),
    authors('{name: {_nlike: "A%"}}', 2),
    authors('{name: {_ilike: "B%"}}', 2),
    authors('{code: {_nilike: "A"}}', 2),
  ],
  'where.similar': [authors('{name: {_similar: "(Ann|bob)"}}', 1, 2), authors('{name: {_nsimilar: "A%"}}', 2)],
  'where.is-null': [authors('{name: {_is_null: true}}', 3), authors('{name: {_is_null: false}}', 1, 2)],
  'where.jsonb': [
    ask('query ($j: jsonb) { author(where: {data: {_contains: $j}}) { id } }', data({ author: [{ id: 2 }] }), {
      variables: { j: { k: 2 } },
    }),
  ],
  'where.several': [authors('{id: {_gt: 1, _lt: 3}}', 2), authors('{id: {_gt: 1}, age: {_eq: 50}}', 3)],
  'where.combinators': [
    authors('{_or: [{id: {_eq: 1}}, {_and: [{id: {_gt: 1}}, {_not: {age: {_eq: 50}}}]}]}', 1),
    authors('{_not: {id: {_eq: 1}}}', 2, 3),
  ],
  'where.combinators-empty': [authors('{_and: []}', 1, 2, 3), authors('{_or: []}'), authors('{}', 1, 2, 3)],
  'where.relationship': [
    authors('{articles: {rating: {_gt: 3}}}', 1),
    ask('{ article(where: {author: {name: {_eq: "bob"}}}) { id } }', data({ article: [{ id: 1 }, { id: 3 }] })),
  ],
  'where.one-for-list': [authors('{id: {_in: 1}}', 1), authors('{_or: {id: {_eq: 2}}}', 2)],
  'where.null': [
    wrongWhere('{id: {_eq: null}}', /unexpected null value/, '$.selectionSet.author.args.where.id._eq'),
    ask('mutation { delete_author(where: {id: {_eq: null}}) { affected_rows } }', invalid(/unexpected null value/)),
    counted('author', 3),
  ],
  'where.null-variable': [{}, { x: null }].flatMap((variables) => [
    ask(
      'query ($x: Int) { author(where: {id: {_eq: $x}}) { id } }',
      invalid(/unexpected null value/, '$.selectionSet.author.args.where.id._eq'),
      { variables },
    ),
    ask(
      'mutation ($x: Int) { delete_author(where: {id: {_eq: $x}}) { affected_rows } }',
      invalid(/unexpected null value/),
      { variables },
    ),
    ask(
      'mutation ($x: Int) { update_author(where: {id: {_eq: $x}}, _set: {age: 1}) { affected_rows } }',
      invalid(/unexpected null value/),
      { variables },
    ),
    counted('author', 3),
  ]),
  'where.null-in-list': [
    wrongWhere('{id: {_in: [1, null]}}', /null/i, '$.selectionSet.author.args.where.id._in'),
    wrongWhere('{id: {_in: null}}', /unexpected null value/, '$.selectionSet.author.args.where.id._in'),
  ],
  'where.unknown-operator': [
    wrongWhere(
      '{id: {_nope: 1}}',
      'field "_nope" not found in type: \'integer_comparison_exp\'',
      '$.selectionSet.author.args.where.id._nope',
    ),
  ],
  'where.text-on-number': [
    wrongWhere(
      '{id: {_like: "1"}}',
      'field "_like" not found in type: \'integer_comparison_exp\'',
      '$.selectionSet.author.args.where.id._like',
    ),
  ],
  'order.plus': [
    ordered('["+id"]', 1, 2, 3, 4),
    ask(
      '{ article(order_by: ["+author_id"], where: {id: {_lt: 3}}) { id } }',
      data({ article: [{ id: 2 }, { id: 1 }] }),
    ),
  ],
  'order.minus': [ordered('["-id"]', 4, 3, 2, 1)],
  'order.plain': [ordered('["id"]', 1, 2, 3, 4)],
  'order.several': [ordered('["+author_id", "-rating"]', 4, 2, 3, 1)],
  'order.text': [ordered('"-id"', 4, 3, 2, 1)],
  'order.relationship': [ordered('["-author.name", "+id"]', 1, 3, 2, 4), ordered('["+author.name", "id"]', 2, 4, 1, 3)],
  'order.unknown': [
    ask('{ author(order_by: ["+id", "+nope"]) { id } }', invalid(/nope/, '$.selectionSet.author.args.order_by[1]')),
  ],
  'order.form': [
    ask('{ author(order_by: ["* id"]) { id } }', invalid(/./, '$.selectionSet.author.args.order_by[0]')),
    ask('{ author(order_by: [""]) { id } }', invalid(/./, '$.selectionSet.author.args.order_by[0]')),
    ask('{ author(order_by: [{id: asc}]) { id } }', invalid(/String/)),
  ],
  'order.array-relationship': [
    ask(
      '{ author(order_by: ["articles.id"]) { id } }',
      invalid(/array relationship/, '$.selectionSet.author.args.order_by[0]'),
    ),
  ],
  'order.variable': [
    ask('query ($o: [String]) { author(order_by: $o, limit: 1) { id } }', data({ author: [{ id: 3 }] }), {
      variables: { o: ['-id'] },
    }),
    ask('query ($o: String) { author(order_by: [$o], limit: 1) { id } }', data({ author: [{ id: 3 }] }), {
      variables: { o: '-id' },
    }),
  ],
  'relationship.object': [
    ask(
      '{ article(where: {id: {_gt: 3}}, order_by: "id") { author { name } } }',
      data({ article: [{ author: { name: 'Ann' } }, { author: null }] }),
    ),
  ],
  'relationship.object-arguments': [
    ask(
      '{ article { author(limit: 1) { name } } }',
      invalid('no such argument "limit" is expected', '$.selectionSet.article.selectionSet.author.args.limit'),
    ),
  ],
  'relationship.array': [
    ask(
      '{ author(where: {id: {_eq: 1}}) { articles(order_by: ["+rating"]) { id } a: articles(where: {id: {_gt: 2}}) { id } b: articles(order_by: "-id", limit: 1) { id } c: articles(order_by: "id", offset: 1) { id } } }',
      data({ author: [{ articles: [{ id: 2 }, { id: 4 }], a: [{ id: 4 }], b: [{ id: 4 }], c: [{ id: 4 }] }] }),
    ),
  ],
  'relationship.deep': [
    ask(
      '{ author(where: {id: {_eq: 2}}) { articles(limit: 1, order_by: "id") { author { articles(limit: 1, order_by: "-id") { id } } } } }',
      data({ author: [{ articles: [{ author: { articles: [{ id: 3 }] } }] }] }),
    ),
  ],
  'insert.rows': [
    ask(
      'mutation { insert_author(objects: [{id: 10, name: "Dan"}, {id: 11}]) { affected_rows } }',
      text('{"data":{"insert_author":{"affected_rows":2}}}'),
    ),
  ],
  'insert.returning': [
    ask(
      'mutation { insert_article(objects: [{id: 11, author_id: 10}, {id: 10, author_id: 10}]) { returning { id author { name } } affected_rows } }',
      text(
        '{"data":{"insert_article":{"returning":[{"id":11,"author":{"name":"Dan"}},{"id":10,"author":{"name":"Dan"}}],"affected_rows":2}}}',
      ),
    ),
  ],
  'insert.default': [
    ask(
      'mutation { insert_article(objects: [{id: 12}, {id: 13, title: "t"}]) { returning { title published } } }',
      data({
        insert_article: {
          returning: [
            { title: 'untitled', published: false },
            { title: 't', published: false },
          ],
        },
      }),
    ),
  ],
  'insert.null': [
    ask(
      'mutation { insert_author(objects: [{id: 12, name: null}]) { returning { name } } }',
      data({ insert_author: { returning: [{ name: null }] } }),
    ),
    ask(
      'mutation { insert_article(objects: [{id: 14, title: null}]) { affected_rows } }',
      fails('postgres-error', /^Not-NULL violation/),
    ),
  ],
  'insert.one': [
    ask(
      'mutation { insert_author(objects: {id: 13}) { affected_rows } }',
      data({ insert_author: { affected_rows: 1 } }),
    ),
  ],
  'insert.empty': [
    ask(
      'mutation { insert_author(objects: []) { affected_rows } }',
      invalid('objects should not be empty', '$.selectionSet.insert_author.args.objects'),
    ),
  ],
  'insert.required': [
    ask(
      'mutation { insert_author { affected_rows } }',
      invalid('the required argument "objects" is missing', '$.selectionSet.insert_author'),
    ),
    ask(
      'mutation { insert_author(objects: null) { affected_rows } }',
      invalid(/null/, '$.selectionSet.insert_author.args.objects'),
    ),
  ],
  'insert.variable': [
    ask(
      'mutation ($o: [author_input!]!) { insert_author(objects: $o) { returning { id data tags } } }',
      data({ insert_author: { returning: [{ id: 14, data: { x: [1] }, tags: ['p'] }] } }),
      { variables: { o: [{ id: 14, data: { x: [1] }, tags: ['p'] }] } },
    ),
    ask(
      'mutation ($n: String) { insert_author(objects: [{id: 15, name: $n}]) { returning { name } } }',
      data({ insert_author: { returning: [{ name: 'v' }] } }),
      { variables: { n: 'v' } },
    ),
  ],
  'insert.unknown-column': [
    ask(
      'mutation { insert_author(objects: [{id: 16, nope: 1}]) { affected_rows } }',
      invalid('field "nope" not found in type: \'author_input\'', '$.selectionSet.insert_author.args.objects.nope'),
    ),
    ask(
      'mutation ($o: [author_input!]!) { insert_author(objects: $o) { affected_rows } }',
      { status: 400, like: { errors: [{ error: /"nope"/ }] } },
      { variables: { o: [{ id: 16, nope: 1 }] } },
    ),
    ask(
      'mutation { insert_article(objects: [{id: 16, twice: 1}]) { affected_rows } }',
      invalid('field "twice" not found in type: \'article_input\''),
    ),
  ],
  'update.set': [
    ask(
      'mutation { update_author(where: {id: {_eq: 10}}, _set: {name: "Eve", age: 7}) { affected_rows returning { id name age } } }',
      data({ update_author: { affected_rows: 1, returning: [{ id: 10, name: 'Eve', age: 7 }] } }),
    ),
  ],
  'update.null': [
    ask(
      'mutation { update_author(where: {id: {_eq: 10}}, _set: {age: null}) { returning { name age } } }',
      data({ update_author: { returning: [{ name: 'Eve', age: null }] } }),
    ),
  ],
  'update.empty': [
    ask(
      'mutation { update_author(where: {}, _set: {}) { affected_rows } }',
      invalid(/./, /^\$\.selectionSet\.update_author/),
    ),
  ],
  'update.required': [
    ask(
      'mutation { update_author(where: {}) { affected_rows } }',
      invalid('the required argument "_set" is missing', '$.selectionSet.update_author'),
    ),
    ask(
      'mutation { update_author(_set: {age: 1}) { affected_rows } }',
      invalid('the required argument "where" is missing', '$.selectionSet.update_author'),
    ),
  ],
  'update.all': [
    ask(
      'mutation { update_author(where: {}, _set: {tags: ["all"]}) { affected_rows } }',
      data({ update_author: { affected_rows: 9 } }),
    ),
  ],
  'delete.rows': [
    ask(
      'mutation { delete_article(where: {id: {_in: [10, 11]}}) { affected_rows returning { id author { name } } } }',
      data({
        delete_article: {
          affected_rows: 2,
          returning: [
            { id: 11, author: { name: 'Eve' } },
            { id: 10, author: { name: 'Eve' } },
          ],
        },
      }),
    ),
    ask(
      'mutation { a: delete_article(where: {id: {_gt: 9}}) { affected_rows } b: delete_author(where: {id: {_gt: 9}}) { affected_rows } }',
      data({ a: { affected_rows: 2 }, b: { affected_rows: 6 } }),
    ),
  ],
  'delete.required': [
    ask(
      'mutation { delete_author { affected_rows } }',
      invalid('the required argument "where" is missing', '$.selectionSet.delete_author'),
    ),
    counted('author', 3),
  ],
  'mutation.order': [
    ask(
      'mutation { z: insert_author(objects: {id: 20, name: "z"}) { affected_rows } a: update_author(where: {id: {_eq: 20}}, _set: {name: "a"}) { returning { name } } b: delete_author(where: {name: {_eq: "a"}}) { returning { id } } }',
      text('{"data":{"z":{"affected_rows":1},"a":{"returning":[{"name":"a"}]},"b":{"returning":[{"id":20}]}}}'),
    ),
  ],
  'mutation.atomic': [
    ask(
      'mutation { a: insert_author(objects: {id: 20}) { affected_rows } b: insert_author(objects: {id: 20}) { affected_rows } }',
      fails('postgres-error', /^Uniqueness violation/),
    ),
    counted('author', 3),
  ],
  'mutation.no-match': [
    ask(
      'mutation { update_author(where: {id: {_eq: 99}}, _set: {age: 1}) { affected_rows returning { id } } }',
      data({ update_author: { affected_rows: 0, returning: [] } }),
    ),
  ],
  'name.several': [
    ask(
      'query a { author { id } } query b { author { id } }',
      invalid('exactly one operation has to be present in the document when operationName is not specified', '$'),
    ),
  ],
  'name.chosen': [
    ask(
      'query a { author(limit: 0) { id } } mutation b { delete_author(where: {}) { affected_rows } }',
      data({ author: [] }),
      { operationName: 'a' },
    ),
  ],
  'name.unknown': [
    ask(
      'query a { author { id } } query b { author { id } }',
      invalid('no such operation found in the document: "c"', '$.operationName'),
      { operationName: 'c' },
    ),
  ],
  'name.anonymous': [
    ask(
      '{ author { id } } query b { author { id } }',
      invalid('operationName cannot be used when an anonymous operation exists in the document', '$.operationName'),
      { operationName: 'b' },
    ),
  ],
  'name.single': [ask('query a { author(limit: 0) { id } }', data({ author: [] }))],
  'name.single-other': [
    ask('query a { author { id } }', invalid('no such operation found in the document: "b"', '$.operationName'), {
      operationName: 'b',
    }),
    ask(
      '{ author { id } }',
      invalid('operationName cannot be used when an anonymous operation exists in the document', '$.operationName'),
      { operationName: 'b' },
    ),
  ],
  'variable.default': [
    ask('query ($n: Int = 1) { author(limit: $n) { id } }', data({ author: [{ id: 1 }] })),
    ask('query ($n: Int! = 1) { author(limit: $n) { id } }', data({ author: [{ id: 1 }] }), { variables: {} }),
  ],
  'variable.default-null': [
    ask('query ($n: Int = 1) { author(limit: $n) { id } }', data({ author: [{ id: 1 }, { id: 2 }, { id: 3 }] }), {
      variables: { n: null },
    }),
  ],
  'variable.required': [
    ask(
      'query ($n: Int!) { author(limit: $n) { id } }',
      invalid('expecting a value for non-null type: Int! in variableValues', '$.variables.n'),
    ),
  ],
  'variable.required-null': [
    ask(
      'query ($n: Int!) { author(limit: $n) { id } }',
      invalid(/^expecting a value for non-null type/, '$.variables.n'),
      { variables: { n: null } },
    ),
  ],
  'variable.nullable': [
    ask('query ($n: Int) { author(limit: $n) { id } }', data({ author: [{ id: 1 }, { id: 2 }, { id: 3 }] })),
  ],
  'variable.type': [
    ask('query ($n: Int) { author(limit: $n) { id } }', invalid(/Int/, '$.variables.n'), { variables: { n: 'one' } }),
    ask('query ($n: Int) { author(limit: $n) { id } }', invalid(/Int/, '$.variables.n'), { variables: { n: 1.5 } }),
    ask('query ($n: Int) { author(limit: $n) { id } }', invalid(/Int/, '$.variables.n'), { variables: { n: 2 ** 31 } }),
    ask('query ($n: [Int!]) { author(where: {id: {_in: $n}}) { id } }', invalid(/Int/, '$.variables.n[1]'), {
      variables: { n: [1, 'x'] },
    }),
    ask('query ($n: [Int!]) { author(where: {id: {_in: $n}}) { id } }', invalid(/Int/, '$.variables.n[1]'), {
      variables: { n: [1, null] },
    }),
  ],
  'variable.position': [
    ask('query ($n: String) { author(limit: $n) { id } }', invalid(/\$n.*String.*Int/), { variables: { n: '1' } }),
  ],
  'variable.undeclared-used': [ask('{ author(limit: $n) { id } }', invalid(/\$n/))],
  'variable.unused': [ask('query ($n: Int) { author { id } }', invalid(/\$n/))],
  'variable.unexpected': [
    ask('{ author(limit: 0) { id } }', invalid('unexpected variables in variableValues: x', '$.variables'), {
      variables: { x: 1 },
    }),
    ask('query a($n: Int) { author(limit: $n) { id } } query b { author(limit: 0) { id } }', data({ author: [] }), {
      operationName: 'a',
      variables: { n: 0 },
    }),
    ask(
      'query ($n: Int) { author(limit: $n) { id } }',
      invalid('unexpected variables in variableValues: x, y', '$.variables'),
      { variables: { n: 0, x: 1, y: 2 } },
    ),
  ],
  'variable.object-type': [ask('query ($n: author) { author(limit: $n) { id } }', invalid(/\$n/))],
  'variable.unknown-type': [ask('query ($n: Nope) { author(limit: $n) { id } }', invalid(/Nope/))],
  'variable.coerced': [
    ask('query ($n: [Int!]) { author(where: {id: {_in: $n}}) { id } }', data({ author: [{ id: 2 }] }), {
      variables: { n: 2 },
    }),
  ],
  'variable.condition': [
    ask('query ($w: author_bool_exp) { author(where: $w) { id } }', data({ author: [{ id: 2 }] }), {
      variables: { w: { _or: [{ name: { _eq: 'bob' } }] } },
    }),
    ask('query ($w: text_comparison_exp) { author(where: {name: $w}) { id } }', data({ author: [{ id: 2 }] }), {
      variables: { w: { _eq: 'bob' } },
    }),
  ],
  'variable.condition-unknown': [
    ask(
      'query ($w: author_bool_exp) { author(where: $w) { id } }',
      invalid('field "nope" not found in type: \'author_bool_exp\'', '$.variables.w.nope'),
      { variables: { w: { nope: {} } } },
    ),
  ],
  'variable.json': [
    ask(
      'mutation ($d: jsonb) { update_author(where: {id: {_eq: 1}}, _set: {data: $d}) { returning { data } } }',
      data({ update_author: { returning: [{ data: { k: [1, null] } }] } }),
      { variables: { d: { k: [1, null] } } },
    ),
  ],
  'variable.twice': [ask('query ($n: Int, $n: Int) { author(limit: $n) { id } }', invalid(/\$n/))],
  'field.unknown': [
    ask(
      '{ author { nope } }',
      invalid('field "nope" not found in type: \'author\'', '$.selectionSet.author.selectionSet.nope'),
    ),
    ask('{ author { nam } }', invalid('field "nam" not found in type: \'author\'')),
  ],
  'field.unknown-table': [
    ask('{ nope { id } }', invalid('field "nope" not found in type: \'query_root\'', '$.selectionSet.nope')),
    ask('{ thing { id } }', invalid('field "thing" not found in type: \'query_root\'')),
  ],
  'field.no-selection': [
    ask(
      '{ author }',
      invalid('field "author" of type author must have a selection of subfields', '$.selectionSet.author'),
    ),
    ask('{ article { author } }', invalid('field "author" of type author must have a selection of subfields')),
  ],
  'field.selection': [
    ask(
      '{ author { id { x } } }',
      invalid(
        'field "id" must not have a selection since type Int has no subfields',
        '$.selectionSet.author.selectionSet.id',
      ),
    ),
  ],
  'field.conflict': [ask('{ author { a: id a: name } }', invalid(/"a" conflict/))],
  'field.conflict-arguments': [
    ask('{ author(limit: 1) { id } author(limit: 2) { id } }', invalid(/"author" conflict/)),
  ],
  'field.same': [
    ask(
      '{ author(limit: 1, order_by: "id") { id id } author(limit: 1, order_by: "id") { name } }',
      data({ author: [{ id: 1, name: 'Ann' }] }),
    ),
  ],
  'argument.unknown': [
    ask(
      '{ author(first: 1) { id } }',
      invalid('no such argument "first" is expected', '$.selectionSet.author.args.first'),
    ),
  ],
  'argument.twice': [ask('{ author(limit: 1, limit: 2) { id } }', invalid(/"limit"/))],
  'argument.type': [
    ask('{ author(limit: "1") { id } }', invalid(/Int/, '$.selectionSet.author.args.limit')),
    wrongWhere('{id: {_eq: "x"}}', /Int/, '$.selectionSet.author.args.where.id._eq'),
  ],
  'input.unknown': [
    wrongWhere(
      '{nope: {_eq: 1}}',
      'field "nope" not found in type: \'author_bool_exp\'',
      '$.selectionSet.author.args.where.nope',
    ),
  ],
  'input.twice': [wrongWhere('{id: {_eq: 1}, id: {_eq: 2}}', /"id"/, '$.selectionSet.author.args.where.id')],
  'permission.default': [
    ask('{ author { id } }', invalid('field "author" not found in type: \'query_root\''), { as: ANN }),
    ask(
      'mutation { insert_author(objects: {id: 9}) { affected_rows } }',
      invalid('field "insert_author" not found in type: \'mutation_root\''),
      { as: ANN },
    ),
  ],
  'permission.unknown-role': [
    ask('{ article { id } }', invalid('field "article" not found in type: \'query_root\''), { as: NOBODY }),
    ask('mutation { delete_article(where: {}) { affected_rows } }', invalid('no mutations exist', '$.query'), {
      as: NOBODY,
    }),
    ask('{ __typename }', data({ __typename: 'query_root' }), { as: NOBODY }),
  ],
  'permission.anonymous': [
    { ...ask('{ article { id } }', invalid('field "article" not found in type: \'query_root\'')), bare: true },
  ],
  'permission.role-not-held': [
    {
      ...ask('{ article { id } }', refused('access-denied', /user/, '$', 403)),
      bare: true,
      headers: { 'x-service-role': 'user' },
    },
  ],
  'permission.filter': [
    ask('{ article(order_by: "id") { id } }', data({ article: [{ id: 2 }, { id: 4 }] }), { as: ANN }),
  ],
  'permission.columns': [
    ask('{ article { id rating } }', invalid('field "rating" not found in type: \'article\''), { as: ANN }),
  ],
  'permission.where': [
    ask(
      '{ article(where: {rating: {_gt: 1}}) { id } }',
      invalid('field "rating" not found in type: \'article_bool_exp\''),
      { as: ANN },
    ),
  ],
  'permission.order': [
    ask(
      '{ article(order_by: "rating") { id } }',
      { status: 400, like: { errors: [{ error: /rating/ }] } },
      { as: ANN },
    ),
  ],
  'permission.relationship': [
    ask('{ article { author { id } } }', invalid('field "author" not found in type: \'article\''), { as: ANN }),
    ask(
      '{ article(order_by: "author.id") { id } }',
      { status: 400, like: { errors: [{ error: /author/ }] } },
      { as: ANN },
    ),
  ],
  'permission.related-filter': [
    ask(
      '{ author(order_by: "id") { id articles { id } } }',
      data({
        author: [
          { id: 1, articles: [{ id: 2 }, { id: 4 }] },
          { id: 2, articles: [] },
          { id: 3, articles: [] },
        ],
      }),
      { as: READER },
    ),
    ask('{ author(where: {articles: {id: {_gt: 0}}}) { id } }', data({ author: [{ id: 1 }] }), { as: READER }),
  ],
  'permission.limit': [
    ask('{ article(limit: 5, order_by: "id") { id } }', data({ article: [{ id: 2 }, { id: 4 }] }), { as: READER }),
  ],
  'permission.insert': [
    ask(
      'mutation { insert_article(objects: {id: 30, author_id: 2}) { affected_rows } }',
      fails('postgres-error', /^the row would not pass the insert check of role "\w+" on "\w+"$/),
      { as: ANN },
    ),
    ask(
      'mutation { insert_article(objects: {id: 30, author_id: 1, published: false}) { affected_rows } }',
      data({ insert_article: { affected_rows: 1 } }),
      { as: ANN },
    ),
  ],
  'permission.update': [
    ask(
      'mutation { update_article(where: {}, _set: {title: "mine"}) { affected_rows } }',
      data({ update_article: { affected_rows: 3 } }),
      { as: ANN },
    ),
  ],
  'permission.update-column': [
    ask(
      'mutation { update_article(where: {}, _set: {rating: 1}) { affected_rows } }',
      fails('permission-denied', /"rating"/),
      { as: ANN },
    ),
  ],
  'permission.returning': [
    ask(
      'mutation { update_article(where: {id: {_in: [3, 4, 30]}}, _set: {title: "mine"}) { affected_rows returning { id } } }',
      data({ update_article: { affected_rows: 2, returning: [{ id: 4 }] } }),
      { as: ANN },
    ),
    ask(
      'mutation { insert_article(objects: [{id: 31, author_id: 1}, {id: 32, author_id: 1, published: true}]) { affected_rows returning { id } } }',
      data({ insert_article: { affected_rows: 2, returning: [{ id: 32 }] } }),
      { as: ANN },
    ),
  ],
  'permission.no-delete': [
    ask(
      'mutation { delete_article(where: {}) { affected_rows } }',
      invalid('field "delete_article" not found in type: \'mutation_root\''),
      { as: ANN },
    ),
  ],
  'permission.no-mutations': [
    ask('mutation { delete_article(where: {}) { affected_rows } }', invalid('no mutations exist', '$.query'), {
      as: READER,
    }),
  ],
  'permission.session': [
    ask(
      'mutation { update_article(where: {}, _set: {title: "x"}) { affected_rows } }',
      fails('not-found', 'x-service-user-id header is expected but not found'),
      { as: { role: 'user' } },
    ),
  ],
  'database.unique': [
    ask(
      'mutation { insert_author(objects: {id: 1}) { affected_rows } }',
      fails(
        'postgres-error',
        'Uniqueness violation. duplicate key value violates unique constraint "author_pkey"',
        /^\$\.selectionSet\.insert_author/,
      ),
    ),
  ],
  'database.check': [
    ask(
      'mutation { insert_article(objects: {id: 1000}) { affected_rows } }',
      fails('postgres-error', /^Check constraint violation\. /),
    ),
  ],
  'database.value': [
    wrongWhere(
      '{made: {_gt: "yesteryear"}}',
      /invalid input syntax for type timestamp/,
      '$.selectionSet.author.args.where.made._gt',
    ),
  ].map((step) => ({ ...step, expected: fails('postgres-error', /invalid input syntax/) })),
  'numbers.out': [
    ask(
      '{ author(where: {id: {_eq: 1}}) { big num } }',
      text('{"data":{"author":[{"big":9007199254740993,"num":1.10}]}}'),
    ),
  ],
  'numbers.in': [
    authors('{big: {_eq: 9007199254740993}}', 1),
    authors('{big: {_eq: 9007199254740992}}'),
    body(
      '{"query": "query ($b: bigint) { author(where: {big: {_eq: $b}}) { id } }", "variables": {"b": 9007199254740993}}',
      data({ author: [{ id: 1 }] }),
    ),
  ],
  'limit.bytes': [
    ask(ofBytes(262_144), data({ author: [] })),
    ask(ofBytes(262_145), invalid(/longer than 262144 bytes/, '$.query')),
  ],
  'limit.tokens': [
    ask(ofTokens(5000), data({ author: [{ id: 1 }] })),
    ask(ofTokens(5001), fails('parse-failed', /token/, '$.query')),
  ],
  'limit.depth': [
    ask(`{ article(limit: 1) { ${nested(19)} } }`, like({ data: {} })),
    ask(`{ article(limit: 1) { ${nested(20)} } }`, invalid(/21 levels; at most 20/, '$.query')),
  ],
  'limit.roots': [
    ask(`{ ${repeat(50, (i) => `a${i}: author(limit: 0) { id }`)} }`, like({ data: { a49: [] } })),
    ask(`{ ${repeat(51, (i) => `a${i}: author(limit: 0) { id }`)} }`, invalid(/51 root fields; at most 50/, '$.query')),
  ],
  'limit.aliases': [
    ask(`{ author(limit: 0) { ${repeat(200, (i) => `a${i}: id`)} } }`, data({ author: [] })),
    ask(`{ author(limit: 0) { ${repeat(201, (i) => `a${i}: id`)} } }`, invalid(/201 aliases; at most 200/, '$.query')),
  ],
  'limit.condition': [
    authors(`${'{_not: '.repeat(48)}{id: {_eq: 1}}${'}'.repeat(48)}`, 1),
    ask(`{ author(where: ${'{_not: '.repeat(51)}{id: {_eq: 1}}${'}'.repeat(51)}) { id } }`, {
      status: 400,
      like: { errors: [{ error: /at most 50 levels/ }] },
    }),
  ],
  'modern.status': [
    modern('{ nope }', modernFails('validation-failed', /nope/)),
    modern('{ author(limit: 0) { id } }', data({ author: [] })),
  ],
  'modern.response-type': [
    modern('{ nope }', modernFails('validation-failed', /nope/, 400), {
      headers: { accept: 'application/graphql-response+json' },
    }),
    modern(
      '{ author(limit: 0) { id } }',
      {
        status: 200,
        body: { data: { author: [] } },
        headers: { 'content-type': 'application/graphql-response+json; charset=utf-8' },
      },
      { headers: { accept: 'application/graphql-response+json' } },
    ),
  ],
  'modern.role-not-held': [
    {
      ...modern('{ article { id } }', refused('access-denied', /user/, '$', 403)),
      bare: true,
      headers: { 'x-service-role': 'user' },
    },
  ],
  'modern.error': [
    modern('{ author { nope } }', {
      status: 200,
      like: {
        errors: [
          {
            message: /nope/,
            locations: [{ line: 1, column: 12 }],
            extensions: { path: '$.selectionSet.author.selectionSet.nope', code: 'validation-failed' },
          },
        ],
      },
    }),
  ],
  'modern.fragments': [
    modern(
      '{ author(limit: 1, order_by: {id: asc}) { ...f ... on author { name } } } fragment f on author { id }',
      data({ author: [{ id: 1, name: 'Ann' }] }),
    ),
  ],
  'modern.introspection': [modern('{ __type(name: "author") { name } }', data({ __type: { name: 'author' } }))],
  'modern.order': [
    modern('{ author(order_by: {id: desc}, limit: 1) { id } }', data({ author: [{ id: 3 }] })),
    modern('{ author(order_by: ["-id"]) { id } }', modernFails('validation-failed', /author_order_by/)),
  ],
  'modern.codes': [
    modern(
      'mutation { insert_author(objects: {id: 1}) { affected_rows } }',
      modernFails('constraint-violation', /^Uniqueness violation/),
    ),
    modern(
      'mutation { insert_article(objects: {id: 33, author_id: 2}) { affected_rows } }',
      modernFails('permission-error', /would not pass the insert check/),
      { as: ANN },
    ),
    modern(
      '{ author(where: {made: {_gt: "yesteryear"}}) { id } }',
      modernFails('data-exception', /invalid input syntax/),
    ),
  ],
  'modern.null': [
    modern(
      'mutation ($x: Int) { delete_author(where: {id: {_eq: $x}}) { affected_rows } }',
      modernFails('validation-failed', /null/),
    ),
    counted('author', 3),
  ],
  'modern.schemas': [modern('{ other_thing { id } }', data({ other_thing: [] }))],
  'modern.limits': [
    modern(
      `{ author(limit: 0) { ${repeat(201, (i) => `a${i}: id`)} } }`,
      modernFails('validation-failed', /201 aliases; at most 200/),
    ),
    modern(
      `{ ${repeat(51, (i) => `a${i}: author { id }`)} }`,
      modernFails('validation-failed', /51 root fields; at most 50/),
    ),
    modern(`{ article(limit: 1) { ${nested(20)} } }`, modernFails('validation-failed', /21 levels; at most 20/)),
  ],
  'schema.valid': async (t, server) => {
    t.ok(buildSchema((await server.fetch('/v1alpha1/graphql/schema')).body.schema))
  },
}

/** Its promises, with a case for each. */
export const graphql = area('graphql', { promises: PROMISES, cases: CASES, start })

async function start(t: Test) {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const permit = (type: string, table: string, role: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table, role, permission },
  })
  const own = { author_id: 'X-SERVICE-USER-ID' }
  await server.must('bulk', [
    ...['author', 'article', { schema: 'other', name: 'thing' }].map((table) => ({ type: 'track_table', args: table })),
    {
      type: 'create_object_relationship',
      args: { table: 'article', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'author',
        name: 'articles',
        using: { foreign_key_constraint_on: { table: 'article', column: 'author_id' } },
      },
    },
    permit('select', 'article', 'user', { columns: ['id', 'title'], filter: { published: true } }),
    permit('insert', 'article', 'user', { check: own }),
    permit('update', 'article', 'user', { columns: ['title'], filter: own }),
    permit('select', 'article', 'reader', { columns: ['id'], filter: { published: true }, limit: 2 }),
    permit('select', 'author', 'reader', { columns: ['id'], filter: {} }),
  ])
  return server
}
