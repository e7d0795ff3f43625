import { defineProvider, type Sms } from 'rowhouse'
import { config, memorySender } from '../memory-sender.js'

export type MemorySms = ReturnType<typeof memorySender<Sms>>

/** Keeps the last messages in memory instead of sending them. */
export default defineProvider({
  kind: 'sms',
  name: 'memory',
  config,
  create: ({ keep }) => memorySender(keep, ({ countryCode, to }: Sms) => `+${countryCode} ${to}`),
})
