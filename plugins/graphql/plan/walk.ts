import {
  type FieldNode,
  type FragmentDefinitionNode,
  Kind,
  type OperationDefinitionNode,
  type SelectionNode,
} from 'graphql'
import {
  type AggregateFn,
  type AggregatePart,
  at,
  type BoolExp,
  type Column,
  columnField,
  type Computed,
  type ComputedColumn,
  type ConnectionPart,
  type EdgePart,
  encode,
  type Field,
  type FunctionArgument,
  type FunctionCall,
  type Given,
  INT8,
  isRelated,
  type Join,
  type Names,
  type Opaque,
  type PageInfo,
  planCall,
  planSource,
  type Roots,
  type SqlType,
  type Table,
  type TableRef,
  TEXT,
  TRUE,
} from 'rowhouse/plan'
import { Arguments } from './arguments.js'
import { fieldsByKey } from './document.js'
import { type Exposed, exposed } from './exposed.js'
import { type Args, fieldsOf, invalid, isTrue, ownOf } from './input.js'
import { readJsonPath } from './json-path.js'
import {
  aggregateNamed,
  argumentKeys,
  connectionName,
  CURSOR,
  type Dialect,
  isCamel,
  isColumn,
  typeEnd,
  wordOf,
} from './names.js'
import { VERSION } from './opaque.js'
import { NODE, type RootField } from './roots.js'

interface WalkOptions {
  readonly names: Names
  readonly dialect: Dialect
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>
  readonly variables: Args
  /** Whether bigint and numeric are returned as strings. */
  readonly digitsAsText: boolean
  /** Slot of the value that continues a stream. */
  readonly after?: number | undefined
}

/** A selected field, and the table that its rows or values come from. */
interface Selected {
  readonly key: string
  /** All nodes of the document with this key. */
  readonly nodes: readonly FieldNode[]
  readonly table: Table
  readonly path: string
  /** How the rows are joined with the outer row. */
  readonly on?: Join
  /** The function that returns the rows. */
  readonly from?: FunctionCall
  /** The computed field of the outer row that returns the rows. */
  readonly computed?: string
}

/** Turns a validated document into a plan: resolves names and plans arguments. */
export class Walker {
  readonly names: Names
  readonly args: Arguments
  readonly dialect: Dialect
  private readonly exposed: Exposed
  private readonly isCamel: boolean

  constructor(private readonly options: WalkOptions) {
    const { names, dialect, variables } = options
    this.names = names
    this.dialect = dialect
    this.args = new Arguments(names, dialect, variables)
    this.exposed = exposed(names, dialect)
    this.isCamel = isCamel(names, dialect)
  }

  /** Plans all root fields of a query or subscription as one read, except introspection. */
  query(operation: OperationDefinitionNode): Roots {
    const query = this.exposed[operation.operation]
    const fields = [...this.selected([operation])].flatMap(([key, nodes]): Field[] => {
      const path = at('$.selectionSet', key)
      const name = nameOf(nodes)
      if (name === '__typename') return [{ kind: 'constant', key, value: 'query_root' }]
      if (name.startsWith('__')) return []
      if (name === '_empty' && query.size === 0) return [{ kind: 'constant', key, value: '' }]
      if (name === NODE && this.dialect === 'relay') return [this.node(key, nodes, path)]
      const root = query.get(name)
      if (!root) throw invalid(`field "${name}" is not in type ${operation.operation}_root`, path)
      return root.action.streams
        ? this.stream({ key, nodes, table: root.table, path })
        : [this.root(key, root, nodes, path)]
    })
    return { kind: 'roots', fields }
  }

  /** Plans a mutation that calls a function. */
  called(key: string, nodes: readonly FieldNode[], root: RootField): Roots {
    return { kind: 'roots', fields: [this.root(key, root, nodes, at('$.selectionSet', key))] }
  }

  private root(key: string, { action, table, call }: RootField, nodes: readonly FieldNode[], path: string): Field {
    if (!action.read) throw new Error('a mutation reads nothing')
    const selected: Selected = { key, nodes, table, path }
    if (!call) return this[action.read](selected)
    const from = planSource(call, `${path}.args`, this.given(call.arguments, nodes, path))
    if (call.result?.values) return this.values({ ...selected, from }, call.many)
    return call.many ? this[action.read]({ ...selected, from }) : this.row({ ...selected, from }, TRUE)
  }

  /**
   * Plans the row with a global id. One of a table that the role does not see is null, as one of a table that does not
   * exist.
   */
  private node(key: string, nodes: readonly FieldNode[], path: string): Field {
    const here = `${path}.args.id`
    const { names: [schema, name] = [], values = [] } = this.args.said(this.args.of(nodes[0] as FieldNode)['id']) ?? {}
    if (schema === undefined || name === undefined) throw invalid('invalid node id', here)
    const table = this.exposed.tables.get(this.exposed.nameOf({ schema, name }) ?? '')
    if (!table || !this.exposed.isNode(table)) return { kind: 'constant', key, value: null }
    const columns = table.primaryKey.map((column) => table.columnsByName.get(column) as Column)
    if (columns.length !== values.length) {
      throw invalid(`invalid node id: expecting ${columns.length} values of the primary key`, here)
    }
    const of = columns.map((column, i): BoolExp => {
      const to = values[i]?.(column.type, here)
      if (!to) throw invalid('invalid node id: a value of the primary key is null', here)
      return { kind: 'compare', column: column.name, op: 'eq', to }
    })
    return this.row({ key, nodes, table, path }, { kind: 'and', of })
  }

  /** Returns what the global id of a row says. */
  private idOf({ schema, name, primaryKey }: Table): Opaque {
    const version = { kind: 'const', value: String(VERSION), type: INT8 } as const
    const names = [schema, name].map((value) => ({ kind: 'const', value, type: TEXT }) as const)
    return [version, ...names, ...primaryKey.map((column) => ({ by: { kind: 'column', column } }) as const)]
  }

  /** Plans the values that a function returns. */
  private values({ key, nodes, table, path, from }: Selected, many: boolean): Field {
    const field = this.column(table.columns[0] as Column, 'value', nodes[0], path)
    const rows = { table: refTo(table), from, where: TRUE, orderBy: [], fields: [field] }
    return { kind: 'relation', key, on: [], read: { kind: 'read', ...rows, single: !many, values: true } }
  }

  /** Returns the values of the arguments of a function. */
  private given(all: readonly FunctionArgument[], [node]: readonly FieldNode[], path: string): Given {
    const given = fieldsOf(this.args.of(node as FieldNode)['args'])
    const keys = argumentKeys(all, this.isCamel)
    return (name, type) => {
      const key = keys.get(name) as string
      const input = ownOf(given, key)
      if (input?.kind === 'null') return { kind: 'const', value: null, type }
      return input && this.args.operand(input, type, `${path}.args.args.${key}`)
    }
  }

  /**
   * Returns the fields in the selections of `nodes` by key, without those that a directive excludes.
   * @param type of the rows, which fragments on other types do not apply to
   */
  selected(
    nodes: readonly Pick<FieldNode, 'selectionSet'>[],
    type?: string,
  ): ReadonlyMap<string, readonly FieldNode[]> {
    const selections = nodes.flatMap(({ selectionSet }) => selectionSet?.selections ?? [])
    const isOn = (node: SelectionNode) => {
      const condition = this.conditionOf(node)
      return condition === undefined || type === undefined || condition === type || condition === 'Node'
    }
    return fieldsByKey(selections, this.options.fragments, (node) => this.isIncluded(node) && isOn(node))
  }

  private isIncluded({ directives = [] }: SelectionNode): boolean {
    return directives.every(({ name, arguments: args = [] }) => {
      const value = isTrue(this.args.input(args[0]?.value))
      return name.value === 'skip' ? !value : name.value === 'include' ? value : true
    })
  }

  private conditionOf(node: SelectionNode): string | undefined {
    if (node.kind === Kind.FIELD) return undefined
    const fragment = node.kind === Kind.INLINE_FRAGMENT ? node : this.options.fragments.get(node.name.value)
    return fragment?.typeCondition?.name.value
  }

  /** Returns the name of a type of a table. */
  typeName(table: Table, suffix = ''): string {
    return `${this.exposed.nameOf(table)}${typeEnd(suffix, this.isCamel)}`
  }

  /** Plans the fields of rows. */
  fields(nodes: readonly FieldNode[], table: Table, path: string): readonly Field[] {
    return [...this.selected(nodes, this.typeName(table))].map(([key, same]) => {
      const here = `${path}.selectionSet${at('', key)}`
      return this.field({ key, nodes: same, table, path: here })
    })
  }

  private field(selected: Selected): Field {
    const { key, nodes, table, path } = selected
    const name = nameOf(nodes)
    if (name === '__typename') return { kind: 'constant', key, value: this.typeName(table) }
    if (name === '_empty' && !isColumn(table, name, this.names.naming) && !table.relationshipsByName.has(name)) {
      return { kind: 'constant', key, value: '' }
    }
    if (name === 'id' && this.exposed.isNode(table)) return { kind: 'opaque', key, of: this.idOf(table) }
    if (this.dialect === 'relay') {
      const paged = aggregateNamed(name, table, this.names, connectionName)
      if (paged) return this.connection({ ...selected, table: paged.table, on: paged.relationship.on })
    }
    if (this.dialect !== 'alpha') {
      const aggregated = aggregateNamed(name, table, this.names)
      if (aggregated) return this.aggregate({ ...selected, table: aggregated.table, on: aggregated.relationship.on })
      if (table.computedByName.has(name)) return this.computedField(selected, name)
    }
    const found = this.names.columnOrRelationship(table, name, path)
    if (!isRelated(found)) return this.column(found, key, nodes[0], path)
    const related = { ...selected, table: found.table, on: found.relationship.on }
    return found.relationship.type === 'array' ? this.rows(related) : this.row(related, TRUE)
  }

  private computedField(selected: Selected, name: string): Field {
    const { key, nodes, table, path } = selected
    const { function: ref, arguments: all, gives } = this.names.computedField(table, name, path)
    const from = planCall(ref, all, `${path}.args`, this.given(all, nodes, path))
    if ('type' in gives)
      return this.column({ name, type: gives.type, nullable: true, computed: from }, key, nodes[0], path)
    const returned = { ...selected, table: this.names.table(gives.table, 'select', path), computed: name }
    return gives.many
      ? this.rows({ ...returned, from })
      : this.row({ ...returned, from: { ...from, single: true } }, TRUE)
  }

  /** Plans a column, a part of a JSON value, or a number as text. */
  private column(
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
    const part = kind === 'json' || kind === 'jsonb' ? node && this.args.of(node)['path'] : undefined
    if (part?.kind !== 'literal') return field
    const here = `${path}.args.path`
    const steps = encode([...readJsonPath(typeof part.value === 'string' ? part.value : '', here)], TEXTS, here)
    return { ...field, path: { kind: 'const', value: steps, type: TEXTS } }
  }

  rows(selected: Selected): Field {
    const { table, nodes, path } = selected
    const fields = this.fields(nodes, table, path)
    return { ...relationOf(selected), read: { kind: 'read', ...this.list(selected), fields, single: false } }
  }

  /** Plans the rows after a cursor, and beside them the values of its column, of which the last continues the stream. */
  private stream({ key, nodes, table, path }: Selected): Field[] {
    const { column, ...list } = this.args.stream(this.args.of(nodes[0] as FieldNode), table, path, this.options.after)
    const rows = { kind: 'read' as const, table: refTo(table), ...list, single: false }
    const value = this.column(column, 'value', undefined, path)
    return [
      { kind: 'relation', key, on: [], read: { ...rows, fields: this.fields(nodes, table, path) } },
      { kind: 'relation', key: CURSOR, on: [], read: { ...rows, fields: [value], values: true } },
    ]
  }

  rowByKey(selected: Selected): Field {
    const { nodes, table, path } = selected
    return this.row(selected, this.args.byKey(this.args.of(nodes[0] as FieldNode), table, path))
  }

  private row(selected: Selected, where: BoolExp): Field {
    const { nodes, table, path, from } = selected
    const fields = this.fields(nodes, table, path)
    return {
      ...relationOf(selected),
      read: { kind: 'read', table: refTo(table), from, where, orderBy: [], fields, single: true },
    }
  }

  aggregate(selected: Selected): Field {
    const { key, on = [], nodes, table, path } = selected
    const parts = this.aggregateParts(nodes, table, path)
    return { kind: 'aggregate', key, on, read: { kind: 'aggregate', ...this.list(selected), parts } }
  }

  connection(selected: Selected): Field {
    const { key, on = [], nodes, table, path, from } = selected
    const page = this.args.page(this.args.of(nodes[0] as FieldNode), table, path)
    const parts = [...this.selected(nodes)].map(([part, same]): ConnectionPart => {
      const here = `${path}.selectionSet${at('', part)}`
      switch (nameOf(same)) {
        case '__typename':
          return { kind: 'constant', key: part, value: this.typeName(table, 'Connection') }
        case 'edges':
          return { kind: 'edges', key: part, of: this.edge(same, table, here) }
        default:
          return { kind: 'pageInfo', key: part, of: this.pageInfo(same) }
      }
    })
    return { kind: 'connection', key, on, read: { kind: 'connection', table: refTo(table), from, ...page, parts } }
  }

  private edge(nodes: readonly FieldNode[], table: Table, path: string): EdgePart[] {
    return [...this.selected(nodes)].map(([key, same]): EdgePart => {
      const here = `${path}.selectionSet${at('', key)}`
      switch (nameOf(same)) {
        case '__typename':
          return { kind: 'constant', key, value: this.typeName(table, 'Edge') }
        case 'cursor':
          return { kind: 'cursor', key }
        default:
          return { kind: 'node', key, fields: this.fields(same, table, here) }
      }
    })
  }

  private pageInfo(nodes: readonly FieldNode[]): PageInfo[] {
    return [...this.selected(nodes)].map(([key, same]): PageInfo => {
      const name = nameOf(same)
      if (name === '__typename') return { kind: 'constant', key, value: 'PageInfo' }
      return { kind: name as Exclude<PageInfo['kind'], 'constant'>, key }
    })
  }

  /** Plans the arguments of a list. */
  private list({ nodes, table, path, from }: Selected) {
    const args = this.args.of(nodes[0] as FieldNode)
    return { table: refTo(table), from, ...this.args.rows(args, table, path) }
  }

  private aggregateParts(nodes: readonly FieldNode[], table: Table, path: string): AggregatePart[] {
    return [...this.selected(nodes)].map(([key, same]): AggregatePart => {
      const here = `${path}.selectionSet${at('', key)}`
      switch (nameOf(same)) {
        case '__typename':
          return { kind: 'constant', key, value: this.typeName(table, '_aggregate') }
        case 'nodes':
          return { kind: 'nodes', key, fields: this.fields(same, table, here) }
        default:
          return { kind: 'functions', key, of: this.computed(same, table, here) }
      }
    })
  }

  private computed(nodes: readonly FieldNode[], table: Table, path: string): Computed[] {
    return [...this.selected(nodes)].map(([key, same]): Computed => {
      const fn = wordOf(nameOf(same))
      if (fn === '__typename') return { kind: 'constant', key, value: this.typeName(table, '_aggregate_fields') }
      const here = `${path}.selectionSet${at('', key)}`
      if (fn === 'count') {
        const { columns, distinct } = this.args.of(same[0] as FieldNode)
        const isDistinct = isTrue(distinct)
        const list = this.args[isDistinct ? 'distinct' : 'columns'](columns, table, `${here}.args.columns`)
        return { kind: 'count', key, columns: list, distinct: isDistinct }
      }
      const of = [...this.selected(same)].map(([innerKey, inner]): ComputedColumn => {
        const column = nameOf(inner)
        if (column === '__typename') {
          return { kind: 'constant', key: innerKey, value: this.typeName(table, `_${fn}_fields`) }
        }
        const found = this.names.column(table, column, 'select', `${here}.selectionSet${at('', innerKey)}`)
        if (!AS_VALUES.has(fn)) return columnField(found, innerKey)
        const summed = fn === 'sum' && (found.type.kind === 'int2' || found.type.kind === 'int4')
        return this.column(summed ? { ...found, type: INT8 } : found, innerKey, undefined, here)
      })
      return { kind: 'columns', key, fn: fn as AggregateFn, of }
    })
  }
}

const nameOf = ([node]: readonly FieldNode[]): string => (node as FieldNode).name.value
const refTo = ({ schema, name }: Table): TableRef => ({ schema, name })
const relationOf = ({ key, on = [], computed }: Selected) => ({ kind: 'relation' as const, key, on, computed })

/** Types whose values a JavaScript number would round. */
const DIGITS: ReadonlySet<SqlType['kind']> = new Set(['int8', 'numeric'])
/** Functions whose result has the type of the column, or a wider number type. */
const AS_VALUES = new Set(['min', 'max', 'sum'])
const TEXTS: SqlType = { schema: 'pg_catalog', name: '_text', kind: 'array', element: TEXT }
