import { serviceError } from '../errors.js'
import { ROLE_NAME, USER_ID } from '../session.js'
import type { Session } from '../session.js'
import type { RequestHeaders } from './headers.js'

/** A session whose role is also the variable `x-service-role`. */
export function makeSession(role: string, variables: ReadonlyMap<string, string>, via: Session['via']): Session {
  return Object.freeze({ role, variables: new Map(variables).set('x-service-role', role), via })
}

/** Of whoever has proven nothing. */
export const anonymous = (): Session => makeSession('anonymous', new Map([[USER_ID, '0']]), 'anonymous')

/**
 * The role that the caller wants to act in, if it says so.
 * @throws ServiceError 400 parse-failed: not a role name
 */
export function requestedRole(headers: RequestHeaders): string | undefined {
  const role = headers.service.get('x-service-role')
  if (role === undefined || ROLE_NAME.test(role)) return role
  throw serviceError('parse-failed', 'the value of "x-service-role" is not a role name')
}

/**
 * The requested role if the caller holds it.
 * @param otherwise the role when none is requested
 * @throws ServiceError 403 access-denied: a role that is not among the caller's
 */
export function chosenRole(requested: string | undefined, held: readonly string[], otherwise: string): string {
  const role = requested ?? otherwise
  if (held.includes(role)) return role
  throw serviceError('access-denied', `role "${role}" is not held by this caller`, '$', { status: 403 })
}

/** Text that PostgreSQL can hold. */
export const isVariableValue = (text: string) => !/[\p{Surrogate}\0]/u.test(text)

/**
 * The token of `Authorization: Bearer <token>` (RFC 6750 2.1).
 * @throws ServiceError 400 malformed-authorization-header: there is an Authorization header of another form
 */
export function bearerToken(headers: RequestHeaders): string | undefined {
  const header = headers.get('authorization')
  if (header === undefined) return undefined
  const token = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(header)?.[1]
  if (token !== undefined) return token
  throw serviceError('malformed-authorization-header', 'the Authorization header should be "Bearer" and a token')
}

export const invalidToken = (cause?: unknown) =>
  serviceError('invalid-token', 'invalid authorization token', '$', { cause })
export const wrongSecret = (message: string) => serviceError('access-denied', message, '$', { status: 401 })

/** 401 of a caller that sent nothing to be wrong about, so that it does not count as a guess. */
export const missingCredentials = (message: string) => serviceError('missing-credentials', message)
