import { isGeo } from '../plan/ir.js'
import pg from 'pg'
import { type ErrorCode, ServiceError, serviceError, unavailable } from '../errors.js'
import type { Param, Statement } from '../sql/bind.js'
import { isConnectionError } from './database.js'
import { messageFor, NEUTRAL, type Reader } from './disclosure.js'

/** The dialect of database errors in a client's API. */
export type Dialect = 'alpha' | 'modern'

interface Meaning {
  readonly prefix?: string
  /** Code in the modern dialect; the alpha dialect uses `postgres-error`. */
  readonly modern: ErrorCode
}

/** By SQLSTATE, most specific first: five characters, or the two of its class. */
const MEANINGS: Record<string, Meaning> = {
  '23001': { prefix: 'Can not delete or update due to data being referred. ', modern: 'constraint-violation' },
  '23501': { prefix: 'Can not delete or update due to data being referred. ', modern: 'constraint-violation' },
  '23502': { prefix: 'Not-NULL violation. ', modern: 'constraint-violation' },
  '23503': { prefix: 'Foreign key violation. ', modern: 'constraint-violation' },
  '23505': { prefix: 'Uniqueness violation. ', modern: 'constraint-violation' },
  '23514': { prefix: 'Check constraint violation. ', modern: 'permission-error' },
  '23P01': { prefix: 'Exclusion violation. ', modern: 'constraint-violation' },
  '22025': { modern: 'bad-request' },
  '42P10': { modern: 'constraint-error' },
  '42704': { modern: 'constraint-error' },
  '42501': { modern: 'permission-error' },
  // A trigger of the user's database that uses a missing name; our own SQL was compiled afresh before.
  '42P01': { modern: 'data-exception' },
  '42703': { modern: 'data-exception' },
  '42883': { modern: 'data-exception' },
  '42804': { modern: 'data-exception' },
  // A relationship over columns whose type has its operators in a schema outside of the search path.
  '42725': { modern: 'data-exception' },
  // Columns whose collations conflict.
  '42P21': { modern: 'data-exception' },
  '42P22': { modern: 'data-exception' },
  '25001': { modern: 'not-supported' },
  '55000': { modern: 'not-supported' },
  '21': { modern: 'data-exception' },
  '22': { modern: 'data-exception' },
  '23': { modern: 'constraint-violation' },
  '2D': { modern: 'not-supported' },
  '44': { modern: 'permission-error' },
  '54': { modern: 'data-exception' },
  '0A': { modern: 'not-supported' },
  P0: { modern: 'data-exception' },
  '38': { modern: 'data-exception' },
  '39': { modern: 'data-exception' },
}

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
  const state = error.code
  const more = { cause: error, internal: describe(error) }
  if (state === '57014') return timeoutOrCancel(error, more)
  if (state === '55P03') return serviceError('lock-timeout', 'waited too long for a lock', '$', more)
  if (state === '40001' || state === '40P01') {
    return serviceError('concurrent-update', 'serialization failure due to concurrent update', '$', more)
  }
  if (state === '25006') return serviceError('read-only', READ_ONLY, '$', { ...more, retryAfter: 1 })
  if (/^(08|53|57P)/.test(state)) return unavailable(error)
  const params = statement?.params ?? []
  const ownValue = unreadable(error, params) !== undefined
  const isData = placeOf(error) !== undefined || isOfPostgis(error) || isOfInput(error) || isUsersOwn(state)
  const meaning = MEANINGS[state] ?? MEANINGS[state.slice(0, 2)] ?? (isData ? DATA : undefined)
  if (!meaning) return error
  const origin = { ownValue, calls: statement?.calls === true }
  const prefix = error.constraint === 'svc_refuse' ? '' : (meaning.prefix ?? '')
  const message = messageFor(error, prefix, reader, origin)
  const says = message !== NEUTRAL
  const code = dialect === 'alpha' ? 'postgres-error' : says ? meaning.modern : 'data-exception'
  return serviceError(code, message, says ? pathOf(error, params) : '$.args', more)
}

const READ_ONLY = 'the database is read-only, as a standby is'
const DATA: Meaning = { modern: 'data-exception' }
/** Error classes of PostgreSQL. A trigger may raise any other class with a message of its author. */
const CLASSES = new Set(
  '00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 10 20 21 22 23 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 44 53 54 55 57 58 72 F0 HV P0 XX'.split(
    ' ',
  ),
)
const isUsersOwn = (state: string): boolean => !CLASSES.has(state.slice(0, 2))

function timeoutOrCancel(error: pg.DatabaseError, more: { cause: unknown; internal: unknown }): ServiceError {
  if (error.message.includes('statement timeout')) {
    return serviceError('timeout', 'the statement took longer than the server allows', '$', more)
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
function unreadable(error: pg.DatabaseError, params: readonly Param[]): Param | undefined {
  const place = placeOf(error)
  const param = place === undefined ? undefined : params[place - 1]
  return param?.kind === 'value' ? param : undefined
}

function pathOf(error: pg.DatabaseError, params: readonly Param[]): string {
  const param = unreadable(error, params)
  if (param?.kind === 'value') return param.path
  return isOfPostgis(error) ? pathOfGeometry(params) : '$.args'
}

/** Returns the path of an invalid geometry. PostGIS does not name it: returns the only one, or the path of all. */
function pathOfGeometry(params: readonly Param[]): string {
  const paths = params.flatMap((param) => {
    if (param.kind === 'rows') return param.columns.some(({ type }) => isGeo(type)) ? ['$.args.objects'] : []
    return param.kind === 'value' && isGeo(param.type.element ?? param.type) ? [param.path] : []
  })
  const [path = '$.args'] = paths
  return paths.length > 1 ? '$.args' : path
}

/**
 * Detects errors of PostGIS. It reports most invalid geometries as XX000, "internal error": those it cannot transform,
 * compare or write as GeoJSON. Only the source file distinguishes them from internal errors of PostgreSQL.
 */
export function isOfPostgis({ code, file = '' }: pg.DatabaseError): boolean {
  return (code === 'XX000' || code?.startsWith('22') === true) && POSTGIS_FILE.test(file)
}
const POSTGIS_FILE = /(^|\/)(lwgeom|geography|gserialized|shared_gserialized)\w*\.c$/

/**
 * Detects invalid input values. Types with their own grammar (ltree, tsquery, jsonpath) report a syntax error, and
 * those for names (regclass, regtype, regnamespace) an undefined name. PostgreSQL uses the same classes for wrong
 * statements. Only errors about input have a position and no context. Before PostgreSQL 16, hstore reports XX000.
 */
const isOfInput = ({ code = '', position, where, file = '' }: pg.DatabaseError): boolean =>
  (/^(42|3F)/.test(code) && (position === undefined || where !== undefined)) ||
  (code === 'XX000' && file.endsWith('hstore_io.c'))

/**
 * Returns the details of an error, for the admin and the log.
 * @param sql the text that failed, to add the line and the column
 */
export function describe(error: pg.DatabaseError, sql?: string): Record<string, string> {
  const place = sql === undefined ? undefined : placeIn(sql, error)
  const fields = {
    status_code: error.code,
    message: error.message,
    description: error.detail,
    hint: error.hint,
    position: error.position,
    line: place && String(place.line),
    column: place && String(place.column),
  }
  return Object.fromEntries(Object.entries(fields).filter((field): field is [string, string] => field[1] !== undefined))
}

/** Returns where in `sql` an error is, both from 1. PostgreSQL counts characters, JavaScript UTF-16 units. */
export function placeIn(sql: string, { position }: pg.DatabaseError): { line: number; column: number } | undefined {
  if (position === undefined) return undefined
  let [line, column, left] = [1, 1, Number(position) - 1]
  for (const character of sql) {
    if (left-- <= 0) break
    column++
    if (character === '\n') [line, column] = [line + 1, 1]
  }
  return { line, column }
}

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
