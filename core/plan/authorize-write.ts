import { type DeletePermission, type Table, tableKey, tableName } from '../catalog/catalog.js'
import { permissionDenied } from '../errors.js'
import { and } from './boolexp.js'
import { guard } from './guard.js'
import {
  type BoolExp,
  type Delete,
  type Insert,
  isConstant,
  type OnConflict,
  type Preset,
  type Returning,
  type Step,
  TRUE,
  type Update,
  type Write,
} from '../ir.js'
import type { Reads } from './authorize-read.js'
import type { Scope } from './authorize-scope.js'

/** Authorizes writes: adds filters, presets and checks, also to those of related rows. */
export function writesIn(scope: Scope, { fields, condition }: Reads): (write: Write) => Write {
  const { role, catalog, filter, permissions, tableFor, columns, maskFor, versionIn, selectFilter, linked } = scope
  /** Combines the filter of a write with a client's condition. */
  const targets = (permission: DeletePermission, wanted: BoolExp, table: Table, reads = false): BoolExp => {
    const own = filter(permission.filter)
    const isSeenOnly = permission.seenOnly && (reads || readsRow(wanted))
    return guard(isSeenOnly ? and([own, selectFilter(table)]) : own, condition(wanted, table), table, catalog)
  }

  const returning = (wanted: Returning, table: Table): Returning => {
    tableFor(table, 'select')
    const shown = fields(wanted.fields, table).map((field) => {
      const isDerived = field.kind === 'column' && table.columnsByName.get(field.column)?.derived
      return isDerived ? { ...field, derived: true as const } : field
    })
    return { fields: shown, visible: selectFilter(table) }
  }

  const refusal = (check: string, table: Table): string =>
    `the row would not pass the ${check} check of role "${role}" on "${tableName(table)}"`

  const insert = (insert: Insert): Insert => {
    const table = tableFor(insert.table, 'insert')
    const permission = permissions(table).insert
    if (!permission) throw permissionDenied('insert is not allowed', '$.args.table')
    columns(
      table,
      insert.columns.filter((column) => column.present !== 'none').map((column) => column.name),
      'insert',
    )
    const preset = new Set(permission.set.map(({ column }) => column))
    return {
      ...insert,
      columns: insert.columns.filter(({ name, present }) => present !== 'none' || !preset.has(name)),
      presets: writtenAt('$.args.objects', permission.set),
      check: filter(permission.check),
      related: insert.related?.map(write),
      refusal: refusal(insert.onConflict?.action === 'update' ? 'insert or update' : 'insert', table),
      onConflict: insert.onConflict && onConflict(insert.onConflict, table),
      returning: insert.returning && returning(insert.returning, table),
    }
  }

  const onConflict = (conflict: OnConflict, table: Table): OnConflict => {
    // Without the clause, the conflict would fail, which says as much.
    if (conflict.action === 'ignore') return conflict
    const update = permissions(table).update
    if (!update) {
      throw permissionDenied(
        `update on "${table.name}" for role "${role}" is not allowed; "on_conflict" can update only with it`,
        '$.args.on_conflict',
        table,
        'update',
      )
    }
    const preset = new Set(update.set.map((each) => each.column))
    return {
      ...conflict,
      set: conflict.set.filter((column) => update.columns.includes(column) && !preset.has(column)),
      presets: writtenAt('$.args.on_conflict', update.set),
      where: targets(update, conflict.where, table),
      check: update.check === undefined ? TRUE : filter(update.check),
    }
  }

  const update = (update: Update): Update => {
    const table = tableFor(update.table, 'update')
    if (!isConstant(update.where)) tableFor(update.table, 'select')
    if (update.expected) versionIn(table, update.expected.column)
    const permission = permissions(table).update
    if (!permission) throw permissionDenied('update is not allowed', '$.args.table')
    columns(
      table,
      update.set.map((each) => each.column),
      'update',
    )
    const changes = update.set.filter(({ kind }) => kind !== 'set' && kind !== 'default' && kind !== 'null')
    columns(
      table,
      changes.map((each) => each.column),
      'select',
    )
    const masked = changes.find(({ column }) => maskFor(table, column))
    if (masked) {
      throw permissionDenied(
        `role "${role}" sees column "${masked.column}" in some rows only, and can only replace its value`,
        '$.args',
        table,
        'update',
      )
    }
    return {
      ...update,
      set: [
        ...update.set,
        ...writtenAt('$.args.$set', permission.set).map((preset) => ({ kind: 'set' as const, ...preset })),
      ],
      where: targets(permission, update.where, table, changes.length > 0 || update.within !== undefined),
      within: within(update.within, table),
      check: permission.check === undefined ? TRUE : filter(permission.check),
      related: update.related?.map(write),
      refusal: refusal('update', table),
      returning: update.returning && returning(update.returning, table),
    }
  }

  const remove = (remove: Delete): Delete => {
    const table = tableFor(remove.table, 'delete')
    if (!isConstant(remove.where)) tableFor(remove.table, 'select')
    if (remove.expected) versionIn(table, remove.expected.column)
    const permission = permissions(table).delete
    if (!permission) throw permissionDenied('delete is not allowed', '$.args.table')
    return {
      ...remove,
      where: targets(permission, remove.where, table, remove.within !== undefined),
      within: within(remove.within, table),
      returning: remove.returning && returning(remove.returning, table),
    }
  }

  const within = (rows: Step['within'], table: Table): Step['within'] =>
    rows && { ...rows, ...linked(rows, catalog.tables.get(tableKey(rows.table)), table) }

  const write = (write: Write): Write => {
    switch (write.kind) {
      case 'insert':
        return insert(write)
      case 'update':
        return update(write)
      case 'delete':
        return remove(write)
    }
  }

  return write
}

/** Returns whether a condition depends on the row. */
function readsRow(exp: BoolExp): boolean {
  if (exp.kind === 'and' || exp.kind === 'or') return exp.of.some(readsRow)
  return exp.kind !== 'not' || readsRow(exp.of)
}

/** Marks session variables as written. The path does not name the column, which the role may not know. */
const writtenAt = (path: string, presets: readonly Preset[]): readonly Preset[] =>
  presets.map(({ column, to }) => ({ column, to: to.kind === 'session' ? { ...to, path } : to }))
