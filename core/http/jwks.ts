import type { CryptoKey, FlattenedJWSInput, JSONWebKeySet, JWSHeaderParameters } from 'jose'
import { serviceError } from '../errors.js'
import type { JwtConfig } from './config.js'
import { fetchJson, createOutbound, type Outbound } from './outbound.js'

export type FindKey = (header: JWSHeaderParameters, token: FlattenedJWSInput) => Promise<CryptoKey>

const MAX_BYTES = 1024 * 1024
/** Minimum time between fetches while the set is missing or expired, in milliseconds. */
const RETRY_MS = 1_000

/**
 * Creates a key set that returns keys of an issuer by key id. An expired set is refreshed in the background and used
 * for another `jwksStaleMs` while the issuer cannot be reached. An unknown key id triggers an early fetch, at most once per
 * `jwksCooldownMs`, because anyone who sends tokens chooses key ids.
 * @throws ServiceError 503 unavailable: no set could be fetched
 */
export function createKeySet(
  url: URL,
  config: Pick<JwtConfig, 'jwksTimeoutMs' | 'jwksMaxAgeMs' | 'jwksCooldownMs' | 'jwksStaleMs'>,
  failed: (error: unknown) => void,
  fetched: () => void,
): FindKey {
  const outbound = createOutbound({ timeoutMs: config.jwksTimeoutMs, maxBytes: MAX_BYTES })
  let keys: { find: FindKey; at: number } | undefined
  let triedAt = -Infinity
  let pending: Promise<void> | undefined

  function refresh(minIntervalMs: number): Promise<void> {
    if (pending) return pending
    if (performance.now() - triedAt < minIntervalMs) return Promise.resolve()
    triedAt = performance.now()
    pending = fetchKeys(outbound, url)
      .then((find) => {
        keys = { find, at: performance.now() }
        fetched()
      }, failed)
      .finally(() => (pending = undefined))
    return pending
  }

  function current(): FindKey {
    if (keys && performance.now() - keys.at <= config.jwksMaxAgeMs + config.jwksStaleMs) return keys.find
    throw serviceError('unavailable', 'the keys of the token issuer cannot be fetched', '$', { retryAfter: 1 })
  }

  return async (header, token) => {
    const ageMs = keys ? performance.now() - keys.at : Infinity
    const refreshed = ageMs > config.jwksMaxAgeMs ? refresh(RETRY_MS) : undefined
    if (ageMs > config.jwksMaxAgeMs + config.jwksStaleMs) await refreshed

    const find = current()
    try {
      return await find(header, token)
    } catch (error) {
      const { errors } = await import('jose')
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      await refresh(config.jwksCooldownMs)
      if (current() === find) throw error
      return current()(header, token)
    }
  }
}

async function fetchKeys(outbound: Outbound, url: URL): Promise<FindKey> {
  const headers = { accept: 'application/jwk-set+json, application/json' }
  const { status, json } = await fetchJson(outbound, { method: 'GET', url, headers })
  if (status !== 200) throw new Error(`the request for the key set failed with status ${status}`)
  if (!isKeySet(json)) throw new Error('the key set is not a JSON Web Key Set')
  const { createLocalJWKSet } = await import('jose')
  return createLocalJWKSet(json)
}

const isKeySet = (json: unknown): json is JSONWebKeySet =>
  typeof json === 'object' && json !== null && 'keys' in json && Array.isArray(json.keys)
