import type { QueryPlan } from 'rowhouse'
import {
  type BoolExp,
  type Catalog,
  type Field,
  type Op,
  type OrderBy,
  supports,
  type Table,
  tableKey,
  type TableRef,
} from 'rowhouse/plan'
import { conjuncts, rulesOf, type Subject } from '../lint/subject.js'
import type { Statement } from './workload.js'

/** An index that may help. */
export interface Candidate {
  readonly table: Table
  readonly columns: readonly string[]
  /** Statements that compare or sort by these columns. */
  readonly from: ReadonlySet<Statement>
}

const MOST_COLUMNS = 3

/** Collects indexes on the columns that statements compare, join or sort by. */
export class Candidates {
  private readonly byKey = new Map<string, Candidate & { readonly from: Set<Statement> }>()
  private statement!: Statement

  constructor(private readonly catalog: Catalog) {}

  get all(): readonly Candidate[] {
    return [...this.byKey.values()]
  }

  /** Adds those of a statement: what it is about and the filters of its role, or, without that, the filters of its plan. */
  add(statement: Statement, plan: QueryPlan, subjects: readonly Subject[]): void {
    this.statement = statement
    if (statement.op) this.addOp(statement.op, statement.role, subjects)
    else this.addPlan(plan)
  }

  private addOp(op: Op, role: string, subjects: readonly Subject[]): void {
    const filterOf = (table: TableRef): readonly BoolExp[] => {
      const subject = subjects.find((each) => each.role === role && tableKey(each.table) === tableKey(table))
      return subject
        ? rulesOf(subject).flatMap(({ action, key, exp }) => (action === 'select' && key === 'filter' ? exp : []))
        : []
    }
    const fields = (all: readonly Field[]): void => {
      for (const field of all) {
        if (field.kind !== 'relation' || field.read.from) continue
        const { table, where, orderBy } = field.read
        const joined = field.on.map(([, inner]) => inner)
        this.addRows(table, [where, ...filterOf(table)], orderBy, joined)
        fields(field.read.fields)
      }
    }
    switch (op.kind) {
      case 'read':
        if (op.from) return
        this.addRows(op.table, [op.where, ...filterOf(op.table)], op.orderBy)
        return fields(op.fields)
      case 'count':
      case 'update':
      case 'delete':
        return this.addRows(op.table, [op.where, ...filterOf(op.table)], [])
      case 'roots':
        return fields(op.fields)
      case 'insert':
    }
  }

  private addPlan(plan: QueryPlan): void {
    for (const child of plan.Plans ?? []) this.addPlan(child)
    const name = plan['Relation Name']
    if (name === undefined || plan.Filter === undefined) return
    const table = this.catalog.tables.get(tableKey({ schema: plan.Schema ?? 'public', name }))
    const found = [...plan.Filter.matchAll(/\.("?)(\w+)\1\)?(?:::[\w ]+)?\)? (=|<=?|>=?) /g)]
    const columns = (isEqual: boolean) =>
      found.filter(([, , , operator]) => (operator === '=') === isEqual).map(([, , column]) => column as string)
    if (table) this.addColumns(table, columns(true), columns(false), [])
  }

  /** @param joined columns that are compared with those of another table */
  private addRows(
    ref: TableRef,
    conditions: readonly BoolExp[],
    orderBy: readonly OrderBy[],
    joined: readonly string[] = [],
  ): void {
    const table = this.catalog.tables.get(tableKey(ref))
    if (!table) return
    const equal = [...joined]
    const ranges: string[] = []
    for (const part of conditions.flatMap(conjuncts)) {
      switch (part.kind) {
        case 'compare':
          if (part.computed || part.cast) break
          if (EQUAL.has(part.op)) equal.push(part.column)
          else if (RANGES.has(part.op)) ranges.push(part.column)
          break
        case 'null':
          if (!part.computed) equal.push(part.column)
          break
        case 'or':
          for (const branch of part.of) this.addRows(ref, [branch], [], joined)
          break
        case 'exists':
          if (part.from) break
          // Either table may be read first.
          this.addColumns(
            table,
            part.on.map(([own]) => own),
            [],
            [],
          )
          this.addRows(
            part.table,
            [part.where],
            [],
            part.on.map(([, inner]) => inner),
          )
          break
        case 'guarded':
          this.addRows(ref, [part.of], [], joined)
          break
        case 'and':
        case 'not':
        case 'columns':
        case 'sorted':
        case 'unknown':
        case 'known':
        case 'aggregate':
      }
    }
    const sorted = orderBy.flatMap(({ by }) => (by.kind === 'column' && !by.computed ? [by.column] : []))
    this.addColumns(table, equal, ranges, sorted.length === orderBy.length ? sorted : [])
  }

  private addColumns(
    table: Table,
    equal: readonly string[],
    ranges: readonly string[],
    sorted: readonly string[],
  ): void {
    const all = [...new Set(equal)]
    for (const column of all) this.addIndex(table, [column])
    if (all.length > 1) this.addIndex(table, all)
    for (const range of new Set(ranges)) this.addIndex(table, [...all, range])
    if (sorted.length > 0) this.addIndex(table, [...all, ...sorted])
  }

  private addIndex(table: Table, given: readonly string[]): void {
    const columns = [...new Set(given)].slice(0, MOST_COLUMNS)
    const isIndexable = columns.every((name) => {
      const column = table.columnsByName.get(name)
      return (
        column &&
        !column.derived &&
        INDEXED.has(table.kind) &&
        supports(column.type, 'order') &&
        !UNFIT.has(column.type.kind)
      )
    })
    if (isIndexable && !table.system && columns.length > 0) {
      const key = [tableKey(table), ...columns].join('\0')
      const known = this.byKey.get(key) ?? { table, columns, from: new Set() }
      known.from.add(this.statement)
      this.byKey.set(key, known)
    }
  }
}

const EQUAL: ReadonlySet<string> = new Set(['eq', 'in', 'not_distinct'])
const RANGES: ReadonlySet<string> = new Set(['gt', 'gte', 'lt', 'lte'])
const INDEXED: ReadonlySet<string> = new Set(['table', 'partitioned', 'materialized view'])
/** Other index methods serve these. */
const UNFIT: ReadonlySet<string> = new Set([
  'json',
  'jsonb',
  'array',
  'row',
  'range',
  'multirange',
  'hstore',
  'geometry',
  'geography',
])
