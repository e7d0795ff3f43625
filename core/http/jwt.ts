import type { KeyObject } from 'node:crypto'
import type { JWTPayload, JWTVerifyOptions } from 'jose'
import { ServiceError } from '../errors.js'
import type { Eventual } from '../deadline.js'
import { valueAtPointer } from '../json/json-pointer.js'
import { jsonOrNone } from '../json/value.js'
import type { Logger } from '../observe/log.js'
import type { Session } from '../session.js'
import { ALLOWED_ROLES, type Claims, isRole, readClaims, rolesOf, variablesOf } from './claims.js'
import type { JwtConfig } from './config.js'
import {
  after,
  type RequestHeaders,
  bearerToken,
  chosenRole,
  invalidToken,
  makeSession,
  ownName,
  requestedRole,
} from './identity.js'
import { createKeySet, type TryKeys } from './jwks.js'
import { fixedKey } from './jwt-key.js'
import { TokenCache, type Verified } from './token-cache.js'

/** Imported for the first token, because a server may not use tokens at all. */
const jose = () => import('jose')

const MAX_TOKEN_BYTES = 8 * 1024

/**
 * Reads the signed token of a request (RFC 7519, checked as RFC 8725 recommends). With several issuers, selects one by
 * the header or cookie of the token, or by its `iss`, and verifies the token against that issuer only. The reader
 * returns `null` when the request has no token.
 * @param hasura whether `x-hasura-*` claims mean `x-service-*`
 */
export function createTokenReader(
  configs: readonly JwtConfig[],
  log: Pick<Logger, 'warn'>,
  hasura: boolean,
): (headers: RequestHeaders) => Eventual<Session | null> {
  const issuers = configs.map((config, index) => {
    return createIssuer(config, configs.length === 1 ? 'auth.jwt' : `auth.jwt[${index}]`, log)
  })
  const usual = issuers.filter(({ config }) => config.header === undefined)
  return (headers) => {
    const found = findToken(headers, issuers, usual)
    if (!found) return null
    const { token, via, readers } = found
    if (token.length > MAX_TOKEN_BYTES)
      throw invalidToken(new Error(`the token has more than ${MAX_TOKEN_BYTES} bytes`))
    return after(readers.length === 1 ? readers[0] : namedBy(token, readers), (issuer) => {
      if (!issuer) throw invalidToken(new Error('the issuer of the token is not configured'))
      return after(issuer.tokens.get(token) ?? verified(token, issuer), ({ payload, sessions }) => {
        const requested = requestedRole(headers)
        const key = `${via} ${requested ?? ''}`
        let session = sessions.get(key)
        if (!session) sessions.set(key, (session = sessionOf(payload, issuer.config.claims, requested, via, hasura)))
        return session
      })
    })
  }
}

interface Issuer {
  readonly config: JwtConfig
  readonly key: KeyObject | Uint8Array | TryKeys
  readonly options: JWTVerifyOptions
  readonly tokens: TokenCache
}

/** @param name path of its settings, for log lines */
function createIssuer(config: JwtConfig, name: string, log: Pick<Logger, 'warn'>): Issuer {
  const { algorithms, leewaySeconds, issuer, audience } = config
  if (issuer === undefined || audience === undefined) {
    log.warn(`${name}: without issuer and audience, tokens made for other services are accepted`)
  }
  const options = {
    algorithms,
    requiredClaims: ['exp'],
    clockTolerance: leewaySeconds,
    ...(issuer === undefined ? {} : { issuer }),
    ...(audience === undefined ? {} : { audience }),
  }
  const maxAgeMs = config.jwksUrl === undefined ? Infinity : Math.min(config.jwksMaxAgeMs, MAX_KEY_AGE_MS)
  const tokens = new TokenCache(leewaySeconds, maxAgeMs)
  return { config, key: keySource(config, name, log, () => tokens.clear()), options, tokens }
}

/** Maximum time for which a withdrawn key stays valid, in milliseconds. */
const MAX_KEY_AGE_MS = 10_000

/** @param changed called when the valid keys may have changed */
function keySource(config: JwtConfig, name: string, log: Pick<Logger, 'warn'>, changed: () => void): Issuer['key'] {
  if (config.jwksUrl === undefined) return fixedKey(config)
  return createKeySet(
    new URL(config.jwksUrl),
    config,
    (err) => log.warn({ err }, `${name}.jwksUrl: cannot fetch the key set`),
    changed,
  )
}

interface FoundToken {
  readonly token: string
  readonly via: 'token' | 'cookie'
  /** The issuers whose tokens may use this header or cookie. */
  readonly readers: readonly Issuer[]
}

/**
 * Returns the first token found: in Authorization, in a configured header, or in a cookie. No other token is
 * considered.
 * @param usual the issuers whose tokens come in Authorization or a cookie
 */
function findToken(
  headers: RequestHeaders,
  issuers: readonly Issuer[],
  usual: readonly Issuer[],
): FoundToken | undefined {
  const bearer = usual.length === 0 ? undefined : bearerToken(headers)
  if (bearer !== undefined) return { token: bearer, via: 'token', readers: usual }
  for (const { config } of issuers) {
    const header = config.header?.toLowerCase()
    const token = header === undefined ? undefined : headers.get(header)
    if (token === undefined) continue
    return { token, via: 'token', readers: issuers.filter((other) => other.config.header?.toLowerCase() === header) }
  }
  for (const { config } of usual) {
    const token = headers.cookie(config.cookie)
    if (token === undefined) continue
    return { token, via: 'cookie', readers: usual.filter((other) => other.config.cookie === config.cookie) }
  }
  return undefined
}

/** Returns the issuer that the token names. This proves nothing yet. */
async function namedBy(token: string, issuers: readonly Issuer[]): Promise<Issuer | undefined> {
  const { decodeJwt } = await jose()
  try {
    const { iss } = decodeJwt(token)
    return issuers.find(({ config }) => config.issuer !== undefined && config.issuer === iss)
  } catch (error) {
    throw invalidToken(error)
  }
}

async function verified(token: string, { key, options, tokens }: Issuer): Promise<Verified> {
  const { jwtVerify, decodeProtectedHeader } = await jose()
  const verify = (one: KeyObject | Uint8Array) => jwtVerify(token, one, options)
  try {
    const { payload } = await (typeof key === 'function' ? key(decodeProtectedHeader(token), verify) : verify(key))
    return tokens.add(token, payload)
  } catch (error) {
    throw error instanceof ServiceError ? error : invalidToken(error)
  }
}

const DEFAULT_ROLE = 'x-service-default-role'
const HASURA_NAMESPACE = 'https://hasura.io/jwt/claims'

/** @throws ServiceError 401 invalid-token: the token names no role, or has a value that is not allowed */
function sessionOf(
  payload: JWTPayload,
  config: JwtConfig['claims'],
  requested: string | undefined,
  via: 'token' | 'cookie',
  hasura: boolean,
): Session {
  const claims = claimsOf(payload, config, hasura)
  const listed = claims.get(ALLOWED_ROLES)
  const held = Array.isArray(listed) ? rolesOf(listed) : []
  const named = claims.get(DEFAULT_ROLE)
  const usual = isRole(named) ? named : held[0]
  if (usual === undefined) throw invalidToken(new Error('the token names no roles'))
  if (!held.includes(usual)) throw invalidToken(new Error('the caller does not hold the default role'))
  claims.delete(DEFAULT_ROLE)
  const session = makeSession(
    chosenRole(requested, held, usual),
    orInvalid(() => variablesOf(claims)),
    via,
  )
  return Object.freeze({ ...session, roles: held, ...(payload.exp && { expiresAt: payload.exp * 1000 }) })
}

function claimsOf(payload: JWTPayload, config: JwtConfig['claims'], hasura: boolean): Claims {
  const claims = orInvalid(() => readClaims(namespaceOf(payload, config, hasura), hasura))
  if (config.allowedRoles !== undefined) claims.set(ALLOWED_ROLES, valueAtPointer(payload, config.allowedRoles))
  if (config.defaultRole !== undefined) claims.set(DEFAULT_ROLE, valueAtPointer(payload, config.defaultRole))
  for (const [name, pointer] of Object.entries(config.variables)) {
    const value = valueAtPointer(payload, pointer)
    if (value !== undefined) claims.set(ownName(name.toLowerCase(), hasura), value)
  }
  return claims
}

function orInvalid<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw invalidToken(error)
  }
}

/**
 * Returns the object with the claims. Some issuers cannot nest claims and send the object as a JSON string.
 * @throws Error if there is no object
 */
function namespaceOf(
  payload: JWTPayload,
  { namespace, namespacePath, format }: JwtConfig['claims'],
  hasura: boolean,
): object {
  const named = payload[namespace] ?? (hasura ? payload[HASURA_NAMESPACE] : undefined)
  const found = namespacePath === undefined ? named : valueAtPointer(payload, namespacePath)
  if (found === undefined) return {}
  const value = format === 'json' ? found : typeof found === 'string' ? jsonOrNone(found) : undefined
  if (typeof value === 'object' && value !== null) return value
  throw new Error('the namespace of the claims is not an object')
}
