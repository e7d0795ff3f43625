import { type Receipt, SendError } from 'rowhouse'
import { unreadable } from '../../api.js'

/** A part of a message; long messages have several. */
interface Part {
  readonly status?: unknown
  readonly messageId?: unknown
  readonly errorText?: unknown
  readonly remainingBalance?: unknown
}

const SENT = '0'

/**
 * Statuses that concern this message: a missing (2) or invalid (3) parameter, an invalid message (6) or number (7, 33),
 * too long (12). Others concern rate, account or sender.
 */
const REFUSED = new Set(['2', '3', '6', '7', '12', '33'])
const TOO_LONG = '12'

/**
 * @param messages of the response, as parsed by the package
 * @param text the response, for errors
 * @throws SendError unless each part was accepted
 */
export function receiptOf(messages: unknown, text: string): Receipt {
  const parts: readonly Part[] = Array.isArray(messages) ? messages : []
  if (parts.length === 0 || !parts.every(isPart)) throw unreadable(text)
  const failed = parts.filter(({ status }) => status !== SENT)
  const [first] = failed
  if (first !== undefined) {
    const what = failed.length === parts.length ? '' : ` for ${failed.length} of ${parts.length} parts`
    const message = `Vonage answered with status ${String(first.status)}${what}`
    const outcome = outcomeOf(failed, parts)
    const limit = outcome === 'refused' && failed.every(({ status }) => status === TOO_LONG)
    throw new SendError(outcome, message, { response: text, limit })
  }
  const { messageId, remainingBalance } = parts[0]!
  if (typeof messageId !== 'string' || messageId === '') throw unreadable(text)
  const size = parts.length === 1 ? '1 part' : `${parts.length} parts`
  const balance = typeof remainingBalance === 'string' ? `, balance ${remainingBalance.slice(0, 20)}` : ''
  return { id: messageId, detail: `accepted, ${size}${balance}` }
}

const isPart = (part: unknown): boolean =>
  typeof part === 'object' &&
  part !== null &&
  'status' in part &&
  typeof part.status === 'string' &&
  /^\d{1,3}$/.test(part.status)

/** Returns the outcome. Retrying a partially sent message would send some parts twice. */
function outcomeOf(failed: readonly Part[], parts: readonly Part[]) {
  if (failed.length < parts.length) return 'unknown'
  return failed.some(({ status }) => REFUSED.has(String(status))) ? 'refused' : 'retry'
}
