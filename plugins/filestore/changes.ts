import type { Call, Data } from 'rowhouse'
import type { Rule } from 'rowhouse/plan'
import type { Version } from './conditions.js'
import { accessDenied, AlreadyExists, notFound, otherVersion } from './errors.js'
import type { Files, StoredBlob } from './files.js'
import type { Rules } from './rules.js'

/** What must hold of a file in the very transaction that changes it. Without any of it, one statement is enough. */
export interface Guard {
  readonly call: Call
  /** Absent: the caller is not ruled. */
  readonly rules?: Rules
  /** Whether a client's conditions allow the change. Absent: it has none. */
  readonly conditions?: (current: Version | undefined) => boolean
}

const TRIES = 3

/** Changes files: all that is asked at once, or nothing. */
export class Changes {
  private readonly data: Data
  private readonly files: Files

  constructor(data: Data, files: Files) {
    this.data = data
    this.files = files
  }

  /** Says before a body is read what would be refused after it. @throws ServiceError 400, 403, 412 */
  async foresee(id: string, create: boolean, guard: Guard): Promise<void> {
    await judge(await this.files.version(id), id, create, guard, guard.call)
  }

  /**
   * Makes bytes that are durable the content of files.
   * @returns JSON text of each record
   * @throws ServiceError 400 when a file must not exist and does; 403, 412; 503 when the bytes were taken for lost
   */
  async commit(blobs: readonly StoredBlob[], guard: Guard | undefined, call: Call): Promise<readonly string[]> {
    const [only] = blobs
    if (only && blobs.length === 1 && !guard) return [await this.files.store(only, only.file.create)]
    for (let tries = 1; ; tries++) {
      try {
        return await this.data.transaction(call, async (inside) => {
          const records: string[] = []
          for (const blob of blobs) records.push(await this.commitOne(blob, guard, inside))
          return records
        })
      } catch (error) {
        // Somebody made the file between the look at it and the change: it is now one that is there.
        const raced = error instanceof AlreadyExists && blobs.some(({ file }) => file.id === error.id && !file.create)
        if (!raced || tries === TRIES) throw error
      }
    }
  }

  private async commitOne(blob: StoredBlob, guard: Guard | undefined, inside: Inside): Promise<string> {
    const { id, create } = blob.file
    if (!guard) return this.files.store(blob, create, inside.transaction)
    const current = await this.files.version(id, inside.transaction)
    await judge(current, id, create, guard, inside)
    const record = await this.files.store(blob, !current, inside.transaction)
    if (guard.rules) await require(guard.rules, current ? 'updated' : 'inserted', id, inside)
    return record
  }

  /** @throws ServiceError 403, 404, 412 */
  async remove(id: string, guard: Guard | undefined): Promise<void> {
    if (!guard) return this.files.remove(id)
    const { call, rules, conditions } = guard
    await this.data.transaction(call, async (inside) => {
      const current = await this.files.version(id, inside.transaction)
      if (!current) throw notFound(id)
      if (rules && !(await rules.accept('delete', id, inside))) {
        throw rules.may('select', call.session.role) && (await rules.accept('select', id, inside))
          ? accessDenied('access denied')
          : notFound(id)
      }
      if (conditions?.(current) === false) throw otherVersion()
      await this.files.remove(id, inside.transaction)
    })
  }
}

type Inside = Call & Required<Pick<Call, 'transaction'>>

/** Whether a file may be stored in place of what is there. A file that the caller may not know of is as good as none. */
async function judge(
  current: Version | undefined,
  id: string,
  create: boolean,
  { rules, conditions }: Guard,
  call: Call,
): Promise<void> {
  const known = current && rules && !(await knows(rules, id, call)) ? undefined : current
  if (known && create) throw new AlreadyExists(id)
  if (rules && known) await require(rules, 'update', id, call)
  if (rules && !known) rules.require('insert', call.session.role)
  if (conditions?.(known) === false) throw otherVersion()
  // What is said of a record that the caller may not make.
  if (current && !known) throw accessDenied('access denied')
}

async function knows(rules: Rules, id: string, call: Call): Promise<boolean> {
  for (const rule of ['select', 'update'] as const) {
    if (rules.may(rule, call.session.role) && (await rules.accept(rule, id, call))) return true
  }
  return false
}

async function require(rules: Rules, rule: Rule, id: string, call: Call): Promise<void> {
  if (!(await rules.accept(rule, id, call))) throw accessDenied('access denied')
}
