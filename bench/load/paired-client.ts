import { connect, type Socket } from 'node:net'
import { json } from 'node:stream/consumers'
import { createReader } from '../../plugins/bench/answers.js'
import { requestBytes } from '../../plugins/bench/load.js'
import { threadsCpu } from '../cpu.js'

/** Two servers that are measured in turns, on connections that stay open. */
export interface PairedJob {
  readonly sides: readonly [Side, Side]
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent in turn. */
  readonly bodies: readonly string[]
  /** Connections of each; a burst is one request on each of them. */
  readonly clients: number
  /** Bursts to each before it is measured. */
  readonly warm: number
  readonly pairs: number
}
export interface Side {
  readonly port: number
  readonly pid: number
  /** Processes of PostgreSQL that work for this server only. */
  readonly backends: readonly number[]
}

/** CPU time of one burst, µs for each request. */
export interface Burst {
  readonly server: number
  readonly database: number
}
/** Neighbouring bursts of the two. */
export type Pair = readonly [Burst, Burst]
export interface Paired {
  readonly pairs: readonly Pair[]
  /** Pairs that do not count, because a request failed. */
  readonly failures: number
}

/** Reads a `PairedJob`, prints a `Paired`. Which of the two is first is random, for each pair. */
const job = (await json(process.stdin)) as PairedJob
const requests = job.bodies.map((body) =>
  requestBytes({ method: 'POST', path: job.path, headers: { host: '127.0.0.1', ...job.headers }, body }),
)
const sides = await Promise.all(job.sides.map(open))
const pairs: Pair[] = []
let failures = 0
for (let n = -job.warm; n < job.pairs; n++) {
  const bursts: Burst[] = []
  let failed = false
  for (const i of Math.random() < 0.5 ? [0, 1] : [1, 0]) {
    const { burst, spent } = sides[i] as OpenSide
    const before = spent()
    if ((await burst()) > 0) failed = true
    const after = spent()
    const each = (part: keyof Burst) => (after[part] - before[part]) / job.clients
    bursts[i] = { server: each('server'), database: each('database') }
  }
  if (n < 0) continue
  if (failed) failures++
  else pairs.push(bursts as unknown as Pair)
}
process.stdout.write(JSON.stringify({ pairs, failures } satisfies Paired), () => process.exit())

interface OpenSide {
  /** @returns how many of the requests failed */
  burst(): Promise<number>
  /** In µs. */
  spent(): Burst
}

async function open({ port, pid, backends }: Side): Promise<OpenSide> {
  let sent = 0
  let missing = 0
  let failed = 0
  let done = () => {}
  const sockets = await Promise.all(
    Array.from({ length: job.clients }, () => {
      const socket = connect({ host: '127.0.0.1', port })
      socket.setNoDelay(true)
      const read = createReader(({ status }) => {
        if (status >= 300) failed++
        if (--missing === 0) done()
      })
      socket.on('data', read)
      return new Promise<Socket>((resolve, reject) => {
        socket.once('connect', () => resolve(socket))
        socket.once('error', reject)
        // It ends this process: a server of a measurement keeps its connections.
        socket.once('close', () => process.exit(1))
      })
    }),
  )
  return {
    burst: () =>
      new Promise((resolve) => {
        missing = sockets.length
        failed = 0
        done = () => resolve(failed)
        for (const socket of sockets) socket.write(requests[sent++ % requests.length] as Buffer)
      }),
    spent: () => ({
      server: threadsCpu(pid),
      database: backends.reduce((sum, backend) => sum + threadsCpu(backend), 0),
    }),
  }
}
