import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { inspectEmbedded, startEmbedded } from '../core/postgres/index.js'

/** A PostgreSQL for one run of the bench, with the durability of production. */
export interface BenchDatabase {
  readonly version: string
  /** Of the postmaster. */
  readonly pid: number
  /** Creates a database. @returns its superuser URL */
  create(name: string): Promise<string>
  /** Settings that speed depends on, as they are in force. */
  settings(): Promise<Readonly<Record<string, string>>>
  /** Stops it and deletes all of it. */
  stop(): Promise<void>
}

export async function startDatabase(): Promise<BenchDatabase> {
  const dataDir = await mkdtemp(join(await realpath(tmpdir()), 'rowhouse-bench-'))
  const embedded = await startEmbedded({ dataDir })
  const { server, cluster } = await inspectEmbedded(dataDir)
  return {
    version: embedded.version,
    pid: server?.pid ?? 0,
    async create(name) {
      await withClient(embedded.url, (client) => client.query(`create database ${name}`))
      const url = new URL(embedded.url)
      url.pathname = `/${name}`
      return url.href
    },
    settings: () =>
      withClient(embedded.url, async (client) => {
        const { rows } = await client.query<{ name: string; setting: string }>(
          `select name, current_setting(name) as setting from pg_settings
           where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'work_mem', 'jit')
           order by name`,
        )
        return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))
      }),
    async stop() {
      await embedded.stop()
      // Root's account may not have been able to work inside the data directory.
      if (cluster) await rm(cluster.folder, { recursive: true, force: true })
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

export async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, options: '-c timezone=UTC' })
  client.on('error', () => {})
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

/** For programs of PostgreSQL: where to connect, without a password among their arguments. */
export function clientEnvironment(url: string): Record<string, string> {
  const { hostname, port, username, password, pathname } = new URL(url)
  return {
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: username,
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: pathname.slice(1),
    PGTZ: 'UTC',
  }
}
