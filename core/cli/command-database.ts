import type { DatabaseProvider } from '../contracts.js'

export const NO_DATABASE = 'no database: set DATABASE_URL, or database.url in the configuration'

/** Loads the PostgreSQL that comes with the program. */
export async function embeddedDatabase(): Promise<DatabaseProvider> {
  const address = new URL('../../providers/database/embedded/index.js', import.meta.url)
  const { default: provider } = (await import(address.href)) as { default: DatabaseProvider }
  return provider
}

/** Where a command finds its data. */
export interface CommandDatabase {
  readonly url: string
  close(): Promise<void>
}

/**
 * The database of the configuration, else the one of the data directory: of the server that runs there, or started for
 * the time of the command.
 * @throws Error when there is none
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
  if (!cluster) throw new Error(`${NO_DATABASE} (there is none in ${dataDir})`)
  const started = await embedded.start({ dataDir, progress })
  return { url: started.url, close: () => started.stop() }
}
