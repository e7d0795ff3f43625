import type { Bench } from '../bench.js'
import { readMemory } from '../cpu.js'
import { interleave, type Job, type Section } from '../section.js'
import { byGateway, queryPost, send, startServerChild } from '../systems/server.js'
import { createTables, rolesOf } from './many-tables.js'

const GRAPHQL = '/v1/graphql'
const PROBE = { type: 'select', args: { table: 't1', columns: ['id', 'name'], limit: 1 } }
const DOCUMENT = 'query ($id: Int!) { t1(where: {id: {_gt: $id}}, limit: 1) { id name parent { id name } } }'
const INTROSPECTION =
  '{ __schema { types { name kind fields { name type { name } args { name } } inputFields { name } } } }'

/** GraphQL on a server that has just started: the first documents, the same again, and the whole schema. */
export async function measureSchema(bench: Bench): Promise<Section> {
  const jobs: Job[] = []
  const whole = bench.window.kind === 'seconds'
  for (const [tables, roles] of [
    [10, 0],
    [whole ? 1000 : 20, 0],
    [10, whole ? 100 : 2],
  ] as const) {
    bench.progress(`q: making ${tables} tables`)
    const url = await createTables(bench, tables, roles)
    const system = `rowhouse, ${tables} tables${roles > 0 ? `, ${roles} roles` : ''}`
    jobs.push({ system, measure: () => measured(url, roles) })
  }
  return {
    id: 'q',
    title: 'GraphQL of a server that has just started, ms',
    columns: {
      first: 'first document',
      miss: 'a new document',
      hit: 'the same again',
      sdl: 'SDL',
      introspection: 'introspection',
      again: 'introspection again',
      role: 'first document of each further role',
      rss: 'RSS after, MiB',
    },
    compared: 'miss',
    lessIsBetter: ['first', 'miss', 'hit', 'sdl', 'introspection', 'again', 'role', 'rss'],
    cells: await interleave(jobs, bench.rounds, (text) => bench.progress(`q: ${text}`)),
    notMeasured: [],
  }
}

async function measured(url: string, roles: number): Promise<Awaited<ReturnType<Job['measure']>>> {
  const child = await startServerChild(url, PROBE)
  try {
    const ask = async (query: string, as = byGateway) => {
      const began = performance.now()
      await send(child.port, { ...queryPost({ query, variables: { id: 0 } }, as), path: GRAPHQL })
      return performance.now() - began
    }
    const renamed = (n: number) => DOCUMENT.replace('t1(', `a${n}: t1(`)
    const first = await ask(DOCUMENT)
    // The workers' code becomes warm.
    for (let n = 0; n < 20; n++) await ask(renamed(n))
    const misses = await times(9, (n) => ask(renamed(100 + n)))
    const hits = await times(9, () => ask(DOCUMENT))
    const sdl = await timed(() => child.schema())
    const introspection = await ask(INTROSPECTION)
    const again = await ask(INTROSPECTION)
    const others = await times(roles, (n) => {
      return ask(DOCUMENT, { ...byGateway, 'x-service-role': rolesOf(roles)[n] as string })
    })
    const rss = readMemory(child.pid, 'VmRSS')
    return {
      figures: {
        first,
        miss: median(misses),
        hit: median(hits),
        sdl,
        introspection,
        again,
        ...(roles > 0 ? { role: median(others) } : {}),
        rss,
      },
    }
  } finally {
    await child.stop()
  }
}

async function timed(fn: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await fn()
  return performance.now() - began
}

async function times(count: number, fn: (n: number) => Promise<number>): Promise<readonly number[]> {
  const all: number[] = []
  for (let n = 0; n < count; n++) all.push(await fn(n))
  return all
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] as number
