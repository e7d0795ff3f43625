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
  readonly name: string
  readonly at: number
  /** It had to be prepared first, which says nothing of how long it takes the next time. */
  readonly fresh: boolean
  /** Told how long it was the first in its line. */
  readonly pace: Pace
  resolve(cell: Buffer): void
  reject(error: Error): void
}

/** How many statements a connection keeps prepared. */
const MAX_PREPARED = 500
/** More bytes than this wait for nothing before they are sent. */
const ENOUGH = 64 * 1024

/**
 * A connection on which reads are sent without waiting for the answers before. Each ends with a Sync, so that one that
 * fails takes no other with it. Answers come in the order of the questions: what is slow holds up what follows.
 */
export class PipelinedConnection implements Receiver {
  readonly openedAt = performance.now()
  private readonly client: pg.Client
  private readonly stream: Socket
  private readonly outgoing = new Outgoing()
  /** Least recently used first. */
  private readonly prepared = new Set<string>()
  /** In the order in which they were sent. */
  private readonly waiting: Asked[] = []
  private cell: Buffer | undefined
  private hasFailed = false
  private lastReadyAt = performance.now()
  private isSending = false
  private isRetired = false
  /** The first in line at the last look. */
  private seen: Asked | undefined
  private isOvertaken = false

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
      for (const asked of this.waiting.splice(0)) asked.reject(new Error('Connection terminated'))
    })
  }

  /** How many answers are owed. */
  get load(): number {
    return this.waiting.length
  }

  /** It takes nothing more. */
  get retired(): boolean {
    return this.isRetired
  }

  /** How long the first in line has been that, or how long there was none, in ms. */
  get silentMs(): number {
    return performance.now() - Math.max(this.lastReadyAt, this.waiting[0]?.at ?? 0)
  }

  /** @returns the only column of the only row, in UTF-8; it may share memory with other answers */
  ask({ name, text }: Statement, values: readonly (string | null)[], pace: Pace): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const fresh = !this.prepared.delete(name)
      if (fresh) {
        this.makeRoom()
        this.outgoing.prepare(name, text)
      }
      this.prepared.add(name)
      this.outgoing.run(name, values)
      this.waiting.push({ name, at: performance.now(), fresh, pace, resolve, reject })
      if (this.outgoing.length > ENOUGH) this.send()
      else this.sendSoon()
    })
  }

  /**
   * Lets nobody wait behind a read that takes longer: those behind it are told to ask elsewhere, and what comes of them here
   * is not looked at. A read is judged when it was the first in line at the look before as well: an answer may be here that
   * this process had no time to read.
   */
  overtakeIfSlow(slowMs: number): void {
    const [first, ...others] = this.waiting
    const isSlow = first !== undefined && first === this.seen && this.silentMs > slowMs
    this.seen = first
    if (!isSlow || this.isOvertaken) return
    this.isOvertaken = true
    this.isRetired = true
    first.pace.ranShared(this.silentMs)
    for (const asked of others) asked.reject(new Error('behind a read that takes long'))
  }

  /** Ends when the last answer has come. */
  retire(): void {
    this.isRetired = true
    if (this.waiting.length === 0) void this.client.end().catch(() => undefined)
  }

  /** Ends at once. */
  destroy(why: string): void {
    this.isRetired = true
    this.stream.destroy(new Error(`Connection terminated: ${why}`))
  }

  row(cell: Buffer): void {
    this.cell = cell
  }

  failed(): void {
    this.hasFailed = true
  }

  ready(): void {
    const asked = this.waiting.shift()
    const { cell, hasFailed } = this
    this.cell = undefined
    this.hasFailed = false
    if (!asked) return
    const now = performance.now()
    if (!this.isOvertaken && !asked.fresh) asked.pace.ranShared(now - Math.max(asked.at, this.lastReadyAt))
    this.lastReadyAt = now
    if (cell && !hasFailed) asked.resolve(cell)
    else {
      // Perhaps it could not even be prepared, or no longer means what it did.
      if (this.prepared.delete(asked.name)) this.outgoing.close(asked.name)
      asked.reject(new Error('the statement has failed'))
    }
    if (this.isOvertaken) this.destroy('nobody waits for the other answers')
    else if (this.isRetired) this.retire()
  }

  tooLarge(): void {
    this.waiting[0]?.pace.bar()
    this.destroy('a row is too large')
  }

  private makeRoom(): void {
    const [oldest] = this.prepared
    if (this.prepared.size < MAX_PREPARED || oldest === undefined) return
    this.prepared.delete(oldest)
    this.outgoing.close(oldest)
  }

  /** What is asked while sockets are being read goes out together. */
  private sendSoon(): void {
    if (this.isSending) return
    this.isSending = true
    setImmediate(() => {
      this.isSending = false
      this.send()
    })
  }

  private send(): void {
    if (this.outgoing.length > 0 && this.stream.writable) this.stream.write(this.outgoing.take())
  }
}
