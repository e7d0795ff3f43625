import { generateExp, type Random } from './oracle/generate.js'
import type { Exp, Model, Relation, Value } from './oracle/model.js'

/** A column of a type whose order or equality is not that of its texts, or is. */
interface Column {
  readonly name: string
  readonly type: string
  readonly values: readonly unknown[]
  readonly operators: readonly string[]
}
const EQUAL = ['$eq', '$ne', '$is_distinct', '$is_not_distinct', '$in', '$nin']
const ORDER = [...EQUAL, '$gt', '$lt', '$gte', '$lte', '$in']
const UUIDS = [
  '00000000-0000-4000-8000-00000000000a',
  '00000000-0000-4000-8000-00000000000A',
  '00000000-0000-4000-8000-00000000000b',
]
const DAYS = ['2020-01-01', '20200101', '2020-01-02', '2020-01-04', 'infinity']
const TIMES = [
  '2020-01-01T00:00:00Z',
  '2020-01-01 00:00:00.000Z',
  '2020-01-01T00:00:00.000001Z',
  '2020-01-01 01:00+01',
  '2020-02-01Z',
]
const LEVEL = 'X-Service-Level'

/** `ci` is a collation that ignores case; in `und-x-icu`, `a` is less than `B`, which is not the order of their bytes. */
export const TYPED: readonly Column[] = [
  { name: 'num', type: 'numeric', values: [1, '1.0', 1.5, '1.50', '01.5', '-3', 'NaN', LEVEL], operators: ORDER },
  { name: 'small', type: 'int2', values: [0, 1, 2, ' 2', '-32768', 32767, LEVEL], operators: ORDER },
  { name: 'big', type: 'int8', values: [0, 1, 2, 3, '9007199254740993', '9007199254740992', LEVEL], operators: ORDER },
  { name: 'f', type: 'float8', values: [1, '1.0', 0.1, '0.10', 'NaN'], operators: ORDER },
  { name: 'day', type: 'date', values: DAYS, operators: ORDER },
  { name: 'at', type: 'timestamptz', values: TIMES, operators: ORDER },
  { name: 'mood', type: 'mood', values: ['sad', 'ok', 'glad'], operators: ORDER },
  { name: 'code', type: 'citext', values: ['a', 'A', 'b', 'X-Service-User-Id'], operators: ORDER },
  { name: 'word', type: 'text collate ci', values: ['a', 'A', 'b'], operators: ORDER },
  { name: 'title', type: 'text collate "und-x-icu"', values: ['a', 'A', 'b', 'B'], operators: ORDER },
  {
    name: 'name',
    type: 'varchar(3)',
    values: ['a', 'A', 'b', 'ab', '1', 'X-Service-User-Id'],
    operators: [...ORDER, '$like', '$nlike'],
  },
  { name: 'c', type: 'char(3)', values: ['a', 'a ', 'b', 'X-Service-User-Id'], operators: ORDER },
  { name: 'u', type: 'uuid', values: [...UUIDS, 'X-Service-User-Id'], operators: ORDER },
  { name: 'moods', type: 'mood not null', values: ['sad', 'ok', 'glad'], operators: ORDER },
  { name: 'smalls', type: 'int2 not null', values: [0, 1, '-32768', 32767, LEVEL], operators: ORDER },
  { name: 'days', type: 'date not null', values: DAYS, operators: ORDER },
  { name: 'yes', type: 'bool not null', values: [true, false], operators: EQUAL },
  { name: 'few', type: 'real', values: [1, 0.1, '0.10', '0.2', 1.5, '16777216', '16777217'], operators: ORDER },
  {
    name: 'moment',
    type: 'timestamp',
    values: ['2020-01-01T00:00:00', '2020-01-01 00:00:00.5', '2020-01-02 00:00:00'],
    operators: ORDER,
  },
  { name: 'pos', type: 'positive', values: [1, 2, 3], operators: ORDER },
  { name: 'tags', type: 'int[]', values: [[1], [1, 2], []], operators: ['$eq', '$ne', '$contains', '$contained_in'] },
  { name: 'j', type: 'jsonb', values: [{ a: 1 }, { a: 1.0, b: 2 }, [1]], operators: ['$eq', '$ne', '$contains'] },
]

export const SCHEMA = `create extension if not exists citext; create type mood as enum ('sad', 'ok', 'glad');
  create domain positive as int check (value > 0);
  create collation ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);`

/** Returns a value to store in a column, or null. */
export function storedValue(random: Random, { values, type }: Column): unknown {
  const constants = values.filter((each) => typeof each !== 'string' || !each.startsWith('X-'))
  return random.chance(20) && !type.endsWith(' not null') ? null : random.pick(constants)
}

/** Returns a rule for a table: like those of the permission oracle, also on columns of other types. */
export const generateRule = (random: Random, model: Model, table: string, depth = 3): Exp =>
  random.chance(8) ? {} : retyped(random, model, table, generateExp(random, model, table, depth, true))

function retyped(random: Random, model: Model, table: string, exp: Exp): Exp {
  const again = (part: unknown, of = table) => retyped(random, model, of, part as Exp)
  return Object.fromEntries(
    Object.entries(exp).flatMap(([key, value]): [string, unknown][] => {
      if (key === '$and' || key === '$or') return [[key, (value as unknown[]).map((part) => again(part))]]
      if (key === '$not') return [[key, again(value)]]
      const relation = model[table]?.relations[key]
      if (!relation) return [random.chance(45) ? entryOf(random, random.pick(TYPED)) : [key, value]]
      const inner = again(value, relation.table)
      if (random.chance(10)) return [['$exists', { _table: relation.table, _where: inner }]]
      if (relation.single || random.chance(80)) return [[key, inner]]
      const count = { filter: inner, predicate: { [random.pick(['$gt', '$eq'])]: random.below(3) } }
      return [[`${key}_aggregate`, { count }]]
    }),
  )
}

function entryOf(random: Random, { name, values, operators }: Column): [string, unknown] {
  if (random.chance(5)) return [name, { $is_null: random.chance(50) }]
  const one = (operator: string): unknown => {
    if (operator !== '$in' && operator !== '$nin') return random.pick(values)
    return Array.from({ length: random.below(4) }, () => random.pick(values))
  }
  const some = random.chance(75) ? [random.pick(operators)] : [random.pick(operators), random.pick(operators)]
  return [name, Object.fromEntries(some.map((operator) => [operator, one(operator)]))]
}

/** Returns two rules about one column, of the table or of a related one, which say nearly the same. */
export function generateNearRules(random: Random, model: Model, table: string): readonly [Exp, Exp] {
  const column = random.pick(TYPED)
  const few = { ...column, values: random.some(column.values, 50).concat(random.pick(column.values)) }
  const part = (): Exp => {
    const leaf = Object.fromEntries([entryOf(random, few)])
    return random.chance(25) ? { $not: leaf } : leaf
  }
  const parts = () => Array.from({ length: 1 + random.below(2) }, part)
  const rule = (): Exp => ({ [random.pick(['$and', '$or'])]: parts() })
  if (random.chance(70)) return [rule(), rule()]
  const relation = random.pick(Object.keys(model[table]?.relations ?? {}))
  const around = random.pick([(exp: Exp) => ({ [relation]: exp }), (exp: Exp) => ({ $not: { [relation]: exp } })])
  return [around(rule()), around(rule())]
}

/** A change of a rule, and how the rows become: `wider` includes the same. */
export interface Mutation {
  readonly kind: string
  readonly to: Exp
  readonly rows: 'wider' | 'narrower' | 'same'
}

/** Changes a rule in a way whose effect follows from how it is done. */
export function mutate(random: Random, model: Model, table: string, rule: Exp): Mutation {
  const other = (depth = 1) => generateRule(random, model, table, depth)
  const kind = random.below(12)
  if (kind === 0) return { kind: 'add a conjunct', to: { $and: [rule, other()] }, rows: 'narrower' }
  if (kind === 1) return { kind: 'add a disjunct', to: { $or: [other(), rule] }, rows: 'wider' }
  if (kind === 2) return { kind: 'all rows', to: {}, rows: 'wider' }
  if (kind === 3) return { kind: 'negate twice', to: { $and: [{ $not: { $not: rule } }] }, rows: 'same' }
  if (kind === 4)
    return { kind: 'reverse the keys', to: Object.fromEntries(Object.entries(rule).reverse()), rows: 'same' }
  return (
    changed(random, model, table, rule) ?? { kind: 'add a conjunct', to: { $and: [other(), rule] }, rows: 'narrower' }
  )
}

const FLIPPED = { wider: 'narrower', narrower: 'wider', same: 'same' } as const

/** Changes one part of a rule; undefined if it has none to change. */
function changed(random: Random, model: Model, table: string, rule: Exp): Mutation | undefined {
  const entries = Object.entries(rule)
  if (entries.length === 0) return undefined
  const [key, value] = random.pick(entries)
  const put = ({ kind, to, rows }: Omit<Mutation, 'to'> & { readonly to: unknown }): Mutation => ({
    kind,
    to: { ...rule, [key]: to },
    rows,
  })
  if (key === '$and' || key === '$or') {
    const parts = value as readonly Exp[]
    const at = random.below(parts.length)
    const without = parts.filter((_, i) => i !== at)
    if (parts.length === 0) return undefined
    if (random.chance(50))
      return put({ kind: `drop from ${key}`, to: without, rows: key === '$and' ? 'wider' : 'narrower' })
    const inner = changed(random, model, table, parts[at] as Exp)
    return inner && put({ ...inner, to: parts.map((part, i) => (i === at ? inner.to : part)) })
  }
  if (key === '$not') {
    const inner = changed(random, model, table, value as Exp)
    return inner && put({ ...inner, kind: `${inner.kind} in $not`, rows: FLIPPED[inner.rows] })
  }
  const relation = model[table]?.relations[key] as Relation | undefined
  if (relation) {
    const inner = changed(random, model, relation.table, value as Exp)
    return inner && put({ ...inner, kind: `${inner.kind} in a relationship` })
  }
  if (typeof value !== 'object' || value === null)
    return put({ kind: 'grow to $in', to: { $in: [value, storedOf(key)] }, rows: value === null ? 'wider' : 'wider' })
  const comparison = operatorChange(random, value as Readonly<Record<string, unknown>>, INTEGERS.includes(key))
  return comparison && put(comparison)
}
const INTEGERS: readonly string[] = ['id', 'n', 'ref', 'pos']

const storedOf = (column: string): Value => (column === 'b' ? true : column === 's' ? 'ab' : 5)

function operatorChange(random: Random, operators: Readonly<Record<string, unknown>>, isInteger: boolean) {
  for (const [operator, to] of Object.entries(operators)) {
    const put = (kind: string, changed: unknown, rows: 'wider' | 'narrower') => ({
      kind,
      to: { ...operators, [operator]: changed },
      rows,
    })
    if ((operator === '$in' || operator === '$nin') && Array.isArray(to) && to.length > 0) {
      return put(`shrink ${operator}`, to.slice(1), operator === '$in' ? 'narrower' : 'wider')
    }
    if (isInteger && typeof to === 'number' && /^\$[gl]te?$/.test(operator)) {
      const step = random.chance(50) ? 1 : -1
      return put(
        `move ${operator}`,
        to + step,
        (operator.startsWith('$g') ? step < 0 : step > 0) ? 'wider' : 'narrower',
      )
    }
  }
  return undefined
}
