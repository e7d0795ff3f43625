import { ServiceError } from '../errors.js'
import type { BoolExp, Op, TableRef } from '../plan/ir.js'
import { mentions, usesColumn } from '../plan/uses.js'
import { type CatalogData, tableKey, tableName } from './catalog.js'
import { type Draft, nameTaken, permissionName, templateName } from './draft.js'
import type { Found, FoundColumn } from './introspect.js'

type Tables = ReadonlyMap<string, Found>

/** Dependents are found by name; oid and attnum tell a rename from a drop. */
export function refuseRenames(before: Tables, now: Tables, byOid: ReadonlyMap<number, TableRef>): void {
  for (const [key, old] of before) {
    const table = now.get(key)
    if (table?.oid !== old.oid) {
      if (byOid.has(old.oid)) throw notSupported(`table renames are not yet supported : "${tableName(old)}"`)
      continue
    }
    for (const [was, is] of sameColumns(old, table)) {
      if (was.name === is.name) continue
      throw notSupported(`column renames are not yet supported : "${tableName(old)}"."${was.name}"`)
    }
  }
}

/** A type may change only under columns that no permission or template looks at: they were checked against the old one. */
export function refuseRetyping(
  before: Tables,
  now: Tables,
  catalog: CatalogData,
  templates: ReadonlyMap<string, readonly Op[]>,
): void {
  for (const [key, old] of before) {
    const table = now.get(key)
    if (table?.oid !== old.oid) continue
    for (const [was, is] of sameColumns(old, table)) {
      if (was.type.schema === is.type.schema && was.type.name === is.type.name) continue
      const users = [...permissionsUsing(catalog, old, was.name), ...templatesUsing(templates, old, was.name)]
      if (users.length === 0) continue
      const message = `cannot change type of column "${was.name}" in table "${tableName(old)}" because of the following dependencies : ${users.join(', ')}`
      throw new ServiceError(400, 'dependency-error', message, '$.args')
    }
  }
}

export function refuseTakenNames(draft: Draft, now: Tables): void {
  for (const table of now.values()) {
    const relationships = draft.tracked(table)?.relationships
    const before = draft.foundTable(table)?.columns.map(({ name }) => name) ?? []
    for (const { name } of table.columns) {
      if (relationships?.has(name) && !before.includes(name)) throw nameTaken(name, table).under('$.args')
    }
  }
}

function sameColumns(old: Found, now: Found): [FoundColumn, FoundColumn][] {
  return old.columns.flatMap((was) => {
    const is = now.columns.find(({ number }) => number === was.number)
    return is ? [[was, is] satisfies [FoundColumn, FoundColumn]] : []
  })
}

/** Permissions, of any table, whose expressions or presets name a column. */
function permissionsUsing(catalog: CatalogData, table: TableRef, column: string): string[] {
  const key = tableKey(table)
  return catalog.tables.flatMap((owner) =>
    owner.permissions.flatMap((permissions) => {
      const uses = (place: number | undefined) =>
        place !== undefined && mentions(catalog.filters[place] as BoolExp, tableKey(owner), key, column)
      const { insert, select, update, delete: remove, role } = permissions
      const presets = tableKey(owner) === key ? [...(insert?.set ?? []), ...(update?.set ?? [])] : []
      const preset = presets.some((each) => each.column === column)
      return [
        insert && (uses(insert.check) || preset) ? permissionName(owner, { role, type: 'insert' }) : undefined,
        select && uses(select.filter) ? permissionName(owner, { role, type: 'select' }) : undefined,
        update && (uses(update.filter) || uses(update.check) || preset)
          ? permissionName(owner, { role, type: 'update' })
          : undefined,
        remove && uses(remove.filter) ? permissionName(owner, { role, type: 'delete' }) : undefined,
      ].filter((name) => name !== undefined)
    }),
  )
}

function templatesUsing(templates: ReadonlyMap<string, readonly Op[]>, table: TableRef, column: string): string[] {
  const used = [...templates].filter(([, ops]) => ops.some((op) => usesColumn(op, table, column)))
  return used.map(([name]) => templateName(name))
}

const notSupported = (message: string): ServiceError => new ServiceError(400, 'not-supported', message, '$.args')
