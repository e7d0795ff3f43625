/** A migration, run once in a transaction. */
export interface Migration {
  /** e.g. `001-init`; unique within its plugin. */
  readonly id: string
  readonly sql: string
  /**
   * Whether servers that do not know this migration must not run with it. Only for a new major version; see
   * CONTRIBUTING.md.
   */
  readonly breaks?: true
}

/**
 * Migrations of the metadata tables. They are the source of truth; snapshots are built from them and from `pg_catalog`.
 * Only metadata operations change them, one transaction each, under the lock of `change.ts`.
 */
export const catalogMigrations: readonly Migration[] = [
  {
    id: '001-metadata',
    sql: `
create table svc_catalog.svc_version (version bigint not null);
insert into svc_catalog.svc_version values (1);
create unique index svc_version_one on svc_catalog.svc_version ((true));

create table svc_catalog.svc_table (
  table_schema text not null,
  table_name text not null,
  primary key (table_schema, table_name)
);

create table svc_catalog.svc_relationship (
  table_schema text not null,
  table_name text not null,
  rel_name text not null,
  rel_type text not null check (rel_type in ('object', 'array')),
  rel_def jsonb not null,
  comment text,
  primary key (table_schema, table_name, rel_name),
  foreign key (table_schema, table_name) references svc_catalog.svc_table on delete cascade
);

create table svc_catalog.svc_permission (
  table_schema text not null,
  table_name text not null,
  role_name text not null,
  perm_type text not null check (perm_type in ('insert', 'select', 'update', 'delete')),
  perm_def jsonb not null,
  comment text,
  primary key (table_schema, table_name, role_name, perm_type),
  foreign key (table_schema, table_name) references svc_catalog.svc_table on delete cascade
);

create table svc_catalog.svc_query_template (
  template_name text primary key,
  template_defn jsonb not null,
  comment text
);

-- Raises from within a query when a written row fails its permission's check. Volatile, so that it is never run ahead.
create function svc_catalog.svc_refuse(message text) returns text language plpgsql volatile as $$
begin
  raise exception using errcode = '23514', message = message, constraint = 'svc_refuse';
end $$;
`,
  },
  {
    id: '002-functions',
    sql: `
alter table svc_catalog.svc_table add column configuration jsonb;

create table svc_catalog.svc_function (
  function_schema text not null,
  function_name text not null,
  configuration jsonb,
  comment text,
  primary key (function_schema, function_name)
);

create table svc_catalog.svc_function_permission (
  function_schema text not null,
  function_name text not null,
  role_name text not null,
  primary key (function_schema, function_name, role_name),
  foreign key (function_schema, function_name) references svc_catalog.svc_function on delete cascade
);

create table svc_catalog.svc_computed_field (
  table_schema text not null,
  table_name text not null,
  field_name text not null,
  field_def jsonb not null,
  comment text,
  primary key (table_schema, table_name, field_name),
  foreign key (table_schema, table_name) references svc_catalog.svc_table on delete cascade
);
`,
  },
  {
    id: '003-enum-tables',
    // Without a default, because servers of the previous version write no value.
    sql: 'alter table svc_catalog.svc_table add column is_enum boolean;',
  },
  {
    id: '004-kept-answers',
    sql: `
-- Answers to requests with an Idempotency-Key, for those who repeat them.
create table svc_catalog.svc_kept_answer (
  caller text not null,
  key text not null,
  request_hash bytea not null,
  status smallint not null,
  -- Null for JSON.
  content_type text,
  body bytea not null,
  expires_at timestamptz not null,
  primary key (caller, key)
);
create index svc_kept_answer_expired on svc_catalog.svc_kept_answer (expires_at);
`,
  },
  {
    id: '005-row-versions',
    sql: 'alter table svc_catalog.svc_table add column version_column text;',
  },
]

/** Tables that admin can select from, addressed as `{schema: "svc_catalog", name}`. */
export const SYSTEM_TABLES = [
  'svc_version',
  'svc_table',
  'svc_relationship',
  'svc_permission',
  'svc_query_template',
  'svc_function',
  'svc_function_permission',
  'svc_computed_field',
]
export const CATALOG_SCHEMA = 'svc_catalog'
