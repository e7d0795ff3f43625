import pg from 'pg'
import type { Invocation } from '../cli.js'
import { migrate, pendingMigrations } from '../host/migrate.js'
import { loadServer, migrationSets } from '../host/server.js'
import { builtins, source, withDatabase } from './setting.js'

/** Migrates, or says what there is to migrate. */
export function migrateDatabase({ flags }: Invocation): Promise<number> {
  return withDatabase(flags, (url) => migrateAt(url, flags))
}

async function migrateAt(url: string, flags: Invocation['flags']): Promise<number> {
  const { loaded } = await loadServer({ ...source(flags), builtins: builtins() })
  const sets = migrationSets(loaded)
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    application_name: 'rowhouse migrate',
  })
  await client.connect()
  try {
    const dry = flags['dry-run'] === true
    const steps = dry ? await pendingMigrations(client, sets) : await migrate(client, sets, console.error)
    for (const { owner, id } of steps) console.log(`${dry ? 'would run' : 'ran'} ${owner} ${id}`)
    if (steps.length === 0) console.log('nothing to do')
    return 0
  } finally {
    await client.end()
  }
}
