import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Level } from 'pino'
import type { Operation } from '../data/operations.js'
import type { DataService } from '../data/service.js'
import { type Database, withClient } from '../db/database.js'
import type { SlowQuery } from '../db/slow-queries.js'
import { unexpectedPayload } from '../errors.js'
import { LEVELS, type LogLines } from '../log-lines.js'
import type { Schema } from '../schema.js'
import { version } from '../version.js'
import { runWithin } from './lifecycle.js'
import type { Loaded } from './load.js'
import type { Applied } from './migrate.js'
import { OWNER, readFiles, statesOf } from './migration-files.js'

interface HealthOptions {
  readonly loaded: Loaded
  readonly database: Database
  readonly data: DataService
  readonly lines: LogLines
  /** Folder of the SQL files of the user. */
  readonly migrationsDir: string
}

/**
 * The operations that show an admin what this server does: `server_status`, `migration_status`,
 * `slow_queries` and `log_lines`.
 */
export function healthOperations({
  loaded,
  database,
  data,
  lines,
  migrationsDir,
}: HealthOptions): Record<string, Operation> {
  /** Tells servers, and lives of a server, apart. */
  const server = randomUUID()
  const startedAt = new Date()

  return {
    server_status: operation({}, async () => ({
      server,
      version,
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
      host: hostname(),
      pid: process.pid,
      started_at: startedAt,
      plugins: loaded.plugins.map(({ plugin }) => plugin.name),
      providers: [...loaded.providers].flatMap(([kind, { byName, default: chosen }]) =>
        [...byName].map(([name, { provider }]) => ({
          kind,
          name,
          provider: provider.name,
          default: name === chosen || byName.size === 1,
        })),
      ),
      metadata: { version: data.catalog.version, listening: data.listening },
      pools: [...database.pools].map(([name, { max, states }]) => ({ name, max, ...states() })),
      compile: data.compiling,
      database: await stateOf(database),
    })),
    migration_status: operation({}, async () => {
      const rows = await data.query<Applied>('select id, checksum from svc_catalog.svc_migration where owner = $1', [
        OWNER,
      ])
      try {
        const files = await readFiles(migrationsDir)
        const states = statesOf(files, new Map(rows.map(({ id, checksum }) => [id, checksum])))
        return { dir: migrationsDir, migrations: [...states].map(([id, state]) => ({ id, state })) }
      } catch (error) {
        const ids = rows.map(({ id }) => id).toSorted()
        const problem = error instanceof Error ? error.message : String(error)
        return { dir: migrationsDir, problem, migrations: ids.map((id) => ({ id, state: 'applied' })) }
      }
    }),
    slow_queries: operation({ plan: { type: 'string' } }, async ({ plan }, call) => {
      const { slowQueries } = data
      if (typeof plan !== 'string') {
        const { thresholdMs } = slowQueries
        return {
          server,
          threshold_ms: thresholdMs === Infinity ? null : thresholdMs,
          queries: slowQueries.all.map(described),
        }
      }
      const query = slowQueries.get(plan)
      if (!query) throw unexpectedPayload(`this server has no slow query "${plan}"`, '$.args.plan')
      if (query.isCut) throw unexpectedPayload('its SQL is too long to be kept for its plan', '$.args.plan')
      return { id: query.id, sql: query.sql, plan: await data.genericPlan(query.sql, call) }
    }),
    log_lines: {
      admin: true,
      args: args({ after: { type: 'integer', minimum: 0 }, level: { type: 'string', enum: LEVELS } }),
      async run(given) {
        const { after = 0, level = 'trace' } = given as { readonly after?: number; readonly level?: Level }
        // A number above the last is that of a line before a restart.
        const found = lines.after(after > lines.last ? 0 : after, level)
        const texts = found.map(({ number, text }) => `{"number":${number},"line":${text.trimEnd()}}`)
        return { kind: 'text', text: `{"server":"${server}","last":${lines.last},"lines":[${texts.join(',')}]}` }
      },
    },
  }
}

const args = (properties: Record<string, Schema>): Schema => ({
  type: 'object',
  properties,
  additionalProperties: false,
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
const STATE = `select json_build_object(
  'version', current_setting('server_version'),
  'standby', pg_is_in_recovery(),
  'metadata_version', (select version::text from svc_catalog.svc_version),
  'migrations', (select json_object_agg(owner, id)
    from (select owner, max(id) as id from svc_catalog.svc_migration group by owner) m),
  'servers', (select json_agg(s order by since) from (
    select host(client_addr) as address, client_addr is not distinct from inet_client_addr() as own,
      count(*) filter (where application_name = 'rowhouse listen') as servers, count(*) as connections,
      min(backend_start) as since
    from pg_stat_activity where datname = current_database() and application_name like 'rowhouse %'
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
