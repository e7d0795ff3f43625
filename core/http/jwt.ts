import { createPublicKey } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { jwtVerify } from 'jose'
import type { JWTPayload, JWTVerifyOptions } from 'jose'
import { ServiceError } from '../errors.js'
import type { Logger } from '../log.js'
import { ROLE_NAME, USER_ID, VARIABLE_NAME } from '../session.js'
import type { Session } from '../session.js'
import type { JwtConfig } from './config.js'
import type { RequestHeaders } from './headers.js'
import {
  bearerToken,
  chosenRole,
  invalidToken,
  isUserId,
  isVariableValue,
  makeSession,
  requestedRole,
} from './identity.js'
import { createKeySet } from './jwks.js'
import type { FindKey } from './jwks.js'

const MAX_TOKEN_BYTES = 8 * 1024

/**
 * Reads the signed token of a request (RFC 7519, checked as RFC 8725 asks). `null`: the request has none.
 * @throws Error at once, naming the setting, when the configuration cannot be right
 */
export function createTokenReader(
  config: JwtConfig,
  log: Logger,
): (headers: RequestHeaders) => Promise<Session | null> {
  const key = keySource(config, log)
  const options: JWTVerifyOptions = {
    algorithms: config.algorithms,
    requiredClaims: ['exp'],
    clockTolerance: config.leewaySeconds,
    ...(config.issuer === undefined ? {} : { issuer: config.issuer }),
    ...(config.audience === undefined ? {} : { audience: config.audience }),
  }
  if (config.issuer === undefined || config.audience === undefined) {
    log.warn('auth.jwt: without issuer and audience, tokens made for other services are accepted')
  }
  return async (headers) => {
    const bearer = bearerToken(headers)
    const token = bearer ?? headers.cookie(config.cookie)
    if (token === undefined) return null
    if (token.length > MAX_TOKEN_BYTES) throw invalidToken()
    const claims = await verified(token, key, options)
    return sessionOf(claims, config.claims, requestedRole(headers), bearer === undefined ? 'cookie' : 'token')
  }
}

async function verified(token: string, key: Key, options: JWTVerifyOptions): Promise<JWTPayload> {
  try {
    const { payload } =
      typeof key === 'function' ? await jwtVerify(token, key, options) : await jwtVerify(token, key, options)
    return payload
  } catch (error) {
    throw error instanceof ServiceError ? error : invalidToken(error)
  }
}

type Key = KeyObject | Uint8Array | FindKey

function keySource(config: JwtConfig, log: Logger): Key {
  const symmetric = config.algorithms.filter((algorithm) => algorithm.startsWith('HS')).length
  if (symmetric > 0 && symmetric < config.algorithms.length) {
    throw new Error('auth.jwt.algorithms: HS* (a shared secret) cannot be mixed with public key algorithms')
  }
  if ((config.key === undefined) === (config.jwksUrl === undefined)) {
    throw new Error('auth.jwt: exactly one of "key" and "jwksUrl" is needed')
  }
  if (config.jwksUrl !== undefined) {
    if (symmetric > 0) throw new Error('auth.jwt.jwksUrl: a fetched key set cannot hold a shared secret; use "key"')
    return createKeySet(
      keySetUrl(config.jwksUrl),
      {
        timeoutMs: config.jwksTimeoutMs,
        maxAgeMs: config.jwksMaxAgeMs,
        cooldownMs: config.jwksCooldownMs,
        staleMs: config.jwksStaleMs,
      },
      (err) => log.warn({ err }, 'auth.jwt.jwksUrl: the key set could not be fetched'),
    )
  }
  return symmetric > 0 ? sharedSecret(config.key!) : publicKey(config.key!)
}

function sharedSecret(key: string): Uint8Array {
  // A public key is known to everybody: taken as a shared secret it would let anybody sign.
  if (/-----BEGIN|^\s*\{/.test(key)) throw new Error('auth.jwt.key: HS* needs a shared secret, not a PEM or JWK')
  const bytes = Buffer.from(key, 'utf8')
  if (bytes.length < 32) throw new Error('auth.jwt.key: a shared secret needs at least 32 bytes')
  return bytes
}

function publicKey(key: string): KeyObject {
  try {
    return createPublicKey(key.trimStart().startsWith('{') ? { key: JSON.parse(key), format: 'jwk' } : key)
  } catch {
    // The cause is left out: it may quote the key.
    throw new Error('auth.jwt.key: not a public key as PEM or JWK')
  }
}

function keySetUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const loopback = url && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback)) return url
  throw new Error('auth.jwt.jwksUrl: must be https, or http on loopback')
}

const ALLOWED_ROLES = 'x-service-allowed-roles'
const DEFAULT_ROLE = 'x-service-default-role'

function sessionOf(
  payload: JWTPayload,
  config: JwtConfig['claims'],
  requested: string | undefined,
  via: 'token' | 'cookie',
): Session {
  const claims = new Map(Object.entries(Object(payload[config.namespace])).map(([name, v]) => [name.toLowerCase(), v]))
  if (config.allowedRoles !== undefined) claims.set(ALLOWED_ROLES, valueAt(payload, config.allowedRoles))
  if (config.defaultRole !== undefined) claims.set(DEFAULT_ROLE, valueAt(payload, config.defaultRole))
  for (const [name, pointer] of Object.entries(config.variables)) {
    const value = valueAt(payload, pointer)
    if (value !== undefined) claims.set(name.toLowerCase(), value)
  }

  const held = claims.get(ALLOWED_ROLES)
  if (!isRoleList(held)) throw invalidToken(new Error('the token names no roles'))
  const usual = claims.get(DEFAULT_ROLE) ?? held[0]
  if (typeof usual !== 'string' || !held.includes(usual)) throw invalidToken(new Error('the default role is not held'))
  return makeSession(chosenRole(requested, held, usual), variablesOf(claims), via)
}

const isRoleList = (value: unknown): value is [string, ...string[]] =>
  Array.isArray(value) && value.length > 0 && value.every((role) => typeof role === 'string' && ROLE_NAME.test(role))

/** Everything else named `x-service-*`: strings, and integers that JSON carries without loss. */
function variablesOf(claims: ReadonlyMap<string, unknown>): Map<string, string> {
  const variables = new Map<string, string>()
  for (const [name, value] of claims) {
    if (!name.startsWith('x-service-') || name === ALLOWED_ROLES || name === DEFAULT_ROLE) continue
    const text = Number.isSafeInteger(value) ? String(value) : value
    if (!VARIABLE_NAME.test(name) || typeof text !== 'string' || !isVariableValue(text)) {
      throw invalidToken(new Error('a claim is not a session variable'))
    }
    if (name === USER_ID && !isUserId(text)) throw invalidToken(new Error('the user id is not an integer'))
    variables.set(name, text)
  }
  return variables
}

/** The value that a JSON pointer (RFC 6901) leads to. */
function valueAt(root: unknown, pointer: string): unknown {
  let value = root
  for (const step of pointer.split('/').slice(1)) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<string, unknown>)[key]
  }
  return value
}
