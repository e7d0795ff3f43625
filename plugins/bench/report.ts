import { type Load, percentile } from './load.js'
import { short, type Target } from './target.js'

/** A workload measured with a number of clients. Times are milliseconds. */
interface Step {
  readonly clients: number
  /** Actual duration. */
  readonly seconds: number
  readonly interrupted?: true
  /** Without failures. */
  readonly requests: number
  readonly requestsPerSecond: number
  readonly bytesPerSecond: number
  /** Median size of the bodies, without failures. */
  readonly answerBytes: number
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly max: number
  readonly failures: readonly { readonly what: string; readonly count: number; readonly says: string }[]
  /** CPU time of this process, as a fraction of one processor. */
  readonly clientCpu: number
}
export interface Measured {
  readonly name: string
  /** Number of different requests. */
  readonly requests: number
  readonly firstAnswerBytes: number
  /** Whether the first response has no rows. */
  readonly firstAnswerEmpty: boolean
  readonly steps: Step[]
}

export function stepOf(clients: number, load: Load, interrupted: boolean): Step {
  const { latencies, answerBytes, failures, seconds, bytes, cpu } = load
  const at = (share: number) => percentile(latencies, share)
  return {
    clients,
    seconds,
    interrupted: interrupted || undefined,
    requests: latencies.length,
    requestsPerSecond: latencies.length / seconds,
    bytesPerSecond: bytes / seconds,
    answerBytes: percentile(answerBytes, 0.5),
    p50: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    max: at(1),
    failures: [...failures].map(([what, { count, says }]) => ({ what, count, says: short(says) })),
    clientCpu: cpu,
  }
}

/** A run, with its circumstances. */
interface Run {
  readonly target: Target
  /** Version of the server, if it returns one. */
  readonly version: string | undefined
  /** Number of processors of this machine. */
  readonly processors: number
  /** Without the values of headers. */
  readonly options: object
  readonly interrupted: boolean
  /** Workloads whose first request failed. */
  readonly skipped: readonly { readonly name: string; readonly why: string }[]
  readonly workloads: readonly Measured[]
}

export function asJson({ target: { url, caller }, version, interrupted, ...rest }: Run): string {
  const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Math.round(value * 1000) / 1000 : value)
  const about = { url, caller, server: { version: version ?? null }, date: new Date().toISOString() }
  return JSON.stringify({ ...about, interrupted: interrupted || undefined, ...rest }, rounded, 2)
}

const BAR = 24

/** Formats a line for each number of clients, and remarks. */
export function table({ name, requests, firstAnswerBytes, firstAnswerEmpty, steps }: Measured): string {
  if (steps.length === 0) return `${name}: interrupted before anything was measured`
  const isEmpty = firstAnswerEmpty && steps.every(({ answerBytes }) => answerBytes <= firstAnswerBytes)
  const most = Math.max(1e-9, ...steps.map(({ requestsPerSecond }) => requestsPerSecond))
  const rows = [
    ['clients', 'requests/s', '', 'p50 ms', 'p90 ms', 'p99 ms', 'max ms', 'bytes', 'MB/s', 'failed'],
    ...steps.map((step) => [
      String(step.clients),
      figure(step.requestsPerSecond),
      '█'.repeat(Math.round((step.requestsPerSecond / most) * BAR)).padEnd(BAR),
      ...[step.p50, step.p90, step.p99, step.max].map(figure),
      String(step.answerBytes),
      figure(step.bytesPerSecond / 1e6),
      String(step.failures.reduce((sum, { count }) => sum + count, 0)),
    ]),
  ]
  const widthOf = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0))
  const lines = rows.map((row, i) => {
    const { interrupted, seconds = 0 } = steps[i - 1] ?? {}
    const line = row.map((cell, column) => cell.padStart(widthOf(column))).join('  ')
    return interrupted === true ? `${line}  interrupted after ${figure(seconds)} s` : line
  })
  return [
    `${name}: ${requests} different request${requests === 1 ? '' : 's'}`,
    ...(isEmpty ? ['The measured response is empty: it has no rows.'] : []),
    '',
    ...lines,
    ...steps.flatMap(remarks),
    '',
  ].join('\n')
}

export function footer({ isThisMachine }: Target): string {
  const shared = isThisMachine
    ? 'The server and this client share the processors of this machine.'
    : 'The server is on another machine, so the figures include the network.'
  return `${shared}
Each client sends its next request when it has the response to the previous one (a closed loop). During a slow response
it sends nothing, so users who arrive at their own pace wait longer than the percentiles show.
pNN is the time within which NN % of the counted responses were complete.`
}

/** Fraction of a processor from which the client may be the bottleneck. */
const BUSY = 0.9

function remarks({ clients, failures, clientCpu }: Step): readonly string[] {
  const step = clients === 1 ? '1 client' : `${clients} clients`
  const failed = failures.map(({ what, count, says }) => `${step}: ${count} x ${what}${says === '' ? '' : `: ${says}`}`)
  const busy = `${step}: this client used ${Math.round(clientCpu * 100)} % of a processor, so the server may be faster than measured`
  return clientCpu >= BUSY ? [...failed, busy] : failed
}

/** Formats a number with three significant digits. */
const figure = (value: number): string => (value >= 100 ? String(Math.round(value)) : value.toPrecision(3))
