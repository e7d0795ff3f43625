import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from 'rowhouse'

/** How long a request waits for the one before, which may be storing the file. */
const WAIT_MS = 30_000

interface Turn {
  readonly end: AbortController
  readonly done: Promise<void>
}

/**
 * One request at a time for each upload. Who comes later is the same client, whose connection broke without a word: the
 * request before is asked to end, and waited for.
 */
export class Turns {
  private readonly last = new Map<string, Turn>()

  /**
   * @param run gets a signal that aborts when somebody waits
   * @throws ServiceError 423 when the one before does not end in time, or a later one has come
   */
  take<T>(id: string, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const before = this.last.get(id)
    before?.end.abort(locked('another request goes on with this upload'))
    const end = new AbortController()
    const result = waitFor(before?.done, end.signal).then(() => run(end.signal))
    const done = Promise.allSettled([before?.done, result]).then(() => {
      if (this.last.get(id) === turn) this.last.delete(id)
    })
    const turn: Turn = { end, done }
    this.last.set(id, turn)
    return result
  }

  isBusy(id: string): boolean {
    return this.last.has(id)
  }

  /** Asks all to end, and waits until they have. */
  async end(reason: ServiceError): Promise<void> {
    const turns = [...this.last.values()]
    for (const { end } of turns) end.abort(reason)
    await Promise.all(turns.map(({ done }) => done))
  }
}

async function waitFor(before: Promise<void> | undefined, signal: AbortSignal): Promise<void> {
  const enough = new AbortController()
  const limit = AbortSignal.any([signal, enough.signal])
  try {
    const late = before && (await Promise.race([before, sleep(WAIT_MS, 'late', { signal: limit })]))
    if (late === 'late') throw locked('the upload is being stored')
  } catch (error) {
    throw signal.aborted ? signal.reason : error
  } finally {
    enough.abort()
  }
  signal.throwIfAborted()
}

const locked = (message: string) => new ServiceError(423, 'locked', message, '$', { retryAfter: 1 })
