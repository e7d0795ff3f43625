import { createHash, randomBytes } from 'node:crypto'
import type pg from 'pg'
import { ADMIN_SECRET } from '../../kit/server.js'

const BYTES = 200_000
/** Where parts end; the second has a checksum. */
const ENDS = [70_000, 140_000, BYTES]
const HEADERS = { 'X-Service-Admin-Secret': ADMIN_SECRET, 'X-Service-User-Id': '1', 'Tus-Resumable': '1.0.0' }
const ID = 'in-parts'
const GIVE_UP_MS = 10_000

/** An upload in parts. Wherever it was broken off, it goes on where the server says that it is. */
export class Parts {
  private upload: { readonly path: string; readonly bytes: Buffer; acknowledged: number } | undefined
  private refused: number | undefined

  /** All of one, or of what is left of it; ends early when the server is gone. */
  async play(url: string): Promise<void> {
    const bytes = randomBytes(BYTES)
    const metadata = `file_id ${base64(ID)},replace ${base64('true')}`
    const created = await send(url, '/v1/upload', 'POST', { 'Upload-Length': `${BYTES}`, 'Upload-Metadata': metadata })
    const path = created.headers.get('location')
    if (path === null) {
      this.refused = created.status
      return
    }
    this.upload = { path, bytes, acknowledged: 0 }
    for (const end of ENDS) if (!(await this.append(url, end, end === ENDS[1]))) return
  }

  /** @returns what is not as it must be, of what was begun and acknowledged */
  async check(url: string): Promise<string[]> {
    const { upload, refused } = this
    this.upload = undefined
    this.refused = undefined
    if (refused !== undefined) return [`${ID}: cannot begin, status ${refused}`]
    if (!upload) return []
    const head = await send(url, upload.path, 'HEAD', {})
    const offset = Number(head.headers.get('upload-offset') ?? NaN)
    if (head.status !== 200) return [`${ID}: HEAD has status ${head.status}`]
    if (!(offset >= upload.acknowledged && offset <= BYTES)) {
      return [`${ID}: is at ${offset} after ${upload.acknowledged} were acknowledged`]
    }
    this.upload = { ...upload, acknowledged: offset }
    if (offset < BYTES && !(await this.append(url, BYTES, false))) return [`${ID}: does not go on at ${offset}`]
    this.upload = undefined
    const { status, headers } = await send(url, `/v1/file/${ID}`, 'HEAD', {})
    const etag = `"${createHash('sha256').update(upload.bytes).digest('hex')}"`
    if (status !== 200) return [`${ID}: complete, and the file has status ${status}`]
    return headers.get('etag') === etag ? [] : [`${ID}: went on at ${offset} and became other bytes`]
  }

  private async append(url: string, end: number, checked: boolean): Promise<boolean> {
    const { path, bytes, acknowledged } = this.upload!
    const part = bytes.subarray(acknowledged, end)
    const checksum = `sha1 ${createHash('sha1').update(part).digest('base64')}`
    const headers = {
      'Upload-Offset': String(acknowledged),
      'Content-Type': 'application/offset+octet-stream',
      ...(checked ? { 'Upload-Checksum': checksum } : {}),
    }
    const { status } = await send(url, path, 'PATCH', headers, part)
    if (status !== 204) return false
    this.upload!.acknowledged = end
    return true
  }
}

/** Every upload has ended: it has no pieces any more. */
export async function checkPieces(database: pg.Client): Promise<string[]> {
  const { rows } = await database.query('select blob_id from svc_catalog.svc_upload_piece')
  return rows.length === 0 ? [] : [`${ID}: ${rows.length} pieces are left of it`]
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')

async function send(url: string, path: string, method: string, headers: object, body?: Buffer): Promise<Response> {
  const response = await fetch(url + path, {
    method,
    headers: { ...HEADERS, ...headers },
    ...(body ? { body } : {}),
    signal: AbortSignal.timeout(GIVE_UP_MS),
  })
  await response.arrayBuffer()
  return response
}
