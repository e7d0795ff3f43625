import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import type { JWSHeaderParameters } from 'jose'
import { serviceError } from '../errors.js'
import { isObject } from '../json/value.js'
import type { JwtConfig } from './config.js'
import { fetchJson, createOutbound, type Outbound } from './outbound.js'

/**
 * Verifies a token with the keys that may have signed it, one after the other.
 * @param verify throws when the key did not sign the token
 * @throws the last error of `verify`
 */
export type TryKeys = <T>(header: JWSHeaderParameters, verify: (key: KeyObject) => Promise<T>) => Promise<T>

/** A key of a set (RFC 7517 4). */
interface SetKey {
  readonly kid: unknown
  readonly alg: unknown
  readonly key: KeyObject
}

const MAX_BYTES = 1024 * 1024
/** Minimum time between fetches while the set is missing or expired, in milliseconds. */
const RETRY_MS = 1_000
/** Time for which an expired set is used while its URL cannot be fetched. */
const STALE_MS = 3_600_000

/**
 * Creates a key set of an issuer. An expired set is refreshed in the background and used for another hour while
 * the issuer cannot be reached. A token that no key of its key id has signed, because there is none, triggers an early
 * fetch, at most once per `jwksCooldownMs`, because anyone who sends tokens chooses key ids.
 * @throws ServiceError 503 unavailable: no set could be fetched
 */
export function createKeySet(
  url: URL,
  config: Pick<JwtConfig, 'jwksTimeoutMs' | 'jwksMaxAgeMs' | 'jwksCooldownMs'>,
  failed: (error: unknown) => void,
  fetched: () => void,
): TryKeys {
  const outbound = createOutbound({ timeoutMs: config.jwksTimeoutMs, maxBytes: MAX_BYTES })
  let keys: { set: readonly SetKey[]; at: number } | undefined
  let triedAt = -Infinity
  let pending: Promise<void> | undefined

  function refresh(minIntervalMs: number): Promise<void> {
    if (pending) return pending
    if (performance.now() - triedAt < minIntervalMs) return Promise.resolve()
    triedAt = performance.now()
    pending = fetchKeys(outbound, url)
      .then((set) => {
        keys = { set, at: performance.now() }
        fetched()
      }, failed)
      .finally(() => (pending = undefined))
    return pending
  }

  function current(): readonly SetKey[] {
    if (keys && performance.now() - keys.at <= config.jwksMaxAgeMs + STALE_MS) return keys.set
    throw serviceError('unavailable', 'the keys of the token issuer cannot be fetched', '$', { retryAfter: 1 })
  }

  return async (header, verify) => {
    const ageMs = keys ? performance.now() - keys.at : Infinity
    const refreshed = ageMs > config.jwksMaxAgeMs ? refresh(RETRY_MS) : undefined
    if (ageMs > config.jwksMaxAgeMs + STALE_MS) await refreshed

    const set = current()
    try {
      return await withOneOf(candidates(set, header), verify)
    } catch (error) {
      if (!(await isOfAnotherKey(error)) || set.some(({ kid }) => kid !== undefined && kid === header.kid)) throw error
      await refresh(config.jwksCooldownMs)
      if (current() === set) throw error
      return withOneOf(candidates(current(), header), verify)
    }
  }
}

/** Returns the keys that may have signed a token: those of its key id, or else those without one. */
function candidates(set: readonly SetKey[], { kid, alg }: JWSHeaderParameters): readonly KeyObject[] {
  const fitting = set.filter((one) => one.alg === undefined || general(one.alg) === general(alg))
  const named = kid === undefined ? fitting : fitting.filter((one) => one.kid === kid)
  const found = named.length > 0 ? named : fitting.filter((one) => one.kid === undefined)
  return found.map(({ key }) => key)
}

/** Both names of one algorithm mean the same for a key on its curve (RFC 9864 2.2). */
const general = (alg: unknown): unknown => (alg === 'Ed25519' ? 'EdDSA' : alg)

async function withOneOf<T>(keys: readonly KeyObject[], verify: (key: KeyObject) => Promise<T>): Promise<T> {
  const { errors } = await import('jose')
  let failure: unknown = new errors.JWKSNoMatchingKey()
  for (const key of keys) {
    try {
      return await verify(key)
    } catch (error) {
      failure = error
      if (!(await isOfAnotherKey(error))) break
    }
  }
  throw failure
}

/** Returns whether another key may verify the token. A key of another type is a TypeError of `jose`. */
async function isOfAnotherKey(error: unknown): Promise<boolean> {
  const { errors } = await import('jose')
  const { JWKSNoMatchingKey, JWSSignatureVerificationFailed } = errors
  return [JWKSNoMatchingKey, JWSSignatureVerificationFailed, TypeError].some((kind) => error instanceof kind)
}

async function fetchKeys(outbound: Outbound, url: URL): Promise<readonly SetKey[]> {
  const headers = { accept: 'application/jwk-set+json, application/json' }
  const { status, json } = await fetchJson(outbound, { method: 'GET', url, headers })
  if (status !== 200) throw new Error(`the request for the key set failed with status ${status}`)
  if (!isObject(json) || !Array.isArray(json['keys'])) throw new Error('the key set is not a JSON Web Key Set')
  return json['keys'].flatMap(signingKey)
}

/** Reads a key. Leaves out those of unknown types, of wrong form, and for other uses (RFC 7517 4.2, 4.3, 5). */
function signingKey(jwk: unknown): readonly SetKey[] {
  if (!isObject(jwk)) return []
  const { kid, alg, use, key_ops: operations } = jwk
  if (use !== undefined && use !== 'sig') return []
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return []
  // This is a private key: everybody who can read the set could sign with it.
  if ('d' in jwk) return []
  try {
    return [{ kid, alg, key: createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' }) }]
  } catch {
    return []
  }
}
