import { defineProvider } from 'rowhouse'
import { throwIfGivenUp } from '../deadline.js'

/** Logs emails instead of sending them. */
export default defineProvider({
  kind: 'email',
  name: 'log',
  create: (_, { log }) => ({
    async send({ id, to, from, subject, text, html }, signal) {
      throwIfGivenUp(signal)
      log.info({ id, to: to.address, from: from.address, subject, text: text ?? html }, 'mail')
      return { id: `log-${id}`, detail: 'written to the log' }
    },
  }),
})
