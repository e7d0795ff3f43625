import { ServiceError } from '../errors.js'

/** Keeps one caller from taking every connection for streams: each may have so many open at once. */
export class StreamShares {
  private readonly most: number
  private readonly open = new Map<string, number>()

  constructor(most: number) {
    this.most = most
  }

  /**
   * Counts a stream that is about to be sent.
   * @param caller `Session.caller`; undefined is not counted
   * @param signal aborts when the client is gone, perhaps before anything of the stream was asked for
   * @returns says that the stream has ended; may be called again
   * @throws ServiceError 429 too-many-requests
   */
  take(caller: string | undefined, signal: AbortSignal): () => void {
    if (caller === undefined) return () => {}
    const now = this.open.get(caller) ?? 0
    if (now >= this.most) {
      const message = `${now} streams of this caller are open, which is its share (database.streamPoolSize)`
      throw new ServiceError(429, 'too-many-requests', message, '$', { retryAfter: 1 })
    }
    this.open.set(caller, now + 1)
    let taken = true
    const give = () => {
      if (taken) this.give(caller)
      taken = false
    }
    signal.addEventListener('abort', give, { once: true })
    return give
  }

  private give(caller: string): void {
    const left = (this.open.get(caller) ?? 1) - 1
    if (left > 0) this.open.set(caller, left)
    else this.open.delete(caller)
  }
}
