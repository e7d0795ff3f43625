import type { Migration } from 'rowhouse'

export const config = {
  type: 'object',
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

/** Never edit a migration that was released, not even its comments: databases store its checksum. */
export const migrations: readonly Migration[] = [
  {
    id: '001-session',
    sql: `
-- A row is a browser that is signed in, or an unused sign-in link. The browser has the id, and this table only its hash.
-- secret_key: a keyed hash of the admin secret that opened the session, masked with the id.
create table svc_catalog.svc_console_session (
  id_hash bytea primary key,
  role text not null,
  variables jsonb not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  secret_key bytea,
  roles text[]
);
-- Serves the deletion of expired sessions.
create index svc_console_session_expired on svc_catalog.svc_console_session (expires_at);
-- Serves the sessions of one user.
create index svc_console_session_user on svc_catalog.svc_console_session ((variables ->> 'x-service-user-id'));
`,
  },
]
