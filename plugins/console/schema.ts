import type { Migration } from 'rowhouse'

export const config = {
  type: 'object',
  additionalProperties: false,
  properties: {
    sessionHours: {
      type: 'number',
      minimum: 0.1,
      maximum: 720,
      default: 12,
      description: 'Hours after which the console asks its users to sign in again.',
    },
  },
} as const

/** Never edit a migration: databases store its checksum. */
export const migrations: readonly Migration[] = [
  {
    id: '001-session',
    sql: `
-- A row is a browser that is signed in. The browser has the id, and this table only its hash.
create table svc_catalog.svc_console_session (
  id_hash bytea primary key,
  role text not null,
  variables jsonb not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index svc_console_session_expired on svc_catalog.svc_console_session (expires_at);
`,
  },
  {
    id: '002-secret-and-roles',
    sql: `
-- The browsers sign in again, because it is unknown which admin secret they depend on.
delete from svc_catalog.svc_console_session;
alter table svc_catalog.svc_console_session
  add column secret_key bytea,
  add column roles text[];
-- Serves the sessions of one user.
create index svc_console_session_user on svc_catalog.svc_console_session ((variables ->> 'x-service-user-id'));
comment on column svc_catalog.svc_console_session.secret_key is
  'Which admin secret opened the session: a keyed hash, masked with the id of the browser';
`,
  },
]
