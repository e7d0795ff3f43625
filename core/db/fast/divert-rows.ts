import { type ConnectOpts, Socket, type SocketConstructorOpts } from 'node:net'
import type pg from 'pg'
import { answerTooLarge, socketOf } from '../limit-answers.js'
import { DATA_ROW, HEADER, type RowMessages } from '../row-messages.js'

/** Takes whole rows, in the order in which they come. It must copy them, because their memory is used again. */
export type RowReceiver = (rows: RowMessages, count: number) => void

/** In bytes: the most that is read at once. */
export const READ = 64 * 1024

interface Diverted {
  readonly splitter: Splitter
  receive: RowReceiver | undefined
}
const diverted = new WeakMap<Socket, Diverted>()

/** Opens a socket that reads into the same memory again and again once its rows are diverted. */
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

/**
 * Keeps the rows of an idle connection from pg, which would make strings of them; all other messages still reach it. A row that
 * is larger than allowed ends the connection, when its length is read and before the rest has come.
 */
export function divertRows(client: pg.PoolClient, maxBytes: number): void {
  const stream = socketOf(client)
  const listeners = stream.listeners('data') as ((chunk: Buffer) => void)[]
  const pass = (chunk: Buffer) => {
    for (const listener of listeners) listener.call(stream, chunk)
  }
  const one: Diverted = {
    splitter: new Splitter(maxBytes, (rows, count) => one.receive?.(rows, count), pass),
    receive: undefined,
  }
  stream.removeAllListeners('data')
  stream.on('data', (chunk: Buffer) => {
    if (!one.splitter.split(chunk)) stream.destroy(answerTooLarge(maxBytes))
  })
  diverted.set(stream, one)
}

/**
 * Gives the rows of a connection to a receiver from now on, or to nobody.
 * @returns false when the connection is in the midst of a message, and of no use
 */
export function receiveRows(client: pg.PoolClient, receive: RowReceiver | undefined): boolean {
  const one = diverted.get(socketOf(client))
  if (!one?.splitter.between) return false
  one.receive = receive
  return true
}

/** Parts rows from the other messages. */
class Splitter {
  /** Too few bytes to tell the length of the next message. */
  private head: Buffer = NOTHING
  /** Room for a message of which only the first bytes have come. */
  private begun: Buffer = NOTHING
  private has = 0

  constructor(
    private readonly maxBytes: number,
    private readonly rows: RowReceiver,
    private readonly others: (messages: Buffer) => void,
  ) {}

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
