import { socketOf } from '../database.js'
import type { Socket } from 'node:net'
import type pg from 'pg'
import { Incoming, Outgoing, type Receiver } from '../messages.js'
import type { Origin } from '../slow-queries.js'
import type { Writer } from '../writer.js'
import type { Judge, Lateness } from './pace.js'

/** A statement to run. Its text is sent once per connection. */
export interface Statement {
  /** Unique per text, at most 63 bytes. */
  readonly name: string
  readonly text: string
}

export interface QueuedStatement {
  readonly statement: Statement
  readonly values: readonly (string | null)[]
  /** Told first, in the same batch. */
  readonly writer?: Writer | undefined
  /** The request that it is part of. */
  readonly origin: Origin
  /** Receives the duration of the statement. */
  readonly pace: Judge
  resolve(cell: Buffer): void
  reject(error: Error): void
}

/** Statements that were sent together and are answered in order. */
export interface Batch {
  readonly statements: readonly QueuedStatement[]
  readonly at: number
  /** Whether a statement had to be prepared, so that its duration is not representative. */
  readonly fresh: boolean
  /** Number of completed statements. */
  done: number
}

/** Signals that nothing has happened, so that the statement should run on another lane. */
export class NotDone extends Error {}
export const OVERTAKEN = 'behind one that takes long'
/** Outcome of a batch: all statements succeeded, one failed, or the connection closed before the result was known. */
type Outcome = 'good' | 'failed' | 'lost'

export interface ConnectionOptions {
  /** Connected and authenticated client. The shared connection reads and writes its socket from here on. */
  readonly client: pg.Client
  /** Maximum size of a row, in bytes. */
  readonly maxBytes: number
  readonly lateness: Pick<Lateness, 'ms'>
  /** Called when the socket has closed. */
  onClose(): void
  /** Cancels the running query in PostgreSQL. */
  cancel(): void
  /** Called when a batch has ended, `ms` after it was sent. */
  onBatch(outcome: Outcome, batch: Batch, ms: number): void
}

/** Maximum number of prepared statements per connection. */
const MAX_PREPARED = 500

/**
 * A connection that many requests share. Statements that arrive while a batch is running are sent together when it
 * ends, with one Sync at the end. This wakes PostgreSQL and this process once for many statements, and makes them one
 * transaction.
 */
export abstract class SharedConnection implements Receiver {
  readonly openedAt = performance.now()
  private readonly stream: Socket
  private readonly outgoing = new Outgoing()
  /** Names of prepared statements, least recently used first. */
  private readonly prepared = new Set<string>()
  /** Statements written to `outgoing`, in order. */
  private queue: QueuedStatement[] = []
  private queueIsFresh = false
  private batch: Batch | undefined
  private cell: Buffer | undefined
  private hasFailed = false
  /** Whether the batch's next answer is to a statement whose writer was told. */
  private hasTold = false
  private progressAt = performance.now()
  private isSending = false
  private isRetired = false
  private isOvertaken = false
  /** Progress at the last check. */
  private seen: { readonly batch: Batch | undefined; readonly done: number } | undefined

  constructor(protected readonly options: ConnectionOptions) {
    this.stream = socketOf(options.client)
    const incoming = new Incoming(this, options.maxBytes)
    this.stream.removeAllListeners('data')
    this.stream.on('data', (chunk: Buffer) => incoming.read(chunk))
    this.stream.once('close', () => {
      this.isRetired = true
      options.onClose()
      const { batch } = this
      this.batch = undefined
      if (batch) {
        options.onBatch('lost', batch, performance.now() - batch.at)
        this.lost(batch)
      }
      this.sendQueueElsewhere('Connection terminated')
    })
  }

  /** Called when a statement of a batch has completed. */
  protected abstract completed(queued: QueuedStatement, cell: Buffer | undefined): void
  /** Called when the transaction of a batch has ended. A failed one was rolled back. */
  protected abstract ended(batch: Batch, hasFailed: boolean): void
  /** Called when the connection closed before a batch had ended. */
  protected abstract lost(batch: Batch): void
  /** Called repeatedly while a batch is so slow that other requests should not wait for it. */
  protected abstract giveUp(batch: Batch): void
  abstract tooLarge(): boolean
  abstract noticed(): void

  /** Number of statements queued or in progress. */
  get load(): number {
    return this.queue.length + (this.batch?.statements.length ?? 0)
  }

  /** Whether it accepts no more statements. */
  get retired(): boolean {
    return this.isRetired
  }

  /** Time since the last data arrived, or since the batch was sent if that is later, in milliseconds. */
  get silentMs(): number {
    return performance.now() - Math.max(this.progressAt, this.batch?.at ?? 0)
  }

  /**
   * Runs a statement.
   * @param writer told first, in the same batch
   * @returns the only column of the only row, in UTF-8; it may share memory with other answers
   * @throws NotDone
   */
  run(
    statement: Statement,
    values: readonly (string | null)[],
    origin: Origin,
    pace: Judge,
    writer?: Writer,
  ): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.add({ statement, values, writer, origin, pace, resolve, reject })
      this.sendSoon()
    })
  }

  /**
   * Moves waiting statements away from a slow one. A statement must be slow at two checks in a row, because its answer
   * may have arrived without this process having had time to read it.
   */
  overtakeIfSlow(slowMs: number): void {
    const { batch, seen, silentMs } = this
    this.seen = { batch, done: batch?.done ?? 0 }
    if (!batch || batch !== seen?.batch || batch.done !== seen.done || silentMs <= slowMs) return
    if (this.isOvertaken) {
      this.giveUp(batch)
      return
    }
    this.isOvertaken = true
    this.isRetired = true
    // The slow statement is unknown: PostgreSQL buffers answers and sends several at once.
    for (const { pace } of batch.statements.slice(batch.done)) pace.overtaken()
    this.sendQueueElsewhere(OVERTAKEN)
    this.giveUp(batch)
  }

  /** Closes after the last answer. */
  retire(): void {
    this.isRetired = true
    if (this.load === 0) void this.options.client.end().catch(() => undefined)
  }

  /** Closes immediately. */
  destroy(why: string): void {
    this.isRetired = true
    this.stream.destroy(new Error(`Connection terminated: ${why}`))
  }

  row(cell: Buffer): void {
    this.cell = cell
  }

  complete(): void {
    const { batch, cell } = this
    this.cell = undefined
    this.progressAt = performance.now()
    const queued = batch?.statements[batch.done]
    if (!batch || !queued) return
    this.hasTold = queued.writer !== undefined && !this.hasTold
    if (this.hasTold) return
    batch.done++
    this.completed(queued, cell)
  }

  failed(): void {
    if (this.batch) this.hasFailed = true
    // An unexpected message announces the end of the connection.
    else this.retire()
  }

  ready(): void {
    const { batch, hasFailed } = this
    this.batch = undefined
    this.cell = undefined
    this.hasFailed = false
    this.hasTold = false
    const now = performance.now()
    this.progressAt = now
    if (batch && !batch.fresh && !this.isOvertaken) {
      const ms = now - batch.at - this.options.lateness.ms
      for (const { pace } of batch.statements) pace.ranShared(ms / batch.statements.length)
    }
    if (batch) {
      this.options.onBatch(hasFailed ? 'failed' : 'good', batch, now - batch.at)
      if (hasFailed) this.blame(batch)
      const waiting = batch.done < batch.statements.length ? this.takeBack(batch) : []
      this.ended(batch, hasFailed)
      for (const queued of waiting) this.add(queued)
    }
    if (this.queue.length > 0) this.send()
    else if (this.isRetired) this.retire()
  }

  /** The statement in progress. */
  protected get current(): QueuedStatement | undefined {
    return this.batch?.statements[this.batch.done]
  }

  protected add(queued: QueuedStatement): void {
    const { writer } = queued
    if (writer) this.write(writer.statement, writer.values)
    this.write(queued.statement, queued.values)
    this.queue.push(queued)
  }

  private write({ name, text }: Statement, values: readonly (string | null)[]): void {
    if (!this.prepared.delete(name)) {
      this.makeRoom()
      // Closing an unknown name is not an error.
      this.outgoing.close(name)
      this.outgoing.prepare(name, text)
      this.queueIsFresh = true
    }
    this.prepared.add(name)
    this.outgoing.run(name, values)
  }

  /** Reports a failed statement to its pace. At the commit it may have been any of the batch. */
  private blame({ statements, done }: Batch): void {
    if (this.isOvertaken) return
    for (const { pace } of done < statements.length ? statements.slice(done, done + 1) : statements) pace.failed()
  }

  /**
   * Takes back statements. Those skipped after an error may not have been prepared, although the waiting ones were
   * written as if they were.
   * @returns the waiting statements, to be written again
   */
  private takeBack({ statements, done }: Batch): readonly QueuedStatement[] {
    const waiting = this.queue.splice(0)
    this.outgoing.take()
    for (const { statement, writer } of [...statements.slice(done), ...waiting]) {
      this.prepared.delete(statement.name)
      if (writer) this.prepared.delete(writer.statement.name)
    }
    return waiting
  }

  private sendQueueElsewhere(why: string): void {
    for (const queued of this.queue.splice(0)) queued.reject(new NotDone(why))
    this.outgoing.take()
  }

  private makeRoom(): void {
    const [oldest] = this.prepared
    if (this.prepared.size < MAX_PREPARED || oldest === undefined) return
    this.prepared.delete(oldest)
    this.outgoing.close(oldest)
  }

  /** Sends on the next turn, so that statements that arrive together share one write. */
  private sendSoon(): void {
    if (this.isSending || this.batch) return
    this.isSending = true
    setImmediate(() => {
      this.isSending = false
      if (!this.batch) this.send()
    })
  }

  private send(): void {
    if (this.queue.length === 0 || !this.stream.writable) return
    this.batch = { statements: this.queue, at: performance.now(), fresh: this.queueIsFresh, done: 0 }
    this.queue = []
    this.queueIsFresh = false
    this.outgoing.sync()
    this.stream.write(this.outgoing.take())
  }
}
