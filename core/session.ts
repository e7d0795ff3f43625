import { type ServiceError, serviceError } from './errors.js'

/** The caller of a request. Created once from the headers; later code never reads headers to identify the caller. */
export interface Session {
  /** The effective role. `admin` may do everything. */
  readonly role: string
  /**
   * Session variables by lower-case name, e.g. `x-service-user-id`, with unchanged string values. Only permissions use
   * them.
   */
  readonly variables: ReadonlyMap<string, string>
  /** The roles among which the caller may choose, if its credentials list them. */
  readonly roles?: readonly string[]
  /** Whether permissions with `backend_only` apply: the caller has proved a secret and asked for them. */
  readonly backend?: boolean
  /** Whether an admin acts as this role. Such a caller may see why the role is refused. */
  readonly acting?: true
  /**
   * Key for limits on the server's work: the user in its role, otherwise the address. Absent for the role admin and for
   * the server itself, which are not limited.
   */
  readonly caller?: string
  /** When the caller's credentials expire, in milliseconds since 1970, if that is known. */
  readonly expiresAt?: number
  /**
   * Keyed hash of the admin secret on which the session depends. The core refuses a session of an authenticator whose
   * secret is no longer configured.
   */
  readonly secretKey?: string
  /** Authentication method. A `cookie` caller is subject to the CSRF rule. */
  readonly via: 'admin-secret' | 'gateway' | 'token' | 'cookie' | 'webhook' | 'anonymous' | 'internal'
}

/** Returns whether the caller may do everything. Only this function compares the role. */
export const isAdmin = ({ role }: Pick<Session, 'role'>): boolean => role === 'admin'

/**
 * Returns the role under which a session's permissions are found, and its plans cached: a backend request has a role of
 * its own, which cannot be the name of another.
 */
export const permissionRole = (session: Pick<Session, 'role' | 'backend'>): string =>
  session.backend && !isAdmin(session) ? session.role + BACKEND : session.role
/** Returns the name of a role that `permissionRole` returned. */
export const roleName = (role: string): string => (role.endsWith(BACKEND) ? role.slice(0, -BACKEND.length) : role)
const BACKEND = ':backend'

/** @throws ServiceError 400 access-denied unless the caller is an admin */
export function assertAdmin(session: Pick<Session, 'role'>): void {
  if (!isAdmin(session)) throw serviceError('access-denied', 'only the role admin may do this')
}

/** Returns the details of an error that the caller may see: an admin who acts as a role sees only why it is refused. */
export const internalFor = (error: ServiceError, session: Pick<Session, 'role' | 'acting'>): unknown =>
  isAdmin(session) ? error.internal : session.acting && error.refusal

/** Session of the server's own calls: plugins that act on behalf of no caller. */
export const INTERNAL: Session = { role: 'admin', variables: new Map(), via: 'internal' }

export const ROLE_NAME = /^[A-Za-z0-9_.-]{1,64}$/
export const VARIABLE_NAME = /^x-service-[a-z0-9_-]+$/
export const USER_ID = 'x-service-user-id'

/** Rule for user ids, for messages after the name of the header or claim. */
export const USER_ID_RULE = 'should be 1 to 255 characters without control characters'

/** Returns whether a text is a user id: whatever the identity provider sends, within `USER_ID_RULE`. */
export const isUserId = (text: string): boolean => /^[^\p{Cc}\p{Cs}]{1,255}$/u.test(text)

/** Returns whether a text is a decimal integer of PostgreSQL, by default a bigint. */
export function isInteger(text: string, bits: 16 | 32 | 64 = 64): boolean {
  return /^-?\d{1,19}$/.test(text) && BigInt.asIntN(bits, BigInt(text)) === BigInt(text)
}

/** The part of the section `database` of the configuration that limits what a caller holds in answers, in bytes. */
export interface AnswerLimits {
  readonly maxAnswerBytes: number
  readonly maxAnonymousAnswerBytes: number
}

/** Returns the most bytes that a caller may hold in answers. */
export const answerLimit = (
  { maxAnswerBytes, maxAnonymousAnswerBytes }: AnswerLimits,
  { role }: Pick<Session, 'role'>,
): number => (role === 'anonymous' ? Math.min(maxAnswerBytes, maxAnonymousAnswerBytes) : maxAnswerBytes)
