import type { PoolClient } from 'pg'
import { unavailable } from '../breaker.js'
import { socketOf } from '../limit-answers.js'
import type { RowBatch, RowMessages } from '../row-messages.js'
import type { RowSource } from '../stream.js'
import { READ, receiveRows } from './divert-rows.js'

/** In bytes. */
const BLOCK = 4 * READ
/** In bytes: a small answer is not worth a block. */
const SMALL = READ
const MOST_FREE = 32

/**
 * Memory for rows on their way, used again and again. What nobody refers to any more V8 takes away late, when it has become
 * 64 MiB and more, and a long stream would always have as much.
 */
export class Blocks {
  private readonly free: Buffer[] = []
  private readonly taken = new WeakSet<ArrayBufferLike>()

  take(): Buffer {
    const block = this.free.pop() ?? Buffer.allocUnsafeSlow(BLOCK)
    this.taken.add(block.buffer)
    return block
  }

  /** Takes a block back by any part of it. Other memory is let be, and a block that is never given back is collected. */
  giveBack({ buffer }: Buffer): void {
    if (this.taken.delete(buffer) && this.free.length < MOST_FREE) this.free.push(Buffer.from(buffer))
  }
}

/** Rows that wait to be taken, in blocks. */
export class WaitingRows {
  count = 0
  bytes = 0
  /** In bytes, with those that were taken. */
  private came = 0
  private parts: RowMessages[] = []
  private block: Buffer = NOTHING
  private filled = 0

  constructor(private readonly blocks: Blocks) {}

  /** Copies rows. One that is larger than a block was not read at once, so that it has memory of its own. */
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

/** A connection with so many bytes of rows that nobody has taken is not read from, however many were asked for. */
const WAITING_BYTES = 2 * 1024 * 1024

/** Takes the rows that come on a connection into blocks; pg's cursor hears only of how its requests end. */
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
    throw unavailable(new Error('Connection terminated: it was in the midst of a message'))
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
