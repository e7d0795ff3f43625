import { isAdmin } from '../session.js'
import type pg from 'pg'
import { type Catalog, tableKey } from '../catalog/catalog.js'
import type { Logger } from '../log.js'
import type { Op, TableRef } from '../plan/ir.js'

/** Who gets an error of the database. */
export interface Reader {
  readonly role: string
  readonly catalog: Catalog
  /** What failed; absent: a whole transaction. */
  readonly kind?: Op['kind'] | undefined
  /** Gets PostgreSQL's own words where the reader gets others. */
  readonly log?: (() => Logger) | undefined
}

/** What is known of the error's origin. */
interface Origin {
  /** A value of the caller's that PostgreSQL could not read. */
  readonly ownValue: boolean
  /** The statement calls functions of the database. */
  readonly calls: boolean
}

/**
 * The text of a database error for its reader. PostgreSQL quotes values and names of whatever it was working on: for anybody
 * but an admin its words are kept only where they cannot speak of anything hidden. A read has one text for all errors, because
 * which one it was tells something too.
 * @param prefix of PostgreSQL's own words
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
  reader?.log?.().info({ state, message, detail, where }, 'a database error was answered in general words')
  const general = reader && reads(reader) ? undefined : GENERAL[state ?? '']
  return general === undefined ? NEUTRAL : prefix + general
}

const reads = ({ kind }: Reader): boolean => kind === 'read' || kind === 'count' || kind === 'roots'

/** Says nothing of what went wrong, not even its kind. */
export const NEUTRAL =
  'the database could not evaluate the request; the log of the server says why, under the request id'

const GENERAL: Readonly<Record<string, string>> = {
  '23001': 'other rows refer to this one',
  '23502': 'a column that needs a value has none',
  '23503': 'the row refers to one that does not exist, or other rows refer to it',
  '23505': 'a row with the same values exists',
  '23514': 'the row breaks a rule of its table',
  '23P01': 'the row conflicts with another one',
  '42501': "the database's own permissions refused the request",
  '44000': 'the row would not be part of the view that it is written to',
}

/** Whether the words of an error of a write speak only of what the reader sent or may know. */
function isHarmless(error: pg.DatabaseError, reader: Reader, { calls }: Origin): boolean {
  const { code: state = '', constraint } = error
  if (constraint === 'svc_refuse') return true
  if (state.startsWith('23') && error.table !== undefined) return isKnown(error, reader)
  if (calls) return false
  // A trigger or a function says something on purpose.
  if (error.routine === 'exec_stmt_raise') return true
  // Otherwise what goes wrong inside of one quotes whatever it was working on; other expressions quote values.
  if (error.where !== undefined || !(/^2[12]/.test(state) || state === '42P10')) return false
  return !error.message.includes('"') || reader.kind === 'insert'
}

/** Whether the reader may know all columns that a broken constraint is made of. */
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
  const permissions = catalog.tables.get(tableKey(ref))?.permissionsByRole.get(role)
  const known = [permissions?.select, permissions?.insert, permissions?.update].flatMap((each) => each?.columns ?? [])
  return columns.length > 0 && columns.every((column) => known.includes(column))
}
