import { readFile, realpath } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { DatabaseProvider, DatabaseStart, DatabaseState, StartedDatabase } from 'rowhouse'
import { accountOf, chooseAccount, isRoot } from './account.js'
import { findBinaries } from './binaries.js'
import { ensureDatabase, serverUrlOf, urlOf } from './connect.js'
import { type DataDir, findCluster, findHome, findOrphans, openDataDir, readId, SHARED } from './home.js'
import { checkCluster, makeCluster, readMajor, readPassword } from './initdb.js'
import { readHolder, takeLock } from './lock.js'
import { readPostmaster } from './postmaster.js'
import { type Cluster, serverEnd, type ServerOptions, startServer, stopServer } from './server.js'

type EmbeddedOptions = DatabaseStart & Partial<ServerOptions>

/**
 * Starts the database of a data directory, creates it on the first start, or adopts a running server. Call it on the
 * main thread: on Linux the cluster ends with the thread that started it.
 * @throws Error that says what to do; also when another Rowhouse uses the data directory
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<StartedDatabase> {
  const dataDir = await openDataDir(options.dataDir)
  const release = await lockOrExplain(dataDir)
  try {
    const cluster = await openCluster(dataDir, options)
    let server = await startServer(cluster)
    const address = { port: server.port, password: cluster.password }
    await ensureDatabase(address).catch(async (error: unknown) => {
      await stopServer(server.pid, cluster.binaries)
      throw new Error(`the database of ${cluster.home.data} could not be created`, { cause: error })
    })
    let stopped: Promise<void> | undefined
    const again = async () => {
      if (!stopped) server = await startServer(cluster, address.port)
    }
    let restarted: Promise<void> = Promise.resolve()
    const stop = async () => {
      try {
        await restarted.catch(() => {})
        await stopServer(server.pid, cluster.binaries)
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

/** Describes what exists, without starting, creating or repairing anything. */
export async function inspectEmbedded(path: string): Promise<DatabaseState> {
  const dataDir = await realpath(resolve(path)).catch(() => resolve(path))
  const id = await readId(dataDir).catch(() => '')
  const folder = id === '' ? undefined : await findCluster({ path: dataDir, id })
  const heldBy = await readHolder(lockOf(dataDir))
  return {
    dataDir,
    cluster: folder === undefined ? undefined : { folder, major: await readMajor(join(folder, 'data')) },
    heldBy: heldBy && { pid: heldBy.pid },
    server: folder === undefined ? undefined : await runningServer(folder),
    binaries: await (folder === undefined ? chooseAccount() : accountOf(join(folder, 'data')))
      .then((account) => findBinaries({ account }))
      .catch((error: Error) => ({ problem: error.message })),
    orphans: await findOrphans(),
  }
}

export default { inspect: inspectEmbedded, start: startEmbedded } satisfies DatabaseProvider

/** Finds and checks the cluster of a data directory, or creates it. */
async function openCluster(dataDir: DataDir, given: EmbeddedOptions): Promise<Cluster> {
  const { progress = () => {}, throwaway = false, dieWithParent = true, maxConnections = 100 } = given
  const home = await findHome(dataDir)
  const copyTo = isRoot() ? SHARED : dataDir.path
  const binaries = await findBinaries({ account: home.account, copyTo, progress })
  if (home.exists) {
    await checkCluster(home, binaries)
  } else {
    progress(`creating a database cluster with PostgreSQL ${binaries.version} in ${home.folder}`)
    await makeCluster(home, binaries, throwaway)
  }
  const password = await readPassword(home)
  return { home, binaries, password, options: { progress, throwaway, dieWithParent, maxConnections } }
}

async function lockOrExplain(dataDir: DataDir): Promise<() => Promise<void>> {
  const lock = await takeLock(lockOf(dataDir.path))
  if ('release' in lock) return lock.release
  throw new Error(
    `Rowhouse is already running on ${dataDir.path} (pid ${lock.holder.pid}): use it, or stop it first; to start ` +
      'another beside it, set ROWHOUSE_DATA_DIR to another folder',
  )
}

async function runningServer(folder: string): Promise<DatabaseState['server']> {
  const postmaster = await readPostmaster(join(folder, 'data'))
  if (postmaster?.state !== 'ours') return undefined
  const { pid, port } = postmaster
  const password = (await readFile(join(folder, 'password'), 'utf8').catch(() => '')).trim()
  return { pid, port, url: urlOf({ port, password }), serverUrl: serverUrlOf({ port, password }) }
}

function lockOf(dataDir: string): string {
  return join(dataDir, 'lock')
}
