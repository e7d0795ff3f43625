import { hash, timingSafeEqual } from 'node:crypto'

/** Secrets of which one is enough. Only their hashes are kept. */
export interface Secrets {
  /** No secret is set: nothing matches. */
  readonly empty: boolean
  matches(candidate: string): boolean
}

/** @param secrets the current one and those still accepted during a rotation */
export function createSecrets(secrets: readonly (string | undefined)[]): Secrets {
  const hashes = secrets.filter((secret) => secret !== undefined).map(digest)
  return {
    empty: hashes.length === 0,
    matches(candidate) {
      const hashed = digest(candidate)
      // Every one is compared, so that the time does not tell which matched.
      return hashes.map((known) => timingSafeEqual(known, hashed)).includes(true)
    },
  }
}

const digest = (text: string) => hash('sha256', text, 'buffer')
