import { type Exchange, listsTag, readHttpDate } from 'rowhouse'

/** Identifies one version of a file's content. */
export interface Version {
  /** Including its quotes. */
  readonly etag: string
  readonly updatedAt: Date
}

type Headers = Pick<Exchange, 'get' | 'req'>

/**
 * Evaluates the conditions of a GET or HEAD (RFC 9110 section 13.2.2).
 * @returns 200: send the file; 304: the client has this version; 412: the client wants another version
 */
export function readCondition(exchange: Headers, { etag, updatedAt }: Version): 200 | 304 | 412 {
  const match = tagsIn(exchange, 'if-match')
  if (match !== undefined && !listsTag(match, etag)) return 412
  if (match === undefined && isLater(updatedAt, dateIn(exchange, 'if-unmodified-since'))) return 412
  const noneMatch = tagsIn(exchange, 'if-none-match')
  if (noneMatch !== undefined) return listsTag(noneMatch, etag, true) ? 304 : 200
  const since = dateIn(exchange, 'if-modified-since')
  return since === undefined || isLater(updatedAt, since) ? 200 : 304
}

/** Returns whether to send a range: `If-Range` is absent, or names this version. */
export function mayResume(exchange: Headers, { etag, updatedAt }: Version): boolean {
  const version = exchange.get('If-Range')
  if (version === '') return true
  if (/^(?:W\/)?"/.test(version)) return version === etag
  // A date identifies a version only when the second in which it was written is over.
  return readHttpDate(version) === secondOf(updatedAt) && Date.now() - updatedAt.getTime() > CLOCK_MS
}
/** Maximum difference between the clocks of server and database, plus one second. */
const CLOCK_MS = 10_000

/**
 * Reads the conditions of a PUT, POST or DELETE (RFC 9110 section 13.2.2).
 * @returns a function that evaluates them for the current version, or for no file; undefined without conditions
 */
export function writeConditions(exchange: Headers): ((current: Version | undefined) => boolean) | undefined {
  const match = tagsIn(exchange, 'if-match')
  const noneMatch = tagsIn(exchange, 'if-none-match')
  const hasDate = exchange.req.headers['if-unmodified-since'] !== undefined
  if (match === undefined && noneMatch === undefined && !hasDate) return undefined
  const since = match === undefined ? dateIn(exchange, 'if-unmodified-since') : undefined
  return (current) => {
    if (match !== undefined && !(current && listsTag(match, current.etag))) return false
    if (current && isLater(current.updatedAt, since)) return false
    return noneMatch === undefined || !(current && listsTag(noneMatch, current.etag, true))
  }
}

/** Returns a list of ETags; undefined without the header. An empty one lists none. */
const tagsIn = ({ req }: Headers, name: 'if-match' | 'if-none-match'): string | undefined => req.headers[name]

/** Returns a date in milliseconds; undefined without the header, and if it has to be ignored: it is no date, or more than one. */
function dateIn({ req }: Headers, name: 'if-modified-since' | 'if-unmodified-since'): number | undefined {
  const text = req.headers[name]
  // `headers` has the first of several.
  return text === undefined || req.headersDistinct[name]!.length > 1 ? undefined : readHttpDate(text)
}

/** Returns the second of a date, in milliseconds. Headers have no fractions of it. */
const secondOf = (date: Date): number => Math.floor(date.getTime() / 1000) * 1000

const isLater = (updatedAt: Date, limit: number | undefined): boolean =>
  limit !== undefined && secondOf(updatedAt) > limit
