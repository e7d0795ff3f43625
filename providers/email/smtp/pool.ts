import { type Connection, type ConnectionOptions, open } from './connection.js'

/** A pool of reusable connections. */
export interface Pool {
  /**
   * Returns a free connection, or a new one, or the next that becomes free.
   * @throws like `open`, or the reason of `signal`
   */
  take(signal: AbortSignal): Promise<Connection>
  /** Returns a connection to the pool. It may be closed. */
  give(connection: Connection): void
  /** Closes the pool. Waits until all connections have been returned. */
  close(): Promise<void>
}

/** Maximum idle time. Servers should keep a connection for five minutes, but many do not. */
const IDLE_MS = 15_000
/** Maximum number of emails per connection, because servers limit it. */
const MOST_MAILS = 100

export function createPool(options: ConnectionOptions, most: number): Pool {
  /** Idle connections with their closing timers. */
  const idle = new Map<Connection, NodeJS.Timeout>()
  /** Resume functions of waiting senders, each called once. */
  const waiting = new Set<() => void>()
  const leaving = new Set<Promise<void>>()
  let used = 0
  let closed = false
  let ended = () => {}

  const leave = (connection: Connection): void => {
    clearTimeout(idle.get(connection))
    idle.delete(connection)
    const left = connection.quit().finally(() => leaving.delete(left))
    leaving.add(left)
  }
  const next = (): void => {
    used--
    const [first] = waiting
    if (first) first()
    else if (used === 0) ended()
  }
  const turn = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const go = (): void => {
        waiting.delete(go)
        signal.removeEventListener('abort', aborted)
        used++
        resolve()
      }
      const aborted = (): void => {
        waiting.delete(go)
        reject(signal.reason as Error)
      }
      if (used < most) return go()
      waiting.add(go)
      signal.addEventListener('abort', aborted, { once: true })
    })

  return {
    async take(signal) {
      signal.throwIfAborted()
      await turn(signal)
      try {
        if (closed) throw new Error('the provider is closed')
        // The most recently used connection is the least likely to have been closed by the server.
        const known = [...idle.keys()].at(-1)
        if (known === undefined) return await open(options, signal)
        clearTimeout(idle.get(known))
        idle.delete(known)
        return known
      } catch (error) {
        next()
        throw error
      }
    },
    give(connection) {
      if (closed || connection.taken >= MOST_MAILS) leave(connection)
      else if (connection.open) {
        idle.set(
          connection,
          setTimeout(() => leave(connection), IDLE_MS),
        )
      }
      next()
    },
    async close() {
      closed = true
      for (const connection of idle.keys()) leave(connection)
      if (used > 0) await new Promise<void>((resolve) => (ended = resolve))
      await Promise.all(leaving)
    },
  }
}
