import { fileURLToPath } from 'node:url'
import { percentile, type Window } from '../../plugins/bench/load.js'
import { runProgram } from '../program.js'

export type { Window }

/** Requests over keep-alive connections that wait for each answer. */
export interface LoadJob {
  /** Without it this machine. */
  readonly host?: string | undefined
  readonly port: number
  /** Without it POST. */
  readonly method?: string | undefined
  readonly path: string
  /** In place of `path`: one for each body. */
  readonly paths?: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  /** Beside those: for each body. */
  readonly headersEach?: readonly Readonly<Record<string, string>>[]
  /** Sent in turn. */
  readonly bodies: readonly string[]
  readonly clients: number
  readonly window: Window
  /** Counts the answers that took longer. */
  readonly lateMs?: number
}

/** What came of it. Times in ms. */
export interface Load {
  /** Answers below 300. */
  readonly requests: number
  /** Other answers, and connections that broke. */
  readonly failures: number
  readonly seconds: number
  readonly rps: number
  readonly p50: number
  readonly p99: number
  /** Answers that took longer than the job's `lateMs`. */
  readonly late?: number
  readonly [figure: string]: number | undefined
}

export const runLoad = (job: LoadJob): Promise<Load> => runClient('client', job)

/** Runs a program of this folder, which reads its job as JSON and prints what came of it, in a process of its own. */
export async function runClient<T>(
  program: 'client' | 'transfer-client' | 'steady' | 'paired-client',
  job: object,
): Promise<T> {
  const file = fileURLToPath(new URL(`./${program}.js`, import.meta.url))
  return JSON.parse(await runProgram(process.execPath, [file], {}, JSON.stringify(job))) as T
}

/** @param latencies sorted */
export function loadOf(latencies: Float64Array, failures: number, seconds: number): Load {
  const { length: requests } = latencies
  const [p50, p99] = [percentile(latencies, 0.5), percentile(latencies, 0.99)]
  return { requests, failures, seconds, rps: requests / seconds, p50, p99 }
}
