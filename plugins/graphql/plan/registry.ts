import {
  GraphQLBoolean,
  GraphQLEnumType,
  GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLList,
  type GraphQLNamedType,
  GraphQLNonNull,
  GraphQLScalarType,
  GraphQLString,
  Kind,
} from 'graphql'
import {
  aggregateType,
  camelCase,
  type Column,
  isEnumName,
  isGraphqlName,
  type Names,
  type SqlType,
  type Table,
} from 'rowhouse/plan'
import type { Exposed } from './exposed.js'
import { ownOf } from './input.js'
import { FLOAT, INT } from './scalars.js'
import {
  aggregateName,
  computedColumns,
  computedRows,
  connectionName,
  type Dialect,
  isCamel,
  NUMERIC_FUNCTIONS,
  scalarName,
  typeEnd,
  typeNamed,
} from './names.js'

/** Arguments of a field, or fields of an input type. */
export type InputFields = Record<string, { readonly type: GraphQLInputType; readonly defaultValue?: unknown }>

export const list = (type: GraphQLInputType) => new GraphQLList(new GraphQLNonNull(type))
export const required = <T extends GraphQLInputType>(type: T) => new GraphQLNonNull(type)
/** Returns fields of these types, without those whose type is undefined. */
export function typed<T>(types: Readonly<Record<string, T | undefined>>): Record<string, { readonly type: T }> {
  const fields: Record<string, { readonly type: T }> = {}
  for (const name in types) if (types[name] !== undefined) fields[name] = { type: types[name] as T }
  return fields
}

type Leaf = GraphQLScalarType | GraphQLEnumType

/** Creates an enum whose values are data. Also accepts a string in a document, which a scalar would accept. */
function dataEnum(
  name: string,
  values: readonly string[],
  { labelComments = [], labelNames }: SqlType,
): GraphQLEnumType {
  const comments = new Map(labelComments)
  const labels = new Map(labelNames)
  const each = Object.fromEntries(
    values.map((value) => [value, { description: comments.get(labels.get(value) ?? value) }]),
  )
  const type = new GraphQLEnumType({ name, values: each, extensions: { data: true } })
  const { parseLiteral } = type
  type.parseLiteral = (node, variables) =>
    parseLiteral.call(type, node.kind === Kind.STRING ? { ...node, kind: Kind.ENUM } : node, variables)
  return type
}
export const isDataEnum = (type: GraphQLEnumType): boolean => type.extensions['data'] === true

interface RelatedField {
  readonly name: string
  readonly gives: 'object' | 'array' | 'aggregate'
  readonly table: Table
}

/** Creates each type of a schema once, and decides which tables and columns it contains. */
export class Registry {
  readonly modern: boolean
  /** Whether names follow `graphql-default`. */
  readonly isCamel: boolean
  private readonly types = new Map<string, GraphQLNamedType>()

  /** @param keep returns whether to include a name */
  constructor(
    readonly names: Names,
    dialect: Dialect,
    readonly exposed: Exposed,
    readonly keep: (name: string) => boolean,
  ) {
    this.modern = dialect !== 'alpha'
    this.isCamel = isCamel(names, dialect)
  }

  /** Returns a word of the schema, e.g. `order_by`, in the convention. */
  word(word: string): string {
    return this.isCamel ? camelCase(word) : word
  }

  /** Returns fields named by words, without those whose type is undefined. */
  words<T>(types: Readonly<Record<string, T | undefined>>): Record<string, { readonly type: T }> {
    return typed(Object.fromEntries(Object.entries(types).map(([name, type]) => [this.word(name), type])))
  }

  /** Returns the name of a type that belongs to no table. */
  typeNamed(name: string): string {
    return typeNamed(name, this.isCamel)
  }

  once<T extends GraphQLNamedType>(name: string, make: (name: string) => T): T {
    let type = this.types.get(name) as T | undefined
    if (!type) this.types.set(name, (type = make(name)))
    return type
  }

  input(name: string, fields: () => InputFields): GraphQLInputObjectType {
    return this.once(name, () => new GraphQLInputObjectType({ name, fields }))
  }

  /** Creates an enum. Without any valid name its value is `_empty`, because an enum needs a value. */
  enum(name: string, all: readonly { readonly name: string }[]): GraphQLEnumType {
    const make = () => {
      const values = all.filter((each) => isEnumName(each.name)).map((each) => [each.name, {}])
      return new GraphQLEnumType({ name, values: values.length > 0 ? Object.fromEntries(values) : { _empty: {} } })
    }
    return this.once(name, make)
  }

  /** Returns the type of a value, for input and output. Lists may contain null. */
  value(type: SqlType): Leaf | GraphQLList<Leaf> {
    return this.isList(type) ? new GraphQLList(this.scalar(type.element)) : this.scalar(type)
  }

  /** Returns whether an array is a list of one level. A scalar holds nested lists, of any depth. */
  isList(type: SqlType): type is SqlType & { readonly element: SqlType } {
    return type.kind === 'array' && type.element !== undefined && !(this.modern && type.nested)
  }

  /** Returns a scalar, or the enum of a type whose values are names in GraphQL. */
  scalar(type: SqlType): Leaf {
    let name = scalarName(type, this.modern ? 'modern' : 'alpha', this.isCamel)
    const builtIn = type.schema === 'pg_catalog' ? ownOf(BUILT_IN, name) : undefined
    if (builtIn) return builtIn
    while (this.exposed.isTaken(name)) name += '_scalar'
    const values = this.exposed.valuesOf(type)
    const extensions = { isText: type.kind === 'text' }
    return this.once<Leaf>(name, () =>
      values ? dataEnum(name, values, type) : new GraphQLScalarType({ name, extensions }),
    )
  }

  /** Returns the scalars and enums of columns that have one of these names. */
  scalarsNamed(wanted: ReadonlySet<string>): readonly Leaf[] {
    if (wanted.size === 0) return []
    const tables = [...this.exposed.tables].map(([, table]) => table)
    const all = tables.flatMap((table) =>
      this.allColumns(table).map(({ type }) => this.scalar(this.isList(type) ? type.element : type)),
    )
    return [...new Set(all)].filter(({ name }) => wanted.has(name))
  }

  /** Returns the name of a type of a table. */
  nameOf(table: Table, suffix = ''): string {
    return `${this.exposed.nameOf(table)}${typeEnd(suffix, this.isCamel)}`
  }

  columns(table: Table, action: 'select' | 'insert' | 'update' = 'select'): readonly Column[] {
    return this.allColumns(table, action).filter(({ name }) => this.keep(name))
  }

  /** Returns columns, also those that are not kept. */
  allColumns(table: Table, action: 'select' | 'insert' | 'update' = 'select'): readonly Column[] {
    return this.names.columns(table, action).filter(({ name }) => isGraphqlName(name))
  }

  /** Returns columns and computed values, for conditions and `order_by`. */
  comparable(table: Table): readonly Column[] {
    const computed = this.modern ? computedColumns(this.names, table) : []
    return [...this.columns(table), ...computed.filter(({ name }) => isGraphqlName(name) && this.keep(name))]
  }

  /** Returns the fields of relationships to tables that have a type, and of aggregates of their rows. */
  related(table: Table): readonly RelatedField[] {
    const all = this.names.relationships(table).flatMap(({ relationship: { name, type }, table: remote }) => {
      if (!isGraphqlName(name) || this.exposed.nameOf(remote) === undefined) return []
      const field: RelatedField = { name, gives: type, table: remote }
      const aggregates = this.modern && type === 'array' && this.names.mayAggregate(remote)
      const aggregate = { name: aggregateName(name, this.names), gives: 'aggregate' as const, table: remote }
      return aggregates ? [field, aggregate] : [field]
    })
    return all.filter(({ name }) => this.keep(name))
  }

  /** Returns the fields of conditions on computed rows, and of `order_by` for aggregates of them. */
  computedRows(table: Table): readonly RelatedField[] {
    if (!this.modern) return []
    const all = computedRows(this.names, table).flatMap(({ name, gives }): RelatedField[] => {
      const remote = this.names.table(gives.table, 'select', '$')
      if (!isGraphqlName(name) || this.exposed.nameOf(remote) === undefined) return []
      const field = { name, gives: gives.many ? 'array' : 'object', table: remote } as const
      const aggregate = { name: aggregateName(name, this.names), gives: 'aggregate', table: remote } as const
      return gives.many && this.names.mayAggregate(remote) ? [field, aggregate] : [field]
    })
    return all.filter(({ name }) => this.keep(name))
  }

  /** Returns the fields of array relationships as connections. */
  connections(table: Table): readonly Omit<RelatedField, 'gives'>[] {
    return this.names
      .relationships(table)
      .filter(({ relationship, table: remote }) => relationship.type === 'array' && this.exposed.isNode(remote))
      .map(({ relationship, table: remote }) => ({
        name: connectionName(relationship.name, this.names),
        table: remote,
      }))
      .filter(({ name }) => isGraphqlName(name) && this.keep(name))
  }

  /** Returns the aggregate functions that apply to at least one column, with their columns that are kept. */
  functions(table: Table): readonly (readonly [string, readonly Column[]])[] {
    const columns = this.allColumns(table)
    const all = [
      ...NUMERIC_FUNCTIONS.map((fn) => [fn, columns.filter(isNumeric)] as const),
      ...(['max', 'min'] as const).map(
        (fn) => [fn, columns.filter(({ type }) => aggregateType(fn, type) !== undefined)] as const,
      ),
    ]
    return all
      .filter(([fn, of]) => of.length > 0 && this.keep(this.word(fn)))
      .map(([fn, of]) => [fn, of.filter(({ name }) => this.keep(name))] as const)
  }
}

const BUILT_IN: Readonly<Record<string, GraphQLScalarType>> = {
  Int: INT,
  Float: FLOAT,
  String: GraphQLString,
  Boolean: GraphQLBoolean,
}
const NUMERIC = new Set(['int2', 'int4', 'int8', 'float', 'numeric'])
export const isNumeric = ({ type }: Column): boolean => NUMERIC.has(type.kind)
