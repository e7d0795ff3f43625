import { isAdmin, isInteger, isUserId, type Session, USER_ID, USER_ID_RULE } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import { badRequest, missingHeader } from './errors.js'

export interface Caller {
  readonly role: string
  /** The owner of what the caller stores, as text. Null: none, for an admin without a user id. */
  readonly userId: string | null
}

/** Returns the key under which unfinished and pending uploads are counted: for anonymous callers, their IP address. */
export const countedAs = (session: Session, { userId, role }: Caller): string =>
  session.caller ?? (userId === null ? `role ${role}` : `user ${userId} ${role}`)

/**
 * @throws ServiceError 400 unless the session has a user id as the setting demands. With the setting `text`, an admin
 *   needs none.
 */
export function callerOf(session: Session, rule: FilestoreConfig['userId']): Caller {
  const { role, variables } = session
  const userId = variables.get(USER_ID)
  if (userId === undefined) {
    if (rule === 'text' && isAdmin(session)) return { role, userId: null }
    throw missingHeader('X-Service-User-Id')
  }
  if (rule === 'integer' && !isInteger(userId)) throw badRequest('X-Service-User-Id should be an integer')
  if (!isUserId(userId)) throw badRequest(`X-Service-User-Id ${USER_ID_RULE}`)
  return { role, userId }
}
