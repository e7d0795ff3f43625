import type { SqlType, TypeKind } from '../../../core/ir.js'

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json | undefined }
export type Row = Readonly<Record<string, Json>>

/** A column, and values for it as JSON has them. */
export interface Column {
  readonly name: string
  readonly type: SqlType
  /** What stands behind its name in `create table`. */
  readonly sql: string
  /** No function of the schema raises on these. */
  readonly plain: readonly Json[]
  /** Values on which casts, divisions and matches raise, or that are told apart by what a client may ask. */
  readonly odd: readonly Json[]
}
export interface Relation {
  readonly single: boolean
  readonly table: string
  readonly local: string
  readonly remote: string
}
export interface Table {
  readonly name: string
  readonly columns: readonly Column[]
  readonly relations: Readonly<Record<string, Relation>>
  readonly computed: readonly ComputedField[]
}
/** A field that a function computes of the row. */
export interface ComputedField {
  readonly name: string
  readonly type: SqlType
  /** The columns it reads. */
  readonly uses: readonly string[]
  readonly body: string
}

function type(name: string, kind: TypeKind, schema = 'pg_catalog'): SqlType {
  const element = kind === 'array' ? type(name.slice(1), name === '_text' ? 'text' : 'int4') : undefined
  return { schema, name, kind, ...(element ? { element } : { array: `_${name}` }) }
}
const TEXT: SqlType = { ...type('text', 'text'), trigram: 'public' }
const INT4 = type('int4', 'int4')
const DATE = type('date', 'other')
const HSTORE: SqlType = { ...type('hstore', 'hstore', 'public'), lacks: ['order'] }

const column = (name: string, of: SqlType, sql: string, plain: readonly Json[], odd: readonly Json[] = []): Column => ({
  name,
  type: of,
  sql,
  plain,
  odd,
})
const digits = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
export const LARGEST = 2147483647

/** What decides who sees a row. `gate` is selectable by nobody. Rows that nobody sees have 91 and more, false, and 9. */
const GATES: readonly Column[] = [
  column('id', INT4, 'int primary key', []),
  column('org_id', INT4, 'int', [1, 2, 3, null]),
  column('owner_id', INT4, 'int', [1, 2, 3, null]),
  column('shared', type('bool', 'bool'), 'bool', [true, false]),
  column('gate', INT4, 'int default 1', [1, 2, 3, 6, null]),
]
export const GATE = 'gate'

/** A column of each type that operators, casts and functions treat in a way of its own. */
const WIDE: readonly Column[] = [
  column(
    'title',
    TEXT,
    'text',
    ['', 'Plain', 'red apple', 'apple', 'a%b_c', 'back\\slash', 'apple', null],
    [...digits.map((n) => `Secret-${n}`), 'abc', 'x'.repeat(300)],
  ),
  column('num', TEXT, 'text', ['1', '2', '3', null], ['abc1', 'Secret-2', '', '1e400', '99999999999', '0x']),
  column('born', TEXT, 'text', ['2020-01-02', '1999-12-31'], ['2020-13-45', 'Secret-3', 'infinity', '']),
  column('amount', INT4, 'int', [1, 2, 3, 4, null], [0, LARGEST, -LARGEST - 1, 77]),
  column('big', type('int8', 'int8'), 'bigint', [1, 2, 3], ['9223372036854775807', '-9223372036854775808', 0]),
  column('qty', type('numeric', 'numeric'), 'numeric', [1.5, 2, 3.25], ['NaN', 0, '1e400', null]),
  column('ratio', type('float8', 'float'), 'float8', [0.5, 1.5], ['NaN', 'Infinity', 0, 1e308]),
  column('done', type('bool', 'bool'), 'bool', [true, false, null], [true, false]),
  column('code', type('citext', 'text', 'public'), 'citext', ['Ab', 'aB', 'c'], ['secret-1', 'SECRET-2', 'abc']),
  column('path', type('ltree', 'other', 'public'), 'ltree', ['top', 'top.a', 'top.a.b'], ['secret.a', 'secret', '']),
  column(
    'data',
    type('jsonb', 'jsonb'),
    'jsonb',
    [{ n: 1, k: ['a'] }, { n: 2 }, { n: 3, k: null }],
    [
      [1, 'Secret-1'],
      'Secret-2',
      5,
      { n: 'abc' },
      { n: '2020-01-01T00:00:00+00:00' },
      { n: {} },
      { 'Secret-3': 1 },
      null,
    ],
  ),
  column(
    'words',
    type('tsvector', 'other'),
    'tsvector',
    ["'apple':1 'red':2", ''],
    ["'secret':1", "'secret':1,2 'apple'"],
  ),
  column('bag', HSTORE, 'hstore', ['a=>1, b=>null', ''], ['secret=>1', null]),
  column('doc', type('json', 'json'), 'json', [{ b: 1 }, [1, 2]], ['Secret-1', { b: 'x' }]),
  column('tags', type('_text', 'array'), 'text[]', [['a', 'b'], [], ['c']], [[null], ['Secret-1'], null]),
  column('nums', type('_int4', 'array'), 'int[]', [[1, 2], [3], []], [[null], [LARGEST], [0, 77]]),
  column('mood', type('mood', 'other', 'public'), 'mood', ['calm', 'wild'], ['lost']),
  column('price', type('numeric', 'numeric'), 'price', [1, 2.5], [0, 9999]),
  column('span', type('int4range', 'range'), 'int4range', ['[1,4)', '[2,9)'], ['empty', '(,)', '[2147483646,)']),
  column('spans', type('int4multirange', 'multirange'), 'int4multirange', ['{[1,4),[6,9)}', '{}'], ['{(,)}', '{[7,)}']),
  column('host', type('inet', 'other'), 'inet', ['10.0.0.1', '10.0.0.0/8'], ['::1', '0.0.0.0/0']),
  column(
    'place',
    type('place', 'row', 'public'),
    'place',
    [{ street: 'a', no: 1 }, null],
    [
      { street: 'Secret-1', no: null },
      { street: null, no: 0 },
    ],
  ),
  column('remark', type('remark', 'row', 'public'), 'remark', [null, { by: 'a' }], [{ by: 'Secret-1', body: [1] }]),
  column('at', type('timestamptz', 'other'), 'timestamptz', ['2020-01-01T00:00:00Z'], ['infinity', '1900-01-01']),
  column(
    'key',
    type('uuid', 'other'),
    'uuid',
    ['00000000-0000-0000-0000-000000000001', null],
    ['ffffffff-0000-0000-0000-000000000009'],
  ),
  column('wait', type('interval', 'other'), 'interval', ['1 day', '01:00:00'], ['178000000 years', '-1 day']),
  column('rev', INT4, 'int not null default 1', [1, 2, 3], [7, 8]),
]

/** All but `c_up` and `c_len` raise on odd values. */
const COMPUTED: readonly ComputedField[] = [
  { name: 'c_num', type: INT4, uses: ['num'], body: 'select ($1.num)::int' },
  { name: 'c_div', type: INT4, uses: ['amount'], body: 'select 100 / $1.amount' },
  { name: 'c_day', type: DATE, uses: ['born'], body: 'select ($1.born)::date' },
  { name: 'c_n', type: INT4, uses: ['data'], body: `select ($1.data ->> 'n')::int` },
  { name: 'c_sum', type: INT4, uses: ['nums'], body: 'select $1.nums[1] + 2147483640' },
  { name: 'c_len', type: INT4, uses: ['title'], body: 'select length($1.title)' },
  { name: 'c_up', type: TEXT, uses: ['title'], body: 'select upper($1.title)' },
  {
    name: 'c_fail',
    type: TEXT,
    uses: ['title'],
    body: `begin if $1.title like 'Secret%' then raise exception 'title is %', $1.title; end if; return $1.title; end`,
  },
]
/** The rows of `item` that belong to a row of `note`. */
export const COMPUTED_ROWS = 'c_items'

const one = (table: string, local: string): Relation => ({ single: true, table, local, remote: 'id' })
const many = (table: string, remote: string, local = 'id'): Relation => ({ single: false, table, local, remote })

export const TABLES: Readonly<Record<string, Table>> = {
  note: {
    name: 'note',
    columns: [...GATES, ...WIDE],
    relations: {
      org: one('org', 'org_id'),
      items: many('item', 'note_id'),
      shares: many('share', 'note_id'),
      siblings: many('note', 'org_id', 'org_id'),
    },
    computed: COMPUTED,
  },
  item: {
    name: 'item',
    columns: [...GATES, column('note_id', INT4, 'int', [1, 2, 3, 4, 5, 901, 902, 903]), ...WIDE],
    relations: { org: one('org', 'org_id'), note: one('note', 'note_id'), shares: many('share', 'item_id') },
    computed: COMPUTED,
  },
  org: {
    name: 'org',
    columns: [...GATES, column('name', TEXT, 'text', ['one', 'two', 'three'], ['Secret-1', 'Secret-2'])],
    relations: {
      notes: many('note', 'org_id'),
      items: many('item', 'org_id'),
      members: many('member', 'org_id'),
      things: many('thing', 'org_id'),
    },
    computed: [],
  },
  thing: {
    name: 'thing',
    columns: [
      ...GATES,
      column('name', TEXT, 'text not null', ['cup', 'pen'], ['Secret-1', 'Secret-4']),
      column('slug', TEXT, 'text unique', ['s1', 's2', 's3', 's4', null]),
      column('amount', INT4, 'int check (amount >= 0)', [0, 1, 2, LARGEST]),
      column('low', INT4, 'int', [1, 2, 3]),
      column('base_id', INT4, 'int references base', [1, 2, 3, null]),
      column('room', INT4, 'int', [1, 2, null]),
      column('during', type('int4range', 'range'), 'int4range', ['[1,2)', '[3,5)', '[4,9)']),
    ],
    relations: { org: one('org', 'org_id') },
    computed: [],
  },
  member: {
    name: 'member',
    columns: [
      column('id', INT4, 'int primary key', []),
      column('org_id', INT4, 'int', [1, 2, 3]),
      column('user_id', INT4, 'int', [1, 2, 3]),
    ],
    relations: { org: one('org', 'org_id') },
    computed: [],
  },
  share: {
    name: 'share',
    columns: [
      column('id', INT4, 'int primary key', []),
      column('note_id', INT4, 'int', [1, 2, 3, 4, 5]),
      column('item_id', INT4, 'int', [1, 2, 3, 4, 5]),
      column('user_id', INT4, 'int', [1, 2, 3]),
    ],
    relations: {},
    computed: [],
  },
}
/** Columns whose text is the version of a row. Roles may not select all of them. */
export const VERSIONS = { note: 'rev', item: 'rev', thing: 'name', org: 'id' } as const
export const tableOf = (name: string): Table => TABLES[name] as Table
export const columnOf = (table: Table, name: string): Column | undefined =>
  table.columns.find((each) => each.name === name)

/** Names of what no role may know, which are others in each world. */
export interface Names {
  /** A column of `thing` without a default. */
  readonly pin: string
  /** A column of `thing`, which a constraint compares. */
  readonly most: string
  readonly constraint: string
  /** A table whose rows refer to those of `thing`. */
  readonly shadow: string
  /** A function that no role may call. */
  readonly secret: string
}

/** Statistics are never gathered, so that both worlds have the same query plans. */
export function schemaSql({ pin, most, constraint, shadow, secret }: Names): string {
  const tables = Object.values(TABLES).map(({ name, columns }) => {
    const more =
      name === 'thing'
        ? [
            `"${pin}" text not null`,
            `"${most}" int default 5`,
            `constraint "${constraint}" check (low < "${most}")`,
            'exclude using gist (room with =, during with &&)',
          ]
        : []
    const all = [...columns.map((each) => `"${each.name}" ${each.sql}`), ...more]
    return `create table ${name} (${all.join(', ')}) with (autovacuum_enabled = false);`
  })
  const computed = Object.values(TABLES).flatMap(({ name, computed: fields }) =>
    fields.map(({ name: field, type: { name: gives }, body }) => {
      const language = body.startsWith('begin') ? 'plpgsql' : 'sql'
      return `create function ${name}_${field}(${name}) returns ${gives} language ${language} stable as $f$${body}$f$;`
    }),
  )
  return `
create extension citext; create extension ltree; create extension btree_gist; create extension hstore; create extension pg_trgm;
create type mood as enum ('calm', 'wild', 'lost');
create domain price as numeric check (value >= 0);
create type place as (street text, no int);
create type remark as (by text, body json);
create table base (id int primary key);
insert into base values (1), (2), (3);
${tables.join('\n')}
create table "${shadow}" (id int primary key, thing_id int constraint "${shadow}_key" references thing);
${computed.join('\n')}
create function note_${COMPUTED_ROWS}(note) returns setof item language sql stable as 'select * from item where note_id = $1.id';
create function all_notes() returns setof note language sql stable as 'select * from note';
create function find_notes(word text) returns setof note language sql stable as
  'select * from note where position(word in title) > 0';
create function one_note(n int) returns note language sql stable as 'select * from note where id = n';
create function touch_notes(n int) returns setof note language sql as 'update note set amount = 1 where id = n returning *';
create function fail_notes(n int) returns setof note language plpgsql stable as
  $f$begin if n < 5 then raise exception 'not below 5'; end if; return query select * from note; end$f$;
create function double(n int) returns int language sql immutable as 'select 2 * n';
create function parts(word text) returns table (part text, place bigint) language sql immutable as
  $f$select part, place from regexp_split_to_table(word, '') with ordinality as p(part, place)$f$;
create function quarter(n int, out quotient int, out rest int) language plpgsql as
  $f$begin quotient := n / 4; rest := 4 / (n % 4); end$f$;
create function "${secret}"(n int) returns table (part text, place bigint) language sql immutable as $f$select 'x', 1$f$;
`
}
interface TrackedFunction {
  readonly args: 'none' | 'word' | 'n'
  /** A column that tells, by its values, which rows there are: only a role that sees it in all rows asks. */
  readonly reads?: string
  readonly writes?: true
}
export const FUNCTIONS: Readonly<Record<string, TrackedFunction>> = {
  all_notes: { args: 'none' },
  find_notes: { args: 'word', reads: 'title' },
  one_note: { args: 'n' },
  fail_notes: { args: 'n' },
  touch_notes: { args: 'n', writes: true },
}
/** Functions that return no rows of a table. Half of the roles may call them. */
export const PLAIN_FUNCTIONS: Readonly<
  Record<string, Pick<TrackedFunction, 'args' | 'writes'> & { columns?: string[] }>
> = {
  double: { args: 'n' },
  parts: { args: 'word', columns: ['part', 'place'] },
  quarter: { args: 'n', writes: true, columns: ['quotient', 'rest'] },
}
export const mayCall = (role: string): boolean => role < 'r4'
