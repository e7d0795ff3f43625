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
]
