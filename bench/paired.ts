import { cpus } from 'node:os'
import type { Build } from './bench.js'
import { type Difference, differenceOf, ENOUGH_STARTS, isSettled } from './compare.js'
import { backendsOf } from './cpu.js'
import { loadData, loadMetadata, SMALL } from './data.js'
import { type BenchDatabase, withClient } from './database.js'
import { runClient } from './load/load.js'
import type { Pair, Paired, PairedJob, Side } from './load/paired-client.js'
import { findProgram, runProgram } from './program.js'
import type { Scenario } from './scenarios/index.js'
import { createNoteTable, permitNotesToo } from './scenarios/write.js'
import { type BenchServer, byGateway, startBuild } from './systems/server.js'

/** Connections of each server, and requests of one burst. */
const CLIENTS = 32
/** 5,120 requests. */
const WARM = 160
const PAIRS = 400
/** One request in a hundred bursts may fail on a machine that is very busy. */
const MOST_FAILURES = 0.01

export interface Comparing {
  readonly database: BenchDatabase
  readonly scenarios: readonly Scenario[]
  readonly minutes: number
  /** One start of a few bursts: to see that it runs. */
  readonly trial: boolean
  progress(text: string): void
}

/**
 * Compares the CPU time of requests of two builds. What a machine does beside them changes within a second, and two starts of
 * the same build differ by some percent, because they compile their code at other moments. So bursts of a few milliseconds go
 * to one and to the other in turns, and both are started again and again until the time is over or nothing is uncertain.
 */
export async function compareBuilds(builds: readonly [Build, Build], comparing: Comparing): Promise<Difference[]> {
  const { scenarios, minutes, trial, progress } = comparing
  const starts = new Map<Scenario, Pair[][]>(scenarios.map((scenario) => [scenario, []]))
  const differences = () => [...starts].flatMap(([{ id, name }, pairs]) => differenceOf(id, name, pairs))
  const end = performance.now() + minutes * 60_000
  for (let n = 1; ; n++) {
    const began = performance.now()
    progress(`start ${n} of both builds, ${Math.ceil((end - began) / 60_000)} min left`)
    const servers = await startBoth(builds)
    try {
      for (const [scenario, pairs] of starts) pairs.push(await measure(scenario, servers, comparing))
    } finally {
      await Promise.all(servers.map((server) => server.stop()))
    }
    const now = performance.now()
    const late = now + (now - began) > end
    if (trial || (late && n >= ENOUGH_STARTS) || differences().every(isSettled)) return differences()
  }
}

/** Loads the data and the permissions of all scenarios that are compared. */
export async function prepareCompared(build: Build): Promise<void> {
  await withClient(build.url, async (client) => {
    await loadData(client, SMALL)
    await createNoteTable(client)
  })
  const server = await startBuild(build)
  await loadMetadata(server.ask)
  await permitNotesToo(server.ask)
  await server.stop()
}

/** In random order, and on one processor, so that both have the same neighbours there. */
async function startBoth(builds: readonly [Build, Build]): Promise<[BenchServer, BenchServer]> {
  const servers: BenchServer[] = []
  const taskset = findProgram('taskset')
  for (const i of Math.random() < 0.5 ? [0, 1] : [1, 0]) {
    const server = await startBuild(builds[i] as Build)
    servers[i] = server
    if (taskset !== undefined) await runProgram(taskset, ['-acp', String(cpus().length - 1), String(server.pid)])
  }
  return servers as [BenchServer, BenchServer]
}

async function measure(
  { id, compared }: Scenario,
  servers: readonly [BenchServer, BenchServer],
  { trial, database }: Comparing,
): Promise<Pair[]> {
  const bodies = Array.from({ length: 100 }, (_, n) => JSON.stringify(compared?.(n, SMALL)))
  const job = {
    path: '/v1/query',
    headers: { 'content-type': 'application/json', ...byGateway },
    bodies,
    clients: CLIENTS,
  }
  const run = (sides: readonly Side[], warm: number, pairs: number) =>
    runClient<Paired>('paired-client', { ...job, sides: sides as PairedJob['sides'], warm, pairs } satisfies PairedJob)
  const sides = servers.map(({ port, pid }) => ({ port, pid, backends: [] }))
  // Connections to PostgreSQL are there when the servers are warm.
  await run(sides, trial ? 1 : WARM, 0)
  const known = servers.map(({ port, pid, url }) => ({ port, pid, backends: backendsOf(database.pid, url) }))
  const { pairs, failures } = await run(known, 1, trial ? 3 : PAIRS)
  if (failures > (pairs.length + failures) * MOST_FAILURES)
    throw new Error(`scenario ${id}: requests failed in ${failures} of ${pairs.length + failures} pairs of bursts`)
  return [...pairs]
}
