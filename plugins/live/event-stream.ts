import { Readable } from 'node:stream'

/** Bytes that may wait for a client before it counts as behind. */
const BEHIND = 64 * 1024

/**
 * The body of a stream of server-sent events. Of a name, only the newest event waits for a client that is behind: an answer replaces the one
 * before it.
 * @see https://html.spec.whatwg.org/multipage/server-sent-events.html
 */
export class EventStream extends Readable {
  /** Events that wait, by name. */
  private waiting: Map<string, Buffer> | undefined
  private isBehind = false
  private readonly wait: (() => void)[] = []
  /** Since when it has been behind, in milliseconds of `performance.now()`. */
  behindSince = Infinity

  constructor() {
    super({ highWaterMark: BEHIND })
  }

  /** Sends an event, or keeps it until the client has read what came before it. */
  send(name: string, event: Buffer): void {
    if (this.readableEnded || this.destroyed) return
    if (this.isBehind) (this.waiting ??= new Map()).set(name, event)
    else this.pushed(event)
  }

  /** Waits until the client is not behind. */
  async isTaken(): Promise<void> {
    if (this.isBehind) await new Promise<void>((resolve) => void this.wait.push(resolve))
  }

  /** Sends a comment, which keeps proxies from closing the connection. */
  beat(): void {
    if (!this.isBehind && !this.destroyed) this.pushed(BEAT)
  }

  /** Sends what waits and a last event, if there is one, and ends. */
  end(event?: Buffer): void {
    if (this.destroyed) return
    for (const each of this.waiting?.values() ?? []) this.push(each)
    this.waiting = undefined
    if (event) this.push(event)
    this.push(null)
  }

  override _read(): void {
    this.isBehind = false
    this.behindSince = Infinity
    for (const resolve of this.wait.splice(0)) resolve()
    const { waiting } = this
    if (!waiting) return
    this.waiting = undefined
    for (const [name, event] of waiting) this.send(name, event)
  }

  private pushed(event: Buffer): void {
    if (this.push(event)) return
    this.isBehind = true
    this.behindSince = performance.now()
  }
}

const BEAT = Buffer.from(':\n\n')

/**
 * Formats an event. JSON may have line breaks between its tokens.
 * @param name absent: `message`
 */
export function eventOf(name: string, id: string | undefined, data: string): Buffer {
  const lines = data.includes('\n') || data.includes('\r') ? data.replaceAll(/\r\n|\r|\n/g, '\ndata: ') : data
  return Buffer.from(
    `${name === '' ? '' : `event: ${name}\n`}${id === undefined ? '' : `id: ${id}\n`}data: ${lines}\n\n`,
  )
}
