import { type ServiceError, serviceError } from 'rowhouse'

const MISSING = new Set(['NoSuchKey', 'NotFound', 'NoSuchUpload'])

/** Returns whether the store reports a missing object or upload. A missing bucket is a configuration error instead. */
export const isMissing = (error: unknown): boolean => error instanceof Error && MISSING.has(error.name)

export const noSuchKey = (key: string): Error =>
  Object.assign(new Error(`key "${key}" does not exist`), { code: 'ENOENT' })

/**
 * Returns a 503 with the store's or the network's error for the log.
 * @param what e.g. `put, bucket "files"`
 */
export function unavailable(what: string, error: unknown): ServiceError {
  return serviceError('storage_unavailable', 'the file store is not available', '$', {
    cause: new Error(`${what}: ${describe(error)}`),
    retryAfter: 30,
  })
}

/** Returns the loggable parts of an SDK error, which also contains parts of the signed request. */
function describe(error: unknown): string {
  const { name, message, code, $metadata } = error as SdkError
  const status = $metadata?.httpStatusCode
  // The response to HEAD has no message.
  const words = name === 'Unknown' ? [] : [code ?? name, message]
  return [status && `HTTP ${status}`, ...words, status && HINTS[status]].filter(Boolean).join(', ')
}

const HINTS: Readonly<Record<number, string>> = {
  301: 'check region and endpoint',
  403: 'check accessKeyId, secretAccessKey, the permissions of the key and the clock of this machine',
  404: 'check bucket and endpoint',
}

interface SdkError {
  readonly name: string
  readonly message?: string
  readonly code?: string
  readonly $metadata?: { readonly httpStatusCode?: number }
}
