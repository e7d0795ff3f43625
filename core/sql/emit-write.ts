import { needsOtherRows } from '../plan/boolexp.js'
import {
  type Assignment,
  type BoolExp,
  type Delete,
  type Field,
  type Insert,
  type InsertColumn,
  isGeo,
  isLongName,
  isTrue,
  type OnConflict,
  type Operand,
  type OrderTarget,
  type Preset,
  type Returning,
  type RowKey,
  type SqlType,
  type TableRef,
  TRUE,
  type Update,
  type Write,
  type WriteAnswer,
  type WritePart,
} from '../ir.js'
import { TEXT } from '../plan/operators.js'
import { XMIN } from '../plan/names.js'
import { fromGeoJson } from './geojson.js'
import { Printer, version } from './printer.js'
import type { Statement } from './bind.js'
import {
  alias,
  columnsAs,
  ident,
  join,
  printedExpression,
  rowAlias,
  type Sql,
  sql,
  tableText,
  typeText,
} from './text.js'

/**
 * Prints a write as one statement that changes rows, checks them and returns the result. A data-modifying statement
 * sees other rows as they were before it. Where a check or the visibility of a returned row depends on other rows, a
 * second statement of the same transaction reads what the first one wrote.
 */
export function emitWrite(write: Write): readonly Statement[] {
  if (write.kind === 'delete') return [emitDelete(write)]
  const after = afterwards(write)
  if (write.phase === 'write') return [emitKeys(write)]
  if (write.phase === 'look') {
    return [emitLook(write.table, write.key, after, write.kind === 'insert' ? write.rows : write.written)]
  }
  if (write.key.kind === 'none' || !(looksElsewhere(after) || looksAtPlace(write))) {
    const printer = new Printer()
    const t = printer.alias()
    const seen = rowsWritten(printer, t, after)
    const written = sql`${change(write, printer, t)} returning ${join(seen.expressions, sql`, `)}`
    return [printer.statement(answer(printer, sql`with w as (${written})`, seen, sql`w`))]
  }
  return [emitKeys(write), emitLook(write.table, write.key, after)]
}

/** Returns whether the result depends on other rows than the written ones. */
function looksElsewhere({ check, conditions, returning }: Afterwards): boolean {
  if (needsOtherRows({ kind: 'and', of: [check, ...conditions] })) return true
  return returning?.fields.some((field) => !isOfRow(field)) ?? false
}

/** Returns whether the result has system columns of rows that PostgreSQL distributes to other tables while it writes. */
const looksAtPlace = ({ key, returning }: Insert | Update): boolean =>
  isPartitioned(key) && (returning?.fields.some((field) => field.kind === 'version' && field.column === XMIN) ?? false)

/** Returns whether a field depends on the columns of the row alone. */
function isOfRow(field: Field): boolean {
  if (field.kind === 'condition') return !needsOtherRows(field.is)
  if (field.kind === 'opaque') return field.of.every((part) => !('by' in part) || isColumn(part.by))
  return field.kind === 'constant' || field.kind === 'version' || (field.kind === 'column' && isColumn(field))
}
const isColumn = (by: OrderTarget | Extract<Field, { kind: 'column' }>): boolean =>
  by.kind === 'column' && !by.computed && !(by.mask && needsOtherRows(by.mask))

interface Check {
  readonly check: BoolExp
  /** Check for rows that existed already (`xmax` is not 0), where it differs. */
  readonly updatedCheck?: BoolExp
}

/** Everything to find out about each written row. */
interface Afterwards extends Check {
  readonly conditions: readonly BoolExp[]
  readonly message: string
  readonly returning?: Returning
  readonly answer?: WriteAnswer
  readonly alsoAffected?: Operand
}

function afterwards(write: Insert | Update): Afterwards {
  const { alsoAffected } = write
  const returning = { ...answering(write), ...(alsoAffected ? { alsoAffected } : {}) }
  const visible = write.returning ? [write.returning.visible] : []
  const message = write.refusal ?? ''
  if (write.kind === 'update' || write.onConflict?.action !== 'update') {
    return { check: write.check, conditions: visible, message, ...returning }
  }
  const { check } = write.onConflict
  // Only a plain table shows which rows are new.
  if (write.key.kind === 'none' || isPartitioned(write.key)) {
    return { check: { kind: 'and', of: [write.check, check] }, conditions: visible, message, ...returning }
  }
  return { check: write.check, updatedCheck: check, conditions: [check, ...visible], message, ...returning }
}

const answering = ({ returning, answer }: Write): Pick<Afterwards, 'returning' | 'answer'> => ({
  returning,
  answer,
})

const isPartitioned = (key: RowKey): boolean => key.kind === 'columns' && key.partitioned === true

function emitDelete(write: Delete): Statement {
  const printer = new Printer()
  const t = printer.alias()
  const where = matching(write, printer, t)
  const after: Afterwards = {
    check: { kind: 'and', of: [] },
    conditions: [],
    message: '',
    ...answering(write),
  }
  const seen = rowsWritten(printer, t, after)
  const written = sql`delete from ${tableText(write.table)} ${t}${where} returning ${join(seen.expressions, sql`, `)}`
  return printer.statement(answer(printer, sql`with w as (${written})`, seen, sql`w`))
}

/**
 * Prints the first of two statements: writes, and returns the keys of the rows as JSON text. Rows without a key are
 * checked here, as no other statement finds them.
 */
function emitKeys(write: Insert | Update): Statement {
  const printer = new Printer()
  const t = printer.alias()
  const keys = keyColumns(write.key).map((column, i) => sql`${t}.${column.name} as ${alias('k', i)}`)
  keys.push(...(write.link ?? []).map((column, i) => sql`${t}.${ident(column)} as ${alias('l', i)}`))
  if (write.kind === 'update' && write.set.length === 0) {
    // Locked, because related rows are written only while these rows meet the condition.
    const lock = write.key.kind === 'none' ? sql`` : sql` for no key update of ${t}`
    const met = sql`select ${join(keys, sql`, `)} from ${tableText(write.table)} ${t}${matching(write, printer, t)}${lock}`
    return printer.statement(sql`with w as (${met}) select pg_catalog.array_to_json(array(select w from w))::text`)
  }
  const isUpsert = write.kind === 'insert' && write.onConflict?.action === 'update'
  if (isUpsert && write.key.kind !== 'none' && !isPartitioned(write.key)) keys.push(sql`(${t}.xmax = 0) as fresh`)
  const after = afterwards(write)
  const check = write.key.kind === 'none' ? checkText(printer, t, after) : undefined
  if (check) keys.push(sql`${check} as ok`)
  const written = sql`${change(write, printer, t)} returning ${keys.length > 0 ? join(keys, sql`, `) : sql`1 as one`}`
  const body = sql`pg_catalog.array_to_json(array(select w from w))::text`
  if (!check) return printer.statement(sql`with w as (${written}) select ${body}`)
  const message = messageOf(after, printer)
  return printer.statement(sql`with w as (${written}) select ${unlessRefused(REFUSED, message, body)}`)
}

/** Prints the second of two statements: finds the rows by key, checks them, and returns the result. */
function emitLook(table: TableRef, key: RowKey, after: Afterwards, slot?: number): Statement {
  const printer = new Printer()
  const t = printer.alias()
  const columns = keyColumns(key)
  const names = [...columns.map((_, i) => alias('k', i)), sql`fresh`]
  const types = [...columns.map((column, i) => sql`${alias('k', i)} ${column.type}`), sql`fresh bool`]
  const written = printer.params.place({ kind: 'written', slot })
  const keys = sql`rows from (pg_catalog.json_to_recordset(${written}::json) as (${join(types, sql`, `)})) with ordinality as k(${join(names, sql`, `)}, ord)`
  const on = foundBy(key, t, sql`k`)
  const seen = rowsWritten(printer, t, after, sql`k.fresh`)
  const only = key.kind === 'columns' && key.only ? sql`only ` : sql``
  const rows = sql`select ${join(seen.expressions, sql`, `)} from k join ${only}${tableText(table)} ${t} on ${join(on, sql` and `)} order by k.ord`
  return printer.statement(answer(printer, sql`with k as (select * from ${keys}), w as (${rows})`, seen, sql`k`))
}

interface Seen {
  /** Expressions for each written row: `t0."id" as c0, ... as ok, ... as seen`. */
  readonly expressions: readonly Sql[]
  readonly checked: boolean
  readonly filtered: boolean
  readonly message: Sql
  /** The returned fields, and the names of their columns: `c0`, `c1`, ... */
  readonly keys: readonly { readonly key: string }[]
  readonly names: readonly Sql[]
  readonly answer: WriteAnswer
  readonly alsoAffected?: Operand
  /** Whether the rows were looked up again. */
  readonly found: boolean
}

function rowsWritten(printer: Printer, t: Sql, after: Afterwards, fresh?: Sql): Seen {
  const { returning } = after
  const expressions: Sql[] = []
  const filtered = returning !== undefined && !isTrue(returning.visible)
  const keys = returning?.fields ?? []
  const names = keys.map((field, i) => {
    const value = fieldOf(printer, t, field, after, fresh)
    // An expression may fail, which must not reveal a row that is not returned.
    const guarded = filtered && !isPlainColumn(field)
    const shown = guarded ? sql`case when ${printer.condition(returning.visible, t)} then ${value} end` : value
    expressions.push(sql`${shown} as ${ident(`c${i}`)}`)
    return ident(`c${i}`)
  })
  const check = checkText(printer, t, after, fresh)
  if (check) expressions.push(sql`${check} as ok`)
  if (filtered) expressions.push(sql`${printer.condition(returning.visible, t)} as seen`)
  if (expressions.length === 0) expressions.push(sql`1 as one`)
  return {
    expressions,
    checked: check !== undefined,
    filtered,
    message: check ? messageOf(after, printer) : sql``,
    keys,
    names,
    answer: after.answer ?? [COUNT, ...(returning ? [ROWS] : [])],
    ...(after.alsoAffected ? { alsoAffected: after.alsoAffected } : {}),
    found: fresh !== undefined,
  }
}
const isPlainColumn = (field: Field): boolean =>
  field.kind === 'column' && !field.computed && !field.derived && !isGeo(field.type)
const COUNT: WritePart = { kind: 'affected_rows', key: 'affected_rows' }
const ROWS: WritePart = { kind: 'returning', key: 'returning' }

/** Prints a field of a written row. In an upsert, a condition may be about new rows only, or about the others. */
function fieldOf(printer: Printer, t: Sql, field: Field, { updatedCheck }: Check, fresh?: Sql): Sql {
  if (field.kind !== 'condition' || !field.rule || !updatedCheck) return printer.value(field, t)
  const isNew = field.rule === 'inserted'
  const check = { check: isNew ? field.is : TRUE, updatedCheck: isNew ? TRUE : field.is }
  return checkText(printer, t, check, fresh) ?? sql`true`
}

function checkText(printer: Printer, t: Sql, { check, updatedCheck }: Check, fresh?: Sql): Sql | undefined {
  if (isTrue(check) && (updatedCheck === undefined || isTrue(updatedCheck))) return undefined
  if (updatedCheck === undefined) return printer.condition(check, t)
  const isNew = fresh ?? sql`${t}.xmax = 0`
  return sql`case when ${isNew} then ${printer.condition(check, t)} else ${printer.condition(updatedCheck, t)} end`
}

/** Prints `{"affected_rows": n, "returning": [...]}`, or raises an error in the database when a row fails its check. */
function answer(printer: Printer, withs: Sql, seen: Seen, counted: Sql): Sql {
  const body = answerBody(printer, seen, counted)
  if (!seen.checked) return sql`${withs} select ${body}`
  // A row that was not found again is unchecked: a trigger has moved it.
  const failing = seen.found
    ? sql`(${REFUSED} or (select pg_catalog.count(*) from w) <> (select pg_catalog.count(*) from ${counted}))`
    : REFUSED
  return sql`${withs} select ${unlessRefused(failing, seen.message, body)}`
}

const REFUSED = sql`exists (select 1 from w where ok is not true)`
const unlessRefused = (failing: Sql, message: Sql, body: Sql): Sql =>
  sql`case when ${failing} then svc_catalog.svc_refuse(${message}) else ${body} end`
const messageOf = ({ message }: Afterwards, printer: Printer): Sql =>
  printer.params.operand({ kind: 'const', value: message, type: TEXT })

function answerBody(printer: Printer, { answer, keys, names, filtered, alsoAffected }: Seen, counted: Sql): Sql {
  const rowsOf = (from?: number, end?: number) => {
    const fields = keys.slice(from, end)
    const columns = columnsAs(names.slice(from, end), fields)
    const rows = sql`select ${columns} from w${filtered ? sql` where seen` : sql``}`
    return { fields, rows, row: rowAlias(fields.map(({ key }) => key)) }
  }
  if (answer === 'row') {
    const { fields, rows, row } = rowsOf()
    return sql`(select coalesce((select ${printer.json(fields, row)}::text from (${rows} limit 1) ${row}), 'null'))`
  }
  const parts = answer.map((part) => {
    switch (part.kind) {
      case 'affected_rows':
        return alsoAffected
          ? sql`(select pg_catalog.count(*) + ${printer.params.operand(alsoAffected)} from ${counted})`
          : sql`(select pg_catalog.count(*) from ${counted})`
      case 'returning': {
        const { fields, rows, row } = rowsOf(...(part.fields ?? []))
        return sql`array(select ${printer.object(fields, row)} from (${rows}) ${row})`
      }
      case 'constant':
        return printer.params.operand({ kind: 'const', value: part.value, type: TEXT })
    }
  })
  const r = rowAlias(
    answer.map(({ key }) => key),
    'r',
  )
  return sql`(select ${printer.json(answer, r)}::text from (select ${columnsAs(parts, answer)}) ${r})`
}

function change(write: Insert | Update, printer: Printer, t: Sql): Sql {
  if (write.kind === 'insert') return insert(write, printer, t)
  const set = join(
    write.set.map((each) => assignment(each, printer, t)),
    sql`, `,
  )
  return sql`update ${tableText(write.table)} ${t} set ${set}${matching(write, printer, t)}`
}

/** Prints the condition of an update or delete, and `t0."rev"::text collate "C" = $1::text` for `expected`. */
function matching({ where, expected, within }: Update | Delete, printer: Printer, t: Sql): Sql {
  const conditions = [printer.condition(where, t)]
  if (expected) conditions.push(sql`${version(expected, t)} = ${printer.params.operand(expected.to)}`)
  if (!within) return printer.where(conditions)
  return printer.where([...conditions, belongs(within, printer, t)])
}

/**
 * Prints whether a row belongs to one of those that another statement wrote. Only `links` need these rows themselves:
 * `exists (select 1 from pg_catalog.json_to_recordset($2::json) as p(k0 int4, l0 int4) join "hub" t1 on t1."id" = p.k0 where ...)`
 */
function belongs({ slot, table, key, on, types, links }: Within, printer: Printer, t: Sql): Sql {
  const written = printer.params.place({ kind: 'written', slot })
  const columns = types.map(({ link, type }) => sql`${alias('l', link)} ${typeText(type)}`)
  const joined = on.map(
    ([, name], i) => sql`p.${alias('l', (types[i] as Within['types'][number]).link)} = ${t}.${ident(name)}`,
  )
  if (!links) {
    const rows = sql`pg_catalog.json_to_recordset(${written}::json) as p(${join(columns, sql`, `)})`
    return sql`exists (select 1 from ${rows} where ${join(joined, sql` and `)})`
  }
  const keys = keyColumns(key)
  const outer = printer.alias()
  const found = foundBy(key, outer, sql`p`)
  const all = [...keys.map(({ type }, i) => sql`${alias('k', i)} ${type}`), ...columns]
  const rows = sql`pg_catalog.json_to_recordset(${written}::json) as p(${join(all, sql`, `)}) join ${tableText(table)} ${outer} on ${join(found, sql` and `)}`
  return sql`exists (select 1 from ${rows} where ${join([...joined, printer.linked(links, outer, t)], sql` and `)})`
}
type Within = Required<Update>['within']

function assignment(each: Assignment, printer: Printer, t: Sql): Sql {
  const column = ident(each.column)
  switch (each.kind) {
    case 'set':
      return sql`${column} = ${printer.params.operand(each.to)}`
    case 'inc':
      return sql`${column} = ${t}.${column} + ${printer.params.operand(each.to)}`
    case 'mul':
      return sql`${column} = ${t}.${column} * ${printer.params.operand(each.to)}`
    case 'append':
      return sql`${column} = ${t}.${column} || ${printer.params.operand(each.to)}`
    case 'prepend':
      return sql`${column} = ${printer.params.operand(each.to)} || ${t}.${column}`
    case 'delete_key':
    case 'delete_elem':
      return sql`${column} = ${t}.${column} - ${printer.params.operand(each.to)}`
    case 'delete_at_path':
      return sql`${column} = ${t}.${column} #- ${printer.params.operand(each.to)}`
    case 'default':
      return sql`${column} = default`
    case 'null':
      return sql`${column} = null`
  }
}

/**
 * Prints an insert. Rows are sent as one JSON text, so that any number of rows shares a plan:
 * `insert into "t" as t0 ("a") select r0 from rows from (pg_catalog.json_to_recordset($1::json) as ("a" int4)) with ordinality as
 * r(r0, ord) order by ord`
 */
function insert(write: Insert, printer: Printer, t: Sql): Sql {
  const { columns } = write
  const given = columns.filter((column) => column.present !== 'none')
  const rows = printer.params.place({
    kind: 'rows',
    slot: write.rows,
    columns: given.map((column) => ({ name: keyOf(column), type: column.type })),
  })
  const presets = write.presets
  const targets = [...columns.map((column) => ident(column.name)), ...presets.map((preset) => ident(preset.column))]
  const into = sql`insert into ${tableText(write.table)} as ${t} (${join(targets, sql`, `)})`
  const uniform = given.length === columns.length && given.length > 0
  const source =
    uniform && given.every((column) => column.present === 'all' && !isLongName(keyOf(column)))
      ? recordset(given, rows)
      : records(given, rows, printer)
  const values = columns.map((column) => insertValue(column, given, printer))
  const selected = [...values, ...presets.map((preset) => printer.params.operand(preset.to))]
  const conflict = write.onConflict ? onConflict(write.onConflict, printer, t) : sql``
  // Ignores the null of the identity column, so that any number of rows gets the next values of its sequence.
  const overriding = columns.some(({ identity }) => identity) ? sql` overriding user value` : sql``
  return sql`${into}${overriding} select ${join(selected, sql`, `)} from ${source} order by ord${conflict}`
}

/** Prints rows that all have every key. */
function recordset(columns: readonly InsertColumn[], rows: Sql): Sql {
  const names = columns.map((_, i) => alias('r', i))
  const definition = sql`rows from (pg_catalog.json_to_recordset(${rows}::json) as (${definitions(columns)}))`
  return sql`${definition} with ordinality as r(${join(names, sql`, `)}, ord)`
}

/**
 * Prints rows with missing keys. Each row stays available as `e.o` for testing keys. If a key is too long for a name, each
 * value becomes a record of its own: `json_to_record(json_build_object('v', e.o -> $1::text)) as (v int4)`
 */
function records(columns: readonly InsertColumn[], rows: Sql, printer: Printer): Sql {
  const elements = sql`pg_catalog.json_array_elements(${rows}::json) with ordinality as e(o, ord)`
  if (columns.length === 0) return elements
  const names = columns.map((_, i) => alias('r', i))
  const record = (column: InsertColumn): Sql => {
    const value = sql`e.o -> ${printer.params.operand(keyOperand(column))}`
    return sql`pg_catalog.json_to_record(pg_catalog.json_build_object('v', ${value})) as (v ${readType(column)})`
  }
  const read = columns.some((column) => isLongName(keyOf(column)))
    ? join(columns.map(record), sql`, `)
    : sql`pg_catalog.json_to_record(e.o) as (${definitions(columns)})`
  return sql`${elements} cross join lateral rows from (${read}) as r(${join(names, sql`, `)})`
}

const keyOf = ({ name, key }: InsertColumn): string => key ?? name
const keyOperand = (column: InsertColumn): Operand => ({ kind: 'const', value: keyOf(column), type: TEXT })

function definitions(columns: readonly InsertColumn[]): Sql {
  return join(
    columns.map((column) => sql`${ident(keyOf(column))} ${readType(column)}`),
    sql`, `,
  )
}

/** Prints the type to read a value as. PostGIS types and hstore arrive as JSON text, see `insertValue`. */
const readType = ({ type }: InsertColumn): Sql =>
  isGeo(type) || type.kind === 'hstore' || isListOfJson(type) ? sql`text` : typeText(type)

function insertValue(column: InsertColumn, given: readonly InsertColumn[], printer: Printer): Sql {
  const read = alias('r', given.indexOf(column))
  const { labelNames } = column.type
  const value = written(labelNames ? printer.renamed(read, new Map(labelNames)) : read, column.type)
  if (column.present === 'all') return value
  const fallback = column.default === undefined ? sql`null` : printedExpression(column.default)
  if (column.present === 'none') return fallback
  const typed = column.default === undefined ? fallback : sql`(${fallback})::${typeText(column.type)}`
  const name = printer.params.operand(keyOperand(column))
  return sql`case when e.o -> ${name} is not null then ${value} else ${typed} end`
}

/** Prints the value of JSON text that PostgreSQL does not convert by itself. */
function written(read: Sql, type: SqlType): Sql {
  if (isGeo(type)) return fromGeoJson(read, type)
  if (type.kind === 'hstore') return hstoreOf(read, type)
  if (!isListOfJson(type)) return read
  const { element } = type
  const value =
    element.kind === 'hstore'
      ? hstoreOf(sql`(e.o #>> '{}')`, element)
      : sql`case when pg_catalog.json_typeof(e.o) <> 'null' then e.o::${typeText(element)} end`
  const list = sql`select pg_catalog.array_agg(${value} order by e.place)::${typeText(type)} from pg_catalog.json_array_elements(${read}::json) with ordinality as e(o, place)`
  return sql`case when ${read} like '[%' then coalesce((${list}), '{}') else ${read}::${typeText(type)} end`
}

/** Returns whether elements are JSON. PostgreSQL would take lists in a list of jsonb for further dimensions. */
const isListOfJson = (type: SqlType): type is SqlType & { readonly element: SqlType } =>
  type.kind === 'array' && !type.nested && ['hstore', 'json', 'jsonb'].includes(type.element?.kind ?? '')

function hstoreOf(read: Sql, type: SqlType): Sql {
  const pairs = sql`select ${ident(type.schema)}.hstore(pg_catalog.array_agg(key), pg_catalog.array_agg(value)) from pg_catalog.json_each_text(${read}::json)`
  const hstore = typeText(type)
  return sql`case when ${read} like '{%' then coalesce((${pairs}), ''::${hstore}) else ${read}::${hstore} end`
}

function onConflict(conflict: OnConflict, printer: Printer, t: Sql): Sql {
  const target = conflict.constraint
    ? sql` on constraint ${ident(conflict.constraint)}`
    : conflict.columns
      ? sql` (${join(conflict.columns.map(ident), sql`, `)})`
      : sql``
  const set = [
    ...conflict.set.map((column) => sql`${ident(column)} = excluded.${ident(column)}`),
    ...conflict.presets.map((preset: Preset) => sql`${ident(preset.column)} = ${printer.params.operand(preset.to)}`),
  ]
  if (conflict.action === 'ignore' || set.length === 0) return sql` on conflict${target} do nothing`
  const where = printer.where([printer.condition(conflict.where, t)])
  return sql` on conflict${target} do update set ${join(set, sql`, `)}${where}`
}

/**
 * Prints how the row `t` is found by the key `k` of a row that was written. A trigger may have changed the row since, so that it is in
 * another place: `currtid2` follows its versions.
 */
function foundBy(key: RowKey, t: Sql, k: Sql): readonly Sql[] {
  return keyColumns(key).map(({ name }, i) => {
    const value = sql`${k}.${alias('k', i)}`
    if (key.kind !== 'place' || i > 0) return sql`${t}.${name} = ${value}`
    return sql`${t}.${name} = pg_catalog.currtid2(${k}.${alias('k', 1)}::pg_catalog.regclass::text, ${value})`
  })
}

function keyColumns(key: RowKey): readonly { readonly name: Sql; readonly type: Sql }[] {
  switch (key.kind) {
    case 'columns':
      return key.columns.map(({ name, type }: { name: string; type: SqlType }) => ({
        name: ident(name),
        type: typeText(type),
      }))
    case 'place':
      // Rows of inheriting tables are included, and each table has its own ctids.
      return [
        { name: sql`ctid`, type: sql`tid` },
        { name: sql`tableoid`, type: sql`oid` },
      ]
    case 'none':
      return []
  }
}
