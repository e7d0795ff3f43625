import { ServiceError } from 'rowhouse'
import { storeFailure } from './errors.js'

/** Time for which a failure is reported although uploads succeed again, in milliseconds, as on a disk that is nearly full. */
const AT_LEAST_MS = 60_000
/** Time for which it is reported when there are no other uploads. */
const AT_MOST_MS = 600_000

/** What the uploads to this process say of the store. */
export class StoreHealth {
  private last: { readonly reason: string; readonly at: number } | undefined
  private hasWorked = false

  /** Runs a write to the store, and remembers whether the store refused it. */
  async watch<T>(write: () => Promise<T>): Promise<T> {
    try {
      const result = await write()
      this.hasWorked = true
      return result
    } catch (error) {
      this.failed(error)
      throw error
    }
  }

  /** Reports an error of an upload, which may be the fault of the store. */
  failed(error: unknown): void {
    const reason = reasonOf(storeFailure(error))
    if (reason === undefined) return
    this.last = { reason, at: performance.now() }
    this.hasWorked = false
  }

  /** Returns why an upload failed recently. Costs nothing, and does not change with each upload. */
  get problem(): string | undefined {
    if (!this.last) return undefined
    const { reason, at } = this.last
    const ms = performance.now() - at
    if (ms > (this.hasWorked ? AT_LEAST_MS : AT_MOST_MS)) return undefined
    return `an upload failed ${Math.round(ms / 1000)} s ago: ${reason}`
  }
}

/** Returns what the store says, if the failure is its own. */
function reasonOf(error: unknown): string | undefined {
  const isRefused = error instanceof ServiceError && error.code === 'storage_unavailable'
  const isBroken = !(error instanceof ServiceError) && error instanceof Error && 'errno' in error
  if (!isRefused && !isBroken) return undefined
  let cause: Error = error
  while (cause.cause instanceof Error) cause = cause.cause
  return cause.message
}
