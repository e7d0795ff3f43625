import type pg from 'pg'
import { isPooled } from '../db/database.js'
import { checkSessions, setSessionDefaults } from '../db/pooler.js'
import { migrate, type Pending, pendingMigrations } from '../host/migrate.js'
import { loadServer, migrationSets } from '../host/server.js'
import { builtins, withDatabase } from './builtins.js'
import { withConnection } from './command-database.js'
import type { Invocation } from './invocation.js'
import { explainRefusal } from './rights.js'
import { source } from './read-sections.js'

/** Runs the pending migrations of the schema `svc_catalog`, or lists them. */
export async function upgrade(invocation: Invocation): Promise<number> {
  const { flags, print } = invocation
  return withDatabase(invocation, async (url) => {
    const done = await upgradeAt(url, invocation)
    if (flags['json'] === true) print(JSON.stringify({ dry_run: flags['dry-run'] === true, ...done }, undefined, 2))
    else if (done.settings.length + done.migrations.length === 0) print('svc_catalog is up to date')
    return 0
  })
}

/** What an upgrade changed. */
interface Upgraded {
  /** Defaults of sessions that a pooler needs. */
  readonly settings: readonly string[]
  readonly migrations: readonly Pending[]
}

/** Prints each change, to standard error if the output is JSON. @returns the changes */
async function upgradeAt(url: string, invocation: Invocation): Promise<Upgraded> {
  const { flags, print } = invocation
  const { config, loaded } = await loadServer({ ...source(invocation), builtins: builtins() })
  const { database } = config.values
  const dry = flags['dry-run'] === true
  const defaults = isPooled(database) ? await setSessionDefaults(database, dry) : []
  const tell = flags['json'] === true ? invocation.tell : print
  for (const each of defaults) tell(`${dry ? 'would set' : 'set'} ${each}`)
  const sets = migrationSets(loaded)
  const direct = database.directUrl ?? url
  const setting = database.directUrl === undefined ? 'database.url' : 'database.directUrl'
  const run = (client: pg.Client) => (dry ? pendingMigrations(client, sets) : migrate(client, sets, tell))
  const steps = await withConnection(direct, 'upgrade', run, { setting }).catch(explainRefusal(direct, sets))
  if (dry) for (const { owner, id } of steps) tell(`would run ${owner} ${id}`)
  if (isPooled(database) && !dry) await checkSessions(database)
  return { settings: defaults, migrations: steps }
}
