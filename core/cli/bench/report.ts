import { short } from './first-answer.js'
import { type Load, percentile } from './load.js'
import type { Target } from './target.js'

/** A workload with so many clients. Times in ms. */
export interface Step {
  readonly clients: number
  /** As measured. */
  readonly seconds: number
  /** There when the window was ended ahead of time. */
  readonly interrupted?: true
  /** Answers that count. */
  readonly requests: number
  readonly requestsPerSecond: number
  readonly bytesPerSecond: number
  /** Of the body: the median over the answers that count. */
  readonly answerBytes: number
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
  /** Whether the first answer has no rows. */
  readonly firstAnswerEmpty: boolean
  readonly steps: readonly Step[]
}

export function stepOf(
  clients: number,
  { latencies, answerBytes, failures, seconds, bytes, cpu }: Load,
  interrupted: boolean,
): Step {
  const at = (share: number) => percentile(latencies, share)
  return {
    clients,
    seconds,
    ...(interrupted ? { interrupted } : {}),
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

/** A run, with what somebody must know to compare it with another. */
export interface Run {
  readonly target: Target
  /** Of the server; undefined when it does not tell. */
  readonly version: string | undefined
  /** Of the machine of this client. */
  readonly processors: number
  /** What it was called with, without the values of headers. */
  readonly options: Readonly<Record<string, unknown>>
  readonly interrupted: boolean
  readonly skipped: readonly Skipped[]
  readonly workloads: readonly Measured[]
}
/** What was not measured, since its first answer is none that counts. */
export interface Skipped {
  readonly name: string
  readonly why: string
}

export function asJson({ target: { url, caller }, version, interrupted, ...rest }: Run): string {
  const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Math.round(value * 1000) / 1000 : value)
  const about = { url, caller, server: { version: version ?? null }, date: new Date().toISOString() }
  return JSON.stringify({ ...about, ...(interrupted ? { interrupted } : {}), ...rest }, rounded, 2)
}

const BAR = 24

/** A line for each number of clients, and what must be known of them. */
export function table({ name, requests, firstAnswerBytes, firstAnswerEmpty, steps }: Measured): string {
  if (steps.length === 0) return `${name}: interrupted before anything was measured`
  const about = `${name}: ${requests} different request${requests === 1 ? '' : 's'}`
  const isEmpty = firstAnswerEmpty && steps.every(({ answerBytes }) => answerBytes <= firstAnswerBytes)
  const warning = isEmpty ? ['What is measured is an empty answer: it has no rows.'] : []
  const most = Math.max(...steps.map(({ requestsPerSecond }) => requestsPerSecond))
  const head = ['clients', 'requests/s', '', 'p50 ms', 'p90 ms', 'p99 ms', 'max ms', 'bytes', 'MB/s', 'failed']
  const rows = steps.map((step) => [
    String(step.clients),
    figure(step.requestsPerSecond),
    bar(step.requestsPerSecond / most).padEnd(BAR),
    ...[step.p50, step.p90, step.p99, step.max].map(figure),
    String(step.answerBytes),
    figure(step.bytesPerSecond / 1e6),
    String(step.failures.reduce((sum, { count }) => sum + count, 0)),
  ])
  const widths = head.map((title, column) => Math.max(...[head, ...rows].map((row) => (row[column] ?? title).length)))
  const lines = [head, ...rows].map((row) => row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  '))
  const marked = lines.map((line, index) => {
    const step = steps[index - 1]
    return step?.interrupted ? `${line}  interrupted after ${figure(step.seconds)} s` : line
  })
  return [about, ...warning, '', ...marked, ...steps.flatMap(remarks), ''].join('\n')
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
