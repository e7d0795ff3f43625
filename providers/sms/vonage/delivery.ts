import { createHmac } from 'node:crypto'
import type { DeliveryEvent, PostedEvents } from 'rowhouse'
import { tryParseJson } from '../../answer.js'
import { constantTimeEqual, notEvents, notSigned, ownMessage } from '../../events.js'

/** Signature methods, as in the account's settings. Vonage's other methods use broken hashes. */
type SignatureMethod = 'sha256' | 'sha512'

/** Maximum age of a receipt. Vonage retries for 72 hours, and late receipts are still valid. */
const MAX_AGE_SECONDS = 73 * 60 * 60

/** Kinds by status. `accepted` and `unknown` add no information. */
const KINDS: Readonly<Record<string, DeliveryEvent['kind']>> = {
  delivered: 'delivered',
  buffered: 'deferred',
  expired: 'bounced',
  failed: 'bounced',
  rejected: 'bounced',
}

/**
 * Reads a signed delivery receipt, posted as JSON or as a form.
 * @throws ServiceError 401 for a wrong signature or an old receipt, 400 for an unreadable body
 */
export function readReceipt(posted: PostedEvents, secret: string, method: SignatureMethod): readonly DeliveryEvent[] {
  const { sig, ...fields } = fieldsOf(posted)
  if (sig === undefined) throw notSigned('the delivery receipt is not signed')
  const signed = createHmac(method, secret).update(signedText(fields)).digest('hex')
  if (!constantTimeEqual(sig.toLowerCase(), signed)) throw notSigned('the signature of the delivery receipt is wrong')
  const age = Date.now() / 1000 - Number(fields['timestamp'])
  if (!(Math.abs(age) <= MAX_AGE_SECONDS)) throw notSigned('the delivery receipt is too old')

  const { messageId, status, 'err-code': code, 'client-ref': reference } = fields
  if (!messageId || !status) throw notEvents('the delivery receipt has no "messageId" or no "status"')
  const kind = Object.hasOwn(KINDS, status) ? KINDS[status] : undefined
  if (kind === undefined) return []
  return [
    {
      id: messageId,
      ...ownMessage(reference),
      kind,
      detail: code === undefined ? status : `${status}, error code ${code}`,
    },
  ]
}

/** Returns the signed text: fields sorted by name, each prefixed with `&`; in values `&` and `=` become `_`. */
function signedText(fields: Readonly<Record<string, string>>): string {
  const names = Object.keys(fields).toSorted()
  return names.map((name) => `&${name}=${fields[name]!.replaceAll(/[&=]/g, '_')}`).join('')
}

function fieldsOf({ headers, body }: PostedEvents): Record<string, string> {
  const text = body.toString()
  if (!/\bjson\b/i.test(headers['content-type'] ?? '')) return Object.fromEntries(new URLSearchParams(text))
  const entries = Object.entries(objectOf(text))
  for (const [name, value] of entries)
    if (typeof value !== 'string' && typeof value !== 'number')
      throw notEvents(`"${name}" is neither a string nor a number`)
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]))
}

function objectOf(text: string): object {
  const value = tryParseJson(text)
  if (typeof value === 'object' && value !== null) return value
  throw notEvents('the delivery receipt is not a JSON object')
}
