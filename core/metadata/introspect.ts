import type { ClientBase } from 'pg'
import { prepared } from '../db/prepared.js'
import type { SqlType, TableRef, TypeKind } from '../ir.js'
import { type Column, type Constraint, type ForeignKey, type TableData, tableKey } from '../catalog/catalog.js'
import type { Marks } from './metadata.js'
import { CAPTURE_PREFIX as PREFIX } from './schema.js'

/** A table in PostgreSQL. */
export interface DatabaseTable extends Omit<
  TableData,
  'relationships' | 'computedFields' | 'permissions' | 'customization' | 'system'
> {
  readonly oid: number
  readonly columns: readonly FoundColumn[]
  /** Names of the triggers of captures that it has, and all its partitions and heirs, too. */
  readonly captured?: readonly string[]
}
export interface FoundColumn extends Column {
  /** `attnum`: stays the same when a column is renamed. */
  readonly number: number
}

/**
 * Reads the named tables from `pg_catalog` in one query, with a mark of each. Omits missing ones.
 * @returns by `tableKey`
 */
export async function introspect(client: ClientBase, tables: readonly TableRef[]): Promise<FoundTables> {
  return inOrder(await readParts(client, tables, false), tables)
}

/** Reads the given tables and all tracked ones, in no particular order. */
export const introspectTracked = (client: ClientBase, tables: readonly TableRef[]): Promise<FoundTables> =>
  readParts(client, tables, true)

/** Sorts the result like `tables`, so that lists of dependents do not depend on PostgreSQL's order. */
export function inOrder(found: FoundTables, tables: readonly TableRef[]): FoundTables {
  const keys = tables.map(tableKey).filter((key) => found.tables.has(key))
  return {
    tables: new Map(keys.map((key) => [key, found.tables.get(key) as DatabaseTable])),
    marks: new Map(keys.map((key) => [key, found.marks.get(key) as string])),
  }
}

async function readParts(client: ClientBase, tables: readonly TableRef[], andTracked: boolean): Promise<FoundTables> {
  if (tables.length === 0 && !andTracked) return { tables: new Map(), marks: new Map() }
  const rows = await ask(client, tables, andTracked ? 'tables and tracked' : 'tables')
  const byOid = new Map<number, Partial<RawTable>>()
  const types = new Map<number, SqlType>()
  const marks = new Map<number, string>()
  for (const { oid, part, value } of rows) {
    if (part === 'type') {
      types.set(oid, readColumnType(value as RawColumnType))
      continue
    }
    if (part === 'mark') {
      marks.set(oid, (value as Mark).mark)
      continue
    }
    const raw = byOid.get(oid) ?? {}
    byOid.set(oid, raw)
    Object.assign(raw, part === 'table' ? value : { [part]: value })
  }
  const found = [...byOid.values()].map((raw) => readTable(raw as RawTable, types))
  return {
    tables: new Map(found.map((table) => [tableKey(table), table])),
    marks: new Map(found.map((table) => [tableKey(table), marks.get(table.oid) as string])),
  }
}

/** Tables by `tableKey`. */
export interface FoundTables {
  readonly tables: ReadonlyMap<string, DatabaseTable>
  readonly marks: Marks
}

/** Returns the marks of the named tables that exist. A mark covers everything that `introspect` would read. */
export async function introspectMarks(client: ClientBase, tables: readonly TableRef[]): Promise<Marks> {
  const rows = await ask(client, tables, 'marks')
  return new Map(rows.map(({ value }) => [tableKey(value as Mark), (value as Mark).mark]))
}

/**
 * Returns a digest of all definitions in the database. It changes with any of them, and with nothing else that happens
 * often: while it is the same, nothing that was read here or in `introspect-functions.ts` can have changed.
 */
export async function introspectState(client: ClientBase): Promise<string> {
  const [{ state } = { state: '' }] = await prepared<{ state: string }>(client, 'rowhouse state', STATE)
  return state
}

const ask = (client: ClientBase, tables: readonly TableRef[], read: 'tables' | 'tables and tracked' | 'marks') =>
  prepared<Part>(client, 'rowhouse tables', QUERY, { tables: JSON.stringify(tables), read })

/**
 * One kind of facts about a table, or a type shared by many columns. Kinds are separate rows, because a join of the
 * aggregates would make PostgreSQL compute them per table.
 */
interface Part {
  readonly oid: number
  readonly part: 'type' | 'mark' | 'table' | 'columns' | 'keys' | 'rules' | 'foreign_keys' | 'geo'
  readonly value: object
}
type Mark = TableRef & { readonly mark: string }

/** Finds tables by oid, to detect renames. */
export async function namesByOid(client: ClientBase, oids: readonly number[]): Promise<Map<number, TableRef>> {
  const { rows } = await client.query<TableRef & { oid: number }>(
    `select c.oid::int8::float8 as oid, n.nspname as schema, c.relname as name
     from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where c.oid = any($1::oid[])`,
    [oids],
  )
  return new Map(rows.map(({ oid, schema, name }) => [oid, { schema, name }]))
}

interface RawTable extends TableRef {
  oid: number
  relkind: string
  events: number
  own_transaction: boolean
  asks_writer: boolean
  captured: string[] | null
  inherited: boolean
  columns?: RawColumn[]
  /** Columns by number. */
  keys?: (RawConstraint & { primary: boolean })[]
  rules?: RawConstraint[]
  foreign_keys?: (Omit<ForeignKey, 'columns'> & { columns: number[] })[]
  /** Columns of PostGIS types by number, with their modifiers: `ext.geometry(Point,4326)`. */
  geo?: Record<string, string>
}
interface RawConstraint {
  name: string
  /** Columns by number; 0 is an expression, and an empty list a rule about the whole row. */
  columns: number[] | null
}
interface RawColumn {
  number: number
  name: string
  not_null: boolean
  generated: string
  identity: string
  default: string | null
  nondeterministic: boolean
  nested: boolean
  derived: boolean
  /** Oid of the type. */
  type: number
}
interface RawColumnType {
  type: RawType
  element: RawType | null
}
export interface RawType {
  schema: string
  name: string
  type: string
  category: string
  array: string | null
  /** Values of an enum. */
  labels: string[] | null
  lacks?: NonNullable<SqlType['lacks']>
  /** Schema of `pg_trgm`, for texts. */
  trigram?: string | null
  fields?: readonly RawField[] | null
}
/** A field of a composite, within it: the names of fields that lead to it, and null for the elements of an array. */
interface RawField {
  path: readonly (string | null)[]
  type: Omit<RawType, 'array' | 'labels'>
}

const KINDS: Record<string, TableData['kind']> = {
  r: 'table',
  p: 'partitioned',
  v: 'view',
  m: 'materialized view',
  f: 'foreign table',
}
const INSERT = 8
const UPDATE = 4
const DELETE = 16

function readTable(raw: RawTable, types: ReadonlyMap<number, SqlType>): DatabaseTable {
  const kind = KINDS[raw.relkind] as TableData['kind']
  const plain = kind === 'table' || kind === 'partitioned'
  const names = new Map((raw.columns ?? []).map(({ number, name }) => [number, name]))
  const named = (columns: readonly number[] | null): string[] =>
    (columns ?? []).map((number) => names.get(number) ?? '')
  const constraint = ({ name, columns }: RawConstraint): Constraint => ({ name, columns: named(columns) })
  return {
    schema: raw.schema,
    name: raw.name,
    oid: raw.oid,
    kind,
    insertable: plain || (raw.events & INSERT) !== 0,
    updatable: plain || (raw.events & UPDATE) !== 0,
    deletable: plain || (raw.events & DELETE) !== 0,
    ...(raw.own_transaction ? { ownTransaction: true as const } : {}),
    ...(raw.asks_writer ? { asksWriter: true as const } : {}),
    ...(raw.captured ? { captured: raw.captured } : {}),
    ...(raw.inherited ? { inherited: true as const } : {}),
    columns: (raw.columns ?? []).map((column) => {
      return readColumn(column, withSrid(types.get(column.type) as SqlType, raw.geo?.[column.number]))
    }),
    primaryKey: named(raw.keys?.find((key) => key.primary)?.columns ?? []),
    keys: (raw.keys ?? []).map(constraint),
    rules: (raw.rules ?? []).map(constraint),
    foreignKeys: (raw.foreign_keys ?? []).map((key) => ({ ...key, columns: named(key.columns) })),
  }
}

function readColumn(raw: RawColumn, type: SqlType): FoundColumn {
  return {
    name: raw.name,
    number: raw.number,
    type: raw.nondeterministic ? { ...type, nondeterministic: true } : raw.nested ? { ...type, nested: true } : type,
    nullable: !raw.not_null,
    ...(raw.derived ? { derived: true as const } : {}),
    ...(raw.default === null || raw.generated !== '' ? {} : { default: raw.default }),
    ...(raw.generated !== '' || raw.identity === 'a'
      ? { generated: 'always' as const }
      : raw.identity === 'd'
        ? { generated: 'identity' as const }
        : {}),
    ...(raw.identity === '' ? {} : { identity: true as const }),
  }
}

export function readType({
  schema,
  name,
  type,
  category,
  array,
  labels,
  lacks = [],
  trigram = null,
  fields = null,
}: RawType): SqlType {
  return {
    schema,
    name,
    kind: kindOf(name, type, category),
    ...(array === null ? {} : { array }),
    ...(type === 'e' ? { enum: true as const, labels: labels ?? [] } : {}),
    ...(lacks.length > 0 ? { lacks } : {}),
    ...(trigram === null ? {} : { trigram }),
    ...(fields === null ? {} : { fields: readFields(fields) }),
  }
}

/** Arranges fields as the composites that have them. */
function readFields(fields: readonly RawField[]): NonNullable<SqlType['fields']> {
  const names = [...new Set(fields.map(({ path: [name] }) => name as string))]
  return Object.fromEntries(names.map((name) => [name, readField(fields.filter(({ path }) => path[0] === name))]))
}

/** @param fields with the same path so far */
function readField(fields: readonly RawField[]): SqlType {
  const within = fields.map(({ path: [, ...path], type }): RawField => ({ path, type }))
  const { path, type } = within[0] as RawField
  if (path.length === 0) return readType({ ...type, array: null, labels: null })
  if (path[0] === null) return { schema: '', name: '', kind: 'array', element: readField(within) }
  return { schema: '', name: '', kind: 'row', fields: readFields(within) }
}

const readColumnType = ({ type, element }: RawColumnType): SqlType => ({
  ...readType(type),
  ...(element ? { element: readType(element) } : {}),
})

function withSrid(type: SqlType, geo = ''): SqlType {
  const srid = /,(\d+)\)$/.exec(geo)?.[1]
  return srid === undefined ? type : { ...type, srid: Number(srid) }
}

function kindOf(name: string, type: string, category: string): TypeKind {
  switch (name) {
    case 'int2':
    case 'int4':
    case 'int8':
    case 'numeric':
    case 'bool':
    case 'json':
    case 'jsonb':
      return name
    case 'float4':
    case 'float8':
      return 'float'
  }
  if (type === 'c') return 'row'
  if (type === 'r') return 'range'
  if (type === 'm') return 'multirange'
  if (type === 'b' && category === 'U' && (name === 'geometry' || name === 'geography' || name === 'hstore'))
    return name
  return category === 'A' ? 'array' : category === 'S' ? 'text' : 'other'
}

/**
 * Functions with smaller oids belong to PostgreSQL. `pg_depend` does not list them, so they are read from the
 * expressions.
 */
const FIRST_OWN_OID = 16_384
const literals = (names: string): string =>
  names
    .split(' ')
    .map((name) => `'${name}'`)
    .join()
/** Volatile functions of PostgreSQL that neither depend on the transaction nor affect it. */
const HARMLESS = literals(
  'nextval currval lastval random random_normal gen_random_uuid uuidv4 uuidv7 clock_timestamp timeofday',
)
/** Stable functions of PostgreSQL whose result depends on the transaction. */
const TELLS_TRANSACTIONS = literals(
  'txid_current txid_current_if_assigned txid_current_snapshot pg_current_xact_id pg_current_xact_id_if_assigned pg_current_snapshot',
)

/** Catalogs of PostgreSQL with a condition that leaves out what belongs to every database. */
const DEFINITIONS = {
  pg_attribute: `attrelid >= ${FIRST_OWN_OID} and attnum > 0`,
  pg_attrdef: 'true',
  pg_cast: `oid >= ${FIRST_OWN_OID}`,
  pg_class: `oid >= ${FIRST_OWN_OID}`,
  pg_collation: `oid >= ${FIRST_OWN_OID}`,
  pg_constraint: `oid >= ${FIRST_OWN_OID}`,
  pg_depend: `refclassid = 'pg_catalog.pg_extension'::regclass`,
  pg_enum: 'true',
  pg_extension: 'true',
  pg_namespace: 'true',
  pg_opclass: `oid >= ${FIRST_OWN_OID}`,
  pg_operator: `oid >= ${FIRST_OWN_OID}`,
  pg_policy: 'true',
  pg_proc: `oid >= ${FIRST_OWN_OID}`,
  pg_rewrite: `oid >= ${FIRST_OWN_OID}`,
  pg_trigger: 'true',
  pg_ts_config: `oid >= ${FIRST_OWN_OID}`,
  pg_type: `oid >= ${FIRST_OWN_OID}`,
}
/**
 * A row that is written anew has another place or another transaction. Statistics and flags that PostgreSQL updates in
 * place, and `vacuum`, leave both. The search path decides how PostgreSQL prints expressions. A database restored from a
 * backup may use the same numbers for other changes, but it was started later. The sum does not depend on the order of the rows.
 */
const STATE = `
select pg_catalog.concat_ws(' ', pg_catalog.current_setting('search_path'), extract(epoch from pg_catalog.pg_postmaster_start_time()), ${Object.entries(
  DEFINITIONS,
)
  .map(
    ([name, own]) => `(
  select pg_catalog.concat(pg_catalog.count(*), ' ', pg_catalog.sum(pg_catalog.hashtextextended(xmin::text || ctid::text, 0))) from pg_catalog.${name} where ${own})`,
  )
  .join()}) as state`

/** The values of a type that is an enum. The index of `pg_enum` by type and order serves it. */
export const labelsOf = (type: string): string =>
  `case when ${type}.typtype = 'e' then (
    select pg_catalog.json_agg(enumlabel order by enumsortorder) from pg_catalog.pg_enum where enumtypid = ${type}.oid) end`
/**
 * The fields of a composite type that are read from JSON as texts: `hstore`, which cannot read JSON, and lists of it and of
 * `json`, in which PostgreSQL takes lists for dimensions. `pg_attribute` by relation serves it.
 */
export const fieldsOf = (t: string): string => `case when ${t}.typtype = 'c' then (
  with recursive inside(path, type) as (
    select array[]::text[] collate "C", ${t}.oid
    union all
    select step.path, step.type from inside join pg_catalog.pg_type f on f.oid = inside.type
    cross join lateral (
      select inside.path, f.typbasetype where f.typtype = 'd'
      union all select pg_catalog.array_append(inside.path, null::text), f.typelem where f.typcategory = 'A' and f.typelem <> 0
      union all select pg_catalog.array_append(inside.path, a.attname::text), a.atttypid from pg_catalog.pg_attribute a
        where f.typtype = 'c' and a.attrelid = f.typrelid and a.attnum > 0 and not a.attisdropped
    ) as step(path, type)
  )
  select pg_catalog.json_agg(pg_catalog.json_build_object('path', inside.path, 'type', pg_catalog.json_build_object(
    'schema', s.nspname, 'name', f.typname, 'type', f.typtype, 'category', f.typcategory)) order by inside.path)
  from inside join pg_catalog.pg_type f on f.oid = inside.type join pg_catalog.pg_namespace s on s.oid = f.typnamespace
  where f.typname = 'hstore' and f.typcategory = 'U'
    or f.oid in (114, 3802) and inside.path[pg_catalog.array_upper(inside.path, 1)] is null) end`

/** What a type has no operators for. Enums, ranges, composites and arrays have those of polymorphic types. */
export const lacking = (
  t: string,
): string => `case when ${t}.typtype in ('e', 'r', 'm', 'c') or ${t}.typcategory = 'A' then '{}' else
  pg_catalog.array_remove(array[
    case when not exists (select from pg_catalog.pg_opclass o join pg_catalog.pg_am m on m.oid = o.opcmethod and m.amname = 'btree'
      where o.opcdefault and ${alike(t, 'o.opcintype')}) then 'sort' end,
    case when not exists (select from pg_catalog.pg_operator o
      where o.oprname = '<' and o.oprleft = o.oprright and ${alike(t, 'o.oprleft')}) then 'order' end,
    case when not exists (select from pg_catalog.pg_operator o
      where o.oprname = '=' and o.oprleft = o.oprright and ${alike(t, 'o.oprleft')}) then 'equality' end
  ], null) end`
/** A varchar is compared as text, and a cidr as inet. */
const alike = (t: string, other: string): string => `(${other} = ${t}.oid or ${other} in
  (select c.casttarget from pg_catalog.pg_cast c where c.castsource = ${t}.oid and c.castmethod = 'b' and c.castcontext = 'i'))`

/**
 * `own` is what a transaction should have for itself: triggers, rules and functions may note it, tell others of it
 * once for all that happened in it, or set what holds until its end, and a constraint may be checked then. Functions of extensions do
 * no such things. The functions of an expression, those of its operators too, are in the text of its tree:
 * `:funcid 1574`, `:opfuncid 65`. A text or a name in it has no blanks.
 * `asks` is what may ask who writes: triggers, rules, policies, expressions that call a setting or a function of your own; and what
 * a write reaches through foreign keys, partitions and views.
 * A column of a view is derived unless it is traced to a stored column: PostgreSQL notes in the view's query (`resorigtbl`) which
 * column of which table or view each plain column is. A subquery may have a column of the same number and name: both must agree.
 * A domain stands for its base type: its own rules hold when a row is written, not when a value is compared.
 * A foreign key to a partitioned table has a constraint of its own for each partition, whose parent is on the same
 * table: only the declared one counts. A key that a partition inherits has its parent on another table, and counts.
 * `pg_relation_is_updatable` gives the events that a view supports (CMD_UPDATE 2, CMD_INSERT 3, CMD_DELETE 4 as
 * bits 4, 8 and 16).
 */
const QUERY = `
with recursive wanted as materialized (
  select c.oid, c.relkind, n.nspname, c.relname
  from (
    select schema, name from pg_catalog.json_to_recordset(pg_catalog.current_setting('rowhouse.tables')::json) as w(schema text, name text)
    union select table_schema, table_name from svc_catalog.svc_table where pg_catalog.current_setting('rowhouse.read') = 'tables and tracked'
  ) w
  join pg_catalog.pg_namespace n on n.nspname = w.schema
  join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w.name
  where c.relkind in ('r', 'p', 'v', 'm', 'f')
),
attribute as materialized (
  select a.attrelid, a.attnum, a.attname, a.attnotnull, a.attgenerated, a.attidentity, a.atttypid, a.atttypmod,
    a.attndims, a.attcollation, wanted.relkind
  from wanted join pg_catalog.pg_attribute a on a.attrelid = wanted.oid
  where a.attnum > 0 and not a.attisdropped
),
view(oid) as (
  select oid from wanted where relkind = 'v'
  union
  select c.oid from view
  join pg_catalog.pg_rewrite r on r.ev_class = view.oid and r.rulename = '_RETURN'
  join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_catalog.pg_class'::regclass
  join pg_catalog.pg_class c on c.oid = d.refobjid and c.relkind = 'v'
),
origin as materialized (
  select a.attrelid as oid, a.attnum as number, pg_catalog.min(m[3])::oid as source, pg_catalog.min(m[4])::int2 as source_number
  from view join pg_catalog.pg_rewrite r on r.ev_class = view.oid and r.rulename = '_RETURN'
  cross join pg_catalog.regexp_matches(r.ev_action::text,
    ':resno (\\d+) :resname (\\S+) :ressortgroupref \\d+ :resorigtbl (\\d+) :resorigcol (\\d+) :resjunk false', 'g') m
  join pg_catalog.pg_attribute a on a.attrelid = view.oid and a.attnum = m[1]::int and a.attname = m[2]
  group by a.attrelid, a.attnum
  having pg_catalog.count(distinct (m[3], m[4])) = 1 and pg_catalog.min(m[3]) <> '0'
),
trace(oid, number, source, source_number) as (
  select oid, number, source, source_number from origin
  union
  select t.oid, t.number, o.source, o.source_number
  from trace t join origin o on o.oid = t.source and o.number = t.source_number
),
base(oid, base, modifier) as (
  select distinct atttypid, atttypid, -1 from attribute
  union
  select base.oid, t.typbasetype, greatest(base.modifier, t.typtypmod) from base join pg_catalog.pg_type t on t.oid = base.base where t.typtype = 'd'
),
type as materialized (
  select base.oid, t.typelem, t.typcategory, base.modifier,
    case when t.typtype = 'b' and t.typname in ('geometry', 'geography') then t.oid end as geo,
    pg_catalog.json_build_object('schema', n.nspname, 'name', t.typname, 'type', t.typtype, 'category', t.typcategory, 'array', r.typname,
      'labels', ${labelsOf('t')},
      'lacks', ${lacking('t')},
      'fields', ${fieldsOf('t')},
      'trigram', case when t.typcategory = 'S' then (select nspname from pg_catalog.pg_extension join pg_catalog.pg_namespace on pg_namespace.oid = extnamespace where extname = 'pg_trgm') end) as type
  from base
  join pg_catalog.pg_type t on t.oid = base.base and t.typtype <> 'd'
  join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  left join pg_catalog.pg_type r on r.oid = t.typarray
),
inner_type(oid, base) as (
  select distinct typelem, typelem from type where typcategory = 'A'
  union
  select inner_type.oid, t.typbasetype from inner_type join pg_catalog.pg_type t on t.oid = inner_type.base where t.typtype = 'd'
),
element as materialized (
  select inner_type.oid,
    pg_catalog.json_build_object('schema', n.nspname, 'name', e.typname, 'type', e.typtype, 'category', e.typcategory, 'array', null,
      'labels', ${labelsOf('e')},
      'lacks', ${lacking('e')},
      'fields', ${fieldsOf('e')}) as type
  from inner_type join pg_catalog.pg_type e on e.oid = inner_type.base and e.typtype <> 'd'
  join pg_catalog.pg_namespace n on n.oid = e.typnamespace
),
columns as (
  select a.attrelid, pg_catalog.json_agg(pg_catalog.json_build_object(
    'number', a.attnum, 'name', a.attname, 'not_null', a.attnotnull, 'generated', a.attgenerated,
    'identity', a.attidentity, 'default', coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), pg_catalog.pg_get_expr(own.typdefaultbin, 0)), 'type', a.atttypid::int8,
    'nondeterministic', coalesce(not c.collisdeterministic, false),
    'nested', greatest(a.attndims, own.typndims) > 1,
    'derived', a.attgenerated = 'v' or a.relkind = 'v' and not exists (
      select from trace t
      join pg_catalog.pg_class s on s.oid = t.source and s.relkind in ('r', 'p', 'm', 'f')
      join pg_catalog.pg_attribute p on p.attrelid = t.source and p.attnum = t.source_number and p.attgenerated <> 'v'
      where t.oid = a.attrelid and t.number = a.attnum
    )
  ) order by a.attnum) as columns
  from attribute a
  join pg_catalog.pg_type own on own.oid = a.atttypid
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join pg_catalog.pg_collation c on c.oid = a.attcollation
  group by a.attrelid
),
geo as (
  select a.attrelid, pg_catalog.json_object_agg(a.attnum, pg_catalog.format_type(type.geo, greatest(a.atttypmod, type.modifier)) order by a.attnum) as geo
  from attribute a join type on type.oid = a.atttypid
  where type.geo is not null
  group by a.attrelid
),
keys as (
  select con.conrelid, pg_catalog.json_agg(pg_catalog.json_build_object('name', conname, 'primary', contype = 'p', 'columns', conkey) order by contype, conname) as keys
  from wanted join pg_catalog.pg_constraint con on con.conrelid = wanted.oid and con.contype in ('p', 'u') group by con.conrelid
),
rules as (
  select con.conrelid, pg_catalog.json_agg(pg_catalog.json_build_object('name', conname, 'columns', conkey) order by conname) as rules
  from wanted join pg_catalog.pg_constraint con on con.conrelid = wanted.oid and con.contype in ('c', 'x') group by con.conrelid
),
foreign_keys as (
  select con.conrelid, pg_catalog.json_agg(pg_catalog.json_strip_nulls(pg_catalog.json_build_object(
    'name', conname, 'columns', conkey,
    'remoteColumns', (
      select pg_catalog.json_agg(a.attname order by k.ord) from pg_catalog.unnest(con.confkey) with ordinality k(num, ord)
      join pg_catalog.pg_attribute a on a.attrelid = con.confrelid and a.attnum = k.num
    ),
    'table', pg_catalog.json_build_object('schema', n.nspname, 'name', c.relname),
    'onDelete', case con.confdeltype when 'r' then 'restrict' when 'c' then 'cascade' when 'n' then 'set null' when 'd' then 'set default' end
  )) order by conname) as foreign_keys
  from wanted join pg_catalog.pg_constraint con on con.conrelid = wanted.oid and con.contype = 'f'
    and not exists (select from pg_catalog.pg_constraint whole where whole.oid = con.conparentid and whole.conrelid = con.conrelid)
  join pg_catalog.pg_class c on c.oid = con.confrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  group by con.conrelid
),
expression(oid, tree) as materialized (
  select d.adrelid, d.adbin::text from wanted join pg_catalog.pg_attrdef d on d.adrelid = wanted.oid
  union all select p.polrelid, pg_catalog.concat(p.polqual, p.polwithcheck) from wanted join pg_catalog.pg_policy p on p.polrelid = wanted.oid
  union all select c.conrelid, c.conbin::text from wanted join pg_catalog.pg_constraint c on c.conrelid = wanted.oid
  union all select a.attrelid, c.conbin::text
    from attribute a join base on base.oid = a.atttypid join pg_catalog.pg_constraint c on c.contypid = base.base
  union all select a.attrelid, t.typdefaultbin::text
    from attribute a join base on base.oid = a.atttypid join pg_catalog.pg_type t on t.oid = base.base and t.typdefaultbin is not null
),
called as materialized (
  select distinct expression.oid, pg_catalog.split_part(after, ' ', 1)::oid as function
  from expression, pg_catalog.unnest(pg_catalog.string_to_array(tree, 'funcid ')) with ordinality as part(after, number)
  where part.number > 1
),
capturing(oid) as materialized (
  select oid from pg_catalog.pg_proc where pronamespace = (select oid from pg_catalog.pg_namespace where nspname = 'svc_catalog') and pg_catalog.starts_with(proname, '${PREFIX}')
),
place(root, oid) as materialized (
  select tgrelid, tgrelid from pg_catalog.pg_trigger join capturing on capturing.oid = tgfoid
    where pg_catalog.starts_with(tgname, '${PREFIX}' || tgrelid || '_')
  union
  select place.root, i.inhrelid from place join pg_catalog.pg_inherits i on i.inhparent = place.oid
),
captured as materialized (
  select root as oid, pg_catalog.json_agg(tgname order by tgname) as captured from (
    select place.root, t.tgname from place join pg_catalog.pg_trigger t on t.tgrelid = place.oid and t.tgenabled = 'A'
      and pg_catalog.starts_with(t.tgname, '${PREFIX}' || place.root || '_')
    group by place.root, t.tgname
    having pg_catalog.count(*) = (select pg_catalog.count(*) from place all_places join pg_catalog.pg_class c on c.oid = all_places.oid and c.relkind in ('r', 'p') where all_places.root = place.root)
  ) t group by root
),
own as materialized (
  select tgrelid as oid from pg_catalog.pg_trigger left join capturing on capturing.oid = tgfoid where not tgisinternal and capturing.oid is null
  union select ev_class from pg_catalog.pg_rewrite where rulename <> '_RETURN'
  union select oid from pg_catalog.pg_class where relispartition
  union select conrelid from pg_catalog.pg_constraint where condeferrable
  union select called.oid from called join pg_catalog.pg_proc p on p.oid = called.function
    where p.provolatile = 'v' and not (p.oid < ${FIRST_OWN_OID} and p.proname in (${HARMLESS}))
      and not exists (select from pg_catalog.pg_depend e where e.classid = 'pg_catalog.pg_proc'::regclass and e.objid = p.oid and e.deptype = 'e')
    or p.oid < ${FIRST_OWN_OID} and p.proname in (${TELLS_TRANSACTIONS})
),
asking(oid) as (
  select tgrelid from pg_catalog.pg_trigger left join capturing on capturing.oid = tgfoid where not tgisinternal and (capturing.oid is null or tgnargs > 0)
  union select ev_class from pg_catalog.pg_rewrite where rulename <> '_RETURN'
  union select polrelid from pg_catalog.pg_policy
  union select called.oid from called join pg_catalog.pg_proc p on p.oid = called.function
    where p.oid < ${FIRST_OWN_OID} and p.proname = 'current_setting' or p.oid >= ${FIRST_OWN_OID} and p.provolatile <> 'i'
      and not exists (select from pg_catalog.pg_depend e where e.classid = 'pg_catalog.pg_proc'::regclass and e.objid = p.oid and e.deptype = 'e')
),
reached(oid, source) as materialized (
  select conrelid, confrelid from pg_catalog.pg_constraint where contype = 'f' and (confdeltype in ('c', 'n', 'd') or confupdtype in ('c', 'n', 'd'))
  union all select inhrelid, inhparent from pg_catalog.pg_inherits
  union all select d.refobjid, r.ev_class from pg_catalog.pg_rewrite r
    join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_catalog.pg_class'::regclass
    where r.rulename = '_RETURN' and r.ev_class >= ${FIRST_OWN_OID} and d.refobjid <> r.ev_class
),
asks(oid) as (
  select oid from asking
  union
  select reached.source from asks join reached using (oid)
),
part as (
  select oid, 'table' as part, pg_catalog.json_build_object(
    'oid', oid::int8, 'schema', nspname, 'name', relname, 'relkind', relkind,
    'events', case when relkind in ('v', 'f') then pg_catalog.pg_relation_is_updatable(oid, true) else 0 end,
    'own_transaction', own.oid is not null,
    'asks_writer', asks.oid is not null,
    'captured', captured.captured,
    'inherited', relkind = 'r' and exists (select from pg_catalog.pg_inherits where inhparent = oid)
  ) as value from wanted left join own using (oid) left join asks using (oid) left join captured using (oid)
  union all select attrelid, 'columns', columns from columns
  union all select conrelid, 'keys', keys from keys
  union all select conrelid, 'rules', rules from rules
  union all select conrelid, 'foreign_keys', foreign_keys from foreign_keys
  union all select attrelid, 'geo', geo from geo
),
column_type as (
  select type.oid, pg_catalog.json_build_object('type', type.type, 'element', element.type) as value
  from type left join element on element.oid = type.typelem and type.typcategory = 'A'
),
said as (
  select oid, part, value, 0 as number from part
  union all select a.attrelid, 'type', t.value, a.attnum from attribute a join column_type t on t.oid = a.atttypid
),
mark as (
  select oid, pg_catalog.max(value->>'schema') filter (where part = 'table') as schema,
    pg_catalog.max(value->>'name') filter (where part = 'table') as name,
    pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.string_agg(part || value::text, '' order by part, number), 'UTF8')), 'base64') as mark
  from said group by oid
)
select oid::int8::float8 as oid, part, value from part where pg_catalog.current_setting('rowhouse.read') <> 'marks'
union all select oid::int8::float8, 'type', value from column_type where pg_catalog.current_setting('rowhouse.read') <> 'marks'
union all select oid::int8::float8, 'mark', pg_catalog.json_build_object('schema', schema, 'name', name, 'mark', mark) from mark`
