import { type Catalog, tableName } from '../catalog/catalog.js'
import { CATALOG_SCHEMA } from '../catalog/schema.js'
import { survey, type Wanted } from '../catalog/survey.js'
import { type Database, withClient } from '../db/database.js'
import { ServiceError, serviceError } from '../errors.js'

/** Returns the error for an admin: one about a missing table says if the database has the table. */
export async function explainMissing(database: Database, error: unknown): Promise<unknown> {
  if (!(error instanceof ServiceError) || !error.missing) return error
  const { missing, path } = error
  const tables = await find(database, { tables: [missing] }).catch(() => [])
  if (tables.length === 0) return error
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

const find = (database: Database, wanted: Wanted) =>
  withClient(database.admin, async (client) => (await survey(client, wanted)).tables)
