import { pipeline, type Readable, Transform } from 'node:stream'
import type { ByteRange, Call, ObjectStore } from 'rowhouse'
import type { BlobCache } from './blob-cache.js'
import type { Storage } from './components.js'
import { internalError, storageUnavailable } from './errors.js'
import type { Files, StoredFile } from './files.js'

/** Maximum number of bytes to read at once into memory. */
const BUFFERED_BYTES = 2 ** 20

/** @throws ServiceError 500 when the bytes are known to differ from what was written */
export function assertIntact({ blob, damaged }: StoredFile): void {
  if (damaged) throw internalError(new Error(`the bytes of blob ${blob} are damaged: see rowhouse fsck`))
}

/**
 * Returns the bytes of a non-empty file or a range of it, as a stream if there are many. Callers must not modify the buffer.
 * @throws the error of the store, for `assertReplaced`
 */
export async function readBytes(
  { cache }: Pick<Storage, 'cache'>,
  store: ObjectStore,
  file: StoredFile,
  range: ByteRange | undefined,
  call: Pick<Call, 'signal'>,
): Promise<Buffer | Readable> {
  const cached = cache.get(file.blob)
  if (cached) return range ? cached.subarray(range.start, range.end + 1) : cached
  const length = range ? range.end - range.start + 1 : file.size
  return canRead(store) && length <= BUFFERED_BYTES
    ? readBuffer(store, cache, file, range, call.signal)
    : withLength(length, await store.get(file.blob, range, call.signal))
}

/**
 * Handles an error of `readBytes`: missing bytes are normal if the file has been replaced since the lookup.
 * @throws ServiceError unless the file now has another blob
 */
export async function assertReplaced(files: Files, id: string, file: StoredFile, error: unknown): Promise<void> {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
    throw storageUnavailable('the store cannot be read at the moment', error) ?? error
  }
  const now = await files.find(id)
  if (now.blob === file.blob) throw internalError(error)
}

type BufferedStore = ObjectStore & Required<Pick<ObjectStore, 'read'>>
const canRead = (store: ObjectStore): store is BufferedStore => store.read !== undefined

/**
 * Requests one byte more than the file has, to detect a longer blob.
 * @throws ServiceError 500 when the length is wrong, or, for a whole file that fits the cache, the hash
 */
async function readBuffer(
  store: BufferedStore,
  cache: BlobCache,
  { blob, size, etag }: StoredFile,
  range: ByteRange | undefined,
  signal: AbortSignal,
): Promise<Buffer> {
  const wanted = range ? range.end - range.start + 1 : size
  const bytes = await store.read(blob, range ?? { start: 0, end: size }, signal)
  if (bytes.length > wanted) throw internalError(new Error(`blob ${blob} is longer than its ${size} bytes`))
  if (bytes.length < wanted)
    throw internalError(new Error(`${wanted - bytes.length} bytes of blob ${blob} are missing`))
  if (!range && !cache.add(blob, bytes, etag)) throw internalError(new Error(`the bytes of blob ${blob} are damaged`))
  return bytes
}

/** Fails the stream if its length differs from the one announced to the client. */
export function withLength(length: number, bytes: Readable): Readable {
  let left = length
  const count = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      left -= chunk.length
      done(left < 0 ? new Error('the store has more bytes than the record says') : null, chunk)
    },
    flush: (done) => done(left === 0 ? null : new Error(`${left} of the stored bytes are missing`)),
  })
  return pipeline(bytes, count, () => {})
}
