import { defineProvider } from 'rowhouse'
import { throwIfAborted } from '../api.js'

/** Logs emails instead of sending them. */
export default defineProvider({
  kind: 'email',
  name: 'log',
  create: (_, { log }) => ({
    catches: true,
    async send({ id, to, from, subject, text, html }, signal) {
      throwIfAborted(signal)
      log.info({ id, to: to.address, from: from.address, subject, text: text ?? html }, 'mail')
      return { id: `log-${id}`, detail: 'written to the log' }
    },
  }),
})
