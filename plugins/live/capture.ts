import { type Capture, type DatabaseTable, ident, join, literal, type Sql, sql } from 'rowhouse'
import { at, type Json, notExists, tableName } from 'rowhouse/plan'

/** What `set_table_live` notes of a table. */
export interface Definition {
  /** Columns to note beside those of keys. */
  readonly columns?: readonly string[]
}

/** A statement that changed more rows is noted without their values. */
const MOST = 1000
/** Columns of a note. */
const MOST_COLUMNS = 16

/**
 * Notes that a table changed, in the transaction that changed it, with the values of its keys before and after. A statement that
 * changed no row leaves no note.
 */
export const capture: Capture = {
  check(definition, table) {
    for (const [i, name] of columnsIn(definition).entries()) {
      if (!table.columns.some((column) => column.name === name)) {
        throw notExists(`column "${name}" of "${tableName(table)}" does not exist`, at('$.columns', i))
      }
    }
  },
  statements(definition, table) {
    const { schema, name } = table
    const columns = [...new Set([...columnsIn(definition), ...keysOf(table)])].slice(0, MOST_COLUMNS)
    const names = sql`array[${join(columns.map(literal), sql`, `)}]::text[]`
    const values = sql`jsonb_build_array(${join(
      columns.map((each) => sql`r.${ident(each)}::text`),
      sql`, `,
    )})`
    const rowsIn = (rows: Sql) => sql`(select * from ${rows} limit ${literal(String(MOST + 1))})`
    const note = (
      rows: Sql,
      most: number,
    ) => sql`insert into svc_catalog.svc_live_note (table_schema, table_name, columns, keys)
  select ${literal(schema)}, ${literal(name)}, ${names}, case when count(*) <= ${literal(String(most))} then jsonb_agg(distinct ${values}) end
  from ${rows} r having count(*) > 0;`
    return {
      insert: note(rowsIn(sql`rows_new`), MOST),
      update: note(sql`(${rowsIn(sql`rows_old`)} union all ${rowsIn(sql`rows_new`)})`, 2 * MOST),
      delete: note(rowsIn(sql`rows_old`), MOST),
      truncate: sql`insert into svc_catalog.svc_live_note (table_schema, table_name) values (${literal(schema)}, ${literal(name)});`,
    }
  },
}

const columnsIn = (definition: Json): readonly string[] => (definition as Definition).columns ?? []

/** The columns by which rows are found and joined. */
const keysOf = ({ primaryKey, keys, foreignKeys }: DatabaseTable): readonly string[] => [
  ...primaryKey,
  ...[...foreignKeys, ...keys].flatMap(({ columns }) => columns),
]
