import { hash, timingSafeEqual } from 'node:crypto'

/** Secrets of which one is enough. */
export interface Secrets {
  /** No secret is set: nothing matches. */
  readonly empty: boolean
  matches(candidate: string): boolean
}

/** Bytes that are compared, whatever the length of a secret. */
const LENGTH = 512

/** @param secrets the current one and those still accepted during a rotation */
export function createSecrets(secrets: readonly (string | undefined)[]): Secrets {
  const known = secrets.filter((secret) => secret !== undefined).map((secret) => padded(secret, Buffer.alloc(LENGTH)))
  const given = Buffer.alloc(LENGTH)
  return {
    empty: known.length === 0,
    matches(candidate) {
      padded(candidate, given)
      // Every one is compared, and all of it, so that the time tells neither which matched nor how far.
      let found = false
      for (const each of known) found = timingSafeEqual(each, given) || found
      return found
    },
  }
}

/** A text as so many bytes: with a 1 and zeros behind it; a long one as its hash. */
function padded(text: string, into: Buffer): Buffer {
  const end = into.write(text.length * 3 < LENGTH ? text : hash('sha256', text, 'hex'))
  return into.fill(0, end).fill(1, end, end + 1)
}
