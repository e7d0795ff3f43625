import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Data, Json } from 'rowhouse'
import { isObject } from 'rowhouse/plan'
import type { FilestoreConfig } from './config.js'
import { accessDenied, badRequest } from './errors.js'
import { checkFileId } from './file-id.js'

/** The signed part of a URL. */
interface Signed {
  /** Unix time in seconds. */
  readonly expires: number
  /** The name under which a browser saves the file, as in `?download=`. */
  readonly download: string | undefined
}

/** How long the secret is cached. */
const CACHE_MS = 60_000

/** Signs and verifies URLs of files. All servers on a database share the secret. */
export class SignedUrls {
  private cached: { readonly secret: Buffer; readonly at: number } | undefined

  constructor(private readonly data: Data) {}

  /** Returns the query string with its `?`. */
  async query(id: string, signed: Signed): Promise<string> {
    const query = new URLSearchParams({ expires: String(signed.expires) })
    if (signed.download !== undefined) query.set('download', signed.download)
    query.set('signature', signatureOf(await this.secret(), id, signed))
    return `?${query.toString()}`
  }

  /**
   * @param query of the request
   * @throws ServiceError 403 unless the signature is valid for that file and has not expired
   */
  async verify(id: string, query: NodeJS.Dict<string | string[]>): Promise<void> {
    const { expires, download, signature } = query
    const refused = accessDenied('the signature is wrong, or has expired')
    if (typeof expires !== 'string' || typeof signature !== 'string' || Array.isArray(download)) throw refused
    if (!/^\d{1,12}$/.test(expires) || Number(expires) * 1000 <= Date.now()) throw refused
    const expected = Buffer.from(signatureOf(await this.secret(), id, { expires: Number(expires), download }))
    const given = Buffer.from(signature)
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw refused
  }

  private async secret(): Promise<Buffer> {
    if (!this.cached || performance.now() - this.cached.at > CACHE_MS) {
      const [row] = await this.data.query<{ secret: Buffer }>('select secret from svc_catalog.svc_file_secret')
      if (!row) throw new Error('svc_catalog.svc_file_secret is empty')
      this.cached = { secret: row.secret, at: performance.now() }
    }
    return this.cached.secret
  }
}

const signatureOf = (secret: Buffer, id: string, { expires, download }: Signed): string =>
  createHmac('sha256', secret)
    .update(JSON.stringify([id, expires, download ?? null]))
    .digest('base64url')

/** The body of `POST /v1/file-url`. */
interface SignedUrlRequest {
  readonly file_id: string
  /** Seconds. */
  readonly expires_in: number
  readonly download: string | undefined
}

const KEYS = new Set(['file_id', 'expires_in', 'download'])
const DEFAULT_SECONDS = 900

/** @throws ServiceError 400 */
export function readSignedUrlRequest(
  body: Json,
  { signedUrls: { maxSeconds } }: Pick<FilestoreConfig, 'signedUrls'>,
): SignedUrlRequest {
  if (!isObject(body)) throw badRequest('expecting an object with the keys file_id, expires_in, download')
  for (const key in body) if (!KEYS.has(key)) throw badRequest(`unexpected key "${key}"`)
  const { file_id: id, expires_in: seconds = Math.min(DEFAULT_SECONDS, maxSeconds), download } = body
  if (typeof id !== 'string') throw badRequest('missing parameter: file_id')
  if (typeof seconds !== 'number' || !Number.isInteger(seconds) || seconds < 1 || seconds > maxSeconds) {
    throw badRequest(
      `expires_in should be a whole number of seconds from 1 to ${maxSeconds} (plugins.filestore.signedUrls.maxSeconds)`,
    )
  }
  if (download !== undefined && typeof download !== 'string') throw badRequest('download should be a string')
  return { file_id: checkFileId(id), expires_in: seconds, download }
}
