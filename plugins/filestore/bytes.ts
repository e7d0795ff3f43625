import { pipeline, type Readable, Transform } from 'node:stream'
import type { ByteRange, Call, Host, ObjectStore } from 'rowhouse'
import { broken, exhausted } from './errors.js'
import type { Files, StoredFile } from './files.js'
import type { SmallBlobs } from './small-blobs.js'

/** What is read at once, and kept in memory for as long. */
const PIECE_BYTES = 2 ** 20

export interface StoredParts {
  readonly host: Host
  readonly files: Files
  readonly small: SmallBlobs
}

/** @throws ServiceError 500 when the bytes are known to be others than were written */
export function refuseDamaged({ blob, damaged }: StoredFile): void {
  if (damaged) throw broken(new Error(`the bytes of blob ${blob} are damaged: see rowhouse fsck`))
}

/**
 * The bytes of a file that has some, or a part of them: a stream of them when they are many. Nobody may change a buffer.
 * @throws what the store throws, for `mustBeReplaced`
 */
export async function bytesOf(
  { small }: StoredParts,
  store: ObjectStore,
  file: StoredFile,
  range: ByteRange | undefined,
  call: Pick<Call, 'signal'>,
): Promise<Buffer | Readable> {
  const kept = small.get(file.blob)
  if (kept) return range ? kept.subarray(range.start, range.end + 1) : kept
  const length = range ? range.end - range.start + 1 : file.size
  return canRead(store) && length <= PIECE_BYTES
    ? readPiece(store, small, file, range, call.signal)
    : exactly(length, await store.get(file.blob, range, call.signal))
}

/**
 * Bytes that are not there: the file may have been replaced since it was found. The same bytes missing twice are lost.
 * @throws ServiceError unless it has others now, or is gone
 */
export async function mustBeReplaced(
  { files }: StoredParts,
  id: string,
  file: StoredFile,
  error: unknown,
): Promise<void> {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
    throw exhausted('the store cannot be read now', error) ?? error
  }
  const now = await files.find(id)
  if (now.blob === file.blob) throw broken(error)
}

type Reading = ObjectStore & Required<Pick<ObjectStore, 'read'>>
const canRead = (store: ObjectStore): store is Reading => store.read !== undefined

/**
 * Of all of a file one byte more is asked for, to see that there is none.
 * @throws ServiceError 500 when they are not what was written, as far as that is seen
 */
async function readPiece(
  store: Reading,
  small: SmallBlobs,
  { blob, size, etag }: StoredFile,
  range: ByteRange | undefined,
  signal: AbortSignal,
): Promise<Buffer> {
  const wanted = range ? range.end - range.start + 1 : size
  const bytes = await store.read(blob, range ?? { start: 0, end: size }, signal)
  if (bytes.length > wanted) throw broken(new Error(`blob ${blob} has more than its ${size} bytes`))
  if (bytes.length < wanted) throw broken(new Error(`${wanted - bytes.length} bytes of blob ${blob} are missing`))
  if (!range && !small.keep(blob, bytes, etag)) throw broken(new Error(`the bytes of blob ${blob} are damaged`))
  return bytes
}

/** Bytes that are missing, or more than there should be, break the answer off: the length was promised. */
function exactly(length: number, bytes: Readable): Readable {
  let left = length
  const count = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      left -= chunk.length
      done(left < 0 ? new Error('the stored bytes are more than the record says') : null, chunk)
    },
    flush: (done) => done(left === 0 ? null : new Error(`${left} of the stored bytes are missing`)),
  })
  return pipeline(bytes, count, () => {})
}
