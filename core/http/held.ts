import type { ServerResponse } from 'node:http'
import { type ServiceError, serviceError } from '../errors.js'
import { ReaderClock, type ReaderLimits } from '../reader-clock.js'
import type { Session } from '../session.js'
import { reset } from './reset.js'

/**
 * Tracks memory held for clients: unread responses, the last chunks of streams, and incomplete request bodies. Excludes
 * what the operating system buffers.
 */
export interface Held {
  /** @throws ServiceError 429 too-many-requests: the caller holds too much memory already */
  check(session: Session): void
  /**
   * Counts bytes of a body; a negative number releases them.
   * @param size bytes received so far
   * @throws ServiceError 429 too-many-requests: the caller holds too much memory besides this body
   */
  receive(session: Session, bytes: number, size: number): void
  /**
   * Counts a response for its caller until it has been sent, and cuts off a client that reads it too slowly.
   * @param bytes unsent size
   */
  follow(res: ServerResponse, state: { readonly session?: Session; code?: string }, bytes: number): void
}

/** @param limits `maxAnswerBytes` is the maximum number of bytes held per caller */
export function createHeld(limits: ReaderLimits & { readonly maxAnswerBytes: number }): Held {
  const { maxAnswerBytes } = limits
  /** Bytes held by caller. */
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
      // A response that waits behind others on the connection is not being read yet.
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
  const what = `unread responses and unfinished bodies of this caller hold ${bytes} bytes of memory`
  const message = `${what}, and at most ${Math.floor(most / 2 ** 20)} MiB are allowed (database.maxAnswerBytes)`
  return serviceError('too-many-requests', message, '$', { retryAfter: 1 })
}
