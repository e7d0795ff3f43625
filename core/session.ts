import { serviceError } from './errors.js'

/** Who asks. Made once per request from headers; nothing later looks at a header to learn who the caller is. */
export interface Session {
  /** The effective role. `admin` may do everything. */
  readonly role: string
  /**
   * Session variables by lower-case name, e.g. `x-service-user-id`. Values are strings as they came.
   * They are usable in permissions only.
   */
  readonly variables: ReadonlyMap<string, string>
  /**
   * Whom limits on the server's work count this under: the user in its role, else the address. Absent for the role admin
   * and for the server itself, who are not limited.
   */
  readonly caller?: string
  /** How the caller proved who it is. A `cookie` caller falls under the CSRF rule. */
  readonly via: 'admin-secret' | 'gateway' | 'token' | 'cookie' | 'webhook' | 'anonymous' | 'internal'
}

/** Whether a caller may do everything. No other place compares the role. */
export const isAdmin = ({ role }: Pick<Session, 'role'>): boolean => role === 'admin'

/** @throws ServiceError 400 access-denied unless the caller is an admin */
export function assertAdmin(session: Pick<Session, 'role'>): void {
  if (!isAdmin(session)) throw serviceError('access-denied', 'restricted access : admin only')
}

/** The server's own calls: plugins that act on nobody's behalf. */
export const INTERNAL: Session = { role: 'admin', variables: new Map(), via: 'internal' }

export const ROLE_NAME = /^[A-Za-z0-9_.-]{1,64}$/
export const VARIABLE_NAME = /^x-service-[a-z0-9-]+$/
export const USER_ID = 'x-service-user-id'

/** Decimal text of a PostgreSQL bigint, as the user id has to be. */
export function isUserId(text: string): boolean {
  return /^-?\d{1,19}$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text)
}
