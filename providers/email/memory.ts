import { defineProvider, type EmailSender, type Mail } from 'rowhouse'
import { throwIfGivenUp } from '../deadline.js'

/** A sender that keeps messages for inspection in tests. */
export interface MemoryEmail extends EmailSender {
  readonly sent: readonly Mail[]
}

const A_DAY = 86_400

/** Keeps the last emails in memory instead of sending them. */
export default defineProvider({
  kind: 'email',
  name: 'memory',
  config: {
    type: 'object',
    properties: {
      keep: { type: 'integer', default: 1000, minimum: 1, description: 'Number of recent messages to keep.' },
    },
  },
  create({ keep }): MemoryEmail {
    const byId = new Map<string, Mail>()
    return {
      get sent() {
        return [...byId.values()]
      },
      sendsOnceForSeconds: A_DAY,
      catches: true,
      async send(mail, signal) {
        throwIfGivenUp(signal)
        byId.set(mail.id, mail)
        for (const oldest of byId.size > keep ? [...byId.keys()].slice(0, 1) : []) byId.delete(oldest)
        return { id: `memory-${mail.id}`, detail: `kept in memory for ${mail.to.address}` }
      },
    }
  },
})
