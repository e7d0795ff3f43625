import { isObject, type Json, type JsonObject, liftTableRef, stringifyJson, tableName } from 'rowhouse/plan'

/** What would happen to one object of the metadata. */
interface Change extends JsonObject {
  readonly change: 'added' | 'removed' | 'changed'
  /** Its name, as in lists of inconsistent metadata. */
  readonly object: string
  /** Its entry in the export; null if there is none. */
  readonly from: Json
  readonly to: Json
}

/** Lists the objects that differ between two exports: first the added ones, then the removed ones, then the changed ones. */
export function diffMetadata(now: JsonObject, then: JsonObject): Change[] {
  const [before, after] = [objectsIn(now), objectsIn(then)]
  const entry = (all: ReadonlyMap<string, Json>, object: string): Json => all.get(object) ?? null
  const change = (kind: Change['change'], objects: readonly string[]): Change[] =>
    objects.map((object) => ({ change: kind, object, from: entry(before, object), to: entry(after, object) }))
  return [
    ...change(
      'added',
      [...after.keys()].filter((object) => !before.has(object)),
    ),
    ...change(
      'removed',
      [...before.keys()].filter((object) => !after.has(object)),
    ),
    ...change(
      'changed',
      [...after].flatMap(([object, value]) =>
        before.has(object) && stringifyJson(value) !== stringifyJson(entry(before, object)) ? [object] : [],
      ),
    ),
  ]
}

const nameOf = (name: Json | undefined): string => tableName(liftTableRef(name, '$.args'))

const listIn = (entry: JsonObject, key: string) => (entry[key] ?? []) as unknown as readonly Entry[]
/** An entry of a list, with the keys of which one is its name. */
type Entry = JsonObject & { readonly role?: string; readonly name?: string }

/** Returns the entries of an export, in canonical form, by the name of the object that they configure. */
function objectsIn(metadata: JsonObject): ReadonlyMap<string, Json> {
  const all = new Map<string, Json>()
  for (const { table, configuration, is_enum: isEnum, version_column: version, ...lists } of listIn(
    metadata,
    'tables',
  )) {
    const name = nameOf(table)
    all.set(`table ${name}`, null)
    if (isEnum === true) all.set(`enum ${name}`, null)
    if (version !== undefined) all.set(`version ${name}`, version as Json)
    if (isObject(configuration as Json)) all.set(`customization ${name}`, canonical(configuration as JsonObject))
    for (const list of Object.keys(lists)) {
      const type = list.slice(0, list.indexOf('_'))
      for (const entry of listIn(lists, list)) {
        const object =
          'role' in entry
            ? `permission ${name}.${entry.role}.${type}`
            : `${type === 'computed' ? 'computed-field' : 'relationship'} ${name}.${entry.name}`
        all.set(object, canonical(entry))
      }
    }
  }
  for (const entry of listIn(metadata, 'functions')) all.set(`function ${nameOf(entry['function'])}`, canonical(entry))
  for (const entry of listIn(metadata, 'query_templates')) all.set(`query-template ${entry.name}`, canonical(entry))
  return all
}

/** Returns an entry with sorted keys, because their order has no meaning, and with a comment. */
function canonical(entry: JsonObject): Json {
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
