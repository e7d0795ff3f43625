import type { Bench } from '../bench.js'
import { runLoad, type Window } from '../load/load.js'
import { LESS_IS_BETTER, measured, REQUEST_COLUMNS } from '../load-rounds.js'
import { interleave, type Measured, type Section } from '../section.js'
import { byGateway, type BenchServer, NOTHING_MUCH, queryPost, startServerChild } from '../systems/server.js'
import { byPk } from './by-pk.js'
import { list } from './list.js'
import { requestCount, type LoadScenario } from './scenario.js'

const PROCESSES = [1, 2] as const
const CLIENTS = 32
/** Connections of the neighbour, enough to keep one process busy. */
const NEIGHBOUR = 8

/** One row by key from one process and from two, alone and beside a client that reads lists all the time. */
export async function measureProcesses(bench: Bench): Promise<Section> {
  const servers: BenchServer[] = []
  try {
    for (const count of PROCESSES) {
      const env = { PROCESSES: String(count) }
      servers.push(await startServerChild(bench.url, NOTHING_MUCH, { env }))
    }
    const jobs = servers.flatMap((server, i) => {
      const system = PROCESSES[i] === 1 ? '1 process' : `${PROCESSES[i]} processes`
      return [
        { system, measure: measure(bench, server, false) },
        { system: `${system} beside a neighbour`, measure: measure(bench, server, true) },
      ]
    })
    return {
      id: 'u',
      title: `${byPk.title}, ${CLIENTS} clients, from several processes`,
      columns: REQUEST_COLUMNS,
      compared: 'rps',
      lessIsBetter: LESS_IS_BETTER,
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`u: ${text}`)),
      notMeasured: [],
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()))
  }
}

function measure(bench: Bench, server: BenchServer, hasNeighbour: boolean): () => Promise<Measured> {
  const load = (scenario: LoadScenario, clients: number, window: Window) => {
    const posts = Array.from({ length: requestCount(bench.size) }, (_, n) =>
      queryPost(scenario.request(n, bench.size), byGateway),
    )
    const [{ path, headers }] = posts as [ReturnType<typeof queryPost>]
    return runLoad({ port: server.port, path, headers, bodies: posts.map(({ body }) => body), clients, window })
  }
  return measured(bench, server, async (window) => {
    const [figures] = await Promise.all([
      load(byPk, CLIENTS, window),
      hasNeighbour ? load(list, NEIGHBOUR, window) : undefined,
    ])
    return figures
  })
}
