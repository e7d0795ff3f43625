import type { Migration } from 'rowhouse'

/** Mail templates that are stored here, for providers without templates and to keep templates beside the data. */
export const templatesMigration: Migration = {
  id: '003-mail-templates',
  sql: `
-- subject, text and html are Liquid; html is escaped when it is filled in.
create table svc_catalog.svc_mail_template (
  name text primary key check (name ~ '^[A-Za-z0-9_.-]{1,64}$'),
  subject text not null,
  text text,
  html text,
  comment text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check (text is not null or html is not null)
);
`,
}
