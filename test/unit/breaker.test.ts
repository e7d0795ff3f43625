import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import pino from 'pino'
import t from 'tap'
import { createBreaker } from '../../core/db/breaker.js'
import { createMetrics } from '../../core/metrics.js'
import { until } from '../kit/until.js'

const REFUSED = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
/** Longer than the breaker waits for a sign of life. */
const LONG_MS = 2000

interface Stage {
  readonly probe: () => Promise<void>
  /** Whether other connections receive something all the time. */
  readonly heard?: () => boolean
  /** What happens meanwhile. */
  readonly meanwhile?: () => void
}

/** Reports a failed request, and waits until a probe succeeds. @returns whether the breaker was open, and its log */
async function outcomeOf({ probe, heard = () => false, meanwhile }: Stage) {
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => lines.push(JSON.parse(line).msg) })
  let succeeded = false
  let opened = false
  const watched = async () => {
    try {
      await probe()
    } finally {
      opened ||= breaker.isOpen
    }
    succeeded = true
  }
  const breaker = createBreaker({ probe: watched, heard }, log, createMetrics())
  breaker.failed()
  meanwhile?.()
  await until('a probe succeeds', () => succeeded && !breaker.isOpen)
  breaker.close()
  return { opened, lines }
}

/** Fails until so many milliseconds have passed. */
function failsFor(ms: number, error: Error): () => Promise<void> {
  const since = performance.now()
  return async () => {
    if (performance.now() - since < ms) throw error
  }
}

const OPENED = { opened: true, lines: ['the database is unavailable', 'the database is available again'] }
const NEVER = { opened: false, lines: [] }

// They mostly wait.
t.jobs = 8

t.test('a single probe that fails does not open the circuit breaker', async (t) => {
  let tries = 0
  const probe = async () => {
    if (tries++ === 0) throw REFUSED
  }
  t.same(await outcomeOf({ probe }), NEVER)
})

t.test(
  'it opens when nothing was heard of the database for a second, and the next probe that succeeds closes it',
  async (t) => {
    t.same(await outcomeOf({ probe: failsFor(LONG_MS, REFUSED) }), OPENED)
  },
)

t.test('it opens while a probe gets no answer, and does not wait for that one', async (t) => {
  const since = performance.now()
  const probe = () => (performance.now() - since < LONG_MS ? new Promise<void>(() => {}) : Promise.resolve())
  t.same(await outcomeOf({ probe }), OPENED)
})

t.test('a probe may take longer than the pause between probes', async (t) => {
  t.same(await outcomeOf({ probe: () => sleep(LONG_MS) }), OPENED)
})

t.test('it stays closed while other connections receive answers', async (t) => {
  t.same(await outcomeOf({ probe: failsFor(LONG_MS, REFUSED), heard: () => true }), NEVER)
})

t.test('it closes when another connection receives an answer', async (t) => {
  const since = performance.now()
  let log: readonly string[] = []
  const heard = () => performance.now() - since > LONG_MS
  ;({ lines: log } = await outcomeOf({ probe: failsFor(2 * LONG_MS, REFUSED), heard }))
  t.same(log, OPENED.lines)
})

t.test('an error that only a running database sends is a sign of life', async (t) => {
  const full = Object.assign(new pg.DatabaseError('sorry, too many clients already', 0, 'error'), { code: '53300' })
  const lines: string[] = []
  const breaker = createBreaker(
    { probe: () => Promise.reject(full), heard: () => false },
    pino({ level: 'warn' }, { write: (line: string) => lines.push(line) }),
  )
  breaker.failed()
  await sleep(LONG_MS)
  t.equal(breaker.isOpen, false)
  t.same(lines, [])
  breaker.close()
})

// After the others, whose time it would take.
t.test('time in which the event loop was busy does not count', { buffered: false }, async (t) => {
  // An answer that has arrived is read only when the loop is free again.
  const probe = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)))
  const meanwhile = () => {
    const until = performance.now() + LONG_MS
    while (performance.now() < until) {}
  }
  t.same(await outcomeOf({ probe, meanwhile }), NEVER)
})
