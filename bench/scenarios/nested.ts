import { type Size, USER_ID } from '../data.js'
import { itemsPath, PERMITTED } from './directus.js'
import { fieldsOf, filterOf } from './postgraphile.js'
import { requestCount, type LoadScenario } from './scenario.js'

const step = (size: Size): number => Math.floor(size.authors / requestCount(size))
const id = (n: number, size: Size): number => 1 + step(size) * n

export const nested: LoadScenario = {
  id: 'c',
  title: 'an author with 10 articles with 5 comments each',
  clients: 16,
  aims: { efficiency: 0.95, fastify: 0.8, postgraphile: 4 },
  request: (n, size) => {
    const comments = { name: 'comments', columns: ['id', 'body'], order_by: '+id', limit: 5 }
    const articles = { name: 'articles', columns: ['id', 'title', comments], order_by: '+id', limit: 10 }
    return {
      type: 'select',
      args: { table: 'author', columns: ['id', 'name', articles], where: { id: id(n, size) } },
    }
  },
  graphql: (n, size) => ({
    query: `query ($id: Int!) { root: author(where: {id: {_eq: $id}}) { id name
      articles(order_by: {id: asc}, limit: 10) { id title comments(order_by: {id: asc}, limit: 5) { id body } } } }`,
    variables: { id: id(n, size) },
  }),
  postgraphile: (n, size, { article, comment }) => ({
    query: `query ($id: Int!) { root: authorByRowId(rowId: $id) { ${fieldsOf(['id', 'name'])}
      articles: articlesByAuthorIdList(${filterOf(article)} orderBy: ROW_ID_ASC, first: 10) { ${fieldsOf(['id', 'title'])}
        comments: commentsByArticleIdList(${filterOf(comment)} orderBy: ROW_ID_ASC, first: 5) { ${fieldsOf(['id', 'body'])} }
      } } }`,
    variables: { id: id(n, size) },
  }),
  hasura: (n, size) => ({
    query: `query ($id: Int!) { root: author_by_pk(id: $id) { id name
      articles(order_by: {id: asc}, limit: 10) { id title comments(order_by: {id: asc}, limit: 5) { id body } } } }`,
    variables: { id: id(n, size) },
  }),
  directus: (n, size) => {
    const comments = { _filter: PERMITTED.comment, _sort: 'id', _limit: 5 }
    const fields = ['id', 'name', 'articles.id', 'articles.title', 'articles.comments.id', 'articles.comments.body']
    return itemsPath(`author/${id(n, size)}`, fields, {
      deep: { articles: { _filter: PERMITTED.article, _sort: 'id', _limit: 10, comments } },
    })
  },
  fastify: (n, size) => `/authors/${id(n, size)}`,
  postgrest: (n, size) =>
    `/author?select=id,name,articles:article(id,title,comments:comment(id,body))&id=eq.${id(n, size)}` +
    '&articles.order=id&articles.limit=10&articles.comments.order=id&articles.comments.limit=5',
  reference: (n, size) => `
    select json_agg(x)
    from (
      select id, name, array(
        select json_build_object('id', a.id, 'title', a.title, 'comments', array(
          select json_build_object('id', c.id, 'body', c.body)
          from comment c
          where c.article_id = a.id and not c.hidden
          order by c.id
          limit 5
        ))
        from article a
        where a.author_id = author.id and (a.author_id = ${USER_ID} or a.published)
        order by a.id
        limit 10
      ) as articles
      from author
      where id = ${id(n, size)} and active
    ) x`,
  parameters: (size) => ['false', '5', String(USER_ID), 'true', '10', { base: 1, step: step(size) }],
}
