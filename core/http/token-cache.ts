import type { JWTPayload } from 'jose'
import type { Session } from '../session.js'

/** What a token that was verified says. */
export interface Verified {
  readonly payload: JWTPayload
  /** Made of it so far, by what else decides: where the token was and the role that was asked for. */
  readonly sessions: Map<string, Session>
}

const MAX_TOKENS = 2000
/** Longer tokens are verified each time. */
const MAX_LENGTH = 2048

/**
 * Tokens whose signature was found right, while they last: clients send the same one with every request, and to verify it
 * takes longer than all else of a small read. Least recently used out first.
 */
export class TokenCache {
  private readonly entries = new Map<string, Verified & { readonly until: number }>()
  private readonly leewaySeconds: number
  private readonly maxAgeMs: number

  /** @param maxAgeMs how long the key may count as right without a look */
  constructor(leewaySeconds: number, maxAgeMs: number) {
    this.leewaySeconds = leewaySeconds
    this.maxAgeMs = maxAgeMs
  }

  get(token: string): Verified | undefined {
    const entry = this.entries.get(token)
    if (!entry) return undefined
    this.entries.delete(token)
    if (Date.now() >= entry.until) return undefined
    this.entries.set(token, entry)
    return entry
  }

  /** The keys have changed. */
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
