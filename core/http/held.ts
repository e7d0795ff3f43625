import type { ServerResponse } from 'node:http'
import { type ServiceError, serviceError } from '../errors.js'
import { ReaderClock, type ReaderLimits } from '../reader-clock.js'
import type { Session } from '../session.js'
import { reset } from './reset.js'

/**
 * What waits in memory for clients: answers that they have not read, whole ones and the last chunks of streams, and bodies
 * that have not come whole. What the operating system buffers is not counted.
 */
export interface Held {
  /** @throws ServiceError 429 too-many-requests: too much of the caller waits already */
  check(session: Session): void
  /**
   * Counts bytes of a body, or takes back with a negative number those that it has counted.
   * @param size of the body so far
   * @throws ServiceError 429 too-many-requests: too much of the caller waits, beside this body
   */
  receive(session: Session, bytes: number, size: number): void
  /**
   * Counts an answer for its caller until it has been sent, and cuts off a client that reads it too slowly.
   * @param bytes of it that wait
   */
  follow(res: ServerResponse, state: { readonly session?: Session; code?: string }, bytes: number): void
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
    receive({ caller }, bytes, size) {
      const sum = caller === undefined ? 0 : add(caller, bytes)
      if (bytes > 0 && sum > size && sum > maxAnswerBytes) throw tooMuch(sum, maxAnswerBytes)
    },
    follow(res, state, bytes) {
      const isTaken = res.writableEnded && res.writableLength === 0
      if (isTaken || res.req.socket.destroyed) return
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

const tooMuch = (bytes: number, most: number): ServiceError => {
  const what = `${bytes} bytes of this caller wait in memory, of unread answers and unfinished bodies`
  const message = `${what}, and at most ${Math.floor(most / 2 ** 20)} MiB may (database.maxAnswerBytes)`
  return serviceError('too-many-requests', message, '$', { retryAfter: 1 })
}
