import { pipeline, type Readable, Transform } from 'node:stream'
import type { Context } from 'koa'
import type { ByteRange, Host, ObjectStore } from 'rowhouse'
import { mayContinue, readCondition } from './conditions.js'
import type { FilestoreConfig } from './config.js'
import { isPassive } from './content-type.js'
import { broken, exhausted, otherVersion } from './errors.js'
import type { Files, StoredFile } from './files.js'
import { handOff } from './hand-off.js'
import { readRange } from './range.js'
import type { SmallBlobs } from './small-blobs.js'

/** What is read at once, and sent from memory. */
const PIECE_BYTES = 2 ** 20

export interface DownloadParts {
  readonly host: Host
  readonly files: Files
  readonly config: FilestoreConfig
  readonly small: SmallBlobs
}

/** Answers a GET or HEAD with a file, a part of it, or what its conditions say. */
export async function sendFile(ctx: Context, parts: DownloadParts, id: string): Promise<void> {
  const { files } = parts
  const file = await files.find(id)
  describe(ctx, file)
  const status = readCondition(ctx, file)
  if (status === 412) throw otherVersion()
  if (status === 304) {
    ctx.status = 304
    return
  }
  if (file.damaged) throw broken(new Error(`the bytes of blob ${file.blob} are damaged: see rowhouse fsck`))
  const head = ctx.method === 'HEAD'
  const header = head ? '' : ctx.get('X-Service-Filestore-Range') || ctx.get('Range')
  const partial = header !== '' && mayContinue(ctx, file)
  const range = partial ? readRange(header, file.size) : undefined
  if (partial && !range) return unsatisfiable(ctx, file.size)
  ctx.status = range ? 206 : 200
  if (range) ctx.set('Content-Range', `bytes ${range.start}-${range.end}/${file.size}`)
  ctx.set('Content-Length', String(range ? range.end - range.start + 1 : file.size))
  if (!head) await sendBytes(ctx, parts, id, file, range)
}

async function sendBytes(
  ctx: Context,
  parts: DownloadParts,
  id: string,
  file: StoredFile,
  range: ByteRange | undefined,
): Promise<void> {
  const { host, files, config, small } = parts
  const length = ctx.response.get('Content-Length')
  if (length === '0') {
    ctx.body = ''
    return
  }
  const store = await host.provider('storage', file.provider)
  if (await handOff(ctx, store, file, config.handOff)) return
  const kept = small.get(file.blob)
  if (kept) {
    ctx.body = range ? kept.subarray(range.start, range.end + 1) : kept
    return
  }
  try {
    ctx.body =
      canRead(store) && Number(length) <= PIECE_BYTES
        ? await readPiece(store, small, file, range, ctx.state.signal)
        : exactly(Number(length), await store.get(file.blob, range, ctx.state.signal))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      throw exhausted('the store cannot be read now', error) ?? error
    }
    // It may have been replaced in between; the same bytes missing twice are lost.
    const now = await files.find(id)
    if (now.blob === file.blob) throw broken(error)
    return sendFile(ctx, parts, id)
  }
  // A stream takes the length away.
  ctx.set('Content-Length', length)
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

/** What is said of a file, whatever part of it is sent. What a browser could run, it must not run as ours. */
function describe(ctx: Context, { contentType, etag, updatedAt }: StoredFile): void {
  ctx.set('Content-Type', contentType)
  ctx.set('ETag', etag)
  ctx.set('Last-Modified', updatedAt.toUTCString())
  ctx.set('Accept-Ranges', 'bytes')
  ctx.set('Cache-Control', 'private, no-cache')
  ctx.set('Content-Security-Policy', "default-src 'none'; sandbox")
  ctx.set('Cross-Origin-Resource-Policy', 'same-site')
  const { download } = ctx.query
  if (download !== undefined) ctx.attachment(String(Array.isArray(download) ? download[0] : download) || undefined)
  else if (!isPassive(contentType)) ctx.set('Content-Disposition', 'attachment')
  ctx.set('Content-Type', contentType)
}

function unsatisfiable(ctx: Context, size: number): void {
  for (const name of ['ETag', 'Last-Modified', 'Content-Disposition', 'Content-Type']) ctx.remove(name)
  ctx.set('Content-Range', `bytes */${size}`)
  ctx.set('Cache-Control', 'no-store')
  ctx.status = 400
  ctx.body = { code: 'bad_request', message: 'range not satisfiable' }
}
