import type { Bench } from '../bench.js'
import { readMemory } from '../cpu.js'
import { runLoad } from '../load/load.js'
import { LESS_IS_BETTER, measured } from '../load-rounds.js'
import { interleave, type Job, type Section } from '../section.js'
import { type BenchServer, byAdmin, byGateway, queryPost, send, startServerChild } from '../systems/server.js'

const CLIENTS = 16
/** More than any machine compiles in a second. */
const FORMS_PER_SECOND = 10_000
const KNOWN = 'rowhouse, known forms'
/** The limit of new forms for each caller, which is there against this very thing. */
const WITHOUT_LIMIT = { ROWHOUSE_LIMITS__MISSES__PER_SECOND: '0' }

/** The n-th form of one request: an answer has no other name twice. */
const formOf = (n: number): object => ({
  type: 'select',
  args: {
    table: 'article',
    columns: ['id', 'title', { name: 'author', alias: `author${n}`, columns: ['name'] }],
    where: { id: 1 },
  },
})
const documentOf = (n: number): object => ({
  query: `query ($id: Int!) { article(where: {id: {_eq: $id}}) { id title author${n}: author { name } } }`,
  variables: { id: 1 },
})

/** Requests that all have to be compiled, because none has come before; and those that come meanwhile. */
export async function measureFlood(bench: Bench): Promise<Section> {
  const server = await startServerChild(bench.url, formOf(0), { env: WITHOUT_LIMIT })
  try {
    await check(server)
    let forms = 1
    const flood = (path: string, form: (n: number) => object) =>
      measured(bench, server, async (window) => {
        const count = window.kind === 'seconds' ? window.seconds * FORMS_PER_SECOND : window.requests
        const from = forms
        forms += count
        const bodies = Array.from({ length: count }, (_, n) => JSON.stringify(form(from + n)))
        const before = await compiledBy(server)
        const load = await run(path, bodies, window)
        const compiled = (await compiledBy(server)) - before
        if (load.requests > count) throw new Error('k: there were not enough new forms')
        const rss = readMemory(server.pid, 'VmRSS')
        return { ...load, compiled: compiled / load.requests, rss }
      })
    const run = (path: string, bodies: readonly string[], window: Bench['window']) => {
      const { headers } = queryPost({}, byGateway)
      return runLoad({ port: server.port, path, headers, bodies, clients: CLIENTS, window })
    }
    const known = measured(bench, server, async (window) => {
      const before = await compiledBy(server)
      const load = await run('/v1/query', [JSON.stringify(formOf(0))], window)
      const compiled = (await compiledBy(server)) - before
      return { ...load, compiled: compiled / load.requests }
    })
    const jobs: Job[] = [
      { system: 'rowhouse, new forms', measure: flood('/v1/query', formOf) },
      { system: 'rowhouse GraphQL, new documents', measure: flood('/v1/graphql', documentOf) },
      { system: KNOWN, measure: known },
    ]
    return {
      id: 'k',
      title: `a row by key and its author, every request of a form of its own, ${CLIENTS} clients, limits.newQueries off`,
      columns: {
        rps: 'requests/s',
        p50: 'p50 ms',
        p99: 'p99 ms',
        compiled: 'compilations/request',
        rss: 'RSS after, MiB',
        server: 'server CPU µs/request',
        database: 'PostgreSQL CPU µs/request',
      },
      compared: 'rps',
      subjects: [KNOWN],
      lessIsBetter: [...LESS_IS_BETTER, 'rss'],
      cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`k: ${text}`)),
      notMeasured: [],
    }
  } finally {
    await server.stop()
  }
}

async function check(server: BenchServer): Promise<void> {
  const { text } = await send(server.port, queryPost(formOf(0), byGateway))
  const [row] = JSON.parse(text) as [Record<string, unknown>]
  if (row['id'] !== 1 || typeof (row['author0'] as { name?: unknown }).name !== 'string')
    throw new Error(`k: a new form is answered ${text}`)
}

/** How many requests were not found in the cache. */
async function compiledBy({ port }: BenchServer): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`, { headers: byAdmin })).text()
  const counts = [...metrics.matchAll(/^rowhouse_compilations_total\{by="(\w+)"\} (\d+)$/gm)]
  return counts.reduce((sum, [, by, n]) => sum + (by === 'cache' ? 0 : Number(n)), 0)
}
