import type { Migration } from 'rowhouse'

/** Never edit a migration that was released, not even its comments: databases store its checksum. */
export const migrations: readonly Migration[] = [
  {
    id: '001-history',
    sql: `
-- A change of a row, by whoever made it. key: the primary key, after the change. old and new: what the columns were and are;
-- of an update, those that changed. Of a statement that truncated the table, all three are null. role, user_id and request_id
-- are those of the request; login is that of PostgreSQL.
create table svc_catalog.svc_history (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  table_schema text not null,
  table_name text not null,
  operation text not null check (operation in ('insert', 'update', 'delete', 'truncate')),
  key jsonb,
  old jsonb,
  new jsonb,
  role text default nullif(current_setting('service.role', true), ''),
  user_id text default nullif(current_setting('service.user_id', true), ''),
  request_id text default nullif(current_setting('service.request_id', true), ''),
  login text not null default session_user
);
-- A key may be longer than an entry of an index.
create index svc_history_key on svc_catalog.svc_history (table_schema, table_name, hashtextextended(key::text, 0), id);
create index svc_history_at on svc_catalog.svc_history using brin (at);
`,
  },
]
