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

/** A text as so many bytes: behind it a 1 and zeros; a long one as its hash, with a 2 behind it. */
function padded(text: string, into: Buffer): Buffer {
  const isShort = text.length * 3 < LENGTH
  const end = into.write(isShort ? text : hash('sha256', text, 'hex'))
  return into.fill(0, end).fill(isShort ? 1 : 2, end, end + 1)
}
