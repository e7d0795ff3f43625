import { defineProvider } from 'rowhouse'
import { throwIfAborted } from '../api.js'

/** Logs messages instead of sending them. */
export default defineProvider({
  kind: 'sms',
  name: 'log',
  create: (_, { log }) => ({
    catches: true,
    async send({ id, countryCode, to, message }, signal) {
      throwIfAborted(signal)
      log.info({ id, to: `+${countryCode}${to}`, text: message }, 'SMS')
      return { id: `log-${id}`, detail: 'written to the log' }
    },
  }),
})
