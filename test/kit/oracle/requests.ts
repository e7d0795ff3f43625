import {
  linked,
  type Caller,
  checkNames,
  evaluate,
  type Exp,
  type Model,
  type Permissions,
  Refused,
  related,
  type Relation,
  type Row,
  seen,
  selectable,
  type TableModel,
  type Value,
  value,
  visible,
} from './model.js'

export interface Select {
  readonly table: string
  readonly columns: readonly (string | Nested)[]
  readonly where?: Exp
  readonly distinct_on?: readonly string[]
  readonly after?: Row
  readonly order_by: readonly string[]
  readonly limit?: number
  readonly offset?: number
}
export interface Nested extends Omit<Select, 'table' | 'order_by'> {
  readonly name: string
  readonly order_by?: readonly string[]
}

/** What a select answers. */
export function select(
  model: Model,
  request: Select | Nested,
  table: TableModel,
  from: readonly Row[],
  caller: Caller,
): Row[] {
  const { role } = caller
  if (role !== 'admin' && !table.permissions[role]?.select) throw new Refused('select')
  checkNames(model, table, request.where ?? {}, role)
  for (const order of request.order_by ?? []) checkOrder(model, table, order, role)
  const distinct = ('distinct_on' in request && request.distinct_on) || []
  selectable(table, role, distinct)
  const rows = from.filter(
    (row) =>
      visible(model, table, row, caller) && evaluate(model, table, row, request.where ?? {}, caller, role) === true,
  )
  const after = 'after' in request && request.after && 'id' in request.after ? request.after : undefined
  const inOrder = (a: Row, b: Row): number => {
    for (const order of request.order_by ?? []) {
      const [left, right] = [a, b].map((row) => {
        return row === after ? (row[order.slice(1)] as Value) : keyOf(model, table, row, order, caller)
      }) as [Value, Value]
      const result = byNullsLast(left, right)
      if (result !== 0) return order.startsWith('-') ? -result : result
    }
    return 0
  }
  const sorted = rows.filter((row) => !after || inOrder(row, after) > 0).sort(inOrder)
  const keyOfRow = (all: Row) => {
    const row = seen(model, table, all, caller)
    return JSON.stringify(distinct.map((column) => row[column]))
  }
  const isFirst = (row: Row) => sorted.find((other) => keyOfRow(other) === keyOfRow(row)) === row
  const firsts = distinct.length > 0 ? sorted.filter(isFirst) : sorted
  const most = Math.min(request.limit ?? Infinity, table.permissions[role]?.select?.limit ?? Infinity)
  const offset = request.offset ?? 0
  const found = firsts.slice(offset, offset + most)
  for (const column of request.columns) checkColumn(model, table, column, caller)
  return found.map((row) => project(model, table, row, request.columns, caller)) as Row[]
}

/** Refuses also where there is no row to show it on. */
function checkColumn(model: Model, table: TableModel, column: string | Nested, caller: Caller): void {
  if (typeof column === 'string') return selectable(table, caller.role, [column])
  const remote = model[(table.relations[column.name] as Relation).table] as TableModel
  select(model, column, remote, [], caller)
}

function project(
  model: Model,
  table: TableModel,
  row: Row,
  columns: readonly (string | Nested)[],
  caller: Caller,
): unknown {
  const entries = columns.map((column) => {
    if (typeof column === 'string') return [column, seen(model, table, row, caller)[column]]
    const relation = table.relations[column.name] as Relation
    const rows = select(
      model,
      column,
      model[relation.table] as TableModel,
      related(model, relation, row, caller, caller.role),
      caller,
    )
    return [column.name, relation.single ? (rows[0] ?? null) : rows]
  })
  return Object.fromEntries(entries)
}

function checkOrder(model: Model, table: TableModel, order: string, role: string): void {
  const [first, second] = order.slice(1).split('.') as [string, string?]
  if (second === undefined) return selectable(table, role, [first])
  const remote = model[(table.relations[first] as Relation).table] as TableModel
  if (role !== 'admin' && !remote.permissions[role]?.select) throw new Refused('order')
  selectable(remote, role, [second])
}

function keyOf(model: Model, table: TableModel, row: Row, order: string, caller: Caller): Value {
  const [first, second] = order.slice(1).split('.') as [string, string?]
  if (second === undefined) return seen(model, table, row, caller)[first] as Value
  const relation = table.relations[first] as Relation
  const [other] = related(model, relation, row, caller, caller.role)
  return other ? (seen(model, model[relation.table] as TableModel, other, caller)[second] ?? null) : null
}

function byNullsLast(a: Value, b: Value): number {
  if (a === b) return 0
  if (a === null) return 1
  if (b === null) return -1
  return a < b ? -1 : 1
}

export interface Groups extends Omit<Select, 'columns' | 'order_by'> {
  readonly columns: readonly (string | GroupValue)[]
  readonly group_by?: readonly string[]
  readonly having?: { readonly count: { readonly $gte: number } }
  readonly order_by?: readonly string[]
}
export type GroupValue = { readonly as: string; readonly distinct?: true } & { readonly [fn: string]: unknown }

/** What a select of groups answers. */
export function groups(model: Model, request: Groups, table: TableModel, caller: Caller): object[] {
  const { role } = caller
  const { group_by: by = [], order_by: order = [], where = {}, having } = request
  const permission = table.permissions[role]?.select
  if (role !== 'admin' && !permission?.allow_aggregations) throw new Refused('groups')
  checkNames(model, table, where, role)
  const used = request.columns.flatMap((column) => (typeof column === 'string' ? [] : [column[column.as] as string]))
  selectable(table, role, [...by, ...used.filter((column) => column !== '*')])
  const all = new Map<string, Row[]>(by.length === 0 ? [['[]', []]] : [])
  for (const row of table.rows) {
    if (!visible(model, table, row, caller) || evaluate(model, table, row, where, caller, role) !== true) continue
    const shown = seen(model, table, row, caller)
    const key = JSON.stringify(by.map((column) => shown[column]))
    all.set(key, [...(all.get(key) ?? []), shown])
  }
  const counted = request.columns.find((column) => typeof column !== 'string' && column.as === 'count')
  const kept = [...all].filter(
    ([, rows]) => !having || (aggregated(counted as GroupValue, rows) as number) >= having.count.$gte,
  )
  const sorted = kept
    .map(([key, rows]) => ({ key: JSON.parse(key) as Value[], rows }))
    .sort((a, b) => {
      for (const [i, each] of order.entries()) {
        const result = byNullsLast(a.key[i] as Value, b.key[i] as Value)
        if (result !== 0) return each.startsWith('-') ? -result : result
      }
      return 0
    })
  return sorted
    .slice(0, Math.min(request.limit ?? Infinity, permission?.limit ?? Infinity))
    .map(({ key, rows }) =>
      Object.fromEntries(
        request.columns.map((column) =>
          typeof column === 'string' ? [column, key[by.indexOf(column)]] : [column.as, aggregated(column, rows)],
        ),
      ),
    )
}

function aggregated({ as: fn, distinct, ...of }: GroupValue, rows: readonly Row[]): unknown {
  const column = of[fn] as string
  if (column === '*') return rows.length
  const all = rows.map((row) => row[column] as Value).sort(byNullsLast)
  const values = distinct ? all.filter((value, i) => i === 0 || value !== all[i - 1]) : all
  const some = values.filter((value) => value !== null)
  switch (fn) {
    case 'count':
      return some.length
    case 'sum':
      return some.length === 0 ? null : some.reduce((sum, value) => Number(sum) + Number(value), 0)
    case 'min':
      return some[0] ?? null
    case 'max':
      return some.at(-1) ?? null
    default:
      return values.length === 0 ? null : values
  }
}

export function count(
  model: Model,
  table: TableModel,
  where: Exp,
  distinct: readonly string[],
  caller: Caller,
): number {
  const { role } = caller
  if (role !== 'admin' && !table.permissions[role]?.select) throw new Refused('count')
  checkNames(model, table, where, role)
  selectable(table, role, distinct)
  const rows = table.rows.filter(
    (row) => visible(model, table, row, caller) && evaluate(model, table, row, where, caller, role) === true,
  )
  if (distinct.length === 0) return rows.length
  const shown = rows.map((row) => seen(model, table, row, caller))
  return new Set(shown.map((row) => JSON.stringify(distinct.map((column) => row[column])))).size
}

export interface Written {
  readonly affected_rows: number
  readonly returning: readonly Row[]
}

/** Runs a write; whatever it throws, the rows are as before. */
export function write(tables: readonly TableModel[], fn: () => Written): Written {
  const before = tables.map(({ rows }) => rows)
  try {
    return fn()
  } catch (error) {
    tables.forEach((table, i) => (table.rows = before[i] as Row[]))
    throw error
  }
}

export interface Update {
  readonly where: Exp
  readonly $set: Row
  readonly $inc: Row
  readonly returning: readonly string[]
}

export function update(
  model: Model,
  table: TableModel,
  { where, $set, $inc, returning }: Update,
  caller: Caller,
): Written {
  const changed = change(model, table, { where, $set, $inc, returning }, caller)
  mustHold(model, table, changed, table.permissions[caller.role]?.update?.check, caller)
  return { affected_rows: changed.length, returning: shown(model, table, changed, returning, caller) }
}

/** Changes the rows that a condition meets. @param among tells which of them may change */
function change(
  model: Model,
  table: TableModel,
  { where, $set, $inc, returning }: Update,
  caller: Caller,
  among: (row: Row) => boolean = () => true,
): Row[] {
  const permission = permitted(table, caller, 'update')
  touchable([...Object.keys($set), ...Object.keys($inc)], permission?.columns)
  selectable(table, caller.role, Object.keys($inc))
  checkNames(model, table, where, caller.role)
  selectable(table, caller.role, returning)
  const isSeenOnly = isSeenIn(table, 'update', caller) && (Object.keys($inc).length > 0 || readsRow(where))
  const chosen = new Set(
    matching(model, table, permission?.filter, where, caller)
      .filter(among)
      .filter((row) => !isSeenOnly || visible(model, table, row, caller)),
  )
  const changed: Row[] = []
  table.rows = table.rows.map((row) => {
    if (!chosen.has(row)) return row
    const next = { ...row, ...$set }
    for (const [column, by] of Object.entries($inc))
      next[column] = row[column] === null ? null : Number(row[column]) + Number(by)
    changed.push(next)
    return next
  })
  return changed
}

/** An update with rows of a relationship to another table. */
export interface UpdateRelated extends Update {
  readonly relation: string
  readonly related: {
    readonly delete?: { readonly where: Exp }
    readonly update?: { readonly where: Exp; readonly $set: Row }
    readonly insert?: { readonly data: readonly Row[] }
  }
}

export function updateRelated(model: Model, table: TableModel, request: UpdateRelated, caller: Caller): Written {
  const { returning, related } = request
  const relation = table.relations[request.relation] as Relation
  const remote = remoteOf(model, relation, caller)
  const changed = change(model, table, request, caller)
  const isTheirs = (row: Row) =>
    changed.some(
      (outer) =>
        outer[relation.local] !== null &&
        outer[relation.local] === row[relation.remote] &&
        (caller.role === 'admin' || linked(model, relation, outer, row, caller)),
    )
  let affected = changed.length
  if (related.delete) affected += remove(model, remote, related.delete.where, [], caller, isTheirs).affected_rows
  if (related.update) {
    const theirs = change(model, remote, { ...related.update, $inc: {}, returning: [] }, caller, isTheirs)
    mustHold(model, remote, theirs, remote.permissions[caller.role]?.update?.check, caller)
    affected += theirs.length
  }
  if (related.insert) {
    if (relation.single) throw new Refused('one row')
    const { data } = related.insert
    const rows = changed.flatMap((outer) =>
      data.map((row) => ({ ...row, [relation.remote]: outer[relation.local] as Value })),
    )
    affected += inserted(model, remote, rows, caller).length
  }
  mustHold(model, table, changed, table.permissions[caller.role]?.update?.check, caller)
  return { affected_rows: affected, returning: shown(model, table, changed, returning, caller) }
}

/** The table of a relationship. A role knows it only if it may select from it. */
function remoteOf(model: Model, relation: Relation, { role }: Caller): TableModel {
  const remote = model[relation.table] as TableModel
  if (role !== 'admin' && !remote.permissions[role]?.select) throw new Refused('relationship')
  return remote
}

export function remove(
  model: Model,
  table: TableModel,
  where: Exp,
  returning: readonly string[],
  caller: Caller,
  among: (row: Row) => boolean = () => true,
): Written {
  const permission = permitted(table, caller, 'delete')
  checkNames(model, table, where, caller.role)
  selectable(table, caller.role, returning)
  const isSeenOnly = isSeenIn(table, 'delete', caller) && readsRow(where)
  const chosen = matching(model, table, permission?.filter, where, caller)
    .filter(among)
    .filter((row) => !isSeenOnly || visible(model, table, row, caller))
  const result = { affected_rows: chosen.length, returning: shown(model, table, chosen, returning, caller) }
  table.rows = table.rows.filter((row) => !chosen.includes(row))
  return result
}

export interface Insert {
  readonly objects: readonly Row[]
  readonly conflict?: 'ignore' | 'update'
  readonly returning: readonly string[]
}

export function insert(
  model: Model,
  table: TableModel,
  { objects, conflict, returning }: Insert,
  caller: Caller,
): Written {
  const admin = caller.role === 'admin'
  const permission = table.permissions[caller.role]?.insert
  if (!admin && !permission) throw new Refused('insert')
  touchable([...new Set(objects.flatMap((object) => Object.keys(object)))], permission?.columns)
  const upsert = admin ? undefined : table.permissions[caller.role]?.update
  if (conflict && !admin && !permission?.allow_upsert && !upsert) throw new Refused('upsert')
  if (conflict === 'update' && !admin && !upsert) throw new Refused('upsert')
  if (!admin && !table.permissions[caller.role]?.select) throw new Refused('returning')
  selectable(table, caller.role, returning)
  const presets = presetsOf(permission, caller)
  const before = { ...table, rows: table.rows }
  const fresh: Row[] = []
  const updated: Row[] = []
  const order: Row[] = []
  for (const object of objects) {
    const old = table.rows.find((row) => row['id'] === object['id'])
    if (!old) {
      const row: Row = { ...NULLS, ...object, ...presets }
      fresh.push(row)
      order.push(row)
      table.rows = [...table.rows, row]
      continue
    }
    if (!conflict) throw new Refused('uniqueness')
    const set = Object.keys(object).filter((key) => key !== 'id' && (admin || upsert?.columns.includes(key)))
    const may = admin || evaluate({ ...model, [table.name]: before }, table, old, upsert?.filter ?? {}, caller) === true
    if (conflict === 'ignore' || set.length === 0 || !may) continue
    const row = { ...old, ...Object.fromEntries(set.map((key) => [key, object[key] as Value])) }
    updated.push(row)
    order.push(row)
    table.rows = table.rows.map((each) => (each === old ? row : each))
  }
  mustHold(model, table, fresh, permission?.check, caller)
  mustHold(model, table, updated, upsert?.check, caller)
  return { affected_rows: order.length, returning: shown(model, table, order, returning, caller) }
}

/** An insert with rows of a relationship. Undefined: a row has none. */
export interface InsertRelated {
  readonly objects: readonly Row[]
  readonly relation: string
  readonly related: readonly (readonly Row[] | undefined)[]
  readonly returning: readonly string[]
}

export function insertRelated(model: Model, table: TableModel, request: InsertRelated, caller: Caller): Written {
  const { objects, related, returning } = request
  const relation = table.relations[request.relation] as Relation
  const remote = remoteOf(model, relation, caller)
  if (caller.role !== 'admin' && !table.permissions[caller.role]?.select) throw new Refused('returning')
  selectable(table, caller.role, returning)
  const { local, remote: key } = relation
  let own: Row[]
  let others: Row[]
  if (relation.single) {
    others = inserted(
      model,
      remote,
      related.flatMap((rows) => rows ?? []),
      caller,
    )
    let next = 0
    const rows = objects.map((row, i) => (related[i] ? { ...row, [local]: others[next++]?.[key] as Value } : row))
    own = inserted(model, table, rows, caller, false)
  } else {
    own = inserted(model, table, objects, caller, false)
    const rows = own.flatMap((row, i) => (related[i] ?? []).map((each) => ({ ...each, [key]: row[local] as Value })))
    others = inserted(model, remote, rows, caller)
  }
  mustHold(model, table, own, table.permissions[caller.role]?.insert?.check, caller)
  return {
    affected_rows: own.length + others.length,
    returning: shown(model, table, own, returning, caller),
  }
}

/** Inserts rows that have no conflict. Needs no permission for none. */
function inserted(model: Model, table: TableModel, objects: readonly Row[], caller: Caller, checked = true): Row[] {
  if (objects.length === 0) return []
  const admin = caller.role === 'admin'
  const permission = table.permissions[caller.role]?.insert
  if (!admin && !permission) throw new Refused('insert')
  touchable([...new Set(objects.flatMap((object) => Object.keys(object)))], permission?.columns)
  const presets = presetsOf(permission, caller)
  const rows = objects.map((object): Row => ({ ...NULLS, ...object, ...presets }))
  for (const row of rows) {
    if (table.rows.some(({ id }) => id === row['id'])) throw new Refused('uniqueness')
    table.rows = [...table.rows, row]
  }
  if (checked) mustHold(model, table, rows, permission?.check, caller)
  return rows
}

const NULLS: Row = { id: null, n: null, b: null, s: null, ref: null }

function presetsOf(permission: Permissions['insert'], caller: Caller): Row {
  const presets = Object.entries(permission?.set ?? {}).map(
    ([column, preset]) => [column, value(preset, caller)] as const,
  )
  if (presets.some(([, written]) => written === null)) throw new Refused('preset')
  return Object.fromEntries(presets)
}

function permitted<T extends 'update' | 'delete'>(
  table: TableModel,
  { role }: Caller,
  action: T,
): Permissions[T] | undefined {
  if (role === 'admin') return undefined
  const permissions = table.permissions[role]
  if (!permissions?.[action] || !permissions.select) throw new Refused(action)
  return permissions[action]
}

function touchable(columns: readonly string[], may: readonly string[] | undefined): void {
  if (may) for (const column of columns) if (!may.includes(column)) throw new Refused(`column ${column}`)
}

const isSeenIn = (table: TableModel, action: 'update' | 'delete', { role }: Caller): boolean =>
  table.permissions[role]?.seenOnly?.includes(action) ?? false

/** Whether a condition depends on the row. */
const readsRow = (exp: Exp): boolean =>
  Object.entries(exp).some(([key, value]) => {
    if (key === '$and' || key === '$or') return (value as Exp[]).some(readsRow)
    return key === '$not' ? readsRow(value as Exp) : true
  })

const matching = (model: Model, table: TableModel, filter: Exp | undefined, where: Exp, caller: Caller): Row[] =>
  table.rows.filter(
    (row) =>
      evaluate(model, table, row, filter ?? {}, caller) === true &&
      evaluate(model, table, row, where, caller, caller.role) === true,
  )

function mustHold(model: Model, table: TableModel, rows: readonly Row[], check: Exp | undefined, caller: Caller): void {
  for (const row of rows) if (evaluate(model, table, row, check ?? {}, caller) !== true) throw new Refused('check')
}

const shown = (
  model: Model,
  table: TableModel,
  rows: readonly Row[],
  columns: readonly string[],
  caller: Caller,
): Row[] =>
  rows
    .filter((row) => visible(model, table, row, caller))
    .map((row) => seen(model, table, row, caller))
    .map((row) => Object.fromEntries(columns.map((column) => [column, row[column] as Value])))
