import type { ClientBase } from 'pg'
import { at, notExists } from '../errors.js'
import type { TableRef } from '../ir.js'
import type { ForeignKey } from '../catalog/catalog.js'
import { CATALOG_SCHEMA } from './schema.js'

/** What to look for. Without either: all schemas but those of PostgreSQL, of extensions and of Rowhouse. */
export interface Wanted {
  readonly schemas?: readonly string[]
  readonly tables?: readonly TableRef[]
}
/** What the database has, tracked or not. */
export interface Survey {
  /** Without partitions, unless they are named. */
  readonly tables: readonly SurveyedTable[]
  /** Functions that could be tracked. None when tables are named. */
  readonly functions: readonly Surveyed[]
}
interface Surveyed extends TableRef {
  /** Why it should only be tracked if it is named. */
  readonly reason: string | null
}
interface SurveyedTable extends Surveyed {
  /** The columns of each unique index, also those without a constraint. */
  readonly unique: readonly (readonly string[])[]
  /** Foreign keys that all partitions have, and the table itself has not. */
  readonly partitionKeys: readonly Omit<ForeignKey, 'name'>[]
}

/**
 * Lists the tables and functions of the database in the order of their names. Does not read their columns.
 * @throws ServiceError 400 `not-exists`: a schema
 */
export async function survey(client: ClientBase, { schemas, tables }: Wanted = {}): Promise<Survey> {
  for (const [i, schema] of (schemas ?? []).entries()) {
    const { rowCount } = await client.query('select from pg_catalog.pg_namespace where nspname = $1', [schema])
    if (rowCount === 0) throw notExists(`schema "${schema}" does not exist`, at('$.args.schemas', i))
  }
  const found = await client.query<SurveyedTable>(TABLES, [schemas, tables && JSON.stringify(tables)])
  if (tables) return { tables: found.rows, functions: [] }
  const functions = await client.query<Surveyed>(FUNCTIONS, [schemas])
  return { tables: found.rows, functions: functions.rows }
}

const extension = (catalog: string, oid: string): string => `(
    select pg_catalog.format('belongs to the extension "%s"', e.extname)
    from pg_catalog.pg_depend d join pg_catalog.pg_extension e on e.oid = d.refobjid
    where d.classid = '${catalog}'::regclass and d.objid = ${oid} and d.deptype = 'e')`

const IN_SCHEMAS = `case when $1::text[] is not null then n.nspname = any ($1)
    else n.nspname !~ '^pg_' and n.nspname not in ('information_schema', '${CATALOG_SCHEMA}')
      and ${extension('pg_namespace', 'n.oid')} is null
    end`

const columnsOf = (table: string, numbers: string): string => `(
      select pg_catalog.json_agg(a.attname order by u.i)::text from pg_catalog.unnest(${numbers}) with ordinality u(num, i)
      join pg_catalog.pg_attribute a on a.attrelid = ${table} and a.attnum = u.num)`

/** The index on `pg_constraint (conrelid)` serves it. Constraints of the table itself have copies, whose `conparentid` is set. */
const PARTITION_KEYS = `coalesce((
    select pg_catalog.json_agg(pg_catalog.json_build_object('table', k.ref, 'columns', k.own::json, 'remoteColumns', k.other::json) order by k.own)
    from (
      select pg_catalog.json_build_object('schema', m.nspname, 'name', r.relname)::jsonb as ref,
        ${columnsOf('con.conrelid', 'con.conkey')} as own, ${columnsOf('con.confrelid', 'con.confkey')} as other
      from pg_catalog.pg_partition_tree(c.oid) p
      join pg_catalog.pg_constraint con on con.conrelid = p.relid and con.contype = 'f' and con.conparentid = 0
      join pg_catalog.pg_class r on r.oid = con.confrelid join pg_catalog.pg_namespace m on m.oid = r.relnamespace
      where p.isleaf
      group by 1, 2, 3
      having pg_catalog.count(distinct con.conrelid) = (select pg_catalog.count(*) from pg_catalog.pg_partition_tree(c.oid) l where l.isleaf)
    ) k
  ), '[]')`

/** The catalogs' indexes on `pg_depend (classid, objid)` and `pg_index (indrelid)` serve the subqueries. */
const TABLES = `
select n.nspname as schema, c.relname as name,
  coalesce(
    ${extension('pg_class', 'c.oid')},
    case when not pg_catalog.has_schema_privilege(n.oid, 'usage')
      or not pg_catalog.has_table_privilege(c.oid, 'select, insert, update, delete')
        and not pg_catalog.has_any_column_privilege(c.oid, 'select, insert, update')
      then 'the database login of the server has no privileges on it' end
  ) as reason,
  coalesce((
    select pg_catalog.json_agg((
      select pg_catalog.json_agg(a.attname) from pg_catalog.pg_attribute a
      where a.attrelid = i.indrelid and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])))
    from pg_catalog.pg_index i
    where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
  ), '[]') as unique,
  case when c.relkind = 'p' then ${PARTITION_KEYS} else '[]' end as "partitionKeys"
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f')
  and case when $2::json is not null
    then (n.nspname, c.relname) in (select schema, name from pg_catalog.json_to_recordset($2) as w(schema text, name text))
    else not c.relispartition and ${IN_SCHEMAS}
    end
order by n.nspname, c.relname`

const WITH_ROWS = `'r', 'p', 'v', 'm', 'f'`

/** Functions that take a row of a table are left to computed fields. */
const FUNCTIONS = `
select distinct on (n.nspname, p.proname) n.nspname as schema, p.proname as name,
  case when not pg_catalog.has_function_privilege(p.oid, 'execute')
    then 'the database login of the server may not call it'
    when c.oid is null then 'returns no rows of a table; track_function tracks it' end as reason
from pg_catalog.pg_proc p
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
join pg_catalog.pg_type t on t.oid = p.prorettype
left join pg_catalog.pg_class c on c.oid = t.typrelid and c.relkind in (${WITH_ROWS})
where ${extension('pg_proc', 'p.oid')} is null and ${IN_SCHEMAS}
  and case when c.oid is not null then p.prokind = 'f'
    else p.prokind in ('f', 'p') and (t.typtype <> 'p' or t.typname = 'void' or p.proallargtypes is not null)
      and not exists (
        select from pg_catalog.pg_type a left join pg_catalog.pg_class of on of.oid = a.typrelid
        where a.oid = any (p.proargtypes) and (a.typtype = 'p' or of.relkind in (${WITH_ROWS})))
      and not exists (
        select from pg_catalog.pg_proc o where o.pronamespace = p.pronamespace and o.proname = p.proname and o.oid <> p.oid)
    end
order by n.nspname, p.proname, c.oid is null, p.oid`
