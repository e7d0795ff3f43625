import t from 'tap'
import { patience } from '../kit/patience.js'
import { testServer } from '../kit/server.js'
import { startPair } from '../kit/standby.js'
import { until } from '../kit/until.js'

t.test('reads run on a standby, and on the primary while it lags', async (t) => {
  const { primary, standby } = await startPair(t)
  await primary.query(`create view place as select inet_server_port() as port; create table note (id int primary key)`)
  const server = await testServer(t, {
    databaseUrl: primary.url,
    config: { database: { readUrls: [standby.url], maxLagMs: patience(1000) } },
  })
  await server.must('track_table', 'place')
  await server.must('track_table', 'note')
  const portOf = ({ url }: { readonly url: string }) => Number(new URL(url).port)
  const place = async (headers = {}) => {
    const body = JSON.stringify({ type: 'select', args: { table: 'place', columns: ['port'] } })
    return (await server.raw(body, {}, headers)).body?.[0]?.port as number
  }

  await until('the standby is used', async () => (await place()) === portOf(standby))
  t.equal(await place({ 'rowhouse-read-from': 'primary' }), portOf(primary))

  await standby.query('select pg_wal_replay_pause()')
  const written = await server.query('insert', { table: 'note', objects: [{ id: 1 }] })
  const position = written.headers.get('rowhouse-position') ?? ''
  t.equal(await place({ 'rowhouse-position': position }), portOf(primary), 'who wrote reads what is written')
  await until('the primary is read', async () => (await place()) === portOf(primary))
  t.equal((await server.query('count', { table: 'note' })).text, '{"count":1}')

  await standby.query('select pg_wal_replay_resume()')
  await until('the standby is used again', async () => (await place()) === portOf(standby))
})
