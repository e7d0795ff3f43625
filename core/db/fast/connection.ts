import type { Socket } from 'node:net'
import type pg from 'pg'
import { Incoming, Outgoing, type Receiver } from '../messages.js'
import type { Judge } from './pace.js'

/** A statement to run: its text is sent to a connection once. */
export interface Statement {
  /** Unique to the text, 63 bytes at most. */
  readonly name: string
  readonly text: string
}

export interface Asked {
  readonly statement: Statement
  readonly values: readonly (string | null)[]
  /** Told how long it took. */
  readonly pace: Judge
  resolve(cell: Buffer): void
  reject(error: Error): void
}

/** Statements that were sent together, and are answered in their order. */
export interface Batch {
  readonly asked: readonly Asked[]
  readonly at: number
  /** One of them had to be prepared first, which says nothing of how long it takes the next time. */
  readonly fresh: boolean
  /** How many have ended well. */
  done: number
}

/** Nothing of it has happened: it should be asked elsewhere. */
export class NotDone extends Error {}
export const OVERTAKEN = 'behind one that takes long'
/** What became of a batch: all went well, one has failed, or the connection has closed before anybody knew. */
export type Outcome = 'good' | 'failed' | 'lost'

export interface ConnectionOptions {
  /** Has connected and proven who we are; from here on the connection reads and writes its socket. */
  readonly client: pg.Client
  /** Of a row. */
  readonly maxBytes: number
  /** The socket has closed. */
  onClose(): void
  /** Ends what PostgreSQL does for it. */
  cancel(): void
  /** A batch has ended. */
  onBatch(outcome: Outcome): void
}

/** How many statements a connection keeps prepared. */
const MAX_PREPARED = 500

/**
 * A connection that many requests share. What is asked while others are under way is sent when they are answered, all of it
 * in one piece with one Sync at its end: PostgreSQL and this process are woken once for many, and it is one transaction.
 */
export abstract class SharedConnection implements Receiver {
  readonly openedAt = performance.now()
  protected readonly options: ConnectionOptions
  private readonly stream: Socket
  private readonly outgoing = new Outgoing()
  /** Least recently used first. */
  private readonly prepared = new Set<string>()
  /** Written to `outgoing`, in this order. */
  private queue: Asked[] = []
  private queueIsFresh = false
  private batch: Batch | undefined
  private cell: Buffer | undefined
  private hasFailed = false
  private progressAt = performance.now()
  private isSending = false
  private isRetired = false
  private isOvertaken = false
  /** Where it was at the last look. */
  private seen: { readonly batch: Batch | undefined; readonly done: number } | undefined

  constructor(options: ConnectionOptions) {
    this.options = options
    this.stream = (options.client as unknown as { readonly connection: { readonly stream: Socket } }).connection.stream
    const incoming = new Incoming(this, options.maxBytes)
    this.stream.removeAllListeners('data')
    this.stream.on('data', (chunk: Buffer) => incoming.read(chunk))
    this.stream.once('close', () => {
      this.isRetired = true
      options.onClose()
      const { batch } = this
      this.batch = undefined
      if (batch) {
        options.onBatch('lost')
        this.lost(batch)
      }
      this.sendQueueElsewhere('Connection terminated')
    })
  }

  /** One of a batch has ended well. */
  protected abstract completed(asked: Asked, cell: Buffer | undefined): void
  /** The transaction of a batch has ended. One that has failed was rolled back. */
  protected abstract ended(batch: Batch, hasFailed: boolean): void
  /** The connection has closed before that of a batch had. */
  protected abstract lost(batch: Batch): void
  /** A batch takes so long that nobody should wait for it who need not. Told again as long as it does. */
  protected abstract giveUp(batch: Batch): void
  abstract tooLarge(): boolean
  abstract noticed(): void

  /** How many it has to do with. */
  get load(): number {
    return this.queue.length + (this.batch?.asked.length ?? 0)
  }

  /** It takes nothing more. */
  get retired(): boolean {
    return this.isRetired
  }

  /** How long nothing has come, in ms; from when it was asked for, where it was. */
  get silentMs(): number {
    return performance.now() - Math.max(this.progressAt, this.batch?.at ?? 0)
  }

  /**
   * @returns the only column of the only row, in UTF-8; it may share memory with other answers
   * @throws NotDone
   */
  ask(statement: Statement, values: readonly (string | null)[], pace: Judge): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.add({ statement, values, pace, resolve, reject })
      this.sendSoon()
    })
  }

  /**
   * Lets nobody wait behind a statement that takes longer. It counts when it was there at the look before as well: an answer
   * may be here that this process had no time to read.
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
    // Whose fault it is nobody knows: PostgreSQL sends answers when it has many, or all.
    for (const { pace } of batch.asked.slice(batch.done)) pace.overtaken()
    this.sendQueueElsewhere(OVERTAKEN)
    this.giveUp(batch)
  }

  /** Ends when the last answer has come. */
  retire(): void {
    this.isRetired = true
    if (this.load === 0) void this.options.client.end().catch(() => undefined)
  }

  /** Ends at once. */
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
    const asked = batch?.asked[batch.done]
    if (!batch || !asked) return
    batch.done++
    this.completed(asked, cell)
  }

  failed(): void {
    if (this.batch) this.hasFailed = true
    // What nobody has asked for says that the connection ends.
    else this.retire()
  }

  ready(): void {
    const { batch, hasFailed } = this
    this.batch = undefined
    this.cell = undefined
    this.hasFailed = false
    const now = performance.now()
    this.progressAt = now
    if (batch && !batch.fresh && !this.isOvertaken) {
      for (const { pace } of batch.asked) pace.ranShared((now - batch.at) / batch.asked.length)
    }
    if (batch) {
      this.options.onBatch(hasFailed ? 'failed' : 'good')
      if (hasFailed) this.blame(batch)
      const waiting = batch.done < batch.asked.length ? this.takeBack(batch) : []
      this.ended(batch, hasFailed)
      for (const asked of waiting) this.add(asked)
    }
    if (this.queue.length > 0) this.send()
    else if (this.isRetired) this.retire()
  }

  /** What is under way. */
  protected get current(): Asked | undefined {
    return this.batch?.asked[this.batch.done]
  }

  protected add(asked: Asked): void {
    const { name, text } = asked.statement
    if (!this.prepared.delete(name)) {
      this.makeRoom()
      // Where it is there after all: it is no error when it is not.
      this.outgoing.close(name)
      this.outgoing.prepare(name, text)
      this.queueIsFresh = true
    }
    this.prepared.add(name)
    this.outgoing.run(name, asked.values)
    this.queue.push(asked)
  }

  /** One that fails holds up others; at the commit it may have been any of them. */
  private blame({ asked, done }: Batch): void {
    if (this.isOvertaken) return
    for (const { pace } of done < asked.length ? asked.slice(done, done + 1) : asked) pace.failed()
  }

  /**
   * Those of a batch that were passed over may not have been prepared, and what waits was written as if they were.
   * @returns what waits, to be written again
   */
  private takeBack({ asked, done }: Batch): readonly Asked[] {
    const waiting = this.queue.splice(0)
    this.outgoing.take()
    for (const { statement } of [...asked.slice(done), ...waiting]) this.prepared.delete(statement.name)
    return waiting
  }

  private sendQueueElsewhere(why: string): void {
    for (const asked of this.queue.splice(0)) asked.reject(new NotDone(why))
    this.outgoing.take()
  }

  private makeRoom(): void {
    const [oldest] = this.prepared
    if (this.prepared.size < MAX_PREPARED || oldest === undefined) return
    this.prepared.delete(oldest)
    this.outgoing.close(oldest)
  }

  /** What is asked while sockets are being read goes out together. */
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
    this.batch = { asked: this.queue, at: performance.now(), fresh: this.queueIsFresh, done: 0 }
    this.queue = []
    this.queueIsFresh = false
    this.outgoing.sync()
    this.stream.write(this.outgoing.take())
  }
}
