import { createHmac } from 'node:crypto'
import { defineProvider, SendError } from 'rowhouse'
import { baseOf, createApi, timeoutMs } from '../api.js'

/** Posts events to a URL, signed as Standard Webhooks says. A receiver wants no more of them if it answers 410. */
export default defineProvider({
  kind: 'event',
  name: 'webhook',
  config: {
    type: 'object',
    required: ['url'],
    properties: {
      url: { type: 'string', pattern: '^https?://', description: 'URL to post events to.' },
      headers: {
        type: 'object',
        additionalProperties: { type: 'string', secret: true },
        default: {},
        description: 'Headers to send with each event, e.g. an API key.',
      },
      secrets: {
        type: 'array',
        items: { type: 'string', pattern: '^whsec_[A-Za-z0-9+/]{32,}={0,2}$', secret: true },
        default: [],
        description:
          'Secrets to sign events with: `whsec_` and at least 24 bytes in base64. With several, receivers can change theirs one by one.',
      },
      timeoutMs,
    },
  },
  create({ url, headers, secrets, timeoutMs }) {
    baseOf(url)
    const encoded = secrets.map((secret) => secret.slice('whsec_'.length))
    const api = createApi(
      { timeoutMs, secrets: [...secrets, ...encoded, ...Object.values(headers)] },
      (status) => status === 410 || status === 413,
    )
    const keys = encoded.map((key) => Buffer.from(key, 'base64'))
    return {
      async send({ id, body }, signal) {
        const timestamp = String(Math.floor(Date.now() / 1000))
        const signatures = keys.map((key) => signatureOf(key, id, timestamp, body))
        const own = {
          'content-type': 'application/json',
          'webhook-id': id,
          'webhook-timestamp': timestamp,
          ...(signatures.length === 0 ? null : { 'webhook-signature': signatures.join(' ') }),
        }
        const sent = api
          .send({ url, headers: { ...headers, ...(own as Record<string, string>) }, body }, signal)
          .catch(throwGone)
        return { id, detail: (await sent).detail }
      },
      close: () => api.close(),
    }
  },
})

/** @see https://www.standardwebhooks.com */
const signatureOf = (key: Buffer, id: string, timestamp: string, body: string): string =>
  `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`

function throwGone(error: unknown): never {
  if (!(error instanceof SendError) || error.outcome !== 'refused' || error.limit) throw error
  const { response, cause } = error
  throw new SendError('refused', 'the receiver wants no more events', { response, cause, gone: true })
}
