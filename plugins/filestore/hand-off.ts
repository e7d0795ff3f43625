import type { Answer, Exchange, ObjectStore } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import type { StoredFile } from './files.js'

/** Long enough to begin a download. */
const EXPIRES_SECONDS = 300

/**
 * Lets somebody else send the bytes, if the configuration says so and the store can: a proxy in front that reads the same
 * disk, or the store itself. It also takes the `Range` of the request.
 * @param disposition how the file is shown, `undefined`: as its type says
 * @returns the answer without them; undefined when they are to be sent from here
 */
export async function handOff(
  exchange: Exchange,
  store: ObjectStore,
  file: StoredFile,
  disposition: string | undefined,
  { by, prefix, minBytes }: FilestoreConfig['handOff'],
): Promise<Answer | undefined> {
  if (by === 'none' || file.size < minBytes) return undefined
  // What only we understand, we send.
  if (exchange.get('X-Service-Filestore-Range') !== '' || exchange.get('If-Range') !== '') return undefined
  const { contentType } = file
  if (by === 'redirect') {
    if (!store.signedUrl) return undefined
    const url = await store.signedUrl(file.blob, {
      expiresInSeconds: EXPIRES_SECONDS,
      contentType,
      ...(disposition === undefined ? {} : { disposition }),
    })
    exchange.set('Cache-Control', 'no-store')
    exchange.set('Location', url)
    return { kind: 'text', text: '', contentType, status: 307 }
  }
  if (!store.path) return undefined
  const path = prefix + store.path(file.blob)
  if (by === 'x-accel-redirect') exchange.set('X-Accel-Redirect', path.split('/').map(encodeURIComponent).join('/'))
  else exchange.set('X-Sendfile', path)
  return { kind: 'text', text: '', contentType }
}
