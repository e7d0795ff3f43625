import { defineProvider } from 'rowhouse'
import { createApi, timeoutMs, unreadable } from '../api.js'
import { baseOf } from './address.js'
import { digits } from './number.js'
import { isRefused } from './twilio/errors.js'
import { readCallback } from './twilio/callback.js'

/** Sends through the Programmable Messaging API of Twilio. */
export default defineProvider({
  kind: 'sms',
  name: 'twilio',
  config: {
    type: 'object',
    required: ['accountSid', 'authToken'],
    properties: {
      accountSid: { type: 'string', pattern: '^AC[0-9a-fA-F]{32}$', description: 'Account SID, "AC...".' },
      authToken: { type: 'string', minLength: 1, secret: true, description: 'Auth token of the account.' },
      from: {
        type: 'string',
        minLength: 1,
        description:
          'Sender: a phone number of the account such as "+15550100", a short code, or an alphanumeric name.',
      },
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
      url: {
        type: 'string',
        pattern: '^https?://',
        default: 'https://api.twilio.com',
        description: 'Base URL of the API.',
      },
      timeoutMs,
    },
    additionalProperties: false,
  },
  create({ accountSid, authToken, from, messagingServiceSid, statusCallbackUrl, url, timeoutMs }) {
    if ((from === undefined) === (messagingServiceSid === undefined)) {
      throw new Error('set exactly one of "from" and "messagingServiceSid"')
    }
    const basic = Buffer.from(`${accountSid}:${authToken}`).toString('base64')
    const api = createApi({ timeoutMs, hidden: [authToken, basic] }, (_status, text) => isRefused(text))
    const request = {
      url: `${baseOf(url)}/2010-04-01/Accounts/${accountSid}/Messages.json`,
      headers: { authorization: `Basic ${basic}`, 'content-type': 'application/x-www-form-urlencoded' },
    }
    const sender = {
      ...(from === undefined ? {} : { From: from }),
      ...(messagingServiceSid === undefined ? {} : { MessagingServiceSid: messagingServiceSid }),
      ...(statusCallbackUrl === undefined ? {} : { StatusCallback: statusCallbackUrl }),
    }
    return {
      async send(sms, signal) {
        const form = new URLSearchParams({ To: `+${digits(sms)}`, ...sender, Body: sms.message })
        const { json, text } = await api.send({ ...request, body: form.toString() }, signal)
        const { sid, status, num_segments: segments } = (json ?? {}) as Readonly<Record<string, unknown>>
        if (typeof sid !== 'string' || sid === '') throw unreadable(text)
        const size = typeof segments === 'string' && segments !== '0' ? `, segments: ${segments.slice(0, 10)}` : ''
        return { id: sid, detail: `${typeof status === 'string' ? status.slice(0, 40) : 'accepted'}${size}` }
      },
      ...(statusCallbackUrl === undefined
        ? {}
        : { events: (posted) => readCallback(posted, statusCallbackUrl, authToken) }),
      close: () => api.close(),
    }
  },
})
