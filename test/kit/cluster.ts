import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { realpathSync } from 'node:fs'
import { access, constants, readdir, rm, statfs } from 'node:fs/promises'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { startEmbedded } from '../../providers/database/embedded/index.js'
import { readHolder } from '../../providers/database/embedded/lock.js'
import { readPostmaster } from '../../providers/database/embedded/postmaster.js'

export const TEST_DATABASE_URL = 'ROWHOUSE_TEST_DATABASE_URL'

const TEMPORARY = realpathSync(tmpdir())
/**
 * A file system in memory. There, a database is created and dropped in a fifth of the time that a disk takes, and each test
 * has one.
 */
const MEMORY = '/dev/shm'
const FOLDERS = [TEMPORARY, MEMORY]
const PREFIX = 'rowhouse-test-'
/** The databases of all tests that run side by side, and their log. */
const ROOM = 4 * 2 ** 30

/** A cluster for tests in a temporary folder, in memory if there is room, which `stop` deletes. */
export async function startThrowaway(): Promise<{ url: string; stop(): Promise<void> }> {
  await Promise.all(FOLDERS.map(sweep))
  const dataDir = join((await hasRoom(MEMORY)) ? MEMORY : TEMPORARY, `${PREFIX}${randomBytes(6).toString('hex')}`)
  const cluster = await startEmbedded({ dataDir, throwaway: true })
  const stop = async () => {
    await cluster.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
  return { url: cluster.url, stop }
}

async function hasRoom(folder: string): Promise<boolean> {
  try {
    await access(folder, constants.W_OK)
    const { bavail, bsize } = await statfs(folder)
    return Math.min(bavail * bsize, freemem()) > ROOM
  } catch {
    return false
  }
}

/** Deletes what killed test runs left in a folder: a lock whose holder has ended, and no server. */
async function sweep(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  for (const name of names.filter((entry) => entry.startsWith(PREFIX))) {
    const dataDir = join(folder, name)
    const isLocked = await access(join(dataDir, 'lock'), constants.R_OK).then(
      () => true,
      () => false,
    )
    if (!isLocked || (await readHolder(join(dataDir, 'lock'))) !== undefined) continue
    if ((await readPostmaster(join(dataDir, 'postgres', 'data')))?.state === 'ours') continue
    await rm(dataDir, { recursive: true, force: true })
  }
}

/**
 * A throwaway cluster that a process of its own holds, so that it is gone when this process has ended, whatever way. It does
 * not keep this process alive.
 * @param env of that process, e.g. `PG_BIN`
 */
export async function spawnThrowaway(
  env: Readonly<Record<string, string>> = {},
): Promise<{ url: string; stop(): Promise<void> }> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  let complaint = ''
  child.stderr.on('data', (text: Buffer) => (complaint += text.toString()))
  const closed = once(child, 'close')
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve)
    child.once('close', () => reject(new Error(`the throwaway cluster did not start:\n${complaint}`)))
  })
  child.unref()
  for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as unknown as { unref(): void }).unref()
  const stop = async () => {
    child.ref()
    child.stdin.end()
    await closed
  }
  return { url, stop }
}

/**
 * `node build/test/kit/cluster.js`: prints the URL of a throwaway cluster, and removes it when the process that started
 * this one has ended. Ctrl-C reaches it too, and is not meant for it.
 */
async function serveUntilStdinEnds(): Promise<void> {
  process.on('SIGINT', () => {})
  const cluster = await startThrowaway()
  process.stdout.write(`${cluster.url}\n`)
  process.stdin.resume()
  await once(process.stdin, 'end')
  await cluster.stop()
}

const main = process.argv[1]
if (main !== undefined && realpathSync(main) === fileURLToPath(import.meta.url)) await serveUntilStdinEnds()
