import type { Test } from 'tap'
import { data, fails, invalid, modern, rawTo, relay as ask } from '../kit/graphql-steps.js'
import { permit, setUpLibrary } from '../kit/library.js'
import { area, type Case, like, type Step } from '../kit/promises.js'
import { type As, type TestServer, testServer } from '../kit/server.js'

/** What `/v1beta1/relay` promises. */
const PROMISES = {
  'page.every-row': 'pages in every order, forwards and backwards, hold every row once',
  'page.info': 'hasNextPage and hasPreviousPage are exact in both directions',
  'page.between': 'a page can end at a cursor, and start at one from behind',
  'page.arguments': 'a connection takes where and distinct_on',
  'page.empty': 'an empty page has empty cursors, which mean the beginning',
  'page.exclusive': 'first and last exclude each other, and so do after and before',
  'page.size': 'first and last are not negative, and there is no limit and offset',
  'page.variables': 'all of it may come as variables',
  'id.global': 'the global id takes the place of a column id; conditions, orders and inserts use the column',
  'id.composite': 'a key of several columns is one id',
  'id.digits': 'an id keeps the digits of its key',
  'id.node': 'node finds the row of an id, with fragments on types and on Node',
  'id.unknown': 'node is null for rows and tables that do not exist, and for those that the role may not see',
  'id.damaged': 'a damaged id fails with 400 and its path, as a variable and in the document',
  'id.values': 'an id with other values than the key has is refused',
  'cursor.damaged': 'a damaged cursor fails with 400 and its path',
  'cursor.other': 'so does a cursor of another list, or of another order',
  'cursor.forged': 'values in a cursor that the columns cannot have are refused',
  'connection.relationship': 'an array relationship is a list, and a connection with pages of its own',
  'connection.function': 'a function that returns rows of a table is a connection',
  'connection.roots': 'the root fields of queries are node and the connections of tables with a primary key',
  'connection.types': 'types with a primary key implement Node; a connection has types of its own',
  'mutation.same': 'mutations are those of /v1/graphql, with global ids in their rows',
  'permission.filter': 'a role pages through the rows of its filter, with its limit for each page',
  'permission.columns': 'a role sorts by columns that it may select only',
  'permission.key': 'without permission for the key there are no ids and no connection',
  'permission.schema': 'the schema of a role has what the role sees',
  'dialect.same': 'GET, batches, fragments and statuses are those of /v1/graphql',
  'dialect.off': 'relay: false turns it off',
} as const

const SQL = `
insert into article (id, title) values (7, 'orphan');
create table tag (article_id int references article, name text, primary key (article_id, name));
insert into tag values (1, 'x'), (1, 'y'), (2, 'x');
create table remark (body text, author_id int references author);
create table large (the_key bigint primary key, id text);
insert into large values (9007199254740993, 'own');
create function search(word text) returns setof article language sql stable as
  $$ select * from article where title like '%' || word || '%' $$;`

const ANN: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
const NAMESAKE: As = { role: 'namesake' }

interface Page {
  readonly edges: readonly { readonly cursor: string; readonly node: { readonly id: string } }[]
  readonly pageInfo: Record<'startCursor' | 'endCursor', string> & Record<'hasNextPage' | 'hasPreviousPage', boolean>
}
const PAGE = 'pageInfo { startCursor endCursor hasNextPage hasPreviousPage } edges { cursor node { id } }'
const INFO = 'pageInfo { hasPreviousPage hasNextPage }'
const idOf = (table: string, ...key: readonly unknown[]): string =>
  btoa(`[1, "public", "${table}", ${key.map((each) => JSON.stringify(each)).join(', ')}]`)
/** The key of a global id. */
const keyOf = (id: string): unknown => (JSON.parse(atob(id)) as unknown[])[3]
const articles = (...keys: readonly number[]) => ({
  edges: keys.map((key) => ({ node: { id: idOf('article', key) } })),
})
const page = (args: string, keys: readonly number[], hasPreviousPage: boolean, hasNextPage: boolean): Step =>
  ask(
    `{ article_connection(${args}) { ${INFO} edges { node { id } } } }`,
    data({ article_connection: { pageInfo: { hasPreviousPage, hasNextPage }, ...articles(...keys) } }),
  )
const node = (id: string, expected: object | null, as?: As): readonly Step[] => [
  ask('query ($id: ID!) { node(id: $id) { id } }', data({ node: expected }), { variables: { id }, ...(as && { as }) }),
  ask(`{ node(id: "${id}") { id } }`, data({ node: expected }), as ? { as } : {}),
]
const wrongId = (id: string, code: string, message: RegExp): readonly Step[] => {
  const expected = fails(code, message, '$.selectionSet.node.args.id')
  return [
    ask('query ($id: ID!) { node(id: $id) { id } }', expected, { variables: { id } }),
    ask(`{ node(id: "${id}") { id } }`, expected),
  ]
}

const read = async (server: TestServer, query: string, variables?: object, as?: As) => {
  const { body, text } = await server.fetch(
    '/v1beta1/relay',
    { method: 'POST', body: JSON.stringify({ query, variables }) },
    as,
  )
  if (!body.data) throw new Error(`${query}: ${text}`)
  return body.data
}
const onePage = async (server: TestServer, args: string, c?: string, as?: As, table = 'article'): Promise<Page> => {
  const query = `query${args.includes('$c') ? ' ($c: String)' : ''} { page: ${table}_connection(${args}) { ${PAGE} } }`
  return (await read(server, query, args.includes('$c') ? { c } : {}, as)).page as Page
}

/** In order: later ones see what earlier ones left. */
const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'page.every-row': async (t, server) => {
    const orders: readonly [table: string, order: string][] = [
      ['article', ''],
      ['article', '{rating: desc}'],
      ['article', '[{published: asc}, {rating: desc_nulls_last}]'],
      ['article', '{author: {age: asc}}'],
      ['author', '{age: asc}'],
      ['author', '{age: desc_nulls_last}'],
      ['author', '{data: desc}'],
      ['author', '{articles_aggregate: {count: desc}}'],
    ]
    for (const [table, order] of orders) {
      const full = `[${[order.replace(/^\[(.*)\]$/, '$1'), '{id: asc}'].filter(Boolean).join(', ')}]`
      const query = JSON.stringify({ query: `{ ${table}(order_by: ${full}) { id } }` })
      const { body } = await server.fetch('/v1/graphql', { method: 'POST', body: query })
      const all = (body.data[table] as { id: number }[]).map(({ id }) => id)
      const by = order === '' ? '' : `order_by: ${order}, `
      for (const backwards of [false, true]) {
        const found: unknown[] = []
        for (let cursor: string | undefined; ;) {
          const args = backwards ? 'last: 2, before: $c' : 'first: 2, after: $c'
          const { edges, pageInfo } = await onePage(server, by + args, cursor, undefined, table)
          found[backwards ? 'unshift' : 'push'](...edges.map((edge) => keyOf(edge.node.id)))
          const { startCursor, endCursor, hasNextPage, hasPreviousPage } = pageInfo
          t.same([startCursor, endCursor], [edges[0]?.cursor, edges.at(-1)?.cursor])
          t.equal(backwards ? hasNextPage : hasPreviousPage, cursor !== undefined, 'there is a page before this one')
          if (!(backwards ? hasPreviousPage : hasNextPage)) break
          cursor = backwards ? startCursor : endCursor
        }
        t.same(found, all, `${table} ${backwards ? 'backwards' : 'forwards'} by ${order}`)
      }
    }
  },
  'page.info': [
    page('first: 7', [1, 2, 3, 4, 5, 6, 7], false, false),
    page('first: 6', [1, 2, 3, 4, 5, 6], false, true),
    page('last: 7', [1, 2, 3, 4, 5, 6, 7], false, false),
    page('last: 6', [2, 3, 4, 5, 6, 7], true, false),
    page('first: 0', [], false, true),
  ],
  'page.between': async (t, server) => {
    const all = (await onePage(server, 'first: 9')).edges.map(({ cursor }) => cursor)
    const found = async (args: string, at: number) => {
      const { edges, pageInfo } = await onePage(server, args, all[at])
      return [edges.map((edge) => keyOf(edge.node.id)), pageInfo.hasPreviousPage, pageInfo.hasNextPage]
    }
    t.same(await found('first: 2, before: $c', 4), [[1, 2], false, true])
    t.same(await found('first: 9, before: $c', 2), [[1, 2], false, true])
    t.same(await found('last: 2, after: $c', 2), [[6, 7], true, false])
    t.same(await found('last: 9, after: $c', 4), [[6, 7], true, false])
    t.same(await found('after: $c', 4), [[6, 7], true, false])
    t.same(await found('before: $c', 1), [[1], false, true])
    t.same(await found('after: $c', 6), [[], true, false])
  },
  'page.arguments': [
    page('first: 2, where: {rating: {_gt: 20}}, order_by: {rating: desc}', [6, 5], false, true),
    page('first: 2, distinct_on: author_id, order_by: [{author_id: asc}, {id: desc}]', [5, 6], false, true),
  ],
  'page.empty': [undefined, ''].map((c) =>
    ask(
      `query ($c: String) { article_connection(where: {id: {_lt: 0}}, after: $c) { ${PAGE} } }`,
      data({
        article_connection: {
          pageInfo: { startCursor: '', endCursor: '', hasNextPage: false, hasPreviousPage: false },
          edges: [],
        },
      }),
      { variables: { c } },
    ),
  ),
  'page.exclusive': [
    ask(
      '{ author_connection(first: 1, last: 1) { edges { cursor } } }',
      invalid('"first" and "last" cannot be used together', '$.selectionSet.author_connection'),
    ),
    ask(
      '{ author_connection(after: "", before: "") { edges { cursor } } }',
      invalid('"after" and "before" cannot be used together', '$.selectionSet.author_connection'),
    ),
  ],
  'page.size': [
    ask(
      '{ author_connection(first: -1) { edges { cursor } } }',
      invalid(/non-negative/, '$.selectionSet.author_connection.args.first'),
    ),
    ask(
      'query ($n: Int) { author_connection(last: $n) { edges { cursor } } }',
      fails('data-exception', /must not be negative/),
      { variables: { n: -1 } },
    ),
    ask('{ author_connection(limit: 1) { edges { cursor } } }', invalid(/limit/)),
    ask('{ author_connection(offset: 1) { edges { cursor } } }', invalid(/offset/)),
  ],
  'page.variables': [
    ask(
      'query ($n: Int, $w: article_bool_exp, $o: [article_order_by!]) { article_connection(first: $n, where: $w, order_by: $o) { edges { node { id } } } }',
      data({ article_connection: articles(5, 3) }),
      { variables: { n: 2, w: { published: { _eq: true } }, o: [{ rating: 'desc' }] } },
    ),
  ],
  'id.global': [
    ask(
      '{ author_connection(where: {id: {_eq: 2}}, order_by: {id: asc}) { edges { node { id name } } } }',
      data({ author_connection: { edges: [{ node: { id: idOf('author', 2), name: 'Bob' } }] } }),
    ),
  ],
  'id.composite': [
    ask(
      'query ($id: ID!) { node(id: $id) { id ... on tag { name article: article_id } } }',
      data({ node: { id: idOf('tag', 1, 'y'), name: 'y', article: 1 } }),
      { variables: { id: idOf('tag', 1, 'y') } },
    ),
  ],
  'id.digits': [
    ask(
      '{ large_connection { edges { node { id } } } }',
      like({
        data: { large_connection: { edges: [{ node: { id: btoa('[1, "public", "large", 9007199254740993]') } }] } },
      }),
    ),
    ask('query ($id: ID!) { node(id: $id) { __typename } }', data({ node: { __typename: 'large' } }), {
      variables: { id: btoa('[1, "public", "large", 9007199254740993]') },
    }),
    ask('query ($id: ID!) { node(id: $id) { __typename } }', data({ node: null }), {
      variables: { id: btoa('[1, "public", "large", 9007199254740992]') },
    }),
  ],
  'id.node': [
    ask(
      'query ($id: ID!) { node(id: $id) { id __typename ...a ... on Node { ... on author { age } } ... on article { title } } } fragment a on author { name articles(limit: 1, order_by: {id: asc}) { title } }',
      data({
        node: { id: idOf('author', 1), __typename: 'author', name: 'Ann', articles: [{ title: 'a1' }], age: 30 },
      }),
      { variables: { id: idOf('author', 1) } },
    ),
    ...node(idOf('author', 1), { id: idOf('author', 1) }),
  ],
  'id.unknown': [
    ...node(idOf('author', 77), null),
    ...node(idOf('nothing', 1), null),
    ...node(idOf('remark', 1), null),
    ...node(btoa('[1, "svc_catalog", "svc_file", "a"]'), null),
    ...node(idOf('article', 2), null, ANN),
    ...node(idOf('tag', 1, 'x'), null, ANN),
    ...node(idOf('tag', 1), null, ANN),
    ...node(idOf('author', 1), null, NAMESAKE),
    ...node(idOf('article', 3), { id: idOf('article', 3) }, ANN),
  ],
  'id.damaged': [
    'x',
    'WzEsI',
    btoa('{}'),
    btoa('[]'),
    btoa('[2, "public", "author", 1]'),
    btoa('[1, "public"]'),
    btoa('[1, "public", 7, 1]'),
  ].flatMap((id) => wrongId(id, 'validation-failed', /^invalid node id$/)),
  'id.values': [
    ...wrongId(btoa('[1, "public", "author"]'), 'validation-failed', /expecting 1 value/),
    ...wrongId(idOf('author', 1, 2), 'validation-failed', /expecting 1 value/),
    ...wrongId(idOf('author', null), 'validation-failed', /is null/),
    ...wrongId(idOf('author', true), 'parse-failed', /./),
    ...wrongId(idOf('author', 'x'), 'data-exception', /invalid input syntax/),
  ],
  'cursor.damaged': async (t, server) => {
    const { endCursor } = (await onePage(server, 'first: 1, order_by: {born: asc}', undefined, undefined, 'author'))
      .pageInfo
    for (const c of ['x', btoa('[]'), btoa('["", 1]'), idOf('author', 1), endCursor.slice(0, -8)]) {
      t.match(
        await failure(
          server,
          'query ($c: String) { author_connection(after: $c, order_by: {born: asc}) { edges { cursor } } }',
          c,
        ),
        { message: /^invalid cursor/, path: '$.selectionSet.author_connection.args.after', code: 'validation-failed' },
        c,
      )
    }
  },
  'cursor.other': async (t, server) => {
    const { endCursor } = (await onePage(server, 'first: 1, order_by: {rating: asc}')).pageInfo
    for (const query of [
      'query ($c: String) { article_connection(before: $c, order_by: {title: asc}) { edges { cursor } } }',
      'query ($c: String) { author_connection(before: $c, order_by: {age: asc}) { edges { cursor } } }',
      'query ($c: String) { article_connection(before: $c, order_by: {rating: desc}) { edges { cursor } } }',
      'query ($c: String) { article_connection(before: $c, order_by: {rating: asc_nulls_first}) { edges { cursor } } }',
      'query ($c: String) { article_connection(before: $c, order_by: {rating: asc, id: desc}) { edges { cursor } } }',
      'query ($c: String) { article_connection(before: $c, order_by: [{id: asc}, {rating: asc}]) { edges { cursor } } }',
    ]) {
      const path = /^\$\.selectionSet\.\w+_connection\.args\.before$/
      t.match(await failure(server, query, endCursor), { message: /^invalid cursor/, path, code: 'validation-failed' })
    }
  },
  'cursor.forged': async (t, server) => {
    const { endCursor } = (await onePage(server, 'first: 1, order_by: {rating: asc}')).pageInfo
    const forged = (value: unknown) => btoa(JSON.stringify([...JSON.parse(atob(endCursor)).slice(0, 2), value]))
    const query = 'query ($c: String) { article_connection(after: $c, order_by: {rating: asc}) { edges { cursor } } }'
    const path = '$.selectionSet.article_connection.args.after'
    t.match(await failure(server, query, forged('x')), { code: 'data-exception', path })
    t.match(await failure(server, query, forged({})), { code: 'parse-failed', path })
  },
  'connection.relationship': [
    ask(
      `{ author_connection(first: 1) { edges { node { name articles(limit: 1, order_by: {id: desc}) { title } articles_aggregate { aggregate { count } }
        few: articles_connection(first: 2, order_by: {id: desc}) { ${INFO} edges { node { title tags_connection { edges { node { name } } } } } } } } } }`,
      data({
        author_connection: {
          edges: [
            {
              node: {
                name: 'Ann',
                articles: [{ title: 'a5' }],
                articles_aggregate: { aggregate: { count: 3 } },
                few: {
                  pageInfo: { hasPreviousPage: false, hasNextPage: true },
                  edges: ['a5', 'a3'].map((title) => ({ node: { title, tags_connection: { edges: [] } } })),
                },
              },
            },
          ],
        },
      }),
    ),
  ],
  'connection.function': [
    ask(
      `{ search_connection(args: {word: "a"}, first: 2, order_by: {id: asc}, where: {id: {_gt: 1}}) { ${INFO} edges { node { id } } } }`,
      data({ search_connection: { pageInfo: { hasPreviousPage: false, hasNextPage: true }, ...articles(2, 3) } }),
    ),
  ],
  'connection.roots': async (t, server) => {
    t.same((await roots(server)).sort(), [
      'article_connection',
      'author_connection',
      'large_connection',
      'node',
      'note_connection',
      'pet_connection',
      'search_connection',
      'tag_connection',
    ])
  },
  'connection.types': [
    ask(
      '{ author_connection(first: 1) { __typename pageInfo { __typename } edges { __typename node { __typename } } } t: __type(name: "author") { interfaces { name } } n: __type(name: "Node") { possibleTypes { name } } }',
      data({
        author_connection: {
          __typename: 'authorConnection',
          pageInfo: { __typename: 'PageInfo' },
          edges: [{ __typename: 'authorEdge', node: { __typename: 'author' } }],
        },
        t: { interfaces: [{ name: 'Node' }] },
        n: { possibleTypes: ['article', 'author', 'large', 'note', 'pet', 'tag'].map((name) => ({ name })) },
      }),
    ),
  ],
  'mutation.same': [
    ask(
      'mutation { insert_author_one(object: {id: 100, name: "new"}) { id articles_connection { edges { cursor } } } update_author_by_pk(pk_columns: {id: 100}, _set: {name: "x"}) { id name } delete_author(where: {id: {_eq: 100}}) { affected_rows returning { id } } }',
      data({
        insert_author_one: { id: idOf('author', 100), articles_connection: { edges: [] } },
        update_author_by_pk: { id: idOf('author', 100), name: 'x' },
        delete_author: { affected_rows: 1, returning: [{ id: idOf('author', 100) }] },
      }),
    ),
  ],
  'permission.filter': async (t, server) => {
    const first = await onePage(server, 'first: 10, after: $c', undefined, ANN)
    const second = await onePage(server, 'first: 10, after: $c', first.pageInfo.endCursor, ANN)
    const keys = ({ edges }: Page) => edges.map((edge) => keyOf(edge.node.id))

    t.same([keys(first), first.pageInfo.hasNextPage], [[1, 3], true])
    t.same([keys(second), second.pageInfo.hasNextPage], [[5], false])
  },
  'permission.columns': [
    ask('{ article_connection(order_by: {rating: asc}) { edges { cursor } } }', invalid(/rating/), { as: ANN }),
    ask('{ article_connection(order_by: {author: {age: asc}}) { edges { cursor } } }', invalid(/age/), { as: ANN }),
    ask(
      '{ article_connection(order_by: {author: {name: asc}}) { edges { node { id } } } }',
      data({ article_connection: articles(1, 3) }),
      { as: ANN },
    ),
  ],
  'permission.key': [
    ask('{ author_connection { edges { cursor } } }', invalid(/author_connection/), { as: NAMESAKE }),
    ask('{ article_connection(first: 1) { edges { node { title } } } }', like({ data: { article_connection: {} } }), {
      as: NAMESAKE,
    }),
  ],
  'permission.schema': async (t, server) => {
    t.same((await roots(server, NAMESAKE)).sort(), ['article_connection', 'node'])
    t.same(await roots(server, { role: 'nobody' }), ['_empty'])
  },
  'dialect.same': [
    {
      path: `/v1beta1/relay?query=${encodeURIComponent('{ author_connection(first: 1) { edges { node { name } } } }')}`,
      method: 'GET',
      expected: data({ author_connection: { edges: [{ node: { name: 'Ann' } }] } }),
    },
    rawTo('/v1beta1/relay')(
      '[{"query": "{ node(id: \\"x\\") { id } }"}, {"query": "{ __typename }"}]',
      like([
        { errors: [{ extensions: { path: '$[0].selectionSet.node.args.id' } }] },
        { data: { __typename: 'query_root' } },
      ]),
    ),
    rawTo('/v1beta1/relay')(`{"extensions": {"persistedQuery": {"version": 1, "sha256Hash": "${'f'.repeat(64)}"}}}`, {
      status: 400,
      like: { errors: [{ message: 'PersistedQueryNotFound' }] },
    }),
    ask('{ node(id: "x") { id } }', fails('validation-failed', /node id/, /./, 400), {
      headers: { accept: 'application/graphql-response+json' },
    }),
    modern('{ author_connection { edges { cursor } } }', invalid(/author_connection/)),
  ],
  'dialect.off': async (t, { databaseUrl }) => {
    const server = await testServer(t, { databaseUrl, config: { plugins: { graphql: { relay: false } } } })
    t.equal((await server.fetch('/v1beta1/relay', { method: 'POST', body: '{}' })).status, 404)
  },
}

/** The first error of a query with a cursor. */
async function failure(server: TestServer, query: string, c: string): Promise<object> {
  const body = JSON.stringify({ query, variables: { c } })
  const { message, extensions } = (await server.fetch('/v1beta1/relay', { method: 'POST', body })).body.errors[0]
  return { message, ...extensions }
}

async function roots(server: TestServer, as?: As): Promise<string[]> {
  const found = await read(server, '{ __schema { queryType { fields { name } } } }', {}, as)
  return found.__schema.queryType.fields.map(({ name }: { name: string }) => name)
}

/** Its promises, with a case for each. */
export const relay = area('relay', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/graphql/README.md': {
      GraphQL: {
        '`POST /v1beta1/relay`, `GET` for queries': ['page.every-row', 'id.node', 'dialect.same'],
      },
    },
  },
})

async function start(t: Test) {
  const server = await testServer(t)
  const relate = (table: string, name: string, on: unknown) => ({
    type: 'create_array_relationship',
    args: { table, name, using: { foreign_key_constraint_on: on } },
  })
  await setUpLibrary(server, [
    { type: 'run_sql', args: { sql: SQL } },
    ...['tag', 'remark', 'large'].map((table) => ({ type: 'track_table', args: table })),
    relate('article', 'tags', { table: 'tag', column: 'article_id' }),
    { type: 'track_function', args: 'search' },
    permit('select', 'article', 'user', { columns: ['id', 'title'], filter: { published: true }, limit: 2 }),
    permit('select', 'author', 'user', { columns: ['id', 'name'], filter: {} }),
    permit('select', 'author', 'namesake', { columns: ['name'], filter: {} }),
    permit('select', 'article', 'namesake', { columns: ['id', 'title'], filter: {} }),
  ])
  return server
}
