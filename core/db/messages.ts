/**
 * The messages of PostgreSQL's protocol 3.0 that prepared reads need, in both directions.
 * @see PostgreSQL manual, "Message Formats" of the frontend/backend protocol
 */

const SLAB = 16 * 1024
const NULL = -1
export const MAX_VALUES = 65_535

/** Collects messages to send, so that many go out in one write. */
export class Outgoing {
  private buffer = Buffer.allocUnsafe(SLAB)
  /** Where what was not taken begins, and ends. */
  private start = 0
  private end = 0

  get length(): number {
    return this.end - this.start
  }

  /** Prepares a statement; one of this name must not be there. */
  prepare(name: string, text: string): void {
    const parse = this.begin('P')
    this.text(name)
    this.text(text)
    this.int16(0)
    this.finish(parse)
  }

  /** Gives up a prepared statement; it is no error when it is not there. */
  close(name: string): void {
    const start = this.begin('C')
    this.byte('S')
    this.text(name)
    this.finish(start)
  }

  /**
   * Runs a prepared statement, all values and columns as text.
   * @throws RangeError, before anything is written: more values than the protocol can carry
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

  /** Ends what was collected: all of it is one transaction, and its end is answered with `ready`. */
  sync(): void {
    this.finish(this.begin('S'))
  }

  /** All that was collected; what follows is written behind it. */
  take(): Buffer {
    const taken = this.buffer.subarray(this.start, this.end)
    this.start = this.end
    return taken
  }

  /** @returns how much was collected before its length */
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
    // A character of UTF-16 is three bytes of UTF-8 at most.
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
  /** The first column of a row, unless it is null; it may share memory with other rows. */
  row(cell: Buffer): void
  /** A statement has ended well. */
  complete(): void
  /** A statement has failed; what follows it is passed over until `ready`. */
  failed(): void
  /** All up to a Sync has ended. */
  ready(): void
  /** PostgreSQL warns of something, or tells more about it. */
  noticed(): void
  /** @returns whether a row that is larger than allowed should be passed over; else nothing more is read */
  tooLarge(): boolean
}

/** A message is a letter and a length, which counts itself but not the letter. */
const HEADER = 5
/** Of a row before its first column: how many columns, and the length of the first. */
const ROW_HEADER = HEADER + 6
const DATA_ROW = 0x44
const ERROR = 0x45
const READY = 0x5a
const COMPLETE = 0x43
const NOTICE = 0x4e

/** Takes messages out of chunks that know nothing of them. */
export class Incoming {
  private readonly to: Receiver
  private readonly maxBytes: number
  /** Of a message that has not come as a whole. */
  private parts: Buffer[] = []
  private has = 0
  private needs = HEADER
  /** Bytes to come that nobody wants. */
  private skip = 0

  constructor(to: Receiver, maxBytes: number) {
    this.to = to
    this.maxBytes = maxBytes
  }

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
