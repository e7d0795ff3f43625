import type { Exp, Model, Permissions, Relation, Row, TableModel, Value } from './model.js'
import type { Groups, GroupValue, Nested, Select } from './requests.js'

/** Numbers from a seed: the same case again for the same seed (mulberry32). */
export class Random {
  private state: number

  constructor(seed: number) {
    this.state = seed >>> 0
  }

  /** A whole number below `n`. */
  below(n: number): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0
    let t = this.state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) % n
  }
  chance(percent: number): boolean {
    return this.below(100) < percent
  }
  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T
  }
  some<T>(from: readonly T[], percent: number): T[] {
    return from.filter(() => this.chance(percent))
  }
}

export const COLUMNS = ['id', 'n', 'b', 's', 'ref'] as const
export const ROLES = ['red', 'blue', 'green'] as const
/** Roles that inherit from others; each after those that it inherits from. */
export const INHERITED: Readonly<Record<string, readonly string[]>> = {
  amber: ['red', 'blue'],
  violet: ['green', 'amber'],
  brown: ['amber'],
}
export const ALL_ROLES = [...ROLES, ...Object.keys(INHERITED)]
const INTS = ['id', 'n', 'ref']
const USER_ID = 'X-Service-User-Id'

/** Tables that refer to each other in a ring, the first one also to itself, with rows and permissions. */
export function generateModel(random: Random): Model {
  const names = Array.from({ length: 2 + random.below(3) }, (_, i) => `t${i}`)
  const relations = new Map<string, Record<string, Relation>>(names.map((name) => [name, {}]))
  names.forEach((name, i) => {
    const target = i === 0 && random.chance(50) ? name : (names[(i + 1) % names.length] as string)
    ;(relations.get(name) as Record<string, Relation>)['up'] = {
      single: true,
      table: target,
      local: 'ref',
      remote: 'id',
    }
    ;(relations.get(target) as Record<string, Relation>)[`down_${name}`] = {
      single: false,
      table: name,
      local: 'id',
      remote: 'ref',
    }
  })
  const bare = Object.fromEntries(names.map((name) => [name, { relations: relations.get(name) }])) as Model
  return Object.fromEntries(
    names.map((name): [string, TableModel] => {
      const table = { name, relations: relations.get(name) as Record<string, Relation> }
      const make = () => generatePermissions(random, bare, name)
      const [red, blue, green] = [make(), make(), make()]
      // Roles inherit a permission to write only if those of their parts agree.
      for (const type of random.some(WRITES, 40)) if (red[type]) Object.assign(blue, { [type]: red[type] })
      const permissions = withInherited(random, { red, blue, green }, make)
      const rows = Array.from({ length: 5 + random.below(5) }, (_, i) => generateRow(random, i + 1))
      return [name, { ...table, permissions, rows }]
    }),
  )
}

const WRITES = ['insert', 'update', 'delete'] as const

/** Adds the permissions of inherited roles. They have their own where their parts disagree, and now and then elsewhere. */
function withInherited(
  random: Random,
  base: Readonly<Record<string, Permissions>>,
  make: () => Permissions,
): TableModel['permissions'] {
  const all: Record<string, Permissions> = { ...base }
  /** Own permissions that each role has an action from. */
  const sources = Object.fromEntries(Object.entries(base).map(([role, own]) => [role, sourcesOf(own)]))
  for (const [role, parts] of Object.entries(INHERITED)) {
    const own: Permissions = {}
    const from: Sources = { insert: [], select: [], update: [], delete: [] }
    const decide = (type: keyof Sources): void => {
      const inherited = [...new Set(parts.flatMap((part) => sources[part]?.[type] ?? []))]
      const differ = type !== 'select' && new Set(inherited.map((each) => JSON.stringify(each))).size > 1
      for (let tries = 0; tries < 50 && (differ || random.chance(10)) && !own[type]; tries++) {
        const made = make()[type]
        if (made) Object.assign(own, { [type]: made })
      }
      from[type] = own[type] ? [own[type]] : differ ? [] : inherited
    }
    decide('select')
    WRITES.forEach(decide)
    const selects = from.select as NonNullable<Permissions['select']>[]
    const isSame = (part: string) => JSON.stringify(all[part]?.select) === JSON.stringify(united(selects))
    const seenOnly = (['update', 'delete'] as const).filter((type) => {
      if (own[type]) return !own.select && selects.length > 0
      if (from[type].length === 0) return false
      const giver = parts.find((part) => all[part]?.[type] && isSame(part))
      return giver === undefined || all[giver]?.seenOnly?.includes(type)
    })
    all[role] = {
      ...Object.fromEntries(WRITES.flatMap((type) => (from[type][0] ? [[type, from[type][0]]] : []))),
      ...(selects.length > 0 ? { select: united(selects) } : {}),
      ...(seenOnly.length > 0 ? { seenOnly } : {}),
      own,
    }
    sources[role] = from
  }
  return all
}

type Sources = Record<'select' | (typeof WRITES)[number], object[]>
const sourcesOf = ({ insert, select, update, delete: remove }: Permissions): Sources => {
  const list = (each: object | undefined) => (each ? [each] : [])
  return { insert: list(insert), select: list(select), update: list(update), delete: list(remove) }
}

function united(parts: readonly NonNullable<Permissions['select']>[]): Permissions['select'] {
  if (parts.length < 2) return parts[0]
  const limits = parts.flatMap(({ limit }) => limit ?? [])
  const isLimited = limits.length === parts.length
  return {
    columns: [...new Set(parts.flatMap(({ columns }) => columns))],
    filter: { $or: parts.map(({ filter }) => filter) },
    ...(isLimited ? { limit: Math.max(...limits) } : {}),
    allow_aggregations: parts.every((part) => part.allow_aggregations),
    parts,
  }
}

export function generateRow(random: Random, id: number): Row {
  const maybe = (make: () => Value): Value => (random.chance(25) ? null : make())
  return {
    id,
    n: maybe(() => random.below(6)),
    b: maybe(() => random.chance(50)),
    s: maybe(() => random.pick(['', 'a', 'B', 'b', 'ab'])),
    ref: maybe(() => 1 + random.below(9)),
  }
}

function generatePermissions(random: Random, model: Model, table: string): Permissions {
  const exp = (): Exp => (random.chance(20) ? {} : generateExp(random, model, table, 3, true))
  const preset = random.chance(30)
  const others = ['n', 'b', 's', 'ref']
  return {
    ...(random.chance(90)
      ? {
          select: {
            columns: ['id', ...random.some(others, 75)],
            filter: exp(),
            ...(random.chance(20) ? { limit: 1 + random.below(5) } : {}),
            allow_aggregations: random.chance(70),
          },
        }
      : {}),
    ...(random.chance(70)
      ? {
          insert: {
            columns: ['id', ...random.some(preset ? ['b', 's', 'ref'] : others, 85)],
            check: exp(),
            allow_upsert: random.chance(40),
            set: preset ? { n: random.chance(50) ? USER_ID : random.below(6) } : {},
          },
        }
      : {}),
    ...(random.chance(70)
      ? { update: { columns: random.some(others, 80), filter: exp(), ...(random.chance(50) ? { check: exp() } : {}) } }
      : {}),
    ...(random.chance(70) ? { delete: { filter: exp() } } : {}),
  }
}

/** @param trusted in a permission: session variables may stand for integers */
export function generateExp(
  random: Random,
  model: Model,
  table: string,
  depth: number,
  trusted: boolean,
  columns: readonly string[] = COLUMNS,
  /** Columns of the row that the whole condition is about. */
  root = columns,
): Exp {
  const again = (name = table, inner = columns) => generateExp(random, model, name, depth - 1, trusted, inner, root)
  const kind = random.below(depth > 0 ? 10 : 4)
  if (kind === 4 || kind === 5)
    return { [random.pick(['$and', '$or'])]: Array.from({ length: random.below(3) }, () => again()) }
  if (kind === 6) return { $not: again() }
  if (kind > 6) {
    const [name, relation] = random.pick(Object.entries(model[table]?.relations ?? {}))
    return { [name]: random.chance(20) ? {} : again(relation.table, COLUMNS) }
  }
  const column = random.pick(columns)
  if (INTS.includes(column) && random.chance(15)) {
    const operator = random.pick(['$ceq', '$cne', '$cgt', '$clt', '$cgte', '$clte'])
    const other = random.pick(INTS)
    const outer = INTS.filter((each) => root.includes(each))
    const to = random.pick([other, [other], ['$', random.pick(outer.length > 0 ? outer : INTS)]])
    return { [column]: { [operator]: to } }
  }
  if (random.chance(15)) return { [column]: { $is_null: random.chance(50) } }
  const value = (): Value => {
    if (random.chance(10)) return null
    if (trusted && INTS.includes(column) && random.chance(30)) return USER_ID
    return generateRow(random, 1 + random.below(9))[column] as Value
  }
  if (random.chance(20))
    return { [column]: { [random.pick(['$in', '$nin'])]: Array.from({ length: random.below(4) }, value) } }
  if (random.chance(20)) return { [column]: value() }
  return { [column]: { [random.pick(COMPARISONS)]: value() } }
}

const COMPARISONS = ['$eq', '$ne', '$gt', '$lt', '$gte', '$lte', '$is_distinct', '$is_not_distinct']

/** Columns that a role mostly may use; now and then others too. */
export function usable(random: Random, table: TableModel | undefined, role: string): readonly string[] {
  const permitted = role === 'admin' ? COLUMNS : (table?.permissions[role]?.select?.columns ?? COLUMNS)
  return random.chance(93) ? permitted : COLUMNS
}

export function generateSelect(random: Random, model: Model, table: TableModel, role: string): Select {
  const order = generateOrder(random, model, table, role)
  const first = (order[0] as string).slice(1)
  return {
    ...generateRead(random, model, table, role, 2),
    table: table.name,
    ...(random.chance(18) && !first.includes('.') ? generateStart(random, order) : {}),
    order_by: order,
  }
}

/** The first row of each value, or the rows behind one. */
function generateStart(random: Random, order: readonly string[]): Pick<Select, 'distinct_on' | 'after'> {
  const columns = order.map((each) => each.slice(1))
  if (random.chance(40)) return { distinct_on: columns.slice(0, 1) }
  const row = generateRow(random, random.below(9))
  return { after: random.chance(15) ? {} : Object.fromEntries(columns.map((column) => [column, row[column] as Value])) }
}

/** Groups in a total order: that of all their columns. */
export function generateGroups(random: Random, model: Model, table: TableModel, role: string): Groups {
  const columns = usable(random, table, role)
  const by = random.some(columns, 40)
  const values = FUNCTIONS.flatMap(({ fn, of }): GroupValue[] => {
    const column = fn === 'count' && random.chance(60) ? '*' : random.pick(of.filter((name) => columns.includes(name)))
    if (column === undefined || random.chance(50)) return []
    return [{ [fn]: column, as: fn, ...(column !== '*' && random.chance(30) ? { distinct: true } : {}) }]
  })
  const counts = values.some(({ as }) => as === 'count')
  const shown = by.length === 0 && values.length === 0 ? [{ count: '*', as: 'count' } as GroupValue] : values
  return {
    table: table.name,
    columns: [...random.some(by, 80), ...shown],
    ...(by.length > 0 ? { group_by: by } : {}),
    ...(random.chance(70) ? { where: generateExp(random, model, table.name, 2, false, columns) } : {}),
    ...(counts && random.chance(50) ? { having: { count: { $gte: 1 + random.below(3) } } } : {}),
    ...(by.length > 0 ? { order_by: by.map((column) => `${random.pick(['+', '-'])}${column}`) } : {}),
    ...(random.chance(20) ? { limit: random.below(6) } : {}),
  }
}
const FUNCTIONS = [
  { fn: 'count', of: COLUMNS },
  { fn: 'sum', of: INTS },
  { fn: 'min', of: [...INTS, 's'] },
  { fn: 'max', of: [...INTS, 's'] },
  { fn: 'array_agg', of: COLUMNS },
] as const

function generateRead(
  random: Random,
  model: Model,
  table: TableModel,
  role: string,
  depth: number,
): Omit<Select, 'table' | 'order_by'> {
  const columns = usable(random, table, role)
  const nested = depth > 0 && random.chance(60) ? random.some(Object.keys(table.relations), 50) : []
  return {
    columns: [
      'id',
      ...random.some(
        columns.filter((column) => column !== 'id'),
        60,
      ),
      ...nested.map((name) => generateNested(random, model, table, name, role, depth - 1)),
    ],
    ...(random.chance(70) ? { where: generateExp(random, model, table.name, 2, false, columns) } : {}),
    ...(random.chance(30) ? { limit: random.below(6) } : {}),
    ...(random.chance(20) ? { offset: random.below(3) } : {}),
  }
}

function generateNested(
  random: Random,
  model: Model,
  table: TableModel,
  name: string,
  role: string,
  depth: number,
): Nested {
  const relation = table.relations[name] as Relation
  const remote = model[relation.table] as TableModel
  const read = generateRead(random, model, remote, role, depth)
  return relation.single
    ? { name, columns: read.columns }
    : { ...read, name, order_by: generateOrder(random, model, remote, role) }
}

/** Always total: it ends with the key. */
function generateOrder(random: Random, model: Model, table: TableModel, role: string): readonly string[] {
  const sign = random.pick(['+', '-'])
  const first = random.chance(30)
    ? [`${sign}up.${random.pick(usable(random, model[(table.relations['up'] as Relation).table], role))}`]
    : random.chance(50)
      ? [`${sign}${random.pick(usable(random, table, role))}`]
      : []
  return [...first, '+id']
}
