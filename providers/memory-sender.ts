import { throwIfAborted } from './api.js'

export const config = {
  type: 'object',
  properties: {
    keep: { type: 'integer', default: 1000, minimum: 1, description: 'Number of recent messages to keep.' },
  },
} as const

const A_DAY = 86_400

/** Creates a sender that keeps the last messages in memory, for inspection in tests, instead of sending them. */
export function memorySender<Message extends { readonly id: string }>(
  keep: number,
  recipientOf: (message: Message) => string,
) {
  const byId = new Map<string, Message>()
  return {
    get sent(): readonly Message[] {
      return [...byId.values()]
    },
    sendsOnceForSeconds: A_DAY,
    catches: true,
    async send(message: Message, signal: AbortSignal) {
      throwIfAborted(signal)
      byId.set(message.id, message)
      const [oldest] = byId.keys()
      if (byId.size > keep) byId.delete(oldest as string)
      return { id: `memory-${message.id}`, detail: `kept in memory for ${recipientOf(message)}` }
    },
  }
}
