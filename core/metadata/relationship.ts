import { didYouMean } from '../wording.js'
import { at, notExists, parseFailed, type ServiceError, serviceError } from '../errors.js'
import { isObject, refuseOtherKeys } from '../json/value.js'
import type { Json, JsonObject } from '../json/parse.js'
import { liftTableRef } from '../plan/lift-boolexp.js'
import type { Join, TableRef } from '../ir.js'
import { missingTable } from '../plan/names.js'
import { type ForeignKey, type Relationship, tableKey, tableName } from '../catalog/catalog.js'
import type { DatabaseTable } from './introspect.js'
import type { RelationshipRow } from './metadata.js'
import { CATALOG_SCHEMA } from './schema.js'

/** Finds a tracked table that exists. */
type FindTable = (ref: TableRef) => DatabaseTable | undefined

/**
 * Resolves the `using` of a relationship: `foreign_key_constraint_on` (one or more columns of a foreign key) or
 * `manual_configuration`.
 * @throws ServiceError 400 with a path below `$`, the root of the definition
 */
export function resolveRelationship(row: RelationshipRow, table: DatabaseTable, find: FindTable): Relationship {
  const using = row.definition
  if (!isObject(using)) throw parseFailed('expecting an object', '$')
  refuseOtherKeys(using, USING, '$')
  const [foreign, manual] = USING.map((key) => using[key])
  if (foreign !== undefined && manual !== undefined) {
    throw parseFailed('expecting only one of foreign_key_constraint_on and manual_configuration', '$')
  }
  const { name, type } = row
  if (manual !== undefined) return { name, type, ...manualJoin(manual, type, table, find) }
  if (foreign === undefined) {
    throw parseFailed('expecting foreign_key_constraint_on or manual_configuration', '$')
  }
  const path = '$.foreign_key_constraint_on'
  if (type === 'array') return { name, type, ...remoteKey(foreign, table, find, path) }
  return { name, type, ...localKey(foreign, table, find, path) }
}
const USING = ['foreign_key_constraint_on', 'manual_configuration']

type Target = Pick<Relationship, 'table' | 'on' | 'before'>

/** Resolves an object relationship. The foreign key is on this table, or a unique one is on the other. */
function localKey(value: Json, table: DatabaseTable, find: FindTable, path: string): Target {
  if (isObject(value)) return remoteKey(value, table, find, path)
  const key = foreignKeyOn(table, columnNames(value, path), path)
  tracked(key.table, find, path)
  return { table: key.table, on: joinOf(key), before: true }
}

/** Resolves a foreign key on the other table that refers to this one. */
function remoteKey(value: Json, table: DatabaseTable, find: FindTable, path: string): Target {
  if (!isObject(value)) throw parseFailed('expecting an object with the keys table and column', path)
  refuseOtherKeys(value, ['table', 'column', 'columns'], path)
  const remote = tracked(liftTableRef(value['table'], `${path}.table`), find, `${path}.table`)
  const columns = columnNames(value['column'] ?? value['columns'], `${path}.column`)
  const key = foreignKeyOn(remote, columns, `${path}.column`, table)
  return { table: refOf(remote), on: key.columns.map((column, i) => [key.remoteColumns[i] as string, column]) }
}

function manualJoin(value: Json, type: Relationship['type'], table: DatabaseTable, find: FindTable): Target {
  const path = '$.manual_configuration'
  if (!isObject(value)) throw parseFailed('expecting an object', path)
  refuseOtherKeys(value, ['remote_table', 'column_mapping', 'insertion_order'], path)
  const remote = tracked(liftTableRef(value['remote_table'], `${path}.remote_table`), find, `${path}.remote_table`)
  const mapping = value['column_mapping']
  if (!isObject(mapping) || Object.keys(mapping).length === 0) {
    throw parseFailed('expecting an object of column names', `${path}.column_mapping`)
  }
  const on = mappedColumns(mapping, table, remote, `${path}.column_mapping`)
  const before = isBefore(value['insertion_order'] ?? null, type, `${path}.insertion_order`)
  return {
    table: refOf(remote),
    on,
    ...((before ?? references(table, remote, on)) && type === 'object' && { before: true }),
  }
}

/** Reads `insertion_order`. @returns undefined if the keys of the tables say it */
function isBefore(order: Json, type: Relationship['type'], path: string): boolean | undefined {
  if (order === null) return undefined
  if (order !== 'before_parent' && order !== 'after_parent') {
    throw parseFailed('expecting before_parent, after_parent or null', path)
  }
  if (order === 'before_parent' && type === 'array') {
    throw parseFailed('many rows are inserted after their row: expecting after_parent or null', path)
  }
  return order === 'before_parent'
}

/**
 * Returns whether rows reference the rows that they are joined with, rather than these them: a foreign key tells,
 * otherwise a unique key of only one side, which the other side refers to.
 */
function references(table: DatabaseTable, remote: DatabaseTable, on: Join): boolean {
  const back = on.map(([local, other]) => [other, local] as const)
  if (hasForeignKey(table, remote, on)) return true
  if (hasForeignKey(remote, table, back)) return false
  return isUnique(remote, back) || !isUnique(table, on)
}

const hasForeignKey = (table: DatabaseTable, remote: TableRef, on: Join): boolean =>
  table.foreignKeys.some((key) => {
    const isJoined = ([column, other]: Join[number]) => on.some((pair) => pair[0] === column && pair[1] === other)
    return tableKey(key.table) === tableKey(remote) && joinOf(key).every(isJoined)
  })

const isUnique = ({ keys }: DatabaseTable, on: Join): boolean =>
  keys.some(({ columns }) => columns.every((column) => on.some(([name]) => name === column)))

const joinOf = ({ columns, remoteColumns }: ForeignKey): Join =>
  columns.map((column, i) => [column, remoteColumns[i] as string])

function mappedColumns(mapping: JsonObject, table: DatabaseTable, remote: DatabaseTable, path: string): Join {
  return Object.entries(mapping).map(([local, other]) => {
    const here = at(path, local)
    if (typeof other !== 'string') throw parseFailed('expecting a column name', here)
    for (const [owner, column] of [
      [table, local],
      [remote, other],
    ] as const) {
      if (!owner.columns.some(({ name }) => name === column)) {
        throw missingColumn(column, owner, here)
      }
    }
    return [local, other] as const
  })
}

function columnNames(value: Json | undefined, path: string): readonly string[] {
  const names = typeof value === 'string' ? [value] : value
  if (!Array.isArray(names) || names.length === 0 || !names.every((name) => typeof name === 'string')) {
    throw parseFailed('expecting a column name, or an array of them', path)
  }
  return names as string[]
}

function foreignKeyOn(table: DatabaseTable, columns: readonly string[], path: string, to?: TableRef): ForeignKey {
  for (const column of columns) {
    if (!table.columns.some(({ name }) => name === column)) {
      throw missingColumn(column, table, path)
    }
  }
  const wanted = [...columns].sort().join('\0')
  const keys = table.foreignKeys.filter(
    (key) => [...key.columns].sort().join('\0') === wanted && (!to || tableKey(key.table) === tableKey(to)),
  )
  if (keys.length === 1) return keys[0] as ForeignKey
  const what = keys.length === 0 ? 'no foreign constraint exists' : 'more than one foreign key constraint exists'
  throw serviceError('constraint-error', `${what} on the given column`, path)
}

function tracked(ref: TableRef, find: FindTable, path: string): DatabaseTable {
  const found = find(ref)
  if (!found) throw missingTable(ref, path)
  return found
}

/** Returns the error about a column of a definition, for an admin. */
export function missingColumn(name: string, table: DatabaseTable, path: string): ServiceError {
  const near = didYouMean(name, table.columns.map((column) => column.name)) // prettier-ignore
  return notExists(`column "${name}" does not exist in "${tableName(table)}"${near}`, path)
}

const refOf = ({ schema, name }: TableRef): TableRef => ({ schema, name })

/** Parent tables by their key columns, and the names of the relationships to their rows. */
const OWNERS = [
  {
    owner: 'svc_table',
    name: 'table',
    on: [
      ['table_schema', 'table_schema'],
      ['table_name', 'table_name'],
    ],
    owned: {
      relationships: 'svc_relationship',
      permissions: 'svc_permission',
      computed_fields: 'svc_computed_field',
    },
  },
  {
    owner: 'svc_function',
    name: 'function',
    on: [
      ['function_schema', 'function_schema'],
      ['function_name', 'function_name'],
    ],
    owned: { permissions: 'svc_function_permission' },
  },
] as const

/**
 * Returns the relationships between catalog tables, so that one select on `svc_table` returns all metadata of every
 * table.
 */
export function systemRelationships(table: TableRef): readonly Relationship[] {
  return OWNERS.flatMap(({ owner, name, on, owned }): Relationship[] => {
    const to = (target: string): TableRef => ({ schema: CATALOG_SCHEMA, name: target })
    const lists = Object.entries(owned)
    if (table.name === owner) return lists.map(([name, list]) => ({ name, type: 'array', table: to(list), on }))
    return lists.some(([, list]) => list === table.name) ? [{ name, type: 'object', table: to(owner), on }] : []
  })
}
