import { serviceError } from '../errors.js'
import { ROLE_NAME, USER_ID } from '../session.js'
import type { Session } from '../session.js'
import type { RequestHeaders } from './headers.js'

/** Creates a session whose role is also the variable `x-service-role`. */
export function makeSession(role: string, variables: ReadonlyMap<string, string>, via: Session['via']): Session {
  return Object.freeze({ role, variables: new Map(variables).set('x-service-role', role), via })
}

/** Creates the session of an unauthenticated caller. */
export const anonymous = (): Session => makeSession('anonymous', new Map([[USER_ID, '0']]), 'anonymous')

/**
 * Returns the role that the request asks for, if any.
 * @throws ServiceError 400 parse-failed: not a role name
 */
export function requestedRole(headers: RequestHeaders): string | undefined {
  const role = headers.service.get('x-service-role')
  if (role === undefined || ROLE_NAME.test(role)) return role
  throw serviceError('parse-failed', 'the value of "x-service-role" is not a role name')
}

/**
 * Returns the requested role if the caller holds it.
 * @param otherwise the role when none is requested
 * @throws ServiceError 403 access-denied: the caller does not hold the role
 */
export function chosenRole(requested: string | undefined, held: readonly string[], otherwise: string): string {
  const role = requested ?? otherwise
  if (held.includes(role)) return role
  throw serviceError('access-denied', `role "${role}" is not held by this caller`, '$', { status: 403 })
}

/** Returns whether PostgreSQL can store the text. */
export const isVariableValue = (text: string) => !/[\p{Surrogate}\0]/u.test(text)

/**
 * Returns the token of `Authorization: Bearer <token>` (RFC 6750 2.1).
 * @throws ServiceError 400 malformed-authorization-header: the header has another form
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

/** Returns the 401 for a request without credentials. It does not count as a failed attempt. */
export const missingCredentials = (message: string) => serviceError('missing-credentials', message)
