import { answerTooLarge } from '../limit-answers.js'
import { type Asked, type Batch, NotDone, SharedConnection } from './connection.js'

/** Answers of a batch are held until its commit: a form with larger ones goes elsewhere for a while. */
const LARGE = 64 * 1024

/**
 * A connection on which quick inserts share commits: what is sent in one piece is one transaction. Each is answered when that is
 * committed. When it is rolled back, nothing of any of them has happened, and each is to be asked elsewhere, by itself. When
 * the connection breaks before it was told, nobody knows, as with any commit.
 */
export class CommitConnection extends SharedConnection {
  /** Answers of those of the batch that have ended well. */
  private cells: (Buffer | Error)[] = []
  private isTooLarge = false
  private isGivenUp = false
  private isUnsure = false

  protected override completed({ pace }: Asked, cell: Buffer | undefined): void {
    if (this.isTooLarge || (cell && cell.length > LARGE)) pace.bar()
    this.cells.push(cell ?? (this.isTooLarge ? answerTooLarge(this.options.maxBytes) : new Error('no answer')))
    this.isTooLarge = false
  }

  protected override ended(batch: Batch, hasFailed: boolean): void {
    const { cells } = this
    this.cells = []
    this.isTooLarge = false
    if (hasFailed) for (const each of batch.asked) each.reject(new NotDone('rolled back'))
    else if (this.isUnsure || cells.length < batch.asked.length) this.lost(batch)
    else {
      for (const [i, each] of batch.asked.entries()) {
        const cell = cells[i] as Buffer | Error
        if (cell instanceof Error) each.reject(cell)
        else each.resolve(cell)
      }
    }
  }

  protected override lost({ asked }: Batch): void {
    for (const each of asked) each.reject(new Error('Connection terminated before the commit was confirmed'))
  }

  /** Cancelled, it is rolled back as a whole. PostgreSQL says so, and only then it is known. */
  protected override giveUp({ asked }: Batch): void {
    if (asked.length === 1) return
    this.isGivenUp = true
    this.options.cancel()
  }

  override tooLarge(): boolean {
    this.isTooLarge = true
    return true
  }

  /** A commit that was cancelled while it waited for a standby is only warned of. */
  override noticed(): void {
    this.isUnsure ||= this.isGivenUp
  }
}
