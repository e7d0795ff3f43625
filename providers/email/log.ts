import { defineProvider } from 'rowhouse'
import { throwIfGivenUp } from '../given-up.js'

/** Sends nothing; writes what is in a mail to the log, to be read there. */
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
