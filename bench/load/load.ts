import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findProgram, runProgram } from '../program.js'
import { runWrk } from './wrk.js'

/** How long a window is. A number of requests is for trying things out: it starts cold and is short. */
export type Window =
  | { readonly kind: 'seconds'; readonly seconds: number }
  | { readonly kind: 'requests'; readonly requests: number }

/** What is asked, over keep-alive connections that wait for each answer. */
export interface LoadJob {
  /** Without it this machine. */
  readonly host?: string
  readonly port: number
  /** Without it POST. */
  readonly method?: string
  readonly path: string
  /** In place of `path`: one for each body. */
  readonly paths?: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  /** Beside those: for each body; only the client of our own can. */
  readonly headersEach?: readonly Readonly<Record<string, string>>[]
  /** Sent in turn. No line ends inside. */
  readonly bodies: readonly string[]
  readonly clients: number
  readonly window: Window
  /** Counts the answers that took longer; only the client of our own can. */
  readonly lateMs?: number
}

/** What came of it. Times in ms; each tool counts percentiles in its own way, so they are compared within one tool. */
export interface Load {
  /** Answers below 400. */
  readonly requests: number
  /** Answers of 400 or more, and connections that broke. */
  readonly failures: number
  readonly seconds: number
  readonly p50: number
  readonly p99: number
  /** Answers that took longer than the job's `lateMs`. */
  readonly late?: number
}

export type LoadTool = 'wrk' | 'own'

/** wrk where it is installed, because it takes the least from the servers; it cannot count requests, and knows whole seconds only. */
export function chooseTool({ kind }: Window): LoadTool {
  return kind === 'seconds' && findProgram('wrk') !== undefined ? 'wrk' : 'own'
}

/** @param folder for what the tool reads */
export async function runLoad(tool: LoadTool, job: LoadJob, folder: string): Promise<Load> {
  const { window } = job
  if (tool === 'wrk' && window.kind === 'seconds' && Number.isInteger(window.seconds))
    return runWrk(job, window.seconds, folder)
  const file = join(folder, 'job.json')
  await writeFile(file, JSON.stringify(job))
  const client = fileURLToPath(new URL('./client.js', import.meta.url))
  return JSON.parse(await runProgram(process.execPath, [client, file])) as Load
}
