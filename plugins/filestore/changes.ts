import type { Call, Data } from 'rowhouse'
import type { Rule } from 'rowhouse/plan'
import type { Version } from './conditions.js'
import { accessDenied, AlreadyExists, notFound, preconditionFailed } from './errors.js'
import type { Files, StoredBlob } from './files.js'
import type { Rules } from './rules.js'

/** What must hold in the transaction that changes a file. Without a guard, one statement is enough. */
export interface Guard {
  readonly call: Call
  /** Undefined: no rules apply to the caller. */
  readonly rules?: Rules
  /** Tells whether the client's conditions allow the change. Undefined: there are none. */
  readonly conditions?: (current: Version | undefined) => boolean
}

const MAX_TRIES = 3

/** Changes file records: all of a request, or none. */
export class Changes {
  constructor(
    private readonly data: Data,
    private readonly files: Files,
  ) {}

  /** Refuses before the body is read what would be refused after it. @throws ServiceError 400, 403, 412 */
  async precheck(id: string, create: boolean, guard: Guard): Promise<void> {
    await checkChange(await this.files.version(id), id, create, guard, guard.call)
  }

  /**
   * Makes durable bytes the content of files.
   * @returns JSON text of each record
   * @throws ServiceError 400 when a file must not exist and does; 403, 412; 503 when the blob was collected as abandoned
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
        // Another request created the file after this one looked it up. The retry replaces it.
        const raced = error instanceof AlreadyExists && blobs.some(({ file }) => file.id === error.id && !file.create)
        if (!raced || tries === MAX_TRIES) throw error
      }
    }
  }

  private async commitOne(blob: StoredBlob, guard: Guard | undefined, inside: Inside): Promise<string> {
    const { id, create } = blob.file
    if (!guard) return this.files.store(blob, create, inside.transaction)
    const current = await this.files.version(id, inside.transaction)
    await checkChange(current, id, create, guard, inside)
    const record = await this.files.store(blob, !current, inside.transaction)
    if (guard.rules) await requireRule(guard.rules, current ? 'updated' : 'inserted', id, inside)
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
      if (conditions?.(current) === false) throw preconditionFailed()
      await this.files.remove(id, inside.transaction)
    })
  }
}

type Inside = Call & Required<Pick<Call, 'transaction'>>

/** Throws unless a file may be stored in place of the current one. One that the caller may not see counts as missing. */
async function checkChange(
  current: Version | undefined,
  id: string,
  create: boolean,
  { rules, conditions }: Guard,
  call: Call,
): Promise<void> {
  const known = current && rules && !(await isVisible(rules, id, call)) ? undefined : current
  if (known && create) throw new AlreadyExists(id)
  if (rules && known) await requireRule(rules, 'update', id, call)
  if (rules && !known) rules.require('insert', call.session.role)
  if (conditions?.(known) === false) throw preconditionFailed()
  // The same answer as for a new file that the rules refuse.
  if (current && !known) throw accessDenied('access denied')
}

async function isVisible(rules: Rules, id: string, call: Call): Promise<boolean> {
  for (const rule of ['select', 'update'] as const) {
    if (rules.may(rule, call.session.role) && (await rules.accept(rule, id, call))) return true
  }
  return false
}

async function requireRule(rules: Rules, rule: Rule, id: string, call: Call): Promise<void> {
  if (!(await rules.accept(rule, id, call))) throw accessDenied('access denied')
}
