import type { ClientBase } from 'pg'
import type { SqlType, TableRef } from '../plan/ir.js'
import { tableKey } from './catalog.js'
import { labelsOf, type RawType, readType } from './introspect.js'

/** A function in PostgreSQL. */
export interface FoundFunction extends TableRef {
  readonly oid: number
  /** Number of functions with this name. Overloaded functions cannot be identified by name. */
  readonly overloads: number
  readonly volatile: boolean
  /** Whether it is variadic, has output arguments, or is polymorphic. */
  readonly unusual: boolean
  readonly many: boolean
  readonly result: FoundType
  readonly arguments: readonly FoundArgument[]
}
export interface FoundArgument {
  readonly name?: string
  readonly type: FoundType
  readonly optional: boolean
}
/** `row`: the table whose row type it is. */
export type FoundType = SqlType & { readonly row?: TableRef }

/**
 * Reads the named functions from `pg_catalog` and omits missing ones. Excludes procedures, aggregates and window
 * functions.
 * @returns by `tableKey`
 */
export async function introspectFunctions(
  client: ClientBase,
  functions: readonly TableRef[],
): Promise<Map<string, FoundFunction>> {
  if (functions.length === 0) return new Map()
  const { rows } = await client.query<RawFunction>(QUERY, [JSON.stringify(functions)])
  return new Map(rows.map((raw) => [tableKey(raw), readFunction(raw)]))
}

interface RawFunction extends TableRef {
  readonly oid: number
  readonly overloads: number
  readonly volatility: string
  readonly unusual: boolean
  readonly many: boolean
  readonly defaults: number
  readonly names: readonly string[] | null
  readonly result: number
  readonly arguments: readonly number[]
  readonly types: Readonly<Record<string, RawType & { element: RawType | null; row: TableRef | null }>>
}

function readFunction(raw: RawFunction): FoundFunction {
  const type = (oid: number): FoundType => {
    const { element, row, ...own } = raw.types[oid] as RawFunction['types'][string]
    return { ...readType(own), ...(element ? { element: readType(element) } : {}), ...(row ? { row } : {}) }
  }
  const { schema, name, oid, overloads, unusual, many } = raw
  const first = raw.arguments.length - raw.defaults
  return {
    schema,
    name,
    oid,
    overloads,
    unusual,
    many,
    volatile: raw.volatility === 'v',
    result: type(raw.result),
    arguments: raw.arguments.map((argument, i) => {
      const own = raw.names?.[i] ?? ''
      return { ...(own === '' ? {} : { name: own }), type: type(argument), optional: i >= first }
    }),
  }
}

/** Domains are replaced with their base types, as for columns. */
const QUERY = `
with recursive found as (
  select p.*, n.nspname, count(*) over (partition by p.pronamespace, p.proname)::int as overloads
  from json_to_recordset($1::json) as w(schema text, name text)
  join pg_namespace n on n.nspname = w.schema
  join pg_proc p on p.pronamespace = n.oid and p.proname = w.name and p.prokind = 'f'
),
function as (select distinct on (pronamespace, proname) * from found order by pronamespace, proname, oid),
base(oid, base) as (
  select t.oid, t.oid from function join pg_type t on t.oid = prorettype or t.oid = any (proargtypes)
  union
  select base.oid, t.typbasetype from base join pg_type t on t.oid = base.base where t.typtype = 'd'
),
type as (
  select base.oid, json_build_object(
    'schema', n.nspname, 'name', t.typname, 'type', t.typtype, 'category', t.typcategory, 'array', r.typname,
    'labels', ${labelsOf('t')},
    'element', case when t.typcategory = 'A' and e.oid is not null then json_build_object(
      'schema', en.nspname, 'name', e.typname, 'type', e.typtype, 'category', e.typcategory, 'array', null,
      'labels', ${labelsOf('e')}) end,
    'row', case when c.relkind in ('r', 'p', 'v', 'm', 'f')
      then json_build_object('schema', cn.nspname, 'name', c.relname) end
  ) as type
  from base
  join pg_type t on t.oid = base.base and t.typtype <> 'd'
  join pg_namespace n on n.oid = t.typnamespace
  left join pg_type r on r.oid = t.typarray
  left join pg_type e on e.oid = t.typelem
  left join pg_namespace en on en.oid = e.typnamespace
  left join pg_class c on c.oid = t.typrelid
  left join pg_namespace cn on cn.oid = c.relnamespace
)
select oid::int8::float8 as oid, nspname as schema, proname as name, overloads, provolatile as volatility,
  provariadic <> 0 or coalesce(array_to_string(proargmodes, '') ~ '[^i]', false)
    or exists (select from pg_type t where t.oid = any (proargtypes) and t.typtype = 'p') as unusual,
  proretset as many, pronargdefaults as defaults, proargnames as names, prorettype::int8::float8 as result,
  array(select a::int8::float8 from unnest(proargtypes) with ordinality as u(a, ord) order by ord) as arguments,
  (select json_object_agg(type.oid::int8, type.type) from type
   where type.oid = prorettype or type.oid = any (proargtypes)) as types
from function order by nspname, proname`
