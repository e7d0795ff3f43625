import pg from 'pg'
import type { Invocation } from '../cli.js'
import { isPooled } from '../db/database.js'
import { checkSessions, setSessionDefaults } from '../db/pooler.js'
import { migrate, type MigrationSet, type Pending, pendingMigrations } from '../host/migrate.js'
import { loadServer, migrationSets } from '../host/server.js'
import { builtins, source, withDatabase } from './builtins.js'

/** Runs the pending migrations, or lists them. */
export function migrateDatabase({ flags }: Invocation): Promise<number> {
  return withDatabase(flags, (url) => migrateAt(url, flags))
}

async function migrateAt(url: string, flags: Invocation['flags']): Promise<number> {
  const { config, loaded } = await loadServer({ ...source(flags), builtins: builtins() })
  const { database } = config.values
  const dry = flags['dry-run'] === true
  const defaults = isPooled(database) ? await setSessionDefaults(database, dry) : []
  for (const each of defaults) console.log(`${dry ? 'would set' : 'set'} ${each}`)
  const steps = await migrateSchema(database.directUrl ?? url, migrationSets(loaded), dry)
  for (const { owner, id } of steps) console.log(`${dry ? 'would run' : 'ran'} ${owner} ${id}`)
  if (defaults.length === 0 && steps.length === 0) console.log('nothing to migrate')
  if (isPooled(database) && !dry) await checkSessions(database)
  return 0
}

async function migrateSchema(url: string, sets: readonly MigrationSet[], dry: boolean): Promise<readonly Pending[]> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    application_name: 'rowhouse migrate',
  })
  await client.connect()
  try {
    return dry ? await pendingMigrations(client, sets) : await migrate(client, sets, console.error)
  } finally {
    await client.end()
  }
}
