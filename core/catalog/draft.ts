import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { ServiceError } from '../errors.js'
import { type Json, stringifyJson } from '../json/parse.js'
import { isObject } from '../plan/encode.js'
import type { BoolExp, Op, Operand, TableRef } from '../plan/ir.js'
import { allNames, type Names, type Tables } from '../plan/names.js'
import {
  type CatalogData,
  type ComputedField,
  type Customization,
  type FunctionData,
  type Inconsistency,
  openTable,
  type Relationship,
  type RolePermissions,
  shareTables,
  type Table,
  type TableData,
  tableKey,
  tableName,
} from './catalog.js'
import { readCustomization } from './customization.js'
import { type FunctionScope, resolveComputedField, resolveFunction } from './function.js'
import type { FoundFunction } from './introspect-functions.js'
import type { Found } from './introspect.js'
import {
  copyTable,
  trackedTable,
  type ComputedFieldRow,
  type Metadata,
  type PermissionRow,
  type RelationshipRow,
  type TrackedFunction,
  type TrackedTable,
} from './metadata.js'
import { parsePermission } from './permission.js'
import { resolveRelationship } from './relationship.js'
import { CATALOG_SCHEMA, SYSTEM_TABLES } from './schema.js'
import { systemRelationships } from './system.js'

/**
 * Says what a stored template means; comes from the front end that runs templates.
 * @throws ServiceError 400 when it means nothing, with a path below `$`, the definition being `$`
 */
export type TemplateResolver = (definition: Json, names: Names) => TemplateMeaning
export interface TemplateMeaning {
  /** What it reads and writes. */
  readonly ops: readonly Op[]
  /** Defaults of its parameters. */
  readonly constants: readonly Operand[]
}

/** What PostgreSQL has, by `tableKey`. */
export interface FoundAll {
  readonly tables: ReadonlyMap<string, Found>
  readonly functions: ReadonlyMap<string, FoundFunction>
}

/** A snapshot with what it was made of. What is still so another time is not made again. */
export interface Built {
  readonly data: CatalogData
  readonly metadata: Metadata
  readonly found: FoundAll
  /** The tables that were looked at to make one, by `tableKey`. */
  readonly uses: Uses
}
type Uses = ReadonlyMap<string, ReadonlySet<string>>

/**
 * Metadata that may still change, beside what the database has. Tables are put together when they are asked for, so that
 * a thousand definitions can be checked one after another and the snapshot built once.
 */
export class Draft implements Tables {
  readonly metadata: Metadata
  private readonly found: Map<string, Found>
  private readonly foundFunctions: Map<string, FoundFunction>
  private readonly opened = new Map<string, Opened>()
  private readonly before: Built | undefined
  /** Tables that were copied to be changed here. */
  private readonly own = new Set<string>()
  private readonly uses = new Map<string, Set<string>>()
  /** The table that is being made. */
  private making: string | undefined
  /** Tracked tables by their name in GraphQL. */
  private typeNames: Map<string, TableRef[]> | undefined
  readonly tables = {
    get: (key: string) => this.open(key)?.table,
    values: () => [...this.found.keys()].map((key) => this.open(key)?.table).filter((table) => table !== undefined),
  }
  /** All names that exist: definitions are made by admins. */
  readonly names: Names = allNames(this)
  private readonly resolve: TemplateResolver | undefined

  /** For what functions are checked against. */
  private readonly scope: FunctionScope = {
    function: (ref) => this.foundFunctions.get(tableKey(ref)),
    tracked: (ref) => this.metadata.tables.has(tableKey(ref)) && this.found.has(tableKey(ref)),
  }

  /** @param before a snapshot of much the same */
  constructor(metadata: Metadata, found: FoundAll, resolve: TemplateResolver | undefined, before?: Built) {
    this.before = before
    this.metadata = metadata
    this.found = new Map(found.tables)
    this.foundFunctions = new Map(found.functions)
    this.resolve = resolve
  }

  /** Tracked functions that hold. */
  get functions(): readonly FunctionData[] {
    return this.trackedFunctions().resolved
  }

  /** What PostgreSQL has under a name, tracked or not. */
  foundTable(ref: TableRef): Found | undefined {
    return this.found.get(tableKey(ref))
  }

  foundFunction(ref: TableRef): FoundFunction | undefined {
    return this.foundFunctions.get(tableKey(ref))
  }

  addFound({ tables, functions }: FoundAll): void {
    for (const [key, table] of tables) this.found.set(key, table)
    for (const [key, each] of functions) this.foundFunctions.set(key, each)
  }

  replaceFound(found: FoundAll): void {
    this.found.clear()
    this.foundFunctions.clear()
    this.addFound(found)
  }

  tracked(ref: TableRef): TrackedTable | undefined {
    return this.metadata.tables.get(tableKey(ref))
  }

  /** The same to be changed: the metadata that this began with may share it. */
  changeable(key: string): TrackedTable | undefined {
    const { tables } = this.metadata
    const table = tables.get(key)
    if (!table || this.own.has(key)) return table
    const copy = copyTable(table)
    this.own.add(key)
    tables.set(key, copy)
    return copy
  }

  /** Call after changing metadata: what was put together before is forgotten. */
  changed(): void {
    this.opened.clear()
    this.typeNames = undefined
  }

  /** A tracked table that exists, or a system table, without permissions. */
  private open(key: string): Opened | undefined {
    this.used(key)
    const ready = this.opened.get(key)
    if (ready) return ready
    const found = this.found.get(key)
    if (!found) return undefined
    if (!isSystem(found) && !this.metadata.tables.has(key)) return undefined
    return this.whileMaking(key, () => this.make(key, found))
  }

  private make(key: string, found: Found): Opened {
    const system = isSystem(found)
    const relationships = this.relationships(found)
    const computedFields = this.computedFields(found)
    const customization = this.customization(found)
    const { foreignKeys: _, ...facts } = found
    const data: TableData = {
      ...facts,
      system,
      relationships: system ? systemRelationships(found) : relationships.resolved,
      computedFields: computedFields.resolved,
      permissions: [],
      ...(customization.resolved ? { customization: customization.resolved } : {}),
    }
    const failed = [relationships, computedFields, customization].flatMap((each) => each.failed)
    const opened = { data, table: openTable(data), failed }
    this.opened.set(key, opened)
    return opened
  }

  /** @throws ServiceError 400 when a relationship's definition does not hold */
  relationship(row: RelationshipRow, table: Found): Relationship {
    if (table.columns.some(({ name }) => name === row.name)) throw nameTaken(row.name, table)
    return resolveRelationship(row, table, (ref) => {
      const key = tableKey(ref)
      this.used(key)
      return this.metadata.tables.has(key) || SYSTEM.has(key) ? this.found.get(key) : undefined
    })
  }

  /** @throws ServiceError 400 when a computed field's definition does not hold */
  computedField(row: ComputedFieldRow, table: Found): ComputedField {
    if (table.columns.some(({ name }) => name === row.name)) throw nameTaken(row.name, table)
    return resolveComputedField(row, table, this.scope)
  }

  /** @throws ServiceError 400 when what was said of a function does not hold */
  trackedFunction(row: TrackedFunction): FunctionData {
    return resolveFunction(row, this.scope)
  }

  /** @throws ServiceError 400 when names that a table is to have do not hold */
  customNames(configuration: Json, table: Found): Customization | undefined {
    const tracked = this.tracked(table)
    const taken = new Set([...(tracked?.relationships.keys() ?? []), ...(tracked?.computedFields.keys() ?? [])])
    const other = (name: string) => this.called(name).findLast((ref) => tableKey(ref) !== tableKey(table))
    return readCustomization(configuration, table, { fields: taken, type: other })
  }

  /** Tracked tables that have a name in GraphQL. */
  private called(name: string): readonly TableRef[] {
    if (!this.typeNames) {
      this.typeNames = new Map()
      for (const tracked of this.metadata.tables.values()) {
        const alike = this.typeNames.get(typeName(tracked))
        if (alike) alike.push(tracked.ref)
        else this.typeNames.set(typeName(tracked), [tracked.ref])
      }
    }
    return this.typeNames.get(name) ?? []
  }

  /** A table that was given the name in GraphQL that another one has by itself. */
  calledLike(ref: TableRef): TableRef | undefined {
    const name = typeName(trackedTable(ref))
    const others = [...this.metadata.tables.values()].filter(({ configuration }) => configuration !== null)
    return others.find((each) => typeName(each) === name)?.ref
  }

  private relationships(table: Found): Resolved<Relationship> {
    const rows = this.tracked(table)?.relationships.values() ?? []
    return resolveEach(
      rows,
      (row) => this.relationship(row, table),
      ({ name }) => relationshipName(table, name),
    )
  }

  private computedFields(table: Found): Resolved<ComputedField> {
    const rows = this.tracked(table)?.computedFields.values() ?? []
    return resolveEach(
      rows,
      (row) => this.computedField(row, table),
      ({ name }) => computedFieldName(table, name),
    )
  }

  private customization(table: Found): { resolved?: Customization; failed: Inconsistency[] } {
    const { resolved, failed } = resolveEach(
      [this.tracked(table)?.configuration ?? null],
      (configuration) => this.customNames(configuration, table),
      () => customizationName(table),
    )
    const [customization] = resolved
    return { ...(customization ? { resolved: customization } : {}), failed }
  }

  private trackedFunctions(): Resolved<FunctionData> {
    return resolveEach(
      this.metadata.functions.values(),
      (row) => this.trackedFunction(row),
      ({ ref }) => functionName(ref),
    )
  }

  /** Remembers that a table was looked at, whether it is there or not. */
  private used(key: string): void {
    if (this.making === undefined || this.making === key) return
    const used = this.uses.get(this.making)
    if (used) used.add(key)
    else this.uses.set(this.making, new Set([key]))
  }

  private whileMaking<T>(key: string, make: () => T): T {
    const outer = this.making
    this.making = key
    try {
      return make()
    } finally {
      this.making = outer
    }
  }

  /** Builds the snapshot. What cannot be resolved is left out and listed. */
  build(): Built {
    const built = this.buildBeside(this.unchanged(), this.before?.data.filters ?? [])
    return mostlyUnused(built.data) ? this.buildBeside(new Map(), []) : built
  }

  /**
   * @param kept tables that need not be made
   * @param before the filters that they refer to, among others
   */
  private buildBeside(kept: ReadonlyMap<string, TableData>, before: readonly BoolExp[]): Built {
    const { filters, store } = storeBeside(before)
    const inconsistent: Inconsistency[] = []
    const tables = [...this.found.keys()].flatMap((key) => {
      const same = kept.get(key)
      if (same) return [same]
      const opened = this.open(key)
      if (!opened) return []
      inconsistent.push(...opened.failed)
      const permissions = this.whileMaking(key, () => this.permissions(opened.table, store, inconsistent))
      return [{ ...opened.data, permissions }]
    })
    for (const tracked of this.metadata.tables.values()) {
      const { ref } = tracked
      if (this.found.has(tableKey(ref))) continue
      const reason = `no such table/view exists in postgres : "${tableName(ref)}"`
      const objects = [tableObject(ref), ...ownObjects(tracked)]
      inconsistent.push(...objects.map((object) => ({ object, reason })))
    }
    const templates = [...this.metadata.templates.values()].map(({ name, definition, comment }) => {
      return { name, definition: stringifyJson(definition), comment }
    })
    const functions = this.trackedFunctions()
    inconsistent.push(...functions.failed, ...this.plannedTemplates().failed)
    const { version } = this.metadata
    const data = { id: randomUUID(), version, tables, filters, templates, functions: functions.resolved, inconsistent }
    const uses = new Map<string, ReadonlySet<string>>(this.uses)
    for (const key of kept.keys()) uses.set(key, this.before?.uses.get(key) ?? new Set())
    return {
      data: this.before ? shareTables(data, this.before.data) : data,
      metadata: { ...this.metadata, tables: new Map(this.metadata.tables) },
      found: { tables: new Map(this.found), functions: new Map(this.foundFunctions) },
      uses,
    }
  }

  /** The tables of the snapshot before that would be made the same again: of the same, looking at the same. */
  private unchanged(): ReadonlyMap<string, TableData> {
    const { before } = this
    // What is inconsistent must be listed again.
    if (!before || before.data.inconsistent.length > 0) return new Map()
    const tables = [this.found, before.found.tables, this.metadata.tables, before.metadata.tables]
    const keys = [...new Set(tables.flatMap((map) => [...map.keys()]))]
    const isSame = (key: string): boolean =>
      this.found.get(key) === before.found.tables.get(key) &&
      this.metadata.tables.get(key) === before.metadata.tables.get(key)
    const looksSame = (key: string): boolean =>
      this.found.get(key) === before.found.tables.get(key) &&
      sameToOthers(this.metadata.tables.get(key), before.metadata.tables.get(key))
    const affected = reaching(
      keys.filter((key) => !looksSame(key)),
      before.uses,
    )
    // Names in GraphQL depend on those of all other tables.
    const isKept = (key: string) =>
      !affected.has(key) && isSame(key) && (this.metadata.tables.get(key)?.configuration ?? null) === null
    return new Map(
      before.data.tables.flatMap((table) => {
        const key = tableKey(table)
        return isKept(key) ? [[key, table]] : []
      }),
    )
  }

  /** Undefined when no front end for templates is there. */
  meaning(definition: Json): TemplateMeaning | undefined {
    return this.resolve?.(definition, this.names)
  }

  /** What each stored template would read and write; those that no longer mean anything, with the reason. */
  plannedTemplates(): { readonly planned: ReadonlyMap<string, readonly Op[]>; readonly failed: Inconsistency[] } {
    const planned = new Map<string, readonly Op[]>()
    const failed: Inconsistency[] = []
    for (const row of this.resolve ? this.metadata.templates.values() : []) {
      try {
        planned.set(row.name, this.meaning(row.definition)?.ops ?? [])
      } catch (error) {
        failed.push({ object: templateName(row.name), reason: reasonOf(error) })
      }
    }
    return { planned, failed }
  }

  private permissions(table: Table, store: (exp: BoolExp) => number, failed: Inconsistency[]): RolePermissions[] {
    const roles = new Map<string, RolePermissions>()
    for (const row of this.tracked(table)?.permissions.values() ?? []) {
      try {
        const { type, permission } = parsePermission(row.type, row.definition, table, this.names, store)
        roles.set(row.role, { ...(roles.get(row.role) ?? { role: row.role }), [type]: permission })
      } catch (error) {
        failed.push({ object: permissionName(table, row), reason: reasonOf(error) })
      }
    }
    return [...roles.values()]
  }
}

/** Keeps each distinct expression once, those that were there before where they are. */
function storeBeside(before: readonly BoolExp[]): {
  readonly filters: readonly BoolExp[]
  readonly store: (exp: BoolExp) => number
} {
  const filters = [...before]
  let places: Map<string, number> | undefined
  const store = (exp: BoolExp): number => {
    places ??= new Map(filters.map((filter, place) => [JSON.stringify(filter), place]))
    const key = JSON.stringify(exp)
    const known = places.get(key)
    if (known !== undefined) return known
    places.set(key, filters.length)
    return filters.push(exp) - 1
  }
  return { filters, store }
}

/** So few are not worth making all tables again. */
const UNUSED = 100

/** Whether more than half of the expressions are of permissions that have gone. */
function mostlyUnused({ tables, filters }: CatalogData): boolean {
  const used = new Set(tables.flatMap(({ permissions }) => permissions.flatMap(placesOf)))
  const unused = filters.length - used.size
  return unused > UNUSED && unused > used.size
}

const placesOf = ({ insert, select, update, delete: remove }: RolePermissions): number[] =>
  [insert?.check, select?.filter, update?.filter, update?.check, remove?.filter].filter((place) => place !== undefined)

/** Whether other tables see the same of a table. What functions compute may have changed with them. */
function sameToOthers(one: TrackedTable | undefined, other: TrackedTable | undefined): boolean {
  if (!one || !other || one.computedFields.size > 0 || other.computedFields.size > 0) return !one && !other
  return isDeepStrictEqual(one.relationships, other.relationships)
}

/** The keys, and all that use one of them, directly or not. */
function reaching(keys: readonly string[], uses: Uses): ReadonlySet<string> {
  const users = new Map<string, string[]>()
  for (const [user, used] of uses) {
    for (const key of used) {
      const known = users.get(key)
      if (known) known.push(user)
      else users.set(key, [user])
    }
  }
  const reached = new Set(keys)
  // A set goes on to what is added meanwhile.
  for (const key of reached) for (const user of users.get(key) ?? []) reached.add(user)
  return reached
}

const SYSTEM: ReadonlySet<string> = new Set(SYSTEM_TABLES.map((name) => tableKey({ schema: CATALOG_SCHEMA, name })))
export const isSystem = (table: TableRef): boolean => SYSTEM.has(tableKey(table))

/** What a table is called in GraphQL. */
function typeName({ ref: { schema, name }, configuration }: TrackedTable): string {
  const custom = isObject(configuration) ? configuration['custom_name'] : undefined
  return typeof custom === 'string' ? custom : schema === 'public' ? name : `${schema}_${name}`
}

/** A table that was put together, and what of it could not be. */
interface Opened {
  readonly data: TableData
  readonly table: Table
  readonly failed: readonly Inconsistency[]
}

interface Resolved<T> {
  readonly resolved: T[]
  readonly failed: Inconsistency[]
}

/** What holds, and what does not with the reason. */
function resolveEach<Row, T>(
  rows: Iterable<Row>,
  resolve: (row: Row) => T | undefined,
  nameOf: (row: Row) => string,
): Resolved<T> {
  const result: Resolved<T> = { resolved: [], failed: [] }
  for (const row of rows) {
    try {
      const resolved = resolve(row)
      if (resolved !== undefined) result.resolved.push(resolved)
    } catch (error) {
      result.failed.push({ object: nameOf(row), reason: reasonOf(error) })
    }
  }
  return result
}

export const tableObject = (ref: TableRef): string => `table ${tableName(ref)}`
export const relationshipName = (table: TableRef, name: string): string => `relationship ${tableName(table)}.${name}`
export const computedFieldName = (table: TableRef, name: string): string => `computed-field ${tableName(table)}.${name}`
export const customizationName = (table: TableRef): string => `customization ${tableName(table)}`
export const functionName = (ref: TableRef): string => `function ${tableName(ref)}`
export const templateName = (name: string): string => `query-template ${name}`
export const permissionName = (table: TableRef, { role, type }: Pick<PermissionRow, 'role' | 'type'>): string =>
  `permission ${tableName(table)}.${role}.${type}`

/** What was said of a table, by the names that clients see. */
export const ownObjects = (table: TrackedTable | undefined): readonly string[] =>
  table
    ? [
        ...[...table.relationships.keys()].map((name) => relationshipName(table.ref, name)),
        ...[...table.computedFields.keys()].map((name) => computedFieldName(table.ref, name)),
        ...[...table.permissions.values()].map((row) => permissionName(table.ref, row)),
      ]
    : []

export const nameTaken = (name: string, table: TableRef): ServiceError =>
  new ServiceError(400, 'already-exists', `column/relationship "${name}" of table "${tableName(table)}" already exists`)

function reasonOf(error: unknown): string {
  if (error instanceof ServiceError) return error.message
  throw error
}
