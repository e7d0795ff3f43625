import type { Call } from '../data/operations.js'
import type { Exchange } from '../http/exchange.js'

/** Returns the context of an operation that a request starts. */
export function callOf(
  { state }: Pick<Exchange, 'state'>,
  format: Call['format'] = 'json',
  dialect?: Call['dialect'],
): Call {
  return {
    session: state.session,
    get signal() {
      return state.signal
    },
    log: () => state.log,
    timing: state.timing,
    format,
    dialect,
  }
}
