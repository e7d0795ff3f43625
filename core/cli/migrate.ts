import type { Invocation } from '../cli.js'
import { isPooled } from '../db/database.js'
import { checkSessions, setSessionDefaults } from '../db/pooler.js'
import { migrate, type MigrationSet, type Pending, pendingMigrations } from '../host/migrate.js'
import { loadServer, migrationSets } from '../host/server.js'
import { builtins, source, withDatabase } from './builtins.js'
import { withConnection } from './command-database.js'

/** Runs the pending migrations of the schema `svc_catalog`, or lists them. */
export async function migrateDatabase({ flags }: Invocation): Promise<number> {
  return withDatabase(flags, async (url) => {
    if ((await migrateAt(url, flags)) === 0) console.log('nothing to migrate')
    return 0
  })
}

/** @returns the number of changes */
export async function migrateAt(url: string, flags: Invocation['flags']): Promise<number> {
  const { config, loaded } = await loadServer({ ...source(flags), builtins: builtins() })
  const { database } = config.values
  const dry = flags['dry-run'] === true
  const defaults = isPooled(database) ? await setSessionDefaults(database, dry) : []
  for (const each of defaults) console.log(`${dry ? 'would set' : 'set'} ${each}`)
  const steps = await migrateSchema(database.directUrl ?? url, migrationSets(loaded), dry)
  for (const { owner, id } of steps) console.log(`${dry ? 'would run' : 'ran'} ${owner} ${id}`)
  if (isPooled(database) && !dry) await checkSessions(database)
  return defaults.length + steps.length
}

function migrateSchema(url: string, sets: readonly MigrationSet[], dry: boolean): Promise<readonly Pending[]> {
  return withConnection(url, 'migrate', (client) =>
    dry ? pendingMigrations(client, sets) : migrate(client, sets, console.error),
  )
}
