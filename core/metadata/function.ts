import { at, notExists, parseFailed, type ServiceError, serviceError, unexpectedPayload } from '../errors.js'
import { isObject, type Json } from '../json/parse.js'
import { liftTableRef } from '../plan/lift-boolexp.js'
import type { TableRef } from '../ir.js'
import {
  type ComputedField,
  type FunctionArgument,
  type FunctionData,
  type FunctionResult,
  resultRef,
  tableKey,
  tableName,
} from '../catalog/catalog.js'
import { objectOf } from './customization.js'
import type { FoundArgument, FoundFunction } from './introspect-functions.js'
import type { ComputedFieldRow, TrackedFunction } from './metadata.js'

/** The database, as needed to resolve function definitions. */
export interface FunctionScope {
  function(ref: TableRef): FoundFunction | undefined
  /** Returns whether a table exists and is tracked. */
  tracked(ref: TableRef): boolean
}

const CONFIGURATION = ['session_argument', 'exposed_as', 'custom_name']

/**
 * Resolves a tracked function or procedure. If it returns rows of a table, the table must be tracked.
 * @param infersPermissions whether functions that return rows of a table, and change nothing, need no permission
 * @throws ServiceError 400 with the path `$` for the function, or one below `$.configuration`
 */
export function resolveFunction(
  { ref, configuration, roles }: TrackedFunction,
  scope: FunctionScope,
  infersPermissions = false,
): FunctionData {
  const {
    session_argument: session,
    exposed_as: exposed,
    custom_name: customName,
  } = objectOf(configuration, '$.configuration', CONFIGURATION)
  const found = findFunction(ref, scope, '$')
  const { row: table } = found.result
  if (table && !scope.tracked(table)) {
    throw notSupported(`function "${tableName(ref)}" does not return rows of a tracked table`, '$')
  }
  const result = table ? undefined : resultOf(found)
  if (exposed !== undefined && exposed !== 'query' && exposed !== 'mutation') {
    throw parseFailed('expecting "query" or "mutation"', '$.configuration.exposed_as')
  }
  // A function that returns nothing is called for its effects.
  const why = found.volatile ? 'is volatile' : isType(found.result, 'void') ? 'returns nothing' : undefined
  if (exposed === 'query' && why !== undefined) {
    throw notSupported(`function "${tableName(ref)}" ${why}: only a mutation may call it`, '$.configuration.exposed_as')
  }
  const name = optionalText(customName, '$.configuration.custom_name')
  const sessionArgument = optionalText(session, '$.configuration.session_argument')
  const mutation = why !== undefined || exposed === 'mutation'
  return {
    ...ref,
    table: table ?? resultRef(ref),
    result,
    procedure: found.procedure || undefined,
    many: found.many,
    arguments: clientArguments(found, undefined, sessionArgument, '$.configuration'),
    mutation,
    roles: [...roles],
    ...(infersPermissions && table && !mutation ? { inferred: true as const } : {}),
    customName: name,
    cost: found.cost,
    rows: found.rows === DEFAULT_ROWS ? undefined : found.rows,
  }
}

/** What PostgreSQL assumes if a function does not declare its rows. */
const DEFAULT_ROWS = 1000

/** Returns the columns of a result, or a value as the column `value`. */
function resultOf({ columns, result, ...ref }: FoundFunction): FunctionResult {
  if (columns) {
    if (columns.length === 0) throw notSupported(`function "${tableName(ref)}" returns rows without columns`, '$')
    const names = columns.map(({ name }) => name)
    const twice = names.find((name, i) => names.indexOf(name) < i)
    if (twice !== undefined) {
      throw notSupported(`function "${tableName(ref)}" returns two columns named "${twice}"`, '$')
    }
    const outputs = result.kind !== 'row' || undefined
    return { columns: columns.map((column) => ({ ...column, nullable: true })), outputs }
  }
  if (isType(result, 'record')) {
    const message = `function "${tableName(ref)}" returns records; declare their columns by "returns table (...)" or "out"`
    throw notSupported(message, '$')
  }
  return { columns: [{ name: 'value', type: result, nullable: true }], values: true }
}

const isType = ({ schema, name }: TableRef, type: string): boolean => schema === 'pg_catalog' && name === type

const DEFINITION = ['function', 'table_argument', 'session_argument']

/**
 * Resolves a computed field. Its function takes a row of the table and returns a value, or rows of a tracked table.
 * @throws ServiceError 400 with a path below `$`, the root of the definition
 */
export function resolveComputedField(row: ComputedFieldRow, table: TableRef, scope: FunctionScope): ComputedField {
  const {
    function: named,
    table_argument: wanted,
    session_argument: session,
  } = objectOf(row.definition, '$', DEFINITION)
  const ref = liftTableRef(named, '$.function')
  const found = findFunction(ref, scope, '$.function')
  if (found.volatile) throw notSupported(`function "${tableName(ref)}" is volatile`, '$.function')
  if (found.columns && found.result.kind !== 'row') {
    throw notSupported(`function "${tableName(ref)}" has output arguments`, '$.function')
  }
  const rowName = optionalText(wanted, '$.table_argument')
  const place = rowName === undefined ? 0 : found.arguments.findIndex(({ name }) => name === rowName)
  const of = found.arguments[place]?.type.row
  if (!of || tableKey(of) !== tableKey(table)) {
    const which = rowName === undefined ? 'the first argument' : `argument "${rowName}"`
    throw unexpectedPayload(`${which} of "${tableName(ref)}" is not a row of "${tableName(table)}"`, '$.function')
  }
  const { result, many } = found
  const rows = result.row
  if (rows && !scope.tracked(rows)) {
    throw notSupported(`function "${tableName(ref)}" returns rows of "${tableName(rows)}", which is not tracked`, '$')
  }
  if (!rows && (many || result.kind === 'row' || result.name === 'record' || result.name === 'void')) {
    throw notSupported(`function "${tableName(ref)}" returns neither a value nor rows of a table`, '$')
  }
  return {
    name: row.name,
    function: ref,
    arguments: clientArguments(found, place, optionalText(session, '$.session_argument'), '$'),
    gives: rows ? { table: rows, many } : { type: result },
  }
}

/** Returns the function that the definition of a computed field names. Invalid definitions are refused elsewhere. */
export function functionsNamed({ definition }: ComputedFieldRow): readonly TableRef[] {
  try {
    return isObject(definition) ? [liftTableRef(definition['function'], '$')] : []
  } catch {
    return []
  }
}

function findFunction(ref: TableRef, scope: FunctionScope, path: string): FoundFunction {
  const found = scope.function(ref)
  const name = tableName(ref)
  if (!found) throw notExists(`function "${name}" does not exist in the database`, path)
  if (found.overloads > 1) throw notSupported(`function "${name}" is overloaded`, path)
  if (found.unfit !== undefined) throw notSupported(`function "${name}" ${found.unfit}`, path)
  return found
}

function clientArguments(
  found: FoundFunction,
  row: number | undefined,
  session: string | undefined,
  sessionPath: string,
): readonly FunctionArgument[] {
  const names = argumentNames(found, row)
  const last = found.arguments.findLastIndex(({ name }) => name === undefined)
  const isOf = (i: number) => {
    if (i === row) return 'row'
    if (found.arguments[i]?.out) return 'none'
    return names[i] !== undefined && names[i] === session ? 'session' : 'client'
  }
  const all = found.arguments.map(({ type, optional, variadic }, i): FunctionArgument => {
    const is = isOf(i)
    const { row: _, ...plain } = type
    if (is === 'session') checkSession(found.arguments[i] as FoundArgument, sessionPath)
    if (i > last) return { name: names[i], type: plain, optional, variadic, is }
    // The default applies only if all positional arguments after it are left out.
    const isLast = found.arguments.slice(0, last + 1).every((_each, at) => at <= i || isOf(at) === 'client')
    return { name: names[i], positional: true, type: plain, optional: optional && isLast, variadic, is }
  })
  if (session !== undefined && !all.some(({ is }) => is === 'session')) {
    throw notExists(`function "${tableName(found)}" has no argument "${session}"`, at(sessionPath, 'session_argument'))
  }
  return all
}

/** Returns the names of all arguments. Those without a name are `arg_1` and so on, except the row of a computed field. */
function argumentNames({ arguments: all }: FoundFunction, row: number | undefined): readonly (string | undefined)[] {
  const taken = new Set(all.map(({ name }) => name))
  let number = 0
  return all.map(({ name }, i) => {
    if (name !== undefined || i === row) return name
    do number++
    while (taken.has(`arg_${number}`))
    return `arg_${number}`
  })
}

function checkSession({ type }: FoundArgument, path: string): void {
  if (type.kind === 'json' || type.kind === 'jsonb') return
  throw unexpectedPayload('the session argument must be of type json or jsonb', at(path, 'session_argument'))
}

function optionalText(value: Json | undefined, path: string): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string' || value === '') throw parseFailed('expecting a name', path)
  return value
}

const notSupported = (message: string, path: string): ServiceError => serviceError('not-supported', message, path)
