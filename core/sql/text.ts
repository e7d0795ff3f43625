import type { SqlType, TableRef } from '../plan/ir.js'

declare const sqlBrand: unique symbol
/** SQL text that was made here: of constants, quoted identifiers and `$n`. No other string is one. */
export type Sql = string & { readonly [sqlBrand]: true }

/** Joins constant SQL with fragments. A plain string does not fit, so no request text can get in. */
export function sql(constants: TemplateStringsArray, ...fragments: readonly Sql[]): Sql {
  return String.raw({ raw: constants }, ...fragments) as Sql
}

export function join(fragments: readonly Sql[], separator: Sql): Sql {
  return fragments.join(separator) as Sql
}

/** An identifier of the catalog, or a key of a result, quoted. */
export function ident(name: string): Sql {
  return `"${name.replaceAll('"', '""')}"` as Sql
}

/** An alias that we make: `t0`. */
export function alias(prefix: 't' | 'c' | 'k' | 'l' | 'r', number: number): Sql {
  return `${prefix}${number}` as Sql
}

/** A whole number of ours. */
export function integer(number: number): Sql {
  return String(Math.trunc(number)) as Sql
}

/** A name for a whole row: none of its columns may have it, because a column would be meant by it first. */
export function rowAlias(columns: readonly string[], letter: 'x' | 'r' = 'x'): Sql {
  let name: string = letter
  while (columns.includes(name)) name += letter
  return name as Sql
}

export function tableText(table: TableRef): Sql {
  return sql`${ident(table.schema)}.${ident(table.name)}`
}

/** A type by the names that `pg_type` has for it, so that no type modifier is implied (`bit` would be `bit(1)`). */
export function typeText(type: SqlType): Sql {
  if (type.schema === 'pg_catalog' && /^[a-z_][a-z0-9_]*$/.test(type.name) && !MODIFIED.has(type.name)) {
    return type.name as Sql
  }
  return sql`${ident(type.schema)}.${ident(type.name)}`
}
const MODIFIED = new Set(['bit', 'char', 'character', 'interval', 'time', 'timestamp'])

/** An expression as PostgreSQL itself printed it (`pg_get_expr` of a column's default). */
export function printedExpression(text: string): Sql {
  return text as Sql
}
