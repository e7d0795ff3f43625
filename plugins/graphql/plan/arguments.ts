import { type FieldNode, Kind, type ValueNode } from 'graphql'
import {
  AGGREGATE,
  type AggregateFn,
  type AggregateShape,
  and,
  arrayOf,
  at,
  behind,
  type BoolExp,
  camelCase,
  type Bound,
  type Column,
  composedOf,
  type Connection,
  encode,
  type ExpShape,
  INT8,
  isGeo,
  isRelated,
  type Names,
  type Operand,
  type Operands,
  operatorName,
  type OpShape,
  type OrderBy,
  type OrderTarget,
  planBoolExp,
  planCall,
  planOrderTarget,
  planRank,
  readOrderText,
  type SearchShape,
  reversed,
  ServiceError,
  Slots,
  type SortKey,
  sortKeys,
  type SqlType,
  startsWith,
  type Table,
  TEXT,
  TRUE,
  unsortable,
} from 'rowhouse/plan'
import {
  type Args,
  fieldsOf,
  type Input,
  invalid,
  isAbsent,
  isInt,
  isOption,
  isTrue,
  jsonOf,
  jsonParts,
  MISSING,
  NULL,
  ownOf,
  withNumbers,
} from './input.js'
import { scalarIn } from './literal.js'
import {
  AGGREGATE_END,
  aggregateNamed,
  computedAggregateNamed,
  type Dialect,
  enumType,
  isCamel,
  keyOf,
  rankKeys,
  withWords,
  wordOf,
} from './names.js'
import { fingerprint, readOpaque, type Said } from './opaque.js'

/** The arguments of a field that returns a list of rows. */
interface Rows {
  readonly where: BoolExp
  readonly distinctOn?: readonly string[]
  readonly orderBy: readonly OrderBy[]
  readonly limit?: Operand
  readonly offset?: Operand
}

/** The arguments of a connection. */
type Page = Pick<Connection, 'where' | 'orderBy' | 'limit' | 'isLast' | 'cursor' | 'distinct' | 'outside'>

/** A condition, or a value of which the part `where` is one. */
type InputKind = 'condition' | 'holder'
const ARGUMENTS: Readonly<Record<string, InputKind | undefined>> = Object.assign(Object.create(null), {
  where: 'condition',
  updates: 'holder',
  on_conflict: 'holder',
} satisfies Record<string, InputKind>)

/** Reads the arguments of fields, with their variables replaced, and plans them. */
export class Arguments {
  /** Values in the document itself. Slot -1 is the first of them. */
  private readonly literals: Input[] = []
  private readonly isCamel: boolean
  /** Enforces the limits on conditions. */
  private readonly size = new Slots()

  constructor(
    private readonly names: Names,
    private readonly dialect: Dialect,
    private readonly variables: Args,
  ) {
    this.isCamel = isCamel(names, dialect)
  }

  of({ arguments: args }: FieldNode): Args {
    const result: Record<string, Input> = Object.create(null)
    for (const { name, value } of args ?? []) {
      const input = this.input(value, ARGUMENTS[wordOf(name.value)])
      if (input) result[name.value] = input
    }
    return withWords(result)
  }

  /** Returns a word of the schema as the client writes it. */
  word(word: string): string {
    return this.isCamel ? camelCase(word) : word
  }

  private get aggregateEnd(): string {
    return this.isCamel ? AGGREGATE_END : AGGREGATE
  }

  /**
   * Returns a value of the document with its variables replaced; undefined for an absent variable.
   * @param kind in a condition an absent variable is null: it must not widen it
   * @param isArgument whether it is the argument of an operator
   */
  input(node: ValueNode | undefined, kind?: InputKind, isArgument = false): Input | undefined {
    if (!node) return undefined
    switch (node.kind) {
      case Kind.VARIABLE: {
        const given = ownOf(this.variables, node.name.value)
        return given && withNumbers(given)
      }
      case Kind.LIST:
        return {
          kind: 'list',
          of: node.values.map((each) => this.input(each, kind, isArgument) ?? (kind === 'condition' ? MISSING : NULL)),
        }
      case Kind.OBJECT: {
        const keys = node.fields.map(({ name }) => name.value)
        const fields = node.fields.flatMap(({ name, value }) => {
          const isOperator = operatorName(wordOf(name.value)) !== undefined
          const within = kind === 'holder' ? ARGUMENTS[wordOf(name.value)] : kind
          const isNull = isOperator || (kind === 'condition' && !isOption(name.value, keys, isArgument))
          const input = this.input(value, within, isOperator) ?? (isNull ? MISSING : undefined)
          return input ? [[name.value, input] as const] : []
        })
        return { kind: 'object', fields: Object.fromEntries(fields) }
      }
      case Kind.NULL:
      case Kind.INT:
      case Kind.FLOAT:
      case Kind.STRING:
      case Kind.BOOLEAN:
      case Kind.ENUM:
        return withNumbers(scalarIn(node))
    }
  }

  rows(args: Args, table: Table, path: string): Rows {
    const distinctPath = `${path}.args.${this.word('distinct_on')}`
    const distinctOn = this.distinct(args['distinct_on'], table, distinctPath)
    const orderBy = this.orderBy(args['order_by'], table, `${path}.args.${this.word('order_by')}`)
    if (!startsWith(orderBy, distinctOn)) {
      throw invalid('the columns of distinct_on must come first in order_by', distinctPath)
    }
    const limit = this.count(args['limit'], `${path}.args.limit`)
    const offset = this.count(args['offset'], `${path}.args.offset`)
    const where = this.where(args['where'], table, `${path}.args.where`)
    return { where, orderBy, distinctOn: distinctOn.length > 0 ? distinctOn : undefined, limit, offset }
  }

  /**
   * Plans the arguments of a stream.
   * @param after slot of the value of the cursor that continues it
   */
  stream(args: Args, table: Table, path: string, after: number | undefined): Rows & { readonly column: Column } {
    const here = `${path}.args.cursor`
    const [cursor, ...others] = this.elements(args['cursor'], here)
    if (!cursor || others.length > 0) throw invalid('expecting one cursor', here)
    const { initial_value: initial, ordering } = withWords(objectOf(cursor, here))
    const [[name, from] = [], ...more] = Object.entries(fieldsOf(initial))
    if (name === undefined || !from || more.length > 0) throw invalid('expecting one column', `${here}.initial_value`)
    const valuePath = at(`${here}.initial_value`, name)
    const column = this.names.column(table, name, 'select', valuePath)
    const { name: by, type } = column
    const isDown = ordering?.kind === 'enum' && ordering.name === 'DESC'
    const input: Input = after === undefined ? from : { kind: 'slot', slot: after }
    const beyond: BoolExp = isAbsent(input)
      ? { kind: 'not', of: { kind: 'null', column: by } }
      : { kind: 'compare', column: by, op: isDown ? 'lt' : 'gt', to: this.operand(input, type, valuePath) }
    return {
      column,
      where: and([this.where(args['where'], table, `${path}.args.where`), beyond]),
      orderBy: [{ by: { kind: 'column', column: by }, direction: isDown ? 'desc' : 'asc' }],
      limit: this.count(args['batch_size'], `${path}.args.${this.word('batch_size')}`),
    }
  }

  /** Plans the arguments of a connection. */
  page(args: Args, table: Table, path: string): Page {
    const given = (name: string) => (isAbsent(args[name]) ? undefined : args[name])
    const [first, last, after, before] = ['first', 'last', 'after', 'before'].map(given)
    if (first && last) throw invalid('"first" and "last" cannot be used together', path)
    if (after && before) throw invalid('"after" and "before" cannot be used together', path)
    const { where, orderBy, distinctOn } = this.rows(args, table, path)
    // The order must start with the columns of distinct_on, not with the primary key.
    const sorted =
      orderBy.length > 0 ? orderBy : (distinctOn ?? []).map((column): OrderBy => ({ by: { kind: 'column', column } }))
    const keys = sortKeys(sorted, table.primaryKey, table, this.names)
    const geo = keys.find(({ type }) => isGeo(type))
    if (geo) throw invalid(`a cursor cannot continue an order by type ${geo.type.name}`, `${path}.args.order_by`)
    if (keys.length > MAX_KEYS)
      throw invalid(`rows may be sorted by at most ${MAX_KEYS} columns`, `${path}.args.order_by`)
    const order = fingerprint(table, keys)
    const start = after && this.bounds(after, keys, order, `${path}.args.after`)
    const end = before && this.bounds(before, keys, order, `${path}.args.before`)
    const beyond = start ? behind(start) : end ? behind(reversed(end)) : TRUE
    const values = keys.map(({ by, type }) => ({ by, asText: isJson(type) || undefined }))
    return {
      where: and([where, beyond]),
      orderBy: last ? reversed(keys) : keys,
      limit: this.count(first ?? last, `${path}.args.${first ? 'first' : 'last'}`),
      isLast: last !== undefined,
      cursor: [{ kind: 'const', value: order, type: TEXT }, ...values],
      distinct: distinctOn && { where, orderBy: keys, distinctOn, key: table.primaryKey },
      outside: {
        previous: start && and([where, behind(reversed(start), true)]),
        next: end && and([where, behind(end, true)]),
      },
    }
  }

  /** Reads a cursor. Returns undefined for that of an empty page. */
  private bounds(input: Input, keys: readonly SortKey[], order: string, path: string): readonly Bound[] | undefined {
    const said = this.said(input)
    if (said?.names.length === 0) return undefined
    if (said?.names.length !== 1 || said.names[0] !== order || said.values.length !== keys.length) {
      throw invalid('invalid cursor: it is damaged, or it belongs to another list or order', path)
    }
    return keys.map((key, i) => {
      const type: SqlType = isJson(key.type) ? { ...key.type, kind: 'other' } : key.type
      return { ...key, to: said.values[i]?.(type, path) }
    })
  }

  /** Returns what a global id or a cursor says, with functions that return its values as operands, or undefined for null. */
  said(input: Input | undefined): Said<(type: SqlType, path: string) => Operand | undefined> | undefined {
    if (input?.kind === 'slot' && input.said) {
      const values = input.said.values.map(
        (slot) => (type: SqlType, path: string) =>
          slot === null ? undefined : ({ kind: 'value', slot, type, path } as const),
      )
      return { ...input.said, values }
    }
    const literal = input?.kind === 'literal' && typeof input.value === 'string' ? readOpaque(input.value) : undefined
    const values = literal?.values.map(
      (value) => (type: SqlType, path: string) =>
        value === null ? undefined : ({ kind: 'const', value: encode(value, type, path), type, path } as const),
    )
    return literal && values && { ...literal, values }
  }

  private count(input: Input | undefined, path: string): Operand | undefined {
    if (isAbsent(input)) return undefined
    if (input.kind === 'slot') return { kind: 'value', slot: input.slot, type: INT8, path }
    const value = jsonOf(input, path)
    if (!isInt(value) || Number(value) < 0) throw invalid('expecting a non-negative integer', path)
    return { kind: 'const', value: encode(value, INT8, path), type: INT8 }
  }

  byKey(args: Args, table: Table, path: string): BoolExp {
    const of = table.primaryKey.map((name): BoolExp => {
      const { naming } = this.names
      const type = enumType((table.columnsByName.get(name) as Column).type, naming)
      const key = keyOf(table, name, naming)
      return { kind: 'compare', column: name, op: 'eq', to: this.operand(args[key], type, `${path}.args.${key}`) }
    })
    return { kind: 'and', of }
  }

  /** Returns a value of a column's type. @throws ServiceError 400 for a null or absent value */
  operand(input: Input | undefined, type: SqlType, path: string): Operand {
    if (isAbsent(input)) throw invalid(`unexpected null value for type ${type.name}`, path)
    if (input.kind === 'slot') return { kind: 'value', slot: input.slot, type, path }
    const parts = jsonParts(input, path)
    if (parts.some((part) => typeof part === 'number')) return { kind: 'composed', parts, type, path }
    return { kind: 'const', value: encode(composedOf(parts, []), type, path), type, path }
  }

  where(input: Input | undefined, table: Table, path: string): BoolExp {
    if (isAbsent(input)) return TRUE
    return planBoolExp(this.exp(input, path, 1), table, this.names, path, this.operands)
  }

  private readonly operands: Operands = {
    one: (slot, type, path) =>
      slot >= 0 ? { kind: 'value', slot, type, path } : this.operand(this.literals[-1 - slot], type, path),
    list: (slot, type, path) => {
      const list: Input =
        slot >= 0 ? { kind: 'slot', slot } : { kind: 'list', of: this.elements(this.literals[-1 - slot]) }
      return { list: this.operand(list, arrayOf(type, path), path), ones: [] }
    },
  }

  private exp(input: Input, path: string, depth: number): ExpShape {
    this.size.visit(depth, path)
    const all = Object.entries(objectOf(input, path)).map(([key, value]): Entry => {
      const here = at(path, key)
      switch (key) {
        case '_and':
        case '_or': {
          const of = this.elements(value, here).map((part, i) => this.exp(part, at(here, i), depth + 1))
          return { key, any: key === '_or', of }
        }
        case '_not':
          return { key, not: this.exp(value, here, depth + 1) }
      }
      const fields = objectOf(value, here, `unexpected ${value.kind} value`)
      const aggregates = this.aggregates(key, fields, here, depth)
      if (aggregates) return { name: `${key.slice(0, -this.aggregateEnd.length)}${AGGREGATE}`, aggregates }
      const operators = Object.keys(fields)
      const compares = operators.length > 0 && operators.every((name) => operatorName(wordOf(name)))
      return { name: key, is: compares ? this.operators(fields, here) : this.exp(value, here, depth + 1) }
    })
    return { all }
  }

  /** `articles_aggregate: {count: {predicate: {_gt: 3}, filter: {...}, arguments: [id], distinct: true}}` */
  private aggregates(key: string, fields: Args, path: string, depth: number): readonly AggregateShape[] | undefined {
    const functions = Object.entries(fields)
    const fits = functions.every(([name, input]) => FUNCTIONS.has(name) && fieldsOf(input)['predicate'])
    if (!key.endsWith(this.aggregateEnd) || functions.length === 0 || !fits) return undefined
    return functions.map(([name, input]) => {
      const here = at(path, name)
      const { predicate, filter, distinct, arguments: columns } = fieldsOf(input)
      return {
        fn: name as AggregateShape['fn'],
        columns: this.enums(columns),
        distinct: isTrue(distinct),
        predicate: this.operators(fieldsOf(predicate), `${here}.predicate`),
        filter: isAbsent(filter) ? undefined : this.exp(filter, `${here}.filter`, depth + 1),
      }
    })
  }

  private operators(fields: Args, path: string): OpShape[] {
    return Object.entries(fields).map(([name, to]) => {
      const key = wordOf(name)
      return { key, to: this.operator(key, to, at(path, name)) }
    })
  }

  private operator(name: string, input: Input, path: string): OpShape['to'] {
    // If a missing variable removed a comparison, a delete could affect the whole table.
    if (input.kind === 'null') throw invalid('unexpected null value; use _is_null to find null', path)
    if (name === '_st_d_within' || name === '_st_3d_d_within') return this.near(input, path)
    if (name === '_matches' && input.kind === 'object') return this.search(input, path)
    if (name === '_cast') return this.cast(input, path)
    if (name === '_is_null') {
      if (input.kind === 'literal' && typeof input.value === 'boolean') return input.value
      throw invalid('expecting a boolean', path)
    }
    const slot = this.slot(input)
    return LIST_OPERATORS.has(name) ? { list: slot, nulls: false } : slot
  }

  private slot(input: Input): number {
    return input.kind === 'slot' ? input.slot : -this.literals.push(input)
  }

  private cast(input: Input, path: string): OpShape['to'] {
    const types = objectOf(input, path)
    // A missing variable would remove the condition.
    if (Object.keys(types).length === 0) throw invalid('expecting a type and its operators', path)
    const casts = Object.entries(types).map(([as, value]) => {
      const here = at(path, as)
      const operators = objectOf(value, here)
      if (Object.keys(operators).length === 0) throw invalid('expecting an operator', here)
      return { as, operators: this.operators(operators, here) }
    })
    return { casts }
  }

  private near(input: Input, path: string): OpShape['to'] {
    const { distance, from, use_spheroid: spheroid } = fieldsOf(input)
    const slot = (key: string, value: Input | undefined) => {
      if (isAbsent(value)) throw invalid(`the field "${key}" is missing`, path)
      return this.slot(value)
    }
    return {
      distance: slot('distance', distance),
      from: slot('from', from),
      ...(isAbsent(spheroid) ? {} : { spheroid: this.slot(spheroid) }),
    }
  }

  private search(input: Input, path: string): SearchShape {
    const { query, language, ...rest } = fieldsOf(input)
    const [unknown] = Object.keys(rest)
    if (unknown !== undefined) throw invalid(`field "${unknown}" is not in a full-text query`, at(path, unknown))
    if (isAbsent(query)) throw invalid('the field "query" is missing', path)
    return { query: this.slot(query), ...(isAbsent(language) ? {} : { language: this.slot(language) }) }
  }

  private elements(input: Input | undefined, path = '$'): readonly Input[] {
    if (!input) return []
    if (input.kind === 'null') throw invalid('unexpected null value', path)
    return input.kind === 'list' ? input.of : [input]
  }

  private orderBy(input: Input | undefined, table: Table, path: string): readonly OrderBy[] {
    if (isAbsent(input)) return []
    return this.elements(input).flatMap((each, i) => {
      const here = at(path, i)
      if (this.dialect !== 'alpha') return this.orderObject(each, table, (by) => by, here)
      if (each.kind === 'null') return []
      const text = each.kind === 'literal' && typeof each.value === 'string' ? readOrderText(each.value) : undefined
      if (!text) throw invalid('an entry of order_by is a column: "+name", "-name" or "name"', here)
      return [{ by: this.orderTarget(text.path, table, here), direction: text.direction }]
    })
  }

  /** Reports a wrong name in the text with the same code as one in the document. */
  private orderTarget(names: readonly string[], table: Table, path: string): OrderTarget {
    try {
      return planOrderTarget(names, table, this.names, path)
    } catch (error) {
      throw error instanceof ServiceError ? invalid(error.message, error.path) : error
    }
  }

  /** Reads `{name: asc, author: {name: desc}, articles_aggregate: {count: desc}}`. */
  private orderObject(input: Input, table: Table, wrap: (by: OrderTarget) => OrderTarget, path: string): OrderBy[] {
    if (input.kind === 'null') return []
    return Object.entries(objectOf(input, path)).flatMap(([name, value]): OrderBy[] => {
      const here = at(path, name)
      if (value.kind === 'null') return []
      const aggregated = this.dialect !== 'alpha' ? aggregateNamed(name, table, this.names) : undefined
      if (aggregated) {
        const { on, table: ref } = aggregated.relationship
        return this.orderAggregate(value, aggregated.table, { table: ref, on }, wrap, here)
      }
      const computed = this.dialect !== 'alpha' ? computedAggregateNamed(name, table, this.names) : undefined
      if (computed) {
        const from = planCall(computed.function, computed.arguments, here)
        const remote = this.names.table(computed.gives.table, 'select', here)
        const rows = { table: computed.gives.table, on: [], from, computed: computed.name }
        return this.orderAggregate(value, remote, rows, wrap, here)
      }
      const ranked = rankKeys(table, this.names).get(name)
      if (ranked !== undefined) return [this.orderRank(value, ranked, table, wrap, here)]
      const found = this.names.columnOrRelationship(table, name, here)
      if (!isRelated(found))
        return [{ by: wrap(planOrderTarget([name], table, this.names, here)), ...direction(value, here) }]
      const { relationship, table: remote } = found
      const { table: ref, on } = relationship
      return this.orderObject(value, remote, (by) => wrap({ kind: 'related', table: ref, on, where: TRUE, by }), here)
    })
  }

  /** Reads `{query: "red shoe", language: "english", order: asc}`. */
  private orderRank(
    input: Input,
    column: string,
    table: Table,
    wrap: (by: OrderTarget) => OrderTarget,
    path: string,
  ): OrderBy {
    const { order, ...search } = objectOf(input, path)
    const shape = this.search({ kind: 'object', fields: search }, path)
    const by = planRank(column, shape, table, this.names, path, this.operands.one)
    const way = isAbsent(order) ? ({ direction: 'desc', nulls: 'last' } as const) : direction(order, `${path}.order`)
    return { by: wrap(by), ...way }
  }

  private orderAggregate(
    input: Input,
    table: Table,
    rows: Pick<AggregateTarget, 'table' | 'on' | 'from' | 'computed'>,
    wrap: (by: OrderTarget) => OrderTarget,
    path: string,
  ): OrderBy[] {
    return Object.entries(objectOf(input, path)).flatMap(([fn, value]): OrderBy[] => {
      const here = at(path, fn)
      const by = (of: AggregateTarget['of']): OrderTarget => wrap({ kind: 'aggregate', ...rows, where: TRUE, of })
      if (value.kind === 'null') return []
      if (fn === 'count') return [{ by: by({ fn: 'count' }), ...direction(value, here) }]
      return Object.entries(objectOf(value, here)).map(([column, order]) => {
        const { name } = this.names.column(table, column, 'select', at(here, column))
        return { by: by({ fn: wordOf(fn) as AggregateFn, column: name }), ...direction(order, at(here, column)) }
      })
    })
  }

  /** Converts a list of GraphQL names to names of columns. */
  columns(input: Input | undefined, table: Table, path: string, action: 'select' | 'update' = 'select'): string[] {
    return this.enums(input).map((name) => this.names.column(table, name, action, path).name)
  }

  /** Converts a list of names of columns whose values must be comparable. */
  distinct(input: Input | undefined, table: Table, path: string): string[] {
    const columns = this.columns(input, table, path)
    for (const name of columns) {
      const column = table.columnsByName.get(name)
      const reason = column && unsortable(column)
      if (reason !== undefined) throw invalid(reason, path)
    }
    return columns
  }

  enums(input: Input | undefined): string[] {
    if (isAbsent(input)) return []
    return this.elements(input).flatMap((each) => {
      if (each.kind === 'enum') return [each.name]
      return each.kind === 'literal' && typeof each.value === 'string' ? [each.value] : []
    })
  }
}

type AggregateTarget = Extract<OrderTarget, { kind: 'aggregate' }>
/** Maximum number of values in a cursor. */
const MAX_KEYS = 90

/** JSON cannot tell `null` of such a type from a missing value, so a cursor holds its text. */
const isJson = ({ kind }: SqlType): boolean => kind === 'json' || kind === 'jsonb'

type Entry = Extract<ExpShape, { all: unknown }>['all'][number]

const FUNCTIONS = new Set(['count', 'bool_and', 'bool_or'])
const LIST_OPERATORS = new Set(['_in', '_nin', '_ancestor_any', '_descendant_any'])

function objectOf(input: Input, path: string, message = 'expecting an object'): Args {
  if (input.kind === 'object') return input.fields
  throw invalid(message, path)
}

function direction(input: Input, path: string): Pick<OrderBy, 'direction' | 'nulls'> {
  if (input.kind !== 'enum') throw invalid('expecting a direction', path)
  const [order, , nulls] = input.name.toLowerCase().split('_')
  return { direction: order as 'asc' | 'desc', nulls: nulls as 'first' | 'last' | undefined }
}
