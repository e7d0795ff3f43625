import { type Load, percentile } from './load.js'
import type { Target } from './target.js'
import { short } from './workload.js'

/** A workload with so many clients. Times in ms. */
export interface Step {
  readonly clients: number
  readonly seconds: number
  /** Answers that count. */
  readonly requests: number
  readonly requestsPerSecond: number
  readonly bytesPerSecond: number
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly max: number
  readonly failures: readonly { readonly what: string; readonly count: number; readonly says: string }[]
  /** CPU time of the load client, as a share of one processor. */
  readonly clientCpu: number
}
export interface Measured {
  readonly name: string
  /** Different ones, sent in turn. */
  readonly requests: number
  readonly firstAnswerBytes: number
  readonly steps: readonly Step[]
}

export function stepOf(clients: number, { latencies, failures, seconds, bytes, cpu }: Load): Step {
  const at = (share: number) => percentile(latencies, share)
  return {
    clients,
    seconds,
    requests: latencies.length,
    requestsPerSecond: latencies.length / seconds,
    bytesPerSecond: bytes / seconds,
    p50: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    max: at(1),
    failures: [...failures].map(([what, { count, says }]) => ({ what, count, says: short(says) })),
    clientCpu: cpu,
  }
}

export function asJson({ url, caller }: Target, workloads: readonly Measured[]): string {
  const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Math.round(value * 1000) / 1000 : value)
  return JSON.stringify({ url, caller, date: new Date().toISOString(), workloads }, rounded, 2)
}

const BAR = 24

/** A line for each number of clients, and what must be known of them. */
export function table({ name, requests, firstAnswerBytes, steps }: Measured): string {
  const about = `${name}: ${requests} different request${requests === 1 ? '' : 's'}; the first is answered with 200, ${firstAnswerBytes} bytes`
  const most = Math.max(...steps.map(({ requestsPerSecond }) => requestsPerSecond))
  const head = ['clients', 'requests/s', '', 'p50 ms', 'p90 ms', 'p99 ms', 'max ms', 'MB/s', 'failed']
  const rows = steps.map((step) => [
    String(step.clients),
    figure(step.requestsPerSecond),
    bar(step.requestsPerSecond / most).padEnd(BAR),
    ...[step.p50, step.p90, step.p99, step.max, step.bytesPerSecond / 1e6].map(figure),
    String(step.failures.reduce((sum, { count }) => sum + count, 0)),
  ])
  const widths = head.map((title, column) => Math.max(...[head, ...rows].map((row) => (row[column] ?? title).length)))
  const lines = [head, ...rows].map((row) => row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  '))
  return [about, '', ...lines, ...steps.flatMap(remarks), ''].join('\n')
}

/** Which setting is behind a refusal that the server means. */
const SETTINGS: ReadonlyMap<string, string> = new Map([
  ['429 too-many-requests', 'a limit for each caller: limits.misses, or database.streamPoolSize for streams'],
  ['429 too-many-failures', 'the limit is http.failedAuthPerMinute'],
  ['503 too-busy', 'the limit is http.maxConcurrentRequests'],
  ['503 unavailable', 'connections are database.poolSize, and are waited for as long as database.poolWaitMs'],
  ['503 compile-failed', 'new forms are compiled by compile.threads'],
  ['504 timeout', 'the limit is database.statementTimeoutMs'],
])

/** A client that is busier than this may be what is slow. */
const BUSY = 0.9

function remarks({ clients, failures, clientCpu }: Step): readonly string[] {
  const who = clients === 1 ? '1 client' : `${clients} clients`
  const failed = failures.map(({ what, count, says }) => {
    const setting = SETTINGS.get(what)
    return `${who}: ${count} x ${what}${setting === undefined ? '' : ` (${setting})`}${says === '' ? '' : `: ${says}`}`
  })
  const busy = `${who}: this client used ${Math.round(clientCpu * 100)} % of a processor, so the server may be faster than it could ask`
  return clientCpu >= BUSY ? [...failed, busy] : failed
}

const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']

function bar(share: number): string {
  const eighths = Math.round((Number.isFinite(share) ? share : 0) * BAR * 8)
  return '█'.repeat(Math.floor(eighths / 8)) + (EIGHTHS[eighths % 8] ?? '')
}

/** Three digits that say something. */
const figure = (value: number): string => (value >= 100 ? String(Math.round(value)) : value.toPrecision(3))
