import { answerTooLarge } from '../limit-answers.js'
import { type Asked, type Batch, NotDone, SharedConnection } from './connection.js'

/**
 * Maximum answer size in a batch, in bytes. Answers are held until the commit, so requests with larger ones use another
 * lane for a while.
 */
const LARGE = 64 * 1024

/**
 * A connection on which quick inserts share commits: each batch is one transaction. Every insert is answered after the
 * commit. If the batch is rolled back, nothing has happened, and each insert is retried separately elsewhere. If the
 * connection drops before the confirmation, the outcome is unknown, as with any commit.
 */
export class CommitConnection extends SharedConnection {
  /** Answers of the completed statements of the batch. */
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

  /** Cancels the whole batch. It counts as rolled back only when PostgreSQL reports it. */
  protected override giveUp({ asked }: Batch): void {
    if (asked.length === 1) return
    this.isGivenUp = true
    this.options.cancel()
  }

  override tooLarge(): boolean {
    this.isTooLarge = true
    return true
  }

  /** PostgreSQL only warns about a commit that was cancelled while it waited for a standby. */
  override noticed(): void {
    this.isUnsure ||= this.isGivenUp
  }
}
