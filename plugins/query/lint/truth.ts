import { isDeepStrictEqual } from 'node:util'
import type { BoolExp, Column, Operand, SqlType, Table } from 'rowhouse/plan'

/** Which results a condition can have for some row: a sum of these. Results that cannot be excluded are included. */
export const T = 1
export const F = 2
export const U = 4
const ANY = T | F | U
type Compare = Extract<BoolExp, { readonly kind: 'compare' }>
type Tables = (exp: Extract<BoolExp, { readonly kind: 'exists' }>) => Table | undefined

/** Returns the results that a condition can have for a row of a table, with any session variables. */
export function outcomes(exp: BoolExp, table: Table, tables: Tables): number {
  const of = (part: BoolExp): number => outcomes(part, table, tables)
  switch (exp.kind) {
    case 'and': {
      const all = exp.of.map(of).reduce(both, T)
      return contradicts(flat(exp), table) ? all & ~T || F : all
    }
    case 'or':
      return isTautology(exp.of, of) ? T : exp.of.map(of).reduce(either, F)
    case 'not':
      return negated(of(exp.of))
    case 'compare':
      return compared(exp, exp.computed ? undefined : table.columnsByName.get(exp.column))
    case 'columns': {
      const orUnknown = isNullable(table, exp.column) || isNullable(table, exp.to) ? U : 0
      if (exp.column !== exp.to || exp.schema !== undefined) return T | F | orUnknown
      return (exp.op === 'eq' || exp.op === 'gte' || exp.op === 'lte' ? T : F) | orUnknown
    }
    case 'null':
      return exp.computed || isNullable(table, exp.column) ? T | F : F
    case 'sorted':
      return ANY
    case 'unknown':
      return U
    case 'known':
      return T | U
    case 'guarded': {
      const by = of(exp.by)
      return (by & T ? of(exp.of) : 0) | (by & (F | U) ? U : 0)
    }
    case 'exists': {
      const other = tables(exp)
      return !other || outcomes(exp.where, other, tables) & T ? T | F : F
    }
    case 'aggregate':
      return ANY
  }
}

const both = (a: number, b: number): number =>
  (a & b & T) | ((a | b) & F) | ((a & U && b & (T | U)) || (b & U && a & (T | U)) ? U : 0)
const negated = (a: number): number => (a & T ? F : 0) | (a & F ? T : 0) | (a & U)
const either = (a: number, b: number): number => negated(both(negated(a), negated(b)))

const flat = (exp: BoolExp): readonly BoolExp[] => (exp.kind === 'and' ? exp.of.flatMap(flat) : [exp])

const isNullable = ({ columnsByName }: Table, name: string): boolean => columnsByName.get(name)?.nullable !== false

function compared({ op, to, cast }: Compare, column: Column | undefined): number {
  const list = to.kind === 'const' && (op === 'in' || op === 'nin') ? elementsOf(to) : undefined
  if (list?.length === 0) return op === 'in' ? F : T
  if (op === 'distinct' || op === 'not_distinct') return T | F
  // A user id that fits no column is null.
  const orUnknown = column?.nullable !== false || cast || to.kind !== 'const' ? U : 0
  const { type } = column ?? {}
  if (list && !cast && type?.enum && type.labels?.every((label) => list.includes(label))) {
    return (op === 'in' ? T : F) | orUnknown
  }
  return T | F | orUnknown
}

/** Returns whether one of the parts is the negation of another, which is never unknown. */
function isTautology(parts: readonly BoolExp[], of: (part: BoolExp) => number): boolean {
  const denied = parts.flatMap((part) => (part.kind === 'not' ? [part.of] : []))
  return denied.some((each) => !(of(each) & U) && parts.some((part) => isDeepStrictEqual(part, each)))
}

/** Returns whether no row can satisfy all parts, although it could satisfy each one. */
function contradicts(parts: readonly BoolExp[], table: Table): boolean {
  const denied = parts.flatMap((part) => (part.kind === 'not' ? [part.of] : []))
  if (denied.some((each) => parts.some((part) => isDeepStrictEqual(part, each)))) return true
  const compares = parts.filter((part) => part.kind === 'compare').filter(({ computed, cast }) => !computed && !cast)
  const nulls = parts.filter((part) => part.kind === 'null').map(({ column }) => column)
  if (compares.some(({ column, op }) => nulls.includes(column) && !NULL_TOO.has(op))) return true
  const columns = new Set(compares.map(({ column }) => column))
  return [...columns].some((name) => {
    const own = compares.filter(({ column }) => column === name)
    return isEmpty(own, table.columnsByName.get(name)?.type)
  })
}

/** Operators that can be true for null. */
const NULL_TOO: ReadonlySet<string> = new Set(['nin', 'distinct', 'not_distinct'])

/** Returns whether comparisons of one column with constants leave no value. */
function isEmpty(all: readonly Compare[], type: SqlType | undefined): boolean {
  const read = type && readerOf(type)
  if (!read) return false
  let allowed: readonly (string | bigint)[] | undefined
  const refused = new Set<string | bigint>()
  let above: bigint | undefined
  let below: bigint | undefined
  for (const { op, to } of all) {
    if (to.kind !== 'const' || to.value === null) continue
    const values = (op === 'in' || op === 'nin' ? elementsOf(to) : [to.value]).flatMap((text) => read(text) ?? [])
    const [value] = values
    if (value === undefined) continue
    if (op === 'eq' || op === 'in') allowed = allowed ? allowed.filter((each) => values.includes(each)) : values
    if (op === 'ne' || op === 'nin') for (const each of values) refused.add(each)
    if (typeof value !== 'bigint') continue
    const least = op === 'gt' ? value + 1n : op === 'gte' ? value : undefined
    const most = op === 'lt' ? value - 1n : op === 'lte' ? value : undefined
    if (least !== undefined && (above === undefined || least > above)) above = least
    if (most !== undefined && (below === undefined || most < below)) below = most
  }
  const isWithin = (value: bigint): boolean =>
    (above === undefined || value >= above) && (below === undefined || value <= below)
  const fits = (value: string | bigint): boolean =>
    !refused.has(value) && (typeof value === 'string' || isWithin(value))
  return allowed ? !allowed.some(fits) : above !== undefined && below !== undefined && above > below
}

/** Returns the reader of a type's constants, of which different results are different values. */
function readerOf(type: SqlType): ((text: string) => string | bigint | undefined) | undefined {
  if (type.kind === 'int2' || type.kind === 'int4' || type.kind === 'int8') {
    return (text) => (/^-?\d+$/.test(text) ? BigInt(text) : undefined)
  }
  const isText = type.schema === 'pg_catalog' && (type.name === 'text' || type.name === 'varchar')
  return type.enum || (isText && !type.nondeterministic) ? String : undefined
}

/** Returns the elements of a constant list, which has the form of PostgreSQL: `{1,"a b"}`. */
function elementsOf({ value }: Extract<Operand, { readonly kind: 'const' }>): readonly string[] {
  const inner = (value ?? '{}').slice(1, -1)
  return [...inner.matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/gs)].map(([, quoted, plain = '']) =>
    quoted === undefined ? plain : quoted.replace(/\\(.)/gs, '$1'),
  )
}
