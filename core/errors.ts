/**
 * The only error whose text a client may see. Anything else that is thrown becomes a 500 with a request id, and its
 * text goes to the log alone.
 */
export class ServiceError extends Error {
  override readonly name = 'ServiceError'
  /** HTTP status. */
  readonly status: number
  /** Stable, documented; see `core/README.md`. */
  readonly code: string
  /** Where in the request as the client sent it, e.g. `$.args.where.author.$or[1].id`. */
  readonly path: string
  /** Shown to the role `admin` only, and to the log: PostgreSQL's own words. */
  readonly internal?: unknown
  /** Seconds for a `Retry-After` header. */
  readonly retryAfter?: number

  constructor(status: number, code: string, message: string, path = '$', more: ErrorDetails = {}) {
    super(brief(message), more.cause === undefined ? undefined : { cause: more.cause })
    this.status = status
    this.code = code
    this.path = brief(path)
    if (more.internal !== undefined) this.internal = more.internal
    if (more.retryAfter !== undefined) this.retryAfter = more.retryAfter
  }

  /** The same error, its path continued from where an enclosing request holds this one: `$.args[2]` + `$.args.where`. */
  under(prefix: string): ServiceError {
    return new ServiceError(this.status, this.code, this.message, prefix + this.path.slice(1), {
      cause: this.cause ?? this,
      ...(this.internal === undefined ? {} : { internal: this.internal }),
      ...(this.retryAfter === undefined ? {} : { retryAfter: this.retryAfter }),
    })
  }
}

/** A name that a client made up may have millions of characters; an error repeats so many of them. */
const MAX_TEXT = 2000
const brief = (text: string): string => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}...` : text)

interface ErrorDetails {
  readonly cause?: unknown
  readonly internal?: unknown
  readonly retryAfter?: number
}

/** Continues a JSON path: `.key` where the key is a plain word, `['a.b']` otherwise, `[0]` for an index. */
export function at(path: string, key: string | number): string {
  if (typeof key === 'number') return `${path}[${key}]`
  return /^[A-Za-z_$][\w$-]*$/.test(key) ? `${path}.${key}` : `${path}['${key.replaceAll("'", "\\'")}']`
}

/** 400: the request has the wrong shape. */
export const parseFailed = (message: string, path: string) => new ServiceError(400, 'parse-failed', message, path)
/** 400: the shape is right and the meaning is not. */
export const unexpectedPayload = (message: string, path: string) =>
  new ServiceError(400, 'unexpected-payload', message, path)
/** 400: a name that nothing has. */
export const notExists = (message: string, path: string) => new ServiceError(400, 'not-exists', message, path)
/** 400: the role may not. Never 403, which is kept for a role that the caller does not hold. */
export const permissionDenied = (message: string, path: string) =>
  new ServiceError(400, 'permission-denied', message, path)
