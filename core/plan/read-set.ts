import { type Catalog, type Constraint, tableKey } from '../catalog/catalog.js'
import type { BoolExp, Join, Op, Operand, SqlType, TableRef } from '../ir.js'

/** What the answer to a read depends on. */
export interface ReadSet {
  /** Tables and views: those of relationships, conditions, permissions, orders and aggregates, too. */
  readonly sources: readonly Source[]
  /** Whether it depends on nothing else: functions may read anything. */
  readonly isComplete: boolean
}

/** A table that an answer depends on. */
export interface Source {
  readonly table: TableRef
  /** Absent: every row may matter. */
  readonly way?: Way
  readonly end?: End
}

/**
 * How to tell which rows of a table may matter to an answer: those from which joins lead to a row that has one of some values. So a
 * change of a row matters only if the way leads there from the row as it was, or as it is.
 */
export interface Way {
  /** Column of the row in which the way begins, and its type. */
  readonly column: string
  readonly type: SqlType
  /** The next rows: those of `table` whose column `on` has the value so far. Their column `to` has the next value. */
  readonly joins: readonly { readonly table: TableRef; readonly on: string; readonly to: string }[]
}

/** What the last value of a way has to be, or be one of. */
export interface End {
  readonly op: 'eq' | 'in'
  readonly to: Extract<Operand, { readonly kind: 'value' | 'session' }>
}

/** A table in a plan. Each use of a table is one of its own. */
interface Use {
  /** Two uses may share it: a rule is one object wherever it applies. */
  readonly part: unknown
  readonly table: TableRef
  /** Conditions that all of its rows have to meet. */
  readonly conditions: readonly BoolExp[]
  /** The use whose rows it belongs to, and how. */
  readonly outer: Use | undefined
  readonly on: Join
  led?: Led
}
interface Led {
  readonly way: Way
  readonly end: End
}

/**
 * Returns what an authorized read depends on. Walks all of the plan, so that no part of one is forgotten: a table is what stands
 * under `table`, and a call under `function`.
 */
export function readSet(op: Op, { tables }: Pick<Catalog, 'tables'>): ReadSet {
  const uses: Use[] = []
  let isComplete = true

  const begin = (part: Part, outer: Use | undefined, on: Join): Use => {
    const use = { part, table: part.table as TableRef, conditions: conditionsOf(part), outer, on }
    uses.push(use)
    return use
  }
  /** @param on how rows of a table within `part` belong to those of `here` */
  const walk = (part: unknown, here: Use | undefined, on: Join = []): void => {
    if (typeof part !== 'object' || part === null) return
    if (Array.isArray(part)) return part.forEach((each) => walk(each, here))
    const object = part as Part
    const joined = (object.on as Join | undefined) ?? on
    const inner = object.table === undefined ? here : begin(object, here, joined)
    for (const [key, value] of Object.entries(object)) {
      if (key === 'function') isComplete = false
      else if (key === 'read') walk(value, here, joined)
      // Its conditions are about two rows.
      else if (key === 'links') walk(value, undefined)
      else if (key !== 'table') walk(value, inner)
    }
  }
  walk(op, undefined)

  if (isComplete) findWays(uses, tables)
  return { sources: uses.map(({ table, led }) => ({ table, ...led })), isComplete }
}

type Part = Readonly<Record<string, unknown>>

/** Returns the conditions that all rows of a part have to meet: those of a connection are read in up to three ways. */
function conditionsOf({ where, distinct, outside }: Part): readonly BoolExp[] {
  const { previous, next } = (outside ?? {}) as Part
  const others = [(distinct as Part | undefined)?.where, previous, next].filter((each) => each !== undefined)
  const known = others.map((each) => new Set(conjuncts(each as BoolExp).map((exp) => JSON.stringify(exp))))
  return conjuncts(where as BoolExp | undefined).filter((exp) => known.every((some) => some.has(JSON.stringify(exp))))
}

function conjuncts(exp: BoolExp | undefined): readonly BoolExp[] {
  if (exp?.kind === 'and') return exp.of.flatMap(conjuncts)
  if (exp?.kind === 'guarded') return [exp.by, exp.of].flatMap(conjuncts)
  return exp ? [exp] : []
}

/**
 * Gives each use the shortest way to one whose rows have to have a value, preferably in a key. All ways through a use go on in the
 * same way from there: then, if several rows on a way change together, the last of them still leads to its end, because what comes
 * after it is as it was.
 */
function findWays(uses: readonly Use[], tables: Catalog['tables']): void {
  const typeOf = ({ table }: Use, column: string): SqlType | undefined => {
    const type = tables.get(tableKey(table))?.columnsByName.get(column)?.type
    return type && isExact(type) ? type : undefined
  }
  /** Leads a use by one join to the next, unless it has a way. */
  const lead = (from: Use, to: Use, pairs: Join): readonly Use[] => {
    const pair = pairs.find(([here, there]) => typeOf(from, here) && typeOf(to, there))
    if (from.led || !pair) return []
    const { way, end } = to.led!
    const [here, on] = pair
    const { column, joins } = way
    // From the value of a column to that of the same column there is nothing to look up.
    const next = on === column ? joins : [{ table: to.table, on, to: column }, ...joins]
    from.led = { way: { column: here, type: typeOf(from, here)!, joins: next }, end }
    return [from]
  }
  for (const inKey of [true, false]) {
    let found = uses.filter((use) => !use.led && (use.led = endOf(use, tables, inKey)))
    while (found.length > 0) {
      const next: Use[] = []
      for (const to of found) {
        for (const use of uses) {
          if (use.outer === to) next.push(...lead(use, to, reversed(use.on)))
          // Only rows that have a row there matter.
          if (to.outer === use && use.conditions.some((exp) => exp === to.part)) next.push(...lead(use, to, to.on))
        }
      }
      found = next
    }
  }
}

const reversed = (on: Join): Join => on.map(([outer, inner]) => [inner, outer])

/** Returns a way that ends where it begins: at the condition on a value that most likely tells rows apart. */
function endOf({ table, conditions }: Use, tables: Catalog['tables'], inKey: boolean): Led | undefined {
  const { keys = [], foreignKeys = [], columnsByName } = tables.get(tableKey(table)) ?? {}
  const ends = conditions.flatMap((exp) => {
    if (exp.kind !== 'compare' || exp.computed || exp.cast || exp.more || exp.schema) return []
    const { column, op, to } = exp
    const type = columnsByName?.get(column)?.type
    if ((op !== 'eq' && op !== 'in') || !type || !isExact(type) || type.enum) return []
    if (to.kind !== 'value' && (to.kind !== 'session' || op === 'in')) return []
    const isIn = ({ columns }: Constraint) => columns.includes(column)
    if ((keys.some(isIn) || foreignKeys.some(isIn)) !== inKey) return []
    const isAlone = keys.some(({ columns }) => columns.length === 1 && isIn({ name: '', columns }))
    const led: Led = { way: { column, type, joins: [] }, end: { op, to } }
    return [{ led, rank: (op === 'in' ? 2 : 0) + (isAlone ? 0 : 1) }]
  })
  return ends.toSorted((a, b) => a.rank - b.rank)[0]?.led
}

/** Returns whether equal values of a type have equal texts. */
const isExact = ({ schema, name, kind, nondeterministic, enum: isEnum }: SqlType): boolean =>
  isWhole(kind) || isEnum === true || (schema === 'pg_catalog' && !nondeterministic && EXACT.has(name))
const EXACT: ReadonlySet<string> = new Set(['text', 'varchar', 'uuid'])
const isWhole = (kind: SqlType['kind']): boolean => kind === 'int2' || kind === 'int4' || kind === 'int8'
