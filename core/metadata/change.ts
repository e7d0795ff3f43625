import { isDeepStrictEqual } from 'node:util'
import type { ClientBase } from 'pg'
import { serviceError } from '../errors.js'
import type { TableRef } from '../ir.js'
import { type CatalogData, type Inconsistency, sameCatalog, tableKey } from '../catalog/catalog.js'
import { type CaptureTrigger, syncTriggers } from './capture.js'
import { type Constant, constantsAmong, constantsOf, judge, refuseRefused, UNJUDGED } from './constants.js'
import { refuseRenames, refuseRetyping, refuseTakenNames } from './diff.js'
import { type CatalogOptions, Draft } from './draft.js'
import { withEnumValues } from './enum-table.js'
import { functionsNamed } from './function.js'
import { type FoundFunction, introspectFunctions } from './introspect-functions.js'
import {
  type DatabaseTable,
  type FoundTables,
  inOrder,
  introspect,
  introspectMarks,
  introspectState,
  introspectTracked,
  namesByOid,
} from './introspect.js'
import type { Built, FoundAll } from './reuse-tables.js'
import { conflictsIn } from './inherited-role.js'
import { copyMetadata, type Marks, type Metadata, readMetadata, type TrackedTable, writeMetadata } from './metadata.js'
import {
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
  captureName,
} from './objects.js'
import { CATALOG_SCHEMA, SYSTEM_TABLES } from './schema.js'
import { type Survey, survey, type Wanted } from './survey.js'

/** Advisory lock for metadata. It serializes changes by all instances. */
const LOCK = 'select pg_catalog.pg_advisory_xact_lock(823746211)'
export const CHANNEL = 'svc_catalog'

/** A metadata change in a transaction. */
export class Change {
  readonly draft: Draft
  private readonly before: Metadata
  private foundBefore: MarkedTables
  private readonly marksBefore: Marks
  /** Database objects that the draft knows. */
  private found: MarkedTables
  private brokenBefore: ReadonlySet<string> | undefined
  private built: Built | undefined
  private changes = 0

  private constructor(
    private readonly client: ClientBase,
    { metadata, marks, found }: Read,
    private readonly options: CatalogOptions,
    private readonly known?: Reading,
  ) {
    this.before = metadata
    this.marksBefore = marks
    this.foundBefore = found
    this.found = found
    this.draft = new Draft(copyMetadata(metadata), found, options, known)
  }

  /** Takes the lock and reads the current state. @param known the previous reading */
  static async begin(client: ClientBase, options: CatalogOptions = {}, known?: Reading): Promise<Change> {
    await client.query(LOCK)
    const read = await readMarked(client, known)
    const change = new Change(client, read, options, known)
    if (read.found.state !== known?.found.state) await change.judgeBefore()
    return change
  }

  /** Starts from a reading, without the lock, to try changes that are never written. */
  static trying(client: ClientBase, options: CatalogOptions, reading: Reading): Change {
    return new Change(client, reading, options, reading)
  }

  /** Adds tables of the database to the draft. Reading many takes hardly longer than reading one. */
  async addTables(refs: readonly TableRef[]): Promise<void> {
    const { tables } = await introspect(this.client, refs)
    const found = await withEnumValues(this.client, this.draft.metadata, tables)
    this.draft.addFound({ tables: found, functions: new Map() })
  }
  /** Adds functions of the database to the draft. */
  async addFunctions(refs: readonly TableRef[]): Promise<void> {
    this.draft.addFound({ tables: new Map(), functions: await introspectFunctions(this.client, refs) })
  }
  /** Lists what the database has. */
  survey(wanted: Wanted): Promise<Survey> {
    return survey(this.client, wanted)
  }

  /** Returns a copy that is never written, to try changes. */
  copy(): Change {
    const { metadata, found } = this.build()
    const read = { metadata, marks: this.marksBefore, found: { ...this.found, ...found } }
    return new Change(this.client, read, this.options, this.known)
  }

  /** Marks the metadata or its tables as changed. */
  touched(): void {
    this.draft.changed()
    this.built = undefined
    this.changes++
  }
  /** Returns the number of changes so far. */
  get revision(): number {
    return this.changes
  }

  /**
   * Checks that no metadata lost an object that it depends on.
   * @param cascade drops such metadata instead of refusing
   * @param gone objects that were removed with a dropped table
   * @param change the verb of the error
   * @throws ServiceError 400 `dependency-error` naming the dependents
   */
  checkDependents(cascade: boolean, gone: readonly string[] = [], change = 'drop'): void {
    for (let broken = gone; ; broken = []) {
      const lost = this.newlyBroken()
      if (broken.length + lost.length === 0) return
      if (!cascade) {
        // Only of a constant, the object that it names does not say what is wrong.
        const reasons = new Set(this.draft.judged.refused.values())
        const refused = lost.filter(({ reason }) => reasons.has(reason))
        const named = lost.map(({ object, reason }) => (reasons.has(reason) ? `${object} (${reason})` : object))
        const message = `cannot ${refused.length > 0 ? 'change' : change} because of dependent objects: ${[...broken, ...named].join(', ')}`
        throw serviceError('dependency-error', message, '$.args')
      }
      for (const { object } of lost) dropObject(this.draft, object)
      this.touched()
    }
  }

  /** Returns what this change broke. Ignores metadata that was inconsistent before. */
  private newlyBroken(): readonly Inconsistency[] {
    const broken = this.snapshot().inconsistent
    if (broken.length === 0) return broken
    const before = (this.brokenBefore ??= new Set(
      new Draft(this.before, this.foundBefore, this.options, this.known)
        .build()
        .data.inconsistent.map(({ object }) => object),
    ))
    return broken.filter(({ object }) => !before.has(object))
  }

  /**
   * Checks that no inherited role gets contradictory permissions by this change.
   * @param among tables to check; by default all
   * @throws ServiceError 400 `dependency-error`
   */
  refuseConflicts(path: string, among?: readonly TrackedTable[]): void {
    const conflicts = conflictsIn(this.draft.metadata, among)
    if (conflicts.length === 0) return
    const before = new Set(conflictsIn(this.before).map(({ message }) => message))
    const found = conflicts.flatMap(({ message }) => (before.has(message) ? [] : message))
    if (found.length > 0) throw serviceError('dependency-error', found.join('; '), path)
  }

  /**
   * Checks that PostgreSQL can read the constants of a definition.
   * @throws ServiceError 400 `unexpected-payload`
   */
  async checkConstants(constants: readonly Constant[], path: string): Promise<void> {
    const judged = await judge(this.client, constants, this.draft.judged)
    refuseRefused(constants, judged, path)
    this.draft.judged = judged
  }

  /** Builds the snapshot after asking PostgreSQL about the constants that it has not read in this state of the database. */
  private async judge(): Promise<Built> {
    return (this.built = await buildJudged(this.client, this.draft, this.build()))
  }
  /** Finds what other SQL broke before this change. */
  private async judgeBefore(): Promise<void> {
    await this.judge()
    this.foundBefore = { ...this.foundBefore, judged: this.draft.judged }
  }

  /**
   * Reads the tables again after SQL that may have changed them.
   * @throws ServiceError 400: a rename, a change of type or a drop that metadata depends on
   */
  async rescan(cascade: boolean): Promise<void> {
    const { draft } = this
    const tables = tablesOf(draft.metadata)
    const functions = functionsOf(draft.metadata)
    const found = await refind(this.client, draft.metadata, this.found)
    // Applied only after the change is known to be allowed: later readings would trust marks of what the draft lacks.
    const apply = () => {
      // What was refused may be readable now.
      if (draft.judged.refused.size > 0) this.built = undefined
      this.found = found
      draft.replaceFound(found)
    }
    const now = found.tables
    const before = new Map(
      tables.flatMap((ref) => {
        const found = draft.foundTable(ref)
        return found ? [[tableKey(ref), found]] : []
      }),
    )
    const sameTables = before.size === now.size && [...before].every(([key, table]) => table === now.get(key))
    const sameFunctions = functions.every(
      (ref) => JSON.stringify(draft.foundFunction(ref)) === JSON.stringify(found.functions.get(tableKey(ref))),
    )
    if (sameTables && sameFunctions) {
      const { refused } = this.draft.judged
      const isSame = found.state === this.found.state
      // Forgets untracked tables; tracking one later reads it again.
      apply()
      if (isSame) return
      await this.judge()
      if (!isDeepStrictEqual(this.draft.judged.refused, refused)) this.touched()
      return this.checkDependents(cascade)
    }
    const oids = [...before.values()]
      .filter((found) => now.get(tableKey(found))?.oid !== found.oid)
      .map(({ oid }) => oid)
    refuseRenames(before, now, await namesByOid(this.client, oids))
    refuseRetyping(before, now, this.snapshot(), draft.plannedTemplates().planned)
    refuseTakenNames(draft, now)
    const dropped = [...before.values()].filter((found) => !now.has(tableKey(found)))
    const gone = dropped.flatMap((found) => ownObjects(draft.tracked(found)))
    for (const found of dropped) draft.metadata.tables.delete(tableKey(found))
    apply()
    this.touched()
    await this.judge()
    this.checkDependents(cascade, gone)
  }

  /** Returns the uncommitted snapshot of the transaction. */
  snapshot(): CatalogData {
    return this.build().data
  }

  private build(): Built {
    this.built ??= this.draft.build()
    return this.built
  }

  /**
   * Writes the metadata if it was changed, or if SQL of others changed what it means, before the transaction commits.
   * @returns what is known now: with the snapshot of before if it is the same. Undefined: nothing new
   */
  async finish(): Promise<Reading | undefined> {
    const { known } = this
    if (this.changes > 0) this.checkDependents(false)
    await this.syncCaptures()
    if (this.changes > 0) return this.write()
    if (!known || known.found.state === this.found.state) return undefined
    const { data, found } = await this.judge()
    if (!sameCatalog(data, known.data)) return this.write()
    return { ...known, found: { ...this.found, ...found } }
  }

  /** Makes and drops the triggers of captures, if the database lacks some, or has some that nothing asks for. */
  private async syncCaptures(): Promise<void> {
    const { draft } = this
    const wanted = new Map<number, readonly CaptureTrigger[]>()
    const kept = new Set<number>()
    let isSame = true
    for (const table of tablesOf(draft.metadata).flatMap((ref) => draft.foundTable(ref) ?? [])) {
      const { oid, captured = [] } = table
      const triggers = draft.triggersOf(table)
      if (triggers === undefined) kept.add(oid)
      else if (triggers.length > 0) wanted.set(oid, triggers)
      const isThere = (triggers ?? []).every(({ name }) => captured.includes(name))
      if (triggers && (triggers.length !== captured.length || !isThere)) isSame = false
    }
    for (const [key, { captures }] of this.before.tables) {
      if (Object.keys(captures).length > 0 && !draft.metadata.tables.has(key)) isSame = false
    }
    if (isSame) return
    await syncTriggers(this.client, wanted, kept)
    this.found = await refind(this.client, draft.metadata, this.found)
    draft.replaceFound(this.found)
    this.touched()
  }

  /** Writes the metadata, increments the version and notifies the other instances, all at commit. */
  private async write(): Promise<Reading> {
    const built = await this.judge()
    const { metadata, data } = built
    await writeMetadata(this.client, this.before, metadata)
    const version = await announce(this.client)
    // Changed tables are read again next time.
    const same = [...this.marksBefore].filter(([key]) => metadata.tables.get(key) === this.before.tables.get(key))
    return {
      ...built,
      data: { ...data, version },
      metadata: { ...metadata, version },
      marks: new Map(same),
      found: { ...this.found, ...built.found },
    }
  }
}

/** Increments the version, so that all servers read metadata and database again. @returns the new version */
export async function announce(client: ClientBase): Promise<string> {
  const { rows } = await client.query<{ version: string }>(
    `update svc_catalog.svc_version set version = version + 1
     returning version::text, pg_catalog.pg_notify('${CHANNEL}', version::text)::text`,
  )
  return rows[0]?.version as string
}

/** A reading and the snapshot made from it. The next reading reuses the unchanged parts. */
export interface Reading extends Built {
  readonly marks: Marks
  readonly found: MarkedTables
}
type Read = Omit<Reading, keyof Omit<Built, 'metadata'>> & Pick<Reading, 'found'>
interface MarkedTables extends FoundAll {
  /** Marks of the tables. */
  readonly marks: Marks
  /** State of the database. All else was read then or later. @see introspectState */
  readonly state: string
}

/** Reads metadata and database consistently. The client must be in a repeatable read transaction. */
export async function readAll(client: ClientBase, options: CatalogOptions = {}, known?: Reading): Promise<Reading> {
  const { metadata, marks, found } = await readMarked(client, known)
  const built = await buildJudged(client, new Draft(metadata, found, options, known))
  return { ...built, marks, found: { ...found, ...built.found } }
}

/** Asks about the constants of a built draft. It is built again if PostgreSQL cannot read some: their objects are inconsistent. */
async function buildJudged(client: ClientBase, draft: Draft, built = draft.build()): Promise<Built> {
  const { judged } = draft
  const templates = [...draft.plannedTemplates().planned.values()].flatMap(({ constants }) => constants)
  const constants = [...constantsOf(built.data), ...constantsAmong(templates), ...draft.captureConstants()]
  draft.judged = await judge(client, constants, judged)
  if (draft.judged.refused.size > judged.refused.size) return draft.build()
  return { ...built, found: { ...built.found, judged: draft.judged } }
}

/** Reads like `readAll`, and returns only the snapshot. */
export const readCatalog = async (client: ClientBase): Promise<CatalogData> => (await readAll(client)).data

async function readMarked(client: ClientBase, known?: Reading): Promise<Read> {
  if (known) {
    const { metadata, marks } = await readMetadata(client, known)
    return { metadata, marks, found: await refind(client, metadata, known.found) }
  }
  const state = await introspectState(client)
  // Runs the slowest query first, because a starting server loads its modules meanwhile.
  const tracked = await introspectTracked(client, SYSTEM)
  const { metadata, marks } = await readMetadata(client)
  const functions = await introspectFunctions(client, functionsOf(metadata))
  const { tables, ...found } = inOrder(tracked, tablesOf(metadata))
  const all = await withEnumValues(client, metadata, tables)
  return { metadata, marks, found: { ...found, tables: all, functions, state, judged: UNJUDGED } }
}

/**
 * Reads what the database has for the metadata. Returns the same objects for unchanged tables. If no definition in the
 * database changed, only what is not known is read.
 */
async function refind(client: ClientBase, metadata: Metadata, known: MarkedTables): Promise<MarkedTables> {
  const state = await introspectState(client)
  const isSame = state === known.state
  const [refs, called] = [tablesOf(metadata), functionsOf(metadata)]
  const { tables, marks } = isSame ? await findNew(client, refs, known) : await findChanged(client, refs, known)
  const functions = isSame
    ? await findNewFunctions(client, called, known.functions)
    : await introspectFunctions(client, called)
  const judged = isSame ? known.judged : UNJUDGED
  return { marks, tables: await withEnumValues(client, metadata, tables), functions, state, judged }
}

async function findNew(client: ClientBase, refs: readonly TableRef[], known: FoundTables): Promise<FoundTables> {
  const read = await introspect(
    client,
    refs.filter((ref) => !known.tables.has(tableKey(ref))),
  )
  const all = { tables: new Map([...known.tables, ...read.tables]), marks: new Map([...known.marks, ...read.marks]) }
  return inOrder(all, refs)
}

async function findNewFunctions(
  client: ClientBase,
  refs: readonly TableRef[],
  known: FoundAll['functions'],
): Promise<FoundAll['functions']> {
  const read = await introspectFunctions(
    client,
    refs.filter((ref) => !known.has(tableKey(ref))),
  )
  const keys = [...new Set(refs.map(tableKey))].filter((key) => known.has(key) || read.has(key))
  return new Map(keys.map((key) => [key, (known.get(key) ?? read.get(key)) as FoundFunction]))
}

async function findChanged(client: ClientBase, refs: readonly TableRef[], known: FoundTables): Promise<FoundTables> {
  const marks = await introspectMarks(client, refs)
  const same = (key: string) => (marks.get(key) === known.marks.get(key) ? known.tables.get(key) : undefined)
  const changed = await introspect(
    client,
    refs.filter((ref) => marks.has(tableKey(ref)) && !same(tableKey(ref))),
  )
  const tables = refs.map(tableKey).flatMap((key) => {
    const table = marks.has(key) ? (same(key) ?? changed.tables.get(key)) : undefined
    const before = known.tables.get(key)
    return table ? [[key, isDeepStrictEqual(table, before) ? (before as DatabaseTable) : table] as const] : []
  })
  return { tables: new Map(tables), marks: new Map([...marks, ...changed.marks]) }
}

const SYSTEM: readonly TableRef[] = SYSTEM_TABLES.map((name) => ({ schema: CATALOG_SCHEMA, name }))

function tablesOf(metadata: Metadata): readonly TableRef[] {
  return [...[...metadata.tables.values()].map(({ ref }) => ref), ...SYSTEM]
}

/** Returns the tracked functions and those of computed fields. */
function functionsOf({ tables, functions }: Metadata): readonly TableRef[] {
  const refs = [...functions.values()].map(({ ref }) => ref)
  for (const { computedFields } of tables.values()) {
    for (const row of computedFields.values()) refs.push(...functionsNamed(row))
  }
  return refs
}

/** Removes the object with this name from a list of dependents. */
export function dropObject(draft: Draft, object: string): void {
  const { metadata } = draft
  for (const name of metadata.templates.keys()) if (templateName(name) === object) metadata.templates.delete(name)
  for (const [key, { ref }] of metadata.functions) if (functionName(ref) === object) metadata.functions.delete(key)
  for (const role of metadata.roles.keys()) if (inheritedRoleName(role) === object) metadata.roles.delete(role)
  for (const [key, table] of metadata.tables) {
    const { ref } = table
    if (tableObject(ref) === object) metadata.tables.delete(key)
    if (customizationName(ref) === object) metadata.tables.set(key, { ...table, configuration: null })
    if (enumName(ref) === object) metadata.tables.set(key, { ...table, isEnum: false })
    for (const name of Object.keys(table.captures)) {
      if (captureName(ref, name) === object) {
        const { [name]: _, ...captures } = table.captures
        metadata.tables.set(key, { ...table, captures })
      }
    }
    if (versionName(ref) === object) metadata.tables.set(key, { ...table, version: null })
    if (!ownObjects(table).includes(object)) continue
    const { relationships, computedFields, permissions } = draft.changeable(key) as TrackedTable
    for (const name of computedFields.keys()) if (computedFieldName(ref, name) === object) computedFields.delete(name)
    for (const name of relationships.keys()) if (relationshipName(ref, name) === object) relationships.delete(name)
    for (const [place, row] of permissions) if (permissionName(ref, row) === object) permissions.delete(place)
  }
}
