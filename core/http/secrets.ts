import { createHmac, hash, timingSafeEqual } from 'node:crypto'
import { serviceError } from '../errors.js'
import { isAdmin, type Session, USER_ID } from '../session.js'
import { ALLOWED_ROLES, isRole, rolesIn } from './claims.js'
import {
  chosenRole,
  INSTRUCTIONS,
  makeSession,
  requestedRole,
  type RequestHeaders,
  USE_BACKEND,
  wrongSecret,
} from './identity.js'

/** Returns the session that the headers describe, if the admin secret is valid. */
export function fromAdminSecret(headers: RequestHeaders, secrets: Secrets): Session | null {
  const secret = headers.service.get('x-service-admin-secret')
  const alias = headers.service.get('x-service-access-key')
  if (secret !== undefined && alias !== undefined) {
    throw badHeader('send only one of "x-service-admin-secret" and "x-service-access-key"')
  }
  const given = secret ?? alias
  if (given === undefined) return null
  const secretKey = secrets.keyOf(given)
  if (secretKey === undefined) throw wrongSecret('the admin secret is wrong')
  return Object.freeze({ ...actingAs({ variables: new Map(), via: 'admin-secret' }, headers), secretKey })
}

/**
 * Returns the session that the headers describe, if the gateway secret is valid.
 * @param proven whether the connection proves the gateway already
 */
export function fromGateway(
  headers: RequestHeaders,
  secrets: Secrets,
  mode: 'direct' | 'gateway',
  proven: boolean,
): Session | null {
  const secret = headers.service.get('x-service-gateway-secret')
  if (secret === undefined && !proven) return null
  if (secret !== undefined && !secrets.matches(secret)) throw wrongSecret('the gateway secret is wrong')

  const role = gatewayRole(headers, mode)
  const carried = variables(headers)
  if (mode === 'gateway') carried.delete('x-service-user-role')
  if (role === 'anonymous' && !carried.has(USER_ID)) carried.set(USER_ID, '0')
  const named = headers.service.get('x-service-role') ?? headers.service.get('x-service-user-role')
  return makeSession(role, carried, 'gateway', asksForBackend(headers, named))
}

/** Returns the session that an admin asks for, who may act as any role. */
export function actingAs(session: Pick<Session, 'variables' | 'via'>, headers: RequestHeaders): Session {
  const role = requestedRole(headers)
  const carried = new Map([...(role === undefined ? session.variables : []), ...variables(headers)])
  const isOther = role !== undefined && !isAdmin({ role })
  return makeSession(role ?? 'admin', carried, session.via, asksForBackend(headers, role), isOther)
}

/**
 * Returns whether backend-only permissions apply to a request that has proved a secret. They need a role header, so that
 * the default role of a gateway does not get them.
 */
function asksForBackend(headers: RequestHeaders, role: string | undefined): boolean {
  const value = headers.service.get(USE_BACKEND)?.toLowerCase() ?? 'false'
  if (value !== 'true' && value !== 'false') throw badHeader(`the value of "${USE_BACKEND}" is neither true nor false`)
  return value === 'true' && role !== undefined
}

/** Returns the requested role, otherwise the first allowed role, otherwise anonymous. */
function gatewayRole(headers: RequestHeaders, mode: 'direct' | 'gateway'): string {
  const alias = mode === 'gateway' ? headers.service.get('x-service-user-role') : undefined
  const named = requestedRole(headers)
  if (alias !== undefined && !isRole(alias)) throw badHeader('the value of "x-service-user-role" is not a role name')
  if (alias !== undefined && named !== undefined && alias !== named) {
    throw badHeader('"x-service-role" and "x-service-user-role" name different roles')
  }
  const list = headers.service.get(ALLOWED_ROLES)
  if (list === undefined) return named ?? alias ?? 'anonymous'

  const allowed = rolesIn(list)
  const [first] = allowed
  if (first === undefined) throw badHeader(`"${ALLOWED_ROLES}" names no role`)
  return chosenRole(named ?? alias, allowed, first)
}

/** Returns the session variables that the headers carry. They are unverified. */
function variables(headers: RequestHeaders): Map<string, string> {
  const carried = new Map<string, string>()
  for (const [name, value] of headers.service) if (!INSTRUCTIONS.has(name)) carried.set(name, value)
  return carried
}

const badHeader = (message: string) => serviceError('parse-failed', message)

/** A set of secrets, any of which is sufficient. Without any, nothing matches. */
interface Secrets {
  matches(candidate: string): boolean
  /** Returns a keyed hash of the secret that matches. The hash does not reveal the secret. */
  keyOf(candidate: string): string | undefined
  /** Keyed hashes of all of them. */
  readonly keys: ReadonlySet<string>
}

/** Length of the compared buffers, in bytes, for secrets of any length. */
const LENGTH = 512

/** @param secrets the current secret and the previous ones that are valid during a rotation */
export function createSecrets(secrets: readonly (string | undefined)[]): Secrets {
  const known = secrets
    .filter((secret) => secret !== undefined)
    .map((secret) => ({
      text: padded(secret, Buffer.alloc(LENGTH)),
      key: createHmac('sha256', secret).update('secret').digest('base64url'),
    }))
  const given = Buffer.alloc(LENGTH)
  const keyOf = (candidate: string): string | undefined => {
    padded(candidate, given)
    // Compares every secret completely, so that the duration reveals neither which one matched nor how many bytes.
    let found: string | undefined
    for (const { text, key } of known) found = timingSafeEqual(text, given) ? key : found
    return found
  }
  return { keyOf, matches: (candidate) => keyOf(candidate) !== undefined, keys: new Set(known.map(({ key }) => key)) }
}

/** Encodes a text with a fixed length: padded with 1 and zeros; if it is too long, its hash padded with 2. */
function padded(text: string, into: Buffer): Buffer {
  const isShort = text.length * 3 < LENGTH
  const end = into.write(isShort ? text : hash('sha256', text, 'hex'))
  return into.fill(0, end).fill(isShort ? 1 : 2, end, end + 1)
}
