import t, { type Test } from 'tap'
import { admin, filestore } from '../kit/files.js'
import { type Answered, type As, testServer, type TestServer } from '../kit/server.js'

/** A request that says in an unusual way what it wants, and so goes through all of Koa. */
const LONG_WAY = { accept: 'application/json;q=1' }
const SHORT_WAY = { accept: '*/*' }
const OF_EACH = new Set(['date', 'x-request-id'])

const comparable = ({ status, text, headers }: Answered) => ({
  status,
  text,
  headers: [...headers].filter(([name]) => !OF_EACH.has(name)),
})

t.test('the short way to a handler answers as the long one does', async (t) => {
  const server = await testServer(t, {
    config: { http: { cors: { origins: ['https://app.example.com'], credentials: true }, maxJsonBytes: 2000 } },
  })
  await server.must('run_sql', { sql: `create table n (id int primary key, note text); insert into n values (1, 'é')` })
  await server.must('track_table', 'n')
  await server.must('create_query_template', {
    name: 'one',
    template: { type: 'select', args: { table: 'n', columns: ['*'], where: { id: { param: 'id' } } } },
  })
  const select = (more: object = {}) =>
    JSON.stringify({ type: 'select', args: { table: 'n', columns: ['*'], ...more } })
  const requests: Requests = {
    rows: ['/v1/query', { method: 'POST', body: select({ where: { id: 1 } }) }],
    'rows that stream': ['/v1/query', { method: 'POST', body: select() }],
    'what is wrong': ['/v1/query', { method: 'POST', body: select({ where: { nothing: 1 } }) }],
    'no JSON': ['/v1/query', { method: 'POST', body: '{' }],
    'too much': ['/v1/query', { method: 'POST', body: ' '.repeat(3000) }],
    'a query string': ['/v1/query?a=b', { method: 'POST', body: select({ where: { id: 1 } }) }],
    'another method': ['/v1/query', { method: 'GET' }],
    'another path': ['/v1/query/', { method: 'POST', body: select() }],
    'wrong credentials': ['/v1/query', { method: 'POST', body: select(), headers: { 'x-service-admin-secret': 'x' } }],
    'a known origin': [
      '/v1/query',
      { method: 'POST', body: select({ where: { id: 1 } }), headers: { origin: 'https://app.example.com' } },
    ],
    'an unknown origin': [
      '/v1/query',
      { method: 'POST', body: select({ where: { id: 1 } }), headers: { origin: 'https://example.org' } },
    ],
    'a template by GET': ['/v1/template/one?id=1', {}],
    'a template by POST': ['/v1/template/one', { method: 'POST', body: '{"id":1}' }],
    'an unknown template': ['/v1/template/none', {}],
    'a name in escapes': ['/v1/template/%6fne?id=1', {}],
    GraphQL: ['/v1/graphql', { method: 'POST', body: '{"query":"{ n { id note } }"}' }],
    'GraphQL that fails': ['/v1/graphql', { method: 'POST', body: '{"query":"{ m { id } }"}' }],
    'the older GraphQL that fails': ['/v1alpha1/graphql', { method: 'POST', body: '{"query":"{ m { id } }"}' }],
  }
  await compare(t, server, requests)
})

t.test('files come by the short way as by the long one', async (t) => {
  const server = await filestore(t)
  const text = { 'Content-Type': 'text/plain' }
  const large = 'x'.repeat(2 ** 20 + 1)
  for (const [id, body] of Object.entries({ a: 'some é', large, none: '' })) {
    t.equal((await server.put(id, body)).status, 200)
  }
  await compare(
    t,
    server,
    {
      'a file': ['/v1/file/a', {}],
      'an id in escapes': ['/v1/file/%61', {}],
      'a part': ['/v1/file/a', { headers: { range: 'bytes=2-3' } }],
      'a part that there is not': ['/v1/file/a', { headers: { range: 'bytes=9-' } }],
      'to be saved': ['/v1/file/a?download=b', {}],
      'not wanted': ['/v1/file/a', { headers: { 'if-none-match': '*' } }],
      'another version': ['/v1/file/a', { headers: { 'if-match': '"x"' } }],
      'its head': ['/v1/file/a', { method: 'HEAD' }],
      'no bytes': ['/v1/file/none', {}],
      'a stream': ['/v1/file/large', {}],
      'no file': ['/v1/file/b', {}],
      'no id': ['/v1/file/', {}],
      'a slash': ['/v1/file/a/b', {}],
      'a signature that is none': ['/v1/file/a?signature=x', {}],
      'an upload in its place': ['/v1/file/a', { method: 'PUT', body: 'some é', headers: text }],
      'an upload of many bytes': ['/v1/file/large', { method: 'PUT', body: large, headers: text }],
      'an upload of what exists': ['/v1/file/a', { method: 'POST', body: 'x', headers: text }],
      'an upload of no known type': ['/v1/file/b', { method: 'PUT', body: 'x', headers: { 'Content-Type': 'x' } }],
      'a delete of nothing': ['/v1/file/b', { method: 'DELETE' }],
      'another method': ['/v1/file/a', { method: 'PATCH', body: 'x' }],
    },
    admin,
  )
})

type Requests = Readonly<Record<string, readonly [path: string, init: RequestInit]>>

async function compare(t: Test, server: TestServer, requests: Requests, as?: As): Promise<void> {
  for (const [name, [path, init]] of Object.entries(requests)) {
    const asked = (accept: Record<string, string>) =>
      server.fetch(path, { ...init, headers: { ...(init.headers as Record<string, string>), ...accept } }, as)
    // Three times, so that a plan is a new one, a known one and a prepared one.
    for (let i = 0; i < 3; i++) t.same(comparable(await asked(SHORT_WAY)), comparable(await asked(LONG_WAY)), name)
  }
}
