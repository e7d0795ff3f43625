import pg from 'pg'
import tap from 'tap'
import type { Receipt } from '../../core/index.js'
import { MAIL, notifyServer, type NotifyServer, SMS } from '../kit/notify.js'
import { sendError } from '../kit/sender.js'
import { until } from '../kit/until.js'

const FAST = { queue: { retrySeconds: 0.01, pollMs: 20 }, breaker: { failures: 1000 } }

const stateOf = async (server: NotifyServer, id: string) => (await server.fetch(`/v1/send/${id}`)).body
const becomes = (server: NotifyServer, id: string, state: string) =>
  until(`${id} becomes ${state}`, async () => (await stateOf(server, id)).state === state)

/** What a provider without types may return after it has sent a message. */
const answering = (value: unknown) => async () => value as Receipt

const NONSENSE: readonly (readonly [unknown, string])[] = [
  [undefined, 'undefined'],
  [null, 'null'],
  [5, 'number'],
  ['sent', 'string'],
  [{}, '{id: undefined, detail: undefined}'],
  [{ detail: 'sent' }, '{id: undefined, detail: string}'],
  [{ id: 'x' }, '{id: string, detail: undefined}'],
  [{ id: '', detail: 'sent' }, '{id: empty, detail: string}'],
  [{ id: 7, detail: 'sent' }, '{id: number, detail: string}'],
  [{ id: {}, detail: [] }, '{id: object, detail: object}'],
]

tap.test('a provider that returns no receipt leaves it unknown whether a message was sent', async (t) => {
  const server = await notifyServer(t, { ...FAST, email: { failover: ['second'] } })
  const { email, second, sms } = server

  for (const [returned, shown] of NONSENSE) {
    await t.test(`returned: ${shown}`, async (t) => {
      email.handed.length = 0
      email.answers.push(answering(returned))
      const answer = await server.send('email', MAIL)
      t.match(answer, {
        status: 500,
        body: { code: 'response_changed', message: shown, id: /^[0-9a-f-]{36}$/, state: 'unknown', provider: 'first' },
      })
      t.match(await stateOf(server, answer.body.id), { state: 'unknown', attempts: 1, provider_id: null, text: 'Hi' })
      sms.answers.push(answering(returned))
      t.match(await server.send('sms', SMS), {
        status: 500,
        body: { code: 'response_changed', message: shown, state: 'unknown' },
      })

      email.answers.push(answering(returned))
      const { id } = (await server.send('email', { ...MAIL, queue: true })).body
      await becomes(server, id, 'unknown')
      t.match(await stateOf(server, id), { attempts: 1, error_code: 'response_changed', detail: shown })
      t.equal(email.handed.length, 2, 'each was handed over once')
    })
  }
  t.same(second.handed, [], 'no other provider was asked')
})

tap.test('a message of which no outcome can be stored is handed over five times at most', async (t) => {
  const server = await notifyServer(t, { ...FAST, queue: { ...FAST.queue, leaseSeconds: 2 } })
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  await client.query(`create function refuse() returns trigger language plpgsql as $$ begin raise 'not this'; end $$;
    create trigger refuse before update on svc_catalog.svc_outbox for each row
      when (new.attempts > old.attempts) execute function refuse()`)
  await client.end()
  const { id } = (await server.send('email', { ...MAIL, queue: true })).body
  await becomes(server, id, 'unknown')

  t.equal(server.email.handed.length, 5)
  t.match(await stateOf(server, id), { error: /5 times.*it may have been sent/ })
})

tap.test('an error that is none of those agreed on leaves the message unknown', async (t) => {
  const server = await notifyServer(t, { ...FAST, email: { failover: ['second'] } })
  const { email, second } = server
  const throwing = (thrown: unknown) => async (): Promise<Receipt> => {
    throw thrown
  }
  const later = await sendError('later' as 'retry', 'an outcome of its own')().catch((error: unknown) => error)
  for (const thrown of [later, undefined, null, Object.create(null), 'text', { message: 7 }]) {
    email.answers.push(throwing(thrown))
    t.match(await server.send('email', MAIL), { status: 500, body: { code: 'unexpected', state: 'unknown' } })
  }
  t.same(second.handed, [], 'no other provider was asked')

  email.handed.length = 0
  second.answers.push(sendError('retry', 'busy', { retryAfter: NaN }))
  email.answers.push(sendError('retry', 'busy', { retryAfter: NaN }))
  const { id } = (await server.send('email', { ...MAIL, queue: true })).body
  await becomes(server, id, 'sent')
  t.equal(email.handed.length, 2, 'a pause that is no number is no reason to stop')
})
