import { createRequire } from 'node:module'
import { join } from 'node:path'

/**
 * What one would write by hand, from the packages in `PEER_FOLDER`, as the documentation of Fastify, @fastify/jwt and pg shows
 * it: a route for each request, with a schema of what comes in and of the answer, a token that is verified (HS256), a role, its
 * filter in the SQL, named statements, as many connections as the server beside it, and one log line for each request.
 */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const need = createRequire(join(process.env['PEER_FOLDER'] ?? '', 'package.json'))
const fastify = need('fastify') as (options: object) => Fastify
const jwt = need('@fastify/jwt') as object
const { Pool } = need('pg') as { Pool: new (options: object) => Pool }

const pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: 10 })
// Like ours, one line for each request in place of two, to standard error.
const app = fastify({ logger: { file: '/dev/stderr' }, disableRequestLogging: true })
app.addHook('onResponse', async (request, reply) => {
  const { method, url } = request
  request.log.info({ method, url, status: reply.statusCode, ms: reply.elapsedTime, user: request.user?.rowhouse[USER] })
})
app.get('/healthz', async () => ({ ok: true }))

/** Names of the token's claims, the same as in a token for Rowhouse. */
const ROLE = 'x-service-default-role'
const USER = 'x-service-user-id'
const integer = { type: 'integer' }
const text = { type: 'string' }
const object = (properties: Readonly<Record<string, object>>) => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
})
const rowsOf = (properties: Readonly<Record<string, object>>) => ({
  response: { 200: { type: 'array', items: object(properties) } },
})
const ARTICLE = {
  id: integer,
  author_id: integer,
  title: text,
  content: text,
  published: { type: 'boolean' },
  rating: integer,
  created_at: { type: 'string', format: 'date-time' },
}
const COLUMNS = Object.keys(ARTICLE).join(', ')

app.register(jwt, { secret: process.env['JWT_KEY'] })
app.register(async (routes) => {
  routes.addHook('onRequest', async (request, reply) => {
    await request.jwtVerify()
    if (request.user?.rowhouse[ROLE] !== 'user') return reply.code(403).send({ error: 'only for users' })
    return undefined
  })
  const userOf = ({ user }: Request): number => Number(user?.rowhouse[USER])

  routes.get('/articles/:id', { schema: { params: object({ id: integer }), ...rowsOf(ARTICLE) } }, async (request) => {
    const { rows } = await pool.query({
      name: 'article',
      text: `select ${COLUMNS} from article where id = $1 and (author_id = $2 or published)`,
      values: [request.params['id'], userOf(request)],
    })
    return rows
  })

  const page = { querystring: object({ from: integer, limit: integer }), ...rowsOf(ARTICLE) }
  routes.get('/articles', { schema: page }, async (request) => {
    const { rows } = await pool.query({
      name: 'articles',
      text: `select ${COLUMNS} from article where id >= $1 and (author_id = $2 or published) order by id limit $3`,
      values: [request.query['from'], userOf(request), request.query['limit']],
    })
    return rows
  })

  const comments = { type: 'array', items: object({ id: integer, body: text }) }
  const articles = { type: 'array', items: object({ id: integer, title: text, comments }) }
  const author = { params: object({ id: integer }), ...rowsOf({ id: integer, name: text, articles }) }
  routes.get('/authors/:id', { schema: author }, async (request) => {
    const { rows } = await pool.query({
      name: 'author',
      text: `select id, name, (
          select coalesce(json_agg(a), '[]') from (
            select id, title, (
              select coalesce(json_agg(c), '[]') from (
                select id, body from comment where article_id = article.id and not hidden order by id limit 5
              ) c
            ) as comments
            from article where author_id = author.id and (author_id = $2 or published) order by id limit 10
          ) a
        ) as articles
        from author where id = $1 and active`,
      values: [request.params['id'], userOf(request)],
    })
    return rows
  })

  const best = {
    querystring: object({ from: integer, to: integer }),
    ...rowsOf({ id: integer, title: text, rating: integer, author: object({ name: text }) }),
  }
  routes.get('/best', { schema: best }, async (request) => {
    const { rows } = await pool.query({
      name: 'best',
      text: `select a.id, a.title, a.rating, w.name
        from article a join author w on w.id = a.author_id and w.active
        where a.published and a.rating >= 50 and w.id >= $1 and w.id < $2 and (a.author_id = $3 or a.published)
        order by a.rating desc, a.id limit 20`,
      values: [request.query['from'], request.query['to'], userOf(request)],
    })
    return rows.map(({ id, title, rating, name }) => ({ id, title, rating, author: { name } }))
  })

  const note = {
    body: object({ article_id: integer, body: text }),
    ...rowsOf({ id: integer, article_id: integer, body: text }),
  }
  routes.post('/notes', { schema: note }, async (request) => {
    const { rows } = await pool.query({
      name: 'note',
      text: 'insert into note (article_id, user_id, body) values ($1, $2, $3) returning id, article_id, body',
      values: [request.body['article_id'], userOf(request), request.body['body']],
    })
    return rows
  })
})
await app.listen({ port: Number(process.env['PORT']), host: '127.0.0.1' })

type Values = Readonly<Record<string, unknown>>
interface Request {
  readonly method: string
  readonly url: string
  readonly params: Values
  readonly query: Values
  readonly body: Values
  readonly user?: { readonly rowhouse: Readonly<Record<string, string>> }
  readonly log: { info(fields: object): void }
  jwtVerify(): Promise<void>
}
interface Reply {
  readonly statusCode: number
  readonly elapsedTime: number
  code(status: number): Reply
  send(answer: object): Reply
}
interface Routes {
  addHook(name: string, hook: (request: Request, reply: Reply) => Promise<unknown>): void
  get(path: string, handler: () => Promise<object>): void
  get(path: string, options: object, handler: (request: Request) => Promise<object>): void
  post(path: string, options: object, handler: (request: Request) => Promise<object>): void
}
interface Fastify extends Routes {
  register(plugin: (routes: Routes) => Promise<void>): void
  register(plugin: object, options: object): void
  listen(options: object): Promise<void>
}
interface Pool {
  query(statement: object): Promise<{ readonly rows: readonly Values[] }>
}
