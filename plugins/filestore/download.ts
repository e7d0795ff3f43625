import { pipeline, type Readable, Transform } from 'node:stream'
import type { Context } from 'koa'
import type { ByteRange, Host } from 'rowhouse'
import { ServiceError } from 'rowhouse'
import { mayContinue, readCondition } from './conditions.js'
import { isPassive } from './content-type.js'
import { broken } from './errors.js'
import type { Files, StoredFile } from './files.js'
import { readRange } from './range.js'

/** Answers a GET or HEAD with a file, a part of it, or what its conditions say. */
export async function sendFile(ctx: Context, host: Host, files: Files, id: string): Promise<void> {
  const file = await files.find(id)
  describe(ctx, file)
  const status = readCondition(ctx, file)
  if (status === 412) throw new ServiceError(412, 'precondition_failed', 'the file is another version')
  if (status === 304) {
    ctx.status = 304
    return
  }
  const head = ctx.method === 'HEAD'
  const header = head ? '' : ctx.get('X-Service-Filestore-Range') || ctx.get('Range')
  const partial = header !== '' && mayContinue(ctx, file)
  const range = partial ? readRange(header, file.size) : undefined
  if (partial && !range) return unsatisfiable(ctx, file.size)
  ctx.status = range ? 206 : 200
  if (range) ctx.set('Content-Range', `bytes ${range.start}-${range.end}/${file.size}`)
  ctx.set('Content-Length', String(range ? range.end - range.start + 1 : file.size))
  if (!head) await sendBytes(ctx, host, files, id, file, range)
}

async function sendBytes(
  ctx: Context,
  host: Host,
  files: Files,
  id: string,
  file: StoredFile,
  range: ByteRange | undefined,
): Promise<void> {
  const length = ctx.response.get('Content-Length')
  if (length === '0') {
    ctx.body = ''
    return
  }
  const store = await host.provider('storage', file.provider)
  try {
    ctx.body = exactly(Number(length), await store.get(file.blob, range, ctx.state.signal))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    // It may have been replaced in between; the same bytes missing twice are lost.
    const now = await files.find(id)
    if (now.blob === file.blob) throw broken(error)
    return sendFile(ctx, host, files, id)
  }
  // A stream takes the length away.
  ctx.set('Content-Length', length)
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
