import { EventEmitter } from 'node:events'
import { mock } from 'node:test'
import pino from 'pino'
import t from 'tap'
import { watchCatalog } from '../../core/metadata/watch.js'
import type { Database } from '../../core/db/database.js'

const REFUSED = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })

/** A database that counts, on a clock that only `pass` moves. */
async function watched(t: { teardown(fn: () => Promise<void>): unknown }) {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const made: EventEmitter[] = []
  const state = { isUp: true, listens: true, version: '1', checks: 0, reloads: 0 }
  const connect = async () => {
    if (!state.isUp || !state.listens) throw REFUSED
    const client = Object.assign(new EventEmitter(), { query: async () => {}, end: async () => {} })
    made.push(client)
    return client
  }
  const query = async () => {
    state.checks++
    if (!state.isUp) throw REFUSED
    return { rows: [{ version: state.version }] }
  }
  const database = { connect, admin: { query }, config: { poolWaitMs: 1000 }, breaker: { failed() {} } }
  const watch = await watchCatalog(
    database as unknown as Database,
    (version) => version === '1',
    async () => void state.reloads++,
    pino({ level: 'silent' }),
  )
  t.teardown(async () => {
    await watch.close()
    mock.timers.reset()
  })
  const pass = async (ms: number) => {
    mock.timers.tick(ms)
    for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve))
  }
  return { state, made, watch, pass }
}

t.test('a server that lost its LISTEN connection listens again a second after the database is back', async (t) => {
  const { state, made, watch, pass } = await watched(t)
  state.isUp = false
  made[0]!.emit('end')
  for (let i = 0; i < 20; i++) await pass(1000)
  t.notOk(watch.listening)
  t.ok(state.checks <= 22, 'it tries once a second')

  state.isUp = true
  state.version = '2'
  await pass(1000)

  t.ok(watch.listening)
  t.equal(state.reloads, 1, 'it has what it missed')
})

t.test('a check that could not reach the database is repeated a second later', async (t) => {
  const { state, made, pass } = await watched(t)
  state.isUp = false
  made[0]!.emit('notification')
  await pass(0)
  state.isUp = true
  state.version = '2'

  await pass(1000)

  t.equal(state.reloads, 1)
})

t.test('a server whose direct connection is lost tries every second to listen, and polls meanwhile', async (t) => {
  const { state, made, watch, pass } = await watched(t)
  state.listens = false
  made[0]!.emit('end')
  for (let i = 0; i < 3; i++) await pass(1000)
  state.version = '2'
  await pass(1000)
  t.equal(state.reloads, 1)
  state.listens = true

  await pass(1000)

  t.ok(watch.listening)
})

t.test('a server that listens polls every 5 seconds', async (t) => {
  const { state, pass } = await watched(t)
  const before = state.checks

  await pass(4000)
  t.equal(state.checks, before)
  await pass(1000)

  t.equal(state.checks, before + 1)
})
