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
 * Migrations of the metadata tables, which are the source of truth; snapshots are built from them and from `pg_catalog`.
 * Only metadata operations change these tables, one transaction each, under the lock of `change.ts`. Never edit a migration
 * that was released, not even its comments: databases store its checksum.
 */
export const catalogMigrations: readonly Migration[] = [
  {
    id: '001-metadata',
    sql: `
-- Each change of the metadata increments the version.
create table svc_catalog.svc_version (
  version bigint not null
);
insert into svc_catalog.svc_version values (1);
-- Allows one row only.
create unique index svc_version_one on svc_catalog.svc_version ((true));

-- version_column: the column that contains the version of a row, if the table has one.
create table svc_catalog.svc_table (
  table_schema text not null,
  table_name text not null,
  configuration jsonb,
  is_enum boolean not null default false,
  version_column text,
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

create table svc_catalog.svc_computed_field (
  table_schema text not null,
  table_name text not null,
  field_name text not null,
  field_def jsonb not null,
  comment text,
  primary key (table_schema, table_name, field_name),
  foreign key (table_schema, table_name) references svc_catalog.svc_table on delete cascade
);

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

create table svc_catalog.svc_inherited_role (
  role_name text primary key,
  role_set text[] not null
);

create table svc_catalog.svc_query_template (
  template_name text primary key,
  template_defn jsonb not null,
  comment text
);

-- Responses to requests with an Idempotency-Key. A repeated request gets the same response until expires_at. content_type is
-- null for JSON. counted_as is a hash of the caller whose quota it counts against; null for callers without limits.
create table svc_catalog.svc_kept_answer (
  caller text not null,
  key text not null,
  request_hash bytea not null,
  status smallint not null,
  content_type text,
  body bytea not null,
  expires_at timestamptz not null,
  counted_as bytea,
  primary key (caller, key)
);
-- Serves the deletion of expired responses.
create index svc_kept_answer_expired on svc_catalog.svc_kept_answer (expires_at);
create index svc_kept_answer_counted on svc_catalog.svc_kept_answer (counted_as) where counted_as is not null;

-- A statement calls this function when a written row fails its permission check. It is volatile, so that PostgreSQL never
-- calls it ahead.
create function svc_catalog.svc_refuse(message text) returns text language plpgsql volatile as $$
begin
  raise exception using errcode = '23514', message = message, constraint = 'svc_refuse';
end $$;
`,
  },
  {
    id: '002-captures',
    sql: `
-- What plugins note of each change of the table, by plugin.
alter table svc_catalog.svc_table add column captures jsonb not null default '{}';
`,
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
  'svc_inherited_role',
]
/** Triggers and functions of captures begin with it. */
export const CAPTURE_PREFIX = 'svc_capture_'
export const CATALOG_SCHEMA = 'svc_catalog'
