import { type ServiceError, serviceError } from 'rowhouse'

/** Maximum time to wait for the previous request, which may be storing the file. */
const WAIT_MS = 30_000

interface Holder {
  readonly abort: AbortController
  readonly done: Promise<unknown>
}

/**
 * Runs one request at a time for each upload. A new request means that the connection of the previous one is broken, so it
 * aborts the previous one and waits for its end.
 */
export class UploadLocks {
  private readonly holders = new Map<string, Holder>()

  /**
   * @param run gets a signal that aborts when another request wants the lock
   * @throws ServiceError 423 when the previous request does not end in time, or another request takes over
   */
  hold<T>(id: string, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const previous = this.holders.get(id)
    previous?.abort.abort(locked('another request has taken over this upload'))
    const abort = new AbortController()
    const { signal } = abort
    const result = endOf(previous, signal).then(() => {
      signal.throwIfAborted()
      return run(signal)
    })
    const done = Promise.allSettled([previous?.done, result]).then(() => {
      if (this.holders.get(id) === holder) this.holders.delete(id)
    })
    const holder: Holder = { abort, done }
    this.holders.set(id, holder)
    return result
  }

  isHeld(id: string): boolean {
    return this.holders.has(id)
  }

  /** Aborts all requests and waits for their end. */
  async abortAll(reason: ServiceError): Promise<void> {
    const holders = [...this.holders.values()]
    for (const { abort } of holders) abort.abort(reason)
    await Promise.all(holders.map(({ done }) => done))
  }
}

async function endOf(holder: Holder | undefined, signal: AbortSignal): Promise<void> {
  if (!holder) return
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(locked('the file is being stored')), WAIT_MS)
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
    void holder.done.then(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}

const locked = (message: string) => serviceError('locked', message, '$', { retryAfter: 1 })
