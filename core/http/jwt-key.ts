import { createPublicKey, type KeyObject } from 'node:crypto'
import type { Issue } from '../json/schema.js'
import type { JwtConfig } from './config.js'

type KeyConfig = Pick<JwtConfig, 'algorithms' | 'key' | 'jwksUrl'>

/** Returns the mistakes in the key of an issuer, or in its URL. Quotes neither. */
export function keyMistakes(config: KeyConfig): readonly Issue[] {
  const { algorithms, key, jwksUrl } = config
  const symmetric = algorithms.filter((algorithm) => algorithm.startsWith('HS')).length
  if (symmetric > 0 && symmetric < algorithms.length) {
    return [wrong('algorithms', 'HS* (a shared secret) cannot be mixed with public key algorithms')]
  }
  if ((key === undefined) === (jwksUrl === undefined)) {
    return [{ keys: [], message: 'exactly one of "key" and "jwksUrl" is required' }]
  }
  if (key !== undefined) return fixedKeyMistakes(config)
  if (symmetric > 0) return [wrong('jwksUrl', 'a fetched key set cannot hold a shared secret; use "key"')]
  return isSafeUrl(jwksUrl!) ? [] : [wrong('jwksUrl', 'must be https, or http on loopback')]
}

/** Returns the key of a valid configuration. */
export function fixedKey({ algorithms, key = '' }: KeyConfig): KeyObject | Uint8Array {
  return algorithms[0]!.startsWith('HS') ? sharedSecret(key) : publicKey(key)
}

const wrong = (key: keyof KeyConfig, message: string): Issue => ({ keys: [key], message })

function fixedKeyMistakes(config: KeyConfig): readonly Issue[] {
  try {
    fixedKey(config)
    return []
  } catch (error) {
    return [wrong('key', (error as Error).message)]
  }
}

function sharedSecret(key: string): Uint8Array {
  // Anyone knows a public key. As a shared secret it would let anyone sign tokens.
  if (/-----BEGIN|^\s*\{/.test(key)) throw new Error('HS* needs a shared secret, not a PEM or JWK')
  const bytes = Buffer.from(key, 'utf8')
  if (bytes.length < 32) throw new Error('a shared secret needs at least 32 bytes')
  return bytes
}

function publicKey(key: string): KeyObject {
  try {
    return createPublicKey(key.trimStart().startsWith('{') ? { key: JSON.parse(key), format: 'jwk' } : key)
  } catch {
    // The cause is omitted: it may quote the key.
    throw new Error('not a public key as PEM or JWK')
  }
}

function isSafeUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const loopback = url && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)
  return url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback === true)
}
