import { parseFailed } from './errors.js'

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
