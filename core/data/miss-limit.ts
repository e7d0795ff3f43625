import { serviceError } from '../errors.js'
import type { Metrics } from '../metrics.js'

export interface MissLimitConfig {
  /** 0: no limit. */
  readonly perSecond: number
  readonly burst: number
}

/**
 * Charges callers for what they make the server compile. A cached plan costs little and is never refused; but a client
 * can make up new shapes for ever, each of which takes a worker some milliseconds that all others wait for.
 */
export interface MissLimit {
  /**
   * @param caller `Session.caller`
   * @throws ServiceError 429 too-many-requests: this caller has asked for too many new shapes
   */
  charge(caller: string | undefined): void
}

const MAX_CALLERS = 10_000

/** One token bucket for each `Session.caller`: full at first, refilled all the time. */
export function createMissLimit({ perSecond, burst }: MissLimitConfig, metrics: Metrics): MissLimit {
  const refused = metrics.counter('compilations_refused_total', 'requests of a new form that were one too many')
  const buckets = new Map<string, { tokens: number; readonly at: number }>()

  function bucketOf(caller: string) {
    const now = performance.now()
    const { tokens, at } = buckets.get(caller) ?? { tokens: burst, at: now }
    const bucket = { tokens: Math.min(burst, tokens + ((now - at) / 1000) * perSecond), at: now }
    // Put last, so that the first is who has not come for the longest time.
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
      const message =
        'too many requests of a new form; those that differ in values alone are not limited (limits.misses)'
      throw serviceError('too-many-requests', message, '$', { retryAfter: (1 - bucket.tokens) / perSecond })
    },
  }
}
