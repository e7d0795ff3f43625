import { isAdmin, roleName } from '../session.js'
import {
  ALL_ROWS,
  type Catalog,
  type ComputedField,
  type DeletePermission,
  maskOf,
  permissionsOf,
  type SelectPermission,
  type Table,
  tableKey,
  tableName,
} from '../catalog/catalog.js'
import { permissionDenied, unexpectedPayload } from '../errors.js'
import { and } from './boolexp.js'
import { guard } from './guard.js'
import {
  type Aggregate,
  type BoolExp,
  type ColumnRef,
  type Computed,
  type Connection,
  type Count,
  type Delete,
  type Field,
  type FunctionCall,
  type Grouping,
  type Insert,
  isConstant,
  type Join,
  type Joined,
  type Link,
  type Masks,
  type OnConflict,
  type Op,
  type Opaque,
  type OrderTarget,
  type Preset,
  type Read,
  type Returning,
  type Rule,
  type TableRef,
  TRUE,
  type Step,
  type Update,
  type Write,
} from '../ir.js'
import { type Action, namesFor, rowsReturned, RULE_ACTIONS, versionOf } from './names.js'

/** Maximum number of sort columns. PostgreSQL compares each with all others while parsing. */
const MAX_ORDER = 100

/**
 * Rewrites a plan so that it does only what `role` may: adds row filters, checks columns, and inserts presets and
 * checks, at every depth. Permissions are applied nowhere else. `admin` is not looked up.
 * @param key role of `permissionRole`
 * @throws ServiceError 400 `permission-denied`
 */
export function authorize(op: Op, key: string, catalog: Catalog): Op {
  if (isAdmin({ role: key })) return op
  const role = roleName(key)
  const names = namesFor(key, catalog)
  const filter = (place: number): BoolExp => (place === ALL_ROWS ? TRUE : (catalog.filters[place] as BoolExp))
  const permissions = (table: Table) => permissionsOf(table, key) ?? { role }
  const tableFor = (ref: TableRef, action: Action): Table => names.table(ref, action, '$.args.table')
  const columns = (table: Table, used: Iterable<string>, action: Action) => {
    for (const name of used) names.column(table, name, action, '$.args')
  }
  /** Authorizes a column or a computed field. */
  const shown = <R extends ColumnRef>(table: Table, ref: R): R => {
    const { column, computed } = ref
    if (computed) checkCall(computed, names.computedField(table, column, '$.args'))
    else names.column(table, column, 'select', '$.args')
    const mask = maskFor(table, column)
    return mask ? { ...ref, mask } : ref
  }
  const maskFor = (table: Table, name: string): BoolExp | undefined => {
    const { select } = permissions(table)
    const place = select && maskOf(select, name)
    return place === undefined ? undefined : filter(place)
  }
  /** Returns the masks of those of some columns that have one. */
  const masksFor = (table: Table, used: Iterable<string>): { readonly masks?: Masks } => {
    const masks = [...new Set(used)].flatMap((name) => {
      const mask = maskFor(table, name)
      return mask ? [[name, mask] as const] : []
    })
    return masks.length > 0 ? { masks: Object.fromEntries(masks) } : {}
  }
  const versionIn = (table: Table, column: string) => {
    if (column !== versionOf(table, names)) throw new Error(`"${column}" is not the version of "${table.name}"`)
  }
  const selectFilter = (table: Table): BoolExp => filter(permissions(table).select?.filter as number)

  /** Authorizes the filter, order and limit of rows, for reads and aggregates. */
  const rows = (
    read: Pick<Read, 'where' | 'orderBy' | 'distinctOn' | 'from'> & { readonly group?: Grouping },
    table: Table,
  ) => {
    const limit = permissions(table).select?.limit
    if (read.orderBy.length > MAX_ORDER) {
      throw unexpectedPayload(`rows may be sorted by at most ${MAX_ORDER} columns`, '$.args')
    }
    const isOfGroups = read.group !== undefined
    columns(table, read.distinctOn ?? [], 'select')
    return {
      where: guard(selectFilter(table), condition(read.where, table), table, catalog, read.from !== undefined),
      orderBy: isOfGroups ? read.orderBy : read.orderBy.map((order) => ({ ...order, by: target(order.by, table) })),
      maxRows: limit,
    }
  }

  const read = (read: Read): Read => rowsOf(read, tableOf(read))

  /** Returns the table that rows come from, which the role may read. */
  const tableOf = ({ table, from }: Read | Aggregate | Connection): Table => {
    if (!from) return tableFor(table, 'select')
    const returned = rowsReturned(names.callable(from.function, '$.args'), names, '$.args')
    if (tableKey(returned) !== tableKey(table)) throw new Error(`"${from.function.name}" returns other rows`)
    return returned
  }

  const rowsOf = (read: Read, table: Table): Read => {
    if (read.group) return groups(read, read.group, table)
    if (read.version) versionIn(table, read.version)
    const masks = masksFor(table, read.distinctOn ?? [])
    return { ...read, ...rows(read, table), fields: fields(read.fields, table), ...masks }
  }

  /** As in `aggregate`, the role's limit applies to what is returned, and not to the rows that are aggregated. */
  const groups = (read: Read, group: Grouping, table: Table): Read => {
    mayAggregate(table)
    const used = [...group.by, ...group.values.flatMap(({ column }) => column ?? [])]
    columns(table, used, 'select')
    checkGroups(read, group)
    return { ...read, ...rows(read, table), ...masksFor(table, used) }
  }

  const aggregate = (read: Aggregate): Aggregate => {
    const table = mayAggregate(tableOf(read))
    const computed = (each: Computed): void => {
      if (each.kind === 'count') columns(table, each.columns, 'select')
      if (each.kind === 'columns') fields(each.of, table)
    }
    const parts = read.parts.map((part) => {
      if (part.kind === 'nodes') return { ...part, fields: fields(part.fields, table) }
      if (part.kind === 'functions') part.of.forEach(computed)
      return part
    })
    const used = parts.flatMap((part) => (part.kind === 'functions' ? part.of.flatMap(columnsOf) : []))
    return { ...read, ...rows(read, table), parts, ...masksFor(table, [...used, ...(read.distinctOn ?? [])]) }
  }

  const connection = (read: Connection): Connection => {
    const table = tableOf(read)
    const { distinct, outside } = read
    if (distinct) columns(table, distinct.key, 'select')
    const beyond = (where: BoolExp | undefined) => where && rows({ ...read, where }, table).where
    return {
      ...read,
      ...rows(read, table),
      ...masksFor(table, distinct?.distinctOn ?? []),
      cursor: opaque(read.cursor, table),
      distinct: distinct && { ...distinct, ...rows({ ...read, ...distinct }, table) },
      outside: { previous: beyond(outside.previous), next: beyond(outside.next) },
      parts: read.parts.map((part) => {
        if (part.kind !== 'edges') return part
        const of = part.of.map((edge) =>
          edge.kind === 'node' ? { ...edge, fields: fields(edge.fields, table) } : edge,
        )
        return { ...part, of }
      }),
    }
  }

  const opaque = (of: Opaque, table: Table): Opaque =>
    of.map((part) => ('by' in part ? { ...part, by: target(part.by, table) } : part))

  const aggregable = (ref: TableRef): Table => mayAggregate(tableFor(ref, 'select'))

  const mayAggregate = (table: Table): Table => {
    if (permissions(table).select?.aggregations) return table
    throw permissionDenied(
      `role "${role}" does not have permission to aggregate "${table.name}"`,
      '$.args.table',
      table,
    )
  }

  /**
   * Returns which of the joined rows an inherited role may know to belong together: it sees the columns of both rows that join
   * them, or one of the roles that it inherits from sees both rows.
   */
  const linked = ({ on }: Joined, table: Table | undefined, ref: TableRef): Pick<Joined, 'links'> => {
    const remote = catalog.tables.get(tableKey(ref))
    if (!table || !remote || on.length === 0) return {}
    const links = linksOf(key, on, table, remote)
    return links.length > 0 ? { links } : {}
  }
  const linksOf = (holder: string, on: Join, table: Table, remote: Table): readonly Link[] => {
    const [own, other] = [table, remote].map((each) => permissionsOf(each, holder)?.select)
    const masksOf = (select: SelectPermission | undefined, side: 0 | 1) =>
      on.flatMap((pair) => (select && maskOf(select, pair[side])) ?? []).map(filter)
    const [outer, inner] = [masksOf(own, 0), masksOf(other, 1)]
    if (outer.length + inner.length === 0) return []
    const parts = [...new Set([...(own?.parts ?? []), ...(other?.parts ?? [])])].flatMap((part): readonly Link[] => {
      const [sees, seesOther] = [table, remote].map((each) => permissionsOf(each, part)?.select)
      if (!sees || !seesOther) return []
      const both = { outer: filter(sees.filter), inner: filter(seesOther.filter) }
      const links = linksOf(part, on, table, remote)
      if (links.length === 0) return [both]
      return links.map((link) => ({ outer: and([both.outer, link.outer]), inner: and([both.inner, link.inner]) }))
    })
    return [{ outer: and(outer), inner: and(inner) }, ...parts]
  }

  const fields = <F extends Field>(all: readonly F[], table: Table | undefined): readonly F[] =>
    all.map((field) => {
      switch (field.kind) {
        case 'constant':
          return field
        case 'relation':
          if (field.computed !== undefined) return { ...field, read: computedRows(field, table) }
          return { ...field, ...linked(field, table, field.read.table), read: read(field.read) }
        case 'aggregate':
          return { ...field, ...linked(field, table, field.read.table), read: aggregate(field.read) }
        case 'condition':
          throw new Error('a condition as a result')
        case 'connection':
          return { ...field, ...linked(field, table, field.read.table), read: connection(field.read) }
        case 'opaque':
          if (!table) throw new Error('a value outside a table')
          return { ...field, of: opaque(field.of, table) }
        case 'column':
          if (!table) throw new Error('a column outside a table')
          return shown(table, field as F & ColumnRef)
        case 'version':
          if (!table) throw new Error('a version outside a table')
          versionIn(table, field.column)
          return field
      }
    })

  const computedRows = (field: Extract<Field, { kind: 'relation' }>, table: Table | undefined): Read => {
    if (!table || !field.read.from) throw new Error('a computed field outside a table')
    checkCall(field.read.from, names.computedField(table, field.computed as string, '$.args'))
    return rowsOf(field.read, tableFor(field.read.table, 'select'))
  }

  const target = (by: OrderTarget, table: Table): OrderTarget => {
    if (by.kind === 'column' || by.kind === 'rank') return shown(table, by)
    if (by.kind === 'aggregate') {
      if (by.from) checkCall(by.from, names.computedField(table, by.computed as string, '$.args'))
      const remote = aggregable(by.table)
      const of = by.of.fn === 'count' ? by.of : shown(remote, by.of)
      return { ...by, ...linked(by, table, by.table), of, where: selectFilter(remote) }
    }
    const remote = tableFor(by.table, 'select')
    return { ...by, ...linked(by, table, by.table), where: selectFilter(remote), by: target(by.by, remote) }
  }

  /** Authorizes a client's condition: columns must be selectable, and rows of other tables visible. */
  const condition = (exp: BoolExp, table: Table, around: readonly Table[] = []): BoolExp => {
    const within = (part: BoolExp) => condition(part, table, around)
    const inside = (part: BoolExp, remote: Table, isComputed = false) =>
      guard(selectFilter(remote), condition(part, remote, [table, ...around]), remote, catalog, isComputed)
    switch (exp.kind) {
      case 'and':
      case 'or':
        return { kind: exp.kind, of: exp.of.map(within) }
      case 'not':
        return { kind: 'not', of: within(exp.of) }
      case 'guarded':
        return { kind: 'guarded', by: within(exp.by), of: within(exp.of) }
      case 'compare':
      case 'null':
        return shown(table, exp)
      case 'columns': {
        const owner = exp.up ? (around[exp.up - 1] as Table) : table
        columns(table, [exp.column], 'select')
        columns(owner, [exp.to], 'select')
        const own = exp.up ? [exp.column] : [exp.column, exp.to]
        const masks = Object.values(masksFor(table, own).masks ?? {})
        const mask = exp.up ? maskFor(owner, exp.to) : undefined
        const compared = mask ? { ...exp, mask } : exp
        return masks.length > 0 ? { kind: 'guarded', by: and(masks), of: compared } : compared
      }
      case 'sorted':
        return { ...exp, by: target(exp.by, table) }
      case 'unknown':
      case 'known':
        return exp
      case 'exists': {
        if (exp.from) checkCall(exp.from, names.computedField(table, exp.computed as string, '$.args'))
        else if (exp.on.length === 0) {
          throw permissionDenied('$exists may be used in permissions only', '$.args.where')
        }
        const remote = tableFor(exp.table, 'select')
        return { ...exp, ...linked(exp, table, exp.table), where: inside(exp.where, remote, exp.from !== undefined) }
      }
      case 'aggregate': {
        const remote = aggregable(exp.table)
        columns(remote, exp.columns, 'select')
        return {
          ...exp,
          ...linked(exp, table, exp.table),
          where: inside(exp.where, remote),
          ...masksFor(remote, exp.columns),
        }
      }
    }
  }

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

  const count = (count: Count): Count => {
    if (count.under)
      return {
        ...count,
        where: and([rule(count.under, tableFor(count.table, RULE_ACTIONS[count.under])), count.where]),
      }
    const table = tableFor(count.table, 'select')
    columns(table, count.distinct ?? [], 'select')
    const where = guard(selectFilter(table), condition(count.where, table), table, catalog)
    return { ...count, where, ...masksFor(table, count.distinct ?? []) }
  }

  const rule = (under: Rule, table: Table): BoolExp => {
    const { select, insert, update, delete: remove } = permissions(table)
    const place = {
      select: select?.filter,
      inserted: insert?.check,
      update: update?.filter,
      updated: update?.check,
      delete: remove?.filter,
    }[under]
    return place === undefined ? TRUE : filter(place)
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

  switch (op.kind) {
    case 'read':
      return read(op)
    case 'count':
      return count(op)
    case 'roots':
      return { ...op, fields: fields(op.fields, undefined) }
    case 'insert':
    case 'update':
    case 'delete':
      return write(op)
  }
}

/** Returns whether a condition depends on the row. */
function readsRow(exp: BoolExp): boolean {
  if (exp.kind === 'and' || exp.kind === 'or') return exp.of.some(readsRow)
  return exp.kind !== 'not' || readsRow(exp.of)
}

/** Returns the columns of an aggregate. */
function columnsOf(each: Computed): readonly string[] {
  if (each.kind === 'count') return each.columns
  return each.kind === 'columns' ? each.of.flatMap((field) => (field.kind === 'column' ? field.column : [])) : []
}

/** Asserts that everything beyond the groups uses their columns only, which are authorized. */
function checkGroups({ fields, orderBy, distinctOn }: Read, { by, values, having }: Grouping): void {
  const keys = new Set([...by, ...values.map(({ key }) => key)])
  const isKey = ({ kind, column, computed }: { kind: string; column?: string; computed?: unknown }): boolean =>
    kind === 'column' && column !== undefined && keys.has(column) && !computed
  const holds = (exp: BoolExp): boolean => {
    switch (exp.kind) {
      case 'and':
      case 'or':
        return exp.of.every(holds)
      case 'not':
        return holds(exp.of)
      case 'compare':
      case 'null':
        return keys.has(exp.column) && !exp.computed
      case 'columns':
        return keys.has(exp.column) && keys.has(exp.to) && !exp.up
      case 'unknown':
        return true
      case 'sorted':
      case 'known':
      case 'guarded':
      case 'exists':
      case 'aggregate':
        return false
    }
  }
  if (fields.every(isKey) && orderBy.every((each) => isKey(each.by)) && holds(having) && !distinctOn) return
  throw new Error('a group has no such column')
}

/** Marks session variables as written. The path does not name the column, which the role may not know. */
const writtenAt = (path: string, presets: readonly Preset[]): readonly Preset[] =>
  presets.map(({ column, to }) => ({ column, to: to.kind === 'session' ? { ...to, path } : to }))

/**
 * Asserts that a computed field calls its own function. The permission covers the field, and the planner chooses the
 * function.
 */
function checkCall({ function: called }: FunctionCall, { function: own, name }: ComputedField): void {
  if (called.schema === own.schema && called.name === own.name) return
  throw new Error(`"${name}" is not computed by "${called.name}"`)
}
