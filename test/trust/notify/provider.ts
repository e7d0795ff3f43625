import { defineProvider } from 'rowhouse'
import { createApi, timeoutMs, unreadable } from '../../../providers/api.js'

/** Hands mails to the fake provider. */
export default defineProvider({
  kind: 'email',
  name: 'fake',
  config: {
    type: 'object',
    properties: {
      url: { type: 'string' },
      account: { type: 'string' },
      once: {
        type: 'boolean',
        default: false,
        description: 'whether a message is named, so that it has its effect once',
      },
      timeoutMs,
    },
    required: ['url', 'account'],
  },
  create(config) {
    const api = createApi({ timeoutMs: config.timeoutMs, secrets: [] })
    return {
      ...(config.once ? { sendsOnceForSeconds: 86_400 } : {}),
      async send({ id, subject, to }, signal) {
        const headers = {
          'content-type': 'application/json',
          'x-account': config.account,
          'x-server': process.env['SERVER_NAME'] ?? '',
          ...(config.once ? { 'idempotency-key': id } : {}),
        }
        const body = JSON.stringify({ id, sub: subject, to: to.address })
        const { json, text } = await api.send({ url: `${config.url}/send`, headers, body }, signal)
        const { ref } = (json ?? {}) as { readonly ref?: unknown }
        if (typeof ref !== 'string') throw unreadable(text)
        return { id: ref, detail: 'taken' }
      },
      close: () => api.close(),
    }
  },
})
