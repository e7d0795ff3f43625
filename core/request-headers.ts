import { createHash } from 'node:crypto'
import { parseFailed, serviceError } from './errors.js'
import { permissionRole, type Session, USER_ID } from './session.js'

export const IF_MATCH = '$.headers.If-Match'
/** Separates the version of a row in an ETag from a hash of the answer. */
export const AFTER_VERSION = ';'

/** What `If-Match` says: a version, or that any will do. */
export type Match = { readonly version: string } | 'any'

/** Reads `If-Match` on the version of a row. @throws ServiceError 400 parse-failed */
export function readMatch(header: string): Match {
  if (header.trim() === '*') return 'any'
  const [, tag] = /^\s*"([!#-~]*)"\s*$/.exec(header) ?? []
  if (tag === undefined) throw parseFailed('expecting one ETag in quotes, without W/, or *', IF_MATCH)
  const version = decoded(tag.split(AFTER_VERSION, 1)[0] as string)
  if (version === undefined) throw parseFailed('the ETag has an invalid % sequence', IF_MATCH)
  return { version }
}

/** Decodes percent-encoded characters. No text of PostgreSQL contains U+0000. */
function decoded(tag: string): string | undefined {
  try {
    const text = decodeURIComponent(tag)
    return text.includes('\0') ? undefined : text
  } catch {
    return undefined
  }
}

/** A request with an `Idempotency-Key`, whose answer the server keeps. */
export class KeyedRequest {
  readonly key: string
  private readonly parts: unknown[]

  /**
   * @param header value of `Idempotency-Key`: a string in quotes, as the draft of the IETF has it, or without them
   * @param parts what a repeated request has in common with the first one
   * @throws ServiceError 400 parse-failed
   */
  constructor(header: string, ...parts: readonly unknown[]) {
    const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(header)?.[1]?.replaceAll(/\\(.)/g, '$1')
    this.key = quoted ?? header
    this.parts = [...parts]
    if (!(quoted === undefined ? /^[!#-~]{1,255}$/ : /^[ -~]{1,255}$/).test(this.key)) {
      const rule = 'should be 1 to 255 visible ASCII characters; in quotes it may contain spaces'
      throw serviceError('parse-failed', `Idempotency-Key ${rule}`, '$.headers.Idempotency-Key')
    }
  }

  /** Adds what a repeated request must also have in common with the first one, such as its body. */
  add(...parts: readonly unknown[]): void {
    this.parts.push(...parts)
  }

  /** Returns a hash of the request and of everything that the session says. */
  hash(session: Session): Buffer {
    const variables = [...session.variables].sort(([a], [b]) => (a < b ? -1 : 1))
    return sha256(JSON.stringify([permissionRole(session), variables, this.parts]))
  }
}

/** Returns whose key it is: callers never share keys, except those of a role who have no user id. */
export const ownerOf = (session: Session): string =>
  JSON.stringify([permissionRole(session), session.variables.get(USER_ID) ?? null])

export const sha256 = (content: string | Buffer): Buffer => createHash('sha256').update(content).digest()
