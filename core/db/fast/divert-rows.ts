import { type ConnectOpts, Socket, type SocketConstructorOpts } from 'node:net'
import type pg from 'pg'
import { answerTooLarge, socketOf } from '../limit-answers.js'
import { DATA_ROW, HEADER, type RowMessages } from '../row-messages.js'

/** Receives whole rows in order. It must copy them, because their memory is reused. */
export type RowReceiver = (rows: RowMessages, count: number) => void

/** Maximum number of bytes per read. */
export const READ = 64 * 1024

interface Diverted {
  readonly splitter: Splitter
  receive: RowReceiver | undefined
}
const diverted = new WeakMap<Socket, Diverted>()

/** Opens a socket that reads into the same memory repeatedly once its rows are diverted. */
export function openSocket(): Socket {
  const callback = (bytes: number, memory: Uint8Array) => {
    const chunk = Buffer.from(memory.buffer, memory.byteOffset, bytes)
    // pg keeps the start of a message until the rest arrives.
    socket.emit('data', diverted.has(socket) ? chunk : Buffer.from(chunk))
    return true
  }
  const options: SocketConstructorOpts & ConnectOpts = { onread: { buffer: Buffer.allocUnsafeSlow(READ), callback } }
  const socket = new Socket(options)
  return socket
}

/**
 * Diverts the rows of an idle connection from pg, which would convert them to strings. All other messages still reach
 * pg. A row above the limit closes the connection as soon as its length is read.
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
 * Sets or removes the receiver of a connection's rows.
 * @returns false when the connection is in the middle of a message and therefore unusable
 */
export function receiveRows(client: pg.PoolClient, receive: RowReceiver | undefined): boolean {
  const one = diverted.get(socketOf(client))
  if (!one?.splitter.between) return false
  one.receive = receive
  return true
}

/** Splits rows from other messages. */
class Splitter {
  /** Bytes that are too few to contain the length of the next message. */
  private head: Buffer = NOTHING
  /** Buffer for a message that has arrived partially. */
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

  /** @returns how many bytes of the chunk belong to the started message */
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

  /** @param messages either only rows or no rows */
  private give(messages: Buffer, count: number): void {
    if (messages.length === 0) return
    if (messages[0] === DATA_ROW) this.rows(messages, count)
    else this.others(messages)
  }
}

const NOTHING = Buffer.alloc(0)
