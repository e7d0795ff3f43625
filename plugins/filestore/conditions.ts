import { type Exchange, listsTag } from 'rowhouse'

/** Identifies one version of a file's content. */
export interface Version {
  /** Including its quotes. */
  readonly etag: string
  readonly updatedAt: Date
}

type Headers = Pick<Exchange, 'get'>

/**
 * Evaluates the conditions of a GET or HEAD (RFC 9110 section 13.2.2).
 * @returns 200: send the file; 304: the client has this version; 412: the client wants another version
 */
export function readCondition(exchange: Headers, { etag, updatedAt }: Version): 200 | 304 | 412 {
  const match = exchange.get('If-Match')
  if (match !== '' && !listsTag(match, etag)) return 412
  if (match === '' && isLater(updatedAt, exchange.get('If-Unmodified-Since'))) return 412
  const noneMatch = exchange.get('If-None-Match')
  if (noneMatch !== '') return listsTag(noneMatch, etag, true) ? 304 : 200
  const since = Date.parse(exchange.get('If-Modified-Since'))
  return Number.isNaN(since) || seconds(updatedAt) > since / 1000 ? 200 : 304
}

/** Returns whether to send a range: `If-Range` is absent, or names this version. */
export function mayResume(exchange: Headers, { etag, updatedAt }: Version): boolean {
  const version = exchange.get('If-Range')
  if (version === '') return true
  if (/^(?:W\/)?"/.test(version)) return version === etag
  // A date identifies a version only when the second in which it was written is over.
  return Date.parse(version) / 1000 === seconds(updatedAt) && Date.now() - updatedAt.getTime() > CLOCK_MS
}
/** Maximum difference between the clocks of server and database, plus one second. */
const CLOCK_MS = 10_000

/**
 * Reads the conditions of a PUT, POST or DELETE (RFC 9110 section 13.2.2).
 * @returns a function that evaluates them for the current version, or for no file; undefined without conditions
 */
export function writeConditions(exchange: Headers): ((current: Version | undefined) => boolean) | undefined {
  const match = exchange.get('If-Match')
  const noneMatch = exchange.get('If-None-Match')
  const since = exchange.get('If-Unmodified-Since')
  if (match === '' && noneMatch === '' && since === '') return undefined
  return (current) => {
    if (match !== '' && !(current && listsTag(match, current.etag))) return false
    if (match === '' && current && isLater(current.updatedAt, since)) return false
    return noneMatch === '' || !(current && listsTag(noneMatch, current.etag, true))
  }
}

const seconds = (date: Date): number => Math.floor(date.getTime() / 1000)

function isLater(updatedAt: Date, header: string): boolean {
  const limit = Date.parse(header)
  return !Number.isNaN(limit) && seconds(updatedAt) > limit / 1000
}
