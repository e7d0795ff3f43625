import { type Capture, type DatabaseTable, ident, join, literal, rowAlias, type Sql, sql } from 'rowhouse'
import { at, type Json, notExists, tableName, unexpectedPayload } from 'rowhouse/plan'

/** What `set_table_history` keeps of a table. */
export interface Definition {
  /** Absent: all columns. */
  readonly columns?: readonly string[]
}

/** Keeps each change of a row, made by whatever statement. */
export const capture: Capture = {
  asksWriter: true,
  keepsValues: true,
  check(definition, table) {
    if (table.primaryKey.length === 0) {
      throw unexpectedPayload(`"${tableName(table)}" has no primary key, so its rows have no history`, '$')
    }
    for (const [i, name] of (columnsIn(definition) ?? []).entries()) {
      if (!table.columns.some((column) => column.name === name)) {
        throw notExists(`column "${name}" of "${tableName(table)}" does not exist`, at('$.columns', i))
      }
    }
  },
  statements(definition, table) {
    const named = table.columns.map(({ name }) => name)
    const row = rowAlias(named)
    const keep = columnsIn(definition)
    // That a row got another key is always kept: from there on, the key is that of this row.
    const compared = keep && [...new Set([...keep, ...table.primaryKey])]
    const dropped = keep ? named.filter((name) => !keep.includes(name)) : []
    /** The columns that are kept, as jsonb. */
    const values = dropped.length === 0 ? sql`to_jsonb(${row})` : sql`to_jsonb(${row}) - ${texts(dropped)}`
    const key = (of: (name: string) => Sql) =>
      sql`jsonb_build_object(${join(
        table.primaryKey.map((name) => sql`${literal(name)}, ${of(name)}`),
        sql`, `,
      )})`
    const column = (name: string) => sql`${row}.${ident(name)}`
    const numbered = (rows: Sql) =>
      sql`(select row_number() over () as number, to_jsonb(${row}) as v from ${rows} ${row})`
    // PostgreSQL keeps both states of the rows in the same order.
    return {
      insert: sql`${INTO} select ${names(table, 'insert')}, ${key(column)}, null, ${values} from rows_new ${row};`,
      update: sql`${INTO} select ${names(table, 'update')}, ${key((name) => sql`c.v -> ${literal(name)}`)}, d.o, d.n
  from ${numbered(sql`rows_old`)} b join ${numbered(sql`rows_new`)} c using (number) cross join lateral (
    select jsonb_object_agg(e.key, e.value) as o, jsonb_object_agg(e.key, c.v -> e.key) as n from jsonb_each(b.v) e
    where c.v -> e.key <> e.value${compared ? sql` and e.key = any (${texts(compared)})` : sql``}
  ) d where d.o is not null;`,
      delete: sql`${INTO} select ${names(table, 'delete')}, ${key(column)}, ${values}, null from rows_old ${row};`,
      truncate: sql`${INTO} values (${names(table, 'truncate')}, null, null, null);`,
    }
  },
}

export const columnsIn = (definition: Json): readonly string[] | undefined => (definition as Definition).columns

const texts = (all: readonly string[]): Sql => sql`array[${join(all.map(literal), sql`, `)}]::text[]`
const INTO = sql`insert into svc_catalog.svc_history (table_schema, table_name, operation, key, old, new)`
const names = ({ schema, name }: DatabaseTable, operation: string): Sql =>
  sql`${literal(schema)}, ${literal(name)}, ${literal(operation)}`
