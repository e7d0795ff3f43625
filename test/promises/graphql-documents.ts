import { createHash } from 'node:crypto'
import { buildClientSchema, getIntrospectionQuery, printSchema, validateSchema } from 'graphql'
import type { Test } from 'tap'
import { counted, data, fails, invalid, modern as ask, rawTo, repeat } from '../kit/graphql-steps.js'
import { permit, setUpLibrary } from '../kit/library.js'
import { area, type Case, exactly, type Expected, like, refused, type Step } from '../kit/promises.js'
import { type As, type TestServer, testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'

/** What `/v1/graphql` promises of requests and documents. */
const PROMISES = {
  'request.parts': 'POST takes query, operationName and variables, of which the last two may be null or missing',
  'request.malformed':
    'a body that is not a GraphQL request is 400 in the form of GraphQL, whatever the client accepts',
  'request.syntax': 'a document that cannot be parsed is a GraphQL error',
  'request.subscription': 'without the plugin live, subscriptions are refused',
  'get.query': 'GET runs queries, with variables and operationName in the URL',
  'get.mutation': 'GET runs no mutations',
  'get.page': 'a browser that opens the address gets GraphiQL',
  'accept.json': 'with application/json a request that can be read has status 200, also if it fails',
  'accept.response': 'with application/graphql-response+json an error has its own status',
  'accept.other': 'a client that accepts neither gets 406',
  'batch.answers': 'a batch is an array of requests, with an array of responses and paths from the request',
  'batch.separate': 'each request of a batch is a transaction of its own',
  'batch.limit': 'a batch has 1 to 20 requests',
  'error.shape': 'an error has message, locations and extensions with path and code; there is no data',
  'error.long-name': 'an error repeats only the beginning of a long name',
  'error.role': 'a role that the caller does not hold is 403, in the form of the data service',
  'persisted.hash': 'a document that was sent with its hash is run by its hash, with GET, too',
  'persisted.unknown': 'an unknown hash is PersistedQueryNotFound',
  'persisted.wrong-hash': 'a hash that does not match the document is refused',
  'persisted.name': 'a configured document is run by its name',
  'persisted.refused': 'a document that is refused is not kept: too long, not valid, or without permission',
  'persisted.most': 'the documents used least recently are forgotten',
  'listed.only': 'with onlyListed, roles run configured documents only, by name, hash or text; an admin runs any',
  'fragment.named': 'named and inline fragments, with and without a type',
  'fragment.wrong': 'a fragment that is unknown, unused, of another type or spreads itself is refused',
  'directive.skip-include': '@skip and @include',
  'directive.cached': '@cached has no effect, and is not for mutations',
  'directive.unknown': 'no other directive is known',
  'name.several': 'a document of several operations needs an operationName that exists',
  'name.single': 'a single operation needs none',
  'variable.default': 'a default applies if the variable is missing, and gives way to null',
  'variable.required': 'a non-null variable needs a value',
  'variable.type': 'a value of another type is refused with its path',
  'variable.position': 'the type of a variable must fit its place',
  'variable.declared': 'variables must be declared once and be used, with input types of the schema',
  'variable.condition': 'an unknown key in a condition is refused with its path',
  'variable.list': 'one value is a list of one',
  'field.unknown': 'an unknown field, argument or input key is refused, with its path and place',
  'field.selection': 'an object must have a selection, and a scalar must have none',
  'argument.type': 'arguments have the types of the schema, and are given once',
  'names.javascript': 'names that JavaScript knows are ordinary names',
  'introspection.schema': 'introspection describes a valid schema, with fields beside it',
  'introspection.role': 'a role sees only what it may use',
  'introspection.empty': 'a role without permissions has a valid schema with the field _empty',
  'introspection.null': 'a variable of an introspection field must not be null',
  'introspection.off': 'introspection can be turned off for roles other than admin',
  'limit.bytes': 'a document has at most 256 KiB',
  'limit.tokens': 'a document has at most 5,000 tokens',
  'limit.fields': 'a spread of a fragment counts its fields and aliases again',
  'limit.depth': 'fields nest at most 20 levels deep, through fragments, too',
  'limit.roots': 'an operation has at most 50 root fields',
  'limit.aliases': 'a document has at most 200 aliases',
  'limit.values': 'values and types nest at most 64 levels deep, conditions 50',
  'limit.objects': 'variables hold at most 20,000 objects, however many values',
  'limit.role': 'a role has limits of its own',
  'explain.plan': 'explain returns the SQL and the plan of each root field, as a role if one is given',
  'explain.analyze': 'with analyze the statement runs and is rolled back',
  'explain.refused': 'explain names the clauses of the permission that refuse a write',
  'explain.admin': 'explain is for admin',
  'stream.long': 'a list without limit, or with one above 1,000, is streamed; other lists are not',
  'stream.same': 'a streamed response has the text of one that is not streamed',
  'stream.early-error': 'an error before the first rows has a response of its own, without data',
  'stream.late-error': 'a later error comes at the end, with the path of the row that is missing',
} as const

const LISTED = 'query Listed($id: Int!) { author_by_pk(id: $id) { name } }'
const SQL = `
create view many as select i as id from generate_series(1, 1500) i;
create view early as select i as id, 1 / (1300 - i) as q from generate_series(1, 1400) i;
create view late as select i as id, repeat('x', 400) as text, 1 / (1300 - i) as q from generate_series(1, 1400) i;
create type "toString" as enum ('a');
create table "constructor" (id int primary key, "toString" text, "__proto__" int, "valueOf" "toString");
insert into "constructor" values (1, 'x', 1);`

const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const GUEST: As = { role: 'guest' }
const RESPONSE = { accept: 'application/graphql-response+json' }

const raw = rawTo('/v1/graphql')
const malformed = (message: string | RegExp, path: string, code = 'parse-failed') => fails(code, message, path, 400)
const get = (parts: Record<string, string>, expected: Expected, headers: Record<string, string> = {}): Step => ({
  path: `/v1/graphql?${new URLSearchParams(parts).toString()}`,
  method: 'GET',
  headers,
  expected,
})
const hashed = (document: string) => ({
  extensions: { persistedQuery: { version: 1, sha256Hash: createHash('sha256').update(document).digest('hex') } },
})
const ids = (...all: readonly number[]) => all.map((id) => ({ id }))
const NAME = data({ author_by_pk: { name: 'Ann' } })
const nested = (levels: number): string =>
  levels === 1 ? 'id' : `${levels % 2 ? 'author' : 'articles(limit: 1)'} { ${nested(levels - 1)} }`
const not = (levels: number): string => `${'{_not: '.repeat(levels)}{}${'}'.repeat(levels)}`
const explain = (body: object, expected: Expected, as?: As): Step => ({
  path: '/v1/graphql/explain',
  method: 'POST',
  body: JSON.stringify(body),
  expected,
  ...(as ? { as } : {}),
})
const STRICT = {
  plugins: { graphql: { operations: { listed: LISTED }, onlyListed: true, maxPersisted: 1, introspection: false } },
}

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'request.parts': [
    ask(
      'query a($n: Int) { author(limit: $n, order_by: {id: asc}) { id } } query b { author { name } }',
      data({ author: ids(1) }),
      { operationName: 'a', variables: { n: 1 } },
    ),
    ask('{ author(limit: 0) { id } }', data({ author: [] }), { operationName: null, variables: null }),
    ask('{ author(limit: 0) { id } }', data({ author: [] })),
  ],
  'request.malformed': [
    raw('{}', malformed(/query/, '$.query')),
    raw('{"query": 5}', malformed(/query/, '$.query')),
    raw('"x"', malformed(/object/, '$')),
    raw('{"query": "{ author { id } }", "variables": []}', malformed(/object/, '$.variables')),
    raw('{"query": "{ author { id } }", "operationName": 1}', malformed(/string/, '$.operationName')),
    raw('{', malformed(/invalid json/i, '$', 'invalid-json')),
  ],
  'request.syntax': [ask('{ author { id', fails('parse-failed', /Syntax Error/, '$.query'))],
  'request.subscription': [ask('subscription { author { id } }', invalid(/subscriptions need the plugin "live"/))],
  'get.query': [
    get({ query: LISTED, variables: '{"id": 1}' }, NAME),
    get({ query: `query b { author { id } } ${LISTED}`, variables: '{"id": 1}', operationName: 'Listed' }, NAME),
    get({ query: '{ nope }' }, invalid(/nope/)),
    get({ query: '{ nope }' }, fails('validation-failed', /nope/, /./, 400), RESPONSE),
  ],
  'get.mutation': [
    get(
      { query: 'mutation { delete_note(where: {}) { affected_rows } }' },
      { status: 405, headers: { allow: 'POST' }, like: { data: undefined, errors: [{ message: /POST/ }] } },
      RESPONSE,
    ),
    get(
      { query: 'mutation { delete_note(where: {}) { affected_rows } }' },
      { status: 405, headers: { allow: 'POST' }, like: { data: undefined, errors: [{ message: /POST/ }] } },
    ),
    counted('note', 1),
  ],
  'get.page': [
    {
      path: '/v1/graphql',
      method: 'GET',
      bare: true,
      headers: { accept: 'text/html,*/*;q=0.8' },
      expected: { status: 200, headers: { 'content-type': /^text\/html/ } },
    },
  ],
  'accept.json': [
    ask('{ nope }', { ...invalid(/nope/), headers: { 'content-type': /^application\/json/ } }),
    ask('{ author(limit: 0) { id } }', data({ author: [] }), { headers: { accept: 'application/json' } }),
    ask('{ author(limit: 0) { id } }', data({ author: [] }), { headers: { accept: '*/*' } }),
  ],
  'accept.response': [
    ask('{ nope }', fails('validation-failed', /nope/, /./, 400), { headers: RESPONSE }),
    ask(
      '{ author(limit: 0) { id } }',
      {
        status: 200,
        body: { data: { author: [] } },
        headers: { 'content-type': 'application/graphql-response+json; charset=utf-8' },
      },
      { headers: RESPONSE },
    ),
  ],
  'accept.other': [ask('{ author { id } }', { status: 406 }, { headers: { accept: 'image/png' } })],
  'batch.answers': [
    raw(
      JSON.stringify([
        { query: LISTED, variables: { id: 1 } },
        { query: '{ nope }' },
        { query: LISTED, variables: { id: 2 } },
      ]),
      like([
        { data: { author_by_pk: { name: 'Ann' } } },
        { data: undefined, errors: [{ extensions: { path: '$[1].selectionSet.nope' } }] },
        { data: { author_by_pk: { name: 'Bob' } } },
      ]),
    ),
  ],
  'batch.separate': [
    raw(
      JSON.stringify([
        { query: 'mutation { insert_note(objects: {id: 2}) { affected_rows } }' },
        { query: 'mutation { insert_note(objects: {id: 2}) { affected_rows } }' },
      ]),
      like([
        { data: { insert_note: { affected_rows: 1 } } },
        { errors: [{ extensions: { code: 'constraint-violation' } }] },
      ]),
    ),
    counted('note', 2),
  ],
  'batch.limit': [
    raw('[]', malformed(/1 to 20 operations/, '$')),
    raw(`[${Array.from({ length: 20 }, () => '{"query": "{ __typename }"}').join()}]`, like({ length: 20 })),
    raw(
      `[${Array.from({ length: 21 }, () => '{"query": "{ __typename }"}').join()}]`,
      malformed(/1 to 20 operations/, '$'),
    ),
  ],
  'error.shape': [
    ask('{\n  author { nope }\n}', {
      status: 200,
      body: {
        errors: [
          {
            message: 'Cannot query field "nope" on type "author".',
            locations: [{ line: 2, column: 12 }],
            extensions: { path: '$.selectionSet.author.selectionSet.nope', code: 'validation-failed' },
          },
        ],
      },
    }),
  ],
  'error.long-name': async (t, server) => {
    const name = 'a'.repeat(100_000)
    const query = JSON.stringify({ query: `{ author { ${name} } }` })
    const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: query })
    t.ok(body.errors[0].message.length < 5000)
    const { text } = await server.query('select', { table: 'author', columns: ['id'], where: { [name]: 1 } })
    t.match(text, /not-exists/)
    t.ok(text.length < 10_000, `${text.length} characters`)
  },
  'error.role': [
    {
      ...ask('{ article { id } }', refused('access-denied', /user/, '$', 403)),
      bare: true,
      headers: { 'x-service-role': 'user' },
    },
  ],
  'persisted.hash': inOneProcess(
    ask(LISTED, NAME, { variables: { id: 1 }, body: hashed(LISTED) }),
    raw(JSON.stringify({ ...hashed(LISTED), variables: { id: 1 } }), NAME),
    get({ extensions: JSON.stringify(hashed(LISTED).extensions), variables: '{"id": 1}' }, NAME),
  ),
  'persisted.unknown': [
    raw(JSON.stringify(hashed('{ x }')), {
      status: 400,
      like: { errors: [{ message: 'PersistedQueryNotFound', extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } }] },
    }),
  ],
  'persisted.wrong-hash': [
    ask('{ author { id } }', malformed(/hash/, '$.extensions'), { body: hashed('{ author { name } }') }),
  ],
  'persisted.name': [
    raw('{"documentId": "by_name", "variables": {"name": "Ann"}}', data({ author: ids(1) })),
    get({ documentId: 'by_name', variables: '{"name": "Bob"}' }, data({ author: ids(2) })),
  ],
  'persisted.refused': async (t, server) => {
    if (PROCESSES > 1) return
    const send = async (body: object) =>
      (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify(body) }, GUEST)).body
    const long = `#${'x'.repeat(300_000)}\n{ author { id } }`
    for (const query of [long, '}}}', '{ author { nothing } }', '{ secrets { id } }']) {
      t.match(await send({ query, ...hashed(query) }), { errors: [{ message: /./ }] })
      t.match(await send(hashed(query)), { errors: [{ message: 'PersistedQueryNotFound' }] }, query.slice(0, 30))
    }
  },
  'persisted.most': async (t, server) => {
    if (PROCESSES > 1) return
    const { send } = await strict(t, server)
    const [first, second] = ['{ a: author { id } }', '{ b: author { id } }']

    for (const query of [first, second]) t.match(await send({ query, ...hashed(query) }), { data: {} })
    t.match(await send(hashed(second)), { data: { b: { length: 3 } } })
    t.match(await send(hashed(first)), { errors: [{ message: 'PersistedQueryNotFound' }] })
  },
  'listed.only': async (t, server) => {
    const { send } = await strict(t, server)
    const variables = { id: 1 }
    const answer = { data: { author_by_pk: { name: 'Ann' } } }

    t.same(await send({ documentId: 'listed', variables }, GUEST), answer)
    t.same(await send({ ...hashed(LISTED), variables }, GUEST), answer)
    t.same(await send({ query: LISTED, variables }, GUEST), answer)
    const other = { query: '{ author_by_pk(id: 1) { name } }' }
    t.match(await send(other, GUEST), { data: undefined, errors: [{ extensions: { code: 'permission-denied' } }] })
    t.same(await send(other), answer)
  },
  'fragment.named': [
    ask(
      'query ($id: Int!) { author_by_pk(id: $id) { ...A ... on author { articles(order_by: {rating: desc}, limit: 1) { ...B } } ... { age } } } fragment A on author { id } fragment B on article { title author { ...A } }',
      data({ author_by_pk: { id: 1, articles: [{ title: 'a5', author: { id: 1 } }], age: 30 } }),
      { variables: { id: 1 } },
    ),
    ask('{ ...r } fragment r on query_root { author_by_pk(id: 1) { name } }', NAME),
  ],
  'fragment.wrong': [
    ask('{ author { ...a } }', invalid(/"a"/)),
    ask('{ author { id } } fragment a on author { id }', invalid(/"a"/)),
    ask('{ author { ...a } } fragment a on article { id }', invalid(/"a"|article/)),
    ask(
      '{ author { ...a } } fragment a on author { ...b } fragment b on author { ...a }',
      invalid(/fragment "a" spreads itself/),
    ),
  ],
  'directive.skip-include': [true, false].map((x) =>
    ask(
      'query ($x: Boolean!) { author_by_pk(id: 1) { a: id @include(if: $x) b: id @skip(if: $x) c: id @include(if: true) @skip(if: false) ... @include(if: $x) { d: id } } }',
      data({ author_by_pk: x ? { a: 1, c: 1, d: 1 } : { b: 1, c: 1 } }),
      { variables: { x } },
    ),
  ),
  'directive.cached': [
    ask('query @cached { author_by_pk(id: 1) { name } }', NAME),
    ask('query @cached(ttl: 120, refresh: true) { author_by_pk(id: 1) { name } }', NAME),
    ask('query ($n: Int = 5) @cached(ttl: $n) { author_by_pk(id: 1) { name } }', NAME),
    ask(
      'mutation @cached { delete_note(where: {}) { affected_rows } }',
      invalid(/"@cached" may not be used on MUTATION/),
    ),
  ],
  'directive.unknown': [ask('{ author { id @nope } }', invalid(/nope/))],
  'name.several': [
    ask('query a { author { id } } query b { author { id } }', invalid(/operationName/, '$')),
    ask('query a { author { id } } query b { author { id } }', invalid(/"c"/, '$.operationName'), {
      operationName: 'c',
    }),
  ],
  'name.single': [
    ask('query a { author_by_pk(id: 1) { name } }', NAME),
    ask('query a { author { id } }', invalid(/"b"/, '$.operationName'), { operationName: 'b' }),
  ],
  'variable.default': [
    ask('query ($n: Int = 1) { author(limit: $n, order_by: {id: asc}) { id } }', data({ author: ids(1) })),
    ask('query ($n: Int! = 1) { author(limit: $n, order_by: {id: asc}) { id } }', data({ author: ids(1) }), {
      variables: {},
    }),
    ask('query ($n: Int = 1) { author(limit: $n, order_by: {id: asc}) { id } }', data({ author: ids(1, 2, 3) }), {
      variables: { n: null },
    }),
    ask('query ($w: author_bool_exp = {id: {_eq: 2}}) { author(where: $w) { id } }', data({ author: ids(2) })),
  ],
  'variable.required': [undefined, {}, { n: null }].map((variables) =>
    ask('query ($n: Int!) { author(limit: $n) { id } }', invalid(/non-null type/, '$.variables.n'), { variables }),
  ),
  'variable.type': [
    ...['one', 1.5, true].map((n) =>
      ask('query ($n: Int) { author(limit: $n) { id } }', invalid(/Int/, '$.variables.n'), { variables: { n } }),
    ),
    ask('query ($n: Int) { author(limit: $n, order_by: {id: asc}) { id } }', data({ author: ids(1, 2, 3) }), {
      variables: { n: 2 ** 31 },
    }),
    ask('query ($n: Int) { author(limit: $n) { id } }', invalid(/./, '$.variables.n'), { variables: { n: 2 ** 64 } }),
    ask('query ($n: [Int!]) { author(where: {id: {_in: $n}}) { id } }', invalid(/Int/, '$.variables.n[1]'), {
      variables: { n: [1, null] },
    }),
    ask('query ($x: Boolean!) { author { id @skip(if: $x) } }', invalid(/Boolean/, '$.variables.x'), {
      variables: { x: 'true' },
    }),
  ],
  'variable.position': [
    ask('query ($n: String) { author(limit: $n) { id } }', invalid(/\$n.*String.*Int/), { variables: { n: '1' } }),
    ask('query ($n: Int) { author_by_pk(id: $n) { id } }', invalid(/\$n/), { variables: { n: 1 } }),
  ],
  'variable.declared': [
    ask('{ author(limit: $n) { id } }', invalid(/\$n/)),
    ask('query ($n: Int) { author { id } }', invalid(/\$n/)),
    ask('query ($n: Int, $n: Int) { author(limit: $n) { id } }', invalid(/\$n/)),
    ask('query ($n: author) { author(limit: $n) { id } }', invalid(/\$n/)),
    ask('query ($n: Nope) { author(limit: $n) { id } }', invalid(/Nope/)),
  ],
  'variable.condition': [
    ask('query ($w: author_bool_exp) { author(where: $w) { id } }', invalid(/"nope"/, '$.variables.w.nope'), {
      variables: { w: { nope: {} } },
    }),
    ask(
      'query ($w: author_bool_exp) { author(where: $w) { id } }',
      invalid(/"rating"/, '$.variables.w.articles.rating'),
      {
        variables: { w: { articles: { rating: { _eq: 1 } } } },
        as: ANN,
      },
    ),
  ],
  'variable.list': [
    ask('query ($n: [Int!]) { author(where: {id: {_in: $n}}) { id } }', data({ author: ids(2) }), {
      variables: { n: 2 },
    }),
  ],
  'field.unknown': [
    ask('{ nope { id } }', invalid(/"nope"/, '$.selectionSet.nope')),
    ask('{ author(first: 1) { id } }', invalid(/"first"/, /author/)),
    ask('{ author(where: {nope: {_eq: 1}}) { id } }', invalid(/"nope"/, '$.selectionSet.author.args.where.nope')),
    ask('{ author(where: {id: {_nope: 1}}) { id } }', invalid(/"_nope"/, '$.selectionSet.author.args.where.id._nope')),
  ],
  'field.selection': [
    ask('{ author }', invalid(/must have a selection of subfields/, '$.selectionSet.author')),
    ask('{ author { id { x } } }', invalid(/must not have a selection/, '$.selectionSet.author.selectionSet.id')),
  ],
  'argument.type': [
    ask('{ author(limit: "1") { id } }', invalid(/Int/, '$.selectionSet.author.args.limit')),
    ask('{ author(where: {id: {_eq: "x"}}) { id } }', invalid(/Int/, '$.selectionSet.author.args.where.id._eq')),
    ask('{ author(limit: 1, limit: 2) { id } }', invalid(/"limit"/)),
    ask('{ author(where: {id: {_eq: 1}, id: {_eq: 2}}) { id } }', invalid(/"id"/)),
  ],
  'names.javascript': [
    ask(
      'query ($constructor: constructor_bool_exp, $toString: Int) { constructor(where: $constructor, limit: $toString) { valueOf: toString } }',
      exactly({ data: { constructor: [{ valueOf: 'x' }] } }),
      { variables: { constructor: { toString: { _eq: 'x' } } } },
    ),
    ask(
      'query ($constructor: constructor_bool_exp, $toString: Int) { constructor(where: $constructor, limit: $toString) { id } }',
      exactly({ data: { constructor: [{ id: 1 }] } }),
    ),
    ask(
      'mutation ($constructor: constructor_insert_input!) { insert_constructor_one(object: $constructor) { id } }',
      invalid(/./),
    ),
    ask(
      'mutation { insert_constructor(objects: {id: 2, toString: "y", valueOf: a}) { returning { constructor: id toString valueOf } } }',
      exactly({ data: { insert_constructor: { returning: [{ constructor: 2, toString: 'y', valueOf: 'a' }] } } }),
    ),
    ...['hasOwnProperty', 'isPrototypeOf', '__proto__'].map((key) =>
      raw(
        `{"query": "query ($w: constructor_bool_exp) { constructor(where: $w) { id } }", "variables": {"w": {"${key}": {"_eq": 1}}}}`,
        invalid(new RegExp(key)),
      ),
    ),
  ],
  'introspection.schema': async (t, server) => {
    const printed = await sdl(t, server)
    t.match(printed, /author_by_pk\(id: Int!\): author\n/)
    t.match(
      printed,
      /\n {2}insert_author\(objects: \[author_insert_input!\]!, on_conflict: author_on_conflict\): author_mutation_response\n/,
    )
    t.match(printed, /data\(path: String\): jsonb\n/)
    const query = 'query ($n: String!) { __type(name: $n) { name kind } author_by_pk(id: 1) { id } }'
    const { body } = await server.fetch('/v1/graphql', {
      method: 'POST',
      body: JSON.stringify({ query, variables: { n: 'author' } }),
    })
    t.same(body, { data: { author_by_pk: { id: 1 }, __type: { name: 'author', kind: 'OBJECT' } } })
  },
  'introspection.role': async (t, server) => {
    const printed = await sdl(t, server, ANN)
    for (const hidden of ['rating', 'delete_', '_aggregate', 'note_', 'type note ']) t.notMatch(printed, hidden)
    const query = '{ __type(name: "note") { name } }'
    const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, ANN)
    t.same(body, { data: { __type: null } })
    t.match(printed, /input article_insert_input {\n {2}title: String\n {2}author_id: Int\n}/)
    t.match(printed, /input article_set_input {\n {2}title: String\n}/)
    t.match(printed, /type article {\n {2}id: Int!\n {2}title: String!\n {2}author_id: Int\n {2}author: author\n}/)
  },
  'introspection.empty': async (t, server) => {
    t.match(await sdl(t, server, { role: 'nobody' }), /_empty: String/)
    const { body } = await server.fetch(
      '/v1/graphql',
      { method: 'POST', body: '{"query": "{ _empty }"}' },
      { role: 'nobody' },
    )
    t.same(body, { data: { _empty: '' } })
  },
  'introspection.null': [
    ask('query ($n: String = "author") { __type(name: $n) { name } }', invalid(/must not be null/, '$.query'), {
      variables: { n: null },
    }),
    ask(
      'query ($b: Boolean = true) { __schema @include(if: $b) { queryType { name } } }',
      invalid(/must not be null/, '$.query'),
      { variables: { b: null } },
    ),
  ],
  'introspection.off': async (t, server) => {
    const second = await testServer(t, {
      databaseUrl: server.databaseUrl,
      config: { plugins: { graphql: { introspection: false } } },
    })
    const body = JSON.stringify({ query: '{ __type(name: "author") { name } }' })
    const send = async (as?: As) => (await second.fetch('/v1/graphql', { method: 'POST', body }, as)).body
    t.match(await send(GUEST), { data: undefined, errors: [{ message: /introspection/i }] })
    t.same(await send(), { data: { __type: { name: 'author' } } })
    await second.close()
  },
  'limit.bytes': [
    ask('{ author(limit: 0) { id } }#'.padEnd(262_144, 'x'), data({ author: [] })),
    raw(
      JSON.stringify({ query: '{ author(limit: 0) { id } }#'.padEnd(262_145, 'x') }),
      fails('validation-failed', /longer than 262144 bytes/, '$.query', 400),
    ),
  ],
  'limit.tokens': [
    ask(`{ author(where: {id: {_in: [${repeat(4980, () => '1')}]}}) { id } }`, data({ author: ids(1) })),
    ask(
      `{ author(where: {id: {_in: [${repeat(4981, () => '1')}]}}) { id } }`,
      fails('parse-failed', /token/, '$.query'),
    ),
    ask(`{ author(where: ${'['.repeat(4000)}) { id } }`, fails('parse-failed', /./, '$.query')),
  ],
  'limit.fields': [
    ask(
      `{ author { ${repeat(3, (i) => `x${i}: articles { ...f }`)} } } fragment f on article { ${repeat(70, (i) => `a${i}: id`)} }`,
      invalid(/213 aliases; at most 200/),
    ),
    ask(
      `{ author { ${repeat(60, () => '...f')} } } fragment f on author { ${repeat(90, () => 'id')} }`,
      fails('validation-failed', /fields; at most 5000/),
    ),
    ask(
      `{ article { ...f0 } } ${repeat(15, (i) => `fragment f${i} on ${i % 2 ? 'author' : 'article'} { x: ${i % 2 ? 'articles' : 'author'} { ...f${i + 1} } y: ${i % 2 ? 'articles' : 'author'} { ...f${i + 1} } }`)} fragment f15 on author { id }`,
      invalid(/aliases; at most 200/),
    ),
  ],
  'limit.depth': [
    ask(`{ article(limit: 1) { ${nested(19)} } }`, like({ data: { article: [{}] } })),
    ask(
      `{ article(limit: 1) { ${nested(20)} } }`,
      invalid(/^the document has 21 levels; at most 20 are allowed \(plugins\.graphql\.limits\.maxDepth\)/, '$.query'),
    ),
    ask(`{ article(limit: 1) { ...f } } fragment f on article { ${nested(20)} }`, invalid(/21 levels; at most 20/)),
  ],
  'limit.roots': [
    ask(`{ ${repeat(50, (i) => `a${i}: author(limit: 0) { id }`)} }`, like({ data: { a49: [] } })),
    ask(`{ ${repeat(51, (i) => `a${i}: author(limit: 0) { id }`)} }`, invalid(/51 root fields; at most 50/, '$.query')),
  ],
  'limit.aliases': [
    ask(`{ author(limit: 0) { ${repeat(200, (i) => `a${i}: id`)} } }`, data({ author: [] })),
    ask(`{ author(limit: 0) { ${repeat(201, (i) => `a${i}: id`)} } }`, invalid(/201 aliases; at most 200/, '$.query')),
  ],
  'limit.values': [
    ask(`{ author(where: ${not(48)}, order_by: {id: asc}) { id } }`, data({ author: ids(1, 2, 3) })),
    ask(
      `query ($v: author_bool_exp = ${not(40)}) { author(where: $v) { id } }`,
      like({ data: { author: { length: 3 } } }),
    ),
    ...[70, 1000].flatMap((levels) => [
      ask(`{ author(where: ${not(levels)}) { id } }`, invalid(/values and types may nest at most 64 levels/)),
      ask(`query ($v: author_bool_exp = ${not(levels)}) { author(where: $v) { id } }`, invalid(/at most 64 levels/)),
      ask(`query ($v: ${'['.repeat(levels)}Int${']'.repeat(levels)}) { author { id } }`, invalid(/at most 64 levels/)),
    ]),
    ask(`{ author(where: ${not(60)}) { id } }`, fails('unexpected-payload', /at most 50 levels/)),
  ],
  'limit.objects': [
    ask(
      'query ($w: author_bool_exp!) { author(where: $w) { id } }',
      invalid(/more than 20000 objects/, '$.variables'),
      {
        variables: { w: { _or: Array.from({ length: 20_001 }, () => ({})) } },
      },
    ),
    ask(
      'query ($l: [Int!]!) { author(where: {id: {_in: $l}}, order_by: {id: asc}) { id } }',
      data({ author: ids(1, 2, 3) }),
      {
        variables: { l: Array.from({ length: 20_001 }, (_, i) => i) },
      },
    ),
  ],
  'limit.role': [
    ask('{ author_by_pk(id: 1) { name } }', NAME, { as: GUEST }),
    ask('{ a: author { id } b: author { id } }', invalid(/2 root fields; at most 1/), { as: GUEST }),
    ask('{ author { articles { id } } }', invalid(/3 levels; at most 2/), { as: GUEST }),
    {
      ...raw('[{"query": "{ __typename }"}, {"query": "{ __typename }"}]', malformed(/1 to 1 operations/, '$')),
      as: GUEST,
    },
  ],
  'explain.plan': [
    explain(
      { query: '{ author { name } a: article(where: {id: {_eq: 1}}) { title } }' },
      like([
        { field: 'author', sql: /^select [^]*"author"/, plans: [String] },
        { field: 'a', sql: /"article"[^]*/, plans: [String] },
      ]),
    ),
    explain({ query: '{ article { id } }' }, like([{ field: 'article', sql: /"published"/ }]), {
      ...ANN,
      acting: true,
    }),
    explain({ query: '{ article { rating } }' }, fails('validation-failed', /rating/, /./, 400), {
      ...ANN,
      acting: true,
    }),
  ],
  'explain.analyze': [
    explain(
      { query: 'mutation { delete_note(where: {}) { affected_rows } }', analyze: true },
      { status: 200, like: [{ field: 'delete_note' }] },
    ),
    explain({ query: '{ author { name } }', analyze: true }, like([{ plans: [/actual time/] }])),
    counted('note', 2),
  ],
  'explain.refused': [
    explain(
      { query: 'mutation { update_article(where: {}, _set: {title: "bad"}) { affected_rows } }' },
      like([
        { field: 'update_article', refused: { role: 'user', table: 'article', clauses: [{ permission: 'update' }] } },
      ]),
      { ...ANN, acting: true },
    ),
  ],
  'explain.admin': [explain({ query: '{ article { id } }' }, { status: 400, like: { code: 'access-denied' } }, ANN)],
  'stream.long': async (t, server) => {
    const lists: Record<string, boolean> = {
      '{ many { id } }': true,
      '{ many(limit: 1001) { id } }': true,
      '{ many(limit: 1000) { id } }': false,
      '{ author_by_pk(id: 1) { articles { id } } }': false,
    }
    for (const [query, streamed] of Object.entries(lists)) {
      const { headers } = await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) })
      t.equal(headers.has('content-length'), !streamed, query)
    }
  },
  'stream.same': async (t, server) => {
    const query =
      'query ($yes: Boolean = true) { type: __typename author_by_pk(id: 1) { name } a: many(order_by: {id: asc}) { ...M } none: many(where: {id: {_lt: 0}}) { id } b: many(order_by: {id: desc}) @include(if: $yes) { ...M } c: many @skip(if: $yes) { id } many_aggregate { aggregate { count } } } fragment M on many { id }'
    const send = (body: unknown) => server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify(body) })
    const streamed = await send({ query })
    const whole = await send([{ query }])
    t.equal(streamed.headers.has('content-length'), false)
    t.equal(streamed.text, whole.text.slice(1, -1))
    t.equal(streamed.body.data.a.length, 1500)
  },
  'stream.early-error': [
    ask('{ author { id } early { id q } }', fails('data-exception', 'division by zero', /./, 400), {
      headers: RESPONSE,
    }),
  ],
  'stream.late-error': async (t, server) => {
    const query = '{ author(order_by: {id: asc}) { id } l: late { id text q } many { id } }'
    const { status, body } = await server.fetch('/v1/graphql', {
      method: 'POST',
      headers: RESPONSE,
      body: JSON.stringify({ query }),
    })
    const { data: found, errors } = body
    t.equal(status, 200)
    t.same(Object.keys(found), ['author', 'l'])
    t.same(found.author, ids(1, 2, 3))
    t.ok(found.l.length > 100 && found.l.length < 1300)
    t.match(errors, [
      {
        message: 'division by zero',
        path: ['l', found.l.length],
        extensions: { path: '$.selectionSet.l', code: 'data-exception' },
      },
    ])
  },
}

/** Each process has registered documents of its own. */
function inOneProcess(...steps: readonly Step[]): readonly Step[] {
  return PROCESSES > 1 ? [] : steps
}

/** The schema of a role, which is valid. */
async function sdl(t: Test, server: TestServer, as?: As): Promise<string> {
  const body = JSON.stringify({ query: getIntrospectionQuery() })
  const schema = buildClientSchema((await server.fetch('/v1/graphql', { method: 'POST', body }, as)).body.data)
  t.same(validateSchema(schema), [])
  return printSchema(schema)
}

/** A server that runs only listed documents for roles, and keeps one document of clients. */
async function strict(t: Test, { databaseUrl }: TestServer) {
  const server = await testServer(t, { databaseUrl, config: STRICT })
  const send = async (body: object, as?: As) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify(body) }, as)).body
  return { send }
}

/** Its promises, with a case for each. */
export const graphqlDocuments = area('graphql-documents', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/graphql/README.md': {
      GraphQL: {
        '`POST /v1/graphql`, `GET` for queries': ['request.parts', 'get.query', 'get.mutation', 'get.page'],
        '`POST /v1/graphql/explain`': ['explain.plan', 'explain.admin'],
      },
    },
  },
})

async function start(t: Test) {
  const guest = { maxDepth: 2, maxRootFields: 1, maxBatch: 1 }
  const operations = { by_name: 'query ($name: String!) { author(where: {name: {_eq: $name}}) { id } }' }
  const server = await testServer(t, { config: { plugins: { graphql: { roles: { guest }, operations } } } })
  await setUpLibrary(server, [
    { type: 'run_sql', args: { sql: `${SQL} insert into note (id) values (1)` } },
    ...['many', 'early', 'late', 'constructor'].map((table) => ({ type: 'track_table', args: table })),
    permit('select', 'article', 'user', { columns: ['id', 'title', 'author_id'], filter: { published: true } }),
    permit('insert', 'article', 'user', { check: { author_id: 'X-SERVICE-USER-ID' }, columns: ['title', 'author_id'] }),
    permit('update', 'article', 'user', { columns: ['title'], filter: {}, check: { title: { $ne: 'bad' } } }),
    permit('select', 'author', 'user', { columns: ['id'], filter: {} }),
    permit('select', 'author', 'guest', { columns: ['id', 'name'], filter: {} }),
    permit('select', 'article', 'guest', { columns: ['id'], filter: {} }),
  ])
  return server
}
