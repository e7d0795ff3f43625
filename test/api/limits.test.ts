import t from 'tap'
import { ADMIN_SECRET, testServer } from '../kit/server.js'

t.test('only admin, and only on /v1/query, may send more than http.maxJsonBytes', async (t) => {
  const server = await testServer(t, { config: { http: { maxJsonBytes: 1000, maxAdminJsonBytes: 3000 } } })
  const query = (bytes: number) => {
    const start = '{"type":"bulk","args":[]'
    return `${start}${' '.repeat(bytes - start.length - 1)}}`
  }
  const post = async (path: string, body: string, role: string) => {
    const response = await fetch(server.url + path, {
      method: 'POST',
      body,
      headers: { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-role': role },
    })
    return { status: response.status, text: await response.text() }
  }

  t.match(await post('/v1/query', query(3000), 'admin'), { status: 200 })
  t.match(await post('/v1/query', query(3001), 'admin'), { status: 413, text: /3000 bytes \(http.maxAdminJsonBytes\)/ })
  t.match(await post('/v1/query', query(1001), 'user'), { status: 413, text: /1000 bytes \(http.maxJsonBytes\)/ })
  t.match(await post('/v1/query/explain', query(1001), 'admin'), { status: 413, text: /\(http.maxJsonBytes\)/ })
})
