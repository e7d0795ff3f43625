import { isAdmin } from '../session.js'
import type pg from 'pg'
import { type Catalog, maskOf, permissionsOf, tableKey } from '../catalog/catalog.js'
import type { Logger } from '../observe/log.js'
import type { Op, TableRef } from '../ir.js'

/** The reader of a database error. */
export interface Reader {
  readonly role: string
  readonly catalog: Catalog
  /** Kind of the failed operation; absent for a whole transaction. */
  readonly kind?: Op['kind'] | undefined
  /** Logs PostgreSQL's own message when the reader gets a general one. */
  readonly log?: (() => Logger) | undefined
}

/** Facts about the origin of an error. */
interface Origin {
  /** Whether PostgreSQL could not parse a value of the caller. */
  readonly ownValue: boolean
  /** Whether the statement calls functions of the database. */
  readonly calls: boolean
}

/**
 * Returns the message of a database error for its reader. PostgreSQL quotes values and names from its current work, so
 * only admins always get the original message. Other readers get it where it cannot reveal hidden data. All errors of
 * reads have the same message, because even the kind of error reveals something.
 * @param prefix put before PostgreSQL's own message
 */
export function messageFor(
  error: pg.DatabaseError,
  prefix: string,
  reader: Reader | undefined,
  origin: Origin,
): string {
  if ((reader && isAdmin(reader)) || origin.ownValue) return prefix + error.message
  if (reader && !reads(reader) && isHarmless(error, reader, origin)) return prefix + error.message
  const { code: state, message, detail, where } = error
  reader?.log?.().info({ state, message, detail, where }, 'the caller got a general message for this database error')
  const general = reader && reads(reader) ? undefined : GENERAL[state ?? '']
  return general === undefined ? NEUTRAL : prefix + general
}

const reads = ({ kind }: Reader): boolean => kind === 'read' || kind === 'count' || kind === 'roots'

/** Message that does not reveal even the kind of error. */
export const NEUTRAL = 'the database could not evaluate the request; see the server log for this request id'

const GENERAL: Readonly<Record<string, string>> = {
  '23001': 'other rows refer to this one',
  '23502': 'a required column has no value',
  '23503': 'the row refers to one that does not exist, or other rows refer to it',
  '23505': 'a row with the same values already exists',
  '23514': 'the row violates a rule of its table',
  '23P01': 'the row conflicts with another one',
  '42501': "the database's own permissions refused the request",
  '44000': 'the row does not satisfy the condition of its view',
}

/** Returns whether the message of a failed write contains only what the reader sent or may know. */
function isHarmless(error: pg.DatabaseError, reader: Reader, { calls }: Origin): boolean {
  const { code: state = '', constraint } = error
  if (constraint === 'svc_refuse') return true
  if (state.startsWith('23') && error.table !== undefined) return isKnown(error, reader)
  if (calls) return false
  // Raised deliberately by a trigger or a function.
  if (error.routine === 'exec_stmt_raise') return true
  // Other errors inside a function quote the values it was working on, and so do other expressions.
  if (error.where !== undefined || !(/^2[12]/.test(state) || state === '42P10')) return false
  return !error.message.includes('"') || reader.kind === 'insert'
}

/** Returns whether the reader may know all columns of a violated constraint. */
function isKnown({ schema = '', table: name = '', column, constraint }: pg.DatabaseError, reader: Reader): boolean {
  const { catalog } = reader
  const table = catalog.tables.get(tableKey({ schema, name }))
  if (!table) return false
  if (column !== undefined) return knows(reader, table, [column])
  const key =
    table.keys.find((each) => each.name === constraint) ?? table.rules.find((each) => each.name === constraint)
  if (key) return knows(reader, table, key.columns)
  const foreign = table.foreignKeys.find((each) => each.name === constraint)
  return !!foreign && knows(reader, table, foreign.columns) && knows(reader, foreign.table, foreign.remoteColumns)
}

function knows({ role, catalog }: Reader, ref: TableRef, columns: readonly string[]): boolean {
  const table = catalog.tables.get(tableKey(ref))
  const permissions = table && permissionsOf(table, role)
  const { select, insert, update } = permissions ?? {}
  const seen = select?.columns.filter((column) => maskOf(select, column) === undefined) ?? []
  const known = [...seen, ...(insert?.columns ?? []), ...(update?.columns ?? [])]
  return columns.length > 0 && columns.every((column) => known.includes(column))
}
