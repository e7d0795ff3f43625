import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { Host } from 'rowhouse'
import { withLength } from '../bytes.js'
import type { Components } from '../components.js'
import { internalError } from '../errors.js'
import { holdLease } from '../uploads.js'

/** Maximum size of a piece: how many bytes a killed server may lose. */
const PIECE_BYTES = 8 * 2 ** 20

/** Pieces up to this size are read into memory, up to `AHEAD` at a time. */
const SMALL_BYTES = 2 ** 20
const AHEAD = 8

/** Bytes of an unfinished upload: a blob of their own. */
export interface Piece {
  readonly blob: string
  readonly size: number
}

/** A piece, and the store that has it. */
export interface RecordedPiece extends Piece {
  readonly provider: string
}

/** Pieces count for no quota, because uploads do. */
const NO_FILE = { id: '', create: false, userId: null }

/** Cuts a body into pieces. If the body breaks off, the last piece ends there. */
export class Cut {
  /** Why the body broke off. */
  error: unknown
  private readonly chunks: AsyncIterator<Buffer>
  private chunk: Buffer | undefined

  constructor(body: AsyncIterable<Buffer>) {
    this.chunks = body[Symbol.asyncIterator]()
  }

  /** Yields pieces that are not empty. Read each to its end before you ask for the next one. */
  async *pieces(): AsyncGenerator<Readable> {
    while (await this.fill()) yield Readable.from(this.piece(), { objectMode: false, highWaterMark: 2 ** 20 })
  }

  private async *piece(): AsyncGenerator<Buffer> {
    for (let left = PIECE_BYTES; left > 0 && (await this.fill());) {
      const chunk = this.chunk!
      this.chunk = chunk.length > left ? chunk.subarray(left) : undefined
      yield chunk.subarray(0, left)
      left -= chunk.length
    }
  }

  private async fill(): Promise<boolean> {
    if (this.chunk || this.error !== undefined) return this.chunk !== undefined
    try {
      const { value, done } = await this.chunks.next()
      this.chunk = done === true ? undefined : value
    } catch (error) {
      this.error = error
    }
    return this.chunk !== undefined
  }
}

/** Writes pieces. Deletes those that have not been taken at the end. */
export class PieceWriter {
  private readonly lease
  private written: Piece[] = []

  constructor(private readonly components: Components) {
    this.lease = holdLease(components.files, components.host.use('log'))
  }

  /** Stores a piece. Its bytes are durable when this settles. */
  async write(bytes: Readable): Promise<void> {
    const { host, files, health } = this.components
    const store = await host.provider('storage').catch((error: unknown) => {
      health.failed(error)
      throw error
    })
    const blob = randomUUID()
    await files.reserve(blob, host.providerName('storage') as string, NO_FILE)
    this.lease.blobs.add(blob)
    try {
      const { size } = await health.watch(() => store.put(blob, bytes, this.lease.signal))
      this.written.push({ blob, size })
    } catch (error) {
      throw this.lease.lost ?? error
    }
  }

  /**
   * Returns the pieces written since the last call. Record them now, because their leases end. They are not deleted, even if that fails: the
   * record may have been committed.
   */
  take(): readonly Piece[] {
    const { written } = this
    this.written = []
    for (const { blob } of written) this.lease.blobs.delete(blob)
    return written
  }

  async end(): Promise<void> {
    this.lease.end()
    const { host, uploads } = this.components
    for (const blob of this.lease.blobs) await uploads.discard(await host.provider('storage'), blob)
  }
}

/** Reads the bytes of pieces, several small ones at a time. Fails if there are not `length` of them. */
export function readPieces(
  host: Host,
  pieces: readonly RecordedPiece[],
  length: number,
  signal: AbortSignal,
): Readable {
  async function* bytes(): AsyncGenerator<Buffer> {
    try {
      yield* inOrder()
    } catch (error) {
      // Lost bytes do not come back, so this is not the failure of a store that cannot be written.
      throw (error as NodeJS.ErrnoException).code === 'ENOENT' ? internalError(error) : error
    }
  }
  async function* inOrder(): AsyncGenerator<Buffer> {
    const ahead: Promise<Buffer>[] = []
    for (const [i, { blob, provider }] of pieces.entries()) {
      for (let next; ahead.length < AHEAD && (next = pieces[i + ahead.length]) && next.size <= SMALL_BYTES;) {
        const small = readSmall(host, next, signal)
        small.catch(() => {})
        ahead.push(small)
      }
      const small = ahead.shift()
      if (small) yield await small
      else
        yield* (await (await host.provider('storage', provider)).get(blob, undefined, signal)) as AsyncIterable<Buffer>
    }
  }
  return withLength(length, Readable.from(bytes()))
}

async function readSmall(host: Host, { blob, provider, size }: RecordedPiece, signal: AbortSignal): Promise<Buffer> {
  const store = await host.provider('storage', provider)
  return store.read?.(blob, { start: 0, end: size - 1 }, signal) ?? buffer(await store.get(blob, undefined, signal))
}
