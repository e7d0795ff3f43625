import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import tap from 'tap'
import { SendError } from '../../core/index.js'
import { MAIL, notifyServer, type NotifyServer, SMS } from '../kit/notify.js'
import { patience } from '../kit/patience.js'
import { until } from '../kit/until.js'

/** Seconds that a test waits for, and in which an attempt has come to its end. */
const SOON = Math.ceil(patience(2_000) / 1000)
const FAST = { queue: { retrySeconds: 0.01, pollMs: 20 } }

const stateOf = async (server: NotifyServer, id: string) => (await server.fetch(`/v1/send/${id}`)).body
const becomes = (server: NotifyServer, id: string, state: string) =>
  until(`${id} becomes ${state}`, async () => (await stateOf(server, id)).state === state)

tap.test('a provider that does not end', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, leaseSeconds: SOON } })
  server.email.answers.push(() => new Promise<never>(() => {}))
  const { id } = (await server.send('email', { ...MAIL, queue: true })).body
  await becomes(server, id, 'sent')
  t.match(await stateOf(server, id), { attempts: 2, provider: 'first' })

  server.email.answers.push(() => new Promise<never>(() => {}))
  t.match(await server.send('email', MAIL), { status: 500, body: { state: 'unknown', detail: /no response in time/ } })
})

tap.test('who comes to hand a message over when it is taken by another does not', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, leaseSeconds: SOON } })
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  t.teardown(() => client.end())
  const claims = async (id: string) => {
    const { rows } = await client.query('select claims from svc_catalog.svc_outbox where id = $1', [id])
    return rows[0].claims as number
  }
  await client.query('begin; lock table svc_catalog.svc_suppression')
  const { id } = (await server.send('email', { ...MAIL, queue: true })).body
  await until('it is taken again', async () => (await claims(id)) > 1)
  await client.query('commit')
  await becomes(server, id, 'sent')
  await server.close()
  t.equal(server.email.handed.length, 1)
})

tap.test('a message whose time is over before a provider is asked is tried again soon', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, leaseSeconds: 6 } })
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  t.teardown(() => client.end())
  await client.query('begin; lock table svc_catalog.svc_suppression')
  const { id } = (await server.send('email', { ...MAIL, queue: true })).body
  // Longer than a try may take, and shorter than its lease.
  await sleep(4000)
  await client.query('commit')
  await becomes(server, id, 'sent')
  t.equal(server.email.handed.length, 1)
})

tap.test('a provider that does not answer holds up no other channel, nor the end of the server', async (t) => {
  const server = await notifyServer(t, { queue: { ...FAST.queue, concurrency: 2 } })
  const given: AbortSignal[] = []
  const hang = (_: unknown, signal: AbortSignal) =>
    new Promise<never>((_, reject) => {
      given.push(signal)
      signal.addEventListener('abort', () => reject(new SendError('unknown', 'given up')))
    })
  for (let i = 0; i < 3; i++) {
    server.email.answers.push(hang)
    await server.send('email', { ...MAIL, queue: true })
  }
  await until('two are under way', () => given.length === 2)
  const { id } = (await server.send('sms', { ...SMS, queue: true })).body
  await becomes(server, id, 'sent')
  await server.close()
  t.same(
    given.map(({ aborted }) => aborted),
    [true, true],
  )
  t.equal(server.email.handed.length, 2, 'nothing new is begun')
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  const { rows } = await client.query(
    `select state, provider from svc_catalog.svc_outbox where kind = 'email' order by state, provider`,
  )
  await client.end()
  t.same(rows, [
    { state: 'queued', provider: 'first' },
    { state: 'queued', provider: 'first' },
    { state: 'queued', provider: null },
  ])
})

tap.test('the database is away when a provider has taken a message', async (t) => {
  const server = await notifyServer(t, FAST)
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  t.teardown(() => client.end())
  server.email.answers.push(async () => {
    // The next statement of the server meets a closed connection.
    await client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()`,
    )
    return { id: 'taken', detail: 'yes' }
  })
  t.match(await server.send('email', MAIL), { status: 200, body: { id: 'taken' } })
  t.match(await server.messages(), [{ state: 'sent', provider_id: 'taken' }])
})
