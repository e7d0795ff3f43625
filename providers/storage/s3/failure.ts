import { type ServiceError, serviceError } from 'rowhouse'

const MISSING = new Set(['NoSuchKey', 'NotFound', 'NoSuchUpload'])

/** Whether the store says that there is no such object or upload; a bucket that is not there is a mistake. */
export const isMissing = (error: unknown): boolean => error instanceof Error && MISSING.has(error.name)

export const noSuchKey = (key: string): Error =>
  Object.assign(new Error(`there is no key "${key}"`), { code: 'ENOENT' })

/**
 * 503, and for the log what the store or the way to it said.
 * @param what e.g. `put, bucket "files"`
 */
export function unavailable(what: string, error: unknown): ServiceError {
  return serviceError('storage_unavailable', 'the store of the files cannot be used now', '$', {
    cause: new Error(`${what}: ${told(error)}`),
    retryAfter: 30,
  })
}

/** Of an error of the SDK only what is safe to log: it holds parts of the signed request, too. */
function told(error: unknown): string {
  const { name, message, code, $metadata } = error as SdkError
  const status = $metadata?.httpStatusCode
  // An answer to HEAD has no words.
  const words = name === 'Unknown' ? [] : [code ?? name, message]
  return [status && `HTTP ${status}`, ...words, status && HINTS[status]].filter(Boolean).join(', ')
}

const HINTS: Readonly<Record<number, string>> = {
  301: 'check region and endpoint',
  403: 'check accessKeyId, secretAccessKey, the rights of the key and the clock of this machine',
  404: 'check bucket and endpoint',
}

interface SdkError {
  readonly name: string
  readonly message?: string
  readonly code?: string
  readonly $metadata?: { readonly httpStatusCode?: number }
}
