import { defineProvider, type Sms, type SmsSender } from 'rowhouse'
import { throwIfGivenUp } from '../deadline.js'

/** A sender that keeps messages for inspection in tests. */
export interface MemorySms extends SmsSender {
  readonly sent: readonly Sms[]
}

const A_DAY = 86_400

/** Keeps the last messages in memory instead of sending them. */
export default defineProvider({
  kind: 'sms',
  name: 'memory',
  config: {
    type: 'object',
    properties: {
      keep: { type: 'integer', default: 1000, minimum: 1, description: 'Number of recent messages to keep.' },
    },
  },
  create({ keep }): MemorySms {
    const byId = new Map<string, Sms>()
    return {
      get sent() {
        return [...byId.values()]
      },
      sendsOnceForSeconds: A_DAY,
      catches: true,
      async send(sms, signal) {
        throwIfGivenUp(signal)
        byId.set(sms.id, sms)
        for (const oldest of byId.size > keep ? [...byId.keys()].slice(0, 1) : []) byId.delete(oldest)
        return { id: `memory-${sms.id}`, detail: `kept in memory for +${sms.countryCode} ${sms.to}` }
      },
    }
  },
})
