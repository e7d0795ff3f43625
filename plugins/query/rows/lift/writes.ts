import {
  at,
  describe,
  isObject,
  type Json,
  type JsonObject,
  liftBoolExp,
  liftTableRef,
  NO_LIMITS,
  parseJson,
  parseFailed,
  Rows,
  rowsOf,
  Slots,
  unexpectedPayload,
} from 'rowhouse/plan'
import {
  type Lifted,
  type ExpectShape,
  type ColumnShapes,
  type InsertShape,
  type RelatedShape,
  type ConflictShape,
  type UpdateShape,
  type SetShape,
} from './shape.js'
import { PATH, present, expectKeys, required, oneOf, columnNames } from './keys.js'
import { liftColumns } from './reads.js'

/** @param rows the part of the rows in `args` to insert; by default all */
export function liftInsert(args: Json, rows?: Rows): Lifted<InsertShape> {
  return liftRows(args, rows)
}

/** Lifts an insert that is described and not run: with the rows of relationships. */
export function liftWholeInsert(args: Json): Lifted {
  return liftRows(args, undefined, relatedIn)
}

function liftRows(args: Json, rows?: Rows, related?: typeof relatedIn): Lifted<InsertShape> {
  const object = expectKeys(args, ['table', 'objects', 'on_conflict', 'returning'], PATH)
  const table = liftTableRef(object['table'], `${PATH}.table`)
  const objects = rows ?? rowsIn(object)
  if (objects.count === 0) throw unexpectedPayload('objects should not be empty', `${PATH}.objects`)
  const { on_conflict: conflict } = object
  const slots = new Slots()
  return {
    shape: {
      type: 'insert',
      table,
      rows: slots.add(objects),
      columns: keysOf(objects),
      onConflict: present(conflict) ? liftConflict(conflict, `${PATH}.on_conflict`) : undefined,
      returning: liftReturning(object, slots),
      related: related?.(objects, slots),
    },
    values: slots.values,
  }
}

/** Returns the keys of rows, with whether every row has them. */
const keysOf = ({ columns, count }: Rows) => [...columns].map(([name, { present: n }]) => [name, n === count] as const)

/** Returns the values `{"data": ..., "on_conflict"?}` in rows, which are rows of relationships. */
function relatedIn(rows: Rows, slots: Slots): readonly RelatedShape[] {
  const nested = [...rows.columns].filter(([, { first }]) => first.composite >= 0).map(([name]) => name)
  if (nested.length === 0) return []
  const all = parseJson(rows.source, NO_LIMITS) as readonly JsonObject[]
  return nested.flatMap((name) =>
    all.flatMap((row): RelatedShape[] => {
      const given = row[name]
      if (!present(given) || !isObject(given) || !present(given['data'])) return []
      const { data, on_conflict: conflict } = given
      const list = Array.isArray(data) ? data : [data]
      if (!list.every(isObject)) return []
      const inner = rowsOf(list, `${PATH}.objects`)
      const onConflict = present(conflict) ? liftConflict(conflict, at(`${PATH}.objects`, name)) : undefined
      return [{ name, rows: slots.add(inner), columns: keysOf(inner), onConflict, related: relatedIn(inner, slots) }]
    }),
  )
}

/** Returns the rows of an insert. Those of HTTP requests have been parsed as `Rows` already. */
function rowsIn(args: JsonObject): Rows {
  const objects = required(args, 'objects', PATH)
  if (objects instanceof Rows) return objects
  if (Array.isArray(objects)) return rowsOf(objects, `${PATH}.objects`)
  throw parseFailed(`expecting an array of objects, but found ${describe(objects)}`, `${PATH}.objects`)
}

/** @param stored whether the update is described and not run */
export function liftUpdate(args: Json, stored?: true): Lifted<UpdateShape> {
  const slots = new Slots()
  const keys = ['table', 'where', 'expect', '$set', 'values', '$inc', '$mul', '$default', 'returning']
  const object = expectKeys(args, keys, PATH)
  const table = liftTableRef(object['table'], `${PATH}.table`)
  const where = liftBoolExp(required(object, 'where', PATH), `${PATH}.where`, slots)
  const assigned = (kind: 'set' | 'inc' | 'mul', under: string): SetShape[] => {
    const path = at(PATH, under)
    const value = object[under]
    if (!present(value)) return []
    if (!isObject(value)) throw parseFailed(`expecting an object of columns, but found ${describe(value)}`, path)
    return Object.keys(value).map((column) => {
      const to = value[column] as Json
      if (to === null && kind !== 'set') throw parseFailed('expecting a number, but found null', at(path, column))
      return { under, kind, column, slot: to === null ? undefined : slots.add(to) }
    })
  }
  const set = [
    ...assigned('set', present(object['$set']) ? '$set' : 'values'),
    ...assigned('inc', '$inc'),
    ...assigned('mul', '$mul'),
    ...liftDefaults(object['$default']),
  ]
  refuseTwice(set)
  const expect = liftExpect(object, slots)
  const returning = liftReturning(object, slots)
  return { shape: { type: 'update', table, where, expect, set, returning, stored }, values: slots.values }
}

export function liftDelete(args: Json): Lifted {
  const slots = new Slots()
  const object = expectKeys(args, ['table', 'where', 'expect', 'returning'], PATH)
  const table = liftTableRef(object['table'], `${PATH}.table`)
  const where = liftBoolExp(required(object, 'where', PATH), `${PATH}.where`, slots)
  const expect = liftExpect(object, slots)
  const returning = liftReturning(object, slots)
  return { shape: { type: 'delete', table, where, expect, returning }, values: slots.values }
}

export function liftConflict(value: Json, path: string): ConflictShape {
  const object = expectKeys(value, ['action', 'constraint', 'constraint_on'], path)
  required(object, 'action', path)
  const action = oneOf(object['action'], ['ignore', 'update'], `${path}.action`) as 'ignore' | 'update'
  const { constraint, constraint_on: on } = object
  if (present(constraint) && present(on)) {
    throw unexpectedPayload("'constraint' and 'constraint_on' cannot be set at a time", path)
  }
  if (action === 'update' && !present(constraint) && !present(on)) {
    throw unexpectedPayload("Expecting 'constraint' or 'constraint_on' when the 'action' is 'update'", path)
  }
  if (Array.isArray(on) && on.length === 0) {
    throw unexpectedPayload('constraint_on should not be empty', `${path}.constraint_on`)
  }
  if (present(constraint) && typeof constraint !== 'string') {
    throw parseFailed('expecting the name of a constraint', `${path}.constraint`)
  }
  return {
    action,
    constraint: constraint ?? undefined,
    columns: present(on) ? (typeof on === 'string' ? [on] : columnNames(on, `${path}.constraint_on`)) : undefined,
  }
}

function liftDefaults(value: Json | undefined): SetShape[] {
  if (!present(value)) return []
  return columnNames(value, `${PATH}.$default`).map((column) => ({ under: '$default', kind: 'default', column }))
}

function refuseTwice(set: readonly SetShape[]): void {
  const seen = new Set<string>()
  for (const { under, column } of set) {
    if (seen.has(column)) {
      throw unexpectedPayload(`multiple assignments to same column "${column}"`, at(at(PATH, under), column))
    }
    seen.add(column)
  }
}

/** What `If-Match: *` says, in place of `expect`. No value of a client is this object. */
export const ANY_VERSION: JsonObject = Object.freeze({ version: '*' })

/** Unlike other keys, it cannot be null: a write would lose its condition. */
function liftExpect({ expect }: JsonObject, slots: Slots): ExpectShape | undefined {
  if (expect === undefined) return undefined
  if (expect === ANY_VERSION) return { version: null }
  const version = required(expectKeys(expect, ['version'], `${PATH}.expect`), 'version', `${PATH}.expect`)
  if (version === null) throw parseFailed('expecting a string, but found null', `${PATH}.expect.version`)
  return { version: slots.add(version) }
}

function liftReturning({ returning }: JsonObject, slots: Slots): ColumnShapes | undefined {
  return present(returning) ? liftColumns(returning, `${PATH}.returning`, slots, 1) : undefined
}
