import type { WebSocket } from 'ws'

/** Bytes that may wait for a client before it counts as behind. */
const BEHIND = 64 * 1024

/**
 * What is sent to a client. Of a subscription, only the newest answer waits for a client that is behind, and such a client is
 * not heard.
 */
export class Outbox {
  private readonly waiting = new Map<object, string>()

  constructor(
    private readonly socket: WebSocket,
    /** Called when the client has taken something. */
    private readonly onTaken: () => void,
  ) {}

  /** @param taken called when the client has taken it, or is gone */
  send(text: string, taken?: () => void): void {
    if (this.socket.readyState !== this.socket.OPEN) {
      taken?.()
      return
    }
    this.socket.send(text, () => {
      taken?.()
      this.next()
    })
    if (this.socket.bufferedAmount > BEHIND) this.socket.pause()
  }

  /** Sends an answer instead of an earlier one that still waits. */
  sendNewest(of: object, text: string): void {
    if (this.socket.bufferedAmount > BEHIND) this.waiting.set(of, text)
    else this.send(text)
  }

  /** Forgets the answer that waits. */
  forget(of: object): void {
    this.waiting.delete(of)
  }

  /** Sends the answer that waits, before another message about it. */
  flush(of: object): void {
    const text = this.waiting.get(of)
    this.waiting.delete(of)
    if (text !== undefined) this.send(text)
  }

  private next(): void {
    this.onTaken()
    for (const [of, text] of this.waiting) {
      if (this.socket.bufferedAmount > BEHIND) return
      this.waiting.delete(of)
      this.send(text)
    }
    if (this.socket.bufferedAmount <= BEHIND) this.socket.resume()
  }
}
