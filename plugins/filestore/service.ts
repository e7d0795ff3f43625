import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { INTERNAL, ServiceError } from 'rowhouse'
import { assertIntact, assertReplaced, readBytes } from './bytes.js'
import type { Components, Storage } from './components.js'
import { fileTooLarge, internalError } from './errors.js'
import { readContentType } from './content-type.js'
import { checkFileId } from './file-id.js'
import { Meter } from './meter.js'

/** The service for other plugins. */
export interface Filestore {
  /**
   * Reads a whole file into memory. Does not check permissions, rules or the hook; the caller must.
   * @param maxBytes maximum size of the file
   * @throws ServiceError 400 `bad_request`: invalid id; 404 `not_found`; 413 `payload_too_large`; 500
   *   `fatal_internal_error`: its bytes are missing or damaged; 503 `storage_unavailable`. The reason of `signal`
   */
  read(id: string, maxBytes: number, signal: AbortSignal): Promise<FileContent>
  /**
   * Stores files, all or none, and replaces those that exist. Does not check permissions, rules or the hook; the caller
   * must. Their owner is the user 0, or none with the setting `userId: text`.
   * @throws ServiceError 400 `bad_request`: invalid id or type; 413 `payload_too_large`; 503 `storage_unavailable`. The
   *   reason of `signal`
   */
  write(files: readonly NewContent[], signal: AbortSignal): Promise<void>
}

export interface FileContent {
  /** As sent with the upload, e.g. `text/plain; charset=utf-8`. */
  readonly contentType: string
  /** A copy, which the caller may modify. */
  readonly content: Buffer
}

interface NewContent extends FileContent {
  readonly id: string
}

declare module 'rowhouse' {
  interface Services {
    filestore: Filestore
  }
}

export const filestoreService = (components: Components): Filestore => ({
  read: async (id, maxBytes, signal) => read(components, checkFileId(id), maxBytes, signal),
  write: async (files, signal) => write(components, files, signal),
})

async function read(storage: Storage, id: string, maxBytes: number, signal: AbortSignal): Promise<FileContent> {
  const { host, files } = storage
  const file = await files.find(id)
  const { contentType, size, provider } = file
  if (size > maxBytes) throw fileTooLarge(id, maxBytes)
  assertIntact(file)
  if (size === 0) return { contentType, content: Buffer.alloc(0) }
  const store = await host.provider('storage', provider)
  let bytes
  try {
    bytes = await readBytes(storage, store, file, undefined, { signal })
  } catch (error) {
    await assertReplaced(files, id, file, error)
    return read(storage, id, maxBytes, signal)
  }
  if (Buffer.isBuffer(bytes)) return { contentType, content: Buffer.from(bytes) }
  const content = await buffer(bytes).catch((error: unknown) => {
    signal.throwIfAborted()
    throw error instanceof ServiceError ? error : internalError(error)
  })
  return { contentType, content }
}

async function write(
  { uploads, config }: Components,
  contents: readonly NewContent[],
  signal: AbortSignal,
): Promise<void> {
  const userId = config.userId === 'text' ? null : '0'
  const files = contents.map(({ id, contentType, content }) => ({
    file: {
      id: checkFileId(id),
      create: false,
      contentType: readContentType(contentType),
      userId,
      role: INTERNAL.role,
    },
    size: content.length,
    open: (maxBytes: number) => new Meter(Readable.from([content]), maxBytes),
  }))
  await uploads.store(files, { session: INTERNAL, signal, format: 'json' })
}
