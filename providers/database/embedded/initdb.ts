import { randomBytes } from 'node:crypto'
import { chown, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PostgresBinaries } from 'rowhouse'
import { SUPERUSER } from './connect.js'
import { type Home, ignoreExisting } from './home.js'
import { run, type Outcome } from './run.js'

/** Timeout of initdb, in milliseconds. A slow disk under load may need minutes. */
const INITDB_MS = 300_000

/**
 * Creates a cluster. initdb works in a draft folder that is renamed at the end, so incomplete clusters are never
 * visible.
 * @throws Error with the output of initdb
 */
export async function makeCluster(home: Home, binaries: PostgresBinaries, throwaway: boolean): Promise<void> {
  await makePassword(home)
  const outcome = await initdb(home, binaries, throwaway)
  if (!outcome.ok) {
    throw new Error(
      `initdb could not create a database cluster in ${home.draft}:\n${outcome.failure ?? outcome.output}\n` +
        'if you cannot fix this, set DATABASE_URL to a running PostgreSQL',
    )
  }
  await rename(home.draft, home.data)
}

/**
 * Checks an existing cluster.
 * @throws Error when its password is missing, or when a different major version created it, whose files these binaries
 *   cannot read
 */
export async function checkCluster(home: Home, binaries: PostgresBinaries): Promise<void> {
  const major = await readMajor(home.data)
  if (major === binaries.major) return
  throw new Error(
    `${home.data} was created by PostgreSQL ${major}, and ${binaries.bin} is PostgreSQL ${binaries.version}, which ` +
      `cannot read it. To move the data: install PostgreSQL ${major}, start Rowhouse with PG_BIN set to the folder ` +
      `of its "postgres", save everything with pg_dump, stop, move ${home.folder} away, start without PG_BIN, and ` +
      `restore with psql. To stay with PostgreSQL ${major}, keep PG_BIN set, or set DATABASE_URL to a running PostgreSQL`,
  )
}

/** Returns the major version that created a data directory. */
export async function readMajor(data: string): Promise<number> {
  return Number((await readFile(join(data, 'PG_VERSION'), 'utf8')).trim())
}

/** @throws Error when the file is missing, because the cluster is then inaccessible */
export async function readPassword(home: Home): Promise<string> {
  try {
    return (await readFile(passwordFile(home), 'utf8')).trim()
  } catch (cause) {
    throw new Error(
      `the password of the database cluster cannot be read from ${passwordFile(home)}: restore that file, or, to ` +
        `begin with an empty database, move ${home.folder} away`,
      { cause },
    )
  }
}

/** Creates the password file. It belongs to the user, because initdb reads it. */
async function makePassword(home: Home): Promise<void> {
  const file = passwordFile(home)
  const password = `${randomBytes(32).toString('base64url')}\n`
  await writeFile(file, password, { mode: 0o600, flag: 'wx' }).catch(ignoreExisting)
  if (home.account !== undefined) await chown(file, home.account.uid, home.account.gid)
}

/**
 * Runs initdb. Text sorts by code point on every platform: with the builtin provider from PostgreSQL 17 on, otherwise
 * with the locale C.UTF-8, or C where the system lacks it.
 */
async function initdb(home: Home, binaries: PostgresBinaries, throwaway: boolean): Promise<Outcome> {
  const args = ['-D', home.draft, '-U', SUPERUSER, '-E', 'UTF8', '--auth=scram-sha-256']
  args.push(`--pwfile=${passwordFile(home)}`)
  if (throwaway) args.push('--no-sync', '--wal-segsize=4')
  const withLocale = (...locale: string[]) =>
    run(join(binaries.bin, 'initdb'), [...args, ...locale], { account: home.account, timeoutMs: INITDB_MS })

  if (binaries.major >= 17) return withLocale('--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C')
  const outcome = await withLocale('--locale=C.UTF-8')
  return outcome.output.includes('invalid locale') ? withLocale('--locale=C') : outcome
}

function passwordFile(home: Home): string {
  return join(home.folder, 'password')
}
