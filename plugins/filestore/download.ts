import { Readable } from 'node:stream'
import type { Answer, Exchange, ObjectStore } from 'rowhouse'
import { assertIntact, assertReplaced, readBytes } from './bytes.js'
import type { Components, Storage } from './components.js'
import { mayResume, readCondition } from './conditions.js'
import type { FilestoreConfig } from './config.js'
import { dispositionOf } from './content-type.js'
import { preconditionFailed } from './errors.js'
import type { StoredFile } from './files.js'
import { hasOtherUnit, readRange } from './range.js'

/**
 * Answers a GET or HEAD with a file, a range of it, or the status that the request's conditions require.
 * @param isSigned whether the URL is signed, so that pages of all origins may embed the file
 */
export async function sendFile(
  exchange: Exchange,
  components: Storage & Pick<Components, 'config'>,
  id: string,
  isSigned: boolean,
): Promise<Answer> {
  const { host, config, files } = components
  const file = await files.find(id)
  const { contentType, size } = file
  const disposition = dispositionOf(exchange.querystring, contentType)
  const policy = isSigned || isOfAllowedOrigin(exchange) ? 'cross-origin' : 'same-site'
  const condition = readCondition(exchange, file)
  if (condition === 412) throw preconditionFailed()
  if (condition === 304) {
    setHeaders(exchange, file, disposition, policy)
    return { kind: 'text', text: '', status: 304 }
  }
  assertIntact(file)
  const head = exchange.method === 'HEAD'
  const header = head ? '' : exchange.get('X-Service-Filestore-Range') || exchange.get('Range')
  const partial = header !== '' && !hasOtherUnit(header) && mayResume(exchange, file)
  const range = partial ? readRange(header, size) : undefined
  if (partial && !range) return unsatisfiable(exchange, size)
  setHeaders(exchange, file, disposition, policy)
  if (head) return { kind: 'stream', chunks: Readable.from([]), contentType, length: size }
  if (size === 0) return { kind: 'text', text: '', contentType }
  const store = await host.provider('storage', file.provider)
  const handedOff = await handOff(exchange, store, file, disposition, config.handOff)
  if (handedOff) return handedOff
  let bytes
  try {
    bytes = await readBytes(components, store, file, range, exchange.state)
  } catch (error) {
    await assertReplaced(files, id, file, error)
    return sendFile(exchange, components, id, isSigned)
  }
  if (range) exchange.set('Content-Range', `bytes ${range.start}-${range.end}/${size}`)
  const status = range ? 206 : 200
  if (Buffer.isBuffer(bytes)) return { kind: 'bytes', bytes, contentType, status }
  return { kind: 'stream', chunks: bytes, contentType, status, length: range ? range.end - range.start + 1 : size }
}

/** Sets the common headers. Active content must not run with the rights of this origin. */
function setHeaders(
  exchange: Exchange,
  { etag, updatedAt }: StoredFile,
  disposition: string | undefined,
  policy: 'cross-origin' | 'same-site',
): void {
  exchange.set('ETag', etag)
  exchange.set('Last-Modified', updatedAt.toUTCString())
  exchange.set('Accept-Ranges', 'bytes')
  exchange.set('Cache-Control', 'private, no-cache')
  exchange.set('Content-Security-Policy', "default-src 'none'; sandbox")
  exchange.set('Cross-Origin-Resource-Policy', policy)
  if (disposition !== undefined) exchange.set('Content-Disposition', disposition)
}

/**
 * Returns whether a page of an origin in `http.cors.origins` sends the request. For an image, a video or a sound, a browser
 * sends no `Origin` but a `Referer`. A page can leave that out, but cannot change its origin.
 */
function isOfAllowedOrigin(exchange: Exchange): boolean {
  const { origins } = exchange.state
  if (origins.size === 0) return false
  const referer = exchange.get('Referer')
  return origins.has(exchange.get('Origin')) || (URL.canParse(referer) && origins.has(new URL(referer).origin))
}

function unsatisfiable(exchange: Exchange, size: number): Answer {
  exchange.set('Content-Range', `bytes */${size}`)
  return { kind: 'text', text: JSON.stringify({ code: 'bad_request', message: 'range not satisfiable' }), status: 400 }
}

/** Lifetime of a URL of the object store. A download that has begun may take longer. */
const EXPIRES_SECONDS = 300

/**
 * Hands a download off to a proxy that reads the same disk, or to the object store, as `handOff` configures. They also handle
 * `Range`.
 * @returns the answer without the bytes; undefined when this server sends them
 */
async function handOff(
  exchange: Exchange,
  store: ObjectStore,
  { blob, contentType, size }: StoredFile,
  disposition: string | undefined,
  { mode, prefix, minBytes }: FilestoreConfig['handOff'],
): Promise<Answer | undefined> {
  if (mode === 'none' || size < minBytes) return undefined
  // Only this server supports these headers.
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
