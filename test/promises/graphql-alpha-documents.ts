import type { Test } from 'tap'
import { alpha as ask, alphaFails as fails, data, rawTo, repeat } from '../kit/graphql-steps.js'
import { setUpLibrary } from '../kit/library.js'
import { area, type Case, like, type Step, text } from '../kit/promises.js'
import { testServer } from '../kit/server.js'

/** What `/v1alpha1/graphql` promises of requests and documents. */
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
  'refuse.fragment': 'a fragment is not supported; the message names /v1/graphql',
  'refuse.inline-fragment': 'nor is an inline fragment',
  'refuse.unused-fragment': 'nor one that nothing spreads',
  'refuse.introspection': 'nor introspection',
  'refuse.subscription': 'subscriptions are not supported',
  'typename.everywhere': '__typename is known on every type and at the root',
  'directive.skip-include': '@skip and @include',
  'directive.unknown': 'no other directive is known',
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
  'limit.bytes': 'a document has at most 256 KiB',
  'limit.tokens': 'and 5,000 tokens',
  'limit.depth': 'and 20 levels',
  'limit.roots': 'and 50 root fields',
  'limit.aliases': 'and 200 aliases',
  'limit.condition': 'a condition nests 50 levels',
} as const

const body = rawTo('/v1alpha1/graphql')
const invalid = (error: string | RegExp, path?: string | RegExp) => fails('validation-failed', error, path)
const wrongWhere = (where: string, error: string | RegExp, path: string): Step =>
  ask(`{ author(where: ${where}) { id } }`, invalid(error, path))
const authors = (where: string, ...ids: readonly number[]): Step =>
  ask(`{ author(where: ${where}, order_by: ["id"]) { id } }`, data({ author: ids.map((id) => ({ id })) }))
const nested = (levels: number): string =>
  levels === 1 ? 'id' : `${levels % 2 ? 'author' : 'articles(limit: 1)'} { ${nested(levels - 1)} }`
const ofBytes = (bytes: number): string => '{ author(limit: 0) { id } }#'.padEnd(bytes, 'x')
const ofTokens = (tokens: number): string =>
  `{ author(where: {id: {_in: [${repeat(tokens - 20, () => '1')}]}}) { id } }`

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
    ask('query ($n: Int) { author(limit: $n) { id } }', invalid(/Int/, '$.variables.n'), { variables: { n: 2 ** 63 } }),
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
      variables: { w: { _or: [{ name: { _eq: 'Bob' } }] } },
    }),
    ask('query ($w: text_comparison_exp) { author(where: {name: $w}) { id } }', data({ author: [{ id: 2 }] }), {
      variables: { w: { _eq: 'Bob' } },
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
}

/** Its promises, with a case for each. */
export const graphqlAlphaDocuments = area('graphql-alpha-documents', { promises: PROMISES, cases: CASES, start })

async function start(t: Test) {
  const server = await testServer(t)
  await setUpLibrary(server)
  return server
}
