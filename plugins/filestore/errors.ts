import { constants } from 'node:os'
import { ServiceError, serviceError, type Session } from 'rowhouse'

export const badRequest = (message: string): ServiceError => serviceError('bad-request', message)
export const missingHeader = (name: string): ServiceError => badRequest(`missing header: ${name}`)
export const accessDenied = (message: string): ServiceError =>
  serviceError('access-denied', message, '$', { status: 403 })
export const noPermission = (role: string): ServiceError => accessDenied(`no permission for role ${role}`)
export const notFound = (id: string): ServiceError => serviceError('not-found', `file not found : ${id}`)
export const preconditionFailed = (): ServiceError =>
  serviceError('precondition_failed', 'the version of the file does not meet the conditions of the request')
export const fileTooLarge = (id: string, maxBytes: number): ServiceError =>
  serviceError('payload-too-large', `the file "${id}" is larger than ${maxBytes} bytes`)

/** 400: a file that must not exist exists. */
export class AlreadyExists extends ServiceError {
  constructor(readonly id: string) {
    super(400, 'bad-request', `file already exists : ${id}`)
  }
}

/** 413: an upload has more bytes than it may have. */
export class TooLarge extends ServiceError {
  constructor(readonly maxBytes: number) {
    const settings = 'plugins.filestore.maxBytes, limits'
    super(413, 'payload-too-large', `the upload is larger than ${maxBytes} bytes (${settings})`)
  }
}

/** 413: the files of a user would exceed the quota. */
export const quotaExceeded = (role: string, used: number, userBytes: number): ServiceError =>
  serviceError(
    'quota_exceeded',
    `your files use ${used} of ${userBytes} bytes, which leaves too little room for this one (plugins.filestore.limits.${role}.userBytes)`,
  )
/** 503: the lease of an upload expired, and the collector has taken its blob. */
export const uploadLost = (): ServiceError =>
  serviceError('upload_lost', 'the upload took too long; send it again', '$', { retryAfter: 1 })
/** 409: another request with the same `Idempotency-Key` ended while this one was received. */
export const justStored = (): ServiceError =>
  serviceError('idempotency-in-progress', 'the first request with this Idempotency-Key has just ended', '$', {
    retryAfter: 1,
  })
/** 500. The cause is only logged. */
export const internalError = (cause: unknown): ServiceError =>
  serviceError('fatal_internal_error', 'internal server error', '$', { cause })

const UNAVAILABLE = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE', 'ENFILE'])
/** Codes of a folder that is missing, or belongs to somebody else. */
const UNWRITABLE = new Set(['EACCES', 'EPERM', 'ENOENT', 'ENOTDIR'])
/** Node.js does not name the code of an exhausted disk quota. */
const QUOTA = -constants.errno.EDQUOT

/** Returns a 503 if a store is full, read-only, or has too many open files; undefined for any other error. */
export function storageUnavailable(message: string, cause: unknown): ServiceError | undefined {
  const { code = '', errno } = cause as NodeJS.ErrnoException
  if (!UNAVAILABLE.has(code) && errno !== QUOTA) return undefined
  return serviceError('storage_unavailable', message, '$', { cause, retryAfter: 30 })
}

/** Converts an error of a store that is given a file into one for the client. Creating the store may have failed, too. */
export function storeFailure(error: unknown): unknown {
  if (error instanceof ServiceError) return error
  const { code, cause } = error as NodeJS.ErrnoException
  const reason = code === undefined && cause instanceof Error ? cause : error
  const message = 'the store cannot accept files at the moment'
  const { code: own = '' } = reason as NodeJS.ErrnoException
  if (UNWRITABLE.has(own)) return serviceError('storage_unavailable', message, '$', { cause: error, retryAfter: 30 })
  return storageUnavailable(message, reason) ?? error
}

/**
 * `{code, message}`; an unexpected error is `fatal_internal_error`. An admin who acts as a role also gets `internal` if a
 * rule refuses the role.
 */
export const errorBody = ({ status, code, message, refusal }: ServiceError, session: Session | undefined): object =>
  status === 500
    ? { code: 'fatal_internal_error', message: 'internal server error' }
    : { code: code.replaceAll('-', '_'), message, internal: session?.acting && refusal }
