import { defineProvider } from 'rowhouse'

/** Sends nothing; writes messages to the log, to be read there. */
export default defineProvider({
  kind: 'sms',
  name: 'log',
  create: (_, { log }) => ({
    async send({ id, countryCode, to, message }, signal) {
      signal.throwIfAborted()
      log.info({ id, to: `+${countryCode}${to}`, text: message }, 'SMS')
      return { id: `log-${id}`, detail: 'written to the log' }
    },
  }),
})
