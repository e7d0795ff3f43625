import type { Call, Data, Transaction } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import { limitsOf } from './config.js'
import { quotaExceeded } from './errors.js'
import type { Files, NewFile } from './files.js'

/** Room for the bytes of one upload. */
export interface Room {
  readonly maxBytes: number
  /** It is more than may come: say so when they are here. */
  readonly estimated: boolean
}

/**
 * Reserves a place for bytes that are about to be written, and room for them where the user has a quota. Uploads of one
 * user reserve one after the other, so that together they stay within it.
 * @param size that is announced; undefined: whatever comes
 * @throws ServiceError 400 when the file must not exist and does, 413 when there is no room
 */
export async function reserve(
  { data, files, config }: { readonly data: Data; readonly files: Files; readonly config: FilestoreConfig },
  place: { readonly blob: string; readonly provider: string },
  file: NewFile,
  size: number | undefined,
  call: Call,
): Promise<Room> {
  const { blob, provider } = place
  const { maxBytes, userBytes } = limitsOf(file.role, config)
  if (userBytes === undefined) {
    await files.reserve(blob, provider, file)
    return { maxBytes, estimated: false }
  }
  return data.transaction(call, async ({ transaction }) => {
    const free = await requireRoom(files, file, size ?? 0, userBytes, transaction)
    const room = size ?? Math.min(maxBytes, free)
    await files.reserve(blob, provider, file, room, transaction)
    return { maxBytes: Math.min(maxBytes, room), estimated: size === undefined }
  })
}

/**
 * @returns bytes that the user may have beside those that it has
 * @throws ServiceError 413 when `size` is more
 */
export async function requireRoom(
  files: Files,
  file: Pick<NewFile, 'id' | 'userId' | 'role' | 'upload'>,
  size: number,
  userBytes: number,
  transaction: Transaction,
): Promise<number> {
  const used = await files.used(file, transaction)
  const free = Math.max(0, userBytes - used)
  if (size > free) throw quotaExceeded(file.role, used, userBytes)
  return free
}
