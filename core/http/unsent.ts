import type { ServerResponse } from 'node:http'
import { ServiceError } from '../errors.js'
import { ReaderClock, type ReaderLimits } from '../reader-clock.js'
import type { Session } from '../session.js'
import { reset } from './reset.js'
import type { RequestState } from './state.js'

/**
 * Answers that wait in memory for clients to read them: whole ones, and the last chunks of streams. What the system takes
 * at once waits in no memory of ours.
 */
export interface Unsent {
  /** @throws ServiceError 429 too-many-requests: the caller has not read what it was answered before */
  check(session: Session): void
  /**
   * Counts an answer for its caller until it has been sent, and cuts off a client that reads it too slowly.
   * @param bytes of it that wait
   */
  follow(res: ServerResponse, state: RequestState, bytes: number): void
}

/** @param limits `maxAnswerBytes`: how much of one caller may wait before the caller gets no more */
export function createUnsent(limits: ReaderLimits & { readonly maxAnswerBytes: number }): Unsent {
  const { maxAnswerBytes } = limits
  /** Bytes by caller. */
  const waiting = new Map<string, number>()

  function add(caller: string, bytes: number): void {
    const sum = (waiting.get(caller) ?? 0) + bytes
    if (sum === 0) waiting.delete(caller)
    else waiting.set(caller, sum)
  }

  return {
    check({ caller }) {
      const bytes = caller === undefined ? undefined : waiting.get(caller)
      if (bytes !== undefined && bytes > maxAnswerBytes) throw tooMuch(bytes, maxAnswerBytes)
    },
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

const tooMuch = (bytes: number, most: number): ServiceError => {
  const limit = `${Math.floor(most / 1024 / 1024)} MiB may wait (database.maxAnswerBytes)`
  return new ServiceError(
    429,
    'too-many-requests',
    `this caller has not read ${bytes} bytes of earlier answers, and at most ${limit}: read them first`,
    '$',
    { retryAfter: 1 },
  )
}
