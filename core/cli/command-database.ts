import type pg from 'pg'
import type { DatabaseProvider } from '../host/contracts.js'
import { createClient } from '../db/hosts.js'
import { Unreachable } from '../db/unreachable.js'
import { type Invocation, pathIn } from './invocation.js'

export const NO_DATABASE = 'no database: set DATABASE_URL, or database.url in the configuration'

/** Loads the provider of the embedded PostgreSQL. */
export async function embeddedDatabase(): Promise<DatabaseProvider> {
  const address = new URL('../../providers/database/embedded/index.js', import.meta.url)
  const { default: provider } = (await import(address.href)) as { default: DatabaseProvider }
  return provider
}

/** The database of a command. */
interface CommandDatabase {
  /** The server's login, which owns what it creates, so that the server may use it. */
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
  { cwd, tell }: Pick<Invocation, 'cwd' | 'tell'>,
): Promise<CommandDatabase> {
  if (url !== undefined) return { url, async close() {} }
  const embedded = await embeddedDatabase()
  const { cluster, server } = await embedded.inspect(pathIn(cwd, dataDir))
  if (server) return { url: server.serverUrl, async close() {} }
  if (!cluster)
    throw new Error(
      `${NO_DATABASE} (${dataDir} contains none; rowhouse dev creates one, and with --no-sample an empty one)`,
    )
  const started = await embedded.start({ dataDir: pathIn(cwd, dataDir), progress: tell })
  return { url: started.serverUrl, close: () => started.stop() }
}

interface ConnectionOptions {
  /** Path of the setting that the URL is from. */
  readonly setting?: string
  /** Session parameters. */
  readonly session?: pg.ClientConfig
}

/**
 * Runs `fn` with a connection that is closed afterwards.
 * @throws Unreachable if there is none
 */
export async function withConnection<T>(
  url: string,
  name: string,
  fn: (client: pg.Client) => Promise<T>,
  options: ConnectionOptions = {},
): Promise<T> {
  const client = await connectTo(url, name, options)
  try {
    return await fn(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** Opens a connection, which the caller closes. @throws Unreachable if there is none */
export async function connectTo(
  url: string,
  name: string,
  { setting = 'database.url', session = {} }: ConnectionOptions = {},
): Promise<pg.Client> {
  const config = { ...session, connectionTimeoutMillis: 10_000, application_name: `rowhouse ${name}` }
  try {
    const client = createClient(url, config)
    // A lost connection also rejects the query that waits.
    client.on('error', () => {})
    await client.connect()
    return client
  } catch (cause) {
    throw new Unreachable(setting, url, cause)
  }
}
