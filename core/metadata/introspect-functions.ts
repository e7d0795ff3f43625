import type { ClientBase } from 'pg'
import { prepared } from '../db/prepared.js'
import type { SqlType, TableRef } from '../ir.js'
import { tableKey } from '../catalog/catalog.js'
import { fieldsOf, labelsOf, lacking, type RawType, readType } from './introspect.js'

/** A function or procedure in PostgreSQL. */
export interface FoundFunction extends TableRef {
  readonly oid: number
  /** Number of functions with this name. Overloaded functions cannot be identified by name. */
  readonly overloads: number
  readonly procedure: boolean
  readonly volatile: boolean
  /** Why it cannot be tracked, e.g. `is an aggregate`. */
  readonly unfit?: string
  readonly many: boolean
  readonly result: FoundType
  /** Columns of the result: its output arguments, or the attributes of its composite type, which is not that of a table. */
  readonly columns?: readonly FoundColumn[]
  /** Those of a procedure include its output arguments, which a call must mention. */
  readonly arguments: readonly FoundArgument[]
  /** PostgreSQL's estimates: the cost of a call, 1 for a simple built-in function, and the number of rows. */
  readonly cost: number
  readonly rows: number
}
interface FoundColumn {
  readonly name: string
  readonly type: SqlType
}
export interface FoundArgument {
  readonly name?: string
  readonly type: FoundType
  readonly optional: boolean
  readonly variadic?: true
  readonly out?: true
}
/** `row`: the table whose row type it is. */
type FoundType = SqlType & { readonly row?: TableRef }

/**
 * Reads the named functions and procedures from `pg_catalog` and omits missing ones.
 * @returns by `tableKey`
 */
export async function introspectFunctions(
  client: ClientBase,
  functions: readonly TableRef[],
): Promise<Map<string, FoundFunction>> {
  if (functions.length === 0) return new Map()
  const given = { functions: JSON.stringify(functions) }
  const rows = await prepared<RawFunction>(client, 'rowhouse functions', QUERY, given)
  return new Map(rows.map((raw) => [tableKey(raw), readFunction(raw)]))
}

interface RawFunction extends TableRef {
  readonly oid: number
  readonly kind: string
  readonly overloads: number
  readonly volatility: string
  readonly unfit: string | null
  readonly many: boolean
  readonly cost: number
  readonly rows: number
  readonly defaults: number
  readonly names: readonly string[] | null
  /** `i`, `o`, `b` (both), `v` (variadic) or `t` (a column of `returns table`); null: all are inputs. */
  readonly modes: readonly string[] | null
  readonly result: number
  /** All arguments, those of `modes`. */
  readonly arguments: readonly number[]
  readonly attributes: readonly { readonly name: string; readonly type: number }[] | null
  readonly types: Readonly<Record<string, RawType & { element: RawType | null; row: TableRef | null }>>
}

function readFunction(raw: RawFunction): FoundFunction {
  const type = (oid: number): FoundType => {
    const { element, row, ...own } = raw.types[oid] as RawFunction['types'][string]
    return { ...readType(own), ...(element ? { element: readType(element) } : {}), ...(row ? { row } : {}) }
  }
  const plain = (oid: number): SqlType => {
    const { row: _, ...own } = type(oid)
    return own
  }
  const { schema, name, oid, overloads, many, cost, rows } = raw
  const procedure = raw.kind === 'p'
  const all = raw.arguments.map((argument, i) => ({
    name: raw.names?.[i] ?? '',
    type: argument,
    mode: raw.modes?.[i] ?? 'i',
  }))
  const outs = all
    .filter(({ mode }) => 'obt'.includes(mode))
    // PostgreSQL names them so.
    .map((out, i) => ({ name: out.name === '' ? `column${i + 1}` : out.name, type: plain(out.type) }))
  const attributes = raw.attributes?.map((attribute) => ({ name: attribute.name, type: plain(attribute.type) }))
  const result = type(raw.result)
  // A function with one output argument of a composite type returns that type.
  const isComposite = result.kind === 'row' && !procedure
  const columns = outs.length > 0 && !isComposite ? outs : attributes
  const inputs = all.filter(({ mode }) => 'ibv'.includes(mode)).length
  let input = 0
  return {
    schema,
    name,
    oid,
    overloads,
    procedure,
    ...(raw.unfit === null ? {} : { unfit: raw.unfit }),
    many,
    cost,
    rows,
    volatile: procedure || raw.volatility === 'v',
    result,
    ...(columns ? { columns } : {}),
    arguments: all
      .filter(({ mode }) => mode !== 't' && (procedure || mode !== 'o'))
      .map((argument) => ({
        ...(argument.name === '' ? {} : { name: argument.name }),
        type: type(argument.type),
        optional: argument.mode !== 'o' && input++ >= inputs - raw.defaults,
        ...(argument.mode === 'v' ? { variadic: true as const } : {}),
        ...(argument.mode === 'o' ? { out: true as const } : {}),
      })),
  }
}

/**
 * Domains are replaced with their base types, as for columns. A function is preferred to a procedure and an aggregate
 * of the same name.
 */
const QUERY = `
with recursive found as (
  select p.*, n.nspname, coalesce(p.proallargtypes, p.proargtypes::oid[]) as every,
    pg_catalog.count(*) over (partition by p.pronamespace, p.proname, p.prokind)::int as overloads
  from pg_catalog.json_to_recordset(pg_catalog.current_setting('rowhouse.functions')::json) as w(schema text, name text)
  join pg_catalog.pg_namespace n on n.nspname = w.schema
  join pg_catalog.pg_proc p on p.pronamespace = n.oid and p.proname = w.name
),
function as (
  select distinct on (pronamespace, proname) * from found order by pronamespace, proname, position(prokind in 'fpaw'), oid
),
own(oid, base) as (
  select t.oid, t.oid from function join pg_catalog.pg_type t on t.oid = prorettype or t.oid = any (every)
  union
  select own.oid, t.typbasetype from own join pg_catalog.pg_type t on t.oid = own.base where t.typtype = 'd'
),
attribute as (
  select function.oid as function, a.attnum, a.attname, a.atttypid
  from function
  join own on own.oid = function.prorettype
  join pg_catalog.pg_type t on t.oid = own.base
  join pg_catalog.pg_class c on c.oid = t.typrelid and c.relkind = 'c'
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
),
base(oid, base) as (
  select oid, base from own
  union
  select atttypid, atttypid from attribute
  union
  select base.oid, t.typbasetype from base join pg_catalog.pg_type t on t.oid = base.base where t.typtype = 'd'
),
inner_type(oid, base) as (
  select distinct t.typelem, t.typelem from base join pg_catalog.pg_type t on t.oid = base.base where t.typcategory = 'A'
  union
  select inner_type.oid, t.typbasetype from inner_type join pg_catalog.pg_type t on t.oid = inner_type.base where t.typtype = 'd'
),
element as (
  select inner_type.oid as of, e.* from inner_type join pg_catalog.pg_type e on e.oid = inner_type.base and e.typtype <> 'd'
),
type as materialized (
  select base.oid, pg_catalog.json_build_object(
    'schema', n.nspname, 'name', t.typname, 'type', t.typtype, 'category', t.typcategory, 'array', r.typname,
    'labels', ${labelsOf('t')}, 'lacks', ${lacking('t')}, 'fields', ${fieldsOf('t')},
    'element', case when t.typcategory = 'A' and e.oid is not null then pg_catalog.json_build_object(
      'schema', en.nspname, 'name', e.typname, 'type', e.typtype, 'category', e.typcategory, 'array', null,
      'labels', ${labelsOf('e')}, 'lacks', ${lacking('e')}, 'fields', ${fieldsOf('e')}) end,
    'row', case when c.relkind in ('r', 'p', 'v', 'm', 'f')
      then pg_catalog.json_build_object('schema', cn.nspname, 'name', c.relname) end
  ) as type
  from base
  join pg_catalog.pg_type t on t.oid = base.base and t.typtype <> 'd'
  join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  left join pg_catalog.pg_type r on r.oid = t.typarray
  left join element e on e.of = t.typelem
  left join pg_catalog.pg_namespace en on en.oid = e.typnamespace
  left join pg_catalog.pg_class c on c.oid = t.typrelid
  left join pg_catalog.pg_namespace cn on cn.oid = c.relnamespace
)
select oid::int8::float8 as oid, nspname as schema, proname as name, prokind as kind, overloads,
  provolatile as volatility, proretset as many, procost::float8 as cost, prorows::float8 as rows,
  pronargdefaults as defaults, proargnames as names, proargmodes::text[] as modes, prorettype::int8::float8 as result,
  case when prokind = 'a' then 'is an aggregate' when prokind = 'w' then 'is a window function' else coalesce(
    (select pg_catalog.format('has arguments that are not plain inputs (%s)', t.typname) from pg_catalog.pg_type t
     where t.oid = any (every) and t.typtype = 'p' limit 1),
    (select pg_catalog.format('returns %s, which is no value', t.typname) from pg_catalog.pg_type t
     where t.oid = prorettype and t.typtype = 'p' and t.typname not in ('void', 'record'))
  ) end as unfit,
  array(select a::int8::float8 from pg_catalog.unnest(every) with ordinality as u(a, ord) order by ord) as arguments,
  (select pg_catalog.json_agg(pg_catalog.json_build_object('name', attname, 'type', atttypid::int8) order by attnum)
   from attribute where attribute.function = function.oid) as attributes,
  (select pg_catalog.json_object_agg(type.oid::int8, type.type) from type
   where type.oid = prorettype or type.oid = any (every)
     or type.oid in (select atttypid from attribute where attribute.function = function.oid)) as types
from function order by nspname, proname`
