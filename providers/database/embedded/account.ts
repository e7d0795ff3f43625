import { readFile, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'

/** The user that PostgreSQL runs as when this process is root: PostgreSQL refuses to run as root. */
export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** Tried in this order. No user is ever created. */
const NAMES = ['rowhouse', 'postgres', 'nobody']

/**
 * Chooses who runs a new cluster.
 * @returns `undefined`: the user that this process runs as
 * @throws Error when root finds none of the accounts, or when an ordinary user has no entry in /etc/passwd
 */
export async function chooseAccount(): Promise<Account | undefined> {
  if (!isRoot()) {
    refuseNameless()
    return undefined
  }
  const entries = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'))
  for (const name of NAMES) {
    const [, , uid, gid] = entries.find((fields) => fields[0] === name) ?? []
    if (gid !== undefined && Number(uid) !== 0) return { name, uid: Number(uid), gid: Number(gid) }
  }
  throw new Error(
    `PostgreSQL does not run as root, and /etc/passwd has none of the users ${NAMES.join(', ')} to run it: ` +
      'add one of them, start Rowhouse as an ordinary user, or set DATABASE_URL to a PostgreSQL that runs already',
  )
}

/**
 * Returns who runs an existing cluster: the owner of its files, and nobody else.
 * @throws Error when that is root, or a user that this process cannot become
 */
export async function accountOf(data: string): Promise<Account | undefined> {
  const own = process.getuid?.()
  if (own === undefined) return undefined
  const { uid, gid } = await stat(data)
  if (uid === 0 && own === 0) {
    throw new Error(
      `${data} belongs to root, and PostgreSQL does not run as root: give the folder to the user that made it ` +
        '(chown -R), or set DATABASE_URL to a PostgreSQL that runs already',
    )
  }
  if (uid === own) return undefined
  if (own === 0) return { name: `uid ${uid}`, uid, gid }
  throw new Error(
    `${data} belongs to uid ${uid} and this is uid ${own}: start Rowhouse as the user that made ` +
      'it, set ROWHOUSE_DATA_DIR to another folder, or set DATABASE_URL to a PostgreSQL that runs already',
  )
}

export function isRoot(): boolean {
  return process.getuid?.() === 0
}

/** With `docker run -u 12345` there may be no entry, and initdb, which looks its own user up by name, fails. */
function refuseNameless(): void {
  try {
    userInfo()
  } catch (cause) {
    throw new Error(
      `uid ${process.getuid?.()} has no entry in /etc/passwd, which PostgreSQL's initdb needs: add one, run as a user ` +
        'that has one, or set DATABASE_URL to a PostgreSQL that runs already',
      { cause },
    )
  }
}
