import { type Capture, literal, type Sql, sql } from 'rowhouse'

/** Notes that a table changed, in the transaction that changed it. A statement that changed no row leaves no note. */
export const capture: Capture = {
  check() {},
  statements(_definition, { schema, name }) {
    const note = sql`insert into svc_catalog.svc_live_note (table_schema, table_name) values (${literal(schema)}, ${literal(name)});`
    const ifAny = (rows: Sql) => sql`if exists (select from ${rows}) then ${note} end if;`
    return { insert: ifAny(sql`rows_new`), update: ifAny(sql`rows_new`), delete: ifAny(sql`rows_old`), truncate: note }
  },
}
