import { ARTICLE, articles, type Size, USER_ID } from '../data.js'
import { itemsPath, PERMITTED } from './directus.js'
import { fieldsOf, filterOf } from './postgraphile.js'
import { requestCount, type LoadScenario } from './scenario.js'

/** Only in the first half, so that every list is full. */
const step = (size: Size): number => Math.floor(articles(size) / requestCount(size) / 2)
const first = (n: number, size: Size): number => 1 + step(size) * n

export const list: LoadScenario = {
  id: 'b',
  title: '100 rows of 7 columns in the order of the primary key',
  clients: 64,
  aims: { efficiency: 1, fastify: 0.8, postgraphile: 5 },
  request: (n, size) => ({
    type: 'select',
    args: {
      table: 'article',
      columns: ARTICLE,
      where: { id: { $gte: first(n, size) } },
      order_by: '+id',
      limit: 100,
    },
  }),
  graphql: (n, size) => ({
    query: `query ($id: Int!) { root: article(where: {id: {_gte: $id}}, order_by: {id: asc}, limit: 100) { ${ARTICLE.join(' ')} } }`,
    variables: { id: first(n, size) },
  }),
  postgraphile: (n, size, { article }) => ({
    query: `query ($id: Int!) { root: allArticlesList(${filterOf('rowId: {greaterThanOrEqualTo: $id}', article)}
      orderBy: ROW_ID_ASC, first: 100) { ${fieldsOf(ARTICLE)} } }`,
    variables: { id: first(n, size) },
  }),
  directus: (n, size) =>
    itemsPath('article', ARTICLE, {
      filter: { _and: [{ id: { _gte: first(n, size) } }, PERMITTED.article] },
      sort: 'id',
      limit: 100,
    }),
  fastify: (n, size) => `/articles?from=${first(n, size)}&limit=100`,
  postgrest: (n, size) => `/article?select=${ARTICLE.join()}&id=gte.${first(n, size)}&order=id&limit=100`,
  reference: (n, size) => `
    select json_agg(x)
    from (
      select ${ARTICLE.join(', ')}
      from article
      where id >= ${first(n, size)} and (author_id = ${USER_ID} or published)
      order by id
      limit 100
    ) x`,
  parameters: (size) => [String(USER_ID), 'true', { base: 1, step: step(size) }, '100'],
}
