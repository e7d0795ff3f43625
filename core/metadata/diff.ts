import { type ServiceError, serviceError } from '../errors.js'
import type { BoolExp, Preset, TableRef } from '../ir.js'
import { mentions, usesColumn } from '../plan/uses.js'
import { roleName } from '../session.js'
import { type CatalogData, type Column, tableKey, tableName } from '../catalog/catalog.js'
import { type Draft, nameTaken, type TemplateMeaning } from './draft.js'
import { permissionName, relationshipName, templateName } from './objects.js'
import type { DatabaseTable, FoundColumn } from './introspect.js'

type Tables = ReadonlyMap<string, DatabaseTable>

/** Refuses renames. Dependents refer to names; oid and attnum distinguish a rename from a drop. */
export function refuseRenames(before: Tables, now: Tables, byOid: ReadonlyMap<number, TableRef>): void {
  for (const [key, old] of before) {
    const table = now.get(key)
    if (table?.oid !== old.oid) {
      if (byOid.has(old.oid)) throw notSupported(`run_sql cannot rename tables: "${tableName(old)}"`)
      continue
    }
    for (const [was, is] of sameColumns(old, table)) {
      if (was.name === is.name) continue
      throw notSupported(`run_sql cannot rename columns: "${tableName(old)}"."${was.name}"`)
    }
  }
}

/**
 * Refuses a change of type if permissions or templates use the column, because they were checked against the old type.
 */
export function refuseRetyping(
  before: Tables,
  now: Tables,
  catalog: CatalogData,
  templates: ReadonlyMap<string, TemplateMeaning>,
): void {
  for (const [key, old] of before) {
    const table = now.get(key)
    if (table?.oid !== old.oid) continue
    for (const [was, is] of [...sameColumns(old, table), ...replacedColumns(old, table)]) {
      if (sameType(was, is)) continue
      const users = [
        ...relationshipsUsing(catalog, old, was.name, now),
        ...permissionsUsing(catalog, old, was.name),
        ...templatesUsing(templates, old, was.name),
      ]
      if (users.length === 0) continue
      const message = `cannot change type of column "${was.name}" in table "${tableName(old)}" because of dependent objects: ${users.join(', ')}`
      throw serviceError('dependency-error', message, '$.args')
    }
  }
}

export function refuseTakenNames(draft: Draft, now: Tables): void {
  for (const table of now.values()) {
    const tracked = draft.tracked(table)
    const before = draft.foundTable(table)?.columns.map(({ name }) => name) ?? []
    for (const { name } of table.columns) {
      const taken = tracked?.relationships.has(name) || tracked?.computedFields.has(name)
      if (taken && !before.includes(name)) throw nameTaken(name, table).under('$.args')
    }
  }
}

function sameColumns(old: DatabaseTable, now: DatabaseTable): [FoundColumn, FoundColumn][] {
  return old.columns.flatMap((was) => {
    const is = now.columns.find(({ number }) => number === was.number)
    return is ? [[was, is] satisfies [FoundColumn, FoundColumn]] : []
  })
}

const sameType = (a: Column, b: Column): boolean => a.type.schema === b.type.schema && a.type.name === b.type.name

/** Returns columns that were dropped and created again under the same name. */
function replacedColumns(old: DatabaseTable, now: DatabaseTable): [FoundColumn, FoundColumn][] {
  return old.columns.flatMap((was) => {
    const is = now.columns.find(({ name }) => name === was.name)
    return is && is.number !== was.number ? [[was, is] satisfies [FoundColumn, FoundColumn]] : []
  })
}

/** Returns relationships whose columns can no longer be compared, because their types changed. */
function relationshipsUsing(catalog: CatalogData, table: TableRef, column: string, now: Tables): string[] {
  const key = tableKey(table)
  const typeOf = (ref: TableRef, name: string) =>
    now.get(tableKey(ref))?.columns.find((each) => each.name === name) ??
    catalog.tables.find((each) => tableKey(each) === tableKey(ref))?.columns.find((each) => each.name === name)
  return catalog.tables.flatMap((owner) =>
    owner.relationships
      .filter(({ table: remote, on }) =>
        on.some(([outer, inner]) => {
          const touched =
            (tableKey(owner) === key && outer === column) || (tableKey(remote) === key && inner === column)
          const [left, right] = [typeOf(owner, outer), typeOf(remote, inner)]
          return touched && left !== undefined && right !== undefined && !comparable(left, right)
        }),
      )
      .map(({ name }) => relationshipName(owner, name)),
  )
}

const NUMBERS = new Set(['int2', 'int4', 'int8', 'float', 'numeric'])
const comparable = (left: Column, right: Column): boolean =>
  sameType(left, right) ||
  (NUMBERS.has(left.type.kind) && NUMBERS.has(right.type.kind)) ||
  (left.type.kind === 'text' && right.type.kind === 'text')

/** Returns the permissions of all tables whose expressions or presets use a column. */
function permissionsUsing(catalog: CatalogData, table: TableRef, column: string): string[] {
  const key = tableKey(table)
  const users = catalog.tables.flatMap((owner) =>
    owner.permissions.flatMap((permissions) => {
      const uses = (place: number | undefined) =>
        place !== undefined && mentions(catalog.filters[place] as BoolExp, tableKey(owner), key, column)
      const { insert, select, update, delete: remove } = permissions
      const role = roleName(permissions.role)
      const sets = (presets: readonly Preset[]) =>
        tableKey(owner) === key && presets.some((each) => each.column === column)
      return [
        insert && (uses(insert.check) || sets(insert.set))
          ? permissionName(owner, { role, type: 'insert' })
          : undefined,
        select && uses(select.filter) ? permissionName(owner, { role, type: 'select' }) : undefined,
        update && (uses(update.filter) || uses(update.check) || sets(update.set))
          ? permissionName(owner, { role, type: 'update' })
          : undefined,
        remove && uses(remove.filter) ? permissionName(owner, { role, type: 'delete' }) : undefined,
      ].filter((name) => name !== undefined)
    }),
  )
  return [...new Set(users)]
}

function templatesUsing(templates: ReadonlyMap<string, TemplateMeaning>, table: TableRef, column: string): string[] {
  const used = [...templates].filter(([, { ops }]) => ops.some((op) => usesColumn(op, table, column)))
  return used.map(([name]) => templateName(name))
}

const notSupported = (message: string): ServiceError => serviceError('not-supported', message, '$.args')
