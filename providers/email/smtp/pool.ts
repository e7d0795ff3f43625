import { type Connection, type ConnectionOptions, open } from './connection.js'

/** A pool of reusable connections. */
interface Pool {
  /**
   * Returns a free connection, or a new one, or the next that becomes free.
   * @throws like `open`, or the reason of `signal`
   */
  acquire(signal: AbortSignal): Promise<Connection>
  /** Returns a connection to the pool. It may be closed. */
  release(connection: Connection): void
  /** Closes the pool. Waits until all connections have been returned. */
  close(): Promise<void>
}

/** Maximum idle time. Servers should keep a connection for five minutes, but many do not. */
const IDLE_MS = 15_000
/** Maximum number of emails per connection, because servers limit it. */
const MAX_MAILS = 100

export function createPool(options: ConnectionOptions, maxConnections: number): Pool {
  /** Idle connections with their closing timers. */
  const idle = new Map<Connection, NodeJS.Timeout>()
  /** Resume functions of waiting senders, each called once. */
  const waiting = new Set<() => void>()
  const quitting = new Set<Promise<void>>()
  let used = 0
  let closed = false
  let allReleased = () => {}

  const quit = (connection: Connection): void => {
    clearTimeout(idle.get(connection))
    idle.delete(connection)
    const ending = connection.quit().finally(() => quitting.delete(ending))
    quitting.add(ending)
  }
  const freeSlot = (): void => {
    used--
    const [first] = waiting
    if (first) first()
    else if (used === 0) allReleased()
  }
  const waitForSlot = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const proceed = (): void => {
        waiting.delete(proceed)
        signal.removeEventListener('abort', aborted)
        used++
        resolve()
      }
      const aborted = (): void => {
        waiting.delete(proceed)
        reject(signal.reason as Error)
      }
      if (used < maxConnections) return proceed()
      waiting.add(proceed)
      signal.addEventListener('abort', aborted, { once: true })
    })

  return {
    async acquire(signal) {
      signal.throwIfAborted()
      await waitForSlot(signal)
      try {
        if (closed) throw new Error('the provider is closed')
        // The most recently used connection is the least likely to have been closed by the server.
        const reusable = [...idle.keys()].at(-1)
        if (reusable === undefined) return await open(options, signal)
        clearTimeout(idle.get(reusable))
        idle.delete(reusable)
        return reusable
      } catch (error) {
        freeSlot()
        throw error
      }
    },
    release(connection) {
      if (closed || connection.sent >= MAX_MAILS) quit(connection)
      else if (connection.open) {
        idle.set(
          connection,
          setTimeout(() => quit(connection), IDLE_MS),
        )
      }
      freeSlot()
    },
    async close() {
      closed = true
      for (const connection of idle.keys()) quit(connection)
      if (used > 0) await new Promise<void>((resolve) => (allReleased = resolve))
      await Promise.all(quitting)
    },
  }
}
