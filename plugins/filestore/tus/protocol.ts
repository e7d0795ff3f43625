import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type ServiceError, serviceError } from 'rowhouse'
import { readContentType } from '../content-type.js'
import { badRequest, missingHeader, TooLarge } from '../errors.js'
import { checkFileId } from '../file-id.js'

/** Version of the tus protocol. */
export const VERSION = '1.0.0'
export const EXTENSIONS = 'creation,creation-with-upload,expiration,checksum,termination'
export const CHECKSUMS: readonly string[] = ['sha1', 'sha256', 'md5']
export const OFFSET_TYPE = 'application/offset+octet-stream'

/** What the headers of a creation request say about the file. */
export interface UploadHeaders {
  /** Defaults to the id of the upload. */
  readonly fileId?: string
  readonly contentType: string
  /** Whether the upload may replace an existing file, like a PUT. */
  readonly replace: boolean
  /** Whether it becomes a pending upload instead of a file. */
  readonly pending: boolean
  /** In bytes. */
  readonly length: number
  /** The header as sent; empty without one. */
  readonly metadata: string
}

export interface Checksum {
  readonly algorithm: string
  readonly digest: Buffer
}

/** @throws ServiceError 400, 413 */
export function readUploadHeaders(headers: IncomingHttpHeaders, maxBytes: number): UploadHeaders {
  if (headers['upload-concat'] !== undefined) throw badRequest('Upload-Concat is not supported')
  if (headers['upload-defer-length'] !== undefined) {
    throw badRequest('Upload-Defer-Length is not supported: send the length in Upload-Length')
  }
  const length = readInteger(headers, 'Upload-Length')
  if (length > maxBytes) throw new TooLarge(maxBytes)
  const metadata = String(headers['upload-metadata'] ?? '')
  const { file_id: fileId, content_type: contentType, filetype, replace, pending } = readMetadata(metadata)
  return {
    length,
    metadata,
    // Browsers send an empty type when they do not know it.
    contentType: readContentType(contentType || filetype || 'application/octet-stream'),
    replace: isTrue('replace', replace),
    pending: isTrue('pending', pending),
    fileId: fileId === undefined ? undefined : checkFileId(fileId),
  }
}

/** Returns whether the `Upload-Metadata` of an upload say that it becomes a pending upload. */
export const isPending = (metadata: string): boolean => readMetadata(metadata).pending === 'true'

function isTrue(key: string, text = ''): boolean {
  if (!['', 'true', 'false'].includes(text)) throw badRequest(`Upload-Metadata: ${key} should be true or false`)
  return text === 'true'
}

/** @throws ServiceError 400 unless the header is a number of bytes */
export function readInteger(headers: IncomingHttpHeaders, name: string): number {
  const text = headers[name.toLowerCase()]
  if (text === undefined) throw missingHeader(name)
  // A very long number becomes Infinity, which exceeds every limit.
  if (!/^\d+$/.test(String(text))) throw badRequest(`${name} should be a number of bytes`)
  return Number(text)
}

/** @throws ServiceError 400 unless it is a supported algorithm and a digest of its length */
export function readChecksum(headers: IncomingHttpHeaders): Checksum | undefined {
  const header = headers['upload-checksum']
  if (header === undefined) return undefined
  const [, algorithm = '', text = ''] = /^(\S+) (\S+)$/.exec(String(header)) ?? []
  if (algorithm === '') throw badRequest('Upload-Checksum should be an algorithm and a digest in base64')
  if (!CHECKSUMS.includes(algorithm)) throw badRequest(`Upload-Checksum supports ${CHECKSUMS.join(', ')}`)
  const digest = decodeBase64(text)
  if (digest?.length !== createHash(algorithm).digest().length) {
    throw badRequest(`Upload-Checksum is not a ${algorithm} digest in base64`)
  }
  return { algorithm, digest }
}

export const mismatch = (): ServiceError =>
  serviceError('checksum_mismatch', 'the bytes do not match Upload-Checksum; send them again')

const KEYS = ['file_id', 'content_type', 'filetype', 'replace', 'pending'] as const

/**
 * Reads the values of `KEYS` from pairs of a key and base64, e.g. `file_id YS50eHQ=,replace dHJ1ZQ==`. Ignores other keys.
 * @throws ServiceError 400 when the header is malformed, or a value is not UTF-8
 */
function readMetadata(header: string): Partial<Record<(typeof KEYS)[number], string>> {
  const found = new Map<string, string>()
  for (const pair of header === '' ? [] : header.split(',')) {
    const [, key = '', text = ''] = /^ *([\x21-\x2b\x2d-\x7e]+)(?: +(\S*))? *$/.exec(pair) ?? []
    if (key === '') throw badRequest('Upload-Metadata should be pairs of a key and base64, separated by commas')
    if (found.has(key)) throw badRequest(`Upload-Metadata has ${key} twice`)
    found.set(key, text)
  }
  return Object.fromEntries(KEYS.flatMap((key) => (found.has(key) ? [[key, readText(key, found.get(key)!)]] : [])))
}

function readText(key: string, text: string): string {
  const bytes = decodeBase64(text)
  if (bytes === undefined) throw badRequest(`Upload-Metadata: ${key} is not base64`)
  if (!isUtf8(bytes)) throw badRequest(`Upload-Metadata: ${key} is not UTF-8`)
  return bytes.toString()
}

function decodeBase64(text: string): Buffer | undefined {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined
}
