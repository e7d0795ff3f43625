import type { Json } from 'rowhouse'
import { isObject } from 'rowhouse/plan'
import type { FilestoreConfig } from './config.js'
import { badRequest } from './errors.js'
import { checkFileId } from './file-id.js'

/** The body of a request for a signed URL. */
export interface SignedUrlRequest {
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
      `expires_in is a whole number of seconds from 1 to ${maxSeconds} (plugins.filestore.signedUrls.maxSeconds)`,
    )
  }
  if (download !== undefined && typeof download !== 'string') throw badRequest('download is the name of a file')
  return { file_id: checkFileId(id), expires_in: seconds, download }
}
