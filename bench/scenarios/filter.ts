import { type Size, USER_ID } from '../data.js'
import { itemsPath, PERMITTED } from './directus.js'
import { fieldsOf, filterOf } from './postgraphile.js'
import { requestCount, type LoadScenario } from './scenario.js'

const AUTHORS = 10
const step = (size: Size): number => Math.floor(size.authors / requestCount(size))
const first = (n: number, size: Size): number => 1 + step(size) * n

export const filter: LoadScenario = {
  id: 'd',
  title: 'the 20 best of 10 authors, by three conditions, one of them on a relationship',
  clients: 64,
  aims: { efficiency: 0.95, fastify: 0.8, postgraphile: 5 },
  request: (n, size) => ({
    type: 'select',
    args: {
      table: 'article',
      columns: ['id', 'title', 'rating', { name: 'author', columns: ['name'] }],
      where: {
        published: true,
        rating: { $gte: 50 },
        author: { id: { $gte: first(n, size), $lt: first(n, size) + AUTHORS } },
      },
      order_by: ['-rating', '+id'],
      limit: 20,
    },
  }),
  graphql: (n, size) => ({
    query: `query ($from: Int!, $to: Int!) { root: article(
      where: {published: {_eq: true}, rating: {_gte: 50}, author: {id: {_gte: $from, _lt: $to}}},
      order_by: [{rating: desc}, {id: asc}], limit: 20) { id title rating author { name } } }`,
    variables: { from: first(n, size), to: first(n, size) + AUTHORS },
  }),
  postgraphile: (n, size, { article }) => ({
    query: `query ($from: Int!, $to: Int!) { root: allArticlesList(${filterOf(
      'published: {equalTo: true}',
      'rating: {greaterThanOrEqualTo: 50}',
      'authorByAuthorId: {rowId: {greaterThanOrEqualTo: $from, lessThan: $to}}',
      article,
    )} orderBy: [RATING_DESC, ROW_ID_ASC], first: 20) {
      ${fieldsOf(['id', 'title', 'rating'])} author: authorByAuthorId { name } } }`,
    variables: { from: first(n, size), to: first(n, size) + AUTHORS },
  }),
  directus: (n, size) =>
    itemsPath('article', ['id', 'title', 'rating', 'author.name'], {
      alias: { author: 'author_id' },
      filter: {
        _and: [
          { published: { _eq: true } },
          { rating: { _gte: 50 } },
          { author_id: { id: { _gte: first(n, size) } } },
          { author_id: { id: { _lt: first(n, size) + AUTHORS } } },
          PERMITTED.article,
        ],
      },
      sort: '-rating,id',
      limit: 20,
    }),
  fastify: (n, size) => `/best?from=${first(n, size)}&to=${first(n, size) + AUTHORS}`,
  postgrest: (n, size) =>
    '/article?select=id,title,rating,author!inner(name)&published=is.true&rating=gte.50' +
    `&author.id=gte.${first(n, size)}&author.id=lt.${first(n, size) + AUTHORS}&order=rating.desc,id&limit=20`,
  reference: (n, size) => `
    select json_agg(x)
    from (
      select a.id, a.title, a.rating, json_build_object('name', w.name) as author
      from article a
      join author w on w.id = a.author_id
      where a.published and a.rating >= 50 and w.id >= ${first(n, size)} and w.id < ${first(n, size) + AUTHORS}
        and (a.author_id = ${USER_ID} or a.published) and w.active
      order by a.rating desc, a.id
      limit 20
    ) x`,
  parameters: (size) => [
    'true',
    String(USER_ID),
    'true',
    '50',
    { base: 1, step: step(size) },
    { base: 1 + AUTHORS, step: step(size) },
    '20',
  ],
}
