import type { IncomingMessage } from 'node:http'
import type { Eventual } from '../deadline.js'
import { serviceError } from '../errors.js'
import { ROLE_NAME, type Session, USER_ID, VARIABLE_NAME } from '../session.js'
import { addressedUrl } from './client-address.js'
import type { Exchange } from './exchange.js'

/** The headers of a request, each name once. */
export interface RequestHeaders {
  /** Returns the first value of a header by lower-case name. */
  get(name: string): string | undefined
  /** Values of `X-Service-*` by lower-case name. They are unverified. */
  readonly service: ReadonlyMap<string, string>
  /** An `X-Service-*` name with `_`, which only those may send who prove a secret: most proxies drop or rewrite it. */
  readonly underscored: string | undefined
  cookie(name: string): string | undefined
}

/**
 * Returns the name of a header or claim in Rowhouse.
 * @param name in lower case
 * @param hasura whether `x-hasura-role` means `x-service-role`, and so on
 */
export const ownName = (name: string, hasura: boolean): string =>
  hasura && name.startsWith('x-hasura-') ? `x-service-${name.slice('x-hasura-'.length)}` : name

/**
 * Reads the raw header lines, because Node's own map joins or drops repeated headers.
 * @param hasura whether `X-Hasura-*` headers are read as `X-Service-*`
 * @throws ServiceError 400 parse-failed: a repeated `X-Service-*`, Authorization or Host header, or an `X-Service-*`
 *   header that another program on the way could read differently: with separators in its name that make it another
 *   one (CGI turns `-` into `_`), or with control characters, non-ASCII characters or outer spaces in its value
 */
export function readHeaders(req: Pick<IncomingMessage, 'rawHeaders'>, hasura: boolean): RequestHeaders {
  return new HeaderLines(req.rawHeaders, hasura)
}

const NONE: ReadonlyMap<string, string> = new Map()

class HeaderLines implements RequestHeaders {
  service = NONE
  underscored: string | undefined

  /** @param lines names and values alternate */
  constructor(
    private readonly lines: readonly string[],
    private readonly hasura: boolean,
  ) {
    let known: Set<string> | undefined
    for (let i = 0; i < lines.length; i += 2) {
      const name = ownName(lines[i]!.toLowerCase(), hasura)
      if (NEVER_TWICE.has(name) && this.find(name) !== i) throw refused(name, 'is repeated')
      const read = readAs(name, hasura)
      if (read === undefined) continue
      if (known?.has(read)) throw refused(name, 'is repeated')
      known = (known ?? new Set()).add(read)
      if (read !== name) this.underscored = name
      if (this.service === NONE) this.service = new Map()
      ;(this.service as Map<string, string>).set(name, checked(name, lines[i + 1]!))
    }
  }

  get(name: string): string | undefined {
    const at = this.find(name)
    return at < 0 ? undefined : this.lines[at + 1]
  }

  /** Returns the first cookie of a name: browsers send the one with the longest path first (RFC 6265 5.4). */
  cookie(name: string): string | undefined {
    for (let at = this.find('cookie'); at >= 0; at = this.find('cookie', at + 2)) {
      const value = cookieOf(this.lines[at + 1]!, name)
      if (value !== undefined) return value
    }
    return undefined
  }

  /** Returns the index of the first line with a name. */
  private find(name: string, from = 0): number {
    for (let i = from; i < this.lines.length; i += 2) {
      const given = this.lines[i]!
      const isAsLong = given.length === name.length
      if ((isAsLong || this.hasura) && ownName(given.toLowerCase(), this.hasura) === name) return i
    }
    return -1
  }
}

const NEVER_TWICE = new Set(['authorization', 'host'])

/** Returns the `X-Service-*` name that other programs may read, because to them all separators are the same. */
function readAs(name: string, hasura: boolean): string | undefined {
  if (!name.startsWith('x')) return undefined
  const read = ownName(name.replace(/[^a-z0-9]/g, '-'), hasura)
  if (!read.startsWith('x-service-')) return undefined
  if (!VARIABLE_NAME.test(name))
    throw refused(name, 'should have a name of letters, digits, "-" and "_" after "x-service-"')
  if (name !== read && (INSTRUCTIONS.has(read) || CALLER.has(read))) throw refused(name, `should be spelt "${read}"`)
  return read
}

export const USE_BACKEND = 'x-service-use-backend-only-permissions'
/** Headers that are instructions or credentials, never session variables. `makeSession` adds the role. */
export const INSTRUCTIONS: ReadonlySet<string> = new Set([
  'x-service-role',
  'x-service-admin-secret',
  'x-service-access-key',
  'x-service-gateway-secret',
  'x-service-allowed-roles',
  USE_BACKEND,
  'x-service-csrf',
  'x-service-digits-as-text',
  'x-service-filestore-range',
])
/** Headers that say who the caller is, besides its role. */
const CALLER: ReadonlySet<string> = new Set([USER_ID, 'x-service-user-role', 'x-service-default-role'])

function checked(name: string, value: string): string {
  if (/^$|^[!-~]([ -~]*[!-~])?$/.test(value)) return value
  throw refused(name, 'has a value that is not plain ASCII text')
}

function cookieOf(header: string, name: string): string | undefined {
  for (const pair of header.split(';')) {
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

export const refused = (name: string, why: string) => serviceError('parse-failed', `header "${name}" ${why}`)

/** Creates a session whose role is also the variable `x-service-role`. */
export function makeSession(
  role: string,
  variables: ReadonlyMap<string, string>,
  via: Session['via'],
  backend = false,
  acting = false,
): Session {
  const carried = new Map(variables).set('x-service-role', role)
  return Object.freeze({
    role,
    variables: carried,
    via,
    ...(backend ? { backend } : {}),
    ...(acting ? { acting } : {}),
  })
}

/** Creates the session of an unauthenticated caller. */
export const anonymous = (): Session => ANONYMOUS
const ANONYMOUS = makeSession('anonymous', new Map([[USER_ID, '0']]), 'anonymous')

/**
 * Returns the role that the request asks for, if any.
 * @throws ServiceError 400 parse-failed: not a role name
 */
export function requestedRole(headers: RequestHeaders): string | undefined {
  const role = headers.service.get('x-service-role')
  if (role === undefined || ROLE_NAME.test(role)) return role
  throw serviceError('parse-failed', 'the value of "x-service-role" is not a role name')
}

/**
 * Returns the requested role if the caller holds it.
 * @param otherwise the role when none is requested
 * @throws ServiceError 403 access-denied: the caller does not hold the role
 */
export function chosenRole(requested: string | undefined, held: readonly string[], otherwise: string): string {
  const role = requested ?? otherwise
  if (held.includes(role)) return role
  throw serviceError('access-denied', `role "${role}" is not held by this caller`, '$', { status: 403 })
}

/** Returns whether PostgreSQL can store the text. */
export const isVariableValue = (text: string) => !/[\p{Surrogate}\0]/u.test(text)

/**
 * Returns the token of `Authorization: Bearer <token>` (RFC 6750 2.1).
 * @throws ServiceError 400 malformed-authorization-header: the header has another form
 */
export function bearerToken(headers: RequestHeaders): string | undefined {
  const header = headers.get('authorization')
  if (header === undefined) return undefined
  const token = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(header)?.[1]
  if (token !== undefined) return token
  throw serviceError('malformed-authorization-header', 'the Authorization header should be "Bearer" and a token')
}

export const invalidToken = (cause?: unknown) =>
  serviceError('invalid-token', 'invalid authorization token', '$', { cause })
export const wrongSecret = (message: string) => serviceError('access-denied', message, '$', { status: 401 })

/** Returns the 401 for a request without credentials. It does not count as a failed attempt. */
export const missingCredentials = (message: string) => serviceError('missing-credentials', message)

/**
 * Refuses a request that another site may have sent with this caller's cookies. For routes that change something, or
 * that run a query from the request. Callers without cookies pass, because browsers send other credentials only on
 * purpose.
 * @throws ServiceError 403 csrf
 */
export function assertSameOrigin(ctx: Asking, session: Session): void {
  if (session.via !== 'cookie' || isSameOrigin(ctx)) return
  throw serviceError(
    'csrf',
    'a request with a cookie must come from the same origin, from one in http.cors.origins, or carry "X-Service-CSRF: 1"',
  )
}

/** Returns whether the request provably comes from a same-origin page and from a user action. */
export function isSameOrigin(ctx: Asking): boolean {
  // A prefetch is not a user action.
  if (/\bprefetch\b/i.test(ctx.get('Sec-Purpose') || ctx.get('Purpose'))) return false
  // Pages of other origins can send this header only if CORS allows it.
  if (ctx.get('X-Service-CSRF') === '1') return true
  const site = ctx.get('Sec-Fetch-Site')
  if (site === 'same-origin' || site === 'none') return true
  const origin = ctx.get('Origin')
  // Sec-Fetch-Site takes precedence: the browser knows the scheme, even behind a proxy that does not forward it.
  return ctx.state.origins.has(origin) || (site === '' && origin !== '' && origin === ownOrigin(ctx))
}

/**
 * Returns the origin that the client addressed.
 * @returns undefined when unknown: behind a proxy that is not trusted or sends no `X-Forwarded-Proto`
 */
function ownOrigin({ req, state }: Asking): string | undefined {
  const trusted = state.trustsPeer(req)
  const hidden = req.headers['x-forwarded-proto'] !== undefined || state.limits.socket !== undefined
  return !trusted && hidden ? undefined : addressedUrl(req, trusted)?.origin
}

type Asking = Pick<Exchange, 'get' | 'req' | 'state'>

/**
 * Requires a JSON content type from cookie callers, because a form on any page can send the other types that curl and
 * small clients use for JSON.
 * @throws ServiceError 415 unsupported-media-type
 */
export function requireJson(ctx: Pick<Exchange, 'get' | 'state'>, session: Session): void {
  if (session.via !== 'cookie') return
  const type = ctx.get('Content-Type').split(';')[0]!.trim().toLowerCase()
  if (type === 'application/json') return
  throw serviceError('unsupported-media-type', 'the Content-Type should be application/json')
}

/** Goes on with a value as soon as it is known. */
export const after = <T, R>(value: Eventual<T>, use: (value: T) => Eventual<R>): Eventual<R> =>
  value instanceof Promise ? value.then(use) : use(value)
