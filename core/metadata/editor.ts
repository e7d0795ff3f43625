import { at, notExists, parseFailed, serviceError, type ServiceError, under, unexpectedPayload } from '../errors.js'
import type { Json } from '../json/parse.js'
import type { BoolExp, TableRef } from '../ir.js'
import { missingFunction, missingTable } from '../plan/names.js'
import { meant, namesake } from '../plan/near-names.js'
import { isAdmin, ROLE_NAME } from '../session.js'
import {
  type Catalog,
  type Inconsistency,
  openCatalog,
  type Relationship,
  tableKey,
  tableName,
  tableOfKey,
} from '../catalog/catalog.js'
import { type Change, dropObject } from './change.js'
import { type Constant, constantsAmong, constantsIn, presetsOf } from './constants.js'
import { isSystem, nameTaken } from './draft.js'
import { enumProblem } from './enum-table.js'
import { functionsNamed } from './function.js'
import { cycleOf } from './inherited-role.js'
import type { DatabaseTable } from './introspect.js'
import {
  type ComputedFieldRow,
  permissionKey,
  type PermissionType,
  type RelationshipRow,
  type TemplateRow,
  trackedTable,
  type TrackedFunction,
  type TrackedTable,
} from './metadata.js'
import { parsePermission } from './permission.js'
import { graphqlName, isReserved } from '../catalog/graphql-names.js'
import { givenNames, isReservedColumn, type Others, refuseTakenField, refuseTakenNames } from './customization.js'
import type { Survey, Wanted } from './survey.js'

/**
 * Changes metadata inside a transaction, one method per operation. Checks definitions immediately; objects broken by a
 * drop are found when the change settles. Paths in errors start with `path`, the location of the definition.
 */
export class Editor {
  constructor(private readonly change: Change) {}

  /** Reads tables and functions that are about to be tracked, all in one query. Repeated ones are read once. */
  async readAhead(tables: readonly TableRef[], functions: readonly TableRef[] = []): Promise<void> {
    const { draft } = this.change
    const unread = tables.filter((ref) => !draft.foundTable(ref))
    if (unread.length > 0) await this.change.addTables(unread)
    const unknown = functions.filter((ref) => !draft.foundFunction(ref))
    if (unknown.length > 0) await this.change.addFunctions(unknown)
  }

  /** Lists the tables and functions of the database. */
  survey(wanted: Wanted): Promise<Survey> {
    return this.change.survey(wanted)
  }

  /** Returns an editor whose changes are never written. */
  copy(): Editor {
    return new Editor(this.change.copy())
  }

  /**
   * Returns the snapshot with the changes so far, which is not committed.
   * @throws ServiceError 400 `dependency-error` when metadata lost an object that it depends on
   */
  get catalog(): Catalog {
    this.change.checkDependents(false)
    return openCatalog(this.change.snapshot())
  }

  /** Returns a table as the database has it, tracked or not, if it was read. */
  found(ref: TableRef): DatabaseTable | undefined {
    return this.change.draft.foundTable(ref)
  }

  /** Returns the valid relationships of a tracked table. */
  relationships(ref: TableRef): readonly Relationship[] {
    return this.change.draft.names.table(ref, 'select', '$.args').relationships
  }

  /** Returns the names that a new relationship of a tracked table cannot have. */
  takenNames(ref: TableRef): Set<string> {
    const { tracked, found } = this.table(ref)
    const { customization } = this.change.draft.names.table(ref, 'select', '$.args')
    return new Set([
      ...found.columns.map(({ name }) => name),
      ...Object.values(customization?.columns ?? {}),
      ...tracked.relationships.keys(),
      ...tracked.computedFields.keys(),
    ])
  }

  async trackTable(ref: TableRef, path = '$.args', isEnum = false): Promise<void> {
    const { draft } = this.change
    if (draft.tracked(ref) || isSystem(ref)) {
      throw serviceError('already-tracked', `table or view "${tableName(ref)}" is already tracked`, path)
    }
    if (!draft.foundTable(ref)) await this.change.addTables([ref])
    if (!draft.foundTable(ref)) throw noSuchTable(ref, path)
    const other = draft.calledLike(ref)
    if (other) {
      const message = `"${tableName(other)}" is called "${tableName(ref)}" in GraphQL`
      throw serviceError('already-exists', message, path)
    }
    draft.metadata.tables.set(tableKey(ref), trackedTable(ref))
    this.change.touched()
    if (isEnum) await this.setEnum(ref, true, path)
  }

  /** Sets whether the rows of a table are the values of an enum in GraphQL. */
  async setEnum(ref: TableRef, isEnum: boolean, path = '$.args.table'): Promise<void> {
    const { tracked } = this.table(ref, path)
    this.change.draft.metadata.tables.set(tableKey(ref), { ...tracked, isEnum })
    await this.change.addTables([ref])
    const { found } = this.table(ref, path)
    const problem = isEnum ? enumProblem(found) : undefined
    if (problem) throw unexpectedPayload(`"${tableName(ref)}" cannot be an enum: ${problem}`, path)
    this.change.touched()
  }

  /** Sets the column whose text is the version of a row, or `xmin`; null: rows have no versions. */
  setVersion(ref: TableRef, column: string | null, path = '$.args', key = 'column'): void {
    const { tracked, found } = this.table(ref, `${path}.table`)
    if (column !== null) under(at(path, key), () => this.change.draft.checkVersion(column, found))
    this.change.draft.metadata.tables.set(tableKey(ref), { ...tracked, version: column })
    this.change.touched()
  }

  /**
   * Sets what a plugin notes of each change of a table: null notes nothing.
   * @param name of the capture, which is that of its plugin
   */
  async capture(ref: TableRef, name: string, definition: Json, path = '$.args', place = path): Promise<void> {
    const { tracked, found } = this.table(ref, `${path}.table`)
    const { [name]: _, ...others } = tracked.captures
    if (definition !== null) {
      const constants = under(place, () => this.change.draft.checkCapture(name, definition, found))
      await this.change.checkConstants(constants, place)
    }
    const captures = definition === null ? others : { ...others, [name]: definition }
    this.change.draft.metadata.tables.set(tableKey(ref), { ...tracked, captures })
    this.change.touched()
  }

  /** Untracks a table with everything that belongs to it. Relationships of other tables to it are dependents. */
  untrackTable(ref: TableRef, cascade: boolean): void {
    if (isSystem(ref)) {
      throw serviceError(
        'not-supported',
        `"${tableName(ref)}" belongs to Rowhouse and cannot be untracked`,
        '$.args.table',
      )
    }
    if (!this.change.draft.metadata.tables.delete(tableKey(ref))) {
      const hint = meant(namesake(ref, [...this.change.draft.metadata.tables.keys()].map(tableOfKey)))
      const message = `table or view "${tableName(ref)}" is not tracked${hint}`
      throw serviceError('already-untracked', message, '$.args.table')
    }
    this.change.touched()
    this.change.checkDependents(cascade)
  }

  createRelationship(ref: TableRef, row: RelationshipRow, path = '$.args', using = 'using'): void {
    const { tracked, found } = this.table(ref, `${path}.table`)
    refuseLong(row.name, 'a relationship name', `${path}.name`)
    this.refuseTaken(row.name, tracked, `${path}.name`)
    under(at(path, using), () => this.change.draft.relationship(row, found))
    tracked.relationships.set(row.name, row)
    this.change.touched()
  }

  /** Renames a relationship that neither permissions nor templates name. */
  renameRelationship(ref: TableRef, name: string, newName: string): void {
    const { tracked } = this.table(ref)
    const row = tracked.relationships.get(name)
    if (!row) throw notExists(`relationship "${name}" does not exist`, '$.args.name')
    this.createRelationship(ref, { ...row, name: newName })
    tracked.relationships.delete(name)
    this.change.touched()
    this.change.checkDependents(false, [], 'rename')
  }

  dropRelationship(ref: TableRef, name: string, cascade: boolean): void {
    const { tracked } = this.table(ref)
    if (!tracked.relationships.delete(name)) {
      throw notExists(`relationship "${name}" does not exist`, '$.args.relationship')
    }
    this.change.touched()
    this.change.checkDependents(cascade)
  }

  commentRelationship(ref: TableRef, name: string, comment: string | null): void {
    const { tracked } = this.table(ref)
    const row = tracked.relationships.get(name)
    if (!row) throw notExists(`relationship "${name}" does not exist`, '$.args.relationship')
    tracked.relationships.set(name, { ...row, comment })
    this.change.touched()
  }

  async createPermission(
    ref: TableRef,
    role: string,
    type: PermissionType,
    definition: Json,
    comment: string | null,
    path = '$.args',
  ): Promise<void> {
    const { tracked } = this.table(ref, `${path}.table`)
    if (!ROLE_NAME.test(role)) throw wrongRole(`${path}.role`)
    const key = permissionKey(role, type)
    if (isAdmin({ role }) || tracked.permissions.has(key)) {
      const message = `'${type}' permission on "${tableName(ref)}" for role "${role}" already exists`
      throw serviceError('already-exists', message, path)
    }
    const { draft } = this.change
    const table = draft.names.table(ref, type, `${path}.table`)
    const constants: Constant[] = []
    const store = (exp: BoolExp) => constants.push(...constantsIn(exp))
    under(`${path}.permission`, () => {
      constants.push(...presetsOf(parsePermission(type, definition, table, draft.names, store)))
    })
    await this.change.checkConstants(constants, `${path}.permission`)
    tracked.permissions.set(key, { role, type, definition, comment })
    this.change.refuseConflicts(`${path}.permission`, [tracked])
    this.change.touched()
  }

  dropPermission(ref: TableRef, role: string, type: PermissionType): void {
    const { tracked } = this.table(ref)
    if (!tracked.permissions.delete(permissionKey(role, type))) throw noPermission(ref, role, type)
    this.change.refuseConflicts('$.args', [tracked])
    this.change.touched()
  }

  commentPermission(ref: TableRef, role: string, type: PermissionType, comment: string | null): void {
    const { tracked } = this.table(ref)
    const key = permissionKey(role, type)
    const row = tracked.permissions.get(key)
    if (!row) throw noPermission(ref, role, type)
    tracked.permissions.set(key, { ...row, comment })
    this.change.touched()
  }

  /** Sets the roles from which a role inherits; none: it is no inherited role any more. */
  setInheritance(role: string, parts: readonly string[], path = '$.args'): void {
    const { roles } = this.change.draft.metadata
    const named = [role, ...parts].map(
      (each, i) => [each, i === 0 ? `${path}.role` : at(`${path}.roles`, i - 1)] as const,
    )
    for (const [each, here] of named) {
      if (!ROLE_NAME.test(each)) throw wrongRole(here)
      if (isAdmin({ role: each }))
        throw unexpectedPayload('the role "admin" may do everything; it neither inherits nor is inherited', here)
    }
    if (parts.length === 0) roles.delete(role)
    else roles.set(role, [...new Set(parts)])
    const cycle = cycleOf(role, roles)
    if (cycle)
      throw unexpectedPayload(`role "${role}" would inherit from itself: ${cycle.join(' -> ')}`, `${path}.roles`)
    this.change.refuseConflicts(`${path}.roles`)
    this.change.touched()
  }

  async addComputedField(ref: TableRef, row: ComputedFieldRow, path = '$.args'): Promise<void> {
    const { tracked, found } = this.table(ref, `${path}.table`)
    refuseLong(row.name, 'a name', `${path}.name`)
    this.refuseTaken(row.name, tracked, `${path}.name`)
    if (found.columns.some(({ name }) => name === row.name)) throw nameTaken(row.name, ref).under(`${path}.name`)
    await this.change.addFunctions(functionsNamed(row))
    under(`${path}.definition`, () => this.change.draft.computedField(row, found))
    tracked.computedFields.set(row.name, row)
    this.change.touched()
  }

  dropComputedField(ref: TableRef, name: string, cascade: boolean): void {
    const { tracked } = this.table(ref)
    if (!tracked.computedFields.delete(name)) throw notExists(`computed field "${name}" does not exist`, '$.args.name')
    this.change.touched()
    this.change.checkDependents(cascade)
  }

  /** Sets the GraphQL names of a table and its columns; null restores the default names. */
  /** @param place path of the configuration */
  customize(ref: TableRef, configuration: Json, path = '$.args', place = `${path}.configuration`): void {
    const { tracked, found } = this.table(ref, `${path}.table`)
    under(place, () => this.change.draft.customNames(configuration, found))
    this.change.draft.metadata.tables.set(tableKey(ref), { ...tracked, configuration })
    this.change.touched()
  }

  /** Refuses GraphQL names of a table that are taken. @param place path of its configuration */
  refuseTakenNames(ref: TableRef, place = '$.args.configuration'): void {
    const { tracked, found } = this.table(ref)
    const named = { found, given: givenNames(tracked.configuration) }
    under(place, () => refuseTakenNames(named, this.others(ref)))
  }

  /**
   * Returns the names in GraphQL that the server made for a table and its columns, by their own names, because those are
   * not valid there.
   */
  madeNames(ref: TableRef): Readonly<Record<string, string>> {
    const { tracked, found } = this.table(ref)
    const shown = this.change.draft.tables.get(tableKey(ref))?.customization
    const { custom_name: name, column_config: columns } = givenNames(tracked.configuration)
    const all = [
      ...(name || !isReserved(graphqlName(ref)) ? [] : [[ref.name, shown?.name] as const]),
      ...found.columns
        .filter((column) => isReservedColumn(column.name) && !columns?.[column.name]?.custom_name)
        .map((column) => [column.name, shown?.columns[column.name]] as const),
    ]
    return Object.fromEntries(all.flatMap(([own, made]) => (made === undefined ? [] : [[own, made]])))
  }

  async trackFunction(row: Omit<TrackedFunction, 'roles'>, path = '$.args'): Promise<void> {
    const { draft } = this.change
    const { ref } = row
    if (draft.metadata.functions.has(tableKey(ref))) {
      const message = `function "${tableName(ref)}" is already tracked`
      throw serviceError('already-tracked', message, path)
    }
    if (!draft.foundFunction(ref)) await this.change.addFunctions([ref])
    const tracked = { ...row, roles: new Set<string>() }
    under(path, () => draft.trackedFunction(tracked))
    draft.metadata.functions.set(tableKey(ref), tracked)
    this.change.touched()
  }

  /** Refuses the GraphQL name of a function if it is taken. */
  refuseTakenField(ref: TableRef): void {
    const called = this.change.draft.functions.find((each) => tableKey(each) === tableKey(ref))
    if (!called) return
    const path = called.customName === undefined ? '$.args' : '$.args.configuration.custom_name'
    under(path, () => refuseTakenField(called, this.others(undefined, ref)))
  }

  untrackFunction(ref: TableRef): void {
    if (!this.change.draft.metadata.functions.delete(tableKey(ref))) throw this.noFunction(ref, '$.args.function')
    this.change.touched()
  }

  /** Grants or revokes a role's permission to call a tracked function. */
  permitFunction(ref: TableRef, role: string, may: boolean, path = '$.args'): void {
    const { functions } = this.change.draft.metadata
    const row = functions.get(tableKey(ref))
    if (!row) throw this.noFunction(ref, `${path}.function`)
    if (!ROLE_NAME.test(role)) throw wrongRole(`${path}.role`)
    if (row.roles.has(role) === may) {
      const what = `permission of role "${role}" to call function "${tableName(ref)}"`
      throw may
        ? serviceError('already-exists', `${what} already exists`, path)
        : notExists(`${what} does not exist`, path)
    }
    const others = [...row.roles].filter((each) => each !== role)
    functions.set(tableKey(ref), { ...row, roles: new Set(may ? [...others, role].sort() : others) })
    this.change.touched()
  }

  /** Removes all metadata. */
  clear(): void {
    const { metadata } = this.change.draft
    metadata.tables.clear()
    metadata.templates.clear()
    metadata.functions.clear()
    metadata.roles.clear()
    this.change.touched()
  }

  get inheritedRoles(): ReadonlyMap<string, readonly string[]> {
    return this.change.draft.metadata.roles
  }
  get trackedFunctions(): readonly TrackedFunction[] {
    return [...this.change.draft.metadata.functions.values()]
  }
  get trackedTables(): readonly TrackedTable[] {
    return [...this.change.draft.metadata.tables.values()]
  }
  get templates(): readonly TemplateRow[] {
    return [...this.change.draft.metadata.templates.values()]
  }

  async createTemplate(row: TemplateRow, path = '$.args'): Promise<void> {
    const { draft } = this.change
    const { templates } = draft.metadata
    if (templates.has(row.name)) {
      throw serviceError('already-exists', `query template "${row.name}" already exists`, path)
    }
    const meaning = under(`${path}.template`, () => draft.meaning(row.definition))
    await this.change.checkConstants(constantsAmong(meaning?.constants ?? []), `${path}.template`)
    templates.set(row.name, row)
    this.change.touched()
  }

  dropTemplate(name: string): void {
    if (!this.change.draft.metadata.templates.delete(name)) throw noTemplate(name)
    this.change.touched()
  }

  commentTemplate(name: string, comment: string | null): void {
    const { templates } = this.change.draft.metadata
    const row = templates.get(name)
    if (!row) throw noTemplate(name)
    templates.set(name, { ...row, comment })
    this.change.touched()
  }

  dropInconsistent(): void {
    const { draft } = this.change
    for (const { object } of this.inconsistent) dropObject(draft, object)
    this.change.touched()
  }
  get inconsistent(): readonly Inconsistency[] {
    return this.change.snapshot().inconsistent
  }

  /** Refuses a name that a relationship, a computed field or a column in GraphQL has already. */
  private refuseTaken(name: string, { ref, relationships, computedFields }: TrackedTable, path: string): void {
    const { customization } = this.change.draft.names.table(ref, 'select', path)
    const columns = Object.values(customization?.columns ?? {})
    if (relationships.has(name) || computedFields.has(name) || columns.includes(name)) {
      throw nameTaken(name, ref).under(path)
    }
  }

  /**
   * Returns everything exposed in GraphQL except one table or function. Builds no tables, because a bulk calls this a
   * thousand times.
   */
  private others(table?: TableRef, called?: TableRef): Others {
    const { metadata, functions, naming } = this.change.draft
    const but = (ref?: TableRef) => (each: TableRef) => !ref || tableKey(each) !== tableKey(ref)
    return {
      tables: [...metadata.tables.values()].flatMap((tracked) => {
        const found = this.change.draft.foundTable(tracked.ref)
        return found && but(table)(found) ? [{ found, given: givenNames(tracked.configuration) }] : []
      }),
      functions: functions.filter(but(called)),
      naming,
    }
  }

  private table(ref: TableRef, path = '$.args.table'): { tracked: TrackedTable; found: DatabaseTable } {
    const tracked = this.change.draft.changeable(tableKey(ref))
    const found = this.change.draft.foundTable(ref)
    if (!tracked || !found) throw missingTable(ref, path, this.change.draft.metadata.tables.keys())
    return { tracked, found }
  }

  private noFunction(ref: TableRef, path: string): ServiceError {
    return missingFunction(ref, path, [...this.change.draft.metadata.functions.keys()].map(tableOfKey))
  }
}

/** Maximum length of the names that metadata gives to fields. Their table has an index on them. */
const MAX_NAME_BYTES = 255

function refuseLong(name: string, what: string, path: string): void {
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) throw parseFailed(`${what} has at most ${MAX_NAME_BYTES} bytes`, path)
}

const wrongRole = (path: string): ServiceError => parseFailed('a role name has 1 to 64 of A-Z a-z 0-9 _ . -', path)

const noSuchTable = ({ schema, name }: TableRef, path: string): ServiceError => {
  const message = `table or view "${tableName({ schema, name })}" does not exist in the database`
  return serviceError('not-exists', message, path, { missing: { schema, name } })
}

const noTemplate = (name: string): ServiceError => notExists(`query-template "${name}" does not exist`, '$.args.name')

function noPermission(ref: TableRef, role: string, type: PermissionType): ServiceError {
  // Clients match this text, including the spelling.
  const message = `${type} permisson on "${tableName(ref)}" for role "${role}" does not exist`
  return serviceError('permission-denied', message, '$.args')
}
