import { defineProvider, type EmailSender, type Mail, type TemplateMail } from 'rowhouse'

/** What was sent is kept, for tests to look at. */
export interface MemoryEmail extends EmailSender {
  readonly sent: readonly (Mail | TemplateMail)[]
}

/** Sends nothing; keeps the last mails. */
export default defineProvider({
  kind: 'email',
  name: 'memory',
  config: {
    type: 'object',
    properties: { keep: { type: 'integer', default: 1000, minimum: 1, description: 'how many of the last mails' } },
  },
  create({ keep }): MemoryEmail {
    const sent: (Mail | TemplateMail)[] = []
    let count = 0
    const send = async (mail: Mail | TemplateMail, signal: AbortSignal) => {
      signal.throwIfAborted()
      if (sent.push(mail) > keep) sent.shift()
      return { id: `memory-${++count}`, detail: `kept in memory for ${mail.to}` }
    }
    return { sent, send, sendTemplate: send }
  },
})
