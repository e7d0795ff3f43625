import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isUtf8 } from 'node:buffer'
import { ServiceError } from 'rowhouse'
import { readContentType } from '../content-type.js'
import { badRequest, missingHeader } from '../errors.js'
import { checkFileId } from '../file-id.js'
import { tooLarge } from '../meter.js'

/** Of the protocol (tus.io, resumable upload protocol 1.0.0). */
export const VERSION = '1.0.0'
export const EXTENSIONS = 'creation,creation-with-upload,expiration,checksum,termination'
export const CHECKSUMS: readonly string[] = ['sha1', 'sha256', 'md5']
export const OFFSET_TYPE = 'application/offset+octet-stream'

/** What a client says of the file that it is going to upload. */
export interface Announced {
  /** Undefined: the server makes one up. */
  readonly fileId?: string
  readonly contentType: string
  /** Whether it may be there already, as for a PUT. */
  readonly replace: boolean
  /** In bytes. */
  readonly length: number
  /** The header as it came; empty without one. */
  readonly metadata: string
}

export interface Checksum {
  readonly algorithm: string
  readonly digest: Buffer
}

/** @throws ServiceError 400, 413 */
export function readAnnounced(headers: IncomingHttpHeaders, maxBytes: number): Announced {
  if (headers['upload-concat'] !== undefined) throw badRequest('Upload-Concat is not supported')
  if (headers['upload-defer-length'] !== undefined) {
    throw badRequest('Upload-Defer-Length is not supported: the length must be known, in Upload-Length')
  }
  const length = readInteger(headers, 'Upload-Length')
  if (length > maxBytes) throw tooLarge(maxBytes)
  const metadata = headers['upload-metadata'] ?? ''
  const { file_id: fileId, content_type: contentType, filetype, replace } = readMetadata(String(metadata))
  return {
    length,
    metadata: String(metadata),
    // A browser says nothing of files whose type it does not know.
    contentType: readContentType(contentType || filetype || 'application/octet-stream'),
    replace: readFlag(replace),
    ...(fileId === undefined ? {} : { fileId: checkFileId(fileId) }),
  }
}

/** @throws ServiceError 400 unless a header is a number of bytes */
export function readInteger(headers: IncomingHttpHeaders, name: string): number {
  const text = headers[name.toLowerCase()]
  if (text === undefined) throw missingHeader(name)
  // Digits without end become infinite, which is more than allowed.
  if (!/^\d+$/.test(String(text))) throw badRequest(`${name} should be a number of bytes`)
  return Number(text)
}

/** @throws ServiceError 400 for one that cannot be compared */
export function readChecksum(headers: IncomingHttpHeaders): Checksum | undefined {
  const header = headers['upload-checksum']
  if (header === undefined) return undefined
  const [, algorithm = '', text = ''] = /^(\S+) (\S+)$/.exec(String(header)) ?? []
  if (algorithm === '') throw badRequest('Upload-Checksum should be an algorithm and base64')
  if (!CHECKSUMS.includes(algorithm)) throw badRequest(`Upload-Checksum knows ${CHECKSUMS.join(', ')}`)
  const digest = fromBase64(text)
  if (digest?.length !== createHash(algorithm).digest().length) {
    throw badRequest(`Upload-Checksum is no ${algorithm} in base64`)
  }
  return { algorithm, digest }
}

export const mismatch = (): ServiceError =>
  new ServiceError(460, 'checksum_mismatch', 'the bytes do not have the checksum of Upload-Checksum; send them again')

/**
 * Pairs of a name and base64, e.g. `file_id YS50eHQ=,replace dHJ1ZQ==`. Names that are not ours are for the client only.
 * @throws ServiceError 400 for what has another form, and a name of ours whose value is not UTF-8
 */
function readMetadata(header: string): Partial<Record<Key, string>> {
  const found = new Map<string, string>()
  for (const pair of header === '' ? [] : header.split(',')) {
    const [, name = '', text = ''] = /^ *([\x21-\x2b\x2d-\x7e]+)(?: +(\S*))? *$/.exec(pair) ?? []
    if (name === '') throw badRequest('Upload-Metadata should be names and base64, separated by commas')
    if (found.has(name)) throw badRequest(`Upload-Metadata has ${name} twice`)
    found.set(name, text)
  }
  return Object.fromEntries(KEYS.flatMap((key) => (found.has(key) ? [[key, readText(key, found.get(key)!)]] : [])))
}

const KEYS = ['file_id', 'content_type', 'filetype', 'replace'] as const
type Key = (typeof KEYS)[number]

function readText(name: string, text: string): string {
  const bytes = fromBase64(text)
  if (bytes === undefined) throw badRequest(`Upload-Metadata: ${name} is not base64`)
  if (!isUtf8(bytes)) throw badRequest(`Upload-Metadata: ${name} is not UTF-8`)
  return bytes.toString()
}

function readFlag(text = ''): boolean {
  if (!['', 'true', 'false'].includes(text)) throw badRequest('Upload-Metadata: replace should be true or false')
  return text === 'true'
}

function fromBase64(text: string): Buffer | undefined {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined
}
