import type { ServerResponse } from 'node:http'
import { ServiceError } from '../errors.js'
import { ReaderClock, type ReaderLimits } from '../reader-clock.js'
import type { Session } from '../session.js'
import { reset } from './reset.js'
import type { RequestState } from './state.js'

/**
 * What waits in memory for clients: answers that they have not read, whole ones and the last chunks of streams, and bodies
 * that have not come whole. What the system takes at once waits in no memory of ours.
 */
export interface Held {
  /** @throws ServiceError 429 too-many-requests: too much of the caller waits already */
  check(session: Session): void
  /**
   * Counts bytes of a body, or takes back with a negative number those that it has counted.
   * @returns false: too much of the caller waits
   */
  receive(session: Session, bytes: number): boolean
  /**
   * Counts an answer for its caller until it has been sent, and cuts off a client that reads it too slowly.
   * @param bytes of it that wait
   */
  follow(res: ServerResponse, state: RequestState, bytes: number): void
}

/** @param limits `maxAnswerBytes`: how much of one caller may wait before the caller gets no more */
export function createHeld(limits: ReaderLimits & { readonly maxAnswerBytes: number }): Held {
  const { maxAnswerBytes } = limits
  /** Bytes by caller. */
  const waiting = new Map<string, number>()

  function add(caller: string, bytes: number): number {
    const sum = (waiting.get(caller) ?? 0) + bytes
    if (sum === 0) waiting.delete(caller)
    else waiting.set(caller, sum)
    return sum
  }

  return {
    check({ caller }) {
      const bytes = caller === undefined ? undefined : waiting.get(caller)
      if (bytes !== undefined && bytes > maxAnswerBytes) throw tooMuch(bytes, maxAnswerBytes)
    },
    receive: ({ caller }, bytes) => caller === undefined || add(caller, bytes) <= maxAnswerBytes,
    follow(res, state, bytes) {
      if (res.writableFinished || res.req.socket.destroyed) return
      const { socket } = res.req
      const caller = state.session?.caller
      const clock = new ReaderClock(limits, () => {
        state.code = 'timeout'
        reset(socket)
      })
      // An answer that waits for those before it on the connection is not being read yet.
      if (res.socket) clock.start(bytes)
      else res.once('socket', () => clock.start(bytes))
      if (caller !== undefined) add(caller, bytes)
      res.once('close', () => {
        clock.close()
        if (caller !== undefined) add(caller, -bytes)
      })
    },
  }
}

const tooMuch = (bytes: number, most: number): ServiceError =>
  tooMuchHeld(
    `${bytes} bytes of this caller wait in memory, of unread answers and unfinished bodies, and at most ${Math.floor(most / 2 ** 20)} MiB may`,
  )
export const tooMuchHeld = (what: string): ServiceError =>
  new ServiceError(429, 'too-many-requests', `${what} (database.maxAnswerBytes)`, '$', { retryAfter: 1 })
