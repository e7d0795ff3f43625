import pg from 'pg'
import t from 'tap'
import { rowsOf } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

t.test('SQL may take longer than a statement, and when it takes too long it ends in the database too', async (t) => {
  const server = await testServer(t, { config: { database: { statementTimeoutMs: patience(500) } } })
  const sleep = (ms: number) => `select pg_sleep(${ms / 1000}), 'a long one'`
  const running = () =>
    rowsOf(
      server.databaseUrl,
      `select state from pg_stat_activity where pid <> pg_backend_pid() and query like '%a long one%' and state = 'active'`,
    )

  t.match(await server.query('run_sql', { sql: sleep(patience(1500)) }), { status: 504, body: { code: 'timeout' } })
  const long = await server.query('run_sql', { sql: sleep(patience(1500)), timeout_ms: patience(60_000) })
  t.match(long, { status: 200, body: { result_type: 'TuplesOk' } })
  for (const more of [{}, { no_transaction: true, check_metadata_consistency: false }, { read_only: true }]) {
    const late = await server.query('run_sql', { sql: sleep(patience(600_000)), timeout_ms: 200, ...more })
    t.match(late, { status: 504, body: { code: 'timeout', error: 'the SQL took longer than 200 ms' } })
    // PostgreSQL shows it a moment longer.
    await until('nothing is left running', async () => (await running()).length === 0)
  }
  const both = `${sleep(150)}; ${sleep(patience(600_000))}`
  t.match(await server.query('run_sql', { sql: both, timeout_ms: 300 }), { status: 504 }, 'all statements together')
  await until('no connection is left', async () => (await connections(server.databaseUrl)) === 0)
})

t.test('SQL on connections of its own leaves the other connections of the database to others', async (t) => {
  const database = { poolWaitMs: patience(1000), lockTimeoutMs: patience(60_000) }
  const server = await testServer(t, { config: { database } })
  const holder = new pg.Client({ connectionString: server.databaseUrl })
  await holder.connect()
  await holder.query('select pg_advisory_lock(1)')
  const refused: string[] = []
  const ask = async (i: number) => {
    const more = i % 2 === 0 ? { read_only: true } : { no_transaction: true, check_metadata_consistency: false }
    const args = { sql: 'select pg_advisory_lock_shared(1)', timeout_ms: patience(60_000), ...more }
    const { status, text } = await server.query('run_sql', args)
    if (status !== 200) refused.push(`${status} ${text}`)
    return status
  }

  const asked = Promise.all(Array.from({ length: 4 * PROCESSES + 2 }, (_, i) => ask(i)))
  await until('two are refused', async () => refused.length >= 2)
  await holder.end()

  const statuses = await asked
  t.same([...new Set(statuses)].sort(), [200, 503])
  // Several processes get different numbers of calls.
  if (PROCESSES === 1) t.equal(statuses.filter((status) => status === 200).length, 4)
  t.match(refused[0], /4 calls of run_sql with timeout_ms or no_transaction are running/)
})

async function connections(url: string): Promise<number> {
  const sql = `select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = 'rowhouse run_sql'`
  for (let tries = 0; ; tries++) {
    const [{ n } = { n: NaN }] = await rowsOf<{ n: number }>(url, sql)
    if (n === 0 || tries > 50) return n
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
