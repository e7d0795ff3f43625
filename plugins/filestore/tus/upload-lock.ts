import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Call, Services, ServiceError } from 'rowhouse'
import { Periodic } from 'rowhouse/queue'
import type { Caller } from '../caller.js'
import { locked, takenOver, type Upload, type UploadRecords } from './records.js'

/** Maximum time to wait for the previous request, which may be storing the file. */
const WAIT_MS = 30_000
/** Interval at which a waiting request tries to get the lock. */
const POLL_MS = 100
/** Interval at which leases are renewed, and requests learn that others want their locks. Much less than `LEASE_SECONDS`. */
const RENEW_MS = 1000

/** The lock of an upload. */
export interface Lock {
  readonly upload: Upload
  /** Identifies the request. Statements that change the upload check that it still has the lock. */
  readonly holder: string
  /** Aborts when another request wants the lock. */
  readonly signal: AbortSignal
}

interface Holding {
  readonly id: string
  readonly abort: AbortController
  readonly done: Promise<unknown>
}

/**
 * Runs one request at a time for each upload, of all servers on the database. A new request means that the connection of the
 * previous one is broken, so it aborts the previous one and waits for its end. A lock is a lease in the record of the upload, which expires
 * soon after its server is gone.
 */
export class UploadLocks {
  /** The requests of this server that have a lock, by holder. */
  private readonly holdings = new Map<string, Holding>()
  private readonly closing = new AbortController()
  private readonly renewal

  constructor(
    private readonly records: UploadRecords,
    log: Services['log'],
  ) {
    this.renewal = new Periodic(
      RENEW_MS,
      () => this.renew(),
      (error) => log.warn({ err: error }, 'the locks of uploads could not be renewed; will retry'),
    ).start()
  }

  /**
   * @throws ServiceError as `UploadRecords.take`; 423 when the previous request does not end in time, or another request
   *   takes over
   */
  async hold<T>(id: string, caller: Caller, call: Call, run: (lock: Lock) => Promise<T>): Promise<T> {
    const holder = randomUUID()
    const upload = await this.take(id, caller, holder, AbortSignal.any([this.closing.signal, call.signal]))
    const abort = new AbortController()
    const result = run({ upload, holder, signal: abort.signal })
    const done = Promise.allSettled([result]).then(async () => {
      // Its lease expires if that fails.
      await this.records.release(id, holder).catch(() => {})
      this.holdings.delete(holder)
    })
    this.holdings.set(holder, { id, abort, done })
    if (this.closing.signal.aborted) abort.abort(this.closing.signal.reason)
    await done
    return result
  }

  /** Aborts all requests and waits for their end. */
  async stop(reason: ServiceError): Promise<void> {
    this.closing.abort(reason)
    const holdings = [...this.holdings.values()]
    for (const { abort } of holdings) abort.abort(reason)
    await Promise.all(holdings.map(({ done }) => done))
    await this.renewal.stop()
  }

  private async take(id: string, caller: Caller, holder: string, signal: AbortSignal): Promise<Upload> {
    const until = performance.now() + WAIT_MS
    for (let isFirst = true; ; isFirst = false) {
      signal.throwIfAborted()
      const { upload, state } = await this.records.take(id, caller, holder, isFirst)
      if (state === 'held') return upload
      if (state === 'overtaken') throw takenOver()
      if (performance.now() > until) throw locked('the file is being stored')
      // Requests of this server need not wait for the next renewal.
      for (const holding of this.holdings.values()) if (holding.id === id) holding.abort.abort(takenOver())
      await sleep(POLL_MS, undefined, { signal }).catch(() => {})
    }
  }

  private async renew(): Promise<void> {
    if (this.holdings.size === 0) return
    const ids = [...this.holdings.values()].map(({ id }) => id)
    for (const holder of await this.records.renew(ids, [...this.holdings.keys()])) {
      this.holdings.get(holder)?.abort.abort(takenOver())
    }
  }
}
