import { inspectEmbedded, startEmbedded } from '../postgres/index.js'

export const NO_DATABASE = 'no database: set DATABASE_URL, or database.url in the configuration'

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
  const { cluster, server } = await inspectEmbedded(dataDir)
  if (server) return { url: server.url, async close() {} }
  if (!cluster) throw new Error(`${NO_DATABASE} (there is none in ${dataDir})`)
  const started = await startEmbedded({ dataDir, progress })
  return { url: started.url, close: () => started.stop() }
}
