import { type Call, type Data, type ServiceError, serviceError, type Transaction } from 'rowhouse'
import type { Rule } from 'rowhouse/plan'
import type { Version } from './conditions.js'
import { accessDenied, AlreadyExists, notFound, preconditionFailed, uploadLost } from './errors.js'
import type { Files, NewFile, StoredBlob } from './files.js'
import type { PendingFiles } from './pending.js'
import type { Rules } from './rules.js'

/** What to check in the transaction that changes a file. Without a guard, one statement is enough. */
export interface Guard {
  readonly call: Call
  /** Undefined if no rules apply to the caller. */
  readonly rules?: Rules
  /** Returns whether the client's conditions allow the change. Undefined if there are none. */
  readonly conditions?: (current: Version | undefined) => boolean
  /** Runs in the same transaction, first. The change fails if it throws. */
  readonly before?: (transaction: Transaction) => Promise<void>
}

const MAX_TRIES = 3

/** Changes file records: all of a request or none. */
export class Changes {
  constructor(
    private readonly data: Data,
    private readonly files: Files,
    private readonly pending: PendingFiles,
  ) {}

  /**
   * Makes the checks of `commit`, or of `attach` for a pending upload, before the body is read.
   * @throws ServiceError 400, 403, 412
   */
  async precheck({ id, create, pending }: Checked, guard: Guard): Promise<void> {
    await checkChange(await this.files.version(id), id, create, guard, guard.call, pending !== undefined)
  }

  /**
   * Makes blobs, whose bytes are durable, the content of files, or pending uploads.
   * @returns JSON text of each record
   * @throws ServiceError 400 when a file must not exist and does; 403, 412, 429; 503 when the collector has taken the blob
   */
  async commit(blobs: readonly StoredBlob[], guard: Guard | undefined, call: Call): Promise<readonly string[]> {
    const [only] = blobs
    const isPlain = !guard && !call.keyed && !only?.file.pending
    if (only && blobs.length === 1 && isPlain) return [await this.files.store(only, only.file.create)]
    for (let tries = 1; ; tries++) {
      try {
        return await this.once(call, async (inTransaction) => {
          await guard?.before?.(inTransaction.transaction)
          const records: string[] = []
          for (const blob of blobs) records.push(await this.commitOne(blob, guard, inTransaction))
          return records
        })
      } catch (error) {
        // Another request created the file after this one looked it up. The retry replaces it.
        const raced = error instanceof AlreadyExists && blobs.some(({ file }) => file.id === error.id && !file.create)
        if (!raced || tries === MAX_TRIES) throw error
      }
    }
  }

  /** Returns the records of an earlier request with the same `Idempotency-Key`. @throws ServiceError 503 without one */
  repeat(call: Call): Promise<readonly string[]> {
    return this.once(call, () => Promise.reject(uploadLost()))
  }

  private async once(
    call: Call,
    fn: (call: TransactionCall) => Promise<readonly string[]>,
  ): Promise<readonly string[]> {
    const { text } = await this.data.once(call, async (once) => {
      const records = await this.data.transaction(once, fn)
      return { kind: 'text' as const, text: records.join('\n') }
    })
    return text.split('\n')
  }

  private async commitOne(blob: StoredBlob, guard: Guard | undefined, call: TransactionCall): Promise<string> {
    const { id, create, pending } = blob.file
    if (pending !== undefined) return this.pending.hold(blob, call.transaction)
    if (!guard) return this.files.store(blob, create, call.transaction)
    const current = await this.files.version(id, call.transaction)
    await checkChange(current, id, create, guard, call)
    const record = await this.files.store(blob, !current, call.transaction)
    if (guard.rules) await requireRule(guard.rules, current ? 'updated' : 'inserted', id, call)
    return record
  }

  /**
   * Makes a pending upload the content of a file, in the transaction of the call.
   * @returns JSON text of the record
   * @throws ServiceError 400 when the file must not exist and does; 403; 409, for a retry of the transaction
   */
  async attach(blob: StoredBlob, guard: Guard | undefined, call: TransactionCall): Promise<string> {
    try {
      return await this.commitOne(blob, guard, call)
    } catch (error) {
      if (!(error instanceof AlreadyExists) || blob.file.create) throw error
      // Another request created the file after this one looked it up, and the transaction cannot go on.
      throw serviceError('concurrent-update', 'another request created the file', '$', { cause: error })
    }
  }

  /** @throws ServiceError 403, 404, 412 */
  async remove(id: string, guard: Guard | undefined, transaction?: Transaction): Promise<void> {
    if (!guard) return this.files.remove(id, transaction)
    const { rules, conditions } = guard
    await this.data.transaction(guard.call, async (call) => {
      const current = await this.files.version(id, call.transaction)
      const refused = (error: ServiceError) => rules?.refused(error, 'delete', id, call) ?? error
      if (!current) throw await refused(notFound(id))
      if (rules && !(await rules.accept('delete', id, call))) {
        const isSeen = rules.may('select', call.session) && (await rules.accept('select', id, call))
        throw await refused(isSeen ? accessDenied('access denied') : notFound(id))
      }
      if (conditions?.(current) === false) throw preconditionFailed()
      await this.files.remove(id, call.transaction)
    })
  }
}

type Checked = Pick<NewFile, 'id' | 'create' | 'pending'>
type TransactionCall = Call & Required<Pick<Call, 'transaction'>>

/**
 * Throws unless the file may be stored. A current file that the caller may not see counts as missing.
 * @param later whether the file is stored later. A rule on the new record can be checked only then, and so is a current file
 *   that the caller may not see
 */
async function checkChange(
  current: Version | undefined,
  id: string,
  create: boolean,
  { rules, conditions }: Guard,
  call: Call,
  later = false,
): Promise<void> {
  const visible = current && rules && !(await isVisible(rules, id, call)) ? undefined : current
  if (visible && create) throw new AlreadyExists(id)
  if (rules && visible) await requireRule(rules, 'update', id, call)
  if (rules && !visible) await rules.require('inserted', id, call)
  if (conditions?.(visible) === false) throw preconditionFailed()
  // The same answer as for a new file that the rules refuse.
  if (rules && current && !visible && !later) throw await refused(rules, create ? 'select' : 'update', id, call)
}

async function isVisible(rules: Rules, id: string, call: Call): Promise<boolean> {
  for (const rule of ['select', 'update'] as const) {
    if (rules.may(rule, call.session) && (await rules.accept(rule, id, call))) return true
  }
  return false
}

async function requireRule(rules: Rules, rule: Rule, id: string, call: Call): Promise<void> {
  if (!(await rules.accept(rule, id, call))) throw await refused(rules, rule, id, call)
}

const refused = (rules: Rules, rule: Rule, id: string, call: Call): Promise<ServiceError> =>
  rules.refused(accessDenied('access denied'), rule, id, call)
