import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { request } from 'node:http'
import type { Readable } from 'node:stream'
import t from 'tap'
import { freshDatabase } from '../../kit/database.js'
import { serverProcess } from '../../kit/server-process.js'
import { ADMIN_SECRET, testServer } from '../../kit/server.js'

const MIB = 2 ** 20

t.test(
  'a stream of any size takes the memory of a small one',
  { skip: !existsSync('/proc/self/status') },
  async (t) => {
    const { url } = await freshDatabase(t)
    const first = await testServer(t, { databaseUrl: url })
    await first.must('run_sql', {
      sql: `create table wide (id int primary key, text text not null);
      insert into wide select n, repeat('x', 1000) from generate_series(1, 200000) n`,
    })
    await first.must('track_table', 'wide')
    await first.close()
    const server = await serverProcess(t, url)
    const ways: Record<string, (limit?: number) => Promise<number>> = {
      'the JSON API': (limit) => stream(server.url, { table: 'wide', columns: ['id', 'text'], limit }),
      GraphQL: (limit) => {
        const query = 'query ($limit: Int) { wide(limit: $limit) { id text } }'
        return bytesOf(`${server.url}/v1/graphql`, { query, variables: { limit } })
      },
    }

    for (const [way, read] of Object.entries(ways)) {
      for (let times = 0; times < 3; times++) await read(2000)
      const before = server.peak()
      const bytes = await read()

      const grown = server.peak() - before
      t.ok(bytes > 200 * 1000 * 1000, `${Math.round(bytes / MIB)} MiB were streamed`)
      t.ok(grown < 28 * MIB, `${way}: memory grew by ${Math.round(grown / MIB)} MiB, from ${Math.round(before / MIB)}`)
    }
  },
)

t.test(
  'large rows after many tiny ones are not all read at once',
  { skip: !existsSync('/proc/self/status') },
  async (t) => {
    const { url } = await freshDatabase(t)
    const first = await testServer(t, { databaseUrl: url })
    await first.must('run_sql', {
      sql: `create table mixed (id int primary key, text text);
      insert into mixed select n, case when n > 100000 then repeat('x', 50000) end from generate_series(1, 104000) n`,
    })
    await first.must('track_table', 'mixed')
    await first.close()
    const server = await serverProcess(t, url)
    const read = (where: object) =>
      stream(server.url, { table: 'mixed', columns: ['id', 'text'], where, order_by: 'id' })

    for (let times = 0; times < 3; times++) await read({ id: { $gt: 103000 } })
    const before = server.peak()
    const bytes = await read({})

    const grown = server.peak() - before
    t.ok(bytes > 200 * 1000 * 1000, `${Math.round(bytes / MIB)} MiB were streamed`)
    t.ok(grown < 28 * MIB, `memory grew by ${Math.round(grown / MIB)} MiB, from ${Math.round(before / MIB)}`)
  },
)

/** @returns how many bytes the rows have as NDJSON */
const stream = (url: string, args: object): Promise<number> =>
  bytesOf(`${url}/v1/query`, { type: 'select', args }, 'application/x-ndjson')

async function bytesOf(url: string, body: object, accept = 'application/json'): Promise<number> {
  const headers = { 'x-service-admin-secret': ADMIN_SECRET, accept }
  const asked = request(url, { method: 'POST', headers }).end(JSON.stringify(body))
  const [answer] = (await once(asked, 'response')) as [Readable & { readonly statusCode: number }]
  let bytes = 0
  for await (const chunk of answer) bytes += (chunk as Buffer).length
  if (answer.statusCode !== 200) throw new Error(`the stream was answered with ${answer.statusCode}`)
  return bytes
}
