import type { IncomingMessage } from 'node:http'
import { serviceError } from '../errors.js'
import { VARIABLE_NAME } from '../session.js'

/** The headers of a request, each name once. */
export interface RequestHeaders {
  /** First value of a header, by lower-case name. */
  get(name: string): string | undefined
  /** `X-Service-*` by lower-case name. Claims only: nothing here is proven. */
  readonly service: ReadonlyMap<string, string>
  cookie(name: string): string | undefined
}

/**
 * Reads the header lines as they came, because Node's own map joins or drops repeats.
 * @throws ServiceError 400 parse-failed: an `X-Service-*` header, Authorization or Host that is there twice, or an
 *   `X-Service-*` header that another program on the way could read differently: spelt with other separators (CGI
 *   makes `_` of `-`), or whose value has control characters, other characters than ASCII or outer spaces
 */
export function readHeaders(req: IncomingMessage): RequestHeaders {
  const first = new Map<string, string>()
  const service = new Map<string, string>()
  for (let i = 0; i < req.rawHeaders.length; i += 2) {
    const name = req.rawHeaders[i]!.toLowerCase()
    const value = req.rawHeaders[i + 1]!
    if (first.has(name) && (NEVER_TWICE.has(name) || service.has(name))) throw refused(name, 'is there twice')
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
  if (!VARIABLE_NAME.test(name)) throw refused(name, 'has a name of other characters than letters, digits and "-"')
  return true
}

function checked(name: string, value: string): string {
  if (/^$|^[!-~]([ -~]*[!-~])?$/.test(value)) return value
  throw refused(name, 'has a value that is not plain ASCII text')
}

/** The first cookie of a name: of several, browsers send the one with the longest path first (RFC 6265 5.4). */
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
