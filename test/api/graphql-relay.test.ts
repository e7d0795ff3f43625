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
  ])
  const post = async (path: string, query: string, variables?: object, as?: As) =>
    (await server.fetch(path, { method: 'POST', body: JSON.stringify({ query, variables }) }, as)).body
  const relay = (query: string, variables?: object, as?: As) => post('/v1beta1/relay', query, variables, as)
  const must = async (query: string, variables?: object, as?: As) => {
    const body = await relay(query, variables, as)
    if (body.errors) throw new Error(`${query}: ${JSON.stringify(body.errors)}`)
    return body.data
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
})
