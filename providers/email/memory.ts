import { defineProvider, type Mail } from 'rowhouse'
import { config, memorySender } from '../memory-sender.js'

export type MemoryEmail = ReturnType<typeof memorySender<Mail>>

/** Keeps the last emails in memory instead of sending them. */
export default defineProvider({
  kind: 'email',
  name: 'memory',
  config,
  create: ({ keep }) => memorySender(keep, ({ to }: Mail) => to.address),
})
