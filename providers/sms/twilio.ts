import { createHmac } from 'node:crypto'
import { defineProvider, type DeliveryEvent, type PostedEvents, setting } from 'rowhouse'
import { tryParseJson, valueAt } from '../answer.js'
import { apiUrl, baseOf, createApi, secret, timeoutMs, unreadable } from '../api.js'
import { constantTimeEqual, notEvents, notSigned, ownMessage } from '../events.js'

/** Sends through the Programmable Messaging API of Twilio. */
export default defineProvider({
  kind: 'sms',
  name: 'twilio',
  config: {
    type: 'object',
    required: ['accountSid', 'authToken'],
    properties: {
      accountSid: { type: 'string', pattern: '^AC[0-9a-fA-F]{32}$', description: 'Account SID, "AC...".' },
      authToken: secret('Auth token of the account.'),
      from: setting.text(
        'Sender: a phone number of the account such as "+15550100", a short code, or an alphanumeric name.',
      ),
      messagingServiceSid: {
        type: 'string',
        pattern: '^MG[0-9a-fA-F]{32}$',
        description: 'SID of the messaging service that selects the sender, "MG...". Replaces "from".',
      },
      statusCallbackUrl: {
        type: 'string',
        pattern: '^https?://',
        description: 'Public URL of this server to which Twilio posts status callbacks. Without it, Twilio sends none.',
      },
      url: apiUrl('https://api.twilio.com'),
      timeoutMs,
    },
  },
  create({ accountSid, authToken, from, messagingServiceSid, statusCallbackUrl, url, timeoutMs }) {
    if ((from === undefined) === (messagingServiceSid === undefined)) {
      throw new Error('set exactly one of "from" and "messagingServiceSid"')
    }
    const basic = Buffer.from(`${accountSid}:${authToken}`).toString('base64')
    const api = createApi({ timeoutMs, secrets: [authToken, basic] }, (_status, text) => isRefused(text))
    const request = {
      url: `${baseOf(url)}/2010-04-01/Accounts/${accountSid}/Messages.json`,
      headers: { authorization: `Basic ${basic}`, 'content-type': 'application/x-www-form-urlencoded' },
    }
    const sender = {
      ...(from === undefined ? {} : { From: from }),
      ...(messagingServiceSid === undefined ? {} : { MessagingServiceSid: messagingServiceSid }),
    }
    return {
      async send(sms, signal) {
        const form = new URLSearchParams({ To: `+${sms.countryCode}${sms.to}`, ...sender, Body: sms.message })
        if (statusCallbackUrl !== undefined) form.set('StatusCallback', callbackFor(sms.id, statusCallbackUrl))
        const { json, text } = await api.send({ ...request, body: form.toString() }, signal)
        const { sid, status, num_segments: segments } = (json ?? {}) as Readonly<Record<string, unknown>>
        if (typeof sid !== 'string' || sid === '') throw unreadable(text)
        const size = typeof segments === 'string' && segments !== '0' ? `, segments: ${segments.slice(0, 10)}` : ''
        return { id: sid, detail: `${typeof status === 'string' ? status.slice(0, 40) : 'accepted'}${size}` }
      },
      events: statusCallbackUrl ? (posted) => readCallback(posted, statusCallbackUrl, authToken) : undefined,
      close: () => api.close(),
    }
  },
})

/**
 * Error codes that concern this message. Others concern credentials, rate, account or sender.
 * @see the pages of Twilio's error dictionary
 */
const REFUSED = new Set([
  21211, // "To" is not a valid number
  21214, // "To" cannot be reached
  21217, // not a number
  21421, // not a number
  21602, // no body
  21604, // no "To"
  21610, // the recipient has unsubscribed
  21614, // "To" is not a mobile number
  21619, // no body
  21635, // "To" is a landline
])

/** Error codes for a body that is too long. */
const TOO_LONG = new Set([21605, 21617])

/** Returns whether an error response rejects the message permanently. */
function isRefused(text: string): boolean | 'limit' {
  const code = Number(valueAt(tryParseJson(text), 'code'))
  return TOO_LONG.has(code) ? 'limit' : REFUSED.has(code)
}

/** Kinds by final status. All other statuses precede one of these. */
const KINDS: Readonly<Record<string, DeliveryEvent['kind']>> = {
  delivered: 'delivered',
  undelivered: 'bounced',
  failed: 'bounced',
}

/** Returns the callback URL with our id of the message. A fragment, which configures retries, stays at the end. */
function callbackFor(id: string, url: string): string {
  const [base = '', ...fragment] = url.split(/(?=#)/)
  return [`${base}${base.includes('?') ? '&' : '?'}rowhouse_id=${encodeURIComponent(id)}`, ...fragment].join('')
}

/**
 * Reads a status callback.
 * @param configured the configured callback URL. That of the message is part of the signed text
 * @throws ServiceError 401 for a wrong signature, 400 for an unreadable body
 */
function readCallback(posted: PostedEvents, configured: string, token: string): readonly DeliveryEvent[] {
  const { headers, query, body } = posted
  const { rowhouse_id: ours } = query
  const [url = ''] = (ours === undefined ? configured : callbackFor(ours, configured)).split('#')
  const fields = new URLSearchParams(body.toString())
  const signature = headers['x-twilio-signature']
  if (signature === undefined) throw notSigned('the status callback is not signed')
  const signed = createHmac('sha1', token).update(signedText(url, fields)).digest('base64')
  if (!constantTimeEqual(signature, signed)) throw notSigned('the signature of the status callback is wrong')

  const id = fields.get('MessageSid')
  const status = fields.get('MessageStatus')
  if (!id || !status) throw notEvents('the status callback has no "MessageSid" or no "MessageStatus"')
  const kind = Object.hasOwn(KINDS, status) ? KINDS[status] : undefined
  if (kind === undefined) return []
  const code = fields.get('ErrorCode')
  return [{ id, ...ownMessage(ours), kind, detail: code ? `${status}, error code ${code}` : status }]
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
