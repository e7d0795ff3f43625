import { type Catalog, tableName } from '../catalog/catalog.js'
import { CATALOG_SCHEMA } from '../metadata/schema.js'
import { survey, type Wanted } from '../metadata/survey.js'
import { type Database, withClient } from '../db/database.js'
import { ServiceError, serviceError } from '../errors.js'
import type { TableRef } from '../ir.js'
import { meant, namesake } from '../plan/near-names.js'

/**
 * Returns the error for an admin: one about a missing table says if the database has the table, or one in another schema that
 * was probably meant.
 */
export async function explainMissing(database: Database, error: unknown): Promise<unknown> {
  if (!(error instanceof ServiceError) || !error.missing) return error
  const { missing, path } = error
  const tables = await find(database, { tables: [missing] }).catch(() => [])
  if (tables.length === 0) {
    const elsewhere = error.message.endsWith('?')
      ? undefined
      : await findNamesake(database, missing).catch(() => undefined)
    return error.with({ message: `${error.message}${meant(elsewhere)}` })
  }
  const name = tableName(missing)
  const word = /^[\w.]+$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`
  return serviceError('not-exists', `table "${name}" exists but is not tracked; rowhouse track ${word}`, path, {
    cause: error,
  })
}

/** Returns the number of tables that could be tracked. Does not ask the database if any table is tracked. */
export async function countUntracked(database: Database, { tables }: Catalog): Promise<number> {
  if ([...tables.values()].some(({ schema }) => schema !== CATALOG_SCHEMA)) return 0
  return (await find(database, {})).filter(({ reason }) => reason === null).length
}

/** Returns the table of any schema that a name with a dot means, or one of the same name. */
async function findNamesake(database: Database, missing: TableRef): Promise<TableRef | undefined> {
  const { name } = missing
  // An identifier has at most 63 bytes.
  if (name.length > 2 * 63 + 1) return undefined
  const ends = name.split('.').map((_, i, parts) => parts.slice(i).join('.'))
  const found = await withClient(database.admin, (client) => client.query<TableRef>(NAMESAKES, [ends]))
  return namesake(missing, found.rows)
}

/** The catalog's index on `pg_class (relname, relnamespace)` serves it. */
const NAMESAKES = `
select nspname as schema, relname as name
from pg_class join pg_namespace n on n.oid = relnamespace
where relname = any ($1::text[]) and relkind in ('r', 'p', 'v', 'm', 'f')
  and nspname !~ '^pg_' and nspname not in ('information_schema', '${CATALOG_SCHEMA}')
order by nspname <> 'public', nspname, relname`

const find = (database: Database, wanted: Wanted) =>
  withClient(database.admin, async (client) => (await survey(client, wanted)).tables)
