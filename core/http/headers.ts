import type { IncomingMessage } from 'node:http'
import { serviceError } from '../errors.js'
import { VARIABLE_NAME } from '../session.js'

/** The headers of a request, each name once. */
export interface RequestHeaders {
  /** Returns the first value of a header by lower-case name. */
  get(name: string): string | undefined
  /** Values of `X-Service-*` by lower-case name. They are unverified. */
  readonly service: ReadonlyMap<string, string>
  cookie(name: string): string | undefined
}

/**
 * Reads the raw header lines, because Node's own map joins or drops repeated headers.
 * @throws ServiceError 400 parse-failed: a repeated `X-Service-*`, Authorization or Host header, or an `X-Service-*`
 *   header that another program on the way could read differently: with other separators in its name (CGI turns `-`
 *   into `_`), or with control characters, non-ASCII characters or outer spaces in its value
 */
export function readHeaders(req: IncomingMessage): RequestHeaders {
  const first = new Map<string, string>()
  const service = new Map<string, string>()
  for (let i = 0; i < req.rawHeaders.length; i += 2) {
    const name = req.rawHeaders[i]!.toLowerCase()
    const value = req.rawHeaders[i + 1]!
    if (first.has(name) && (NEVER_TWICE.has(name) || service.has(name))) throw refused(name, 'is repeated')
    if (isServiceName(name)) service.set(name, checked(name, value))
    if (name === 'cookie' && first.has(name)) first.set(name, `${first.get(name)}; ${value}`)
    else if (!first.has(name)) first.set(name, value)
  }
  return { get: (name) => first.get(name), service, cookie: (name) => cookie(first.get('cookie'), name) }
}

const NEVER_TWICE = new Set(['authorization', 'host'])

function isServiceName(name: string): boolean {
  if (!name.startsWith('x')) return false
  const read = name.replace(/[^a-z0-9]/g, '-')
  if (!read.startsWith('x-service-')) return false
  if (!VARIABLE_NAME.test(name)) throw refused(name, 'has a name with characters other than letters, digits and "-"')
  return true
}

function checked(name: string, value: string): string {
  if (/^$|^[!-~]([ -~]*[!-~])?$/.test(value)) return value
  throw refused(name, 'has a value that is not plain ASCII text')
}

/** Returns the first cookie of a name: browsers send the one with the longest path first (RFC 6265 5.4). */
function cookie(header: string | undefined, name: string): string | undefined {
  for (const pair of header?.split(';') ?? []) {
    const equals = pair.indexOf('=')
    if (equals > 0 && pair.slice(0, equals).trim() === name) {
      return pair
        .slice(equals + 1)
        .trim()
        .replace(/^"(.*)"$/, '$1')
    }
  }
  return undefined
}

const refused = (name: string, why: string) => serviceError('parse-failed', `header "${name}" ${why}`)
