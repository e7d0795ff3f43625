import type { ClientBase } from 'pg'
import { Change, type Reading } from '../metadata/change.js'
import type { CatalogOptions } from '../metadata/draft.js'
import { type Database, inTransaction, isPooled, type TransactionOptions } from '../db/database.js'
import { cancellable } from '../db/execute.js'
import { RESET_SESSION } from '../db/pooler.js'
import { checkPrepared } from '../db/prepared.js'
import { nothingSpent } from './request-limits.js'
import { openSnapshot, type Snapshot, type Snapshots } from './snapshots.js'

/** Lends a connection to `fn`. Calling `discard` marks it as unusable for others. */
export type Lend = <T>(fn: (client: ClientBase, discard: () => void) => Promise<T>) => Promise<T>

/**
 * Runs `fn` in a transaction on a borrowed connection. Applies changed metadata before it resolves. Rolls back on failure
 * or cancellation, and always with `undo`.
 */
export async function runTransaction<T>(
  database: Database,
  lend: Lend,
  snapshots: Snapshots,
  requestSignal: AbortSignal,
  fn: (transaction: Transaction) => Promise<T>,
  { mode, undo }: Pick<TransactionOptions, 'mode' | 'undo'> = {},
): Promise<T> {
  return lend(async (client, discard) => {
    const transaction = new Transaction(client, snapshots.current, snapshots.options)
    // pg sends a statement before the last one has answered. Outside of transactions it must not, as it then keeps silent connections.
    const sending = client as { pipeline?: boolean }
    const signal = AbortSignal.any([requestSignal, transaction.signal])
    let changed: Reading | undefined
    let isCommitted = false
    const pooled = isPooled(database.config)
    const run = async () => {
      const answer = await fn(transaction)
      changed = await transaction.finish()
      if (undo) {
        // What the commit would check.
        await client.query('set constraints all immediate')
        changed = undefined
      }
      if (transaction.changedSession) await client.query(RESET_SESSION)
      signal.throwIfAborted()
      if (changed) snapshots.expect(changed)
      return answer
    }
    const onBegin = (begun: Promise<unknown>) => transaction.begins(begun)
    sending.pipeline = true
    try {
      const result = await cancellable(database, client, discard, signal, () =>
        inTransaction(client, run, {
          mode,
          undo,
          onBegin,
          willClose: () => signal.aborted || (pooled && transaction.changedSession),
        }),
      )
      isCommitted = true
      return result
    } finally {
      sending.pipeline = false
      if (transaction.changedSession && !isCommitted) {
        if (pooled || signal.aborted) discard()
        else await resetAfterFailure(client).catch(discard)
      }
      if (changed) await snapshots.settle(changed, isCommitted)
    }
  })
}

/** Resets what a rollback does not: session locks, for example. */
async function resetAfterFailure(client: ClientBase): Promise<void> {
  await client.query(RESET_SESSION)
  await checkPrepared(client)
}

/**
 * A database transaction and its metadata change, if any. Consecutive metadata operations share one rebuild of the
 * snapshot, which happens before the next request that needs names, or at the end.
 */
export class Transaction {
  /** Number of bulk members that ran in it, at any nesting depth. */
  members = 0
  /** Total size of the values that references in its bulks stood for, in characters. */
  referenced = 0
  /** Number of statements that wrote related rows in it. */
  steps = 0
  /** Total cost of these members. */
  readonly spent = nothingSpent()
  /** Total size of their answers in bytes. They are buffered until the end. */
  answered = 0
  private snapshotNow: Snapshot
  private change: Change | undefined
  private seen = 0
  private readonly aborting = new AbortController()
  private sessionChanged = false
  private ready: Promise<ClientBase> | undefined

  constructor(
    private readonly client: ClientBase,
    private readonly begun: Snapshot,
    private readonly options: CatalogOptions,
  ) {
    this.snapshotNow = begun
  }

  /** Takes the pending `begin`. */
  begins(begun: Promise<unknown>): void {
    this.ready = begun.then(() => this.client)
    this.ready.catch(() => undefined)
  }
  /** Returns the connection once the transaction has begun. */
  async connection(): Promise<ClientBase> {
    return this.ready ?? this.client
  }

  /** Snapshot for the next member. */
  get snapshot(): Snapshot {
    if (this.change && this.change.revision !== this.seen) {
      this.change.checkDependents(false)
      this.snapshotNow = openSnapshot(this.change.snapshot())
      this.seen = this.change.revision
    }
    return this.snapshotNow
  }

  /** Aborts when the transaction must stop. Its connection is then closed, which rolls it back. */
  get signal(): AbortSignal {
    return this.aborting.signal
  }
  abort(reason: Error): void {
    this.aborting.abort(reason)
  }

  /** Says that SQL of an admin changes the session, which is reset at the end. */
  changesSession(): void {
    this.sessionChanged = true
  }
  get changedSession(): boolean {
    return this.sessionChanged
  }

  /** Takes the metadata lock on the first call, and reloads the metadata. */
  async lock(): Promise<Change> {
    this.change ??= await Change.begin(await this.connection(), this.options, this.begun.reading)
    return this.change
  }

  /** Writes changed metadata just before commit. Returns undefined when nothing is known anew. */
  async finish(): Promise<Reading | undefined> {
    return this.change?.finish()
  }
}
