import { createHmac } from 'node:crypto'
import type { DeliveryEvent, PostedEvents } from 'rowhouse'
import { isSame, notEvents, notSigned } from '../../events.js'

/** Kinds by final status. All other statuses precede one of these. */
const KINDS: Readonly<Record<string, DeliveryEvent['kind']>> = {
  delivered: 'delivered',
  undelivered: 'bounced',
  failed: 'bounced',
}

/**
 * Reads a status callback.
 * @param url the configured callback URL, which is part of the signed text
 * @throws ServiceError 401 for a wrong signature, 400 for an unreadable body
 */
export function readCallback({ headers, body }: PostedEvents, url: string, token: string): readonly DeliveryEvent[] {
  const fields = new URLSearchParams(body.toString())
  const signature = headers['x-twilio-signature']
  if (signature === undefined) throw notSigned('the status callback is not signed')
  const signed = createHmac('sha1', token).update(signedText(url, fields)).digest('base64')
  if (!isSame(signature, signed)) throw notSigned('the signature of the status callback is wrong')

  const id = fields.get('MessageSid')
  const status = fields.get('MessageStatus')
  if (!id || !status) throw notEvents('the status callback has no "MessageSid" or no "MessageStatus"')
  const kind = Object.hasOwn(KINDS, status) ? KINDS[status] : undefined
  if (kind === undefined) return []
  const code = fields.get('ErrorCode')
  return [{ id, kind, detail: code ? `${status}, error code ${code}` : status }]
}

/**
 * Returns the signed text: the URL, then each name and value without separators, sorted by name and without duplicates.
 */
function signedText(url: string, fields: URLSearchParams): string {
  const names = [...new Set(fields.keys())].toSorted()
  return (
    url +
    names
      .map((name) =>
        [...new Set(fields.getAll(name))]
          .toSorted()
          .map((v) => name + v)
          .join(''),
      )
      .join('')
  )
}
