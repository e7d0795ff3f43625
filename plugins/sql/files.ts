import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'

/** A migration in a folder of SQL files. */
export interface File {
  /** e.g. `20260131120000_add_notes` */
  readonly id: string
  readonly up: string
  readonly down: string | undefined
  readonly checksum: string
}

/** Owner of their records in `svc_migration`. No plugin can have this name. */
export const OWNER = 'sql files'
const NAME = /^\d{14}_[\w-]+$/

/**
 * Reads the migrations of a folder in their order.
 * @param cwd folder that `dir` starts from, and so do the paths of the files
 * @throws Error naming every file that is none
 */
export async function readFiles(dir: string, cwd = ''): Promise<readonly File[]> {
  const names = await readdir(resolve(cwd, dir)).catch((cause: unknown) => {
    throw new Error(`cannot read the folder ${dir}; create a migration with: rowhouse migrate new NAME`, { cause })
  })
  const all = names.filter((name) => name.endsWith('.sql')).toSorted()
  const ids = all.filter((name) => name.endsWith('.up.sql')).map((name) => name.slice(0, -'.up.sql'.length))
  const wrong = all.filter(
    (name) => !ids.some((id) => NAME.test(id) && [`${id}.up.sql`, `${id}.down.sql`].includes(name)),
  )
  if (wrong.length > 0)
    throw new Error(`${dir}: expected <14 digits>_<name>.up.sql and its .down.sql: ${wrong.join(', ')}`)
  return Promise.all(
    ids.map(async (id) => {
      const up = join(dir, `${id}.up.sql`)
      const down = all.includes(`${id}.down.sql`) ? join(dir, `${id}.down.sql`) : undefined
      const text = await readFile(resolve(cwd, up), 'utf8')
      return { id, up, down, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

/** A migration that ran. */
export type Applied = Pick<File, 'id' | 'checksum'>

/** Text of the query for the migrations that ran, with `OWNER` as `$1`. */
export const READ_APPLIED =
  'select id, checksum from svc_catalog.svc_migration where owner = $1 order by id collate "C"'

/** `changed`: after it ran. `missing`: it ran, and has no file. */
type State = 'applied' | 'pending' | 'changed' | 'missing'

/** Returns the states of migrations by their ids, in order. */
export function statesOf(files: readonly File[], ran: readonly Applied[]): ReadonlyMap<string, State> {
  const applied = new Map(ran.map(({ id, checksum }) => [id, checksum]))
  const state = ({ id, checksum }: File): State =>
    !applied.has(id) ? 'pending' : applied.get(id) === checksum ? 'applied' : 'changed'
  const missing = [...applied.keys()].filter((id) => !files.some((file) => file.id === id))
  const states = [
    ...files.map((file) => [file.id, state(file)] as const),
    ...missing.map((id) => [id, 'missing'] as const),
  ]
  return new Map(states.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
