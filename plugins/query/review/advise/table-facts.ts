import type { ClientBase } from 'pg'
import type { Candidate } from './candidates.js'

/** What PostgreSQL knows of a table and of the columns of an index on it. */
export interface TableFacts {
  /** Null without statistics. */
  readonly rows: number | null
  readonly bytes: number
  /** Estimated size of the index; null without statistics. */
  readonly indexBytes: number | null
  /** Updates of rows since the statistics were reset, and those that changed no index. */
  readonly updates: number
  readonly hotUpdates: number
  /** Whether an index begins with these columns. */
  readonly exists: boolean
  /** Statement that creates the index, and one that does so within a transaction. */
  readonly sql: string
  readonly plainSql: string
}

/**
 * An entry of an index has 12 bytes beside its values, which are padded to 8; pages are filled to 90 %. `pg_stats` shows what
 * the login may read. The indexes of `pg_index (indrelid)` and `pg_class (relname)` serve it.
 */
const FACTS = `
select case when sized.rows >= 0 then sized.rows end as rows, sized.bytes,
  case when sized.rows >= 0 and width.known = pg_catalog.cardinality($3::text[])
    then (sized.rows * (12 + 8 * pg_catalog.ceil(width.bytes / 8.0)) / 0.9)::float8 end as "indexBytes",
  coalesce(stat.n_tup_upd, 0)::float8 as updates, coalesce(stat.n_tup_hot_upd, 0)::float8 as "hotUpdates",
  exists (
    select from pg_catalog.pg_index i join pg_catalog.pg_class x on x.oid = i.indexrelid join pg_catalog.pg_am am on am.oid = x.relam
    where i.indrelid = c.oid and i.indpred is null and i.indisvalid and am.amname = 'btree'
      and (select pg_catalog.array_agg(a.attname::text order by k.place)
        from pg_catalog.unnest(i.indkey::int2[]) with ordinality k(number, place)
        join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
        where k.place <= least(pg_catalog.cardinality($3::text[]), i.indnkeyatts)) operator(pg_catalog.=) $3::text[]) as exists,
  pg_catalog.format('create index %son %I.%I (%s)', case when c.relkind = 'p' then '' else 'concurrently ' end, n.nspname, c.relname,
    columns.list) as sql,
  pg_catalog.format('create index on %I.%I (%s)', n.nspname, c.relname, columns.list) as "plainSql"
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_stat_all_tables stat on stat.relid = c.oid
cross join lateral (
  select case when pg_catalog.bool_and(l.reltuples >= 0) then pg_catalog.sum(l.reltuples)::float8 end as rows,
    pg_catalog.sum(pg_catalog.pg_relation_size(l.oid))::float8 as bytes
  from pg_catalog.pg_class l
  where l.oid = c.oid and c.relkind <> 'p'
    or c.relkind = 'p' and l.oid in (select relid from pg_catalog.pg_partition_tree(c.oid) where isleaf)) sized
cross join lateral (
  select pg_catalog.count(*) as known, coalesce(pg_catalog.sum(s.avg_width), 0) as bytes from pg_catalog.pg_stats s
  where s.schemaname = n.nspname and s.tablename = c.relname and s.attname = any($3::text[])) width
cross join lateral (
  select pg_catalog.string_agg(pg_catalog.format('%I', name), ', ' order by place) as list
  from pg_catalog.unnest($3::text[]) with ordinality each(name, place)) columns
where n.nspname = $1 and c.relname = $2`

export async function readFacts(client: ClientBase, { table, columns }: Candidate): Promise<TableFacts | undefined> {
  const { rows } = await client.query<TableFacts>(FACTS, [table.schema, table.name, columns])
  return rows[0]
}
