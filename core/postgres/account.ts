import { readFile } from 'node:fs/promises'
import { userInfo } from 'node:os'

/** The user that PostgreSQL runs as when this process is root, for whom PostgreSQL refuses to run. */
export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** Tried in this order. No user is ever created. */
const NAMES = ['rowhouse', 'postgres', 'nobody']

/**
 * Who is to run a new cluster.
 * @returns `undefined`: the user that this process runs as
 * @throws Error when root finds no account to step down to, or when an ordinary user has no entry in /etc/passwd
 */
export async function chooseAccount(passwd = '/etc/passwd'): Promise<Account | undefined> {
  if (!isRoot()) {
    refuseNameless()
    return undefined
  }
  const accounts = await readAccounts(passwd)
  for (const name of NAMES) {
    const account = accounts.find((entry) => entry.name === name && entry.uid !== 0)
    if (account !== undefined) return account
  }
  throw new Error(
    `PostgreSQL does not run as root, and ${passwd} has none of the users ${NAMES.join(', ')} to run it: ` +
      'add one of them, start Rowhouse as an ordinary user, or set DATABASE_URL to a PostgreSQL that runs already',
  )
}

/**
 * Who is to run an existing cluster: the owner of its files, and nobody else.
 * @throws Error when that is root, or somebody whom this process cannot become
 */
export function accountOfOwner(folder: string, owner: { uid: number; gid: number }): Account | undefined {
  if (process.getuid === undefined || owner.uid === process.getuid()) {
    if (!isRoot()) return undefined
    throw new Error(
      `${folder} belongs to root, and PostgreSQL does not run as root: give the folder to the user that made it ` +
        '(chown -R), or set DATABASE_URL to a PostgreSQL that runs already',
    )
  }
  if (isRoot()) return { name: `uid ${owner.uid}`, ...owner }
  throw new Error(
    `${folder} belongs to uid ${owner.uid} and this is uid ${process.getuid()}: start Rowhouse as the user that made ` +
      'it, set ROWHOUSE_DATA_DIR to another folder, or set DATABASE_URL to a PostgreSQL that runs already',
  )
}

export function isRoot(): boolean {
  return process.getuid?.() === 0
}

/** `docker run -u 12345`: initdb looks its own user up by name and gives up when there is none. */
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

async function readAccounts(passwd: string): Promise<Account[]> {
  const lines = (await readFile(passwd, 'utf8')).split('\n')
  return lines
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 4)
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
}
