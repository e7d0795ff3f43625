import { constants } from 'node:os'
import { ServiceError } from 'rowhouse'

/** 400: the request is not as it should be. */
export const badRequest = (message: string): ServiceError => new ServiceError(400, 'bad_request', message)
export const missingHeader = (name: string): ServiceError => badRequest(`missing header: ${name}`)
export const accessDenied = (message: string): ServiceError => new ServiceError(403, 'access_denied', message)
export const noPermission = (role: string): ServiceError => accessDenied(`no permission for role ${role}`)
export const otherVersion = (): ServiceError =>
  new ServiceError(412, 'precondition_failed', 'the file is another version')
export const longerThan = (id: string, maxBytes: number): ServiceError =>
  new ServiceError(413, 'payload_too_large', `the file has more than ${maxBytes} bytes : ${id}`)
export const notFound = (id: string): ServiceError => new ServiceError(404, 'not_found', `file not found : ${id}`)

/** 400: a file must not exist, and does. */
export class AlreadyExists extends ServiceError {
  readonly id: string

  constructor(id: string) {
    super(400, 'bad_request', `file already exists : ${id}`)
    this.id = id
  }
}

/** 413: the files of a user would have more bytes than they may. */
export const quotaExceeded = (role: string, used: number, userBytes: number): ServiceError =>
  new ServiceError(
    413,
    'quota_exceeded',
    `your files have ${used} of ${userBytes} bytes, and there is no room for this one (plugins.filestore.limits.${role}.userBytes)`,
  )
/** 503: whoever takes silent uploads for dead has done so. */
export const uploadLost = (): ServiceError =>
  new ServiceError(503, 'upload_lost', 'the upload took too long; send it again', '$', { retryAfter: 1 })
/** 500, and in the log what happened. */
export const broken = (cause: unknown): ServiceError =>
  new ServiceError(500, 'fatal_internal_error', 'internal server error', '$', { cause })

const EXHAUSTED = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE', 'ENFILE'])
/** Node has no name for a quota that is used up. */
const QUOTA = -constants.errno.EDQUOT

/** 503 when an error of a store is none of its bytes: it has no room, or no more files may be open. */
export function exhausted(message: string, cause: unknown): ServiceError | undefined {
  const { code = '', errno } = cause as NodeJS.ErrnoException
  if (!EXHAUSTED.has(code) && errno !== QUOTA) return undefined
  return new ServiceError(503, 'storage_unavailable', message, '$', { cause, retryAfter: 30 })
}

/** `{code, message}`; what nobody foresaw is `fatal_internal_error`. */
export const errorBody = ({ status, code, message }: ServiceError): object =>
  status === 500
    ? { code: 'fatal_internal_error', message: 'internal server error' }
    : { code: code.replaceAll('-', '_'), message }
