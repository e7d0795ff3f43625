import { answerTooLarge } from '../limit-answers.js'
import { type Asked, type Batch, NotDone, SharedConnection, type Statement } from './connection.js'

/**
 * After this a deferred constraint is checked at the end of each statement. In a transaction of its own it would be checked at
 * the end of that, which is the same.
 */
const CHECK_NOW: Statement = { name: 'check now', text: 'set constraints all immediate' }

/**
 * A connection on which quick inserts share commits: what is sent in one piece is one transaction. Each is answered when that is
 * committed. When it is rolled back, nothing of any of them has happened, and each is to be asked elsewhere, by itself. When
 * the connection breaks before it was told, nobody knows, as with any commit.
 */
export class CommitConnection extends SharedConnection {
  /** Answers of those of the batch that have ended well; undefined: a row without a value, or one that was too large. */
  private cells: (Buffer | undefined)[] = []
  private tooLargeAt: ReadonlySet<number> = new Set()

  protected override add(asked: Asked): void {
    // Before the second, and so only where there are several.
    if (this.queue.length === 1)
      super.add({ statement: CHECK_NOW, values: [], pace: asked.pace, resolve: () => {}, reject: () => {} })
    super.add(asked)
  }

  protected override completed(_: Asked, cell: Buffer | undefined): void {
    this.cells.push(cell)
  }

  protected override ended({ asked, done }: Batch, hasFailed: boolean): void {
    const { cells, tooLargeAt } = this
    this.cells = []
    this.tooLargeAt = new Set()
    if (hasFailed || done < asked.length) {
      for (const each of asked) each.reject(new NotDone('rolled back'))
      return
    }
    for (const [i, each] of asked.entries()) {
      const cell = cells[i]
      if (cell) each.resolve(cell)
      else each.reject(tooLargeAt.has(i) ? answerTooLarge(this.options.maxBytes) : new Error('no answer'))
    }
  }

  protected override lost({ asked }: Batch): void {
    for (const each of asked) each.reject(new Error('Connection terminated before the commit was confirmed'))
  }

  /** Cancelled, it is rolled back as a whole. PostgreSQL says so, and only then it is known. */
  protected override giveUp({ asked }: Batch): void {
    if (asked.length > 1) this.options.cancel()
  }

  override tooLarge(): boolean {
    this.tooLargeAt = new Set([...this.tooLargeAt, this.cells.length])
    return true
  }
}
