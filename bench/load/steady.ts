import { Agent, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { percentile } from '../../plugins/bench/load.js'
import type { Window } from './load.js'

/** Requests at a steady rate, whether or not those before are answered. */
export interface SteadyJob {
  readonly port: number
  readonly path: string
  /** Sent in turn. */
  readonly requests: readonly { readonly headers: Readonly<Record<string, string>>; readonly body: string }[]
  readonly perSecond: number
  readonly window: Window
}
/** Times in ms from when a request was due to the end of its answer. */
export interface Steady {
  /** Answers of 200. */
  readonly requests: number
  readonly p50: number
  readonly p99: number
  /** Other answers by status; 0 is no answer. */
  readonly failed: Readonly<Record<number, number>>
}

const DEADLINE_MS = 60_000

/** Reads a `SteadyJob`, prints a `Steady`. */
const job = (await json(process.stdin)) as SteadyJob
const agent = new Agent({ keepAlive: true })
const count = job.window.kind === 'requests' ? job.window.requests : job.window.seconds * job.perSecond
const times: number[] = []
const failed: Record<number, number> = {}

const start = performance.now()
const asked: Promise<void>[] = []
for (let n = 0; n < count; n++) {
  const due = start + (n * 1000) / job.perSecond
  await sleep(Math.max(0, due - performance.now()))
  asked.push(ask(n, due))
}
await Promise.all(asked)
agent.destroy()
const sorted = Float64Array.from(times).sort()
const { length: requests } = times
const steady: Steady = { requests, p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), failed }
process.stdout.write(JSON.stringify(steady))

async function ask(n: number, due: number): Promise<void> {
  const status = await statusOf(n)
  if (status === 200) times.push(performance.now() - due)
  else failed[status] = (failed[status] ?? 0) + 1
}

function statusOf(n: number): Promise<number> {
  const { port, path, requests: all } = job
  const { headers, body } = all[n % all.length] as SteadyJob['requests'][number]
  return new Promise((resolve) => {
    const sent = request({ host: '127.0.0.1', port, path, method: 'POST', headers, agent, timeout: DEADLINE_MS })
    sent.once('error', () => resolve(0))
    sent.once('timeout', () => sent.destroy())
    sent.once('response', (answer) => {
      answer.once('error', () => resolve(0))
      answer.resume().once('end', () => resolve(answer.statusCode ?? 0))
    })
    sent.end(body)
  })
}
