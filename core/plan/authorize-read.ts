import { type Table, tableKey } from '../catalog/catalog.js'
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
  type Field,
  type Grouping,
  type Opaque,
  type OrderTarget,
  type Read,
  type Rule,
  TRUE,
} from '../ir.js'
import { rowsReturned, RULE_ACTIONS } from './names.js'
import { checkCall, type Scope } from './authorize-scope.js'

/** Maximum number of sort columns. PostgreSQL compares each with all others while parsing. */
const MAX_ORDER = 100

export type Reads = ReturnType<typeof readsIn>

/** Authorizes reads: every column, condition, sort and related row. */
export function readsIn(scope: Scope) {
  const {
    names,
    catalog,
    filter,
    permissions,
    tableFor,
    columns,
    shown,
    maskFor,
    masksFor,
    versionIn,
    selectFilter,
    aggregable,
    mayAggregate,
    linked,
  } = scope
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

  const fields = <F extends Field>(all: readonly F[], table: Table | undefined): readonly F[] =>
    all.map((field) => {
      switch (field.kind) {
        case 'constant':
          return field
        case 'relation':
          if (field.computed !== undefined) return { ...field, ...computedRows(field, table) }
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

  const computedRows = (field: Extract<Field, { kind: 'relation' }>, table: Table | undefined) => {
    const { on, read } = field
    if (!table || !read.from) throw new Error('a computed field outside a table')
    checkCall(read.from, names.computedField(table, field.computed as string, '$.args'))
    const links = linked({ on, from: read.from }, table, read.table)
    return { ...links, read: rowsOf(read, tableFor(read.table, 'select')) }
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

  return { read, count, fields, condition }
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
