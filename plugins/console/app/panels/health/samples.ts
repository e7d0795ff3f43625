import type { Metric } from '../../metrics-text.js'

export const CLASSES = ['2xx', '3xx', '4xx', '5xx'] as const
type StatusClass = (typeof CLASSES)[number]

/** What one answer of `/metrics` says. Numbers that the server does not have are undefined. */
export interface Sample {
  /** Milliseconds since 1970. */
  readonly at: number
  /** Tells processes apart: when it started. */
  readonly process: number
  /** Requests so far. */
  readonly requests: Readonly<Record<StatusClass, number>>
  /** Number of requests that took at most this many seconds, by ascending bound. */
  readonly buckets: readonly (readonly [bound: number, count: number])[]
  readonly cpuSeconds: number | undefined
  readonly connections: Readonly<Record<string, number>>
  readonly isDatabaseDown: boolean
  readonly compiling: Readonly<Record<string, number>>
  readonly isListening: boolean | undefined
  readonly metadataVersion: number | undefined
  readonly lagMean: number | undefined
  readonly lagP99: number | undefined
  readonly memory: number | undefined
  readonly heap: number | undefined
  /** Messages by state; undefined without the plugin notify. */
  readonly outbox: Readonly<Record<string, number>> | undefined
  /** Seconds. */
  readonly oldestMessage: number | undefined
  readonly damagedFiles: number | undefined
}

/** Requests of monitors, this console among them, would hide how little else there is. */
const MONITORED = new Set(['/metrics', '/readyz', '/healthz'])
const DURATION = 'rowhouse_http_request_duration_seconds'

/** @param at milliseconds since 1970 */
export function sampleOf(metrics: readonly Metric[], at: number): Sample {
  const all = (wanted: string) => metrics.filter(({ name }) => name === wanted)
  const one = (name: string) => all(name)[0]?.value
  const requests = (part: string) =>
    all(`${DURATION}_${part}`).filter(({ labels }) => !MONITORED.has(labels['route'] ?? ''))
  const byClass = sums(requests('count'), ({ labels }) => `${labels['status']?.[0]}xx`)
  const buckets = sums(requests('bucket'), ({ labels }) => (labels['le'] === '+Inf' ? 'Infinity' : labels['le']))
  const outbox = all('rowhouse_notify_outbox_messages')
  return {
    at,
    process: one('process_start_time_seconds') ?? 0,
    requests: Object.fromEntries(CLASSES.map((each) => [each, byClass[each] ?? 0])) as Record<StatusClass, number>,
    buckets: Object.entries(buckets)
      .map(([bound, count]) => [Number(bound), count] as const)
      .sort(([a], [b]) => a - b),
    cpuSeconds: one('process_cpu_seconds_total'),
    connections: sums(
      all('rowhouse_database_connections').filter(({ labels }) => labels['pool'] === 'main'),
      ({ labels }) => labels['state'],
    ),
    isDatabaseDown: one('rowhouse_database_breaker_open') === 1,
    compiling: sums(all('rowhouse_compile_tasks'), ({ labels }) => labels['state']),
    isListening: numberToBoolean(one('rowhouse_metadata_listening')),
    metadataVersion: one('rowhouse_metadata_version'),
    lagMean: one('nodejs_eventloop_lag_mean_seconds'),
    lagP99: one('nodejs_eventloop_lag_p99_seconds'),
    memory: one('process_resident_memory_bytes'),
    heap: one('nodejs_heap_size_used_bytes'),
    outbox: outbox.length === 0 ? undefined : sums(outbox, ({ labels }) => labels['state']),
    oldestMessage: greatest(all('rowhouse_notify_outbox_oldest_seconds')),
    damagedFiles: one('rowhouse_filestore_damaged'),
  }
}

const numberToBoolean = (value: number | undefined): boolean | undefined =>
  value === undefined ? undefined : value === 1

const greatest = (metrics: readonly Metric[]): number | undefined =>
  metrics.length === 0 ? undefined : Math.max(...metrics.map(({ value }) => value))

function sums(metrics: readonly Metric[], keyOf: (metric: Metric) => string | undefined): Record<string, number> {
  const found: Record<string, number> = {}
  for (const metric of metrics) {
    const key = keyOf(metric) ?? ''
    found[key] = (found[key] ?? 0) + metric.value
  }
  return found
}

/** What happened in the seconds before a sample. */
export interface Rates {
  /** Requests per second. */
  readonly requests: Readonly<Record<StatusClass, number>>
  /** Seconds; undefined without requests. */
  readonly p50: number | undefined
  readonly p99: number | undefined
  /** Processors in use: 1 is one of them the whole time. */
  readonly cpu: number | undefined
}

/**
 * Returns the rates between two samples of one process; undefined for those of two processes.
 * @param from the earlier sample
 */
export function ratesBetween(from: Sample, to: Sample): Rates | undefined {
  const seconds = (to.at - from.at) / 1000
  if (from.process !== to.process || seconds <= 0) return undefined
  const before = new Map(from.buckets)
  const buckets = to.buckets.map(([bound, count]) => [bound, count - (before.get(bound) ?? 0)] as const)
  const perSecond = (name: StatusClass) => Math.max(0, to.requests[name] - from.requests[name]) / seconds
  return {
    requests: Object.fromEntries(CLASSES.map((name) => [name, perSecond(name)])) as Record<StatusClass, number>,
    p50: quantile(0.5, buckets),
    p99: quantile(0.99, buckets),
    cpu:
      from.cpuSeconds === undefined || to.cpuSeconds === undefined
        ? undefined
        : (to.cpuSeconds - from.cpuSeconds) / seconds,
  }
}

/**
 * Estimates a quantile from the buckets of a histogram as Prometheus does: evenly within a bucket.
 * @param buckets cumulative counts by ascending upper bound, the last of which is Infinity
 */
export function quantile(q: number, buckets: Sample['buckets']): number | undefined {
  const total = buckets.at(-1)?.[1] ?? 0
  if (total <= 0) return undefined
  const rank = q * total
  const index = buckets.findIndex(([, count]) => count >= rank)
  const [bound, count] = buckets[index]!
  const [lower, below] = buckets[index - 1] ?? [0, 0]
  return Number.isFinite(bound) ? lower + ((bound - lower) * (rank - below)) / (count - below || 1) : lower
}
