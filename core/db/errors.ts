import { isGeo, type SqlType } from '../ir.js'
import pg from 'pg'
import { ServiceError, serviceError, unavailable } from '../errors.js'
import { isListOfArrays, type Param, type Statement } from '../sql/bind.js'
import { messageFor, NEUTRAL, type Reader } from './disclosure.js'
import { DATA, describe, isConnectionError, meaningOf, noConnection } from './sqlstates.js'

/** The dialect of database errors in a client's API. */
export type Dialect = 'alpha' | 'modern'

/**
 * Converts a database error for a client. Errors that are the server's fault stay plain errors, which become 500.
 * @param reader the caller that gets the error; absent: the message discloses nothing about the database
 * @param statement the failed statement, to find the path of a value that PostgreSQL could not parse
 */
export function clientError(
  error: unknown,
  reader?: Reader,
  statement?: Pick<Statement, 'params' | 'calls'>,
  dialect: Dialect = 'alpha',
): unknown {
  if (error instanceof ServiceError) return error
  if (!(error instanceof pg.DatabaseError) || error.code === undefined) {
    return isConnectionError(error) ? unavailable(error) : error
  }
  const more = { cause: error, internal: describe(error) }
  const params = statement?.params ?? []
  const ownValue = unreadable(error, params) !== undefined
  const isInput = placeOf(error) !== undefined || isOfPostgis(error) || isOfHstore(error)
  const found = meaningOf(error)
  const meaning = isInput && (found.is === 'bug' || found.is === 'statement') ? DATA : found
  switch (meaning.is) {
    case 'stopped':
      return timeoutOrCancel(error, more)
    case 'too-long':
      return serviceError('timeout', 'the transaction took longer than the database allows', '$', more)
    case 'lock':
      return serviceError('lock-timeout', 'waited too long for a lock (database.lockTimeoutMs)', '$', more)
    case 'conflict':
      return serviceError('concurrent-update', 'serialization failure due to concurrent update', '$', more)
    case 'read-only':
      return serviceError('read-only', READ_ONLY, '$', { ...more, retryAfter: 1 })
    case 'trouble':
    case 'lost':
      return noConnection(error)
    case 'bug':
    case 'statement':
      return error
    case 'data':
      break
  }
  const origin = { ownValue, calls: statement?.calls === true }
  const prefix = error.constraint === 'svc_refuse' ? '' : (meaning.prefix ?? '')
  const message = messageFor(error, prefix, reader, origin)
  const says = message !== NEUTRAL
  const code = dialect === 'alpha' ? 'postgres-error' : says ? meaning.modern : 'data-exception'
  return serviceError(code, message, says ? pathOf(error, params) : '$.args', more)
}

const READ_ONLY = 'the database is read-only, as a standby is'

function timeoutOrCancel(error: pg.DatabaseError, more: { cause: unknown; internal: unknown }): ServiceError {
  if (error.message.includes('statement timeout')) {
    return serviceError(
      'timeout',
      'the statement took longer than the server allows (database.statementTimeoutMs)',
      '$',
      more,
    )
  }
  return serviceError('postgres-error', error.message, '$.args', more)
}

/**
 * Returns the index of an invalid parameter. PostgreSQL names it in the context: `unnamed portal parameter $2 = '...'`.
 */
function placeOf({ where = '' }: pg.DatabaseError): number | undefined {
  const place = /^(?:unnamed portal|portal "[^"]*") parameter \$(\d+)/m.exec(where)?.[1]
  return place === undefined ? undefined : Number(place)
}

/** Returns the caller's value that PostgreSQL could not parse. */
function unreadable(error: pg.DatabaseError, params: readonly Param[]): Given | undefined {
  const place = placeOf(error)
  const param = place === undefined ? undefined : params[place - 1]
  return isGiven(param) ? param : undefined
}

type Given = Extract<Param, { readonly kind: 'value' | 'composed' | 'const' }> & { readonly path: string }
const isGiven = (param: Param | undefined): param is Given =>
  (param?.kind === 'value' || param?.kind === 'composed' || param?.kind === 'const') && param.path !== undefined

function pathOf(error: pg.DatabaseError, params: readonly Param[]): string {
  const param = unreadable(error, params)
  if (param) return param.path
  if (isOfPostgis(error)) return pathOfThose(params, (type) => isGeo(type.element ?? type))
  return UNREADABLE.has(error.code ?? '') ? pathOfThose(params, isReadLate) : '$.args'
}

/** SQLSTATEs of a text that is no value of a type: invalid, a date that is invalid, and one that is out of range. */
const UNREADABLE: ReadonlySet<string> = new Set(['22P02', '22007', '22008'])

/** Returns whether the statement reads a value of a type from a text, so that PostgreSQL does not name the parameter. */
const isReadLate = (type: SqlType): boolean =>
  isListOfArrays(type) || type.kind === 'row' || type.element?.kind === 'row'

/** Returns the path of the only value of such a type, or the path of all. */
function pathOfThose(params: readonly Param[], isOne: (type: SqlType) => boolean): string {
  const paths = params.flatMap((param) => {
    if (param.kind === 'rows') return param.columns.some(({ type }) => isOne(type)) ? ['$.args.objects'] : []
    return isGiven(param) && isOne(param.type) ? [param.path] : []
  })
  const [path = '$.args'] = paths
  return paths.length > 1 ? '$.args' : path
}

/**
 * Detects errors of PostGIS. It reports most invalid geometries as XX000, "internal error": those it cannot transform,
 * compare or write as GeoJSON. Only the source file distinguishes them from internal errors of PostgreSQL.
 */
function isOfPostgis({ code, file = '' }: pg.DatabaseError): boolean {
  return (code === 'XX000' || code?.startsWith('22') === true) && POSTGIS_FILE.test(file)
}
const POSTGIS_FILE = /(^|\/)(lwgeom|geography|gserialized|shared_gserialized)\w*\.c$/

/** Detects values that hstore cannot read. Before PostgreSQL 16 it reports them as an internal error. */
const isOfHstore = ({ code, file = '' }: pg.DatabaseError): boolean => code === 'XX000' && file.endsWith('hstore_io.c')

/** Returns whether the snapshot is stale: it and the database disagree on a name, and the client is not to blame. */
export function isStale(error: unknown): boolean {
  const cause = error instanceof ServiceError ? error.cause : error
  return cause instanceof pg.DatabaseError && STALE.has(cause.code ?? '')
}
const STALE = new Set(['42P01', '42703', '42883', '42804'])

/**
 * Returns whether a read may have failed because it ran on a standby: it was cancelled, because what it reads was removed on
 * the primary, or it reads what a standby does not have, such as an unlogged table. The language of the message may be any.
 */
export function isOfRecovery(error: unknown): boolean {
  const cause = error instanceof ServiceError ? error.cause : error
  return cause instanceof pg.DatabaseError && OF_RECOVERY.has(cause.code ?? '')
}
const OF_RECOVERY = new Set(['40001', '40P01', '0A000', '55000'])

/** Returns whether to retry the whole transaction, because it was rolled back. */
export function isConflict(error: unknown): boolean {
  if (error instanceof ServiceError && error.code === 'concurrent-update') return true
  const cause = error instanceof ServiceError ? error.cause : error
  return cause instanceof pg.DatabaseError && (cause.code === '40001' || cause.code === '40P01')
}
