import type { ClientBase } from 'pg'
import { Change, type Reading } from '../catalog/change.js'
import type { TemplateResolver } from '../catalog/draft.js'
import { nothingSpent } from './request-limits.js'
import { openSnapshot, type Snapshot } from './snapshot.js'

/**
 * A database transaction and the metadata change in it, if there is one. Several metadata operations in a row share one
 * rebuild of the snapshot, which happens before the next request that needs names, or at the end.
 */
export class Transaction {
  readonly client: ClientBase
  /** Members of bulks that have run in it, whatever the nesting. */
  members = 0
  /** What they have asked for. */
  readonly spent = nothingSpent()
  /** Bytes of their answers, which are held until the last one. */
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

  /** The snapshot that the next member sees. */
  get snapshot(): Snapshot {
    if (this.change && this.change.revision !== this.seen) {
      this.change.settle(false)
      this.snapshotNow = openSnapshot(this.change.snapshot())
      this.seen = this.change.revision
    }
    return this.snapshotNow
  }

  /** Aborts when the transaction must not go on: its connection is then closed, which rolls it back. */
  get signal(): AbortSignal {
    return this.aborting.signal
  }
  abort(reason: Error): void {
    this.aborting.abort(reason)
  }

  /** The connection's session state was changed: it must not serve another request. */
  discard(): void {
    this.discardClient = true
  }
  get discarded(): boolean {
    return this.discardClient
  }

  /** Takes the metadata lock, the first time, and reads the metadata afresh. */
  async lock(): Promise<Change> {
    this.change ??= await Change.begin(this.client, this.resolve, this.begun.reading)
    return this.change
  }

  /** Just before commit: writes the metadata. Undefined when it was not changed. */
  async finish(): Promise<Reading | undefined> {
    if (!this.change || this.change.revision === 0) return undefined
    this.change.settle(false)
    return this.change.write()
  }
}
