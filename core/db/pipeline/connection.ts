import type { Socket } from 'node:net'
import type pg from 'pg'
import { Incoming, Outgoing, type Receiver } from './messages.js'
import type { Pace } from './pace.js'

/** A statement to run: its text is sent to a connection once. */
export interface Statement {
  /** Unique to the text, 63 bytes at most. */
  readonly name: string
  readonly text: string
}

interface Asked {
  readonly statement: Statement
  readonly values: readonly (string | null)[]
  /** Told how long it took. */
  readonly pace: Pace
  resolve(cell: Buffer): void
  reject(error: Error): void
}

/** Reads that were sent together, and are answered in their order. */
interface Batch {
  readonly asked: readonly Asked[]
  readonly at: number
  /** One of them had to be prepared first, which says nothing of how long it takes the next time. */
  readonly fresh: boolean
  /** How many were answered. */
  done: number
}

/** How many statements a connection keeps prepared. */
const MAX_PREPARED = 500

/**
 * A connection that many reads share. What is asked while others are under way is sent when they are answered, all of it in
 * one piece with one Sync at its end: PostgreSQL and this process are woken once for many. When one fails, those behind it
 * are passed over, and sent again.
 */
export class PipelinedConnection implements Receiver {
  readonly openedAt = performance.now()
  readonly client: pg.Client
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

  /**
   * @param client has connected and proven who we are; from here on this reads and writes its socket
   * @param maxBytes of a row
   * @param onClose when the socket has closed
   */
  constructor(client: pg.Client, maxBytes: number, onClose: () => void) {
    this.client = client
    this.stream = (client as unknown as { readonly connection: { readonly stream: Socket } }).connection.stream
    const incoming = new Incoming(this, maxBytes)
    this.stream.removeAllListeners('data')
    this.stream.on('data', (chunk: Buffer) => incoming.read(chunk))
    this.stream.once('close', () => {
      this.isRetired = true
      onClose()
      this.sendElsewhere('Connection terminated')
    })
  }

  /** How many answers are owed. */
  get load(): number {
    return this.queue.length + (this.batch ? this.batch.asked.length - this.batch.done : 0)
  }

  /** It takes nothing more. */
  get retired(): boolean {
    return this.isRetired
  }

  /** How long nothing has come, in ms; from when it was asked for, where it was. */
  get silentMs(): number {
    return performance.now() - Math.max(this.progressAt, this.batch?.at ?? 0)
  }

  /** @returns the only column of the only row, in UTF-8; it may share memory with other answers */
  ask(statement: Statement, values: readonly (string | null)[], pace: Pace): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.add({ statement, values, pace, resolve, reject })
      this.sendSoon()
    })
  }

  /**
   * Lets nobody wait behind a read that takes longer: all are told to ask elsewhere, but one that is alone and so the slow one.
   * It counts when it was there at the look before as well: an answer may be here that this process had no time to read.
   * @returns whether what runs here is of no use to anybody any more
   */
  overtakeIfSlow(slowMs: number): boolean {
    const { batch, seen, silentMs } = this
    this.seen = { batch, done: batch?.done ?? 0 }
    if (!batch || batch !== seen?.batch || batch.done !== seen.done || silentMs <= slowMs || this.isOvertaken)
      return false
    this.isOvertaken = true
    this.isRetired = true
    const waiting = batch.asked.slice(batch.done)
    // Whose fault it is nobody knows: PostgreSQL sends answers when it has many, or all.
    for (const { pace } of waiting) pace.ranShared(silentMs)
    if (waiting.length > 1) {
      this.sendElsewhere('behind a read that takes long')
      return true
    }
    for (const asked of this.queue.splice(0)) asked.reject(new Error('behind a read that takes long'))
    this.outgoing.take()
    return false
  }

  /** Ends when the last answer has come. */
  retire(): void {
    this.isRetired = true
    if (this.load === 0) void this.client.end().catch(() => undefined)
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
    if (cell) asked.resolve(cell)
    else asked.reject(new Error('no answer'))
  }

  failed(): void {
    this.hasFailed = true
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
    const [failed, ...passed] = batch?.asked.slice(batch.done) ?? []
    if (failed) {
      // Perhaps it could not even be prepared, or no longer means what it did.
      this.forget(failed)
      if (hasFailed) failed.pace.failed()
      failed.reject(new Error('the statement has failed'))
    }
    for (const asked of passed) {
      this.forget(asked)
      this.add(asked)
    }
    if (this.queue.length > 0) this.send()
    else if (this.isRetired) this.retire()
  }

  tooLarge(): void {
    this.batch?.asked[this.batch.done]?.pace.bar()
    this.destroy('a row is too large')
  }

  private add(asked: Asked): void {
    const { name, text } = asked.statement
    if (!this.prepared.delete(name)) {
      this.makeRoom()
      this.outgoing.prepare(name, text)
      this.queueIsFresh = true
    }
    this.prepared.add(name)
    this.outgoing.run(name, asked.values)
    this.queue.push(asked)
  }

  private forget({ statement: { name } }: Asked): void {
    if (this.prepared.delete(name)) this.outgoing.close(name)
  }

  private sendElsewhere(why: string): void {
    const all = [...(this.batch?.asked.slice(this.batch.done) ?? []), ...this.queue]
    this.batch = undefined
    this.queue = []
    for (const asked of all) asked.reject(new Error(why))
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
