import type { Count, Field, Op, Operand, Read, Roots } from '../plan/ir.js'
import { emitWrite } from './emit-write.js'
import { Printer } from './printer.js'
import type { Statement } from './statement.js'
import { ident, join, rowAlias, sql, tableText } from './text.js'

/**
 * How a read answers. `array`: one row whose one column is the whole JSON text. `rows`: a row each, whose one column is
 * the JSON text of an object. `cells`: a row each, a text column for each field.
 */
export type Form = 'array' | 'rows' | 'cells'

/** Prints an authorised plan. More than one statement: they run in order in one transaction, the last one answers. */
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

/** Reads constants as their types, to find out whether PostgreSQL can. */
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
      // Text as it is, all else as JSON text, null as null. A JSON null or string stays what it is.
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
  // Nothing joins an alias that does not stand for a table.
  const none = printer.alias()
  const printed = fields.map((field) => printer.field(field, none))
  const x = rowAlias(fields.map(({ key }) => key))
  return printer.statement(sql`select row_to_json(${x})::text from (select ${join(printed, sql`, `)}) ${x}`)
}

/**
 * Calls a function that may change the database and gives its rows, whatever is asked of them. The next statement sees what
 * it did: `select coalesce(array_agg(t0.*), array[]::"author"[])::text from "add_author"("name" => $1::text) t0`
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
