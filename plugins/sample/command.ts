import type { CommandContext, PluginCommand } from 'rowhouse'
import { SENDER, TEMPLATE_NAME } from './mail.js'
import { FILE_RULES, TEMPLATES } from './metadata.js'
import { MARK, TABLES } from './schema.js'

/** `rowhouse sample` */
export const sample: PluginCommand = {
  name: 'sample',
  summary: 'remove the sample shop',
  usage: 'rowhouse sample remove [--yes] | restore [--config FILE]',
  help: `remove drops the tables that rowhouse dev loaded, with their permissions, relationships, query templates, pictures and
mails, all or nothing; servers may keep running. Later starts do not load the shop again. It refuses if other tables, views
or metadata depend on the shop, and if its tables have columns or triggers that it does not know. restore lets the next
rowhouse dev load the shop, if the database has no tables.

  --yes           remove it; without it, the command shows what it would remove`,
  flags: { yes: 'boolean' },
  words: 1,
  async run(context) {
    const { words, flags, print, tell } = context
    if (words[0] === 'remove') return remove(context, flags['yes'] === true)
    if (words[0] === 'restore') {
      await context.query('drop table if exists svc_catalog.svc_sample_removed')
      print('the next rowhouse dev loads the sample shop if the database has no tables')
      return 0
    }
    tell('expected remove or restore; see rowhouse sample --help')
    return 2
  },
}

/** @returns the exit code */
async function remove({ query, ask, print, tell }: CommandContext, confirmed: boolean): Promise<number> {
  const found = await query<{ name: string }>(`${SHOP} select name from shop`, [MARK])
  const tables = Object.keys(TABLES).filter((table) => found.some(({ name }) => name === table))
  if (tables.length === 0) {
    tell('this database has no sample shop')
    return 1
  }
  const columns = Object.fromEntries(Object.entries(TABLES).map(([table, known]) => [table, known.columns]))
  const foreign = await query<{ name: string }>(FOREIGN, [MARK, columns])
  if (foreign.length > 0) {
    tell(
      `remove these first, because they depend on the sample shop or extend it:${list(foreign.map(({ name }) => name))}`,
    )
    return 1
  }
  const metadata = await query<Dropped>(METADATA, [MARK, JSON.stringify(TEMPLATES), JSON.stringify(FILE_RULES)])
  const [{ files, mails } = NO_SERVICES] = await query<{ files: boolean; mails: boolean }>(SERVICES)
  const hasPictures = files && tables.includes('product')
  const sql = [...(hasPictures ? [PICTURES] : []), ...(mails ? [MAILS] : []), ...tables.map(drop), REMEMBER].join(';\n')
  const steps = [
    { type: 'run_sql', args: { sql: locked(tables, columns) } },
    ...metadata,
    { type: 'run_sql', args: { sql } },
  ]
  const parts = [
    ...tables.map((name) => `${kindOf(name)} ${name}`),
    ...metadata.flatMap(({ type, args }) => (type === 'drop_query_template' ? [`query template ${args.name}`] : [])),
    ...(hasPictures ? ['the pictures of its products in the filestore'] : []),
    ...(mails ? [`the mail template ${TEMPLATE_NAME} and its mails`] : []),
  ]
  const added = confirmed ? [] : (await query<{ name: string; count: number }>(addedTo(tables))).filter(hasRows)
  try {
    await ask('bulk', JSON.stringify(steps), { isDry: !confirmed })
  } catch (error) {
    const dependents = dependentsIn(error)
    if (dependents === undefined) throw error
    tell(`remove these first, because they depend on the sample shop:${list(dependents)}`)
    return 1
  }
  if (!confirmed) {
    const lines = added.map(
      ({ name, count }) => `${count} ${count === 1 ? 'row that was' : 'rows that were'} added to ${name}`,
    )
    tell(`rowhouse sample remove --yes removes the shop, whatever was changed in it:${list([...lines, ...parts])}`)
    return 1
  }
  print(`removed the sample shop, with its permissions and relationships:${list(parts)}`)
  return 0
}

const hasRows = ({ count }: { readonly count: number }): boolean => count > 0

/** Returns the metadata that an error names as dependent on what is dropped; undefined for another error. */
function dependentsIn(error: unknown): readonly string[] | undefined {
  const { code, reason = '' } = error as { readonly code?: unknown; readonly reason?: string }
  const [, names] = /dependent objects: (.*)/s.exec(code === 'dependency-error' ? reason : '') ?? []
  return names?.split(', ')
}

/** A metadata operation, e.g. `drop_query_template`. */
interface Dropped {
  readonly type: string
  readonly args: { readonly name?: string }
}

const list = (lines: readonly string[]): string => lines.map((line) => `\n  ${line}`).join('')

/** Locks the tables for the rest of the transaction, and checks again that nothing would be lost with them. */
const locked = (tables: readonly string[], columns: object): string => `
lock table ${tables.map((table) => `public.${table}`).join(', ')} in access exclusive mode;
do $check$
begin
  if exists (${FOREIGN.replaceAll('$1', `'${MARK}'`).replaceAll('$2', `'${JSON.stringify(columns)}'`)}) then
    raise exception 'the sample shop was just extended; run the command again';
  end if;
end $check$`

/** The tables of the shop. `$1` is `MARK`. */
const SHOP = `
with shop as (
  select oid, relname as name, reltype from pg_catalog.pg_class
  where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')
    and pg_catalog.starts_with(pg_catalog.obj_description(oid, 'pg_class'), $1)
)`

/** What would be lost with the tables, or stands in their way. `$2` has the known columns of each table. */
const FOREIGN = `${SHOP}
select 'column ' || name || '.' || attname as name
from shop join pg_catalog.pg_attribute on attrelid = shop.oid
where attnum > 0 and not attisdropped and not coalesce($2::jsonb -> name ? attname::text, false)
union all
select 'foreign key ' || conname || ' of table ' || conrelid::regclass
from pg_catalog.pg_constraint join shop on confrelid = shop.oid
where contype = 'f' and conrelid not in (select oid from shop)
union all
select distinct 'view ' || ev_class::regclass
from pg_catalog.pg_depend join shop on refobjid = shop.oid join pg_catalog.pg_rewrite on pg_rewrite.oid = objid
where classid = 'pg_catalog.pg_rewrite'::regclass and refclassid = 'pg_catalog.pg_class'::regclass and ev_class not in (select oid from shop)
union all
select 'function ' || pg_proc.oid::regprocedure
from pg_catalog.pg_proc join shop on prorettype = reltype or reltype = any (proargtypes)
union all
select 'trigger ' || tgname || ' of table ' || name from pg_catalog.pg_trigger join shop on tgrelid = shop.oid where not tgisinternal
order by 1`

const addedTo = (tables: readonly string[]): string =>
  tables
    .flatMap((table) => {
      const { added } = TABLES[table] ?? {}
      return added === undefined
        ? []
        : [`select '${table}' as name, pg_catalog.count(*)::integer from public.${table} where ${added}`]
    })
    .join(' union all ')

/**
 * The operations that drop the metadata of the shop: everything of its tables, and `$2`, its query templates, and `$3`,
 * its rules for files, unless they were changed. The table of files stays tracked for other rules. Dropping the tables untracks
 * them, all together, so that an error names all that depends on them.
 */
const METADATA = `${SHOP},
on_shop as (select 'public' as table_schema, name as table_name from shop),
file_rules as (
  select *, exists (
    select from pg_catalog.jsonb_array_elements($3::jsonb) rule
    where rule ->> 'role' = role_name and rule ->> 'type' = perm_type and rule -> 'permission' = perm_def
  ) as is_own
  from svc_catalog.svc_permission where (table_schema, table_name) = ('svc_catalog', 'svc_file')
),
file_relationships as (
  select *, rel_name = 'product' and rel_def #>> '{manual_configuration,remote_table}' = 'product' as is_own
  from svc_catalog.svc_relationship where (table_schema, table_name) = ('svc_catalog', 'svc_file')
),
permissions as (
  select table_schema, table_name, role_name, perm_type from svc_catalog.svc_permission natural join on_shop
  union all
  select table_schema, table_name, role_name, perm_type from file_rules where is_own
),
relationships as (
  select table_schema, table_name, rel_name from svc_catalog.svc_relationship natural join on_shop
  union all
  select table_schema, table_name, rel_name from file_relationships where is_own
),
untracked as (
  select distinct table_schema, table_name from file_relationships
  where is_own and not exists (select from file_rules where not is_own)
    and not exists (select from file_relationships where not is_own)
)
select type, args from (
  select 1 as step, 'drop_query_template' as type, pg_catalog.jsonb_build_object('name', template_name) as args
  from svc_catalog.svc_query_template
  join pg_catalog.jsonb_array_elements($2::jsonb) own on own ->> 'name' = template_name and own -> 'template' = template_defn
  union all
  select 2, 'drop_' || perm_type || '_permission', pg_catalog.jsonb_build_object('table', ref, 'role', role_name)
  from permissions, lateral pg_catalog.jsonb_build_object('schema', table_schema, 'name', table_name) ref
  union all
  select 3, 'drop_relationship', pg_catalog.jsonb_build_object('table', ref, 'name', rel_name)
  from relationships, lateral pg_catalog.jsonb_build_object('schema', table_schema, 'name', table_name) ref
  union all
  select 4, 'untrack_table', pg_catalog.jsonb_build_object('table', pg_catalog.jsonb_build_object('schema', table_schema, 'name', table_name))
  from untracked
) as steps order by step`

const NO_SERVICES = { files: false, mails: false }

/** Whether the tables of the plugins filestore and notify exist. */
const SERVICES = `
select pg_catalog.to_regclass('svc_catalog.svc_file') is not null as files,
  pg_catalog.to_regclass('svc_catalog.svc_mail_template') is not null as mails`

const kindOf = (table: string): string => (table === 'orders_by_month' ? 'view' : 'table')
const drop = (table: string): string => `drop ${kindOf(table)} public.${table}`
const PICTURES = `
delete from svc_catalog.svc_file where file_id in (select picture from public.product where picture = 'products/' || id || '.png')`
const MAILS = `
with template as (
  delete from svc_catalog.svc_mail_template where name = '${TEMPLATE_NAME}' and pg_catalog.starts_with(comment, '${MARK}') returning name
)
delete from svc_catalog.svc_outbox using template
where template = name and "from" = '${SENDER}' and "to" in (select email from public.customer)`
const REMEMBER = `
create table if not exists svc_catalog.svc_sample_removed as select pg_catalog.now() as removed_at`
