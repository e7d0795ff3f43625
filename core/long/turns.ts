import { serviceError } from '../errors.js'

/** Lets one go on at a time: the oldest of the caller that had its turn longest ago. */
export class Turns {
  private readonly waiting = new Map<string | undefined, (() => void)[]>()
  private busy = false

  /**
   * Waits for the caller's turn.
   * @param signal aborts when the client no longer waits
   * @returns a function that ends the turn
   * @throws ServiceError client-gone
   */
  async take(caller: string | undefined, signal?: AbortSignal): Promise<() => void> {
    if (this.busy) await this.wait(caller, signal)
    this.busy = true
    return this.next
  }

  private wait(caller: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.reject(clientGone())
    return new Promise((resolve, reject) => {
      const start = (): void => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        const own = this.waiting.get(caller) ?? []
        own.splice(own.indexOf(start), 1)
        if (own.length === 0) this.waiting.delete(caller)
        reject(clientGone())
      }
      signal?.addEventListener('abort', leave, { once: true })
      const own = this.waiting.get(caller)
      if (own) own.push(start)
      else this.waiting.set(caller, [start])
    })
  }

  private readonly next = (): void => {
    const first = this.waiting.entries().next().value
    this.busy = first !== undefined
    if (!first) return
    const [caller, own] = first
    this.waiting.delete(caller)
    const start = own.shift() as () => void
    if (own.length > 0) this.waiting.set(caller, own)
    start()
  }
}

const clientGone = () => serviceError('client-gone', 'the client closed the connection')
