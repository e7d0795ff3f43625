import { type Call, type Data, jsonAnswer, type Operation, ServiceError } from 'rowhouse'
import { compareTables, tableKey, type TableRef } from 'rowhouse/plan'
import { liftCount } from '../rows/lift/reads.js'
import { PLANNER } from '../rows/lift/shape.js'
import { args } from '../metadata/operation.js'

interface Size {
  readonly schema: string
  readonly name: string
  /** Null if PostgreSQL has no statistics of the table. */
  readonly rows: number | null
  readonly heap_bytes: number
  readonly bytes: number
  readonly index_bytes: number
}

/**
 * A table that was empty at its last `analyze` and has pages now has no statistics. A partitioned table has the sizes of its
 * partitions. The index of `pg_class (oid)` serves the subquery.
 */
const SIZES = `
select n.nspname as schema, c.relname as name, part.*
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
cross join lateral (
  select case when pg_catalog.count(*) = pg_catalog.count(each.rows) then coalesce(pg_catalog.sum(each.rows), 0)::float8 end as rows,
    coalesce(pg_catalog.sum(each.heap), 0)::float8 as heap_bytes,
    coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(each.oid)), 0)::float8 as bytes,
    coalesce(pg_catalog.sum(pg_catalog.pg_indexes_size(each.oid)), 0)::float8 as index_bytes
  from (
    select l.oid, heap, case when heap = 0 then 0 when l.reltuples >= 0 and l.relpages > 0
      then l.reltuples end as rows
    from (
      select c.oid where c.relkind <> 'p'
      union all select relid from pg_catalog.pg_partition_tree(c.oid) where c.relkind = 'p' and isleaf
    ) leaf
    join pg_catalog.pg_class l on l.oid = leaf.oid and l.relkind in ('r', 'm')
    cross join lateral (select pg_catalog.pg_relation_size(l.oid) as heap) size
  ) each
) part
where c.relkind in ('r', 'p', 'm')
  and (not c.relispartition or exists (
    select from svc_catalog.svc_table t where t.table_schema = n.nspname and t.table_name = c.relname))
  and not exists (
    select from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')`

/** Tables without statistics are counted up to this size and number. */
const MAX_BYTES = 8 * 1024 * 1024
const MAX_COUNTED = 100

/** The operation that tells the sizes of the tables in the database. */
export function tableSizesOperation(data: Data): Operation {
  return {
    admin: true,
    args: args({}),
    async run(_args, call) {
      const sizes = (await data.query<Size>(SIZES, [], call.transaction)).toSorted(compareTables)
      const { tables: tracked } = data.catalogFor(call)
      const isSmall = (size: Size) => size.rows === null && size.heap_bytes <= MAX_BYTES && tracked.has(tableKey(size))
      const small = sizes.filter(isSmall).slice(0, MAX_COUNTED)
      const counts = new Map<Size, number | null>()
      // A count that fails would end the transaction of a bulk.
      if (!call.transaction) for (const size of small) counts.set(size, await countRows(data, size, call))
      const tables = sizes.map((size) => ({
        table: { schema: size.schema, name: size.name },
        tracked: tracked.has(tableKey(size)),
        rows: size.rows ?? counts.get(size) ?? null,
        estimated: size.rows !== null,
        bytes: size.bytes,
        index_bytes: size.index_bytes,
      }))
      return jsonAnswer({ tables })
    },
  }
}

/** Returns null for a table that the login of the server may not read. */
async function countRows(data: Data, { schema, name }: TableRef, call: Call): Promise<number | null> {
  try {
    const answer = await data.run({ planner: PLANNER, ...liftCount({ table: { schema, name }, where: {} }) }, call)
    return (JSON.parse(answer as string) as { readonly count: number }).count
  } catch (error) {
    if (error instanceof ServiceError) return null
    throw error
  }
}
