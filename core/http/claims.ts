import { isUserId, ROLE_NAME, USER_ID, USER_ID_RULE, VARIABLE_NAME } from '../session.js'
import { isVariableValue, ownName } from './identity.js'

/** What a token, the webhook or a gateway says about a caller, by lower-case name in Rowhouse. */
export type Claims = Map<string, unknown>

export const ALLOWED_ROLES = 'x-service-allowed-roles'

/**
 * Reads what an identity provider says.
 * @param hasura whether `x-hasura-*` means `x-service-*`
 * @throws Error: two names of one claim
 */
export function readClaims(from: object, hasura: boolean): Claims {
  const claims: Claims = new Map()
  for (const [given, value] of Object.entries(from)) {
    const name = ownName(given.toLowerCase(), hasura)
    if (!name.startsWith('x-service-')) continue
    if (claims.has(name)) throw new Error('two claims differ only in the spelling of their names')
    claims.set(name, value)
  }
  return claims
}

/** Returns whether a value is the name of a role. */
export const isRole = (value: unknown): value is string => typeof value === 'string' && ROLE_NAME.test(value)

/**
 * Returns those of a list that can be roles here. Identity providers name others too, such as `read:orders` or
 * `/staff/admins`; no permission can name these.
 */
export const rolesOf = (list: readonly unknown[]): readonly string[] => list.filter(isRole)

/**
 * As `rolesOf`, of a list with commas. None of one with quotes or `\,`: a comma may then be part of a name, as in
 * `CN=Doe\, admin`, and a piece of a name is no role.
 */
export const rolesIn = (list: string): readonly string[] =>
  /"|\\,/.test(list) ? [] : rolesOf(list.split(',').map((role) => role.trim()))

/**
 * Returns the session variables among claims. Leaves out names that cannot be variables here, and null.
 * @throws Error: a value that cannot be one
 */
export function variablesOf(claims: Claims): Map<string, string> {
  const variables = new Map<string, string>()
  for (const [name, value] of claims) {
    if (name === ALLOWED_ROLES || value === null || !VARIABLE_NAME.test(name)) continue
    const text = textOf(value)
    if (text === undefined) throw new Error(`the value of "${name}" cannot be a session variable`)
    const mayIdentify = typeof value === 'string' || Number.isInteger(value)
    if (name === USER_ID && !(mayIdentify && isUserId(text))) throw new Error(`the user id ${USER_ID_RULE}`)
    variables.set(name, text)
  }
  return variables
}

/** Returns a value as text that PostgreSQL reads: a list is an array, such as `{"a","b"}`. Undefined for others. */
function textOf(value: unknown): string | undefined {
  if (!Array.isArray(value)) return plainText(value)
  const parts = value.map((each) => (each === null ? 'NULL' : quoted(plainText(each))))
  return parts.includes(undefined) ? undefined : `{${parts.join(',')}}`
}

function plainText(value: unknown): string | undefined {
  if (typeof value === 'string') return isVariableValue(value) ? value : undefined
  // JSON.parse may have rounded a larger integer to the id of another.
  const isExact =
    typeof value === 'boolean' || (typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER)
  return isExact ? String(value) : undefined
}

const quoted = (text: string | undefined): string | undefined =>
  text === undefined ? undefined : `"${text.replaceAll(/["\\]/g, '\\$&')}"`
