import { type ConnectOpts, Socket, type SocketConstructorOpts } from 'node:net'
import type pg from 'pg'
import { type ServiceError, serviceError } from '../errors.js'
import { DATA_ROW, HEADER, type RowMessages } from './row-messages.js'

/** Takes whole rows, in the order in which they come. It has to copy them: their memory will be that of others. */
export type RowReceiver = (rows: RowMessages, count: number) => void

/** In bytes: the most that is read at once. */
export const READ = 64 * 1024
/** Sockets of connections whose rows are diverted: nobody keeps any of a chunk. */
const diverted = new WeakSet<Socket>()

/** A socket that reads into the same memory again and again while the rows of its connection are diverted. */
export function openSocket(): Socket {
  const callback = (bytes: number, memory: Uint8Array) => {
    const chunk = Buffer.from(memory.buffer, memory.byteOffset, bytes)
    // pg keeps the beginning of a message until its rest has come.
    socket.emit('data', diverted.has(socket) ? chunk : Buffer.from(chunk))
    return true
  }
  const options: SocketConstructorOpts & ConnectOpts = { onread: { buffer: Buffer.allocUnsafeSlow(READ), callback } }
  const socket = new Socket(options)
  return socket
}

/** `divertRows` by socket. */
const divert = new WeakMap<Socket, (receive: RowReceiver | undefined) => boolean>()

/**
 * Ends a connection on which a row comes that is larger than allowed, when its length is read and before the rest has
 * come. The driver would make one string of it, however large, and a string that is too long ends the process.
 */
export function limitAnswers(client: pg.PoolClient, maxBytes: number): void {
  const stream = socketOf(client)
  let messages = new Messages()
  let splitter: Splitter | undefined
  const listeners = stream.listeners('data') as ((chunk: Buffer) => void)[]
  const pass = (chunk: Buffer) => {
    for (const listener of listeners) listener.call(stream, chunk)
  }
  stream.removeAllListeners('data')
  stream.on('data', (chunk: Buffer) => {
    if (splitter) {
      if (!splitter.split(chunk)) stream.destroy(answerTooLarge(maxBytes))
    } else if (messages.largestRow(chunk) > maxBytes) stream.destroy(answerTooLarge(maxBytes))
    else pass(chunk)
  })
  divert.set(stream, (receive) => {
    if (!(splitter ?? messages).between) return false
    splitter = receive && new Splitter(maxBytes, receive, pass)
    if (receive) diverted.add(stream)
    else diverted.delete(stream)
    messages = new Messages()
    return true
  })
}

/**
 * Gives the rows of an idle connection to a receiver as they are, or back to pg, which makes strings of them.
 * @returns false when it is in the midst of a message, and of no use
 */
export function divertRows(client: pg.PoolClient, receive: RowReceiver | undefined): boolean {
  return divert.get(socketOf(client))?.(receive) ?? false
}

/** What a connection reads and writes. */
export const socketOf = (client: pg.PoolClient): Socket =>
  (client as pg.PoolClient & { readonly connection: { readonly stream: Socket } }).connection.stream

/** Follows the messages of the protocol through chunks that know nothing of them. */
class Messages {
  /** Bytes of the message under way that have not come. */
  private left = 0
  /** A header of which only a part has come. */
  private readonly header = Buffer.alloc(HEADER)
  private has = 0

  /** No message has come in part. */
  get between(): boolean {
    return this.left === 0 && this.has === 0
  }

  /** The length of the largest row that begins in a chunk. */
  largestRow(chunk: Buffer): number {
    let largest = 0
    let at = 0
    while (at < chunk.length) {
      if (this.left > 0) {
        const step = Math.min(this.left, chunk.length - at)
        this.left -= step
        at += step
        continue
      }
      const step = Math.min(HEADER - this.has, chunk.length - at)
      chunk.copy(this.header, this.has, at, at + step)
      this.has += step
      at += step
      if (this.has < HEADER) break
      this.has = 0
      const length = this.header.readUInt32BE(1)
      this.left = length - 4
      if (this.header[0] === DATA_ROW) largest = Math.max(largest, length)
    }
    return largest
  }
}

/** Parts rows from the other messages. */
class Splitter {
  private readonly maxBytes: number
  private readonly rows: RowReceiver
  private readonly others: (messages: Buffer) => void
  /** Too few bytes to tell the length of the next message. */
  private head: Buffer = NOTHING
  /** Room for a message of which only the first bytes have come. */
  private begun: Buffer = NOTHING
  private has = 0

  constructor(maxBytes: number, rows: RowReceiver, others: (messages: Buffer) => void) {
    this.maxBytes = maxBytes
    this.rows = rows
    this.others = others
  }

  get between(): boolean {
    return this.head.length === 0 && this.begun.length === 0
  }

  /** @returns false when a row is too large */
  split(next: Buffer): boolean {
    const chunk = this.head.length === 0 ? next : Buffer.concat([this.head, next])
    this.head = NOTHING
    let at = this.begun.length === 0 ? 0 : this.complete(chunk)
    let from = at
    let count = 0
    while (chunk.length - at >= HEADER) {
      const isRow = chunk[at] === DATA_ROW
      const length = chunk.readUInt32BE(at + 1)
      if (isRow && length > this.maxBytes) return false
      if (isRow !== (chunk[from] === DATA_ROW)) {
        this.give(chunk.subarray(from, at), count)
        from = at
        count = 0
      }
      const end = at + 1 + length
      if (end > chunk.length) {
        this.give(chunk.subarray(from, at), count)
        this.begun = Buffer.allocUnsafe(1 + length)
        this.has = chunk.copy(this.begun, 0, at)
        return true
      }
      at = end
      count++
    }
    this.give(chunk.subarray(from, at), count)
    this.head = Buffer.from(chunk.subarray(at))
    return true
  }

  /** @returns how much of the chunk belongs to the message that has begun */
  private complete(chunk: Buffer): number {
    const took = chunk.copy(this.begun, this.has)
    this.has += took
    if (this.has === this.begun.length) {
      const whole = this.begun
      this.begun = NOTHING
      this.give(whole, 1)
    }
    return took
  }

  /** @param messages all rows, or none of them */
  private give(messages: Buffer, count: number): void {
    if (messages.length === 0) return
    if (messages[0] === DATA_ROW) this.rows(messages, count)
    else this.others(messages)
  }
}

const NOTHING = Buffer.alloc(0)

export const answerTooLarge = (maxBytes: number): ServiceError =>
  serviceError(
    'answer-too-large',
    `the answer has a part of more than ${Math.floor(maxBytes / 1024 / 1024)} MiB (database.maxAnswerBytes): ask for less at once; a select without a limit comes row by row`,
  )
