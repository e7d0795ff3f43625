import { readFile, realpath } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { chooseAccount, isRoot } from './account.js'
import { findBinaries, type Binaries } from './binaries.js'
import { ensureDatabase, serverUrlOf, urlOf } from './connect.js'
import {
  accountOf,
  findCluster,
  findHome,
  findOrphans,
  openDataDir,
  readId,
  SHARED,
  type DataDir,
  type Home,
} from './home.js'
import { checkCluster, makeCluster, readPassword } from './initdb.js'
import { readHolder, takeLock } from './lock.js'
import { readPostmaster } from './postmaster.js'
import { serverEnd, startServer, stopServer, type Server } from './server.js'

export interface EmbeddedOptions {
  /** Rowhouse's data directory, e.g. ./.rowhouse; made when absent (0700, for root 0710). */
  readonly dataDir: string
  /** Told at each slow step. */
  readonly progress?: (message: string) => void
  /** Test clusters: no fsync, initdb --no-sync, smaller. */
  readonly throwaway?: boolean
  /** Default 100. */
  readonly maxConnections?: number
  /** Stop the cluster when this process dies, whatever way. Default true, and done where the platform can (Linux). */
  readonly dieWithParent?: boolean
}

export interface EmbeddedPostgres {
  /** Superuser URL for migrations and administration, `postgresql://rowhouse:...@127.0.0.1:port/rowhouse`. A secret. */
  readonly url: string
  /** For the server: a login that owns the database and is no superuser. A secret. */
  readonly serverUrl: string
  /** e.g. `18.4` */
  readonly version: string
  /** It ran already, left behind by a Rowhouse that was killed. */
  readonly adopted: boolean
  /**
   * Waits until the server has ended although nobody stopped it: killed, or out of memory.
   * @returns the last lines that it wrote
   */
  died(): Promise<readonly string[]>
  /**
   * Starts a server that has died again, on the port that it had, so that `url` goes on working.
   * @throws Error that says what to do
   */
  restart(): Promise<void>
  /** Fast stop by SIGINT; SIGQUIT after 10 s; never SIGKILL. Resolves when the process is gone. */
  stop(): Promise<void>
}

/**
 * Starts the database of a data directory, making it on the first start, or adopts the one that runs there.
 * Call it on the main thread: on Linux the cluster ends with the thread that started it.
 * @throws Error that says what to do; also when another Rowhouse runs on the data directory
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const dataDir = await openDataDir(options.dataDir)
  const release = await lockOrExplain(dataDir)
  try {
    const { home, binaries, password, server: first } = await bringUp(dataDir, options)
    let server = first
    const address = { port: server.port, password }
    await ensureDatabase(address).catch(async (error: unknown) => {
      await stopServer(server.pid, binaries)
      throw new Error(`the database of ${home.data} could not be created`, { cause: error })
    })
    let stopped: Promise<void> | undefined
    const again = async () => {
      // Whoever stopped it meanwhile wants no other.
      if (stopped) return
      server = await startServer(home, binaries, password, { ...serverOptions(options), port: server.port })
    }
    let restarted: Promise<void> = Promise.resolve()
    const stop = async () => {
      try {
        await restarted.catch(() => {})
        await stopServer(server.pid, binaries)
      } finally {
        await release()
      }
    }
    return {
      url: urlOf(address),
      serverUrl: serverUrlOf(address),
      version: server.version,
      adopted: server.adopted,
      async died() {
        await serverEnd(server)
        return stopped ? new Promise(() => {}) : server.log
      },
      restart: () => (restarted = again()),
      stop: () => (stopped ??= stop()),
    }
  } catch (error) {
    await release()
    throw error
  }
}

/** What there is, for `doctor` and for commands that want to use the running database. */
export interface EmbeddedState {
  /** Absolute. */
  readonly dataDir: string
  /** Folder of the cluster, `undefined` before the first start, and the major version that made it. */
  readonly cluster: { readonly folder: string; readonly major: number } | undefined
  /** The Rowhouse that runs on the data directory. */
  readonly heldBy: { readonly pid: number } | undefined
  /** The PostgreSQL that runs on it; a superuser URL, which is a secret. */
  readonly server: { readonly pid: number; readonly port: number; readonly url: string } | undefined
  /** What a start would use, or why it would fail. */
  readonly binaries: Binaries | { readonly problem: string }
  /** Folders under /var/lib/rowhouse whose data directory is gone: safe to delete. */
  readonly orphans: readonly string[]
}

/** For `doctor`: where things are, without starting, making or repairing anything. */
export async function inspectEmbedded(path: string): Promise<EmbeddedState> {
  const dataDir = await realpath(resolve(path)).catch(() => resolve(path))
  const id = await readId(dataDir).catch(() => '')
  const folder = id === '' ? undefined : await findCluster({ path: dataDir, id })
  const heldBy = await readHolder(lockOf(dataDir))
  return {
    dataDir,
    cluster: folder === undefined ? undefined : { folder, major: await majorOf(folder) },
    heldBy: heldBy === undefined ? undefined : { pid: heldBy.pid },
    server: folder === undefined ? undefined : await runningServer(folder),
    binaries: await (folder === undefined ? chooseAccount() : accountOf(folder))
      .then((account) => findBinaries({ account }))
      .catch((error: Error) => ({ problem: error.message })),
    orphans: await findOrphans(),
  }
}

interface Up {
  readonly home: Home
  readonly binaries: Binaries
  readonly password: string
  readonly server: Server
}

async function bringUp(dataDir: DataDir, options: EmbeddedOptions): Promise<Up> {
  const { progress, throwaway } = serverOptions(options)
  const home = await findHome(dataDir)
  const copyTo = isRoot() ? SHARED : dataDir.path
  const binaries = await findBinaries({ account: home.account, copyTo, progress })
  if (home.exists) {
    await checkCluster(home, binaries)
  } else {
    progress(`making a database cluster with PostgreSQL ${binaries.version} in ${home.folder}`)
    await makeCluster(home, binaries, throwaway)
  }
  const password = await readPassword(home)
  const server = await startServer(home, binaries, password, serverOptions(options))
  return { home, binaries, password, server }
}

function serverOptions(options: EmbeddedOptions) {
  const { progress = () => {}, throwaway = false, dieWithParent = true, maxConnections = 100 } = options
  return { progress, throwaway, dieWithParent, maxConnections }
}

async function lockOrExplain(dataDir: DataDir): Promise<() => Promise<void>> {
  const lock = await takeLock(lockOf(dataDir.path))
  if ('release' in lock) return lock.release
  throw new Error(
    `Rowhouse runs already on ${dataDir.path} (pid ${lock.holder.pid}): use that one, or stop it first; to start ` +
      'another beside it, set ROWHOUSE_DATA_DIR to another folder',
  )
}

async function runningServer(folder: string): Promise<EmbeddedState['server']> {
  const postmaster = await readPostmaster(join(folder, 'data'))
  if (postmaster?.state !== 'ours') return undefined
  const { pid, port } = postmaster
  const password = (await readFile(join(folder, 'password'), 'utf8').catch(() => '')).trim()
  return { pid, port, url: urlOf({ port, password }) }
}

async function majorOf(folder: string): Promise<number> {
  return Number((await readFile(join(folder, 'data', 'PG_VERSION'), 'utf8')).trim())
}

function lockOf(dataDir: string): string {
  return join(dataDir, 'lock')
}
