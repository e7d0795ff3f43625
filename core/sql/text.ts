import { isLongName, type SqlType, type TableRef } from '../ir.js'

declare const sqlBrand: unique symbol
/** SQL text built here from constants, quoted identifiers and `$n`. No other string has this type. */
export type Sql = string & { readonly [sqlBrand]: true }

/** Joins constant SQL with fragments. Plain strings are not accepted, so no request text can get in. */
export function sql(constants: TemplateStringsArray, ...fragments: readonly Sql[]): Sql {
  return String.raw({ raw: constants }, ...fragments) as Sql
}

export function join(fragments: readonly Sql[], separator: Sql): Sql {
  return fragments.join(separator) as Sql
}

/** Quotes an identifier of the catalog, or a key of a result. */
export function ident(name: string): Sql {
  return `"${name.replaceAll('"', '""')}"` as Sql
}

/** Quotes a text as a constant, whatever `standard_conforming_strings` is. Only for definitions: requests have parameters. */
export function literal(text: string): Sql {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'` as Sql
}

/** Prints a generated alias: `t0`. */
export function alias(prefix: 't' | 'c' | 'k' | 'l' | 'r', number: number): Sql {
  return `${prefix}${number}` as Sql
}

/** Prints a trusted whole number. */
export function integer(number: number): Sql {
  return String(Math.trunc(number)) as Sql
}

/** Returns a name for a whole row that no column has, because a column takes precedence. */
export function rowAlias(columns: readonly string[], letter: 'x' | 'r' = 'x'): Sql {
  let name: string = letter
  while (columns.includes(name)) name += letter
  return name as Sql
}

/** Prints the names of the columns that become the keys of an object. They are numbered if a key is too long for a name. */
export function columnNames(fields: readonly { readonly key: string }[]): readonly Sql[] {
  return fields.some(({ key }) => isLongName(key))
    ? fields.map((_, i) => ident(String(i)))
    : fields.map(({ key }) => ident(key))
}

/** Prints values as the columns that become the keys of an object: `t0."id" as "id", ...` */
export function columnsAs(values: readonly Sql[], fields: readonly { readonly key: string }[]): Sql {
  const names = columnNames(fields)
  return join(
    values.map((value, i) => sql`${value} as ${names[i] as Sql}`),
    sql`, `,
  )
}

export function tableText(table: TableRef): Sql {
  return sql`${ident(table.schema)}.${ident(table.name)}`
}

/** Prints a type by its name in `pg_type`, which implies no type modifier (`bit` would be `bit(1)`). */
export function typeText(type: SqlType): Sql {
  if (type.schema === 'pg_catalog' && /^[a-z_][a-z0-9_]*$/.test(type.name) && !MODIFIED.has(type.name)) {
    return type.name as Sql
  }
  return sql`${ident(type.schema)}.${ident(type.name)}`
}
const MODIFIED = new Set(['bit', 'char', 'character', 'interval', 'time', 'timestamp'])

/** Accepts an expression that PostgreSQL itself printed (`pg_get_expr` of a column's default). */
export function printedExpression(text: string): Sql {
  return text as Sql
}
