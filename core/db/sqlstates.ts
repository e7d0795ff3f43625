import pg from 'pg'
import { type ErrorCode, ServiceError, serviceError, unavailable } from '../errors.js'

/** What an error of PostgreSQL means for the request that got it. */
type Meaning =
  /** The request, or code of the database that it called, is wrong: 400. */
  | {
      readonly is: 'data'
      /** Code in the modern dialect; the alpha dialect uses `postgres-error`. */
      readonly modern: ErrorCode
      readonly prefix?: string
    }
  /** Our own statement is wrong, which is a bug, unless a function of the database ran the one that failed. */
  | { readonly is: 'statement' }
  /** The database answers, and cannot do this now: 503. The connection is as good as before. */
  | { readonly is: 'trouble'; readonly says: string; readonly retryAfter: number }
  /** The connection is lost, or was never one: 503. */
  | { readonly is: 'lost' }
  | { readonly is: 'bug' | 'conflict' | 'lock' | 'read-only' | 'stopped' | 'too-long' }

const data = (modern: ErrorCode, prefix?: string): Meaning => ({ is: 'data', modern, ...(prefix ? { prefix } : {}) })
const trouble = (says: string, retryAfter: number): Meaning => ({ is: 'trouble', says, retryAfter })
const STATEMENT: Meaning = { is: 'statement' }
export const DATA = data('data-exception')
const REFERRED = 'Can not delete or update due to data being referred. '
const FOREIGN = trouble('the database cannot reach another server that one of its tables needs', 5)

/** By SQLSTATE, or by its class, which is its first two characters. Has every class of PostgreSQL. */
const MEANINGS: Readonly<Record<string, Meaning>> = {
  '00': DATA,
  '01': DATA,
  '02': DATA,
  '03': STATEMENT,
  '08': { is: 'lost' },
  '09': DATA,
  '0A': data('not-supported'),
  '0B': STATEMENT,
  '0F': STATEMENT,
  '0L': STATEMENT,
  '0P': STATEMENT,
  '0Z': STATEMENT,
  '10': DATA,
  '20': DATA,
  '21': DATA,
  '22': DATA,
  '22025': data('bad-request'),
  '23': data('constraint-violation'),
  '23001': data('constraint-violation', REFERRED),
  '23501': data('constraint-violation', REFERRED),
  '23502': data('constraint-violation', 'Not-NULL violation. '),
  '23503': data('constraint-violation', 'Foreign key violation. '),
  '23505': data('constraint-violation', 'Uniqueness violation. '),
  '23514': data('permission-error', 'Check constraint violation. '),
  '23P01': data('constraint-violation', 'Exclusion violation. '),
  '24': STATEMENT,
  '25': STATEMENT,
  '25001': data('not-supported'),
  '25006': { is: 'read-only' },
  // The database ended the session: its transaction was idle, or took too long.
  '25P03': { is: 'too-long' },
  '25P04': { is: 'too-long' },
  '26': STATEMENT,
  '27': DATA,
  '28': STATEMENT,
  '2B': STATEMENT,
  '2D': data('not-supported'),
  '2F': DATA,
  '34': STATEMENT,
  '38': DATA,
  '39': DATA,
  '3B': STATEMENT,
  '3D': STATEMENT,
  '3F': STATEMENT,
  '40': STATEMENT,
  '40001': { is: 'conflict' },
  '40002': data('constraint-violation'),
  '40P01': { is: 'conflict' },
  '42': STATEMENT,
  '42501': data('permission-error'),
  // A trigger of the user's database that uses a missing name; our own SQL was compiled afresh before.
  '42703': DATA,
  '42804': DATA,
  '42883': DATA,
  '42P01': DATA,
  '42704': data('constraint-error'),
  '42P10': data('constraint-error'),
  // A relationship over columns whose type has its operators in a schema outside of the search path.
  '42725': DATA,
  // Columns whose collations conflict.
  '42P21': DATA,
  '42P22': DATA,
  '44': data('permission-error'),
  '53': trouble('the database lacks resources for this request', 5),
  '53100': trouble('the disk of the database is full', 30),
  '53200': trouble('the database is out of memory', 5),
  '53300': trouble('the database accepts no more connections', 1),
  '53400': trouble('the request needs more than a limit in the configuration of the database allows', 30),
  '54': DATA,
  '55': STATEMENT,
  '55000': data('not-supported'),
  '55P03': { is: 'lock' },
  '57': STATEMENT,
  '57014': { is: 'stopped' },
  '57P01': { is: 'lost' },
  '57P02': { is: 'lost' },
  '57P03': { is: 'lost' },
  '57P04': { is: 'lost' },
  '57P05': { is: 'lost' },
  '58': trouble('the database cannot read or write its files', 30),
  '72': trouble('the database no longer has the old rows that this request must see', 1),
  F0: trouble('the configuration of the database is wrong', 30),
  HV: DATA,
  HV00N: FOREIGN,
  P0: DATA,
  XX: { is: 'bug' },
}

/**
 * Returns what an error of PostgreSQL means. Two things decide beside the SQLSTATE. A statement that fails inside a
 * function is the function's, and so is a class that PostgreSQL does not have. And a lost connection that a server with
 * source files reports is that of a foreign table: a pooler has none, and PostgreSQL reports those to its own clients
 * by ending them.
 */
export function meaningOf({ code = '', where, position, file, severity }: pg.DatabaseError): Meaning {
  const meaning = MEANINGS[code] ?? MEANINGS[code.slice(0, 2)] ?? DATA
  if (OF_FOREIGN_SERVER.test(code) && file !== undefined && severity !== 'FATAL') return FOREIGN
  if (meaning.is !== 'statement') return meaning
  // A value of a type with its own grammar is a syntax error, and one of regclass an undefined name. Those of our own
  // statements have a position and no context.
  return where !== undefined || (/^(42|3F)/.test(code) && position === undefined) ? DATA : meaning
}
const OF_FOREIGN_SERVER = /^08(001|003|006)$/

/** Returns the error of the driver that an error is about. */
function databaseErrorOf(error: unknown): pg.DatabaseError | undefined {
  const cause = error instanceof ServiceError ? error.cause : error
  return cause instanceof pg.DatabaseError && cause.code !== undefined ? cause : undefined
}

/** Returns whether the database has trouble, which another server of it may not have. */
export const isTrouble = (error: unknown): boolean => {
  const known = databaseErrorOf(error)
  return known !== undefined && meaningOf(known).is === 'trouble'
}

/** Returns whether the connection failed rather than the statement, so that it must not return to the pool. */
export function isConnectionError(error: unknown): boolean {
  const known = databaseErrorOf(error)
  if (known) return known.code === '53300' || LOST.has(meaningOf(known).is)
  const cause = error instanceof ServiceError ? error.cause : error
  return (
    cause instanceof Error && !(cause instanceof ServiceError) && CONNECTION_LOST.test(cause.message + codeOf(cause))
  )
}
/** A read-only connection may be that of a former primary. */
const LOST = new Set<Meaning['is']>(['lost', 'read-only'])
const CONNECTION_LOST =
  /Connection terminated|Client has encountered|not queryable|timeout|ECONN|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENOENT|EHOSTUNREACH/i

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : '')

/** Returns the 503 of a request that got no connection, or lost it. @param message for what is no error of PostgreSQL */
export function noConnection(cause: unknown, message?: string): ServiceError {
  const known = databaseErrorOf(cause)
  const meaning = known && meaningOf(known)
  const internal = known && describe(known)
  if (meaning?.is === 'trouble')
    return serviceError('unavailable', meaning.says, '$', { cause, internal, retryAfter: meaning.retryAfter })
  // The login, the database or the host is one that PostgreSQL refuses.
  const refused = meaning && meaning.is !== 'lost' ? REFUSED : undefined
  return unavailable(cause, message ?? refused, internal)
}
const REFUSED = 'the database refuses the connections of this server'

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
