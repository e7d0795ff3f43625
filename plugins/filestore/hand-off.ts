import type { Context } from 'koa'
import type { ObjectStore } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import type { StoredFile } from './files.js'

/** Long enough to begin a download. */
const EXPIRES_SECONDS = 300

/**
 * Lets somebody else send the bytes, if the configuration says so and the store can: a proxy in front that reads the same
 * disk, or the store itself. It also takes the `Range` of the request.
 * @returns whether it did
 */
export async function handOff(
  ctx: Context,
  store: ObjectStore,
  file: StoredFile,
  { by, prefix, minBytes }: FilestoreConfig['handOff'],
): Promise<boolean> {
  // What only we understand, we send.
  const ours = ctx.get('X-Service-Filestore-Range') !== '' || ctx.get('If-Range') !== ''
  if (by === 'none' || ours || file.size < minBytes) return false
  if (by === 'redirect') {
    if (!store.signedUrl) return false
    const disposition = ctx.response.get('Content-Disposition')
    const url = await store.signedUrl(file.blob, {
      expiresInSeconds: EXPIRES_SECONDS,
      contentType: file.contentType,
      ...(disposition === '' ? {} : { disposition }),
    })
    ctx.remove('Content-Length')
    ctx.remove('Content-Range')
    ctx.set('Cache-Control', 'no-store')
    ctx.set('Location', url)
    ctx.status = 307
    ctx.body = ''
    return true
  }
  if (!store.path) return false
  const path = prefix + store.path(file.blob)
  ctx.remove('Content-Length')
  ctx.remove('Content-Range')
  ctx.status = 200
  if (by === 'x-accel-redirect') ctx.set('X-Accel-Redirect', path.split('/').map(encodeURIComponent).join('/'))
  else ctx.set('X-Sendfile', path)
  ctx.body = ''
  return true
}
