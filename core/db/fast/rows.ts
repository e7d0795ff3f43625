import { socketOf } from '../database.js'
import { type ConnectOpts, Socket, type SocketConstructorOpts } from 'node:net'
import type { PoolClient } from 'pg'
import { unavailable } from '../../errors.js'
import { answerTooLarge } from '../limit-answers.js'
import { DATA_ROW, HEADER, type RowBatch, type RowMessages } from '../row-messages.js'
import type { RowSource } from '../stream.js'

/** Maximum number of bytes per read. */
const READ = 64 * 1024
/** Size of a block, in bytes. */
const BLOCK = 4 * READ
/** Up to this size, in bytes, data gets no block. */
const SMALL = READ
const MOST_FREE = 32
const NOTHING = Buffer.alloc(0)

/**
 * Reusable memory for rows in transit. V8 frees unreferenced buffers late, at 64 MiB and more, so a long stream would
 * always hold that much.
 */
export class Blocks {
  private readonly free: Buffer[] = []
  private readonly taken = new WeakSet<ArrayBufferLike>()

  take(): Buffer {
    const block = this.free.pop() ?? Buffer.allocUnsafeSlow(BLOCK)
    this.taken.add(block.buffer)
    return block
  }

  /**
   * Makes the block of a buffer available again. Ignores other memory. Blocks that never come back are garbage
   * collected.
   */
  release({ buffer }: Buffer): void {
    if (this.taken.delete(buffer) && this.free.length < MOST_FREE) this.free.push(Buffer.from(buffer))
  }
}

/** Rows in blocks that wait to be taken. */
export class WaitingRows {
  count = 0
  bytes = 0
  /** Total bytes received, including rows already taken. */
  private received = 0
  private parts: RowMessages[] = []
  private block: Buffer = NOTHING
  private filled = 0

  constructor(private readonly blocks: Blocks) {}

  /** Copies rows. A row larger than a block has its own memory already. */
  add(rows: RowMessages, count: number): void {
    this.count += count
    this.bytes += rows.length
    this.received += rows.length
    if (rows.length > BLOCK) {
      this.seal()
      this.parts.push(rows)
    } else if (this.received <= SMALL) this.parts.push(Buffer.from(rows))
    else {
      if (rows.length > this.block.length - this.filled) {
        this.seal()
        this.block = this.blocks.take()
      }
      rows.copy(this.block, this.filled)
      this.filled += rows.length
    }
  }

  take(): RowBatch {
    this.seal()
    const { parts, count, bytes } = this
    this.parts = []
    this.count = 0
    this.bytes = 0
    return { parts, count, bytes }
  }

  private seal(): void {
    if (this.filled > 0) this.parts.push(this.block.subarray(0, this.filled))
    this.block = NOTHING
    this.filled = 0
  }
}

/** Maximum size of untaken rows per connection, in bytes. Above it the connection is not read. */
const WAITING_BYTES = 2 * 1024 * 1024

/** Creates a source that stores the rows of a connection in blocks. pg's cursor only sees how its requests end. */
export function blockSource(client: PoolClient, blocks: Blocks): RowSource {
  const socket = socketOf(client)
  const waiting = new WaitingRows(blocks)
  let dropped = false
  let onFull: () => void = () => undefined
  const isFull = () => waiting.bytes >= WAITING_BYTES
  const isIdle = receiveRows(client, (rows, count) => {
    if (dropped) return
    waiting.add(rows, count)
    if (!isFull()) return
    socket.pause()
    onFull()
  })
  if (!isIdle) {
    client.release(true)
    throw unavailable(new Error('Connection terminated: it was in the middle of a message'))
  }
  const take = () => {
    const taken = waiting.take()
    socket.resume()
    return taken
  }
  return {
    take,
    most: Infinity,
    full: () =>
      new Promise((resolve) => {
        if (isFull()) resolve()
        else onFull = resolve
      }),
    drop() {
      dropped = true
      take()
    },
    close: () => receiveRows(client, undefined),
    free: (part) => blocks.release(part),
  }
}

/** Receives whole rows in order. It must copy them, because their memory is reused. */
type RowReceiver = (rows: RowMessages, count: number) => void

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
export function divertRows(client: PoolClient, maxBytes: number): void {
  const stream = socketOf(client)
  const listeners = stream.listeners('data') as ((chunk: Buffer) => void)[]
  const pass = (chunk: Buffer) => {
    for (const listener of listeners) listener.call(stream, chunk)
  }
  const state: Diverted = {
    splitter: new Splitter(maxBytes, (rows, count) => state.receive?.(rows, count), pass),
    receive: undefined,
  }
  stream.removeAllListeners('data')
  stream.on('data', (chunk: Buffer) => {
    if (!state.splitter.split(chunk)) stream.destroy(answerTooLarge(maxBytes))
  })
  diverted.set(stream, state)
}

/**
 * Sets or removes the receiver of a connection's rows.
 * @returns false when the connection is in the middle of a message and therefore unusable
 */
export function receiveRows(client: PoolClient, receive: RowReceiver | undefined): boolean {
  const state = diverted.get(socketOf(client))
  if (!state?.splitter.between) return false
  state.receive = receive
  return true
}

/** Splits rows from other messages. */
class Splitter {
  /** Bytes that are too few to contain the length of the next message. */
  private head: Buffer = NOTHING
  /** Buffer for a message that has arrived partially. */
  private partial: Buffer = NOTHING
  private has = 0

  constructor(
    private readonly maxBytes: number,
    private readonly rows: RowReceiver,
    private readonly others: (messages: Buffer) => void,
  ) {}

  get between(): boolean {
    return this.head.length === 0 && this.partial.length === 0
  }

  /** @returns false when a row is too large */
  split(next: Buffer): boolean {
    const chunk = this.head.length === 0 ? next : Buffer.concat([this.head, next])
    this.head = NOTHING
    let at = this.partial.length === 0 ? 0 : this.fillPartial(chunk)
    let from = at
    let count = 0
    while (chunk.length - at >= HEADER) {
      const isRow = chunk[at] === DATA_ROW
      const length = chunk.readUInt32BE(at + 1)
      if (isRow && length > this.maxBytes) return false
      if (isRow !== (chunk[from] === DATA_ROW)) {
        this.deliver(chunk.subarray(from, at), count)
        from = at
        count = 0
      }
      const end = at + 1 + length
      if (end > chunk.length) {
        this.deliver(chunk.subarray(from, at), count)
        this.partial = Buffer.allocUnsafe(1 + length)
        this.has = chunk.copy(this.partial, 0, at)
        return true
      }
      at = end
      count++
    }
    this.deliver(chunk.subarray(from, at), count)
    this.head = Buffer.from(chunk.subarray(at))
    return true
  }

  /** @returns how many bytes of the chunk belong to the started message */
  private fillPartial(chunk: Buffer): number {
    const took = chunk.copy(this.partial, this.has)
    this.has += took
    if (this.has === this.partial.length) {
      const whole = this.partial
      this.partial = NOTHING
      this.deliver(whole, 1)
    }
    return took
  }

  /** @param messages either only rows or no rows */
  private deliver(messages: Buffer, count: number): void {
    if (messages.length === 0) return
    if (messages[0] === DATA_ROW) this.rows(messages, count)
    else this.others(messages)
  }
}
