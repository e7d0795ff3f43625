import { randomUUID } from 'node:crypto'
import { ServiceError, serviceError } from '../errors.js'
import { isObject, type Json, stringifyJson } from '../json/parse.js'
import type { BoolExp, Op, Operand, SqlType, TableRef } from '../ir.js'
import { allNames, type Names, type Tables } from '../plan/names.js'
import { permissionRole, roleName } from '../session.js'
import {
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
} from '../catalog/catalog.js'
import { type Captures, type CaptureTrigger, checkCapture, triggersOf } from './capture.js'
import { type Constant, constantsAmong, constantsIn, type Judged, presetsOf, refuseRefused } from './constants.js'
import { isReservedColumn, readCustomization } from './customization.js'
import { enumProblem } from './enum-table.js'
import { isReserved, madeName, type NamingConvention } from '../catalog/graphql-names.js'
import { type FunctionScope, resolveComputedField, resolveFunction } from './function.js'
import type { FoundFunction } from './introspect-functions.js'
import type { DatabaseTable } from './introspect.js'
import { type Built, type FoundAll, mostlyUnused, storeBeside, unchanged } from './reuse-tables.js'
import {
  copyTable,
  trackedTable,
  type ComputedFieldRow,
  type Metadata,
  type RelationshipRow,
  type TrackedFunction,
  type TrackedTable,
} from './metadata.js'
import {
  captureName,
  computedFieldName,
  customizationName,
  enumName,
  functionName,
  inheritedRoleName,
  ownObjects,
  permissionName,
  relationshipName,
  tableObject,
  templateName,
  versionName,
} from './objects.js'
import { type Filters, inherit, type PermissionsByRole } from './inherited-permission.js'
import { conflictsIn, inOrder } from './inherited-role.js'
import { parsePermission } from './permission.js'
import { resolveRelationship, systemRelationships } from './relationship.js'
import { conditionPrinter, type PrintCondition } from './row-condition.js'
import { checkVersion } from './row-version.js'
import { CATALOG_SCHEMA, SYSTEM_TABLES } from './schema.js'

/**
 * Resolves a stored template. Provided by the front end that runs templates.
 * @throws ServiceError 400 for an invalid template, with a path below `$`, the root of the definition
 */
type TemplateResolver = (definition: Json, names: Names) => TemplateMeaning
export interface TemplateMeaning {
  /** Its reads and writes. */
  readonly ops: readonly Op[]
  /** Default values of its parameters. */
  readonly constants: readonly Operand[]
}

/** What plugins say about the catalog. */
export interface CatalogOptions {
  /** Resolves stored templates. Absent when no front end for templates is loaded. */
  readonly templates?: TemplateResolver
  /** Whether a role may call functions that change nothing and return rows of a table that it may select from. */
  readonly inferFunctionPermissions?: boolean
  /** How GraphQL names what has no custom name. */
  readonly naming?: NamingConvention
  /** What plugins may note of changes. */
  readonly captures?: Captures
}

/**
 * Metadata that can still change, together with the database schema. Tables are built on demand, so that a thousand
 * definitions can be checked in sequence and the snapshot is built once.
 */
export class Draft implements Tables {
  private readonly found: Map<string, DatabaseTable>
  private readonly foundFunctions: Map<string, FoundFunction>
  private readonly opened = new Map<string, Opened>()
  /** Tables that were copied for changes. */
  private readonly own = new Set<string>()
  private readonly uses = new Map<string, Set<string>>()
  /** Table that is being built. */
  private making: string | undefined
  /** Tracked tables by their GraphQL name. */
  private typeNames: Map<string, TableRef[]> | undefined
  private made: Map<string, string> | undefined
  private planned: PlannedTemplates | undefined
  private judgedNow: Judged
  readonly tables = {
    get: (key: string) => this.open(key)?.table,
    keys: () => this.metadata.tables.keys(),
    values: () => [...this.found.keys()].map((key) => this.open(key)?.table).filter((table) => table !== undefined),
  }
  /** All existing names, because only admins create definitions. */
  readonly names: Names

  /** Scope for checking functions. */
  private readonly scope: FunctionScope = {
    function: (ref) => this.foundFunctions.get(tableKey(ref)),
    tracked: (ref) => this.metadata.tables.has(tableKey(ref)) && this.found.has(tableKey(ref)),
  }

  /** @param before snapshot of a similar state, for reuse */
  constructor(
    readonly metadata: Metadata,
    found: FoundAll,
    private readonly options: CatalogOptions,
    private readonly before?: Built,
  ) {
    this.found = new Map(found.tables)
    this.foundFunctions = new Map(found.functions)
    this.judgedNow = found.judged
    this.names = allNames(this)
  }

  /** Absent unless names in GraphQL differ from those in the database. */
  get naming(): NamingConvention | undefined {
    return this.options.naming === 'graphql-default' ? 'graphql-default' : undefined
  }

  /** Returns the valid tracked functions. */
  get functions(): readonly FunctionData[] {
    return this.trackedFunctions().resolved
  }

  /** Returns a table of the database, tracked or not. */
  foundTable(ref: TableRef): DatabaseTable | undefined {
    return this.found.get(tableKey(ref))
  }

  foundFunction(ref: TableRef): FoundFunction | undefined {
    return this.foundFunctions.get(tableKey(ref))
  }

  addFound({ tables, functions }: Pick<FoundAll, 'tables' | 'functions'>): void {
    for (const [key, table] of tables) this.found.set(key, table)
    for (const [key, each] of functions) this.foundFunctions.set(key, each)
  }

  replaceFound(found: FoundAll): void {
    this.found.clear()
    this.foundFunctions.clear()
    this.judged = found.judged
    this.addFound(found)
  }

  /** Which constants PostgreSQL can read. */
  get judged(): Judged {
    return this.judgedNow
  }
  set judged(judged: Judged) {
    // What is captured of a table depends on them.
    if (judged.refused.size !== this.judgedNow.refused.size) this.opened.clear()
    this.judgedNow = judged
    this.planned = undefined
  }

  tracked(ref: TableRef): TrackedTable | undefined {
    return this.metadata.tables.get(tableKey(ref))
  }

  /** Returns a tracked table for changes. Copies it if the original metadata shares it. */
  changeable(key: string): TrackedTable | undefined {
    const { tables } = this.metadata
    const table = tables.get(key)
    if (!table || this.own.has(key)) return table
    const copy = copyTable(table)
    this.own.add(key)
    tables.set(key, copy)
    return copy
  }

  /** Discards what was built. Call it after changing metadata. */
  changed(): void {
    this.opened.clear()
    this.typeNames = undefined
    this.made = undefined
    this.planned = undefined
  }

  /** Builds a tracked or system table that exists, without permissions. */
  private open(key: string): Opened | undefined {
    this.used(key)
    const ready = this.opened.get(key)
    if (ready) return ready
    const found = this.found.get(key)
    if (!found) return undefined
    if (!isSystem(found) && !this.metadata.tables.has(key)) return undefined
    return this.recordingUses(key, () => this.make(key, found))
  }

  private make(key: string, found: DatabaseTable): Opened {
    const system = isSystem(found)
    const relationships = this.relationships(found)
    const computedFields = this.computedFields(found)
    const customization = this.customization(found)
    const version = this.version(found)
    const captures = this.captures(found)
    const problem = this.tracked(found)?.isEnum ? enumProblem(found) : undefined
    const data: TableData = {
      ...found,
      columns: this.enumColumns(found),
      system,
      relationships: system ? systemRelationships(found) : relationships.resolved,
      computedFields: computedFields.resolved,
      permissions: [],
      ...(customization.resolved ? { customization: customization.resolved } : {}),
      ...(version.resolved[0] === undefined ? {} : { version: version.resolved[0] }),
      ...(captures.resolved.length > 0 ? { captures: captures.resolved } : {}),
    }
    const failed = [relationships, computedFields, customization, version, captures].flatMap((each) => each.failed)
    if (problem) failed.push({ object: enumName(found), reason: `"${tableName(found)}" cannot be an enum: ${problem}` })
    const opened = { data, table: openTable(data), failed }
    this.opened.set(key, opened)
    return opened
  }

  /** Returns the columns. Those with a foreign key to an enum table have its values. */
  private enumColumns({ columns, foreignKeys }: DatabaseTable): DatabaseTable['columns'] {
    const enums = new Map<string, Pick<SqlType, 'enumTable' | 'labels' | 'labelComments'>>()
    for (const { table, columns: own, remoteColumns } of foreignKeys) {
      const key = tableKey(table)
      this.used(key)
      const [tracked, remote] = [this.metadata.tables.get(key), this.found.get(key)]
      if (own.length !== 1 || !tracked?.isEnum || !remote || enumProblem(remote)) continue
      if (remote.primaryKey[0] !== remoteColumns[0]) continue
      const { enumValues = [] } = remote
      const labels = enumValues.map(({ value }) => value)
      const labelComments = enumValues.flatMap(({ value, comment }) => (comment ? [[value, comment] as const] : []))
      const comments = labelComments.length > 0 ? { labelComments } : {}
      enums.set(own[0] as string, { enumTable: typeName(tracked), labels, ...comments })
    }
    if (enums.size === 0) return columns
    return columns.map((column) => ({ ...column, type: { ...column.type, ...enums.get(column.name) } }))
  }

  /** @throws ServiceError 400 for an invalid relationship */
  relationship(row: RelationshipRow, table: DatabaseTable): Relationship {
    if (table.columns.some(({ name }) => name === row.name)) throw nameTaken(row.name, table)
    return resolveRelationship(row, table, (ref) => {
      const key = tableKey(ref)
      this.used(key)
      return this.metadata.tables.has(key) || SYSTEM.has(key) ? this.found.get(key) : undefined
    })
  }

  /** @throws ServiceError 400 for an invalid computed field */
  computedField(row: ComputedFieldRow, table: DatabaseTable): ComputedField {
    if (table.columns.some(({ name }) => name === row.name)) throw nameTaken(row.name, table)
    return resolveComputedField(row, table, this.scope)
  }

  /** @throws ServiceError 400 for an invalid tracked function */
  trackedFunction(row: TrackedFunction): FunctionData {
    return resolveFunction(row, this.scope, this.options.inferFunctionPermissions)
  }

  /** @throws ServiceError 400 for invalid custom names of a table */
  customNames(configuration: Json, table: DatabaseTable): Customization | undefined {
    const tracked = this.tracked(table)
    const taken = new Set([...(tracked?.relationships.keys() ?? []), ...(tracked?.computedFields.keys() ?? [])])
    const other = (name: string) => this.called(name).findLast((ref) => tableKey(ref) !== tableKey(table))
    return readCustomization(configuration, table, { fields: taken, type: other })
  }

  /** @throws ServiceError 400 for a column that cannot be the version of the rows of a table */
  checkVersion(column: string, table: DatabaseTable): void {
    const tracked = this.tracked(table)
    checkVersion(column, table, [...(tracked?.relationships.keys() ?? []), ...(tracked?.computedFields.keys() ?? [])])
  }

  /** Returns the tracked tables with a GraphQL name. */
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

  /** Returns a table whose custom name equals the default GraphQL name of another. */
  calledLike(ref: TableRef): TableRef | undefined {
    const name = typeName(trackedTable(ref))
    const others = [...this.metadata.tables.values()].filter(({ configuration }) => configuration !== null)
    return others.find((each) => typeName(each) === name)?.ref
  }

  private relationships(table: DatabaseTable): Resolved<Relationship> {
    const rows = this.tracked(table)?.relationships.values() ?? []
    return resolveEach(
      rows,
      (row) => this.relationship(row, table),
      ({ name }) => relationshipName(table, name),
    )
  }

  private computedFields(table: DatabaseTable): Resolved<ComputedField> {
    const rows = this.tracked(table)?.computedFields.values() ?? []
    return resolveEach(
      rows,
      (row) => this.computedField(row, table),
      ({ name }) => computedFieldName(table, name),
    )
  }

  private version(table: DatabaseTable): Resolved<string> {
    const column = this.tracked(table)?.version ?? null
    return resolveEach(
      column === null ? [] : [column],
      (name) => {
        this.checkVersion(name, table)
        return name
      },
      () => versionName(table),
    )
  }

  /**
   * @returns the constants in its conditions
   * @throws ServiceError 400 for a definition that does not fit the table
   */
  checkCapture(name: string, definition: Json, table: DatabaseTable): readonly Constant[] {
    const capture = this.options.captures?.get(name)
    if (!capture) throw serviceError('not-supported', `no plugin notes "${name}"`, '$')
    const constants: Constant[] = []
    checkCapture(
      capture,
      definition,
      table,
      this.conditions(table, (found) => constants.push(...found)),
    )
    return constants
  }

  /** Returns the constants in the conditions of all captures. */
  captureConstants(): readonly Constant[] {
    const { captures } = this.options
    const entries = [...this.metadata.tables.values()].flatMap((tracked) => {
      const table = this.foundTable(tracked.ref)
      const definitions = Object.entries(tracked.captures).filter(([name]) => captures?.has(name))
      return table ? definitions.map(([name, definition]) => ({ name, definition, table })) : []
    })
    return resolveEach(
      entries,
      ({ name, definition, table }) => this.checkCapture(name, definition, table),
      ({ name }) => name,
    ).resolved.flat()
  }

  /** A condition sees the tables as they are before their captures, which may be about each other. */
  private conditions(table: DatabaseTable, found?: (constants: readonly Constant[]) => void): PrintCondition {
    const bare = (key: string): Table | undefined => {
      const each = this.found.get(key)
      if (!each || !(isSystem(each) || this.metadata.tables.has(key))) return undefined
      const relationships = isSystem(each) ? systemRelationships(each) : this.relationships(each).resolved
      return openTable({ ...each, system: isSystem(each), relationships, computedFields: [], permissions: [] })
    }
    const tables = { get: bare, keys: () => this.metadata.tables.keys(), values: () => [] }
    const names = allNames({ tables, functions: [] })
    return (exp, row, path) => {
      return conditionPrinter(bare(tableKey(table)) as Table, names, this.judged, found)(exp, row, path)
    }
  }

  /** Returns the captures of a table that are in place. Those of plugins that are not loaded are not. */
  private captures(table: DatabaseTable): Resolved<string> {
    const wanted = this.tracked(table)?.captures ?? {}
    const { captures } = this.options
    return resolveEach(
      Object.entries(wanted).filter(([name]) => captures?.has(name)),
      ([name, definition]) => {
        this.checkCapture(name, definition, table)
        return this.triggersOf(table)?.every((each) => table.captured?.includes(each.name)) ? name : undefined
      },
      ([name]) => captureName(table, name),
    )
  }

  /**
   * Returns the triggers that note the changes of a table, for definitions that fit it; undefined while a plugin that notes some
   * of them is not loaded.
   */
  triggersOf(table: DatabaseTable): readonly CaptureTrigger[] | undefined {
    const { captures = new Map() } = this.options
    const wanted = Object.entries(this.tracked(table)?.captures ?? {})
    if (wanted.some(([name]) => !captures.has(name))) return undefined
    const fitting = resolveEach(
      wanted,
      (each) => {
        this.checkCapture(...each, table)
        return each
      },
      ([name]) => name,
    )
    return triggersOf(table, Object.fromEntries(fitting.resolved), captures, this.conditions(table))
  }

  private customization(table: DatabaseTable): { resolved?: Customization; failed: Inconsistency[] } {
    const { resolved, failed } = resolveEach(
      [this.tracked(table)?.configuration ?? null],
      (configuration) => this.customNames(configuration, table),
      () => customizationName(table),
    )
    const [customization] = resolved
    return { resolved: this.withMadeNames(table, customization), failed }
  }

  /** Gives the table and its columns names in GraphQL if their own are not valid there and they have no custom ones. */
  private withMadeNames(table: DatabaseTable, custom: Customization | undefined): Customization | undefined {
    const tracked = this.tracked(table)
    if (!tracked) return custom
    const odd = table.columns.filter(
      ({ name }) => isReservedColumn(name) && !Object.hasOwn(custom?.columns ?? {}, name),
    )
    if (odd.length === 0 && !this.madeNames.has(tableKey(table))) return custom
    const columns = new Map(Object.entries(custom?.columns ?? {}))
    const own = table.columns.map(({ name }) => columns.get(name) ?? name)
    const taken = new Set([...own, ...tracked.relationships.keys(), ...tracked.computedFields.keys()])
    for (const { name } of odd) {
      const made = madeName(name, (each) => taken.has(each) || isReservedColumn(each))
      columns.set(name, made)
      taken.add(made)
    }
    const name = custom?.name ?? this.madeNames.get(tableKey(table))
    return { rootFields: {}, ...custom, name, columns: Object.fromEntries(columns) }
  }

  /** Names in GraphQL, by `tableKey`, of tracked tables whose own are not valid there. */
  private get madeNames(): ReadonlyMap<string, string> {
    if (!this.made) {
      this.made = new Map()
      const taken = new Set([...this.metadata.tables.values()].map(typeName))
      const odd = [...this.metadata.tables].filter(([, tracked]) => isReserved(typeName(tracked)))
      for (const [key, tracked] of odd.sort(([a], [b]) => (a < b ? -1 : 1))) {
        const name = madeName(typeName(tracked), (each) => taken.has(each) || isReserved(each))
        this.made.set(key, name)
        taken.add(name)
      }
    }
    return this.made
  }

  private trackedFunctions(): Resolved<FunctionData> {
    const { resolved, failed } = resolveEach(
      this.metadata.functions.values(),
      (row) => this.trackedFunction(row),
      ({ ref }) => functionName(ref),
    )
    return { resolved: resolved.map((called) => this.withInherited(called)), failed }
  }

  /** Adds the inherited roles of those that may call a function. */
  private withInherited(called: FunctionData): FunctionData {
    const { roles } = this.metadata
    const may = new Set(called.roles)
    for (const role of inOrder(roles)) if (roles.get(role)?.some((part) => may.has(part))) may.add(role)
    return may.size > called.roles.length ? { ...called, roles: [...may].sort() } : called
  }

  /** Lists the inherited roles that contradict themselves. Metadata operations refuse these, but SQL can store them. */
  private inheritedRoles(): Inconsistency[] {
    const { roles } = this.metadata
    const cycles = [...roles.keys()].filter((role) => !inOrder(roles).includes(role))
    return [
      ...cycles.map((role) => ({ object: inheritedRoleName(role), reason: `role "${role}" inherits from itself` })),
      ...conflictsIn(this.metadata).map(({ role, message }) => ({ object: inheritedRoleName(role), reason: message })),
    ]
  }

  /** Records that a table was used, even if it does not exist. */
  private used(key: string): void {
    if (this.making === undefined || this.making === key) return
    const used = this.uses.get(this.making)
    if (used) used.add(key)
    else this.uses.set(this.making, new Set([key]))
  }

  private recordingUses<T>(key: string, make: () => T): T {
    const outer = this.making
    this.making = key
    try {
      return make()
    } finally {
      this.making = outer
    }
  }

  /** Builds the snapshot. Omits and lists what cannot be resolved. */
  build(): Built {
    const kept = this.before
      ? unchanged(this.metadata, { tables: this.found, judged: this.judged }, this.before)
      : new Map<string, TableData>()
    const built = this.buildBeside(kept, this.before?.data.filters ?? [])
    return mostlyUnused(built.data) ? this.buildBeside(new Map(), []) : built
  }

  /** @param kept tables that can be reused @param before contains the filters that they refer to */
  private buildBeside(kept: ReadonlyMap<string, TableData>, before: readonly BoolExp[]): Built {
    const stored = storeBeside(before)
    const inconsistent: Inconsistency[] = []
    const tables = [...this.found.keys()].flatMap((key) => {
      const same = kept.get(key)
      if (same) return [same]
      const opened = this.open(key)
      if (!opened) return []
      inconsistent.push(...opened.failed)
      const permissions = this.recordingUses(key, () => this.permissions(opened.table, stored, inconsistent))
      return [{ ...opened.data, permissions }]
    })
    for (const tracked of this.metadata.tables.values()) {
      const { ref } = tracked
      if (this.found.has(tableKey(ref))) continue
      const reason = `table or view "${tableName(ref)}" does not exist in the database`
      const objects = [tableObject(ref), ...ownObjects(tracked)]
      inconsistent.push(...objects.map((object) => ({ object, reason })))
    }
    const templates = [...this.metadata.templates.values()].map(({ name, definition, comment }) => {
      return { name, definition: stringifyJson(definition), comment }
    })
    const functions = this.trackedFunctions()
    inconsistent.push(...functions.failed, ...this.plannedTemplates().failed, ...this.inheritedRoles())
    const { version } = this.metadata
    const { naming } = this
    const data = {
      id: randomUUID(),
      version,
      tables,
      filters: stored.filters,
      templates,
      functions: functions.resolved,
      inconsistent,
      naming,
    }
    const uses = new Map<string, ReadonlySet<string>>(this.uses)
    for (const key of kept.keys()) uses.set(key, this.before?.uses.get(key) ?? new Set())
    return {
      data: this.before ? shareTables(data, this.before.data) : data,
      metadata: { ...this.metadata, tables: new Map(this.metadata.tables), roles: new Map(this.metadata.roles) },
      found: { tables: new Map(this.found), functions: new Map(this.foundFunctions), judged: this.judged },
      uses,
    }
  }

  /** Returns undefined when no front end for templates is loaded. */
  meaning(definition: Json): TemplateMeaning | undefined {
    return this.options.templates?.(definition, this.names)
  }

  /** Returns what the stored templates mean, and the invalid ones with reasons. */
  plannedTemplates(): PlannedTemplates {
    if (this.planned) return this.planned
    const planned = new Map<string, TemplateMeaning>()
    const failed: Inconsistency[] = []
    for (const row of this.metadata.templates.values()) {
      try {
        const meaning = this.meaning(row.definition)
        if (!meaning) continue
        refuseRefused(constantsAmong(meaning.constants), this.judged)
        planned.set(row.name, meaning)
      } catch (error) {
        failed.push({ object: templateName(row.name), reason: reasonOf(error) })
      }
    }
    return (this.planned = { planned, failed })
  }

  private permissions(table: Table, filters: Filters, failed: Inconsistency[]): RolePermissions[] {
    const roles: PermissionsByRole = new Map()
    const tracked = this.tracked(table)
    for (const row of tracked?.permissions.values() ?? []) {
      try {
        const exps: BoolExp[] = []
        const parsed = parsePermission(row.type, row.definition, table, this.names, (exp) => {
          exps.push(exp)
          return filters.store(exp)
        })
        const { type, permission, backendOnly } = parsed
        if (this.judged.refused.size > 0)
          refuseRefused([...exps.flatMap(constantsIn), ...presetsOf(parsed)], this.judged)
        const role = backendOnly ? permissionRole({ role: row.role, backend: true }) : row.role
        roles.set(role, { ...(roles.get(role) ?? { role }), [type]: permission })
      } catch (error) {
        failed.push({ object: permissionName(table, row), reason: reasonOf(error) })
      }
    }
    // A backend request has the role's other permissions too.
    for (const [role, own] of roles) roles.set(role, { ...roles.get(roleName(role)), ...own })
    if (tracked) inherit(roles, tracked, this.metadata.roles, filters)
    return [...roles.values()]
  }
}

const SYSTEM: ReadonlySet<string> = new Set(SYSTEM_TABLES.map((name) => tableKey({ schema: CATALOG_SCHEMA, name })))
export const isSystem = (table: TableRef): boolean => SYSTEM.has(tableKey(table))

/** Returns the GraphQL name of a table. */
function typeName({ ref: { schema, name }, configuration }: TrackedTable): string {
  const custom = isObject(configuration) ? configuration['custom_name'] : undefined
  return typeof custom === 'string' ? custom : schema === 'public' ? name : `${schema}_${name}`
}

interface PlannedTemplates {
  readonly planned: ReadonlyMap<string, TemplateMeaning>
  readonly failed: readonly Inconsistency[]
}

/** A built table, and the parts of it that are inconsistent. */
interface Opened {
  readonly data: TableData
  readonly table: Table
  readonly failed: readonly Inconsistency[]
}

interface Resolved<T> {
  readonly resolved: T[]
  readonly failed: Inconsistency[]
}

/** Separates valid rows from invalid ones with their reasons. */
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

export const nameTaken = (name: string, table: TableRef): ServiceError =>
  serviceError('already-exists', `column or relationship "${name}" of table "${tableName(table)}" already exists`)

function reasonOf(error: unknown): string {
  if (error instanceof ServiceError) return error.message
  throw error
}
