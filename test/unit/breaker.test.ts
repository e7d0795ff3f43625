import pino from 'pino'
import t from 'tap'
import { createBreaker } from '../../core/db/breaker.js'
import { createMetrics } from '../../core/metrics.js'
import { until } from '../kit/until.js'

const LATE = new Error('timeout expired')
const REFUSED = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })

/** Reports a failed request and runs probes with these results; the last one repeats. @returns the states before each probe */
async function statesBefore(results: readonly (Error | undefined)[]): Promise<readonly boolean[]> {
  const states: boolean[] = []
  const probe = async () => {
    states.push(breaker.isOpen)
    const error = results[states.length - 1]
    if (error) throw error
  }
  const breaker = createBreaker(probe, pino({ level: 'silent' }), createMetrics())
  breaker.failed()
  await until('the probes have run', () => states.length === results.length && !breaker.isOpen)
  breaker.close()
  return states
}

t.test('one late probe does not open the circuit breaker, two in a row do', async (t) => {
  t.same(await statesBefore([LATE, undefined]), [false, false])
  t.same(await statesBefore([LATE, LATE, undefined]), [false, false, true])
})

t.test('a probe that cannot connect opens the circuit breaker', async (t) => {
  t.same(await statesBefore([REFUSED, undefined]), [false, true])
  t.same(await statesBefore([REFUSED, LATE, undefined]), [false, true, true])
})
