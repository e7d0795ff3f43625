import { hash, timingSafeEqual } from 'node:crypto'

/** A set of secrets, any of which is sufficient. */
export interface Secrets {
  /** Whether no secret is set, so that nothing matches. */
  readonly empty: boolean
  matches(candidate: string): boolean
}

/** Length of the compared buffers, in bytes, for secrets of any length. */
const LENGTH = 512

/** @param secrets the current secret and the previous ones that are valid during a rotation */
export function createSecrets(secrets: readonly (string | undefined)[]): Secrets {
  const known = secrets.filter((secret) => secret !== undefined).map((secret) => padded(secret, Buffer.alloc(LENGTH)))
  const given = Buffer.alloc(LENGTH)
  return {
    empty: known.length === 0,
    matches(candidate) {
      padded(candidate, given)
      // Compares every secret completely, so that the duration reveals neither which one matched nor how many bytes.
      let found = false
      for (const each of known) found = timingSafeEqual(each, given) || found
      return found
    },
  }
}

/** Encodes a text with a fixed length: padded with 1 and zeros; if it is too long, its hash padded with 2. */
function padded(text: string, into: Buffer): Buffer {
  const isShort = text.length * 3 < LENGTH
  const end = into.write(isShort ? text : hash('sha256', text, 'hex'))
  return into.fill(0, end).fill(isShort ? 1 : 2, end, end + 1)
}
