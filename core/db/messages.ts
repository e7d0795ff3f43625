/**
 * Encodes and decodes the messages of PostgreSQL's protocol 3.0 that prepared reads need.
 * @see PostgreSQL manual, "Message Formats" of the frontend/backend protocol
 */

import { DATA_ROW, HEADER } from './row-messages.js'

const SLAB = 16 * 1024
const NULL = -1
export const MAX_VALUES = 65_535

/** Collects messages, so that one write sends many. */
export class Outgoing {
  private buffer = Buffer.allocUnsafe(SLAB)
  /** Start and end of the messages that were not taken yet. */
  private start = 0
  private end = 0

  get length(): number {
    return this.end - this.start
  }

  /** Prepares a statement. The name must not be in use. */
  prepare(name: string, text: string): void {
    const parse = this.begin('P')
    this.text(name)
    this.text(text)
    this.int16(0)
    this.finish(parse)
  }

  /** Closes a prepared statement. An unknown name is not an error. */
  close(name: string): void {
    const start = this.begin('C')
    this.byte('S')
    this.text(name)
    this.finish(start)
  }

  /**
   * Runs a prepared statement, with all values and columns as text.
   * @throws RangeError before anything is written, when there are more values than the protocol allows
   */
  run(name: string, values: readonly (string | null)[]): void {
    if (values.length > MAX_VALUES) throw new RangeError(`a statement takes at most ${MAX_VALUES} values`)
    const bind = this.begin('B')
    this.text('')
    this.text(name)
    this.int16(0)
    this.int16(values.length)
    for (const value of values) this.value(value)
    this.int16(0)
    this.finish(bind)
    const execute = this.begin('E')
    this.text('')
    this.int32(0)
    this.finish(execute)
  }

  /** Ends a batch. It is one transaction, and PostgreSQL answers its end with `ready`. */
  sync(): void {
    this.finish(this.begin('S'))
  }

  /** Takes all collected messages. Later messages are written after them. */
  take(): Buffer {
    const taken = this.buffer.subarray(this.start, this.end)
    this.start = this.end
    return taken
  }

  /** @returns the position of the length */
  private begin(type: string): number {
    this.byte(type)
    const before = this.length
    this.int32(0)
    return before
  }

  private finish(before: number): void {
    this.buffer.writeInt32BE(this.length - before, this.start + before)
  }

  private byte(character: string): void {
    this.room(1)
    this.buffer[this.end++] = character.charCodeAt(0)
  }

  private int16(value: number): void {
    this.room(2)
    this.end = this.buffer.writeUInt16BE(value, this.end)
  }

  private int32(value: number): void {
    this.room(4)
    this.end = this.buffer.writeInt32BE(value, this.end)
  }

  private text(text: string): void {
    // One UTF-16 code unit takes at most three bytes in UTF-8.
    this.room(text.length * 3 + 1)
    this.end += this.buffer.write(text, this.end)
    this.buffer[this.end++] = 0
  }

  private value(value: string | null): void {
    if (value === null) {
      this.int32(NULL)
      return
    }
    this.room(4 + value.length * 3)
    const written = this.buffer.write(value, this.end + 4)
    this.buffer.writeInt32BE(written, this.end)
    this.end += 4 + written
  }

  private room(bytes: number): void {
    if (this.end + bytes <= this.buffer.length) return
    const next = Buffer.allocUnsafe(Math.max(SLAB, 2 * this.length + bytes))
    this.buffer.copy(next, 0, this.start, this.end)
    this.end -= this.start
    this.start = 0
    this.buffer = next
  }
}

export interface Receiver {
  /** The first column of a row, unless it is null. It may share memory with other rows. */
  row(cell: Buffer): void
  /** A statement has completed. */
  complete(): void
  /** A statement has failed. PostgreSQL skips the following ones until `ready`. */
  failed(): void
  /** Everything up to a Sync has ended. */
  ready(): void
  /** PostgreSQL sent a warning or notice. */
  noticed(): void
  /** @returns whether to skip a row above the limit; otherwise reading stops */
  tooLarge(): boolean
}

/** Bytes before the first column of a row: header, number of columns, and length of the first column. */
const ROW_HEADER = HEADER + 6
const ERROR = 0x45
const READY = 0x5a
const COMPLETE = 0x43
const NOTICE = 0x4e

/** Splits chunks into messages. */
export class Incoming {
  /** Parts of an incomplete message. */
  private parts: Buffer[] = []
  private has = 0
  private needs = HEADER
  /** Number of bytes to skip. */
  private skip = 0

  constructor(
    private readonly to: Receiver,
    private readonly maxBytes: number,
  ) {}

  read(chunk: Buffer): void {
    if (this.has === 0) {
      const skipped = Math.min(this.skip, chunk.length)
      this.skip -= skipped
      this.messages(skipped === 0 ? chunk : chunk.subarray(skipped))
      return
    }
    this.parts.push(chunk)
    this.has += chunk.length
    if (this.has < this.needs) return
    const whole = Buffer.concat(this.parts, this.has)
    this.parts = []
    this.has = 0
    this.messages(whole)
  }

  private messages(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) {
      this.needs = HEADER
      if (bytes.length - at >= HEADER) {
        const type = bytes[at]
        const length = bytes.readInt32BE(at + 1)
        if (type === DATA_ROW && length > this.maxBytes) {
          if (!this.to.tooLarge()) return
          const end = at + 1 + length
          this.skip = Math.max(0, end - bytes.length)
          at = Math.min(end, bytes.length)
          continue
        }
        this.needs = 1 + length
        if (bytes.length - at >= this.needs) {
          const end = at + this.needs
          if (type === DATA_ROW && bytes.readInt32BE(at + ROW_HEADER - 4) !== NULL)
            this.to.row(bytes.subarray(at + ROW_HEADER, end))
          else if (type === COMPLETE) this.to.complete()
          else if (type === READY) this.to.ready()
          else if (type === ERROR) this.to.failed()
          else if (type === NOTICE) this.to.noticed()
          at = end
          continue
        }
      }
      this.parts.push(at === 0 ? bytes : bytes.subarray(at))
      this.has = bytes.length - at
      return
    }
  }
}
