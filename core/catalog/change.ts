import { isDeepStrictEqual } from 'node:util'
import pg, { type ClientBase } from 'pg'
import { isOfPostgis } from '../db/errors.js'
import { serviceError } from '../errors.js'
import type { Operand, TableRef } from '../plan/ir.js'
import { bind } from '../sql/bind.js'
import { emitConstants } from '../sql/emit.js'
import { type CatalogData, tableKey } from './catalog.js'
import { refuseRenames, refuseRetyping, refuseTakenNames } from './diff.js'
import { type CatalogOptions, Draft } from './draft.js'
import { withEnumValues } from './enum-table.js'
import { functionsNamed } from './function.js'
import { introspectFunctions } from './introspect-functions.js'
import {
  type DatabaseTable,
  type FoundTables,
  inOrder,
  introspect,
  introspectMarks,
  introspectTracked,
  namesByOid,
} from './introspect.js'
import type { Built, FoundAll } from './reuse-tables.js'
import { copyMetadata, type Marks, type Metadata, readMetadata, type TrackedTable, writeMetadata } from './metadata.js'
import {
  computedFieldName,
  customizationName,
  enumName,
  functionName,
  ownObjects,
  permissionName,
  relationshipName,
  tableObject,
  templateName,
  versionName,
} from './objects.js'
import { CATALOG_SCHEMA, SYSTEM_TABLES } from './schema.js'
import { type Survey, survey, type Wanted } from './survey.js'

/** Advisory lock for metadata. It serializes changes by all instances. */
const LOCK = 'select pg_advisory_xact_lock(823746211)'
export const CHANNEL = 'svc_catalog'

/** A metadata change in a transaction. */
export class Change {
  readonly draft: Draft
  private readonly before: Metadata
  private readonly foundBefore: MarkedTables
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
    return new Change(client, await read(client, known), options, known)
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
    const read = { metadata, marks: this.marksBefore, found: { ...found, marks: this.found.marks } }
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
      const dependents = [...broken, ...lost]
      if (dependents.length === 0) return
      if (!cascade) {
        const message = `cannot ${change} due to the following dependent objects : ${dependents.join(', ')}`
        throw serviceError('dependency-error', message, '$.args')
      }
      for (const object of lost) dropObject(this.draft, object)
      this.touched()
    }
  }

  /** Returns what this change broke. Ignores metadata that was inconsistent before. */
  private newlyBroken(): readonly string[] {
    const broken = this.snapshot().inconsistent.map(({ object }) => object)
    if (broken.length === 0) return broken
    const before = (this.brokenBefore ??= new Set(
      new Draft(this.before, this.foundBefore, this.options, this.known)
        .build()
        .data.inconsistent.map(({ object }) => object),
    ))
    return broken.filter((object) => !before.has(object))
  }

  /**
   * Checks that PostgreSQL can parse the constants of a definition.
   * @throws ServiceError 400 `unexpected-payload`
   */
  async checkConstants(constants: readonly Operand[], path: string): Promise<void> {
    const texts = constants.flatMap((each) => (each.kind === 'const' && each.type.kind !== 'text' ? [each] : []))
    if (texts.length === 0) return
    const { text, params } = emitConstants(texts)
    try {
      await this.client.query(text, bind(params, { values: [], variables: new Map() }))
    } catch (cause) {
      // Class 22: PostgreSQL cannot parse the data.
      if (!(cause instanceof pg.DatabaseError) || !(cause.code?.startsWith('22') || isOfPostgis(cause))) throw cause
      throw serviceError('unexpected-payload', cause.message, path, { cause })
    }
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
    // Forgets untracked tables; tracking one later reads it again.
    if (sameTables && sameFunctions) return apply()
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

  /** Writes the metadata, increments the version and notifies the other instances, all at commit. */
  async write(): Promise<Reading> {
    const built = this.build()
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
      found: { ...built.found, marks: this.found.marks },
    }
  }
}

/** Increments the version, so that all servers read metadata and database again. @returns the new version */
export async function announce(client: ClientBase): Promise<string> {
  const { rows } = await client.query<{ version: string }>(
    `update svc_catalog.svc_version set version = version + 1
     returning version::text, pg_notify('${CHANNEL}', version::text)::text`,
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
}

/** Reads metadata and database consistently. The client must be in a repeatable read transaction. */
export async function readAll(client: ClientBase, options: CatalogOptions = {}, known?: Reading): Promise<Reading> {
  const { metadata, marks, found } = await read(client, known)
  return { ...new Draft(metadata, found, options, known).build(), marks, found }
}

/** Reads like `readAll`, and returns only the snapshot. */
export const readCatalog = async (client: ClientBase): Promise<CatalogData> => (await readAll(client)).data

async function read(client: ClientBase, known?: Reading): Promise<Read> {
  if (known) {
    const { metadata, marks } = await readMetadata(client, known)
    return { metadata, marks, found: await refind(client, metadata, known.found) }
  }
  // Runs the slowest query first, because a starting server loads its modules meanwhile.
  const tracked = await introspectTracked(client, SYSTEM)
  const { metadata, marks } = await readMetadata(client)
  const functions = await introspectFunctions(client, functionsOf(metadata))
  const { tables, ...found } = inOrder(tracked, tablesOf(metadata))
  return { metadata, marks, found: { ...found, tables: await withEnumValues(client, metadata, tables), functions } }
}

/** Reads what the database has for the metadata. Returns the same objects for unchanged tables. */
async function refind(client: ClientBase, metadata: Metadata, known: MarkedTables): Promise<MarkedTables> {
  const { tables, marks } = await findChanged(client, tablesOf(metadata), known)
  const functions = await introspectFunctions(client, functionsOf(metadata))
  return { marks, tables: await withEnumValues(client, metadata, tables), functions }
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
  for (const [key, table] of metadata.tables) {
    const { ref } = table
    if (tableObject(ref) === object) metadata.tables.delete(key)
    if (customizationName(ref) === object) metadata.tables.set(key, { ...table, configuration: null })
    if (enumName(ref) === object) metadata.tables.set(key, { ...table, isEnum: false })
    if (versionName(ref) === object) metadata.tables.set(key, { ...table, version: null })
    if (!ownObjects(table).includes(object)) continue
    const { relationships, computedFields, permissions } = draft.changeable(key) as TrackedTable
    for (const name of computedFields.keys()) if (computedFieldName(ref, name) === object) computedFields.delete(name)
    for (const name of relationships.keys()) if (relationshipName(ref, name) === object) relationships.delete(name)
    for (const [place, row] of permissions) if (permissionName(ref, row) === object) permissions.delete(place)
  }
}
