import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

const SQL = `
create table author (id serial primary key, name text not null, born date, secret text);
create table article (id uuid primary key default gen_random_uuid(), title text not null, score numeric, data jsonb,
  published bool not null default true, author_id int references author);
create table tag (article_id uuid not null references article, name text, at timestamptz not null, primary key (article_id, name));
create table remark (body text, author_id int references author);
create table "Odd Key" ("the id" bigint primary key, "id" text);
create view titles as select id, title, author_id from article;
create function length_of(a article) returns int language sql stable as 'select nullif(length(a.title), 3)';
create function search(word text) returns setof article language sql stable as
  $$ select * from article where title like '%' || word || '%' $$;
insert into author select n, 'a' || n % 3, case when n % 4 > 0 then date '2000-01-01' + n % 5 end, 's' || n from generate_series(1, 9) n;
insert into article (id, title, score, data, published, author_id)
  select ('00000000-0000-0000-0000-0000000000' || n)::uuid, repeat('t', n % 4 + 1), case when n % 3 > 0 then n % 5 * 1.10 end,
    case n % 4 when 0 then 'null' when 1 then '{"a": 1}' when 2 then '[1]' end::jsonb, n % 6 > 0, nullif(n % 7, 0)
  from generate_series(10, 32) n;
insert into tag select id, x, timestamptz '2020-01-01 10:00:00.123456+02' from article, (values ('x'), ('y')) v(x) where score > 3;
insert into remark values ('r', 1);
insert into "Odd Key" values (9007199254740993, 'own');`

interface Page {
  readonly edges: readonly { readonly cursor: string; readonly node: Record<string, unknown> }[]
  readonly pageInfo: Record<'startCursor' | 'endCursor', string> & Record<'hasNextPage' | 'hasPreviousPage', boolean>
}
const PAGE = 'pageInfo { startCursor endCursor hasNextPage hasPreviousPage } edges { cursor node'

tap.test('the schema for Relay', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  const relate = (kind: string, table: string, name: string, on: unknown) => ({
    type: `create_${kind}_relationship`,
    args: { table, name, using: { foreign_key_constraint_on: on } },
  })
  const select = (table: string, role: string, permission: object) => ({
    type: 'create_select_permission',
    args: { table, role, permission },
  })
  await server.must('bulk', [
    ...['author', 'article', 'tag', 'remark', 'Odd Key', 'titles'].map((table) => ({
      type: 'track_table',
      args: table,
    })),
    relate('object', 'article', 'author', 'author_id'),
    relate('array', 'author', 'articles', { table: 'article', column: 'author_id' }),
    relate('array', 'author', 'remarks', { table: 'remark', column: 'author_id' }),
    relate('array', 'article', 'tags', { table: 'tag', column: 'article_id' }),
    { type: 'add_computed_field', args: { table: 'article', name: 'length', definition: { function: 'length_of' } } },
    { type: 'track_function', args: 'search' },
    select('author', 'user', { columns: ['id', 'name'], filter: { id: { $lt: 5 } } }),
    select('article', 'user', { columns: ['id', 'title'], filter: { published: true }, limit: 4 }),
    select('author', 'namesake', { columns: ['name'], filter: {} }),
    select('article', 'namesake', { columns: ['id', 'title'], filter: {} }),
  ])
  const user: As = { role: 'user' }
  const post = async (path: string, query: string, variables?: object, as?: As) =>
    (await server.fetch(path, { method: 'POST', body: JSON.stringify({ query, variables }) }, as)).body
  const relay = (query: string, variables?: object, as?: As) => post('/v1beta1/relay', query, variables, as)
  const must = async (query: string, variables?: object, as?: As) => {
    const body = await relay(query, variables, as)
    if (body.errors) throw new Error(`${query}: ${JSON.stringify(body.errors)}`)
    return body.data
  }
  const refused = async (query: string, variables?: object, as?: As) => {
    const { errors } = await relay(query, variables, as)
    return errors?.[0] && [errors[0].extensions.code, errors[0].extensions.path, errors[0].message]
  }

  await t.test('pages in every order, forwards and backwards, hold every row once', async (t) => {
    const orders = [
      '',
      '{score: asc}',
      '[{title: asc}, {score: desc}]',
      '[{score: asc_nulls_first}, {id: desc}]',
      '{score: desc_nulls_last}',
      '{data: asc}',
      '{data: desc}',
      '{length: desc}',
      '{author: {name: desc}}',
      '[{author: {born: asc}}, {title: desc}]',
      '{tags_aggregate: {count: desc}}',
      '{tags_aggregate: {max: {at: asc}}}',
      '{author: {articles_aggregate: {avg: {score: asc_nulls_first}}}}',
    ]
    for (const order of orders) {
      const full = order.startsWith('[') ? `${order.slice(0, -1)}, {id: asc}]` : `[${order}, {id: asc}]`
      const { data } = await post('/v1/graphql', `{ article(order_by: ${full}) { id } }`)
      const all = (data.article as { id: string }[]).map(({ id }) => id)
      const by = order === '' ? '' : `order_by: ${order}, `
      const read = async (backwards: boolean): Promise<string[]> => {
        const found: string[] = []
        for (let cursor: string | undefined; ;) {
          const args = backwards ? 'last: 9, before: $c' : 'first: 9, after: $c'
          const { page } = (await must(
            `query q($c: String) { page: article_connection(${by}${args}) { ${PAGE} { title tags { article_id } own: id } } } }`,
            { c: cursor },
          )) as { page: Page }
          const ids = page.edges.map(({ node }) => JSON.parse(atob(node['own'] as string))[3] as string)
          found[backwards ? 'unshift' : 'push'](...ids)
          const { startCursor, endCursor, hasNextPage, hasPreviousPage } = page.pageInfo
          t.same([startCursor, endCursor], [page.edges[0]?.cursor, page.edges.at(-1)?.cursor])
          t.equal(backwards ? hasNextPage : hasPreviousPage, cursor !== undefined, 'there is a page before this one')
          if (!(backwards ? hasPreviousPage : hasNextPage)) return found
          cursor = backwards ? startCursor : endCursor
        }
      }
      t.same(await read(false), all, `forwards by ${order}`)
      t.same(await read(true), all, `backwards by ${order}`)
    }
  })

  await t.test('a page can end at a cursor, and start at one from behind', async (t) => {
    const { author_connection: all } = (await must(`{ author_connection { ${PAGE} { name } } } }`)) as Record<
      string,
      Page
    >
    const at = (i: number) => all?.edges[i]?.cursor
    const ids = async (args: string) => {
      const { author_connection: page } = (await must(`{ author_connection(${args}) { ${PAGE} { id } } } }`)) as Record<
        string,
        Page
      >
      const { hasPreviousPage, hasNextPage } = (page as Page).pageInfo
      return [
        (page as Page).edges.map(({ node }) => JSON.parse(atob(node['id'] as string))[3]),
        hasPreviousPage,
        hasNextPage,
      ]
    }

    t.same(await ids(`first: 2, before: "${at(5)}"`), [[1, 2], false, true])
    t.same(await ids(`first: 9, before: "${at(2)}"`), [[1, 2], false, true])
    t.same(await ids(`last: 2, after: "${at(5)}"`), [[8, 9], true, false])
    t.same(await ids(`last: 9, after: "${at(6)}"`), [[8, 9], true, false])
    t.same(await ids(`after: "${at(6)}"`), [[8, 9], true, false])
    t.same(await ids(`before: "${at(1)}"`), [[1], false, true])
    t.same(await ids(`after: "${at(8)}"`), [[], true, false])
    t.same(await ids('first: 0'), [[], false, true])
    t.same(await ids('first: 3, where: {id: {_gt: 5}}'), [[6, 7, 8], false, true])
    t.same(await ids('distinct_on: name, order_by: [{name: asc}, {id: desc}], first: 2'), [[9, 7], false, true])
  })

  await t.test('pages of distinct rows', async (t) => {
    const query = `query q($c: String) { author_connection(distinct_on: name, order_by: [{name: desc}, {born: asc}], first: 1, after: $c) { ${PAGE} { name born } } } }`
    const found: unknown[] = []
    for (let c: string | undefined; ;) {
      const { author_connection: page } = (await must(query, { c })) as { author_connection: Page }
      found.push(...page.edges.map(({ node }) => node))
      if (!page.pageInfo.hasNextPage) break
      c = page.pageInfo.endCursor
    }

    const { data } = await post(
      '/v1/graphql',
      '{ author(distinct_on: name, order_by: [{name: desc}, {born: asc}, {id: asc}]) { name born } }',
    )
    t.same(found, data.author)
  })

  await t.test('distinct rows need no order', async (t) => {
    const query = `query q($c: String) { author_connection(distinct_on: name, first: 2, after: $c) { ${PAGE} { name } } } }`
    const names = ({ edges }: Page) => edges.map(({ node }) => node['name'])
    const first = (await must(query)).author_connection as Page
    const second = (await must(query, { c: first.pageInfo.endCursor })).author_connection as Page

    t.same([...names(first), ...names(second)], ['a0', 'a1', 'a2'])
  })

  await t.test('a cursor continues an order by rank, whatever the order of the variables', async (t) => {
    const query = `query q($c: String, $n: Int, $word: String!) { article_connection(order_by: {title_rank: {query: $word}}, first: $n, after: $c) { ${PAGE} { id } } } }`
    const first = (await must(query, { word: 'tt', n: 3 })).article_connection as Page
    const second = (await must(query, { word: 'tt', n: 20, c: first.pageInfo.endCursor })).article_connection as Page

    t.equal(new Set([...first.edges, ...second.edges].map(({ node }) => node['id'])).size, 23)
  })

  await t.test('an empty page has empty cursors, which mean the beginning', async (t) => {
    const query = `query q($c: String) { author_connection(where: {id: {_lt: 0}}, after: $c) { ${PAGE} { id } } } }`
    const info = { startCursor: '', endCursor: '', hasNextPage: false, hasPreviousPage: false }
    t.same(await must(query), { author_connection: { pageInfo: info, edges: [] } })
    t.same(await must(query, { c: '' }), { author_connection: { pageInfo: info, edges: [] } })
  })

  await t.test('relationships are connections too, with pages of their own', async (t) => {
    const data = await must(`{ author_connection(first: 2, order_by: {id: desc}, where: {articles: {}}) { edges { node {
      name articles { title } articles_aggregate { aggregate { count } }
      few: articles_connection(first: 1, order_by: {title: desc}) { __typename pageInfo { __typename hasNextPage } edges { __typename node { __typename title tags_connection { edges { node { name article: article_id } } } } } }
    } } } }`)
    const [first, second] = data.author_connection.edges as { node: Record<string, any> }[]

    t.match(first?.node, { name: 'a0', articles_aggregate: { aggregate: { count: 3 } } })
    t.match(first?.node['few'], {
      __typename: 'articleConnection',
      pageInfo: { __typename: 'PageInfo', hasNextPage: true },
      edges: [{ __typename: 'articleEdge', node: { __typename: 'article', title: 'tttt' } }],
    })
    t.equal(second?.node['few'].edges.length, 1)
  })

  await t.test('a function is a connection', async (t) => {
    const query =
      'query q($c: String) { search_connection(args: {word: "tttt"}, first: 3, after: $c) { pageInfo { endCursor hasNextPage hasPreviousPage } edges { node { id length } } } }'
    const { search_connection: first } = await must(query)
    const { search_connection: second } = await must(query, { c: first.pageInfo.endCursor })

    t.match(first, { pageInfo: { hasNextPage: true, hasPreviousPage: false }, edges: { length: 3 } })
    t.match(second, { pageInfo: { hasNextPage: false, hasPreviousPage: true }, edges: { length: 3 } })
  })

  await t.test('ids find their rows, whatever the key', async (t) => {
    const {
      author_connection: authors,
      tag_connection: tags,
      Odd_Key_connection: odd,
    } = await must(
      '{ author_connection(first: 1) { edges { node { id } } } tag_connection(first: 1) { edges { node { id name } } } Odd_Key_connection { edges { node { id the_id } } } }',
    )
    const [author, tag, other] = [authors, tags, odd].map((each) => each.edges[0].node.id as string)
    const query = `query q($id: ID!) { node(id: $id) { id __typename ...on author { name } ...tag ... on Node { ... on Odd_Key { the_id } } } } fragment tag on tag { name }`

    t.equal(atob(author as string), '[1, "public", "author", 1]')
    t.same(await must(query, { id: author }), { node: { id: author, __typename: 'author', name: 'a1' } })
    t.same(await must(query, { id: tag }), { node: { id: tag, __typename: 'tag', name: 'x' } })
    t.match(
      (
        await server.fetch('/v1beta1/relay', {
          method: 'POST',
          body: JSON.stringify({ query, variables: { id: other } }),
        })
      ).text,
      `"the_id":9007199254740993`,
    )
    t.same(await must(`{ node(id: "${author}") { id } }`), { node: { id: author } })
    t.match(
      await must(
        'mutation { insert_author_one(object: {name: "new", id: 100}) { id name articles_connection { edges { cursor } } } delete_author(where: {id: {_eq: 100}}) { returning { id } } }',
      ),
      {
        insert_author_one: {
          id: btoa('[1, "public", "author", 100]'),
          name: 'new',
          articles_connection: { edges: [] },
        },
        delete_author: { returning: [{ id: btoa('[1, "public", "author", 100]') }] },
      },
    )
  })

  await t.test('a hidden row, a hidden table and nothing are the same null', async (t) => {
    const ids = {
      'a row that is not there': '[1, "public", "author", 77]',
      'a hidden row': '[1, "public", "author", 7]',
      'a hidden table': '[1, "public", "tag", "00000000-0000-0000-0000-000000000013", "x"]',
      'a hidden table, and a key that does not fit': '[1, "public", "tag", 1]',
      'a table that is not there': '[1, "public", "nothing", 1]',
      'a table of the server': '[1, "svc_catalog", "svc_file", "a"]',
      'a table without a key': '[1, "public", "remark", 1]',
    }
    for (const [what, id] of Object.entries(ids)) {
      t.same(await must('query q($id: ID!) { node(id: $id) { id } }', { id: btoa(id) }, user), { node: null }, what)
      t.same(await must(`{ node(id: "${btoa(id)}") { id } }`, {}, user), { node: null }, `${what}, in the document`)
    }
    t.same(await must('query q($id: ID!) { node(id: $id) { id } }', { id: btoa('[1, "public", "author", 3]') }, user), {
      node: { id: btoa('[1, "public", "author", 3]') },
    })
    t.same(
      await must(
        'query q($id: ID!) { node(id: $id) { id } }',
        { id: btoa('[1,"public","author",1]') },
        { role: 'namesake' },
      ),
      { node: null },
      'without the key there are no ids',
    )
  })

  await t.test('a damaged id or cursor fails with 400 and says where', async (t) => {
    const damaged = [
      'x',
      '5',
      'WzEsI',
      btoa('{}'),
      btoa('[]'),
      btoa('[2, "public", "author", 1]'),
      btoa('[1, "public"]'),
      btoa('[1, "public", 7, 1]'),
    ]
    for (const id of damaged) {
      const error = ['validation-failed', '$.selectionSet.node.args.id', 'invalid node id']
      t.same(await refused('query q($id: ID!) { node(id: $id) { id } }', { id }), error, id)
      t.same(await refused(`{ node(id: "${id}") { id } }`), error, id)
    }
    t.match(await refused('{ node(id: 7) { id } }'), ['validation-failed', '$.selectionSet.node.args.id'])
    const odd = (key: string) => ({ id: btoa(`[1, "public", "author"${key}]`) })
    const node = 'query q($id: ID!) { node(id: $id) { id } }'
    t.match(await refused(node, odd('')), ['validation-failed', '$.selectionSet.node.args.id', /expecting 1 value/])
    t.match(await refused(node, odd(', 1, 2')), [
      'validation-failed',
      '$.selectionSet.node.args.id',
      /expecting 1 value/,
    ])
    t.match(await refused(node, odd(', null')), ['validation-failed', '$.selectionSet.node.args.id', /is null/])
    t.match(await refused(node, odd(', true')), ['parse-failed', '$.selectionSet.node.args.id'])
    t.match(await refused(node, odd(', "x"')), ['data-exception', '$.selectionSet.node.args.id'])

    const page = (args: string, of = 'author') =>
      `query q${args.includes('$c') ? '($c: String)' : ''} { ${of}_connection(${args}) { edges { cursor } } }`
    const { author_connection: list } = await must('{ author_connection(order_by: {born: asc}) { edges { cursor } } }')
    const cursor = list.edges[0].cursor as string
    const wrong = ['x', btoa('[]'), btoa('["", 1]'), btoa('[1, "public", "author", 1]'), cursor.slice(0, -8)]
    for (const c of wrong) {
      const error = ['validation-failed', '$.selectionSet.author_connection.args.after', /^invalid cursor/] as const
      t.match(await refused(page('after: $c, order_by: {born: asc}'), { c }), error, c)
      t.match(await refused(page(`after: "${c}", order_by: {born: asc}`)), error, c)
    }
    t.match(await refused(page('before: $c, order_by: {name: asc}'), { c: cursor }), ['validation-failed'])
    t.match(await refused(page('after: $c, order_by: {title: asc}', 'article'), { c: cursor }), ['validation-failed'])
    const forged = (value: unknown) => btoa(JSON.stringify([...JSON.parse(atob(cursor)).slice(0, 2), value]))
    const path = '$.selectionSet.author_connection.args.after'
    t.match(await refused(page('after: $c, order_by: {born: asc}'), { c: forged('x') }), ['data-exception', path])
    t.match(await refused(page('after: $c, order_by: {born: asc}'), { c: forged({}) }), ['parse-failed', path])
  })

  await t.test('first and last, after and before exclude each other', async (t) => {
    const page = (args: string) => `{ author_connection(${args}) { edges { cursor } } }`
    const path = '$.selectionSet.author_connection'
    t.same(await refused(page('first: 1, last: 1')), [
      'validation-failed',
      path,
      '"first" and "last" are not allowed at once',
    ])
    t.same(await refused(page('after: "", before: ""')), [
      'validation-failed',
      path,
      '"after" and "before" are not allowed at once',
    ])
    t.match(await refused(page('first: -1')), ['validation-failed', `${path}.args.first`])
    const negative = 'query q($n: Int) { author_connection(last: $n) { edges { cursor } } }'
    t.match(await refused(negative, { n: -1 }), ['data-exception', '$.selectionSet', /must not be negative/])
    t.match(await refused('{ author_connection(limit: 1) { edges { cursor } } }'), ['validation-failed'])
  })

  await t.test("a role's filter, limit and columns apply", async (t) => {
    const query = `query q($c: String) { article_connection(first: 10, after: $c) { ${PAGE} { title } } } }`
    const first = (await must(query, {}, user)).article_connection as Page
    t.equal(first.edges.length, 4)
    t.equal(first.pageInfo.hasNextPage, true)
    let rest: Page
    let count = 4
    for (let c = first.pageInfo.endCursor; ; c = rest.pageInfo.endCursor) {
      rest = (await must(query, { c }, user)).article_connection as Page
      count += rest.edges.length
      if (!rest.pageInfo.hasNextPage) break
    }
    t.equal(count, 19, 'the published ones')

    const order = (by: string) => `{ article_connection(order_by: ${by}) { edges { cursor } } }`
    t.match(await refused(order('{score: asc}'), {}, user), ['validation-failed'])
    t.match(await refused(order('{author: {born: asc}}'), {}, user), ['validation-failed'])
    t.match(await refused('{ author_connection { edges { cursor } } }', {}, { role: 'namesake' }), [
      'validation-failed',
    ])
    const seen = await must('{ article_connection(order_by: {author: {name: asc}}) { edges { cursor } } }', {}, user)
    const values = (seen.article_connection.edges as { cursor: string }[]).map(({ cursor }) => JSON.parse(atob(cursor)))
    t.same(new Set(values.map(([, name]) => name)), new Set(['a0', 'a1']))
  })

  await t.test('the schema of a role holds what it sees', async (t) => {
    const names = async (as?: As) => {
      const data = await must(
        '{ __schema { queryType { fields { name } } types { name interfaces { name } fields { name type { name kind } } } } node: __type(name: "Node") { possibleTypes { name } } }',
        {},
        as,
      )
      const fields = data.__schema.queryType.fields as { name: string }[]
      return {
        data,
        roots: fields.map(({ name }) => name).sort(),
        nodes: data.node?.possibleTypes.map((each: { name: string }) => each.name).sort(),
      }
    }
    const admin = await names()
    t.same(admin.roots, [
      'Odd_Key_connection',
      'article_connection',
      'author_connection',
      'node',
      'search_connection',
      'tag_connection',
    ])
    t.same(admin.nodes, ['Odd_Key', 'article', 'author', 'tag'])
    const author = admin.data.__schema.types.find(({ name }: { name: string }) => name === 'author')
    t.same(author.interfaces, [{ name: 'Node' }])
    t.same(
      author.fields.map(({ name }: { name: string }) => name),
      [
        'id',
        'name',
        'born',
        'secret',
        'articles',
        'articles_aggregate',
        'remarks',
        'remarks_aggregate',
        'articles_connection',
      ],
    )

    const some = await names({ role: 'namesake' })
    t.same(some.roots, ['article_connection', 'node'])
    t.same(some.nodes, ['article'])
    t.same((await names({ role: 'nobody' })).roots, ['_empty'])
  })

  await t.test('persisted documents, batches and directives are those of /v1/graphql', async (t) => {
    const hash = 'f'.repeat(64)
    const { body } = await server.fetch('/v1beta1/relay', {
      method: 'POST',
      body: JSON.stringify({ extensions: { persistedQuery: { version: 1, sha256Hash: hash } } }),
    })
    t.equal(body.errors[0].message, 'PersistedQueryNotFound')
    const url = `/v1beta1/relay?query=${encodeURIComponent('query @cached { author_connection(first: 1) { edges { node { name } } } }')}`
    t.same((await server.fetch(url)).body, { data: { author_connection: { edges: [{ node: { name: 'a1' } }] } } })
    const batch = JSON.stringify([{ query: '{ node(id: "x") { id } }' }, { query: '{ __typename }' }])
    t.match((await server.fetch('/v1beta1/relay', { method: 'POST', body: batch })).body, [
      { errors: [{ extensions: { path: '$[0].selectionSet.node.args.id' } }] },
      { data: { __typename: 'query_root' } },
    ])
  })
})

tap.test('Relay can be switched off', async (t) => {
  const server = await testServer(t, { config: { plugins: { graphql: { relay: false } } } })
  t.equal((await server.fetch('/v1beta1/relay', { method: 'POST', body: '{}' })).status, 404)
})

tap.test('Relay follows the naming convention', async (t) => {
  const server = await testServer(t, { config: { plugins: { graphql: { namingConvention: 'graphql-default' } } } })
  await server.must('run_sql', {
    sql: `create table shop (id int primary key); create table order_item (item_id int primary key, shop_id int references shop);
      insert into shop values (1); insert into order_item values (1, 1), (2, 1)`,
  })
  await server.must('track_all', {})
  const query = `{ shopConnection { __typename edges { __typename node { __typename id orderItemsConnection(orderBy: {itemId: DESC}, first: 1) {
    pageInfo { hasNextPage } edges { node { itemId ... on Node { id } } } } } } } }`
  const { body } = await server.fetch('/v1beta1/relay', { method: 'POST', body: JSON.stringify({ query }) })

  const node = { itemId: 2, id: btoa('[1, "public", "order_item", 2]') }
  t.same(body.data.shopConnection, {
    __typename: 'ShopConnection',
    edges: [
      {
        __typename: 'ShopEdge',
        node: {
          __typename: 'Shop',
          id: btoa('[1, "public", "shop", 1]'),
          orderItemsConnection: { pageInfo: { hasNextPage: true }, edges: [{ node }] },
        },
      },
    ],
  })
})
