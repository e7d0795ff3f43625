import { type Count, type Field, type Op, type Operand, operatorsIn, type Read, type Roots } from '../ir.js'
import { emitWrite } from './emit-write.js'
import { Printer, values } from './printer.js'
import { compiled, type Statement } from './bind.js'
import { alias, columnNames, ident, integer, join, rowAlias, type Sql, sql, tableText } from './text.js'

/**
 * The form of a read's result. `array`: one row with one column, the whole JSON text. `rows`: one column per row, the
 * JSON text of an object; of several reads, their `partsOf` with a null between them. `cells`: a text column per field.
 */
export type Form = 'array' | 'rows' | 'cells'

/**
 * Prints an authorized plan. Several statements run in order in one transaction, and the last one returns the result.
 */
export function emit(op: Op, form: Form): readonly Statement[] {
  switch (op.kind) {
    case 'read':
      return [...emitAhead(op), emitRead(op, form)]
    case 'count':
      return [emitCount(op)]
    case 'roots':
      if (form === 'rows') return [emitParts(op)]
      return [...op.fields.flatMap((field) => (field.kind === 'relation' ? emitAhead(field.read) : [])), emitRoots(op)]
    case 'insert':
    case 'update':
    case 'delete':
      if (op.related || (op.kind === 'insert' && op.perKeySet && op.phase !== 'look')) return []
      return emitWrite(op)
  }
}

/** Prints a statement that parses constants, to find out whether PostgreSQL can. */
export function emitConstants(constants: readonly Operand[]): Statement {
  const printer = new Printer()
  const read = constants.map((constant) => {
    const value = printer.params.operand(constant)
    return constant.type.regex ? compiled(value, constant.type.regex) : value
  })
  return printer.statement(sql`select ${join(read, sql`, `)}`)
}

/** Prints whether two values of a type are equal: `select $1::numeric operator(pg_catalog.=) $2::numeric as equal`. */
export function emitEqual(a: Operand, b: Operand): Statement {
  const printer = new Printer()
  const [left, right] = [printer.params.operand(a), printer.params.operand(b)]
  const schema = ident(operatorsIn(a.type) ?? 'pg_catalog')
  return printer.statement(sql`select (${left} operator(${schema}.=) ${right}) as equal`)
}

function emitRead(read: Read, form: Form): Statement {
  const printer = new Printer()
  if (form === 'rows') return printer.statement(oneByOne(printer, read))
  if (form === 'array' && read.version) return printer.statement(withVersion(printer, read, read.version))
  const rows = printer.select(read)
  const x = rowAlias(read.fields.map(({ key }) => key))
  const each = () =>
    read.values ? values(rows, read.fields) : sql`select ${printer.json(read.fields, x)} from (${rows}) ${x}`
  switch (form) {
    case 'array':
      if (read.single) return printer.statement(sql`select coalesce((${each()}), 'null')::text`)
      if (read.values) return printer.statement(sql`select pg_catalog.array_to_json(array(${each()}))::text`)
      return printer.statement(
        sql`select pg_catalog.array_to_json(array(select ${printer.object(read.fields, x)} from (${rows}) ${x}))::text`,
      )
    case 'cells': {
      // Text unchanged, everything else as JSON text, null as null. JSON nulls and strings stay JSON.
      const names = columnNames(read.fields)
      const cells = read.fields.map((field, i) => {
        const isJson = field.kind === 'column' && (field.type?.kind === 'json' || field.type?.kind === 'jsonb')
        const value = sql`${x}.${names[i] as Sql}`
        return isJson ? sql`${value}::text` : sql`pg_catalog.to_json(${value}) #>> '{}'`
      })
      return printer.statement(sql`select ${join(cells, sql`, `)} from (${rows}) ${x}`)
    }
  }
}

/**
 * Prints a read by primary key whose result is preceded by the version of the row, as a JSON string and a line feed. A
 * row of an inheriting table may have the same key; then there is no version:
 * `select case count(*) when 1 then to_json(min(y.v))::text || chr(10) else '' end ||
 * coalesce(array_to_json(array_agg(y.r))::text, '[]') from (select t0."rev"::text as v, ... as r from ...) y`
 */
function withVersion(printer: Printer, read: Read, column: string): Sql {
  const one = sql`case pg_catalog.count(*) when 1 then pg_catalog.to_json(pg_catalog.min(y.v))::text || pg_catalog.chr(10) else '' end`
  const rows = sql`coalesce(pg_catalog.array_to_json(pg_catalog.array_agg(y.r))::text, '[]')`
  return sql`select ${one} || ${rows} from (${printer.versioned(read, column)}) y`
}

/** `select row_to_json(x)::text from (select t0."id" as "id", ...) x`. No text is null, which separates parts. */
function oneByOne(printer: Printer, read: Read): Sql {
  const rows = printer.select(read)
  if (read.values) return sql`select coalesce(v, 'null')::text from (${values(rows, read.fields)}) v(v)`
  const x = rowAlias(read.fields.map(({ key }) => key))
  return sql`select ${printer.json(read.fields, x)}::text from (${rows}) ${x}`
}

function emitRoots({ fields }: Roots): Statement {
  const printer = new Printer()
  return printer.statement(together(printer, fields))
}

/** `select row_to_json(x)::text from (select array(select (x.*)::record from (...) x) as "author", ...) x` */
function together(printer: Printer, fields: readonly Field[]): Sql {
  // Joins use this alias, which refers to no table.
  const none = printer.alias()
  const x = rowAlias(fields.map(({ key }) => key))
  return sql`select ${printer.json(fields, x)}::text from (select ${printer.fields(fields, none)}) ${x}`
}

/** A list, whose rows come one by one, or consecutive other fields, which are one object. */
type RootsPart =
  | { readonly kind: 'list'; readonly key: string; readonly read: Read }
  | { readonly kind: 'object'; readonly fields: readonly Field[] }

export function partsOf({ fields }: Roots): readonly RootsPart[] {
  const parts: (Extract<RootsPart, { kind: 'list' }> | { kind: 'object'; fields: Field[] })[] = []
  for (const field of fields) {
    const last = parts.at(-1)
    if (field.kind === 'relation' && !field.read.single) parts.push({ kind: 'list', key: field.key, read: field.read })
    else if (last?.kind === 'object') last.fields.push(field)
    else parts.push({ kind: 'object', fields: [field] })
  }
  return parts
}

/**
 * Prints the parts in one statement, so that they see the same data. The join fixes their order, which a `union all`
 * alone does not:
 * `select t1.c0 from generate_series(1, 3) t0(c0), lateral (select row_to_json(x)::text from (...) x where t0.c0 = 1
 * union all select null where t0.c0 = 2 union all select row_to_json(x)::text from (...) x where t0.c0 = 3) t1(c0)`
 */
function emitParts(roots: Roots): Statement {
  const printer = new Printer()
  const parts = partsOf(roots).map((part) =>
    part.kind === 'list' ? oneByOne(printer, part.read) : together(printer, part.fields),
  )
  const [only] = parts
  if (parts.length === 1) return printer.statement(only as Sql)
  const t = printer.alias()
  const all = printer.alias()
  const c = alias('c', 0)
  const turns = parts.flatMap((part, i) => (i === 0 ? [part] : [sql`select null`, part]))
  const rows = turns.map((turn, i) => sql`${turn} where ${t}.${c} = ${integer(i + 1)}`)
  const order = sql`pg_catalog.generate_series(1, ${integer(turns.length)}) ${t}(${c})`
  return printer.statement(
    sql`select ${all}.${c} from ${order}, lateral (${join(rows, sql` union all `)}) ${all}(${c})`,
  )
}

/**
 * Prints the call of a function that may change the database and returns all its rows. The next statement sees its
 * changes: `select coalesce(array_agg(t0.*), array[]::"author"[])::text from "add_author"("name" => $1::text) t0`
 *
 * Rows that are not of a table are lists of texts: `select coalesce(json_agg(array[t0."value"::text]), '[]')::text from
 * "add"("a" => $1::int4) t0("value")`, and of a procedure `call "pay"("id" => $1::int4)`.
 */
function emitAhead({ from, table }: Read): readonly Statement[] {
  if (!from?.ahead) return []
  const printer = new Printer()
  if (from.procedure) return [{ ...printer.command(sql`call ${printer.call(from)}`), row: true }]
  const t = printer.alias()
  if (from.columns) {
    const texts = from.columns.map(({ name }) => sql`${t}.${ident(name)}::text`)
    const rows = sql`coalesce(pg_catalog.json_agg(array[${join(texts, sql`, `)}]), '[]')`
    return [printer.statement(sql`select ${rows}::text from ${printer.called(from, t)}`)]
  }
  const rows = sql`coalesce(pg_catalog.array_agg(${t}.*), array[]::${tableText(table)}[])`
  return [printer.statement(sql`select ${rows}::text from ${printer.call(from)} ${t}`)]
}

function emitCount(count: Count): Statement {
  const printer = new Printer()
  const t = printer.alias()
  const distinct = count.distinct?.map((column) => printer.cell(column, count.masks, t))
  const from = sql`from ${tableText(count.table)} ${t}${printer.where([printer.condition(count.where, t)])}`
  if (!distinct)
    return printer.statement(
      sql`select pg_catalog.row_to_json(x)::text from (select pg_catalog.count(*) as "count" ${from}) x`,
    )
  const rows = sql`select distinct ${join(distinct, sql`, `)} ${from}`
  return printer.statement(
    sql`select pg_catalog.row_to_json(x)::text from (select pg_catalog.count(*) as "count" from (${rows}) d) x`,
  )
}
