import type { PoolClient } from 'pg'
import { unavailable } from '../breaker.js'
import { socketOf } from '../limit-answers.js'
import type { RowBatch, RowMessages } from '../row-messages.js'
import type { RowSource } from '../stream.js'
import { READ, receiveRows } from './divert-rows.js'

/** Size of a block, in bytes. */
const BLOCK = 4 * READ
/** Up to this size, in bytes, data gets no block. */
const SMALL = READ
const MOST_FREE = 32

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
  giveBack({ buffer }: Buffer): void {
    if (this.taken.delete(buffer) && this.free.length < MOST_FREE) this.free.push(Buffer.from(buffer))
  }
}

/** Rows in blocks that wait to be taken. */
export class WaitingRows {
  count = 0
  bytes = 0
  /** Total bytes received, including rows already taken. */
  private came = 0
  private parts: RowMessages[] = []
  private block: Buffer = NOTHING
  private filled = 0

  constructor(private readonly blocks: Blocks) {}

  /** Copies rows. A row larger than a block has its own memory already. */
  add(rows: RowMessages, count: number): void {
    this.count += count
    this.bytes += rows.length
    this.came += rows.length
    if (rows.length > BLOCK) {
      this.seal()
      this.parts.push(rows)
    } else if (this.came <= SMALL) this.parts.push(Buffer.from(rows))
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

const NOTHING = Buffer.alloc(0)

/** Maximum size of untaken rows per connection, in bytes. Above it the connection is not read. */
const WAITING_BYTES = 2 * 1024 * 1024

/** Creates a source that stores the rows of a connection in blocks. pg's cursor only sees how its requests end. */
export function blockSource(client: PoolClient, blocks: Blocks): RowSource {
  const socket = socketOf(client)
  const waiting = new WaitingRows(blocks)
  let dropped = false
  let tell: () => void = () => undefined
  const isFull = () => waiting.bytes >= WAITING_BYTES
  const isIdle = receiveRows(client, (rows, count) => {
    if (dropped) return
    waiting.add(rows, count)
    if (!isFull()) return
    socket.pause()
    tell()
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
        else tell = resolve
      }),
    drop() {
      dropped = true
      take()
    },
    close: () => receiveRows(client, undefined),
    free: (part) => blocks.giveBack(part),
  }
}
