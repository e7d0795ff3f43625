import { COLUMN_OPERATORS, operatorOn, OPERATORS, operatorsOn, type Right, TEXT } from '../../../core/plan/operators.js'
import type { SqlType } from '../../../core/ir.js'
import type { Random } from '../oracle/generate.js'
import { type Era, grantsOf, isSelectable } from './permissions.js'
import { type Column, columnOf, type Json, type Table, tableOf, TABLES } from './schema.js'
import { COMMON_IDS, HIDDEN_IDS, NAMES } from './worlds.js'

/** Whose request it is, in which language. */
export interface Asker {
  readonly era: Era
  readonly role: string
  readonly dialect: 'query' | 'alpha' | 'modern'
}
export type Condition = { readonly [key: string]: Json | undefined }

/** The operators that were used, by name. */
export type Used = Set<string>

/** Something to compare: a column, or a field that a function computes. */
type Left = Pick<Column, 'name' | 'type'> & Partial<Pick<Column, 'plain' | 'odd'>>

export function generateCondition(random: Random, asker: Asker, table: Table, used: Used, depth = 2): Condition {
  if (random.chance(25)) return probe(random, asker, table, used)
  const entries = Array.from({ length: random.pick([1, 1, 1, 2, 3]) }, () => entry(random, asker, table, used, depth))
  return Object.fromEntries(entries)
}

/** A condition on one column, of a group for example. */
export const conditionOn = (random: Random, asker: Asker, column: Column, table: Table, used: Used): Condition => ({
  [column.name]: operators(random, asker, column, table, '$', used),
})

/** Something of a single row, mostly a hidden one: no visible row answers in its place. */
function probe(random: Random, asker: Asker, table: Table, used: Used): Condition {
  const prefix = asker.dialect === 'query' ? '$' : '_'
  const left = generateLeft(random, asker, table)
  const id = { [`${prefix}eq`]: random.chance(80) ? random.pick(HIDDEN_IDS) : anyId(random) }
  return { [left.name]: operators(random, asker, left, table, prefix, used), ...(left.name === 'id' ? {} : { id }) }
}

function entry(random: Random, asker: Asker, table: Table, used: Used, depth: number): [string, Json] {
  const again = (of = table) => generateCondition(random, asker, of, used, depth - 1)
  const prefix = asker.dialect === 'query' && random.chance(90) ? '$' : '_'
  const kind = random.below(depth > 0 ? 100 : 62)
  if (kind < 10) return ['id', { [`${prefix}${random.pick(['eq', 'lt', 'gte'])}`]: anyId(random) }]
  if (kind < 62) {
    const left = generateLeft(random, asker, table)
    return [left.name, operators(random, asker, left, table, prefix, used)]
  }
  if (kind < 68)
    return [`${prefix}${random.pick(['and', 'or'])}`, Array.from({ length: 1 + random.below(3) }, () => again())]
  if (kind < 72) return [`${prefix}not`, again()]
  const [name, relation] = relationOf(random, asker, table)
  if (relation.single || random.chance(35) || !mayAggregate(random, asker, relation.table))
    return [name, random.chance(15) ? {} : again(tableOf(relation.table))]
  return [`${name}_aggregate`, aggregate(random, asker, tableOf(relation.table), prefix, used, depth)]
}

/** Whether the role may, mostly. */
export const mayAggregate = (random: Random, { era, role }: Asker, table: string): boolean =>
  grantsOf(era, role, table).select?.allow_aggregations === true || random.chance(5)

/** Mostly relationships whose other side the role may see. */
export function relationOf(random: Random, { era, role }: Asker, table: Table) {
  const all = Object.entries(table.relations)
  const seen = all.filter(([, relation]) => isSelectable(era, role, relation.table))
  return random.pick(seen.length > 0 && random.chance(95) ? seen : all.length > 0 ? all : ORG_RELATIONS)
}
const ORG_RELATIONS = Object.entries(tableOf('org').relations)

function aggregate(random: Random, asker: Asker, table: Table, prefix: string, used: Used, depth: number): Condition {
  const flags = FLAGS.filter((name) => grantsOf(asker.era, asker.role, table.name).select?.columns.includes(name))
  const fn = flags.length > 0 ? random.pick(['count', 'count', 'bool_and', 'bool_or']) : 'count'
  const column = fn === 'count' ? pickColumn(random, asker, table).name : random.pick(flags)
  const filter = random.chance(70) ? { filter: generateCondition(random, asker, table, used, depth - 1) } : {}
  const given =
    fn !== 'count' || random.chance(30)
      ? { arguments: asker.dialect === 'modern' && fn !== 'count' ? column : [column] }
      : {}
  const distinct = fn === 'count' && random.chance(20) ? { distinct: true } : {}
  const predicate =
    fn === 'count'
      ? { [`${prefix}${random.pick(['eq', 'gt', 'lte', 'in'])}`]: random.below(4) }
      : { [`${prefix}eq`]: random.chance(50) }
  return { [fn]: { ...filter, ...given, ...distinct, predicate } }
}

const FLAGS = ['shared', 'done']

/** An id of a row that is there, or is hidden, or neither. */
export const anyId = (random: Random): number =>
  random.chance(60) ? 1 + random.below(COMMON_IDS) : random.chance(80) ? random.pick(HIDDEN_IDS) : random.below(9999)

/** A column that the role may select, mostly; now and then one that it may not, or that is not there, or not in both worlds. */
export function pickColumn(random: Random, { era, role }: Asker, table: Table): Column {
  const granted = grantsOf(era, role, table.name).select?.columns ?? []
  const texts = granted.filter((each) => columnOf(table, each)?.type.kind === 'text')
  const from = texts.length > 0 && random.chance(30) ? texts : granted
  const name = random.chance(95) && from.length > 0 ? random.pick(from) : undefined
  const found = columnOf(table, name ?? random.pick(table.columns).name) as Column
  if (name !== undefined || random.chance(50)) return found
  return { ...found, name: random.pick([...STRANGE, ...table.columns.map((each) => each.name.slice(1))]) }
}
/** Names that lead to nothing in one world at least. */
const STRANGE: readonly string[] = ['pinn', 'titel', ...NAMES.flatMap(({ pin, most, shadow }) => [pin, most, shadow])]

function generateLeft(random: Random, asker: Asker, table: Table): Left {
  const computed = grantsOf(asker.era, asker.role, table.name).select?.computed_fields ?? []
  const fields = table.computed.filter(({ name }) => computed.includes(name))
  return asker.dialect === 'modern' && fields.length > 0 && random.chance(40)
    ? random.pick(fields)
    : pickColumn(random, asker, table)
}

function operators(random: Random, asker: Asker, left: Left, table: Table, prefix: string, used: Used): Json {
  const all = operatorsOn(left.type).map(([name]) => name)
  const patterns = all.filter((name) => /^(text|pattern|search)$/.test(operatorOn(name, left.type)?.right ?? ''))
  const names = patterns.length > 0 && random.chance(40) ? patterns : all
  if (random.chance(6)) {
    used.add('is_null')
    return { [`${prefix}is_null`]: random.chance(50) }
  }
  if (left.type.kind === 'jsonb' && random.chance(25)) {
    used.add('cast')
    const text = { name: left.name, type: TEXT }
    return { [`${prefix}cast`]: { String: operators(random, asker, text, table, prefix, used) } }
  }
  if (asker.dialect === 'query' && random.chance(6)) {
    const alike = table.columns.filter(({ type }) => type.name === left.type.name)
    const op = random.pick([...COLUMN_OPERATORS.keys()])
    used.add(op)
    return { [`${prefix}${op}`]: random.pick(alike.length > 0 ? alike : table.columns).name }
  }
  if (asker.dialect === 'query' && random.chance(8) && left.type.kind !== 'jsonb') return value(random, left)
  // Now and then one that the type does not have.
  const some = Array.from({ length: random.chance(85) ? 1 : 2 }, () =>
    names.length === 0 || random.chance(2) ? random.pick([...OPERATORS.keys()]) : random.pick(names),
  )
  return Object.fromEntries(
    some.map((name): [string, Json] => {
      used.add(name)
      return [`${prefix}${name}`, orNot(rightSide(random, name, left), asker)]
    }),
  )
}

/** GraphQL takes no null in a condition. */
function orNot(of: Json, { dialect }: Asker): Json {
  if (dialect === 'query') return of
  return Array.isArray(of) ? of.filter((each) => each !== null) : (of ?? 0)
}

/** What may stand on the right of an operator. */
export const rightSide = (random: Random, operator: string, left: Left): Json => {
  const form = operatorOn(operator, left.type) ?? OPERATORS.get(operator)?.[0]
  return RIGHT[form?.right as Right](random, left)
}

/** What to compare with, for each kind of right side; a new kind does not compile until it is here. */
const RIGHT: Record<Right, (random: Random, left: Left) => Json> = {
  same: value,
  part: (random, left) =>
    left.type.kind.endsWith('range') && random.chance(40) ? random.below(9) : value(random, left),
  list: (random, left) =>
    Array.from({ length: random.below(4) }, () => (random.chance(5) ? null : value(random, left))),
  text: (random) => pattern(random),
  pattern: (random) => pattern(random),
  regex: (random) => pattern(random),
  similar: (random) => pattern(random),
  texts: (random) => Array.from({ length: random.below(3) }, () => pattern(random)),
  jsonpath: (random) =>
    random.pick(
      [
        [
          '$.n ? (@ > 1)',
          '$.k',
          '$.n == 1',
          '$.* like_regex "^Sec"',
          '$.n.datetime() < "2020-01-02".datetime()',
          '$[*]',
        ],
        ['strict $.x', '$.n / 0', '$.', '$ like_regex "("'],
      ].flat(),
    ),
  lquery: (random) => lquery(random),
  lqueries: (random) => Array.from({ length: 1 + random.below(2) }, () => lquery(random)),
  ltxtquery: (random) => random.pick(['secret', 'top & a', 'sec*', 'a | (', '!', '', 'SECRET@']),
  search: (random) => {
    const query = random.pick([
      'secret',
      'apple',
      'red apple',
      '"red apple"',
      '-secret',
      'secret or',
      '',
      '"',
      // Too long a word in lower case only, or PostgreSQL would ignore it.
      'Ⱥ'.repeat(1000),
    ])
    if (random.chance(40)) return query
    return { query, language: random.pick(['english', 'simple', 'simple', 'german', 'no_such', '3748', '']) }
  },
  near: (random) => ({ distance: random.pick([1, -1]), from: { type: 'Point', coordinates: [1, 2] } }),
}

/** Mostly of the type. */
function value(random: Random, { name, type }: Left): Json {
  const own = ALL.find((each) => each.name === name && each.type.name === type.name) ?? ALL.find(sameType(type))
  const of = own && random.chance(93) ? own : random.pick(ALL)
  if (of.plain.length === 0) return anyId(random)
  const picked = random.pick(of.odd.length > 0 && random.chance(50) ? of.odd : of.plain)
  return random.chance(2) ? LONG : picked
}
const ALL = Object.values(TABLES).flatMap((table) => table.columns)
const LONG = 'y'.repeat(2000)
const sameType =
  (type: SqlType) =>
  (each: Column): boolean =>
    each.type.name === type.name

/** Patterns that match the beginning of a hidden text and then fail, that never can be read, and that are good. */
function pattern(random: Random): string {
  if (random.chance(45)) return random.pick(SHARP)
  const start = random.pick(['Secret-', 'Secret-', 'secret-', 'Sec%', '', 'ap', 'abc', 'xx', '%', 'S%-_'])
  const digit = start.endsWith('-') ? String(random.below(10)) : ''
  return `${start}${digit}${random.pick(ENDS)}`
}
/** Hardly a text that these do not raise on, once it is looked at. */
const SHARP: readonly string[] = ['%\\', '%\\', 'S%\\', '_%\\', '(', '[a', 'a{2,1}', '(?<=a)b']

const ENDS: readonly string[] = [
  ['', '%', '%', '\\', '\\', '\\', '\\', '\\', '\\\\', '%\\', '_\\', '_%', '\\%', '(', ')', '[', '[a', '[[:x:]]'],
  ['*', '+', '?', '{1,', '{2,1}', '{99999}', '(a)\\2', '(.)\\1', '.*', '|', '(|', '\\y', '\\u12', '$', '(?=a)'],
  ['(?<=a)b', '***='],
].flat()

const lquery = (random: Random): string =>
  random.pick([
    'secret.*',
    '*.a',
    'top.*{1}',
    '*{3,1}',
    'a..b',
    '!top',
    '',
    'secret@',
    'Sec*@*',
    '%',
    'top|secret.*{,70000}',
  ])

/** The operators that some column of the schema has, so that the others can be told. */
export const reachable = (): ReadonlySet<string> =>
  new Set([
    ...ALL.flatMap(({ type }) => operatorsOn(type).map(([name]) => name)),
    ...COLUMN_OPERATORS.keys(),
    'is_null',
    'cast',
  ])
