import { isInteger, type Session, USER_ID } from 'rowhouse'
import { badRequest, missingHeader } from './errors.js'

export interface Caller {
  readonly role: string
  /** A bigint as decimal digits. */
  readonly userId: string
}

/** @throws ServiceError 400 unless the session has a user id that is an integer */
export function callerOf({ role, variables }: Session): Caller {
  const userId = variables.get(USER_ID)
  if (userId === undefined) throw missingHeader('X-Service-User-Id')
  if (!isInteger(userId)) throw badRequest('X-Service-User-Id should be an integer')
  return { role, userId }
}
