import { hostname } from 'node:os'
import type { Level } from 'pino'
import type { Operation } from '../data/operations.js'
import type { DataService } from '../data/service.js'
import { type Database, withClient } from '../db/database.js'
import type { SlowQuery } from '../db/slow-queries.js'
import { unexpectedPayload } from '../errors.js'
import { LEVELS, lineNumberNow, type LogLine, type LogLines } from '../observe/log-lines.js'
import type { Siblings } from '../processes/siblings.js'
import type { Schema } from '../json/schema.js'
import { build, version } from './version.js'
import { runWithin } from '../deadline.js'
import type { Loaded } from './load.js'

interface HealthOptions {
  readonly loaded: Loaded
  readonly database: Database
  readonly data: DataService
  readonly lines: LogLines
  readonly siblings: Siblings
}

/** What one of several processes contributes. */
interface OwnState {
  readonly startedAt: Date
  readonly metadata: { readonly version: string; readonly listening: boolean }
  readonly pools: readonly Readonly<{ name: string } & Record<string, number | string>>[]
  readonly compile: Readonly<Record<string, number>>
}

/**
 * The operations that show an admin what this server does: `server_status`, `slow_queries` and `log_lines`.
 */
export function healthOperations({
  loaded,
  database,
  data,
  lines,
  siblings,
}: HealthOptions): Record<string, Operation> {
  const { server } = siblings
  const startedAt = new Date()
  siblings.answer('state', (): OwnState => ({
    startedAt,
    metadata: { version: data.catalog.version, listening: data.listening },
    pools: [...database.pools].map(([name, { max, states }]) => ({ name, max, ...states() })),
    compile: data.compiling,
  }))
  siblings.answer('slow queries', () => data.slowQueries.all)
  siblings.answer('log lines', ({ after, level }: { readonly after: number; readonly level: Level }) => ({
    last: lines.last,
    lines: lines.after(after, level),
  }))
  const slowQueries = async () => together((await siblings.ask('slow queries')) as readonly (readonly SlowQuery[])[])

  return {
    server_status: operation({}, async () => ({
      server,
      processes: siblings.count,
      version,
      build,
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
      host: hostname(),
      pid: siblings.number === undefined ? process.pid : process.ppid,
      plugins: loaded.plugins.map(({ plugin }) => plugin.name),
      providers: [...loaded.providers].flatMap(([kind, { byName, default: chosen }]) =>
        [...byName].map(([name, { provider }]) => ({
          kind,
          name,
          provider: provider.name,
          default: name === chosen || byName.size === 1,
        })),
      ),
      ...sumOf((await siblings.ask('state')) as readonly OwnState[]),
      standbys: data.standbys.map(({ name, problem, lagMs, lagBytes }) => ({
        name,
        problem,
        lag_ms: lagMs,
        lag_bytes: lagBytes,
      })),
      database: await stateOf(database),
    })),
    slow_queries: operation({ plan: { type: 'string' } }, async ({ plan }, call) => {
      const all = await slowQueries()
      if (typeof plan !== 'string') {
        const { thresholdMs } = data.slowQueries
        return { server, threshold_ms: thresholdMs === Infinity ? null : thresholdMs, queries: all.map(described) }
      }
      const query = all.find(({ id }) => id === plan)
      if (!query) throw unexpectedPayload(`this server has no slow query "${plan}"`, '$.args.plan')
      if (query.isCut) throw unexpectedPayload('its SQL is too long to be kept for its plan', '$.args.plan')
      return { id: query.id, sql: query.sql, plan: await data.inspect.genericPlan(query.sql, call) }
    }),
    log_lines: {
      admin: true,
      args: args({ after: { type: 'integer', minimum: 0 }, level: { type: 'string', enum: LEVELS } }),
      async run(given) {
        const { after = 0, level = 'trace' } = given as { readonly after?: number; readonly level?: Level }
        // A number from the future is that of a server whose clock was ahead.
        const before = lineNumberNow()
        const question = { after: after > before + AHEAD ? 0 : after, level }
        const answers = (await siblings.ask('log lines', question)) as readonly { last: number; lines: LogLine[] }[]
        // The next line of another process may be older than the last one here.
        const last = siblings.count === 1 ? (answers[0]?.last ?? 0) : before
        const found = answers.flatMap((answer) => answer.lines).filter(({ number }) => number <= last)
        const texts = found
          .toSorted((a, b) => a.number - b.number)
          .map(({ number, text }) => `{"number":${number},"line":${text.trimEnd()}}`)
        return { kind: 'text', text: `{"server":"${server}","last":${last},"lines":[${texts.join(',')}]}` }
      },
    },
  }
}

/** How far line numbers may be ahead of the clock, because many lines were written in one millisecond. */
const AHEAD = 60_000 * 1024

/** Adds up what several processes know of the same statements. */
function together(all: readonly (readonly SlowQuery[])[]): readonly SlowQuery[] {
  const byId = new Map<string, SlowQuery>()
  for (const query of all.flat()) {
    const known = byId.get(query.id)
    byId.set(query.id, known ? sumOfTwo(known, query) : query)
  }
  return [...byId.values()].sort((a, b) => b.totalMs - a.totalMs)
}

const sumOfTwo = (a: SlowQuery, b: SlowQuery): SlowQuery => ({
  ...(a.lastSeen > b.lastSeen ? a : b),
  count: a.count + b.count,
  totalMs: a.totalMs + b.totalMs,
  maxMs: Math.max(a.maxMs, b.maxMs),
})

function sumOf(states: readonly OwnState[]) {
  const add = <T extends Readonly<Record<string, unknown>>>(a: T, b: T): T =>
    Object.fromEntries(
      Object.entries(a).map(([key, value]) => [key, typeof value === 'number' ? value + Number(b[key]) : value]),
    ) as T
  return states
    .map(({ startedAt, ...state }) => ({ started_at: startedAt, ...state }))
    .reduce((a, b) => ({
      started_at: a.started_at < b.started_at ? a.started_at : b.started_at,
      metadata: {
        version: BigInt(a.metadata.version) < BigInt(b.metadata.version) ? a.metadata.version : b.metadata.version,
        listening: a.metadata.listening && b.metadata.listening,
      },
      pools: a.pools.map((pool) => {
        const same = b.pools.find(({ name }) => name === pool.name)
        return same ? add(pool, same) : pool
      }),
      compile: add(a.compile, b.compile),
    }))
}

const args = (properties: Record<string, Schema>): Schema => ({
  type: 'object',
  properties,
})

const operation = (
  properties: Record<string, Schema>,
  run: (args: Readonly<Record<string, unknown>>, call: Parameters<Operation['run']>[1]) => Promise<object>,
): Operation => ({
  admin: true,
  args: args(properties),
  run: async (given, call) => ({
    kind: 'text',
    text: JSON.stringify(await run(given as Readonly<Record<string, unknown>>, call)),
  }),
})

const described = ({ isCut, totalMs, maxMs, lastSeen, ...query }: SlowQuery) => ({
  ...query,
  sql: isCut ? `${query.sql}…` : query.sql,
  total_ms: rounded(totalMs),
  mean_ms: rounded(totalMs / query.count),
  max_ms: rounded(maxMs),
  last_seen: lastSeen,
})

const rounded = (ms: number): number => Math.round(ms * 10) / 10

/**
 * Servers are distinguished by the addresses of their connections. Each holds one connection that listens, which is direct
 * even behind a pooler.
 */
const STATE = `select pg_catalog.json_build_object(
  'version', pg_catalog.current_setting('server_version'),
  'standby', pg_catalog.pg_is_in_recovery(),
  'metadata_version', (select version::text from svc_catalog.svc_version),
  'migrations', (select pg_catalog.json_object_agg(owner, id)
    from (select owner, pg_catalog.max(id) as id from svc_catalog.svc_migration group by owner) m),
  'servers', (select pg_catalog.json_agg(s order by since) from (
    select pg_catalog.host(client_addr) as address, client_addr is not distinct from pg_catalog.inet_client_addr() as own,
      pg_catalog.count(*) filter (where application_name = 'rowhouse listen') as servers, pg_catalog.count(*) as connections,
      pg_catalog.min(backend_start) as since
    from pg_catalog.pg_stat_activity where datname = pg_catalog.current_database() and application_name like 'rowhouse %'
    group by client_addr) s)) as state`

const STATE_MS = 2000

/** Returns what PostgreSQL says about itself and its clients; null if it does not answer. */
async function stateOf(database: Database): Promise<object | null> {
  try {
    const ask = () => withClient(database.admin, (client) => client.query<{ state: object }>(STATE))
    const { rows } = await runWithin('server_status', 'health', ask, STATE_MS)
    return rows[0]!.state
  } catch {
    return null
  }
}
