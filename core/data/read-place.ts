import type { DatabaseConfig } from '../db/config.js'
import type { Standbys } from '../db/standbys.js'
import { type Position, parsePosition } from '../db/wal-position.js'
import { unexpectedPayload } from '../errors.js'
import type { Call } from './operations.js'

const READ_FROM = 'Rowhouse-Read-From'
const POSITION = 'Rowhouse-Position'

/**
 * Returns whether a read may run on a standby, and the position that it must see. Calls that did not come by HTTP go to
 * the primary, because the server's own work relies on what it wrote.
 * @throws ServiceError 400 unexpected-payload: a header has no such value
 */
export function readPlace(
  { readFrom }: DatabaseConfig,
  { headers }: Call,
): { readonly after?: Position | undefined } | undefined {
  if (!headers) return undefined
  const from = headers.get(READ_FROM) || readFrom
  if (from !== 'standby' && from !== 'primary') {
    throw unexpectedPayload(`the header ${READ_FROM} is "primary" or "standby"`, '$')
  }
  const text = headers.get(POSITION)
  const after = text === '' ? undefined : parsePosition(text)
  if (text !== '' && after === undefined) {
    throw unexpectedPayload(`the header ${POSITION} is a position as a write returned it, such as 0/16B3748`, '$')
  }
  return from === 'standby' ? { after } : undefined
}

/** A position that no standby reaches. */
const UNKNOWN = 'FFFFFFFF/FFFFFFFF'

/** Sets the header of an answer to a position after the write. */
export async function positionHeader(standbys: Standbys, headers: NonNullable<Call['headers']>): Promise<void> {
  headers.set(POSITION, await standbys.position().catch(() => UNKNOWN))
}
