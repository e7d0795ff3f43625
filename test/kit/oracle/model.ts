import { INHERITED } from './generate.js'

/** A naive copy of what the server should do with rows held in memory: three-valued logic, permissions, writes. */
export type Value = number | string | boolean | null
export type Row = Record<string, Value>
export interface Relation {
  readonly single: boolean
  readonly table: string
  readonly local: string
  readonly remote: string
}
export interface TableModel {
  readonly name: string
  readonly relations: Readonly<Record<string, Relation>>
  readonly permissions: Readonly<Record<string, Permissions>>
  rows: Row[]
}
export interface Permissions {
  select?: Select
  insert?: { columns: readonly string[]; check: Exp; allow_upsert: boolean; set: Row }
  update?: { columns: readonly string[]; filter: Exp; check?: Exp }
  delete?: { filter: Exp }
  /** Of an inherited role: those that are not inherited. */
  own?: Permissions
  /** Actions for which a condition of an inherited role finds only rows that the role may select. */
  seenOnly?: readonly string[]
}
interface Select {
  columns: readonly string[]
  filter: Exp
  limit?: number
  allow_aggregations: boolean
  /** What an inherited role unites: each gives its columns in its rows. */
  parts?: readonly Select[]
}
/** A BoolExp as it is sent. */
export type Exp = { readonly [key: string]: unknown }
export type Truth = boolean | null
export type Model = Readonly<Record<string, TableModel>>

/** The server must answer with a 4xx, and nothing may have happened. */
export class Refused extends Error {}

export interface Caller {
  readonly role: string
  /** Null: an id that is no integer. */
  readonly userId: number | null
}
const USER_ID = 'X-Service-User-Id'

/**
 * @param role whose eyes: undefined in a permission, which is trusted
 * @param outer the row that the whole condition is about, as the role sees it
 */
export function evaluate(
  model: Model,
  table: TableModel,
  row: Row,
  exp: Exp,
  caller: Caller,
  role?: string,
  outer?: Row,
): Truth {
  const shown = role === undefined ? row : seen(model, table, row, caller)
  const root = outer ?? shown
  return all(
    Object.entries(exp).map(([key, value]) => {
      const inner = (part: unknown) => evaluate(model, table, row, part as Exp, caller, role, root)
      if (key === '$and') return all((value as unknown[]).map(inner))
      if (key === '$or') return any((value as unknown[]).map(inner))
      if (key === '$not') {
        const isOpen = role === undefined && caller.userId === null && namesUser(table.relations, value as Exp)
        return isOpen ? all([not(inner(value)), null]) : not(inner(value))
      }
      const relation = table.relations[key]
      if (relation) {
        return related(model, relation, row, caller, role).some(
          (other) =>
            evaluate(model, model[relation.table] as TableModel, other, value as Exp, caller, role, root) === true,
        )
      }
      return operators(shown, key, value, caller, root)
    }),
  )
}

/** Whether a condition on related rows names the user. If the id fits nothing, its negation is never true. */
function namesUser(relations: TableModel['relations'], exp: Exp): boolean {
  return Object.entries(exp).some(([key, value]) => {
    if (key === '$not') return namesUser(relations, value as Exp)
    if (key === '$and' || key === '$or') return (value as Exp[]).some((part) => namesUser(relations, part))
    return relations[key] !== undefined && JSON.stringify(value).includes(USER_ID)
  })
}

/** Rows on the other side, those only that the role may see. */
export function related(model: Model, relation: Relation, row: Row, caller: Caller, role?: string): Row[] {
  const remote = model[relation.table] as TableModel
  const joined = remote.rows.filter(
    (other) => other[relation.remote] !== null && other[relation.remote] === row[relation.local],
  )
  if (role === undefined) return joined
  return joined.filter((other) => visible(model, remote, other, caller) && linked(model, relation, row, other, caller))
}

/**
 * Whether the caller may know that two rows belong together: an inherited role sees the cells that join them, or a role that it
 * inherits from sees both rows, and may know it.
 */
export function linked(model: Model, relation: Relation, row: Row, other: Row, caller: Caller): boolean {
  const remote = model[relation.table] as TableModel
  const table = Object.values(model).find(({ relations }) => Object.values(relations).includes(relation)) as TableModel
  const isHidden = (of: TableModel, each: Row, column: string) => {
    const columns = of.permissions[caller.role]?.select?.columns
    return columns?.includes(column) === true && seen(model, of, each, caller)[column] === null && each[column] !== null
  }
  if (!isHidden(table, row, relation.local) && !isHidden(remote, other, relation.remote)) return true
  return (INHERITED[caller.role] ?? []).some((role) => {
    const part = { ...caller, role }
    const isSeen = visible(model, table, row, part) && visible(model, remote, other, part)
    return isSeen && linked(model, relation, row, other, part)
  })
}

export function visible(model: Model, table: TableModel, row: Row, caller: Caller): boolean {
  if (caller.role === 'admin') return true
  const filter = table.permissions[caller.role]?.select?.filter
  return filter !== undefined && evaluate(model, table, row, filter, caller) === true
}

/** A row as the caller sees it: without the cells that no part of its role gives. */
export function seen(model: Model, table: TableModel, row: Row, caller: Caller): Row {
  const parts = caller.role === 'admin' ? undefined : table.permissions[caller.role]?.select?.parts
  if (!parts) return row
  const giving = parts.filter(({ filter }) => evaluate(model, table, row, filter, caller) === true)
  return Object.fromEntries(
    Object.entries(row).map(([column, each]) => [
      column,
      giving.some(({ columns }) => columns.includes(column)) ? each : null,
    ]),
  )
}

function operators(row: Row, column: string, value: unknown, caller: Caller, root: Row): Truth {
  if (value === null || typeof value !== 'object') return compare('$eq', row, column, value as Value, caller, root)
  return all(Object.entries(value).map(([op, to]) => compare(op, row, column, to as Value, caller, root)))
}

function compare(op: string, row: Row, column: string, to: Value | readonly Value[], caller: Caller, root: Row): Truth {
  const left = row[column] as Value
  if (op === '$is_null') return (left === null) === to
  if (op.startsWith('$c')) {
    const [first, second] = [to].flat() as string[]
    return sql(`$${op.slice(2)}`, left, (second === undefined ? row[first as string] : root[second]) as Value)
  }
  if (op === '$in' || op === '$nin') {
    const list = to as readonly Value[]
    const parts = list.map((each): Truth => (each === null ? left === null : sql('$eq', left, value(each, caller))))
    return op === '$in' ? any(parts) : all(parts.map((part, i) => (list[i] === null ? left !== null : not(part))))
  }
  if (to === null) {
    if (op === '$eq' || op === '$is_not_distinct') return left === null
    return op === '$ne' || op === '$is_distinct' ? left !== null : null
  }
  return sql(op, left, value(to as Value, caller))
}

/** A session variable stands for what the caller brought. */
export const value = (each: Value, { userId }: Caller): Value => (each === USER_ID ? userId : each)

function sql(op: string, left: Value, right: Value): Truth {
  // An id that fits nothing is not known to be distinct, either.
  if (right === null) return null
  if (op === '$is_distinct') return left !== right
  if (op === '$is_not_distinct') return left === right
  if (left === null) return null
  switch (op) {
    case '$eq':
      return left === right
    case '$ne':
      return left !== right
    case '$gt':
      return left > right
    case '$lt':
      return left < right
    case '$gte':
      return left >= right
    default:
      return left <= right
  }
}

export const not = (truth: Truth): Truth => (truth === null ? null : !truth)
export const all = (truths: readonly Truth[]): Truth =>
  truths.includes(false) ? false : truths.includes(null) ? null : true
export const any = (truths: readonly Truth[]): Truth =>
  truths.includes(true) ? true : truths.includes(null) ? null : false

/** Names that a client uses in a condition must be those that its role may select. */
export function checkNames(model: Model, table: TableModel, exp: Exp, role: string, root = table): void {
  for (const [key, value] of Object.entries(exp)) {
    if (key === '$and' || key === '$or') (value as Exp[]).forEach((part) => checkNames(model, table, part, role, root))
    else if (key === '$not') checkNames(model, table, value as Exp, role, root)
    else if (table.relations[key]) {
      const remote = model[(table.relations[key] as Relation).table] as TableModel
      if (role !== 'admin' && !remote.permissions[role]?.select) throw new Refused(`relationship ${key}`)
      checkNames(model, remote, value as Exp, role, root)
    } else {
      selectable(table, role, [key])
      if (value !== null && typeof value === 'object') {
        for (const [op, to] of Object.entries(value)) {
          const [first, second] = [to].flat() as string[]
          if (op.startsWith('$c')) selectable(second === undefined ? table : root, role, [second ?? (first as string)])
        }
      }
    }
  }
}

export function selectable(table: TableModel, role: string, columns: readonly string[]): void {
  if (role === 'admin') return
  const permitted = table.permissions[role]?.select?.columns ?? []
  for (const column of columns) if (!permitted.includes(column)) throw new Refused(`column ${column}`)
}
