import type { Socket } from 'node:net'
import type pg from 'pg'
import { Incoming, Outgoing, type Receiver } from './messages.js'

/** A statement to run: its text is sent to a connection once. */
export interface Statement {
  /** Unique to the text, 63 bytes at most. */
  readonly name: string
  readonly text: string
}

export interface Answered {
  /** The only column of the only row, in UTF-8. It may share memory with other answers. */
  readonly cell: Buffer
  /** How long it was the first in its line. */
  readonly ms: number
}

interface Asked {
  readonly name: string
  readonly at: number
  resolve(answer: Answered): void
  reject(error: Error): void
}

/** How many statements a connection keeps prepared. */
const MAX_PREPARED = 500
/** More than this waits for nothing before it is sent. */
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

  /**
   * @param client has connected and proven who we are; from here on this reads and writes its socket
   * @param maxBytes of a row
   */
  constructor(client: pg.Client, maxBytes: number) {
    this.client = client
    this.stream = (client as unknown as { readonly connection: { readonly stream: Socket } }).connection.stream
    const incoming = new Incoming(this, maxBytes)
    this.stream.removeAllListeners('data')
    this.stream.on('data', (chunk: Buffer) => incoming.read(chunk))
    this.stream.once('close', () => {
      this.isRetired = true
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

  /** Since when nothing has come, in ms. */
  get silentMs(): number {
    return performance.now() - Math.max(this.lastReadyAt, this.waiting[0]?.at ?? 0)
  }

  ask({ name, text }: Statement, values: readonly (string | null)[]): Promise<Answered> {
    return new Promise((resolve, reject) => {
      if (!this.prepared.delete(name)) {
        this.makeRoom()
        this.outgoing.prepare(name, text)
      }
      this.prepared.add(name)
      this.outgoing.run(name, values)
      this.waiting.push({ name, at: performance.now(), resolve, reject })
      if (this.outgoing.length > ENOUGH) this.send()
      else this.sendSoon()
    })
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
    const ms = now - Math.max(asked.at, this.lastReadyAt)
    this.lastReadyAt = now
    if (cell && !hasFailed) asked.resolve({ cell, ms })
    else {
      // Perhaps it could not even be prepared.
      this.prepared.delete(asked.name)
      asked.reject(new Error('the statement has failed'))
    }
    if (this.isRetired) this.retire()
  }

  tooLarge(): void {
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
