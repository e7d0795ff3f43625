import { readFile, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'

/** The user that runs PostgreSQL when this process is root, because PostgreSQL refuses to run as root. */
export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** User names in order of preference. Rowhouse never creates users. */
const NAMES = ['rowhouse', 'postgres', 'nobody']

/**
 * Chooses the user that runs a new cluster.
 * @returns `undefined` for the user of this process
 * @throws Error when root finds none of the users, or when an ordinary user has no entry in /etc/passwd
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
    `PostgreSQL cannot run as root, and /etc/passwd contains none of the users ${NAMES.join(', ')}: ` +
      'add one of them, start Rowhouse as an ordinary user, or set DATABASE_URL to a running PostgreSQL',
  )
}

/**
 * Returns the user that runs an existing cluster: the owner of its files.
 * @throws Error when the owner is root, or a user that this process cannot switch to
 */
export async function accountOf(data: string): Promise<Account | undefined> {
  const own = process.getuid?.()
  if (own === undefined) return undefined
  const { uid, gid } = await stat(data)
  if (uid === 0 && own === 0) {
    throw new Error(
      `${data} belongs to root, and PostgreSQL does not run as root: give the folder to the user that created it ` +
        '(chown -R), or set DATABASE_URL to a running PostgreSQL',
    )
  }
  if (uid === own) return undefined
  if (own === 0) return { name: `uid ${uid}`, uid, gid }
  throw new Error(
    `${data} belongs to uid ${uid} and this is uid ${own}: start Rowhouse as the user that created ` +
      'it, set ROWHOUSE_DATA_DIR to another folder, or set DATABASE_URL to a running PostgreSQL',
  )
}

export function isRoot(): boolean {
  return process.getuid?.() === 0
}

/**
 * Refuses a user without an entry in /etc/passwd, as with `docker run -u 12345`, because initdb looks its user up by
 * name.
 */
function refuseNameless(): void {
  try {
    userInfo()
  } catch (cause) {
    throw new Error(
      `uid ${process.getuid?.()} has no entry in /etc/passwd, which PostgreSQL's initdb needs: add one, run as a user ` +
        'that has one, or set DATABASE_URL to a running PostgreSQL',
      { cause },
    )
  }
}
