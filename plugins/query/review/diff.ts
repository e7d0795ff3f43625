import { type Call, type Catalog, type Data, type Operation, type PermissionType, ServiceError } from 'rowhouse'
import { isObject, type Json, type JsonObject, liftTableRef, stringifyJson, tableName } from 'rowhouse/plan'
import { exportMetadata, metadataSchema, replaceMetadata } from '../metadata/all.js'
import type { Effect } from './effects/effect.js'
import { effectsOf } from './effects/effects.js'
import {
  fieldObject,
  functionObject,
  permissionObject,
  relationshipObject,
  tableObject,
  captureObject,
  versionObject,
} from './objects.js'

/** What would happen to one object of the metadata. */
interface Change extends JsonObject {
  readonly change: 'added' | 'removed' | 'changed'
  /** Its name, as in lists of inconsistent metadata. */
  readonly object: string
  /** Its entry in the export; null if there is none. */
  readonly from: Json
  readonly to: Json
  readonly effects: Effect[]
}

/** The snapshots that belong to two exports. */
interface Catalogs {
  readonly before: Catalog
  readonly after: Catalog
}

/** The operation that says what `replace_metadata` would do. */
export const diffOperation = (data: Data): Operation => ({
  admin: true,
  args: metadataSchema,
  async run(args, call) {
    const wanted = args as JsonObject
    const now = exportMetadata(await data.metadata(call))
    const { refused = null, ...catalogs } = await tryReplacing(data, wanted, call)
    const changes = diffMetadata(now, wanted, 'after' in catalogs ? catalogs : undefined)
    return { kind: 'text', text: stringifyJson({ changes, refused }) }
  },
})

/** Returns the snapshots before and after all metadata is replaced, or why it cannot be. */
async function tryReplacing(
  data: Data,
  wanted: JsonObject,
  call: Call,
): Promise<{ readonly refused: Json } | (Catalogs & { readonly refused?: never })> {
  try {
    return await data.alter(call, async (edit) => {
      const tried = edit.copy()
      await replaceMetadata(tried, wanted)
      return { before: edit.catalog, after: tried.catalog }
    })
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status !== 400) throw error
    return { refused: { path: error.path, error: error.message, code: error.code } }
  }
}

/**
 * Lists the objects that differ between two exports: first the added ones, then the removed ones, then the changed ones. Among
 * these are permissions that mean something else because of another object.
 * @param catalogs absent if the server refuses the second export, which then has no effects
 */
function diffMetadata(now: JsonObject, then: JsonObject, catalogs?: Catalogs): Change[] {
  const [before, after] = [objectsIn(now), objectsIn(then)]
  const added = [...after.keys()].filter((object) => !before.has(object))
  const removed = [...before.keys()].filter((object) => !after.has(object))
  const others = [...after.keys()].filter((object) => before.has(object))
  const entry = (all: typeof before, object: string): Json => canonical(all.get(object) ?? null)
  const changed = new Set(
    others.filter((object) => stringifyJson(entry(before, object)) !== stringifyJson(entry(after, object))),
  )
  const isSame = added.length === 0 && removed.length === 0 && changed.size === 0
  const effects =
    catalogs && !isSame
      ? effectsOf(
          { catalog: catalogs.before, entries: before },
          { catalog: catalogs.after, entries: after },
          new Set([...added, ...removed, ...changed]),
        )
      : new Map<string, Effect[]>()
  const list = (kind: Change['change'], objects: readonly string[]): Change[] =>
    objects.map((object) => ({
      change: kind,
      object,
      from: entry(before, object),
      to: entry(after, object),
      effects: effects.get(object) ?? [],
    }))
  return [
    ...list('added', added),
    ...list('removed', removed),
    ...list('changed', [
      ...others.filter((object) => changed.has(object) || effects.has(object)),
      // Permissions of roles that are made of others have no entries.
      ...[...effects.keys()].filter((object) => !before.has(object) && !after.has(object)),
    ]),
  ]
}

const listIn = (entry: JsonObject, key: string) => (entry[key] ?? []) as unknown as readonly Entry[]
/** An entry of a list, with the keys of which one is its name. */
type Entry = JsonObject & { readonly role?: string; readonly name?: string }

/** Returns the entries of an export by the name of the object that they configure; null if there is nothing to say of it. */
function objectsIn(metadata: JsonObject): ReadonlyMap<string, JsonObject | null> {
  const all = new Map<string, JsonObject | null>()
  for (const { table, configuration, is_enum: isEnum, version_column: version, captures, ...lists } of listIn(
    metadata,
    'tables',
  )) {
    const ref = liftTableRef(table, '$.args')
    all.set(tableObject(ref), null)
    if (isEnum === true) all.set(`enum ${tableName(ref)}`, null)
    if (version !== undefined) all.set(versionObject(ref), { column: version as Json })
    for (const [name, definition] of Object.entries((captures ?? {}) as JsonObject)) {
      all.set(captureObject(ref, name), isObject(definition) ? definition : null)
    }
    if (isObject(configuration as Json)) all.set(`customization ${tableName(ref)}`, configuration as JsonObject)
    for (const list of Object.keys(lists)) {
      const type = list.slice(0, list.indexOf('_'))
      for (const entry of listIn(lists, list)) {
        const { role, name = '' } = entry
        const object =
          role !== undefined
            ? permissionObject(ref, role, type as PermissionType)
            : type === 'computed'
              ? fieldObject(ref, name)
              : relationshipObject(ref, name)
        all.set(object, entry)
      }
    }
  }
  for (const entry of listIn(metadata, 'functions')) {
    all.set(functionObject(liftTableRef(entry['function'], '$.args')), entry)
  }
  for (const entry of listIn(metadata, 'inherited_roles')) all.set(`inherited-role ${entry.role}`, entry)
  for (const entry of listIn(metadata, 'query_templates')) all.set(`query-template ${entry.name}`, entry)
  return all
}

/** Returns an entry with sorted keys, because their order has no meaning, and with a comment. */
function canonical(entry: JsonObject | null): Json {
  if (entry === null) return null
  const sorted = (value: Json): Json => {
    if (Array.isArray(value)) return value.map(sorted)
    if (!isObject(value)) return value
    const entries = Object.entries(value).flatMap(([key, inner]): [string, Json][] =>
      inner === undefined ? [] : [[key, sorted(inner)]],
    )
    return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
  }
  return sorted({ comment: null, ...entry })
}
