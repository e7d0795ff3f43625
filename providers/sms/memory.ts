import { defineProvider, type Sms, type SmsSender } from 'rowhouse'

/** What was sent is kept, for tests to look at. */
export interface MemorySms extends SmsSender {
  readonly sent: readonly Sms[]
}

/** Sends nothing; keeps the last messages. */
export default defineProvider({
  kind: 'sms',
  name: 'memory',
  config: {
    type: 'object',
    properties: { keep: { type: 'integer', default: 1000, minimum: 1, description: 'how many of the last messages' } },
  },
  create({ keep }): MemorySms {
    const sent: Sms[] = []
    let count = 0
    return {
      sent,
      async send(sms, signal) {
        signal.throwIfAborted()
        if (sent.push(sms) > keep) sent.shift()
        return { id: `memory-${++count}`, detail: `kept in memory for +${sms.countryCode} ${sms.to}` }
      },
    }
  },
})
