import type { Logger } from 'pino'
import { type Database, withClient } from '../db/database.js'

/** Estimated row counts of tables, for the price of requests. */
export interface RowCounts {
  /**
   * Returns about how many rows a table has: a power of ten that is at least 100, so that a role cannot count hidden rows.
   * @param table its `tableKey`
   */
  of(table: string): number
  /** Reads the statistics of PostgreSQL. */
  refresh(): Promise<void>
}

const FEWEST = 100
/** How long counts are used before they are read again. */
const FRESH_MS = 60_000

/** Partitions count for their table, which PostgreSQL has statistics of only after a manual `analyze`. */
const COUNTS = `
select t.table_schema || pg_catalog.chr(1) || t.table_name as table,
  case c.relkind
    when 'p' then (select pg_catalog.sum(greatest(l.reltuples, 0)) from pg_catalog.pg_partition_tree(c.oid) p join pg_catalog.pg_class l on l.oid = p.relid and p.isleaf)
    else c.reltuples
  end::float8 as rows
from svc_catalog.svc_table t
join pg_catalog.pg_namespace n on n.nspname = t.table_schema
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.table_name`

export function openRowCounts(database: Database, log: Logger): RowCounts {
  let counts: ReadonlyMap<string, number> = new Map()
  let readAt = -Infinity

  async function refresh(): Promise<void> {
    readAt = performance.now()
    try {
      const { rows } = await withClient(database.main, (client) =>
        client.query<{ table: string; rows: number | null }>(COUNTS),
      )
      counts = new Map(rows.map(({ table, rows: count }) => [table.replace('\x01', '\0'), roundedUp(count ?? 0)]))
    } catch (error) {
      log.debug({ err: error }, 'the row counts of tables could not be read')
    }
  }

  return {
    of(table) {
      if (performance.now() - readAt > FRESH_MS) void refresh()
      return counts.get(table) ?? FEWEST
    },
    refresh,
  }
}

const roundedUp = (rows: number): number => 10 ** Math.ceil(Math.log10(Math.max(FEWEST, rows)))
