import {
  type FieldNode,
  type FragmentDefinitionNode,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql'
import {
  type AggregateFn,
  type AggregatePart,
  type AggregateShape,
  arrayOf,
  at,
  type BoolExp,
  type Column,
  columnField,
  type Computed,
  type ComputedColumn,
  encode,
  encodeArray,
  type ExpShape,
  type Field,
  type FunctionArgument,
  type FunctionCall,
  INT8,
  isRelated,
  type Join,
  type Json,
  type Names,
  NumberText,
  type Operand,
  type Operands,
  operatorName,
  type OpShape,
  type OrderBy,
  planCall,
  type OrderTarget,
  planBoolExp,
  planOrderTarget,
  readOrderText,
  ServiceError,
  Slots,
  type Related,
  type Roots,
  type SqlType,
  type Table,
  type TableRef,
  TEXT,
  TRUE,
} from 'rowhouse/plan'
import { type Dialect, exposed, type RootField } from './exposed.js'
import { type Input, invalid, ownOf } from './input.js'
import { readJsonPath } from './json-path.js'
import { isColumn, keyOf } from './names.js'

export interface WalkOptions {
  readonly names: Names
  readonly dialect: Dialect
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>
  readonly variables: Readonly<Record<string, Input>>
  /** Of the estimate: a field of a row counts 1, a list without a limit 100 rows. */
  readonly maxCost: number
  /** bigint and numeric are shown as text. */
  readonly digitsAsText: boolean
}

/** Rows, their order and how many: what a list field's arguments say. */
export interface Rows {
  readonly where: BoolExp
  readonly distinctOn?: readonly string[]
  readonly orderBy: readonly OrderBy[]
  readonly limit?: Operand
  readonly offset?: Operand
}

/**
 * Turns a valid document into a plan. The rules of the language have been checked before; here names get their meaning,
 * arguments become conditions, and what the language leaves open is refused.
 */
export class Walker {
  readonly names: Names
  readonly dialect: Dialect
  private readonly options: WalkOptions
  /** Values in the document itself: slot -1 is the first of them. */
  private readonly literals: Input[] = []
  private cost = 0
  /** Counts the parts of conditions, as for every other front end. */
  private readonly size = new Slots()

  constructor(options: WalkOptions) {
    this.options = options
    this.names = options.names
    this.dialect = options.dialect
  }

  /** All root fields of a query as one read. Introspection is answered elsewhere. */
  query(operation: OperationDefinitionNode): Roots {
    const { query } = exposed(this.names, this.dialect)
    const fields: Field[] = []
    for (const [key, nodes] of this.collect([operation.selectionSet])) {
      const [node] = nodes as [FieldNode]
      const path = at('$.selectionSet', key)
      const name = node.name.value
      if (name === '__typename') fields.push({ kind: 'constant', key, value: 'query_root' })
      if (name.startsWith('__')) continue
      if (name === '_empty' && query.size === 0) {
        fields.push({ kind: 'constant', key, value: '' })
        continue
      }
      const root = query.get(name)
      if (!root) throw invalid(`field "${name}" is not in type query_root`, path)
      fields.push(this.root(key, root, nodes, path))
    }
    return { kind: 'roots', fields }
  }

  /** A mutation that calls a function. */
  called(key: string, nodes: readonly FieldNode[], root: RootField): Roots {
    return { kind: 'roots', fields: [this.root(key, root, nodes, at('$.selectionSet', key))] }
  }

  private root(key: string, { action, table, call }: RootField, nodes: readonly FieldNode[], path: string): Field {
    if (!call) return this.list(key, action, nodes, table, {}, path, 1)
    const from = {
      ...this.call(call, call.arguments, nodes, path),
      ...(call.mutation ? { ahead: true as const } : {}),
    }
    if (action === 'aggregate') return this.list(key, action, nodes, table, { from }, path, 1)
    return this.given(key, nodes, table, { from, many: call.many }, path, 1)
  }

  /** Rows that a function gives, or one. */
  private given(
    key: string,
    nodes: readonly FieldNode[],
    table: Table,
    { from, many, computed }: { readonly from: FunctionCall; readonly many: boolean; readonly computed?: string },
    path: string,
    rows: number,
  ): Field {
    if (many) return this.list(key, 'select', nodes, table, { from, computed }, path, rows)
    const read = { ...this.single(nodes, table, TRUE, path, rows), from: { ...from, single: true as const } }
    return { kind: 'relation', key, on: [], ...(computed === undefined ? {} : { computed }), read }
  }

  private call(
    ref: TableRef,
    all: readonly FunctionArgument[],
    [node]: readonly FieldNode[],
    path: string,
  ): FunctionCall {
    const { args } = this.args(node as FieldNode)
    const given: Args = args?.kind === 'object' ? args.fields : {}
    return planCall(ref, all, `${path}.args`, (name, type) => {
      const input = ownOf(given, name)
      if (input?.kind === 'null') return { kind: 'const', value: null, type }
      return input && this.operand(input, type, `${path}.args.args.${name}`)
    })
  }

  /** Fields in the order of their keys; those that a directive leaves out are gone. */
  collect(sets: readonly SelectionSetNode[]): ReadonlyMap<string, readonly FieldNode[]> {
    const fields = new Map<string, FieldNode[]>()
    const spread = new Set<string>()
    const visit = (set: SelectionSetNode): void => {
      for (const node of set.selections) {
        if (!this.included(node)) continue
        switch (node.kind) {
          case Kind.FIELD: {
            const key = (node.alias ?? node.name).value
            if (Buffer.byteLength(key) > 63) throw invalid(`the key "${key}" is longer than 63 bytes`, '$.query')
            const same = fields.get(key)
            if (same) same.push(node)
            else fields.set(key, [node])
            break
          }
          case Kind.INLINE_FRAGMENT:
            visit(node.selectionSet)
            break
          case Kind.FRAGMENT_SPREAD: {
            const name = node.name.value
            if (spread.has(name)) break
            spread.add(name)
            visit((this.options.fragments.get(name) as FragmentDefinitionNode).selectionSet)
          }
        }
      }
    }
    sets.forEach(visit)
    return fields
  }

  private included({ directives = [] }: { directives?: FieldNode['directives'] }): boolean {
    return (directives ?? []).every(({ name, arguments: args = [] }) => {
      const condition = this.input(args[0]?.value)
      const value = condition?.kind === 'literal' && condition.value === true
      return name.value === 'skip' ? !value : name.value === 'include' ? value : true
    })
  }

  /** The keys of an object of rows: columns and relationships. */
  fields(nodes: readonly FieldNode[], table: Table, path: string, rows: number): readonly Field[] {
    const sets = nodes.flatMap(({ selectionSet }) => selectionSet ?? [])
    const fields: Field[] = []
    for (const [key, same] of this.collect(sets)) {
      const [node] = same as [FieldNode]
      const name = node.name.value
      const here = `${path}.selectionSet${at('', key)}`
      this.spend(rows, here)
      if (name === '__typename') {
        fields.push({ kind: 'constant', key, value: exposed(this.names, this.dialect).nameOf(table) as string })
        continue
      }
      if (name === '_empty' && !isColumn(table, name) && !table.relationshipsByName.has(name)) {
        fields.push({ kind: 'constant', key, value: '' })
        continue
      }
      const aggregated = this.aggregated(table, name)
      if (aggregated) {
        const { on } = aggregated.relationship
        fields.push(this.list(key, 'aggregate', same, aggregated.table, { on }, here, rows))
        continue
      }
      if (this.dialect === 'modern' && table.computedByName.has(name)) {
        fields.push(this.computedField(key, name, same, table, here, rows))
        continue
      }
      const found = this.names.columnOrRelationship(table, name, here)
      if (!isRelated(found)) fields.push(this.shown(found, key, node, here))
      else {
        const { relationship, table: remote } = found
        const { on } = relationship
        if (relationship.type === 'array') fields.push(this.list(key, 'select', same, remote, { on }, here, rows))
        else fields.push({ kind: 'relation', key, on, read: this.single(same, remote, TRUE, here, rows) })
      }
    }
    return fields
  }

  private computedField(
    key: string,
    name: string,
    nodes: readonly FieldNode[],
    table: Table,
    path: string,
    rows: number,
  ): Field {
    const [node] = nodes as [FieldNode]
    const field = this.names.computedField(table, name, path)
    const from = this.call(field.function, field.arguments, nodes, path)
    const { gives } = field
    if ('type' in gives) {
      const column: Column = { name, type: gives.type, nullable: true, computed: from }
      return this.shown(column, key, node, path)
    }
    const remote = this.names.table(gives.table, 'select', path)
    return this.given(key, nodes, remote, { from, many: gives.many, computed: name }, path, rows)
  }

  /** A column as a client wants to see it: a part of a JSON value, numbers with all their digits. */
  private shown(
    column: Column,
    key: string,
    node: FieldNode | undefined,
    path: string,
  ): ReturnType<typeof columnField> {
    const field = columnField(column, key)
    const { kind, element } = column.type
    if (this.options.digitsAsText && DIGITS.has(element?.kind ?? kind)) {
      return { ...field, type: column.type, asText: true }
    }
    const part = kind === 'json' || kind === 'jsonb' ? node && this.args(node)['path'] : undefined
    if (part?.kind !== 'literal') return field
    const here = `${path}.args.path`
    const steps = encode([...readJsonPath(typeof part.value === 'string' ? part.value : '', here)], TEXTS, here)
    return { ...field, path: { kind: 'const', value: steps, type: TEXTS } }
  }

  /** `articles_aggregate`, unless a column or relationship is called so. */
  private aggregated(table: Table, name: string): Related | undefined {
    if (this.dialect !== 'modern' || !name.endsWith(SUFFIX)) return undefined
    if (isColumn(table, name) || table.relationshipsByName.has(name)) return undefined
    return this.names
      .relationships(table)
      .find(({ relationship }) => relationship.type === 'array' && relationship.name === name.slice(0, -SUFFIX.length))
  }

  private list(
    key: string,
    action: string,
    nodes: readonly FieldNode[],
    table: Table,
    { on = [], from, computed }: Source,
    path: string,
    outer: number,
  ): Field {
    const [node] = nodes as [FieldNode]
    const origin = from ? { from } : {}
    if (action === 'by_pk') {
      const where = this.byKey(this.args(node), table, path)
      return { kind: 'relation', key, on, read: this.single(nodes, table, where, path, outer) }
    }
    const args = this.args(node)
    const rows = this.rows(args, table, path)
    const { limit } = args
    const most = limit?.kind === 'literal' ? Number(limit.value) : MISSING_LIMIT
    const count = outer * Math.max(1, most)
    const ref = { schema: table.schema, name: table.name }
    if (action === 'aggregate') {
      const parts = this.aggregateParts(nodes, table, path, count)
      return { kind: 'aggregate', key, on, read: { kind: 'aggregate', table: ref, ...origin, ...rows, parts } }
    }
    const fields = this.fields(nodes, table, path, count)
    const read = { kind: 'read' as const, table: ref, ...origin, ...rows, fields, single: false }
    return { kind: 'relation', key, on, ...(computed === undefined ? {} : { computed }), read }
  }

  private single(nodes: readonly FieldNode[], table: Table, where: BoolExp, path: string, rows: number) {
    const fields = this.fields(nodes, table, path, rows)
    const ref = { schema: table.schema, name: table.name }
    return { kind: 'read' as const, table: ref, where, orderBy: [], fields, single: true }
  }

  private aggregateParts(nodes: readonly FieldNode[], table: Table, path: string, rows: number): AggregatePart[] {
    const name = exposed(this.names, this.dialect).nameOf(table) as string
    const sets = nodes.flatMap(({ selectionSet }) => selectionSet ?? [])
    return [...this.collect(sets)].map(([key, same]): AggregatePart => {
      const [node] = same as [FieldNode]
      const here = `${path}.selectionSet${at('', key)}`
      this.spend(rows, here)
      switch (node.name.value) {
        case '__typename':
          return { kind: 'constant', key, value: `${name}_aggregate` }
        case 'nodes':
          return { kind: 'nodes', key, fields: this.fields(same, table, here, rows) }
        default:
          return { kind: 'functions', key, of: this.computed(same, table, here) }
      }
    })
  }

  private computed(nodes: readonly FieldNode[], table: Table, path: string): Computed[] {
    const name = exposed(this.names, this.dialect).nameOf(table) as string
    const sets = nodes.flatMap(({ selectionSet }) => selectionSet ?? [])
    return [...this.collect(sets)].map(([key, same]): Computed => {
      const [node] = same as [FieldNode]
      const fn = node.name.value
      if (fn === '__typename') return { kind: 'constant', key, value: `${name}_aggregate_fields` }
      const here = `${path}.selectionSet${at('', key)}`
      if (fn === 'count') {
        const { columns, distinct } = this.args(node)
        const list = this.columns(columns, table, `${here}.args.columns`)
        return { kind: 'count', key, columns: list, distinct: distinct?.kind === 'literal' && distinct.value === true }
      }
      const inner = same.flatMap(({ selectionSet }) => selectionSet ?? [])
      const of = [...this.collect(inner)].map(([innerKey, [first]]): ComputedColumn => {
        const column = (first as FieldNode).name.value
        if (column === '__typename') return { kind: 'constant', key: innerKey, value: `${name}_${fn}_fields` }
        const found = this.names.column(table, column, 'select', `${here}.selectionSet${at('', innerKey)}`)
        if (!AS_VALUES.has(fn)) return columnField(found, innerKey)
        const summed = fn === 'sum' && (found.type.kind === 'int2' || found.type.kind === 'int4')
        return this.shown(summed ? { ...found, type: INT8 } : found, innerKey, undefined, here)
      })
      return { kind: 'columns', key, fn: fn as AggregateFn, of }
    })
  }

  private spend(points: number, path: string): void {
    this.cost += points
    if (this.cost <= this.options.maxCost) return
    throw invalid(
      `the request may cost more than ${this.options.maxCost} points (plugins.graphql.limits.maxCost); limit its lists`,
      path,
    )
  }

  rows(args: Args, table: Table, path: string): Rows {
    const distinctOn = this.columns(args['distinct_on'], table, `${path}.args.distinct_on`)
    const json = distinctOn.find((name) => table.columnsByName.get(name)?.type.kind === 'json')
    if (json) throw invalid(`"${json}" is of type json, whose values cannot be told apart`, `${path}.args.distinct_on`)
    const orderBy = this.orderBy(args['order_by'], table, `${path}.args.order_by`)
    checkDistinct(distinctOn, orderBy, `${path}.args.distinct_on`)
    const limit = this.count(args['limit'], `${path}.args.limit`)
    const offset = this.count(args['offset'], `${path}.args.offset`)
    return {
      where: this.where(args['where'], table, `${path}.args.where`),
      orderBy,
      ...(distinctOn.length > 0 ? { distinctOn } : {}),
      ...(limit ? { limit } : {}),
      ...(offset ? { offset } : {}),
    }
  }

  private count(input: Input | undefined, path: string): Operand | undefined {
    if (!input || input.kind === 'null') return undefined
    if (input.kind === 'slot') return { kind: 'value', slot: input.slot, type: INT8, path }
    if (input.kind !== 'literal' || Number(input.value) < 0)
      throw invalid('expecting a whole number, not negative', path)
    return { kind: 'const', value: encode(input.value, INT8, path), type: INT8 }
  }

  byKey(args: Args, table: Table, path: string): BoolExp {
    const of = table.primaryKey.map((name): BoolExp => {
      const { type } = table.columnsByName.get(name) as Column
      const key = keyOf(table, name)
      return { kind: 'compare', column: name, op: 'eq', to: this.operand(args[key], type, `${path}.args.${key}`) }
    })
    return { kind: 'and', of }
  }

  /** A value of a column's type. @throws ServiceError 400 for null and for what is absent */
  operand(input: Input | undefined, type: SqlType, path: string): Operand {
    if (!input || input.kind === 'null') throw invalid(`unexpected null value for type ${type.name}`, path)
    if (input.kind === 'slot') return { kind: 'value', slot: input.slot, type, path }
    return { kind: 'const', value: encode(this.json(input, path), type, path), type }
  }

  where(input: Input | undefined, table: Table, path: string): BoolExp {
    if (!input || input.kind === 'null') return TRUE
    return planBoolExp(this.exp(input, path, 1), table, this.names, path, this.operands)
  }

  private readonly operands: Operands = {
    one: (slot, type, path) =>
      slot >= 0 ? { kind: 'value', slot, type, path } : this.operand(this.literals[-1 - slot], type, path),
    list: (slot, type, path) => {
      const array = arrayOf(type, path)
      if (slot >= 0) return { list: { kind: 'value', slot, type: array, path }, ones: [] }
      const elements = this.elements(this.literals[-1 - slot])
      const literal = elements.filter((each) => each.kind !== 'slot')
      const values = literal.map((each, i) => this.json(each, at(path, i)))
      return {
        list: { kind: 'const', value: encodeArray(values, array, path), type: array },
        ones: elements.flatMap((each) => (each.kind === 'slot' ? [this.operand(each, type, path)] : [])),
      }
    },
  }

  private exp(input: Input, path: string, depth: number): ExpShape {
    this.size.visit(depth, path)
    if (input.kind !== 'object') throw invalid('expecting an object', path)
    return {
      all: Object.entries(input.fields).map(([key, value]) => {
        const here = at(path, key)
        switch (key) {
          case '_and':
          case '_or':
            return {
              key,
              any: key === '_or',
              of: this.elements(value, here).map((part, i) => this.exp(part, at(here, i), depth + 1)),
            }
          case '_not':
            return { key, not: this.exp(value, here, depth + 1) }
        }
        if (value.kind !== 'object') throw invalid(`unexpected ${value.kind} value`, here)
        const aggregates = this.aggregates(key, value.fields, here, depth)
        if (aggregates) return { name: key, aggregates }
        const operators = Object.entries(value.fields)
        if (operators.length === 0 || !operators.every(([name]) => operatorName(name))) {
          return { name: key, is: this.exp(value, here, depth + 1) }
        }
        return { name: key, is: operators.map(([name, to]) => ({ key: name, to: this.operator(name, to, here) })) }
      }),
    }
  }

  /** `articles_aggregate: {count: {predicate: {_gt: 3}, filter: {...}, arguments: [id], distinct: true}}` */
  private aggregates(key: string, fields: Args, path: string, depth: number): readonly AggregateShape[] | undefined {
    const functions = Object.entries(fields)
    const fits = functions.every(
      ([name, input]) => FUNCTIONS.has(name) && input.kind === 'object' && input.fields['predicate'],
    )
    if (!key.endsWith(SUFFIX) || functions.length === 0 || !fits) return undefined
    return functions.map(([name, input]) => {
      const here = at(path, name)
      const { predicate, filter, distinct, arguments: columns } = input.kind === 'object' ? input.fields : {}
      const operators = Object.entries(predicate?.kind === 'object' ? predicate.fields : {})
      return {
        fn: name as AggregateShape['fn'],
        columns: this.enums(columns),
        distinct: distinct?.kind === 'literal' && distinct.value === true,
        predicate: operators.map(([operator, to]) => ({
          key: operator,
          to: this.operator(operator, to, `${here}.predicate`),
        })),
        ...(filter && filter.kind !== 'null' ? { filter: this.exp(filter, `${here}.filter`, depth + 1) } : {}),
      }
    })
  }

  private operator(name: string, input: Input, path: string): OpShape['to'] {
    const here = at(path, name)
    // A comparison that falls away with its variable would widen a delete to the whole table.
    if (input.kind === 'null') throw invalid('unexpected null value; _is_null asks for null', here)
    if (name === '_st_d_within') return this.near(input, here)
    if (name === '_cast') return this.cast(input, here)
    if (name === '_is_null') {
      if (input.kind === 'literal' && typeof input.value === 'boolean') return input.value
      throw invalid('expecting a boolean', here)
    }
    const slot = input.kind === 'slot' ? input.slot : -this.literals.push(input)
    return LIST_OPERATORS.has(name) ? { list: slot, nulls: false } : slot
  }

  private cast(input: Input, path: string): OpShape['to'] {
    if (input.kind !== 'object') throw invalid('expecting an object', path)
    // A missing variable would let the condition fall away.
    if (Object.keys(input.fields).length === 0) throw invalid('expecting a type and its operators', path)
    const casts = Object.entries(input.fields).map(([as, operators]) => {
      const here = at(path, as)
      if (operators.kind !== 'object') throw invalid('expecting an object', here)
      if (Object.keys(operators.fields).length === 0) throw invalid('expecting an operator', here)
      const list = Object.entries(operators.fields).map(([key, to]) => ({ key, to: this.operator(key, to, here) }))
      return { as, operators: list }
    })
    return { casts }
  }

  private near(input: Input, path: string) {
    const fields = input.kind === 'object' ? input.fields : {}
    const slot = (key: string) => {
      const value = fields[key]
      if (!value || value.kind === 'null') throw invalid(`the field "${key}" is missing`, path)
      return value.kind === 'slot' ? value.slot : -this.literals.push(value)
    }
    const spheroid = fields['use_spheroid']
    return {
      distance: slot('distance'),
      from: slot('from'),
      ...(spheroid && spheroid.kind !== 'null' ? { spheroid: slot('use_spheroid') } : {}),
    }
  }

  private elements(input: Input | undefined, path = '$'): readonly Input[] {
    if (!input) return []
    if (input.kind === 'null') throw invalid('unexpected null value', path)
    return input.kind === 'list' ? input.of : [input]
  }

  private orderBy(input: Input | undefined, table: Table, path: string): readonly OrderBy[] {
    if (!input || input.kind === 'null') return []
    return this.elements(input).flatMap((each, i) => {
      const here = at(path, i)
      if (this.dialect === 'modern') return this.orderObject(each, table, (by) => by, here)
      if (each.kind === 'null') return []
      const text = each.kind === 'literal' && typeof each.value === 'string' ? readOrderText(each.value) : undefined
      if (!text) throw invalid('an entry of order_by is a column: "+name", "-name" or "name"', here)
      const { direction } = text
      return [{ by: this.orderTarget(text.path, table, here), ...(direction ? { direction } : {}) }]
    })
  }

  /** A name in a text that is not there is as wrong as one in the document. */
  private orderTarget(names: readonly string[], table: Table, path: string): OrderTarget {
    try {
      return planOrderTarget(names, table, this.names, path)
    } catch (error) {
      throw error instanceof ServiceError ? invalid(error.message, error.path) : error
    }
  }

  /** `{name: asc, author: {name: desc}, articles_aggregate: {count: desc}}`: a key for each entry. */
  private orderObject(input: Input, table: Table, wrap: (by: OrderTarget) => OrderTarget, path: string): OrderBy[] {
    if (input.kind === 'null') return []
    if (input.kind !== 'object') throw invalid('expecting an object', path)
    return Object.entries(input.fields).flatMap(([name, value]): OrderBy[] => {
      const here = at(path, name)
      if (value.kind === 'null') return []
      const aggregated = this.aggregated(table, name)
      if (aggregated) return this.orderAggregate(value, aggregated, wrap, here)
      const found = this.names.columnOrRelationship(table, name, here)
      if (!isRelated(found))
        return [{ by: wrap(planOrderTarget([name], table, this.names, here)), ...direction(value, here) }]
      const { relationship, table: remote } = found
      const { table: ref, on } = relationship
      return this.orderObject(value, remote, (by) => wrap({ kind: 'related', table: ref, on, where: TRUE, by }), here)
    })
  }

  private orderAggregate(
    input: Input,
    { relationship, table }: Related,
    wrap: (by: OrderTarget) => OrderTarget,
    path: string,
  ): OrderBy[] {
    if (input.kind !== 'object') throw invalid('expecting an object', path)
    const { on, table: ref } = relationship
    return Object.entries(input.fields).flatMap(([fn, value]): OrderBy[] => {
      const here = at(path, fn)
      const by = (of: Extract<OrderTarget, { kind: 'aggregate' }>['of']): OrderTarget =>
        wrap({ kind: 'aggregate', table: ref, on, where: TRUE, of })
      if (value.kind === 'null') return []
      if (fn === 'count') return [{ by: by({ fn: 'count' }), ...direction(value, here) }]
      if (value.kind !== 'object') throw invalid('expecting an object', here)
      return Object.entries(value.fields).map(([column, way]) => {
        const { name } = this.names.column(table, column, 'select', at(here, column))
        return { by: by({ fn: fn as AggregateFn, column: name }), ...direction(way, at(here, column)) }
      })
    })
  }

  enums(input: Input | undefined): string[] {
    if (!input || input.kind === 'null') return []
    return this.elements(input).flatMap((each) => {
      if (each.kind === 'enum') return [each.name]
      return each.kind === 'literal' && typeof each.value === 'string' ? [each.value] : []
    })
  }

  private columns(input: Input | undefined, table: Table, path: string): string[] {
    return this.enums(input).map((name) => this.names.column(table, name, 'select', path).name)
  }

  args({ arguments: args = [] }: FieldNode): Args {
    const result: Args = Object.create(null)
    for (const { name, value } of args ?? []) {
      const input = this.input(value)
      if (input) result[name.value] = input
    }
    return result
  }

  /** A value of the document, its variables replaced; undefined for an absent variable. */
  private input(node: ValueNode | undefined): Input | undefined {
    switch (node?.kind) {
      case undefined:
        return undefined
      case Kind.VARIABLE:
        return ownOf(this.options.variables, node.name.value)
      case Kind.NULL:
        return { kind: 'null' }
      case Kind.INT:
      case Kind.FLOAT: {
        const number = Number(node.value)
        return { kind: 'literal', value: String(number) === node.value ? number : new NumberText(node.value) }
      }
      case Kind.STRING:
      case Kind.BOOLEAN:
        return { kind: 'literal', value: node.value }
      case Kind.ENUM:
        return { kind: 'enum', name: node.value }
      case Kind.LIST:
        return { kind: 'list', of: node.values.map((each) => this.input(each) ?? { kind: 'null' }) }
      case Kind.OBJECT:
        return {
          kind: 'object',
          fields: Object.fromEntries(
            node.fields.flatMap(({ name, value }) => {
              const input = this.input(value) ?? (operatorName(name.value) ? NULL : undefined)
              return input ? [[name.value, input]] : []
            }),
          ),
        }
    }
  }

  /** A constant of the document as JSON. */
  private json(input: Input, path: string): Json {
    switch (input.kind) {
      case 'null':
        return null
      case 'literal':
        return input.value
      case 'enum':
        return input.name
      case 'list':
        return input.of.map((each, i) => this.json(each, at(path, i)))
      case 'object':
        return Object.fromEntries(
          Object.entries(input.fields).map(([key, each]) => [key, this.json(each, at(path, key))]),
        )
      case 'slot':
        throw invalid('a variable cannot stand inside a value here; make the whole value a variable', path)
    }
  }
}

export type Args = Record<string, Input>

/** Where rows come from: a join with the row above, or a function; `computed` is the field of the row above. */
interface Source {
  readonly on?: Join
  readonly from?: FunctionCall
  readonly computed?: string | undefined
}

/** Kinds of numbers that JavaScript cannot hold. */
const DIGITS: ReadonlySet<SqlType['kind']> = new Set(['int8', 'numeric'])
/** Functions whose result is of the column's type, or a number like it. */
const AS_VALUES = new Set(['min', 'max', 'sum'])
const TEXTS: SqlType = { schema: 'pg_catalog', name: '_text', kind: 'array', element: TEXT }

const NULL: Input = { kind: 'null' }
const SUFFIX = '_aggregate'
const MISSING_LIMIT = 100
const FUNCTIONS = new Set(['count', 'bool_and', 'bool_or'])
const LIST_OPERATORS = new Set(['_in', '_nin', '_ancestor_any', '_descendant_any'])

function direction(input: Input, path: string): Pick<OrderBy, 'direction' | 'nulls'> {
  if (input.kind !== 'enum') throw invalid('expecting a direction', path)
  const [way, , nulls] = input.name.split('_')
  return { direction: way as 'asc' | 'desc', ...(nulls ? { nulls: nulls as 'first' | 'last' } : {}) }
}

function checkDistinct(distinctOn: readonly string[], orderBy: readonly OrderBy[], path: string): void {
  if (distinctOn.length === 0 || orderBy.length === 0) return
  const first = orderBy.slice(0, distinctOn.length).map(({ by }) => (by.kind === 'column' ? by.column : ''))
  if (distinctOn.every((column) => first.includes(column)) && first.length === distinctOn.length) return
  throw invalid('the columns of distinct_on must be the first ones of order_by', path)
}
