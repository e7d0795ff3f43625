import type { DatabaseProvider } from '../contracts.js'

export const NO_DATABASE = 'no database: set DATABASE_URL, or database.url in the configuration'

/** Loads the provider of the embedded PostgreSQL. */
export async function embeddedDatabase(): Promise<DatabaseProvider> {
  const address = new URL('../../providers/database/embedded/index.js', import.meta.url)
  const { default: provider } = (await import(address.href)) as { default: DatabaseProvider }
  return provider
}

/** The database of a command. */
export interface CommandDatabase {
  readonly url: string
  close(): Promise<void>
}

/**
 * Returns the configured database. Without one, uses the database in the data directory: connects to the running
 * server, or starts PostgreSQL until the command ends.
 * @throws Error when neither exists
 */
export async function commandDatabase(
  url: string | undefined,
  dataDir: string,
  progress: (message: string) => void,
): Promise<CommandDatabase> {
  if (url !== undefined) return { url, async close() {} }
  const embedded = await embeddedDatabase()
  const { cluster, server } = await embedded.inspect(dataDir)
  if (server) return { url: server.url, async close() {} }
  if (!cluster) throw new Error(`${NO_DATABASE} (${dataDir} contains no database)`)
  const started = await embedded.start({ dataDir, progress })
  return { url: started.url, close: () => started.stop() }
}
