import { randomBytes } from 'node:crypto'
import { chmod, chown, lstat, mkdir, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { type Account, accountOf, chooseAccount, isRoot } from './account.js'
import { run } from './run.js'

/** Folder of root for files that PostgreSQL's user cannot reach inside the data directory. */
export const SHARED = '/var/lib/rowhouse'

/** Rowhouse's data directory. */
export interface DataDir {
  /** Absolute path without symbolic links. */
  readonly path: string
  /** Random id, created once. It names the folder outside of this data directory. */
  readonly id: string
}

/** The folder of a cluster: `data` (PostgreSQL's own), `password`, `port`. */
export interface Home {
  readonly folder: string
  /** PostgreSQL's data directory. */
  readonly data: string
  /** Empty folder of the user for initdb. It is renamed to `data` when complete. */
  readonly draft: string
  /** User that runs PostgreSQL; `undefined` for the user of this process. */
  readonly account: Account | undefined
  /** False before the first start. */
  readonly exists: boolean
}

/**
 * Opens the data directory. Creates it and its id if missing.
 * @throws Error when it belongs to another user
 */
export async function openDataDir(path: string): Promise<DataDir> {
  const absolute = resolve(path)
  try {
    await mkdir(dirname(absolute), { recursive: true })
    const made = await mkdir(absolute, { recursive: true, mode: 0o700 })
    if (made !== undefined && isRoot()) await letIn(absolute, await chooseAccount())
    const id = join(absolute, 'id')
    await writeFile(id, randomBytes(16).toString('hex'), { flag: 'wx', mode: 0o600 }).catch(ignoreExisting)
    return { path: await realpath(absolute), id: await readId(absolute) }
  } catch (cause) {
    throw new Error(
      `the data directory ${absolute} cannot be used (${noRight(cause)}): start Rowhouse as the user that owns it, set ` +
        'ROWHOUSE_DATA_DIR to a folder of this user, or set DATABASE_URL to a running PostgreSQL',
      { cause },
    )
  }
}

/** Returns the folder of the cluster of a data directory, or undefined before the first start. Changes nothing. */
export async function findCluster(dataDir: DataDir): Promise<string | undefined> {
  for (const folder of folders(dataDir)) {
    if (await isThere(join(folder, 'data', 'PG_VERSION'))) return folder
  }
  return undefined
}

/**
 * Finds the home of the cluster or prepares one: inside the data directory, or, for root when its user cannot work
 * there, in a folder of `/var/lib/rowhouse` named by the id.
 * @throws Error that explains what prevents it
 */
export async function findHome(dataDir: DataDir): Promise<Home> {
  const found = await findCluster(dataDir)
  if (found !== undefined) {
    const account = await accountOf(join(found, 'data'))
    await makePrivate(join(found, 'data'))
    return homeAt(found, account, true)
  }

  const account = await chooseAccount()
  const problems: string[] = []
  for (const folder of isRoot() ? folders(dataDir) : [folders(dataDir)[0]]) {
    const home = homeAt(folder, account, false)
    const problem = await prepare(home).catch(noRight)
    if (problem === undefined) {
      if (!folder.startsWith(dataDir.path)) await writeFile(join(folder, 'project'), dataDir.path, { mode: 0o600 })
      return home
    }
    problems.push(problem)
    await rm(folder, { recursive: true, force: true })
  }
  throw new Error(
    `no folder is suitable for a database cluster:\n${problems.map((problem) => `- ${problem}`).join('\n')}\n` +
      'set ROWHOUSE_DATA_DIR to a folder on a local file system that keeps owners and modes, ' +
      'or set DATABASE_URL to a running PostgreSQL',
  )
}

/** Returns folders under `/var/lib/rowhouse` whose data directory was deleted, or created again with another id. */
export async function findOrphans(): Promise<string[]> {
  const orphans: string[] = []
  for (const id of await readdir(SHARED).catch(() => [])) {
    const project = await readFile(join(SHARED, id, 'project'), 'utf8').catch(() => undefined)
    if (project !== undefined && (await readId(project).catch(() => '')) !== id) orphans.push(join(SHARED, id))
  }
  return orphans
}

/** @throws the system error when the file is missing or unreadable */
export async function readId(dataDir: string): Promise<string> {
  const id = (await readFile(join(dataDir, 'id'), 'utf8')).trim()
  if (/^[0-9a-f]{32}$/.test(id)) return id
  throw new Error(`${join(dataDir, 'id')} is damaged: it should contain 32 hexadecimal digits`)
}

function folders(dataDir: DataDir): [string, string] {
  return [join(dataDir.path, 'postgres'), join(SHARED, dataDir.id)]
}

function homeAt(folder: string, account: Account | undefined, exists: boolean): Home {
  return { folder, data: join(folder, 'data'), draft: join(folder, 'data.new'), account, exists }
}

/** Restricts access, because PostgreSQL refuses a data directory that other users can access. */
async function makePrivate(data: string): Promise<void> {
  const isPrivate = async () => [0o700, 0o750].includes((await stat(data)).mode & 0o777)
  if (await isPrivate()) return
  await chmod(data, 0o700)
  if (process.platform === 'win32' || (await isPrivate())) return
  throw new Error(
    `${data} is open to other users, and its file system ignores chmod: move the data directory to a local file ` +
      'system with ROWHOUSE_DATA_DIR, or set DATABASE_URL to a running PostgreSQL',
  )
}

/** Keeps the folder owned by root, so that the user cannot replace files that root uses there. */
async function prepare({ folder, draft, account }: Home): Promise<string | undefined> {
  await mkdir(dirname(folder), { recursive: true, mode: 0o755 })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await rm(draft, { recursive: true, force: true })
  await mkdir(draft, { mode: 0o700 })
  await letIn(folder, account)
  if (account !== undefined) await chown(draft, account.uid, account.gid)
  return whyUnusable(draft, account)
}

/** Tests access by trying it, because mode bits do not reveal parent folders, ACLs or unusual mounts. */
async function whyUnusable(folder: string, account: Account | undefined): Promise<string | undefined> {
  if (process.platform === 'win32') return undefined
  const { mode, uid } = await lstat(folder)
  if ((mode & 0o777) !== 0o700) return `${folder} is on a file system that ignores chmod`
  if (account === undefined) return undefined
  if (uid !== account.uid) return `${folder} is on a file system that ignores chown`
  const { ok, failure } = await run('/bin/sh', ['-c', 'cd "$1" && test -w .', 'sh', folder], { account })
  if (ok) return undefined
  return failure === undefined
    ? `the user ${account.name}, which runs PostgreSQL, cannot enter ${folder}`
    : `root may not start programs as the user ${account.name} (${failure})`
}

/** Lets the user traverse a folder of root without listing it. */
async function letIn(folder: string, account: Account | undefined): Promise<void> {
  if (account === undefined) return
  await chown(folder, 0, account.gid)
  await chmod(folder, 0o710)
}

/** @returns the message of an error that another folder or user may avoid; rethrows others, such as a full disk */
function noRight(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (['EACCES', 'EPERM', 'EROFS'].includes(code)) return message
  throw error
}

export function ignoreExisting(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return false
      throw new Error(
        `${path} cannot be read (${error.code}): start Rowhouse as the user that started it first, set ` +
          'ROWHOUSE_DATA_DIR to another folder, or set DATABASE_URL to a running PostgreSQL',
        { cause: error },
      )
    },
  )
}
