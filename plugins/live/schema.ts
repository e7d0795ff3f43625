import type { Migration } from 'rowhouse'

/** Never edit a migration that was released, not even its comments: databases store its checksum. */
export const migrations: readonly Migration[] = [
  {
    id: '001-live',
    sql: `
-- Statements that changed a table, by their transaction. Unlogged: after a crash it is empty, and the epoch is gone with it.
create unlogged table svc_catalog.svc_live_note (
  xid xid8 not null default pg_current_xact_id(),
  table_schema text not null,
  table_name text not null,
  -- Values of some columns of the rows that changed, as texts, before and after. Null: of all rows.
  columns text[],
  keys jsonb
);
create index svc_live_note_xid on svc_catalog.svc_live_note (xid);
-- One row. Whoever finds another epoch than before has missed notes.
create unlogged table svc_catalog.svc_live_epoch (
  one boolean primary key default true check (one),
  epoch uuid not null default gen_random_uuid()
);
`,
  },
]
