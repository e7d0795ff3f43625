import { serviceError } from '../errors.js'
import type { Metrics } from '../metrics.js'

export interface NewQueryLimitConfig {
  /** 0 disables the limit. */
  readonly perSecond: number
  readonly burst: number
}

/**
 * Limits how much each caller makes the server compile. Cached plans are never refused. Without the limit, a client
 * could send endless new shapes, each of which occupies a worker for some milliseconds.
 */
export interface NewQueryLimit {
  /**
   * Charges one compilation.
   * @param caller `Session.caller`
   * @throws ServiceError 429 too-many-requests: this caller has sent too many new shapes
   */
  charge(caller: string | undefined): void
}

const MAX_CALLERS = 10_000

/** Creates one token bucket per `Session.caller`. Buckets start full and refill continuously. */
export function createNewQueryLimit({ perSecond, burst }: NewQueryLimitConfig, metrics: Metrics): NewQueryLimit {
  const refused = metrics.counter(
    'compilations_refused_total',
    'Requests refused because their caller sent too many new query shapes.',
  )
  const buckets = new Map<string, { tokens: number; readonly at: number }>()

  function bucketOf(caller: string) {
    const now = performance.now()
    const { tokens, at } = buckets.get(caller) ?? { tokens: burst, at: now }
    const bucket = { tokens: Math.min(burst, tokens + ((now - at) / 1000) * perSecond), at: now }
    // Re-inserts the bucket, so that the least recently used one is first.
    buckets.delete(caller)
    if (buckets.size >= MAX_CALLERS) buckets.delete(buckets.keys().next().value!)
    buckets.set(caller, bucket)
    return bucket
  }

  return {
    charge(caller) {
      if (perSecond === 0 || caller === undefined) return
      const bucket = bucketOf(caller)
      if (bucket.tokens >= 1) {
        bucket.tokens--
        return
      }
      refused.inc()
      const message = 'too many new query shapes; changing only values is not limited (limits.newQueries)'
      throw serviceError('too-many-requests', message, '$', { retryAfter: (1 - bucket.tokens) / perSecond })
    },
  }
}
