import { type Load, percentile } from './load.js'
import { short, type Target } from './target.js'

/** A workload with so many clients. Times in ms. */
export interface Step {
  readonly clients: number
  /** As measured. */
  readonly seconds: number
  /** There when the window was cut short. */
  readonly interrupted?: true
  /** Answers that count. */
  readonly requests: number
  readonly requestsPerSecond: number
  readonly bytesPerSecond: number
  /** Of the body: the median of the answers that count. */
  readonly answerBytes: number
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly max: number
  readonly failures: readonly { readonly what: string; readonly count: number; readonly says: string }[]
  /** CPU time of this process, as a share of one processor. */
  readonly clientCpu: number
}
export interface Measured {
  readonly name: string
  /** Different ones, which take turns. */
  readonly requests: number
  readonly firstAnswerBytes: number
  /** Whether the first answer has no rows. */
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

/** A run, with what matters when it is compared with another. */
export interface Run {
  readonly target: Target
  /** Of the server; undefined when it does not say. */
  readonly version: string | undefined
  /** Of this machine. */
  readonly processors: number
  /** Without the values of headers. */
  readonly options: object
  readonly interrupted: boolean
  /** Workloads whose first answer is a failure. */
  readonly skipped: readonly { readonly name: string; readonly why: string }[]
  readonly workloads: readonly Measured[]
}

export function asJson({ target: { url, caller }, version, interrupted, ...rest }: Run): string {
  const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Math.round(value * 1000) / 1000 : value)
  const about = { url, caller, server: { version: version ?? null }, date: new Date().toISOString() }
  return JSON.stringify({ ...about, interrupted: interrupted || undefined, ...rest }, rounded, 2)
}

const BAR = 24

/** A line for each number of clients, and remarks. */
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
    ...(isEmpty ? ['What is measured is an empty answer: it has no rows.'] : []),
    '',
    ...lines,
    ...steps.flatMap(remarks),
    '',
  ].join('\n')
}

export function footer({ isThisMachine }: Target): string {
  const shared = isThisMachine
    ? 'The server and this client share the machine, each at the cost of the other.'
    : 'The server is on another machine: the network is measured too.'
  return `${shared}
Each client sends its next request when it has the answer to the one before (a closed loop): while a slow answer is
awaited nothing else is sent or counted, so users who come at their own pace wait longer than the percentiles say.
pNN is the shortest time within which NN % of the counted answers were there.`
}

/** The setting behind a refusal. */
const SETTINGS: ReadonlyMap<string, string> = new Map([
  ['429 too-many-requests', 'a limit for each caller: limits.newQueries, or database.streamPoolSize for streams'],
  ['429 too-many-failures', 'the limit is http.failedAuthPerMinute'],
  ['503 too-busy', 'the limit is http.maxConcurrentRequests'],
  ['503 unavailable', 'connections are database.poolSize, and the longest wait for one is database.poolWaitMs'],
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

/** Three digits that say something. */
const figure = (value: number): string => (value >= 100 ? String(Math.round(value)) : value.toPrecision(3))
