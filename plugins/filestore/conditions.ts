import type { Exchange } from 'rowhouse'

/** What tells one content of a file from another. */
export interface Version {
  /** With its quotes. */
  readonly etag: string
  readonly updatedAt: Date
}

type Asking = Pick<Exchange, 'get'>

/**
 * What the conditions of a GET or HEAD say of a file (RFC 9110 section 13.2.2): send it, it is the one that the client
 * has (304), or it is not the one that it wants (412).
 */
export function readCondition(exchange: Asking, { etag, updatedAt }: Version): 200 | 304 | 412 {
  const match = exchange.get('If-Match')
  if (match !== '' && !lists(match, etag)) return 412
  if (match === '' && isLater(updatedAt, exchange.get('If-Unmodified-Since'))) return 412
  const noneMatch = exchange.get('If-None-Match')
  if (noneMatch !== '') return lists(noneMatch, etag, true) ? 304 : 200
  const since = Date.parse(exchange.get('If-Modified-Since'))
  return Number.isNaN(since) || seconds(updatedAt) > since / 1000 ? 200 : 304
}

/** Whether a range may be sent: the client has a part of this very version, or does not say of which. */
export function mayContinue(exchange: Asking, { etag, updatedAt }: Version): boolean {
  const version = exchange.get('If-Range')
  if (version === '') return true
  if (/^(?:W\/)?"/.test(version)) return version === etag
  // A date tells versions apart only when there can be no second one in the same second.
  return Date.parse(version) / 1000 === seconds(updatedAt) && Date.now() - updatedAt.getTime() > CLOCK_MS
}
/** How far the clocks of server and database may be apart, and the second itself. */
const CLOCK_MS = 10_000

/**
 * What the conditions of a PUT, POST or DELETE say of the file as it is (RFC 9110 section 13.2.2), undefined being none.
 * @returns undefined when there are no conditions
 */
export function writeConditions(exchange: Asking): ((current: Version | undefined) => boolean) | undefined {
  const match = exchange.get('If-Match')
  const noneMatch = exchange.get('If-None-Match')
  const since = exchange.get('If-Unmodified-Since')
  if (match === '' && noneMatch === '' && since === '') return undefined
  return (current) => {
    if (match !== '' && !(current && lists(match, current.etag))) return false
    if (match === '' && current && isLater(current.updatedAt, since)) return false
    return noneMatch === '' || !(current && lists(noneMatch, current.etag, true))
  }
}

/** @param weak whether `W/"a"` is `"a"` */
function lists(header: string, etag: string, weak = false): boolean {
  if (header.trim() === '*') return true
  const tags = header.match(/(?:W\/)?"[^"]*"/g) ?? []
  return tags.some((tag) => (weak ? tag.replace(/^W\//, '') : tag) === etag)
}

const seconds = (date: Date): number => Math.floor(date.getTime() / 1000)

function isLater(updatedAt: Date, header: string): boolean {
  const limit = Date.parse(header)
  return !Number.isNaN(limit) && seconds(updatedAt) > limit / 1000
}
