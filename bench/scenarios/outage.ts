import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench } from '../bench.js'
import { loadData, loadMetadata, SMALL } from '../data.js'
import { type BenchDatabase, startDatabase, withClient } from '../database.js'
import { interleave, type Job, type Measured, type Section } from '../section.js'
import { type Child, type Post } from '../systems/child.js'
import { type BenchServer, byGateway, queryPost, startServerChild } from '../systems/server.js'
import { byPk } from './by-pk.js'
import { requestCount } from './scenario.js'

const CLIENTS = 16
const BEFORE_MS = { whole: 1000, trial: 100 }
/** A server that has not recovered by then is given up. */
const RECOVERED_MS = 60_000
/** After the first good answer, for errors that come later. */
const AFTER_MS = { whole: 2000, trial: 200 }

/** Reads while all connections to the database end, and while PostgreSQL is started again, on a cluster of its own. */
export async function measureOutage(bench: Bench): Promise<Section> {
  const database = await startDatabase()
  try {
    const url = await database.create('outage')
    await withClient(url, (client) => loadData(client, SMALL))
    const server = await startServerChild(url)
    try {
      await loadMetadata(server.ask)
      const jobs: Job[] = [
        { system: 'rowhouse, connections ended', measure: () => measure(bench, server, () => endConnections(url)) },
        { system: 'rowhouse, PostgreSQL restarted', measure: () => measure(bench, server, () => restart(database)) },
      ]
      return {
        id: 's',
        title: `one row by key, ${CLIENTS} clients, while the database goes away`,
        columns: {
          answered: 'requests answered',
          failed: 'failed',
          failing: 'from the first failure to the last, ms',
          recovery: 'from the event to the first good answer to a later request, ms',
          down: 'PostgreSQL down, ms',
        },
        compared: 'recovery',
        subjects: [],
        lessIsBetter: ['failed', 'failing', 'recovery', 'down'],
        cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`s: ${text}`)),
        notMeasured: [],
      }
    } finally {
      await server.stop()
    }
  } finally {
    await database.stop()
  }
}

/** Something that happens to the database. @returns how long nobody could connect, in ms */
type Event = () => Promise<number>

const restart = (database: BenchDatabase): Promise<number> => database.restart()

async function endConnections(url: string): Promise<number> {
  await withClient(url, (client) =>
    client.query(`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()
    `),
  )
  return 0
}

async function measure(bench: Bench, server: BenchServer, event: Event): Promise<Measured> {
  const length = bench.window.kind === 'requests' ? 'trial' : 'whole'
  const clients = startClients(server)
  try {
    await sleep(BEFORE_MS[length])
    const at = performance.now()
    const down = await event()
    while (clients.goodSince(at) === undefined) {
      if (performance.now() - at > RECOVERED_MS) return { figures: {}, void: 'there was no good answer any more' }
      await sleep(1)
    }
    await sleep(AFTER_MS[length])
    const { answered, failures } = clients
    const [first = 0, last = 0] = [failures[0], failures.at(-1)]
    return {
      figures: {
        answered: answered(),
        failed: failures.length,
        failing: last - first,
        recovery: clients.goodSince(at) as number,
        down,
      },
      ...(answered() === 0 ? { void: 'nothing was answered' } : {}),
    }
  } finally {
    await clients.stop()
  }
}

interface Clients {
  answered(): number
  /** When, of `performance.now()`. */
  readonly failures: readonly number[]
  /** From that time to the first good answer to a request that was sent later, in ms. */
  goodSince(time: number): number | undefined
  stop(): Promise<void>
}

/** They ask one request after another, as the load tools do, and go on when one fails. */
function startClients(server: Child): Clients {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  const count = requestCount(SMALL)
  const good: { readonly sent: number; readonly answered: number }[] = []
  const failures: number[] = []
  let stopped = false
  const client = async (first: number) => {
    for (let n = first; !stopped; n += CLIENTS) {
      const sent = performance.now()
      const status = await ask(server, agent, queryPost(byPk.request(n % count, SMALL), byGateway))
      if (status === 200) good.push({ sent, answered: performance.now() })
      else failures.push(performance.now())
    }
  }
  const clients = Array.from({ length: CLIENTS }, (_, n) => client(n))
  return {
    answered: () => good.length,
    failures,
    goodSince(time) {
      const later = good.filter(({ sent }) => sent > time).map(({ answered }) => answered - time)
      return later.length === 0 ? undefined : Math.min(...later)
    },
    async stop() {
      stopped = true
      await Promise.all(clients)
      agent.destroy()
    },
  }
}

/** @returns the status, or undefined when the connection broke or nothing came for a minute */
function ask({ port }: Child, agent: Agent, { path, headers, body }: Post): Promise<number | undefined> {
  return new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port, path, method: 'POST', headers, agent, timeout: RECOVERED_MS })
    asked.once('error', () => resolve(undefined))
    asked.once('timeout', () => asked.destroy())
    asked.once('response', (answer) => answer.resume().once('close', () => resolve(answer.statusCode)))
    asked.end(body)
  })
}
