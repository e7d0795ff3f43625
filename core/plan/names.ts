import { isAdmin, roleName } from '../session.js'
import {
  type Catalog,
  type Column,
  type ComputedField,
  type FunctionData,
  type Relationship,
  type RolePermissions,
  maskOf,
  permissionsOf,
  resultTable,
  type Table,
  tableKey,
  tableName,
  tableOfKey,
} from '../catalog/catalog.js'
import type { NamingConvention } from '../catalog/graphql-names.js'
import { didYouMean } from '../wording.js'
import { notExists, permissionDenied, type ServiceError, serviceError } from '../errors.js'
import type { FunctionCall, Rule, TableRef } from '../ir.js'
import { meant, misspelt, namesake } from './near-names.js'

export type Action = 'select' | 'insert' | 'update' | 'delete'

/** The permission that contains a rule. */
export const RULE_ACTIONS = {
  select: 'select',
  inserted: 'insert',
  update: 'update',
  updated: 'update',
  delete: 'delete',
} as const satisfies Readonly<Record<Rule, Action>>

/**
 * The names that one role may use. A planner resolves every name through this interface and never learns the role.
 * Hidden and missing names fail with the same message, so that nobody can probe for hidden names.
 */
export interface Names {
  /** Identity of the catalog: the same object for all roles, a new one after a change. */
  readonly snapshot: object
  /** How GraphQL names what has no custom name. */
  readonly naming?: NamingConvention
  /** Whether the author is an admin, so that `$exists` is allowed. */
  readonly trusted: boolean
  /** @param because appended to the refusal: `select on "t" for role "r" is not allowed; <because>` */
  table(ref: TableRef, action: Action, path: string, because?: string): Table
  column(table: Table, name: string, action: Action, path: string): Column
  /** Returns a column that a role may use as a conflict target: one that it can insert or select. */
  conflictColumn(table: Table, name: string, path: string): Column
  /** Returns a relationship and its table. */
  relationship(table: Table, name: string, path: string): Related
  /** Resolves a key of a BoolExp: a column, otherwise a relationship. */
  columnOrRelationship(table: Table, name: string, path: string): Column | Related
  /** Returns the tables on which the role has any permission. */
  tables(): Iterable<Table>
  may(table: Table, action: Action): boolean
  /** Returns whether the role may aggregate the table's rows. */
  mayAggregate(table: Table): boolean
  /** @throws ServiceError 400 unless `mayAggregate` */
  aggregate(table: Table, path: string): void
  /** Returns whether an insert may have a conflict clause. */
  mayUpsert(table: Table): boolean
  /** @throws ServiceError 400 unless `mayUpsert` */
  upsert(table: Table, path: string): void
  /** Returns the unique constraints that the role may name as a conflict target. */
  conflictKeys(table: Table): Table['keys']
  /** Returns whether the update permission has presets, which an update without columns writes. */
  presetsUpdate(table: Table): boolean
  /** Returns the columns that the role may select, insert or update, in the table's order. */
  columns(table: Table, action?: Action): readonly Column[]
  /** Returns whether the role sees a column, by its name in the database, in some of the rows only. It is null in the others. */
  isMasked(table: Table, column: string): boolean
  /** Returns the relationships to tables that the role may select from. */
  relationships(table: Table): readonly Related[]
  /** Returns the computed fields: values that the select permission lists, and rows of tables that the role may select from. */
  computedFields(table: Table): readonly ComputedField[]
  computedField(table: Table, name: string, path: string): ComputedField
  /** Returns the functions that the role may call. If they return rows of a table, it may also select from the table. */
  functions(): readonly FunctionData[]
  callable(ref: TableRef, path: string): FunctionData
}
export interface Related {
  readonly relationship: Relationship
  readonly table: Table
  /** The function that returns the rows, for the rows of a computed field in conditions. */
  readonly from?: FunctionCall
}

/** Tables by `tableKey`: a catalog, or a draft of one. */
export interface Tables {
  readonly tables: { get(key: string): Table | undefined; keys(): Iterable<string>; values(): Iterable<Table> }
  readonly functions: readonly FunctionData[]
  readonly naming?: NamingConvention
}

export const isRelated = (found: Column | Related): found is Related => 'relationship' in found

/** Returns all existing names: for the admin, and for permission expressions. */
export function allNames(catalog: Tables): Names {
  const related = (relationship: Relationship): Related | undefined => {
    const table = catalog.tables.get(tableKey(relationship.table))
    return table && { relationship, table }
  }
  const find = (table: Table, name: string): Column | Related | undefined => {
    const relationship = table.relationshipsByName.get(name)
    return table.columnsByName.get(name) ?? (relationship && related(relationship))
  }
  return {
    snapshot: catalog,
    naming: catalog.naming,
    trusted: true,
    table: (ref, _action, path) =>
      catalog.tables.get(tableKey(ref)) ?? fail(missingTable(ref, path, catalog.tables.keys())),
    column: (table, name, _action, path) => table.columnsByName.get(name) ?? fail(missingColumn(table, name, path)),
    conflictColumn: (table, name, path) => table.columnsByName.get(name) ?? fail(missingColumn(table, name, path)),
    relationship(table, name, path) {
      const found = find(table, name)
      if (found && isRelated(found)) return found
      const near = didYouMean(name, [...table.relationshipsByName.keys()])
      throw notExists(`relationship "${name}" does not exist${near}`, path)
    },
    columnOrRelationship(table, name, path) {
      const known = () => [...table.columnsByName.keys(), ...table.relationshipsByName.keys()]
      return find(table, name) ?? fail(notExists(`"${name}" does not exist${didYouMean(name, known())}`, path))
    },
    tables: () => catalog.tables.values(),
    may: () => true,
    mayAggregate: () => true,
    aggregate: () => {},
    mayUpsert: () => true,
    upsert: () => {},
    conflictKeys: (table) => table.keys,
    presetsUpdate: () => false,
    isMasked: () => false,
    columns: (table, action) =>
      action === 'insert' || action === 'update'
        ? table.columns.filter(({ generated }) => generated !== 'always')
        : table.columns,
    relationships: (table) => table.relationships.map(related).filter((found) => found !== undefined),
    computedFields: (table) => table.computedFields,
    computedField: (table, name, path) =>
      table.computedByName.get(name) ?? fail(notExists(`computed field "${name}" does not exist`, path)),
    functions: () => catalog.functions,
    callable: (ref, path) => findFunction(catalog, ref) ?? fail(missingFunction(ref, path, catalog.functions)),
  }
}

/** Returns the error about a table that is not tracked, for an admin. @param tracked keys of the tracked tables, to suggest one */
export function missingTable(ref: TableRef, path: string, tracked: Iterable<string> = []): ServiceError {
  const known = [...tracked].map(tableOfKey)
  const message = `table "${tableName(ref)}" does not exist${meant(namesake(ref, known) ?? misspelt(ref, known))}`
  return serviceError('not-exists', message, path, { missing: { schema: ref.schema, name: ref.name } })
}

const missingColumn = (table: Table, name: string, path: string): ServiceError =>
  notExists(`column "${name}" does not exist${didYouMean(name, [...table.columnsByName.keys()])}`, path)

/** Returns the error about a function that is not tracked, for an admin. */
export const missingFunction = (ref: TableRef, path: string, tracked: readonly TableRef[]): ServiceError =>
  notExists(
    `function "${tableName(ref)}" is not tracked${meant(namesake(ref, tracked) ?? misspelt(ref, tracked))}`,
    path,
  )

const findFunction = ({ functions }: Tables, ref: TableRef): FunctionData | undefined =>
  functions.find((each) => each.schema === ref.schema && each.name === ref.name)

/**
 * Returns the names that `role` may use. The same object per snapshot, so that callers can cache by it.
 * @param role of `permissionRole`
 */
export function namesFor(role: string, catalog: Catalog): Names {
  const byRole = known.get(catalog) ?? new Map<string, Names>()
  known.set(catalog, byRole)
  let names = byRole.get(role)
  if (!names) {
    names = isAdmin({ role }) ? allNames(catalog) : namesOf(role, catalog)
    if (byRole.size < MAX_ROLES) byRole.set(role, names)
  }
  return names
}
const known = new WeakMap<Catalog, Map<string, Names>>()
const MAX_ROLES = 1000

function namesOf(key: string, catalog: Catalog): Names {
  const role = roleName(key)
  const permitted = (table: Table, action: Action): ReadonlySet<string> => {
    const permissions = permissionsOf(table, key)
    if (action === 'delete') return NONE
    return columnSet(permissions?.[action]?.columns)
  }
  const isMasked = (table: Table, column: string): boolean => {
    const select = permissionsOf(table, key)?.select
    return select !== undefined && maskOf(select, column) !== undefined
  }
  const seen = (table: Table, column: Column): Column =>
    isMasked(table, column.name) ? { ...column, nullable: true } : column
  const knowsKey = (table: Table, name: string): boolean =>
    permitted(table, 'insert').has(name) || permitted(table, 'select').has(name)
  const readable = (table: Table | undefined): table is Table =>
    table !== undefined && permissionsOf(table, key)?.select !== undefined
  const related = (relationship: Relationship): Related | undefined => {
    const table = catalog.tables.get(tableKey(relationship.table))
    return readable(table) ? { relationship, table } : undefined
  }
  // Suggests names that the role may use, so it says nothing about other names.
  const columnDenied = (table: Table, name: string, action: Action, path: string, others: readonly string[] = []) => {
    const near = didYouMean(name, [...permitted(table, action), ...others])
    return permissionDenied(
      `role "${role}" does not have permission to ${action} column "${name}"${near}`,
      path,
      table,
      action,
    )
  }
  const readableFrom = (table: Table): readonly string[] =>
    table.relationships.filter((each) => related(each) !== undefined).map(({ name }) => name)

  const computes = (table: Table, { name, gives }: ComputedField): boolean => {
    if ('type' in gives) return columnSet(permissionsOf(table, key)?.select?.computedFields).has(name)
    return readable(table) && readable(catalog.tables.get(tableKey(gives.table)))
  }
  const callable = ({ roles, inferred, table, result }: FunctionData): boolean =>
    result
      ? roles.includes(role)
      : (inferred === true || roles.includes(role)) && readable(catalog.tables.get(tableKey(table)))

  return {
    snapshot: catalog,
    naming: catalog.naming,
    trusted: false,
    table(ref, action, path, because) {
      const table = catalog.tables.get(tableKey(ref))
      if (table && permissionsOf(table, key)?.[action]) return table
      const others = [...catalog.tables.values()].filter((each) => permissionsOf(each, key)?.[action])
      const hint = meant(misspelt(ref, others))
      const more = because === undefined ? hint || '. ' : `${hint}; ${because}`
      throw permissionDenied(
        `${action} on "${tableName(ref)}" for role "${role}" is not allowed${more}`,
        path,
        ref,
        action,
      )
    },
    column(table, name, action, path) {
      const column = table.columnsByName.get(name)
      if (!column || !permitted(table, action).has(name)) throw columnDenied(table, name, action, path)
      return action === 'select' ? seen(table, column) : column
    },
    conflictColumn(table, name, path) {
      const column = table.columnsByName.get(name)
      return column && knowsKey(table, name) ? column : fail(columnDenied(table, name, 'insert', path))
    },
    relationship(table, name, path) {
      const relationship = table.relationshipsByName.get(name)
      return (
        (relationship && related(relationship)) ??
        fail(
          permissionDenied(
            `role "${role}" does not have permission to read relationship "${name}"${didYouMean(name, readableFrom(table))}`,
            path,
            relationship?.table ?? table,
          ),
        )
      )
    },
    columnOrRelationship(table, name, path) {
      const column = table.columnsByName.get(name)
      if (column && permitted(table, 'select').has(name)) return seen(table, column)
      const relationship = table.relationshipsByName.get(name)
      return (
        (relationship && related(relationship)) ?? fail(columnDenied(table, name, 'select', path, readableFrom(table)))
      )
    },
    tables: () => [...catalog.tables.values()].filter((table) => permissionsOf(table, key) !== undefined),
    may: (table, action) => permissionsOf(table, key)?.[action] !== undefined,
    mayAggregate: (table) => permissionsOf(table, key)?.select?.aggregations === true,
    aggregate(table, path) {
      if (this.mayAggregate(table)) return
      throw permissionDenied(`role "${role}" does not have permission to aggregate "${table.name}"`, path, table)
    },
    mayUpsert: (table) => mayUpsert(permissionsOf(table, key)),
    upsert(table, path) {
      if (!this.mayUpsert(table))
        throw permissionDenied(`upsert is not allowed for role "${role}"`, path, table, 'insert')
    },
    conflictKeys: (table) =>
      permissionsOf(table, key)?.insert?.upsert
        ? table.keys
        : table.keys.filter(({ columns }) => columns.every((name) => knowsKey(table, name))),
    presetsUpdate: (table) => (permissionsOf(table, key)?.update?.set.length ?? 0) > 0,
    isMasked,
    columns(table, action = 'select') {
      const may = table.columns.filter(({ name }) => permitted(table, action).has(name))
      if (action !== 'select') return may.filter(({ generated }) => generated !== 'always')
      return permissionsOf(table, key)?.select?.masks ? may.map((column) => seen(table, column)) : may
    },
    relationships: (table) => table.relationships.map(related).filter((found) => found !== undefined),
    computedFields: (table) => table.computedFields.filter((field) => computes(table, field)),
    computedField(table, name, path) {
      const field = table.computedByName.get(name)
      return field && computes(table, field) ? field : fail(columnDenied(table, name, 'select', path))
    },
    functions: () => catalog.functions.filter(callable),
    callable(ref, path) {
      const found = findFunction(catalog, ref)
      if (found && callable(found)) return found
      const hint = meant(misspelt(ref, catalog.functions.filter(callable)))
      throw permissionDenied(
        `role "${role}" does not have permission to call function "${tableName(ref)}"${hint}`,
        path,
      )
    },
  }
}

/** Returns the table whose rows a function returns. */
export const rowsReturned = (called: FunctionData, names: Names, path: string): Table =>
  called.result ? resultTable(called) : names.table(called.table, 'select', path)

/** Returns whether a role may upsert: it may insert, and either may update too or has `allow_upsert`. */
export const mayUpsert = ({ insert, update }: Partial<RolePermissions> = {}): boolean =>
  insert !== undefined && (insert.upsert || update !== undefined)

const NONE: ReadonlySet<string> = new Set()
const sets = new WeakMap<readonly string[], ReadonlySet<string>>()
function columnSet(columns: readonly string[] | undefined): ReadonlySet<string> {
  if (!columns) return NONE
  let set = sets.get(columns)
  if (!set) sets.set(columns, (set = new Set(columns)))
  return set
}

function fail(error: ServiceError): never {
  throw error
}

/** Name of the version of a row among the columns of a request, and in results. */
export const VERSION = '$version'
/** System column of PostgreSQL: the transaction that wrote this version of the row. */
export const XMIN = 'xmin'

/** Returns the column whose text is the version of a row, or `xmin`, if the role may see it. */
export function versionOf(table: Table, names: Names): string | undefined {
  const { version } = table
  if (version === undefined || !names.may(table, 'select')) return undefined
  // A role that sees it in some rows only has no versions.
  const isSeen = names.columns(table).some(({ name }) => name === version) && !names.isMasked(table, version)
  return version === XMIN || isSeen ? version : undefined
}
