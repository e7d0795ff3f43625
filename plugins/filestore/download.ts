import { Readable } from 'node:stream'
import type { Answer, Exchange } from 'rowhouse'
import { mayContinue, readCondition } from './conditions.js'
import { bytesOf, mustBeReplaced, refuseDamaged, type StoredParts } from './bytes.js'
import type { FilestoreConfig } from './config.js'
import { dispositionOf } from './disposition.js'
import { otherVersion } from './errors.js'
import type { StoredFile } from './files.js'
import { handOff } from './hand-off.js'
import { readRange } from './range.js'

export interface DownloadParts extends StoredParts {
  readonly config: FilestoreConfig
}

/** Answers a GET or HEAD with a file, a part of it, or what its conditions say. */
export async function sendFile(exchange: Exchange, parts: DownloadParts, id: string): Promise<Answer> {
  const { host, config } = parts
  const file = await parts.files.find(id)
  const { contentType, size } = file
  const disposition = dispositionOf(exchange.querystring, contentType)
  const condition = readCondition(exchange, file)
  if (condition === 412) throw otherVersion()
  if (condition === 304) {
    describe(exchange, file, disposition)
    return { kind: 'text', text: '', status: 304 }
  }
  refuseDamaged(file)
  const head = exchange.method === 'HEAD'
  const header = head ? '' : exchange.get('X-Service-Filestore-Range') || exchange.get('Range')
  const partial = header !== '' && mayContinue(exchange, file)
  const range = partial ? readRange(header, size) : undefined
  if (partial && !range) return unsatisfiable(exchange, size)
  describe(exchange, file, disposition)
  if (head) return { kind: 'stream', chunks: Readable.from([]), contentType, length: size }
  if (size === 0) return { kind: 'text', text: '', contentType }
  const store = await host.provider('storage', file.provider)
  const handedOff = await handOff(exchange, store, file, disposition, config.handOff)
  if (handedOff) return handedOff
  let bytes
  try {
    bytes = await bytesOf(parts, store, file, range, exchange.state)
  } catch (error) {
    await mustBeReplaced(parts, id, file, error)
    return sendFile(exchange, parts, id)
  }
  if (range) exchange.set('Content-Range', `bytes ${range.start}-${range.end}/${size}`)
  const status = range ? 206 : 200
  if (Buffer.isBuffer(bytes)) return { kind: 'bytes', bytes, contentType, status }
  return { kind: 'stream', chunks: bytes, contentType, status, length: range ? range.end - range.start + 1 : size }
}

/** What is said of a file, whatever part of it is sent. What a browser could run, it must not run as ours. */
function describe(exchange: Exchange, { etag, updatedAt }: StoredFile, disposition: string | undefined): void {
  exchange.set('ETag', etag)
  exchange.set('Last-Modified', updatedAt.toUTCString())
  exchange.set('Accept-Ranges', 'bytes')
  exchange.set('Cache-Control', 'private, no-cache')
  exchange.set('Content-Security-Policy', "default-src 'none'; sandbox")
  exchange.set('Cross-Origin-Resource-Policy', 'same-site')
  if (disposition !== undefined) exchange.set('Content-Disposition', disposition)
}

function unsatisfiable(exchange: Exchange, size: number): Answer {
  exchange.set('Content-Range', `bytes */${size}`)
  return { kind: 'text', text: JSON.stringify({ code: 'bad_request', message: 'range not satisfiable' }), status: 400 }
}
