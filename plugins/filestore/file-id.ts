import { badRequest } from './errors.js'

const MAX_BYTES = 1024

/**
 * Reads the id from a path such as `/v1/file/report%2F2024.pdf`. An id is never used as a path on a disk.
 * @throws ServiceError 400 when it is not valid
 */
export function readFileId(path: string, prefix: string): string {
  const encoded = path.slice(prefix.length)
  if (encoded.includes('/')) throw badRequest('a / in a file_id is written %2F')
  return checkFileId(decode(encoded))
}

/** @throws ServiceError 400 unless it is 1 to 1,024 bytes of well-formed text without control characters */
export function checkFileId(id: string): string {
  const bytes = Buffer.byteLength(id)
  if (bytes === 0) throw badRequest('missing parameter: file_id')
  if (bytes > MAX_BYTES) throw badRequest(`a file_id has at most ${MAX_BYTES} bytes`)
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f-\u009f]/.test(id)) throw badRequest('a file_id has no control characters')
  return id
}

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/

/** Returns whether a text is a UUID in lower case, like the keys of blobs and the ids of uploads. */
export const isUuid = (text: string): boolean => UUID.test(text)

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw badRequest('the file_id is not well-formed')
  }
}
