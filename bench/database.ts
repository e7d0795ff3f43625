import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { readId, SHARED } from '../providers/database/embedded/home.js'
import { inspectEmbedded, startEmbedded } from '../providers/database/embedded/index.js'

/** A PostgreSQL for one run of the bench, with the durability of production. */
export interface BenchDatabase {
  readonly version: string
  /** Of the postmaster; another one after a restart. */
  readonly pid: number
  /** Creates a database. @returns its superuser URL */
  create(name: string): Promise<string>
  /** Settings that speed depends on, as they are in force. */
  settings(): Promise<Readonly<Record<string, string>>>
  /** Ends all connections, stops it and starts it again where it was. @returns how long nobody could connect, in ms */
  restart(): Promise<number>
  /** Stops it and deletes all of it. */
  stop(): Promise<void>
}

const STOPPED_MS = 30_000
/** Servers of several scenarios and the backends of pgbench, all at once. */
const CONNECTIONS = 400

export async function startDatabase(): Promise<BenchDatabase> {
  const dataDir = await mkdtemp(join(await realpath(tmpdir()), 'rowhouse-bench-'))
  const embedded = await startEmbedded({ dataDir, maxConnections: CONNECTIONS }).catch(async (error: unknown) => {
    await remove(dataDir)
    throw error
  })
  const { server } = await inspectEmbedded(dataDir)
  let pid = server?.pid ?? 0
  const restart = async () => {
    const start = performance.now()
    // A fast shutdown.
    process.kill(pid, 'SIGINT')
    const waiting = new AbortController()
    // The watch over its end does not keep this process alive; the timer does.
    await Promise.race([embedded.died(), sleep(STOPPED_MS, undefined, { signal: waiting.signal })])
    waiting.abort()
    await embedded.restart()
    pid = (await inspectEmbedded(dataDir)).server?.pid ?? 0
    return performance.now() - start
  }
  return {
    version: embedded.version,
    get pid() {
      return pid
    },
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
    restart,
    async stop() {
      await embedded.stop()
      await remove(dataDir)
    },
  }
}

/** Whole or half made. */
async function remove(dataDir: string): Promise<void> {
  const id = await readId(dataDir).catch(() => undefined)
  // Root's account may not have been able to work inside the data directory.
  if (id !== undefined) await rm(join(SHARED, id), { recursive: true, force: true, maxRetries: 5 })
  await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
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
