import type { Count, Field, Op, Operand, Read, Roots } from '../plan/ir.js'
import { emitWrite } from './emit-write.js'
import { Printer } from './printer.js'
import type { Statement } from './bind.js'
import { ident, join, rowAlias, sql, tableText } from './text.js'

/**
 * The form of a read's result. `array`: one row with one column, the whole JSON text. `rows`: one column per row, the
 * JSON text of an object. `cells`: a text column per field.
 */
export type Form = 'array' | 'rows' | 'cells'

/**
 * Prints an authorized plan. Several statements run in order in one transaction, and the last one returns the result.
 */
export function emit(op: Op, form: Form): readonly Statement[] {
  switch (op.kind) {
    case 'read':
      return [emitRead(op, form)]
    case 'count':
      return [emitCount(op)]
    case 'roots':
      return [...op.fields.flatMap(emitAhead), emitRoots(op)]
    case 'insert':
      return op.perKeySet && op.phase !== 'look' ? [] : emitWrite(op)
    case 'update':
    case 'delete':
      return emitWrite(op)
  }
}

/** Prints a statement that parses constants, to find out whether PostgreSQL can. */
export function emitConstants(constants: readonly Operand[]): Statement {
  const printer = new Printer()
  const read = constants.map((constant) => printer.params.operand(constant))
  return printer.statement(sql`select ${join(read, sql`, `)}`)
}

function emitRead(read: Read, form: Form): Statement {
  const printer = new Printer()
  const rows = printer.select(read)
  const x = rowAlias(read.fields.map(({ key }) => key))
  switch (form) {
    case 'array':
      return printer.statement(sql`select array_to_json(array(select ${x} from (${rows}) ${x}))::text`)
    case 'rows':
      return printer.statement(sql`select row_to_json(${x})::text from (${rows}) ${x}`)
    case 'cells': {
      // Text unchanged, everything else as JSON text, null as null. JSON nulls and strings stay JSON.
      const cells = read.fields.map((field) => {
        const isJson = field.kind === 'column' && (field.type?.kind === 'json' || field.type?.kind === 'jsonb')
        const value = sql`${x}.${ident(field.key)}`
        return isJson ? sql`${value}::text` : sql`to_json(${value}) #>> '{}'`
      })
      return printer.statement(sql`select ${join(cells, sql`, `)} from (${rows}) ${x}`)
    }
  }
}

/** `select row_to_json(x)::text from (select array(select (x.*)::record from (...) x) as "author", ...) x` */
function emitRoots({ fields }: Roots): Statement {
  const printer = new Printer()
  // Joins use this alias, which refers to no table.
  const none = printer.alias()
  const printed = fields.map((field) => printer.field(field, none))
  const x = rowAlias(fields.map(({ key }) => key))
  return printer.statement(sql`select row_to_json(${x})::text from (select ${join(printed, sql`, `)}) ${x}`)
}

/**
 * Prints the call of a function that may change the database and returns all its rows. The next statement sees its
 * changes: `select coalesce(array_agg(t0.*), array[]::"author"[])::text from "add_author"("name" => $1::text) t0`
 */
function emitAhead(field: Field): readonly Statement[] {
  if (field.kind !== 'relation' || !field.read.from?.ahead) return []
  const { from, table } = field.read
  const printer = new Printer()
  const t = printer.alias()
  const rows = sql`coalesce(array_agg(${t}.*), array[]::${tableText(table)}[])`
  return [printer.statement(sql`select ${rows}::text from ${printer.call(from)} ${t}`)]
}

function emitCount(count: Count): Statement {
  const printer = new Printer()
  const t = printer.alias()
  const distinct = count.distinct?.map((column) => sql`${t}.${ident(column)}`)
  const from = sql`from ${tableText(count.table)} ${t}${printer.where([printer.condition(count.where, t)])}`
  if (!distinct) return printer.statement(sql`select row_to_json(x)::text from (select count(*) as "count" ${from}) x`)
  const rows = sql`select distinct ${join(distinct, sql`, `)} ${from}`
  return printer.statement(sql`select row_to_json(x)::text from (select count(*) as "count" from (${rows}) d) x`)
}
