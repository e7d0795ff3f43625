import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Data } from 'rowhouse'
import { accessDenied } from './errors.js'

/** What a signed address says after its path. */
export interface Signed {
  /** Unix time in seconds. */
  readonly expires: number
  /** The name that a browser saves it under, as in `?download=`. */
  readonly download: string | undefined
}

/** How long the secret is taken to be as it was. */
const FRESH_MS = 60_000

/** Signs addresses of files that need no caller until they expire. All servers on a database have the same secret. */
export class SignedUrls {
  private readonly data: Data
  private known: { readonly secret: Buffer; readonly at: number } | undefined

  constructor(data: Data) {
    this.data = data
  }

  /** @returns what goes after the path of the file, with its `?` */
  async query(id: string, signed: Signed): Promise<string> {
    const query = new URLSearchParams({ expires: String(signed.expires) })
    if (signed.download !== undefined) query.set('download', signed.download)
    query.set('signature', signatureOf(await this.secret(), id, signed))
    return `?${query.toString()}`
  }

  /**
   * @param query of the request
   * @throws ServiceError 403 unless it is one that `query` made for that file, and in time
   */
  async verify(id: string, query: NodeJS.Dict<string | string[]>): Promise<void> {
    const { expires, download, signature } = query
    const refused = accessDenied('the signature is wrong, or has expired')
    if (typeof expires !== 'string' || typeof signature !== 'string' || Array.isArray(download)) throw refused
    if (!/^\d{1,12}$/.test(expires) || Number(expires) * 1000 <= Date.now()) throw refused
    const right = Buffer.from(signatureOf(await this.secret(), id, { expires: Number(expires), download }))
    const given = Buffer.from(signature)
    if (given.length !== right.length || !timingSafeEqual(given, right)) throw refused
  }

  private async secret(): Promise<Buffer> {
    if (!this.known || performance.now() - this.known.at > FRESH_MS) {
      const [row] = await this.data.query<{ secret: Buffer }>('select secret from svc_catalog.svc_file_secret')
      if (!row) throw new Error('svc_catalog.svc_file_secret is empty')
      this.known = { secret: row.secret, at: performance.now() }
    }
    return this.known.secret
  }
}

const signatureOf = (secret: Buffer, id: string, { expires, download }: Signed): string =>
  createHmac('sha256', secret)
    .update(JSON.stringify([id, expires, download ?? null]))
    .digest('base64url')
