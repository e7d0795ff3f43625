import type { Call, Data, ServiceError, Transaction } from 'rowhouse'
import { type FilestoreConfig, limitsOf } from './config.js'
import { quotaExceeded } from './errors.js'
import type { Files, NewFile, Owned } from './files.js'

/** The space that one upload may use. */
interface Reservation {
  readonly maxBytes: number
  /** Whether more than the real size may be reserved. Then call `setSize` when the size is known. */
  readonly estimated: boolean
  /** The error for more than `maxBytes`, if the quota leaves less than a file may have. */
  readonly quotaExceeded?: ServiceError | undefined
}

/**
 * Reserves a blob before its bytes are written, and its size if the user has a quota. Reservations of one user are
 * serialized, so that together they stay within the quota.
 * @param size as announced; undefined if unknown
 * @throws ServiceError 400 when the file must not exist but does, 413 when the quota is exceeded
 */
export async function reserve(
  { data, files, config }: { readonly data: Data; readonly files: Files; readonly config: FilestoreConfig },
  { blob, provider }: { readonly blob: string; readonly provider: string },
  file: NewFile,
  size: number | undefined,
  call: Call,
): Promise<Reservation> {
  const { maxBytes, userBytes } = limitsOf(file.role, config)
  const { userId } = file
  if (userBytes === undefined || userId === null) {
    await files.reserve(blob, provider, file)
    return { maxBytes, estimated: false }
  }
  return data.transaction(call, async ({ transaction }) => {
    const used = await checkQuota(files, { ...file, userId }, size ?? 0, userBytes, transaction)
    const free = Math.max(0, userBytes - used)
    const reserved = size ?? Math.min(maxBytes, free)
    await files.reserve(blob, provider, file, reserved, transaction)
    return {
      maxBytes: Math.min(maxBytes, reserved),
      estimated: size === undefined,
      quotaExceeded: reserved < maxBytes ? quotaExceeded(file.role, used, userBytes) : undefined,
    }
  })
}

/**
 * @returns how many bytes of the quota the user's files use
 * @throws ServiceError 413 when `size` is more
 */
export async function checkQuota(
  files: Files,
  file: Owned & Pick<NewFile, 'role'>,
  size: number,
  userBytes: number,
  transaction: Transaction,
): Promise<number> {
  const used = await files.usedBytes(file, transaction)
  if (size > Math.max(0, userBytes - used)) throw quotaExceeded(file.role, used, userBytes)
  return used
}
