import { buffer } from 'node:stream/consumers'
import { ServiceError } from 'rowhouse'
import { bytesOf, mustBeReplaced, refuseDamaged, type StoredParts } from './bytes.js'
import { broken, longerThan } from './errors.js'
import { checkFileId } from './file-id.js'

/** What this plugin does for others. */
export interface Filestore {
  /**
   * A whole file, in memory. Whoever calls says who may have it: neither permissions, nor rules, nor the hook are asked.
   * @param maxBytes a longer file is not read
   * @throws ServiceError 400 `bad_request`: this is no id; 404 `not_found`; 413 `payload_too_large`; 500
   *   `fatal_internal_error`: its bytes are lost or damaged; 503 `storage_unavailable`. Else the reason of `signal`
   */
  read(id: string, maxBytes: number, signal: AbortSignal): Promise<FileContent>
}

export interface FileContent {
  /** As it was said when the file was stored, e.g. `text/plain; charset=utf-8`. */
  readonly contentType: string
  /** Of the caller alone: it may be changed. */
  readonly content: Buffer
}

declare module 'rowhouse' {
  interface Services {
    filestore: Filestore
  }
}

export function filestoreService(parts: StoredParts): Filestore {
  return {
    async read(id, maxBytes, signal) {
      return read(parts, checkFileId(id), maxBytes, signal)
    },
  }
}

async function read(parts: StoredParts, id: string, maxBytes: number, signal: AbortSignal): Promise<FileContent> {
  const file = await parts.files.find(id)
  const { contentType, size, provider } = file
  if (size > maxBytes) throw longerThan(id, maxBytes)
  refuseDamaged(file)
  if (size === 0) return { contentType, content: Buffer.alloc(0) }
  const store = await parts.host.provider('storage', provider)
  let bytes
  try {
    bytes = await bytesOf(parts, store, file, undefined, { signal })
  } catch (error) {
    await mustBeReplaced(parts, id, file, error)
    return read(parts, id, maxBytes, signal)
  }
  if (Buffer.isBuffer(bytes)) return { contentType, content: Buffer.from(bytes) }
  const content = await buffer(bytes).catch((error: unknown) => {
    signal.throwIfAborted()
    throw error instanceof ServiceError ? error : broken(error)
  })
  return { contentType, content }
}
