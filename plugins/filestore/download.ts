import type { Context } from 'koa'
import type { ByteRange } from 'rowhouse'
import { mayContinue, readCondition } from './conditions.js'
import { bytesOf, mustBeReplaced, refuseDamaged, type StoredParts } from './bytes.js'
import type { FilestoreConfig } from './config.js'
import { isPassive } from './content-type.js'
import { otherVersion } from './errors.js'
import type { StoredFile } from './files.js'
import { handOff } from './hand-off.js'
import { readRange } from './range.js'

export interface DownloadParts extends StoredParts {
  readonly config: FilestoreConfig
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
  refuseDamaged(file)
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
  const { host, config } = parts
  const length = ctx.response.get('Content-Length')
  if (length === '0') {
    ctx.body = ''
    return
  }
  const store = await host.provider('storage', file.provider)
  if (await handOff(ctx, store, file, config.handOff)) return
  try {
    ctx.body = await bytesOf(parts, store, file, range, ctx.state.signal)
  } catch (error) {
    await mustBeReplaced(parts, id, file, error)
    return sendFile(ctx, parts, id)
  }
  // A stream takes the length away.
  ctx.set('Content-Length', length)
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
