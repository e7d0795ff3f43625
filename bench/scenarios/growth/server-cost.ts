import type { Bench } from '../../bench.js'
import { readCpu, readMemory } from '../../cpu.js'
import { measured } from '../../load-rounds.js'
import { runLoad } from '../../load/load.js'
import type { Job } from '../../section.js'
import type { Child } from '../../systems/child.js'
import { type BenchServer, byGateway, queryPost, send, startServerChild } from '../../systems/server.js'
import { roleName } from './metadata.js'

const CLIENTS = 16
const PROBE = { type: 'select', args: { table: 't1', columns: ['id', 'name'], limit: 1 } }
const BY_KEY = { type: 'select', args: { table: 't1', columns: ['id', 'name'], where: { id: 1 } } }
const DOCUMENT = { query: '{ t1(where: {id: {_eq: 1}}) { id name } }' }
const FILTER = { id: { $gt: 0 } }
/** How many changes of metadata, one after another, memory is looked at after. */
const CHANGES = 10

export const COLUMNS = {
  start: 'cold start ms',
  rss: 'RSS MiB',
  server: 'by key, server CPU µs/request',
  document: 'first GraphQL document ms',
  track: 'track_table ms',
  permit: 'create_select_permission ms',
  sql: 'run_sql that alters a table ms',
  cpu: 'server CPU ms/change',
  after: `RSS after ${CHANGES} changes MiB`,
  peak: 'peak RSS MiB',
}

/** Everything that the size of the metadata may make slow, of a server that has just started. */
export async function measureCost(
  bench: Bench,
  url: string,
  roles: number,
): Promise<Awaited<ReturnType<Job['measure']>>> {
  const server = await startServerChild(url, PROBE)
  try {
    const rss = memory(server, 'VmRSS', 'rss')
    const { figures, ...rest } = await byKey(bench, server, roles)
    const document = await timed(() => send(server.port, { ...queryPost(DOCUMENT, byGateway), path: '/v1/graphql' }))
    const changes = await change(bench, server)
    return {
      figures: {
        start: server.startMs,
        ...rss,
        ...(figures['server'] === undefined ? {} : { server: figures['server'] }),
        document,
        ...changes,
        ...memory(server, 'VmRSS', 'after'),
        ...memory(server, 'VmHWM', 'peak'),
      },
      ...rest,
    }
  } finally {
    await server.stop()
  }
}

/** One row by key, as the last of the roles: the one that a list of them would find last. */
function byKey(bench: Bench, server: BenchServer, roles: number): ReturnType<Job['measure']> {
  const { path, headers, body } = queryPost(BY_KEY, { ...byGateway, 'x-service-role': roleName(roles - 1) })
  return measured(bench, server, (window) =>
    runLoad({ port: server.port, path, headers, bodies: [body], clients: CLIENTS, window }),
  )()
}

/** The shorter of two times of each kind; in the end everything is as before. */
async function change(bench: Bench, server: BenchServer): Promise<Record<string, number>> {
  const kinds = {
    track: () => server.ask('track_table', 'spare'),
    permit: () =>
      server.ask('create_select_permission', {
        table: 'spare',
        role: 'user',
        permission: { columns: ['id'], filter: FILTER },
      }),
    sql: () => server.ask('run_sql', { sql: 'alter table spare add column more int' }),
    back: () => server.ask('run_sql', { sql: 'alter table spare drop column more' }),
    forget: () => server.ask('untrack_table', { table: 'spare' }),
  }
  const times: Record<string, number> = {}
  const before = readCpu(server.pid, bench.database.pid)
  const count = Object.keys(kinds).length
  for (let done = 0; done < CHANGES; done += count) {
    for (const [kind, run] of Object.entries(kinds)) {
      const ms = await timed(run)
      times[kind] = Math.min(ms, times[kind] ?? Infinity)
    }
  }
  const after = readCpu(server.pid, bench.database.pid)
  const { track, permit, sql } = times as { track: number; permit: number; sql: number }
  return { track, permit, sql, ...(before && after ? { cpu: (after.server - before.server) / CHANGES } : {}) }
}

function memory({ pid }: Child, field: 'VmRSS' | 'VmHWM', figure: string): Record<string, number> {
  const mib = readMemory(pid, field)
  return mib === undefined ? {} : { [figure]: mib }
}

async function timed(fn: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await fn()
  return performance.now() - began
}
