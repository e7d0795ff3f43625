import { defineProvider } from 'rowhouse'

/** Sends nothing; writes what is in a mail to the log, to be read there. */
export default defineProvider({
  kind: 'email',
  name: 'log',
  create: (_, { log }) => ({
    async send({ id, to, from, subject, text, html }, signal) {
      signal.throwIfAborted()
      log.info({ id, to: to.address, from: from.address, subject, text: text ?? html }, 'mail')
      return { id: `log-${id}`, detail: 'written to the log' }
    },
  }),
})
