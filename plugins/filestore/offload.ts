import type { Answer, Exchange, ObjectStore } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import type { StoredFile } from './files.js'

/** Long enough to begin a download. */
const EXPIRES_SECONDS = 300

/**
 * Leaves a download to a proxy that reads the same disk, or to the object store, as `handOff` configures. They also handle
 * the `Range` of the request.
 * @returns the answer without the bytes; undefined when this server has to send them
 */
export async function offload(
  exchange: Exchange,
  store: ObjectStore,
  { blob, contentType, size }: StoredFile,
  disposition: string | undefined,
  { mode, prefix, minBytes }: FilestoreConfig['handOff'],
): Promise<Answer | undefined> {
  if (mode === 'none' || size < minBytes) return undefined
  // Only this server understands these two.
  if (exchange.get('X-Service-Filestore-Range') !== '' || exchange.get('If-Range') !== '') return undefined
  if (mode === 'redirect') {
    const url = await store.signedUrl?.(blob, { expiresInSeconds: EXPIRES_SECONDS, contentType, disposition })
    if (url === undefined) return undefined
    exchange.set('Cache-Control', 'no-store')
    exchange.set('Location', url)
    return { kind: 'text', text: '', contentType, status: 307 }
  }
  if (!store.path) return undefined
  const path = prefix + store.path(blob)
  if (mode === 'x-accel-redirect') exchange.set('X-Accel-Redirect', path.split('/').map(encodeURIComponent).join('/'))
  else exchange.set('X-Sendfile', path)
  return { kind: 'text', text: '', contentType }
}
