import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ADMIN_SECRET } from './server.js'

const PIECE = 2 ** 20
const HEADERS = { 'X-Service-Admin-Secret': ADMIN_SECRET, 'X-Service-User-Id': '1' }
const LIMIT_MS = 1_800_000

/** Sends random bytes as a file, a piece after the other. @returns their hash, as an ETag is written */
export async function sendLarge(url: string, id: string, size: number): Promise<string> {
  const hash = createHash('sha256')
  const headers = { ...HEADERS, 'Content-Type': 'a/b', 'Content-Length': size }
  const req = ask(url, id, 'PUT', headers)
  const answered = once(req, 'response') as Promise<[IncomingMessage]>
  await pipeline(Readable.from(pieces(size, hash)), req)
  const [res] = await answered
  const text = (await res.setEncoding('utf8').toArray()).join('')
  if (res.statusCode !== 200) throw new Error(`${res.statusCode}: ${text}`)
  return `"${hash.digest('hex')}"`
}

/** Reads a file and keeps none of it. @param each called at each piece */
export async function readLarge(url: string, id: string, each = (): void => {}) {
  const hash = createHash('sha256')
  const req = ask(url, id, 'GET', HEADERS)
  req.end()
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  let size = 0
  for await (const chunk of res as AsyncIterable<Buffer>) {
    size += chunk.length
    hash.update(chunk)
    each()
  }
  return { status: res.statusCode, size, etag: res.headers.etag, hash: `"${hash.digest('hex')}"` }
}

const ask = (url: string, id: string, method: string, headers: Record<string, string | number>) =>
  request(`${url}/v1/file/${id}`, { method, headers, signal: AbortSignal.timeout(LIMIT_MS) })

/** Of no two files, and no two pieces, the same. */
function* pieces(size: number, hash: { update(bytes: Buffer): unknown }) {
  const some = randomBytes(2 * PIECE)
  for (let sent = 0, n = 0; sent < size; n++) {
    const start = n % PIECE
    const piece = Buffer.from(some.subarray(start, start + Math.min(PIECE, size - sent)))
    if (piece.length >= 4) piece.writeUInt32LE(n)
    hash.update(piece)
    sent += piece.length
    yield piece
  }
}
