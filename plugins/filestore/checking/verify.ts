import { createHash, type Hash } from 'node:crypto'
import type { ByteRange, ObjectStore } from 'rowhouse'

/** Size and hash of a blob when it was written. */
export interface Written {
  readonly blob: string
  readonly provider: string
  readonly size: number
  readonly sha256: Buffer
}

/** The blob is missing, has a different size, or different bytes. */
export type Damage = 'missing' | 'size' | 'sha256'

interface VerifyOptions {
  /** How much to request from the store at a time. */
  readonly pieceBytes: number
  readonly signal: AbortSignal
  /** Called after each piece; the next one waits for it. */
  readonly onPiece?: (bytes: number) => Promise<void> | void
}

/**
 * Reads a blob and compares it with what was written.
 * @throws the error of the store when it cannot be read, which is not damage
 */
export async function verify(
  store: ObjectStore,
  { blob, size, sha256 }: Written,
  { pieceBytes, signal, onPiece }: VerifyOptions,
): Promise<Damage | undefined> {
  const hash = createHash('sha256')
  for (let start = 0; ; start += pieceBytes) {
    const last = start + pieceBytes >= size
    const wanted = last ? size - start : pieceBytes
    // The last piece requests one byte more than there should be.
    const range = size === 0 ? undefined : { start, end: start + wanted - (last ? 0 : 1) }
    const read = await withDeadline(signal, (limited) => readPiece(store, blob, range, wanted, hash, limited))
    if (read === undefined) return 'missing'
    await onPiece?.(read)
    if (read !== wanted) return 'size'
    if (last) return hash.digest().equals(sha256) ? undefined : 'sha256'
  }
}

/** @returns the number of bytes, at least `most + 1` if there are more than `most`; undefined when the blob is missing */
async function readPiece(
  store: ObjectStore,
  blob: string,
  range: ByteRange | undefined,
  most: number,
  hash: Hash,
  signal: AbortSignal,
): Promise<number | undefined> {
  let read = 0
  try {
    for await (const chunk of (await store.get(blob, range, signal)) as AsyncIterable<Buffer>) {
      hash.update(chunk)
      read += chunk.length
      if (read > most) break
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  return read
}

const PIECE_MS = 60_000

async function withDeadline<T>(signal: AbortSignal, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController()
  const late = setTimeout(() => abort.abort(new Error(`the store took longer than ${PIECE_MS / 1000} s`)), PIECE_MS)
  const stop = () => abort.abort(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  try {
    signal.throwIfAborted()
    return await fn(abort.signal)
  } finally {
    clearTimeout(late)
    signal.removeEventListener('abort', stop)
  }
}
