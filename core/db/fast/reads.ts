import { type Asked, type Batch, NotDone, OVERTAKEN, SharedConnection } from './connection.js'

/**
 * A connection that quick reads share. Each read is answered as soon as it completes. When one fails, PostgreSQL skips
 * those behind it, and they are sent again. Every failure is NotDone, because reads are always safe to retry.
 */
export class ReadConnection extends SharedConnection {
  protected override completed(asked: Asked, cell: Buffer | undefined): void {
    if (cell) asked.resolve(cell)
    else asked.reject(new NotDone('no answer'))
  }

  protected override ended({ asked, done }: Batch): void {
    const [failed, ...passed] = asked.slice(done)
    failed?.reject(new NotDone('the statement has failed'))
    for (const each of passed) this.add(each)
  }

  protected override lost(batch: Batch): void {
    reject(batch, 'Connection terminated')
  }

  /** Leaves a slow read alone when no other waits. */
  protected override giveUp(batch: Batch): void {
    if (batch.asked.length - batch.done === 1) return
    reject(batch, OVERTAKEN)
    this.options.cancel()
    this.destroy('no client waits for its answers')
  }

  override tooLarge(): boolean {
    this.current?.pace.bar()
    this.destroy('a row is too large')
    return false
  }

  override noticed(): void {}
}

function reject({ asked, done }: Batch, why: string): void {
  for (const each of asked.slice(done)) each.reject(new NotDone(why))
}
