import type { ClientBase } from 'pg'
import { Change, type Reading } from '../catalog/change.js'
import type { TemplateResolver } from '../catalog/draft.js'
import { nothingSpent } from './request-limits.js'
import { openSnapshot, type Snapshot } from './snapshot.js'

/**
 * A database transaction and its metadata change, if any. Consecutive metadata operations share one rebuild of the
 * snapshot, which happens before the next request that needs names, or at the end.
 */
export class Transaction {
  readonly client: ClientBase
  /** Number of bulk members that ran in it, at any nesting depth. */
  members = 0
  /** Total cost of these members. */
  readonly spent = nothingSpent()
  /** Total size of their answers in bytes. They are buffered until the end. */
  answered = 0
  private readonly begun: Snapshot
  private snapshotNow: Snapshot
  private change: Change | undefined
  private seen = 0
  private readonly aborting = new AbortController()
  private discardClient = false

  private readonly resolve: TemplateResolver | undefined

  constructor(client: ClientBase, snapshot: Snapshot, resolve: TemplateResolver | undefined) {
    this.client = client
    this.begun = snapshot
    this.snapshotNow = snapshot
    this.resolve = resolve
  }

  /** Snapshot for the next member. */
  get snapshot(): Snapshot {
    if (this.change && this.change.revision !== this.seen) {
      this.change.settle(false)
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

  /** Marks the connection as unusable for other requests, because its session state was changed. */
  discard(): void {
    this.discardClient = true
  }
  get discarded(): boolean {
    return this.discardClient
  }

  /** Takes the metadata lock on the first call, and reloads the metadata. */
  async lock(): Promise<Change> {
    this.change ??= await Change.begin(this.client, this.resolve, this.begun.reading)
    return this.change
  }

  /** Writes the metadata just before commit. Returns undefined when it was not changed. */
  async finish(): Promise<Reading | undefined> {
    if (!this.change || this.change.revision === 0) return undefined
    this.change.settle(false)
    return this.change.write()
  }
}
