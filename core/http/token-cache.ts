import type { JWTPayload } from 'jose'
import type { Session } from '../session.js'

/** A verified token. */
export interface Verified {
  readonly payload: JWTPayload
  /** Sessions created from it, by the header or cookie of the token and the requested role. */
  readonly sessions: Map<string, Session>
}

const MAX_TOKENS = 2000
/** Longer tokens are verified each time. */
const MAX_LENGTH = 2048

/**
 * Caches tokens with a valid signature until they expire. Clients send the same token with every request, and verifying
 * it takes longer than the rest of a small read. Evicts the least recently used.
 */
export class TokenCache {
  private readonly entries = new Map<string, Verified & { readonly until: number }>()

  /** @param maxAgeMs maximum time to trust the key without a new check */
  constructor(
    private readonly leewaySeconds: number,
    private readonly maxAgeMs: number,
  ) {}

  get(token: string): Verified | undefined {
    const entry = this.entries.get(token)
    if (!entry) return undefined
    this.entries.delete(token)
    if (Date.now() >= entry.until) return undefined
    this.entries.set(token, entry)
    return entry
  }

  /** Clears the cache after a change of keys. */
  clear(): void {
    this.entries.clear()
  }

  add(token: string, payload: JWTPayload): Verified {
    const expiry = ((payload.exp ?? 0) + this.leewaySeconds) * 1000
    const entry = { payload, sessions: new Map<string, Session>(), until: Math.min(expiry, Date.now() + this.maxAgeMs) }
    if (token.length > MAX_LENGTH) return entry
    if (this.entries.size >= MAX_TOKENS) this.entries.delete(this.entries.keys().next().value!)
    this.entries.set(token, entry)
    return entry
  }
}
