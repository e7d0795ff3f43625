import { type Catalog, tableKey } from '../../core/catalog/catalog.js'
import type { Random } from './oracle/generate.js'

/** One change of metadata or of tables: an operation of `/v1/query`, or SQL that the server does not hear of. */
export type Step = Operation | { readonly outside: string }
interface Operation {
  readonly type: string
  readonly args: unknown
  /** What it names. The server does not get it. */
  readonly about?: { readonly table?: string; readonly role?: string; readonly field?: string }
}

export const STEPS_SCHEMA = `
create type mood as enum ('sad', 'glad', 'wild');
create domain word as text check (length(value) < 100);
create schema other;
create collation loose (provider = icu, locale = 'und', deterministic = false);
create table named (id int);
create table a (id int primary key, n int, s text, b_id int, m mood, ms mood[], w word, k regclass);
create table b (id int primary key, n int, s text, a_id int references a);
create table c (id int primary key, n int constraint one_n unique, s text, b_id int references b);
alter table a add foreign key (b_id) references b;
create view v as select id, n from c;
create function label(a) returns text language sql stable as 'select null::text';
create function rows_of(a) returns setof b language sql stable as 'select * from b';
create function all_b() returns setof b language sql stable as 'select * from b'`

const TABLES = ['a', 'b', 'c', 'v']
/** To begin with; permissions of `a` look at `b`. */
export const STEPS_METADATA: readonly Operation[] = [
  ...['a', 'b', 'c', 'v'].map((table) => ({ type: 'track_table', args: table })),
  ...['a', 'c'].map((table) => ({
    type: 'create_object_relationship',
    args: { table, name: 'one', using: { foreign_key_constraint_on: 'b_id' } },
  })),
  ...['a', 'c'].map((table) => ({
    type: 'create_update_permission',
    args: { table, role: 'red', permission: { columns: '*', filter: { one: { s: 'y' } }, check: { one: { n: 3 } } } },
  })),
]

const ROLES = ['red', 'blue']
const TYPES = ['insert', 'select', 'update', 'delete']
const FILTERS = [
  {},
  { n: 1 },
  { n: { $gt: 2 } },
  { s: 'x' },
  { id: 'X-Service-User-Id' },
  { one: { n: 3 } },
  { one: { s: 'y' } },
  { many: { n: 4 } },
  { $exists: { _table: 'b', _where: { n: 5 } } },
  { $not: { $exists: { _table: 'v', _where: { n: 6 } } } },
  { m: 'sad' },
  { $not: { m: { $in: ['glad', 'wild'] } } },
  { ms: { $contains: ['sad'] } },
  { k: 'named' },
  { s: { $like: 'x%' } },
  { w: 'x' },
  { one: { m: 'glad' } },
]
const PRESETS = [undefined, undefined, { n: 1 }, { m: 'sad' }, { ms: ['glad'] }, { w: 'x' }]
const TEMPLATES = {
  reads: { type: 'select', args: { table: 'a', columns: ['id', 's'], where: { m: 'sad' } } },
  counts: { type: 'count', args: { table: 'a', where: { m: { $in: { param: 'm', default: ['glad'] } } } } },
  upserts: {
    type: 'insert',
    args: { table: 'c', objects: { param: 'rows' }, on_conflict: { action: 'ignore', constraint: 'one_n' } },
  },
  writes: { type: 'update', args: { table: 'a', where: { id: { param: 'id' } }, $set: { m: 'glad', s: 'x' } } },
}
const CONFIGURATIONS = [
  null,
  { custom_name: 'Other' },
  { custom_name: 'b' },
  { column_config: { n: { custom_name: 'amount' } } },
  { custom_root_fields: { select: 'every' }, column_config: { s: { custom_name: 'words' } } },
]
const COLUMNS = ['*', ['id'], ['id', 'n'], ['s']]
const SQL: readonly ((table: string) => string)[] = [
  () => 'select 1',
  (table) => `alter table ${table} add column more int`,
  (table) => `alter table ${table} drop column more`,
  (table) => `alter table ${table} drop column s`,
  (table) => `alter table ${table} add column s text`,
  (table) => `alter table ${table} alter column s type varchar(9)`,
  (table) => `alter table ${table} alter column s type text`,
  () => 'alter table b alter column n type bigint',
  () => 'alter table b alter column n type int',
  () => 'alter table b drop column if exists s',
  () => 'alter table b add column if not exists s text',
  (table) => `alter table ${table} alter column n set default 3`,
  (table) => `alter table ${table} rename column s to r`,
  (table) => `do $$ begin alter table ${table} rename column s to r; end $$`,
  (table) => `do $$ begin alter table ${table} rename column r to s; end $$`,
  (table) => `drop table ${table} cascade`,
  (table) => `create table if not exists ${table} (id int primary key, n int, s text)`,
  (table) =>
    `drop table if exists ${table} cascade; create table ${table} (id int primary key, n int, s text, more int)`,
  () => 'create or replace view v as select id, n from b',
  () => 'drop view if exists v; create view v as select id, n, 1 as one_more from c',
  () => 'drop function label; create function label(a) returns int language sql stable as $$select 1$$',
  () => 'create or replace function label(a) returns text language sql stable as $$select null::text$$',
  () => 'create or replace function all_b() returns setof b language sql volatile as $$select * from b$$',
  () => `alter type mood rename value 'sad' to 'low'`,
  () => `alter type mood rename value 'low' to 'sad'`,
  () => `alter type mood rename value 'glad' to 'high'`,
  () => `alter type mood rename value 'high' to 'glad'`,
  () => `alter type mood add value if not exists 'sad'`,
  () => 'drop type mood cascade',
  () => `create type mood as enum ('glad', 'new'); alter table a add column m mood, add column ms mood[]`,
  () => `create type mood as enum ('sad', 'glad', 'wild'); alter table a add column m mood, add column ms mood[]`,
  () => 'alter table a alter column m type text',
  () => 'alter table a alter column m type mood using m::text::mood',
  () => 'drop table named',
  () => 'create table if not exists named (id int)',
  () => 'alter table named rename to unnamed',
  () => 'alter table unnamed rename to named',
  () => 'alter table c rename constraint one_n to other_n',
  () => 'alter table c rename constraint other_n to one_n',
  () => 'alter table c drop constraint one_n',
  () => 'alter table c add constraint one_n unique (n)',
  () => 'alter domain word add constraint short check (length(value) < 10)',
  () => 'alter domain word drop constraint if exists short',
  () => 'drop domain word cascade; create domain word as int; alter table a add column w word',
  () => 'drop domain word cascade; create domain word as text; alter table a add column w word',
  (table) => `create index if not exists quick on ${table} (n)`,
  () => 'drop index quick',
  (table) => `alter table ${table} set schema other`,
  (table) => `alter table other.${table} set schema public`,
  (table) => `alter table ${table} alter column s type text collate loose`,
  () => 'drop collation loose',
  () => 'alter function label(a) rename to labelled',
  () => 'create or replace view v as select id, n from c where n > 1',
  () => 'alter schema other rename to another; alter schema another rename to other',
]

/** A step of any kind: most of them make sense with what there is, and many are to be refused. */
export function generateStep(random: Random, catalog: Catalog): Step {
  if (catalog.inconsistent.length > 0 && random.chance(40)) return { type: 'drop_inconsistent_metadata', args: {} }
  if (random.chance(20)) return { outside: sql(random) }
  if (random.chance(75)) return plain(sensible(random, catalog))
  return { type: 'bulk', args: Array.from({ length: 2 + random.below(3) }, () => plain(sensible(random, catalog))) }
}

const plain = ({ type, args }: Operation): Operation => ({ type, args })

function sensible(random: Random, catalog: Catalog): Operation {
  const some = Array.from({ length: 6 }, () => operation(random))
  return (random.chance(85) ? some.find((each) => makesSense(each, catalog)) : undefined) ?? (some[0] as Operation)
}

/** Whether what is to be dropped is there, and what is to be made is not. */
function makesSense({ type, about }: Operation, { tables, functions }: Catalog): boolean {
  if (type === 'run_sql') return true
  const { table: name, role = '', field = '' } = about ?? {}
  const table = tables.get(tableKey({ schema: 'public', name: name ?? '' }))
  const isThere = (): boolean => {
    const [, kind] = /^(?:create|drop)_(\w+)_permission$/.exec(type) ?? []
    if (type.endsWith('track_function')) return functions.length > 0
    if (kind === 'function') return functions.some(({ roles }) => roles.includes(role))
    if (kind) return table?.permissionsByRole.get(role)?.[kind as 'select'] !== undefined
    if (type.includes('relationship')) return table?.relationshipsByName.has(field) === true
    return type.includes('field') ? table?.computedByName.has(field) === true : table !== undefined
  }
  const isTableThere = table !== undefined || name === undefined || type === 'track_table'
  const toDrop = /^(drop|un|set)/.test(type)
  return isTableThere && isThere() === toDrop
}

const sql = (random: Random) => random.pick(SQL)(random.pick(TABLES))

function operation(random: Random): Operation {
  const table = random.pick(TABLES)
  const role = random.pick(ROLES)
  const type = random.pick(TYPES)
  const name = random.pick(['one', 'many'])
  const cascade = random.chance(60)
  const field = random.pick(['label', 'rows_of'])
  const may = random.pick(['create', 'drop'])
  const permit = {
    type: `create_${type}_permission`,
    args: { table, role, permission: permission(type, random) },
    about: { table, role },
  }
  const relate = { ...relationship(table, name, random), about: { table, field: name } }
  const run = { type: 'run_sql', args: { sql: sql(random), cascade } }
  const track = { type: 'track_table', args: table, about: { table } }
  return random.pick<Operation>([
    run,
    run,
    track,
    track,
    permit,
    permit,
    permit,
    permit,
    relate,
    relate,
    { type: 'untrack_table', args: { table, cascade }, about: { table } },
    { type: `drop_${type}_permission`, args: { table, role }, about: { table, role } },
    { type: 'drop_relationship', args: { table, relationship: name, cascade }, about: { table, field: name } },
    {
      type: 'set_table_customization',
      args: { table, configuration: random.pick(CONFIGURATIONS) },
      about: { table },
    },
    {
      type: 'add_computed_field',
      args: { table: 'a', name: field, definition: { function: field } },
      about: { table: 'a', field },
    },
    { type: 'drop_computed_field', args: { table: 'a', name: field, cascade }, about: { table: 'a', field } },
    { type: random.pick(['track_function', 'untrack_function']), args: 'all_b' },
    ...Object.entries(TEMPLATES).map(([name, template]) => ({
      type: 'create_query_template',
      args: { name, template },
    })),
    { type: 'drop_query_template', args: { name: random.pick(Object.keys(TEMPLATES)) } },
    run,
    run,
    { type: `${may}_function_permission`, args: { function: 'all_b', role }, about: { role } },
  ])
}

function permission(type: string, random: Random): object {
  const [filter, check] = [random.pick(FILTERS), random.pick(FILTERS)]
  const columns = random.pick(COLUMNS)
  const set = random.pick(PRESETS)
  const presets = set ? { set } : {}
  switch (type) {
    case 'insert':
      return { columns, check, ...presets }
    case 'select':
      return { columns, filter, ...(random.chance(20) ? { computed_fields: ['label'] } : {}) }
    case 'update':
      return { columns, filter, ...(random.chance(70) ? { check } : {}), ...presets }
    default:
      return { filter }
  }
}

function relationship(table: string, name: string, random: Random): Operation {
  const remote = random.pick(TABLES)
  const columns = random.pick([{ n: 'n' }, { id: 'id' }, { s: 's' }])
  const using = { manual_configuration: { remote_table: remote, column_mapping: columns } }
  return { type: `create_${name === 'one' ? 'object' : 'array'}_relationship`, args: { table, name, using } }
}
