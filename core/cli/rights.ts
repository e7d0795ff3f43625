import type pg from 'pg'
import { counted } from '../wording.js'
import type { DatabaseConfig } from '../db/config.js'
import { budgetOf, poolSizes, sumOf } from '../db/pool-sizes.js'
import { isPooled } from '../db/database.js'
import { CATALOG_SCHEMA } from '../metadata/schema.js'
import { type MigrationSet, pendingMigrations } from '../host/migrate.js'
import { withConnection } from './command-database.js'

/** The result of one check. */
export interface Finding {
  readonly ok: boolean
  /** Path of the setting that it is about. */
  readonly path?: string | undefined
  /** What to do about it. */
  readonly hint?: string | undefined
  /** Whether it is advice. */
  readonly note?: true
  readonly text: string
}

/** Returns the pending migrations, as far as the login may see them, and what `findRights` finds. */
export async function findRightsFor(client: pg.Client, sets: readonly MigrationSet[]) {
  const pending = (await mayReadRecord(client)) ? await pendingMigrations(client, sets) : []
  return { pending, rights: await findRights(client, pending.length) }
}

/** Returns whether the login may see which migrations ran, or none ran. */
async function mayReadRecord(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ may: boolean }>(
    `select pg_catalog.to_regnamespace('svc_catalog') is null or pg_catalog.has_schema_privilege('svc_catalog', 'usage')
       and coalesce(pg_catalog.has_table_privilege(pg_catalog.to_regclass('svc_catalog.svc_migration'), 'select'), true) as may`,
  )
  return rows[0]!.may
}

/**
 * Returns a function that throws what `rowhouse check` would say, if PostgreSQL refused something to the login, and otherwise
 * the error.
 */
export function explainRefusal(url: string | undefined, sets: readonly MigrationSet[]) {
  return async (error: unknown): Promise<never> => {
    if (url === undefined || !isRefusal(error)) throw error
    const found = await withConnection(url, 'check', (client) => findRightsFor(client, sets)).catch(() => undefined)
    const missing = (found?.rights ?? []).filter(({ ok }) => !ok).map(({ text }) => text)
    throw missing.length === 0 ? error : new Error(missing.join('; '), { cause: error })
  }
}

const isRefusal = (error: unknown): boolean =>
  error instanceof Error && ((error as pg.DatabaseError).code === '42501' || isRefusal(error.cause))

/**
 * Finds the rights that the login of the server misses: those that each server needs, and those on tracked tables that
 * permissions offer to roles.
 */
async function findRights(client: pg.Client, pending: number): Promise<readonly Finding[]> {
  const { rows } = await client.query<{
    login: string
    isMigrator: boolean
    isReadOnly: boolean
    hasPermissions: boolean
    missing: string[]
  }>(
    `select current_user as login,
       exists (select from pg_catalog.pg_class where relnamespace = pg_catalog.to_regnamespace($1) and relname = 'svc_permission') as "hasPermissions",
       case when pg_catalog.to_regnamespace($1) is null then pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create')
         else (select pg_catalog.pg_has_role(nspowner, 'usage') from pg_catalog.pg_namespace where nspname = $1) end as "isMigrator",
       pg_catalog.current_setting('transaction_read_only')::bool as "isReadOnly",
       case when pg_catalog.to_regnamespace($1) is null then '{}'
         when not pg_catalog.has_schema_privilege($1, 'usage') then array['usage on schema ' || $1]
         else array(
           select pg_catalog.lower(right_) || ' on ' || case relkind when 'S' then 'sequence ' else '' end || c.oid::regclass
           from pg_catalog.pg_class c
           cross join lateral pg_catalog.unnest(case relkind when 'S' then array['USAGE'] else array['SELECT', 'INSERT', 'UPDATE', 'DELETE'] end) right_
           where relnamespace = pg_catalog.to_regnamespace($1) and relkind in ('r', 'p', 'S')
             and not case relkind when 'S' then pg_catalog.has_sequence_privilege(c.oid, right_) else pg_catalog.has_table_privilege(c.oid, right_) end
           order by c.oid::regclass::text, right_) end as missing`,
    [CATALOG_SCHEMA],
  )
  const { login, isMigrator, isReadOnly, hasPermissions, missing } = rows[0]!
  const findings: Finding[] = []
  if (isReadOnly)
    findings.push({
      ok: false,
      text: 'the database is read-only: it is a standby, or default_transaction_read_only is on',
    })
  if (pending > 0 && !isMigrator) {
    const text = `the login "${login}" may not run the ${pending} pending migrations: run rowhouse upgrade with the login that owns the database`
    return [...findings, { ok: false, text }]
  }
  const needed = missing.length > 0 || !hasPermissions ? missing : await findTableRights(client)
  if (needed.length === 0)
    return [...findings, { ok: true, text: `rights: the login "${login}" has all that it needs` }]
  const list = `${needed.slice(0, SHOWN).join(', ')}${needed.length > SHOWN ? ` and ${needed.length - SHOWN} more` : ''}`
  const text = `the login "${login}" misses ${list}: rowhouse doctor --grants prints what grants them`
  return [...findings, { ok: false, text }]
}

const SHOWN = 5

/** Returns what permissions of roles offer and the login may not do. */
async function findTableRights(client: pg.Client): Promise<readonly string[]> {
  const { rows } = await client.query<{ missing: string }>(
    `with tracked as (
       select distinct pg_catalog.to_regclass(pg_catalog.format('%I.%I', table_schema, table_name)) as id, table_schema as schema, perm_type as "right"
       from svc_catalog.svc_permission)
     select distinct case when pg_catalog.has_schema_privilege(schema, 'usage') then "right" || ' on ' || id::regclass
       else pg_catalog.format('usage on schema %I', schema) end as missing
     from tracked
     where id is not null and not (pg_catalog.has_schema_privilege(schema, 'usage')
       and case "right" when 'delete' then pg_catalog.has_table_privilege(id, 'delete') else pg_catalog.has_any_column_privilege(id, "right") end)
     order by missing`,
  )
  return rows.map(({ missing }) => missing)
}

/**
 * Returns a finding that compares the connections of one server with what PostgreSQL has for its login.
 * @param given number of processes; undefined: one, and what any number may open
 */
export async function findConnections(
  client: pg.Client,
  config: DatabaseConfig,
  fast: boolean,
  given: number | undefined,
): Promise<Finding> {
  const { rows } = await client.query<{ free: number }>(
    `select least(
       pg_catalog.current_setting('max_connections')::int - pg_catalog.current_setting('superuser_reserved_connections')::int
         - coalesce(pg_catalog.current_setting('reserved_connections', true)::int, 0),
       (select nullif(rolconnlimit, -1) from pg_catalog.pg_roles where rolname = current_user),
       (select nullif(datconnlimit, -1) from pg_catalog.pg_database where datname = pg_catalog.current_database())) as free`,
  )
  const free = rows[0]!.free
  const processes = given ?? 1
  const sizes = poolSizes(config, processes)
  const most = processes * (sumOf(sizes) - (fast ? 0 : sizes.pipelines + sizes.sharedCommits))
  const servers = (connections: number) => {
    return `enough for ${counted(Math.floor(free / connections), 'server')}`
  }
  const server = processes === 1 ? 'a server' : `a server of ${processes} processes`
  const behind = isPooled(config)
    ? `through the pooler, and ${processes} directly`
    : `of ${free} for this login: ${servers(most)}`
  const budget = budgetOf(config)
  const others =
    given === undefined ? `; with --processes, up to ${budget}${isPooled(config) ? '' : `: ${servers(budget)}`}` : ''
  const standbys =
    config.readUrls.length > 0 ? `; as many on each standby, and up to ${2 * most} on one that is promoted` : ''
  const text = `connections: ${server} opens up to ${most} ${behind}${others}${standbys}`
  return { ok: isPooled(config) || most <= free, text }
}

/** Prints SQL that grants the login of the server what it needs, to be run by the owner of the schemas. */
export async function grantsFor({ url, directUrl }: Pick<DatabaseConfig, 'url' | 'directUrl'>): Promise<string> {
  const ask = async (client: pg.Client) => {
    const { rows } = await client.query<{ login: string; database: string; schemas: string[] }>(
      `select pg_catalog.quote_ident(current_user) as login, pg_catalog.quote_ident(pg_catalog.current_database()) as database,
         array(select pg_catalog.quote_ident(nspname) from pg_catalog.pg_namespace n
           where nspname not in ('information_schema', $1) and nspname not like 'pg\\_%'
             and not exists (select from pg_catalog.pg_depend d where d.objid = n.oid and d.deptype = 'e')
           order by nspname) as schemas`,
      [CATALOG_SCHEMA],
    )
    const { login, database, schemas } = rows[0]!
    const script = [
      `-- Grants the login ${login} what a server needs in the database ${database}. Run it after rowhouse upgrade, with the`,
      `-- login that owns the tables: rowhouse doctor --grants | psql OWNER_URL. Leave out schemas that are not served.`,
      `grant connect on database ${database} to ${login};`,
    ]
    for (const schema of [CATALOG_SCHEMA, ...schemas]) script.push('', ...grantsOn(schema, login))
    return script.join('\n')
  }
  const setting = directUrl === undefined ? 'database.url' : 'database.directUrl'
  return withConnection((directUrl ?? url)!, 'doctor', ask, { setting })
}

/** Includes the tables that the same owner creates later. */
const grantsOn = (schema: string, login: string): readonly string[] => [
  `grant usage on schema ${schema} to ${login};`,
  `grant select, insert, update, delete on all tables in schema ${schema} to ${login};`,
  `grant usage on all sequences in schema ${schema} to ${login};`,
  `alter default privileges in schema ${schema} grant select, insert, update, delete on tables to ${login};`,
  `alter default privileges in schema ${schema} grant usage on sequences to ${login};`,
]
