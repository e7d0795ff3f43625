import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import pino from 'pino'
import t from 'tap'
import { createBreaker } from '../../core/db/breaker.js'
import { createMetrics } from '../../core/observe/metrics.js'
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

/** Returns a probe that fails at first. @param ms time for which it fails */
function failsFor(ms: number, error: Error): () => Promise<void> {
  const since = performance.now()
  return async () => {
    if (performance.now() - since < ms) throw error
  }
}

const OPENED = { opened: true, lines: ['the database is unavailable', 'the database is available again'] }
const NEVER = { opened: false, lines: [] }

t.test('the breaker opens after a second without a sign of life, and closes with the next one', async (t) => {
  const since = performance.now()
  const isLater = () => performance.now() - since > LONG_MS
  let tries = 0
  // Together, because they mostly wait.
  const [once, refused, silent, slow, busy, heard, full] = await Promise.all([
    outcomeOf({
      probe: async () => {
        if (tries++ === 0) throw REFUSED
      },
    }),
    outcomeOf({ probe: failsFor(LONG_MS, REFUSED) }),
    outcomeOf({ probe: () => (isLater() ? Promise.resolve() : new Promise<void>(() => {})) }),
    outcomeOf({ probe: () => sleep(LONG_MS) }),
    outcomeOf({ probe: failsFor(LONG_MS, REFUSED), heard: () => true }),
    outcomeOf({ probe: failsFor(2 * LONG_MS, REFUSED), heard: isLater }),
    opensWith(Object.assign(new pg.DatabaseError('too many clients already', 0, 'error'), { code: '53300' })),
  ])
  t.same(once, NEVER, 'a single probe that fails does not open it')
  t.same(refused, OPENED, 'it opens when all probes fail')
  t.same(silent, OPENED, 'it opens while a probe gets no answer, and does not wait for that one')
  t.same(slow, OPENED, 'a probe may take longer than the pause between probes')
  t.same(busy, NEVER, 'it stays closed while other connections receive answers')
  t.same(heard.lines, OPENED.lines, 'it closes when another connection receives an answer')
  t.equal(full, false, 'an error that only a running database sends is a sign of life')
})

/** Returns whether the breaker opens if each probe fails with this error. */
async function opensWith(error: Error): Promise<boolean> {
  const breaker = createBreaker({ probe: () => Promise.reject(error), heard: () => false }, pino({ level: 'silent' }))
  breaker.failed()
  await sleep(LONG_MS)
  breaker.close()
  return breaker.isOpen
}

t.test('time in which the event loop was busy does not count', async (t) => {
  // An answer that has arrived is read only when the loop is free again.
  const probe = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)))
  const meanwhile = () => {
    const until = performance.now() + LONG_MS
    while (performance.now() < until) {}
  }
  t.same(await outcomeOf({ probe, meanwhile }), NEVER)
})
