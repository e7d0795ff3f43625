import { ARTICLE, articles, type Size, USER_ID } from '../data.js'
import { itemsPath } from './directus.js'
import { fieldsOf } from './postgraphile.js'
import { requestCount, type LoadScenario } from './scenario.js'

/** Published articles only: of ten ids the first is. */
const step = (size: Size): number => Math.floor(articles(size) / requestCount(size) / 10) * 10
const id = (n: number, size: Size): number => 1 + step(size) * n

export const byPk: LoadScenario = {
  id: 'a',
  title: 'one row of 7 columns by primary key',
  clients: 64,
  aims: { efficiency: 0.95, fastify: 0.8, postgraphile: 6 },
  request: (n, size) => ({
    type: 'select',
    args: { table: 'article', columns: ARTICLE, where: { id: id(n, size) } },
  }),
  graphql: (n, size) => ({
    query: `query ($id: Int!) { root: article(where: {id: {_eq: $id}}) { ${ARTICLE.join(' ')} } }`,
    variables: { id: id(n, size) },
  }),
  postgraphile: (n, size) => ({
    query: `query ($id: Int!) { root: articleByRowId(rowId: $id) { ${fieldsOf(ARTICLE)} } }`,
    variables: { id: id(n, size) },
  }),
  hasura: (n, size) => ({
    query: `query ($id: Int!) { root: article_by_pk(id: $id) { ${ARTICLE.join(' ')} } }`,
    variables: { id: id(n, size) },
  }),
  directus: (n, size) => itemsPath(`article/${id(n, size)}`, ARTICLE, {}),
  fastify: (n, size) => `/articles/${id(n, size)}`,
  postgrest: (n, size) => `/article?select=${ARTICLE.join()}&id=eq.${id(n, size)}`,
  reference: (n, size) => `
    select json_agg(x)
    from (
      select ${ARTICLE.join(', ')}
      from article
      where id = ${id(n, size)} and (author_id = ${USER_ID} or published)
    ) x`,
  parameters: (size) => [String(USER_ID), 'true', { base: 1, step: step(size) }],
}
