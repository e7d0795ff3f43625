import { didYouMean } from './wording.js'

/**
 * Every error code that a client may see, with its status and meaning. The first status of a code is the usual one.
 * Third-party plugins may throw a `ServiceError` with their own codes. A test compares the table in `core/README.md`
 * with this one.
 */
export const ERRORS = {
  'invalid-json': [400, 'The body is not JSON, or not UTF-8.'],
  'parse-failed': [
    400,
    'The request has the wrong shape: a missing key, a value of the wrong type, a duplicate key, a lone surrogate, U+0000, too much nesting.',
  ],
  'unexpected-payload': [400, 'The shape is right and the meaning is not; an unknown key.'],
  'not-exists': [
    400,
    'A table, column, relationship or template does not exist. Except for templates, roles other than `admin` get `permission-denied` instead.',
  ],
  'permission-denied': [400, 'The permissions of the role do not allow it.'],
  'permission-error': [400, 'GraphQL: a row that would be written does not pass a check.'],
  'access-denied': [
    [400, 401, 403],
    '400: the operation is for `admin` only. 401: the secret or token is wrong. 403: the caller does not hold the requested role, or a rule or hook denies access to a file.',
  ],
  'not-found': [
    [404, 400],
    '404: nothing answers at this path, or the file, message or upload does not exist. 400: a session variable that a permission needs is missing, or `attach_file` finds no pending upload of the caller.',
  ],
  'already-exists': [400, 'A permission, relationship or template of this name already exists.'],
  'already-tracked': [400, 'The table or function is already tracked.'],
  'already-untracked': [400, 'The table or function is not tracked.'],
  'dependency-error': [400, 'Metadata depends on what would be dropped or changed. Drop it first, or use `cascade`.'],
  'constraint-error': [400, 'No foreign key or unique constraint matches.'],
  'not-supported': [400, 'The request asks for something that this server does not do.'],
  'postgres-error': [
    400,
    'Query API: a constraint is violated, PostgreSQL or PostGIS cannot read a value, or the SQL of `run_sql` fails.',
  ],
  'constraint-violation': [400, 'GraphQL: a constraint is violated.'],
  'data-exception': [400, 'GraphQL: PostgreSQL cannot read or process a value.'],
  'bad-request': [400, 'GraphQL: a pattern has an invalid escape. Filestore: the request is invalid.'],
  'invalid-params': [400, 'An argument of a query template is missing, or is given twice and is not a list.'],
  'validation-failed': [
    400,
    'A GraphQL document or its variables are invalid, or exceed a limit of `plugins.graphql.limits`.',
  ],
  PERSISTED_QUERY_NOT_FOUND: [400, 'GraphQL: no document is stored under this hash. Send the document as well.'],
  'answer-too-large': [
    400,
    'Part of the answer is larger than `database.maxAnswerBytes`, or the whole than `idempotency.maxAnswerBytes`.',
  ],
  'malformed-authorization-header': [400, 'The `Authorization` header is not `Bearer` and a token.'],
  invalid_payload: [400, 'Notify: the payload of a message is invalid.'],
  invalid_provider: [400, 'Notify: the provider cannot send templates.'],
  suppressed: [400, 'Notify: the address is suppressed, because mail to it bounced or its owner complained.'],
  not_allowed: [400, 'Notify: SMS to this number are not allowed (`plugins.notify.sms`).'],
  'missing-credentials': [401, 'The request has no credentials, and they are required.'],
  'invalid-token': [401, 'The token is invalid or has expired.'],
  unauthorized: [401, 'Notify: the caller is not `admin`. Events of a provider: the signature is wrong.'],
  csrf: [403, 'A request with a session cookie comes from another site.'],
  'method-not-allowed': [405, 'The path does not support the method; the `Allow` header lists those that it does.'],
  'not-acceptable': [406, 'The server has no representation that the `Accept` header allows.'],
  'request-timeout': [408, 'The headers or the body did not arrive in time, or too slowly.'],
  'concurrent-update': [409, 'A conflict with other transactions remains after three attempts.'],
  'lock-timeout': [409, 'The statement waited longer for a lock than `database.lockTimeoutMs`.'],
  'unmet-expectation': [409, 'A step of a bulk did not find what its `expect` says. Nothing of the bulk has happened.'],
  'idempotency-in-progress': [409, 'The first request with this `Idempotency-Key` is still in progress.'],
  'idempotency-key-reused': [409, 'The `Idempotency-Key` was used for another request.'],
  idempotency_key_reused: [409, 'Notify: the `Idempotency-Key` was used with another body.'],
  in_progress: [409, 'Notify: the first request with this `Idempotency-Key` is still being processed.'],
  not_failed: [409, 'Notify: only a message that has failed can be sent again.'],
  wrong_offset: [409, 'Resumable uploads: `Upload-Offset` is not the number of bytes that the server has.'],
  gone: [410, 'Resumable uploads: the upload has expired.'],
  'precondition-failed': [
    412,
    'The row, or the asset of a page, does not have the version of `expect` or `If-Match`. Nothing was changed.',
  ],
  precondition_failed: [412, 'Filestore: the file is not the version of `If-Match` or `If-None-Match`.'],
  'payload-too-large': [413, 'The body, or the file, is larger than allowed.'],
  quota_exceeded: [413, 'Filestore: the files of the user would exceed the quota.'],
  'unsupported-media-type': [415, 'The `Content-Type` or `Content-Encoding` is not supported.'],
  'expectation-failed': [417, 'The `Expect` header is not `100-continue`.'],
  'unknown-host': [421, 'The `Host` header is not one of `http.hosts`.'],
  locked: [423, 'Resumable uploads: another request is writing to the upload.'],
  'too-many-failures': [429, 'Too many wrong credentials from this address.'],
  'too-many-requests': [
    429,
    'The caller has used its share of something; the message names the setting. [Limits of callers](http/README.md#limits-of-callers) lists them.',
  ],
  too_many_uploads: [429, 'Filestore: the user has too many unfinished resumable uploads, or too many pending ones.'],
  too_many: [429, 'Notify: this number, or all numbers together, got as many SMS as allowed in a day.'],
  'headers-too-large': [431, 'The headers are longer than `http.maxHeaderBytes`.'],
  'too-many-headers': [431, 'The request has more headers than `http.maxHeaders`.'],
  checksum_mismatch: [460, 'Resumable uploads: the bytes do not match `Upload-Checksum`.'],
  'client-gone': [499, 'The client closed the connection; only the log shows this code.'],
  unexpected: [500, 'A bug. The body contains the request id, and the log contains the stack trace.'],
  fatal_internal_error: [500, 'Filestore: an internal error, such as a file that is missing from storage.'],
  response_changed: [500, 'Notify: the provider answered something unexpected.'],
  default_not_found: [500, 'Notify: no default provider is set.'],
  config_not_found: [500, 'Notify: the default provider is not configured.'],
  'coding-not-supported': [501, 'The `Transfer-Encoding` is not `chunked`.'],
  'read-only': [503, 'The request writes, and the database is a standby. Send it to a server of the primary.'],
  unavailable: [
    503,
    'The database is down, all connections are busy, or it lacks disk space or memory; the message says which.',
  ],
  'too-busy': [503, 'The server handles `http.maxConcurrentRequests` requests already.'],
  'compile-failed': [503, 'The request could not be compiled in time (`compile.timeoutMs`).'],
  storage_unavailable: [503, 'Filestore: the store is full or cannot be reached.'],
  upload_lost: [503, 'Filestore: the upload took too long. Send it again.'],
  timeout: [
    504,
    'The statement or operation took longer than `database.statementTimeoutMs`, or than the role may (`database.roleTimeoutMs`).',
  ],
  'version-not-supported': [505, 'The request is not in HTTP/1.1 or HTTP/1.0.'],
} as const satisfies Record<string, readonly [status: number | readonly number[], meaning: string]>

export type ErrorCode = keyof typeof ERRORS

/**
 * An error whose message is safe to show to clients. Any other error becomes a 500 with a request id, and its message
 * appears only in the log.
 */
export class ServiceError extends Error {
  override readonly name = 'ServiceError'

  /**
   * @param status HTTP status
   * @param code stable and documented; for those of Rowhouse see `ERRORS` and `serviceError`
   * @param path location in the request as the client sent it, e.g. `$.args.where.author.$or[1].id`
   */
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly path: string = '$',
    { cause, internal, retryAfter, missing, denied, refusal }: ErrorDetails = {},
  ) {
    super(shorten(message), cause === undefined ? undefined : { cause })
    this.path = shorten(path)
    this.internal = internal
    this.retryAfter = retryAfter
    this.missing = missing
    this.denied = denied
    this.refusal = refusal
  }

  /** Details for the role `admin` and the log only: PostgreSQL's own message. */
  readonly internal?: unknown
  /** Seconds for a `Retry-After` header. */
  readonly retryAfter?: number
  /** The table that is not tracked. Only admins get such an error. @see core/data/untracked.ts */
  readonly missing?: TableName
  /** The permission that the role lacks, or that does not cover the request. Never sent. */
  readonly denied?: Permission
  /** Why the role is refused, for an admin who acts as it. @see core/inspect/refusals.ts */
  readonly refusal?: unknown

  /** Returns the same error with its path continued from an enclosing request: `$.args[2]` + `$.args.where`. */
  under(prefix: string): ServiceError {
    return this.moved(prefix + this.path.slice(1))
  }

  /** Returns the same error with another path. */
  moved(path: string): ServiceError {
    return this.with({ path })
  }

  /** Returns the same error with other parts. */
  with({ message = this.message, path = this.path, ...details }: ErrorParts): ServiceError {
    const { status, code, internal, retryAfter, missing, denied, refusal } = this
    const same = { cause: this.cause ?? this, internal, retryAfter, missing, denied, refusal }
    return new ServiceError(status, code, message, path, { ...same, ...details })
  }
}

/** Maximum length of a message or path, because a name in the request may have millions of characters. */
const MAX_TEXT = 2000
const shorten = (text: string): string => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}...` : text)

interface ErrorDetails {
  readonly cause?: unknown
  /** @see ServiceError.internal */
  readonly internal?: unknown
  /** Value of `Retry-After`, in seconds. */
  readonly retryAfter?: number
  /** @see ServiceError.missing */
  readonly missing?: TableName
  /** @see ServiceError.denied */
  readonly denied?: Permission
  /** @see ServiceError.refusal */
  readonly refusal?: unknown
}

interface ErrorParts extends ErrorDetails {
  readonly message?: string
  readonly path?: string
}

/** A role's permission for an action on a table. */
interface Permission {
  readonly table: TableName
  readonly action: 'select' | 'insert' | 'update' | 'delete'
}

interface TableName {
  readonly schema: string
  readonly name: string
}

/** Creates an error of the catalogue. @param details `status` only for a code with several */
export function serviceError(
  code: ErrorCode,
  message: string,
  path = '$',
  { status, ...details }: ErrorDetails & { readonly status?: number } = {},
): ServiceError {
  const [usual] = [ERRORS[code][0]].flat()
  return new ServiceError(status ?? (usual as number), code, message, path, details)
}

/** Runs `fn`. The paths of its errors begin at a place of the request. */
export function under<T>(path: string, fn: () => T): T {
  try {
    return fn()
  } catch (error) {
    throw error instanceof ServiceError ? error.under(path) : error
  }
}

/** Extends a JSON path: `.key` for a plain word, `['a.b']` for other keys, `[0]` for an index. */
export function at(path: string, key: string | number): string {
  if (typeof key === 'number') return `${path}[${key}]`
  return /^[A-Za-z_$][\w$-]*$/.test(key) ? `${path}.${key}` : `${path}['${key.replaceAll("'", "\\'")}']`
}

/** Returns whether a path equals another one or extends it. */
export const isUnder = (path: string, other: string): boolean =>
  path === other || path.startsWith(`${other}.`) || path.startsWith(`${other}[`)

export const parseFailed = (message: string, path: string) => serviceError('parse-failed', message, path)
export const unexpectedPayload = (message: string, path: string) => serviceError('unexpected-payload', message, path)
export const notExists = (message: string, path: string) => serviceError('not-exists', message, path)
/**
 * Returns a 400, never a 403, which means that the caller does not hold the role.
 * @param table the table whose permission for the action refuses the request
 */
export const permissionDenied = (
  message: string,
  path: string,
  table?: TableName,
  action: Permission['action'] = 'select',
): ServiceError => {
  const denied = table && { table: { schema: table.schema, name: table.name }, action }
  return serviceError('permission-denied', message, path, { denied })
}

export const unexpectedKey = (key: string, known: readonly string[], path: string): ServiceError =>
  unexpectedPayload(`unexpected key "${key}"${didYouMean(key, known)}`, at(path, key))

/** Returns the message of an error, or its code: that of several failed addresses has no message. */
export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message || String((error as { readonly code?: string }).code) : String(error)

/**
 * @param message defaults to one that `isOutage` recognises
 * @param internal PostgreSQL's own message, if it has one
 */
export const unavailable = (cause: unknown, message: string = AWAY, internal?: unknown): ServiceError =>
  serviceError('unavailable', message, '$', { cause, internal, retryAfter: 1 })

const AWAY = 'the database is not available right now'

/** Returns whether an error only says that the connection to the database is lost, or that there is none. */
export const isOutage = (error: unknown): boolean =>
  error instanceof ServiceError && error.code === 'unavailable' && error.message === AWAY
