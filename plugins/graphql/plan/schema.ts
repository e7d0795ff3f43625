import {
  GraphQLBoolean,
  GraphQLEnumType,
  type GraphQLFieldConfigArgumentMap,
  type GraphQLFieldConfigMap,
  GraphQLFloat,
  GraphQLInputObjectType,
  type GraphQLInputFieldConfigMap,
  type GraphQLInputType,
  GraphQLInt,
  GraphQLList,
  type GraphQLNamedType,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLScalarType,
  GraphQLSchema,
  GraphQLString,
} from 'graphql'
import {
  castType,
  type Column,
  type ComputedField,
  type FunctionData,
  type Names,
  operatorsOn,
  type SqlType,
  type Table,
} from 'rowhouse/plan'
import {
  type Dialect,
  exposed,
  isEnumName,
  isGraphqlName,
  NUMERIC_FUNCTIONS,
  type RootField,
  scalarName,
  takesNames,
} from './exposed.js'
import { ownOf } from './input.js'
import { computedColumns, keyOf } from './names.js'

type Fields = GraphQLFieldConfigMap<unknown, unknown>
const list = (type: GraphQLInputType) => new GraphQLList(new GraphQLNonNull(type))
const required = <T extends GraphQLInputType>(type: T) => new GraphQLNonNull(type)

/**
 * The schema that a role sees in a dialect.
 * @param keep leaves out what a document cannot mean, because its name does not occur in it: a schema of 1,000 tables
 *   is then as small as the document. The rules of the language hold for it as for the whole one.
 */
export function buildSchema(
  names: Names,
  dialect: Dialect,
  keep: (name: string) => boolean = () => true,
): GraphQLSchema {
  return new SchemaBuilder(names, dialect, keep).schema()
}

class SchemaBuilder {
  private readonly types = new Map<string, GraphQLNamedType>()
  private readonly names: Names
  private readonly dialect: Dialect
  private readonly modern: boolean
  private readonly keep: (name: string) => boolean

  constructor(names: Names, dialect: Dialect, keep: (name: string) => boolean) {
    this.names = names
    this.dialect = dialect
    this.modern = dialect === 'modern'
    this.keep = keep
  }

  schema(): GraphQLSchema {
    const { query, mutation } = exposed(this.names, this.dialect)
    const root = (name: string, fields: ReadonlyMap<string, RootField>) =>
      new GraphQLObjectType({
        name,
        fields: () =>
          Object.fromEntries(
            [...fields].filter(([field]) => this.keep(field)).map(([field, root]) => [field, this.rootField(root)]),
          ),
      })
    const empty = new GraphQLObjectType({
      name: 'query_root',
      description: 'This role may read no table.',
      fields: { _empty: { type: GraphQLString } },
    })
    return new GraphQLSchema({
      query: query.size > 0 ? root('query_root', query) : empty,
      ...(mutation.size > 0 ? { mutation: root('mutation_root', mutation) } : {}),
      assumeValid: true,
    })
  }

  private rootField({ action, table, call }: RootField): Fields[string] {
    const response = this.mutationResponse(table)
    const where = { type: required(this.boolExp(table)) }
    switch (action) {
      case 'select':
        if (call) return this.called(table, call.many, call)
        return { type: this.rows(table), args: this.selectArgs(table) }
      case 'by_pk':
        return { type: this.object(table), args: this.keyArgs(table) }
      case 'aggregate':
        return {
          type: new GraphQLNonNull(this.aggregate(table)),
          args: {
            ...(call ? this.callArgs(call) : {}),
            ...this.selectArgs(table),
          },
        }
      case 'insert':
        return {
          type: response,
          args: { objects: { type: required(list(this.insertInput(table))) }, ...this.conflict(table) },
        }
      case 'insert_one':
        return {
          type: this.object(table),
          args: { object: { type: required(this.insertInput(table)) }, ...this.conflict(table) },
        }
      case 'update':
        return { type: response, args: { where, ...this.operators(table) } }
      case 'update_by_pk':
        return {
          type: this.object(table),
          args: { pk_columns: { type: required(this.keyInput(table)) }, ...this.operators(table) },
        }
      case 'update_many':
        return { type: new GraphQLList(response), args: { updates: { type: required(list(this.updates(table))) } } }
      case 'delete':
        return { type: response, args: { where } }
      case 'delete_by_pk':
        return { type: this.object(table), args: this.keyArgs(table) }
    }
  }

  /** Rows that a function gives, or one. */
  private called(table: Table, many: boolean, call: FunctionData | ComputedField): Fields[string] {
    const args = this.callArgs(call)
    return many
      ? { type: this.rows(table), args: { ...args, ...this.selectArgs(table) } }
      : { type: this.object(table), args }
  }

  /** The arguments of a function that a client gives, as one input. */
  private callArgs(call: FunctionData | ComputedField): GraphQLFieldConfigArgumentMap {
    const own = call.arguments.filter((each) => each.is === 'client')
    if (own.length === 0) return {}
    const type = this.once(
      exposed(this.names, this.dialect).argsOf(call),
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: () => Object.fromEntries(own.map((each) => [each.name as string, { type: this.input(each.type) }])),
        }),
    )
    return { args: { type: own.every(({ optional }) => optional) ? type : required(type) } }
  }

  private once<T extends GraphQLNamedType>(name: string, make: (name: string) => T): T {
    let type = this.types.get(name) as T | undefined
    if (!type) this.types.set(name, (type = make(name)))
    return type
  }

  private nameOf(table: Table): string {
    return exposed(this.names, this.dialect).nameOf(table) as string
  }

  private columns(table: Table, action: 'select' | 'insert' | 'update' = 'select'): readonly Column[] {
    return this.names.columns(table, action).filter(({ name }) => isGraphqlName(name) && this.keep(name))
  }

  /** Relationships to tables that have a type. A column goes before a relationship of its name. */
  private relationships(table: Table) {
    return this.names
      .relationships(table)
      .filter(({ relationship: { name }, table: remote }) => isGraphqlName(name) && this.isType(remote))
  }

  private isType(table: Table): boolean {
    return exposed(this.names, this.dialect).nameOf(table) !== undefined
  }

  private rows(table: Table): GraphQLOutputType {
    const type = this.object(table)
    return this.modern ? new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(type))) : new GraphQLList(type)
  }

  private object(table: Table): GraphQLObjectType {
    return this.once(
      this.nameOf(table),
      (name) => new GraphQLObjectType({ name, fields: () => this.objectFields(table) }),
    )
  }

  private objectFields(table: Table): Fields {
    const fields: Fields = Object.create(null)
    for (const { name, type, nullable } of this.columns(table)) {
      const output = this.output(type)
      const isJson = this.modern && (type.kind === 'json' || type.kind === 'jsonb')
      fields[name] = {
        // A part of a value may be absent.
        type: this.modern && !nullable && !isJson ? new GraphQLNonNull(output) : output,
        ...(isJson ? { args: { path: { type: GraphQLString } } } : {}),
      }
    }
    for (const field of this.computedFields(table)) fields[field.name] = this.computedField(field)
    for (const { relationship, table: remote } of this.relationships(table)) {
      const { name, type } = relationship
      if (this.keep(name) && !fields[name]) {
        fields[name] =
          type === 'object' ? { type: this.object(remote) } : { type: this.rows(remote), args: this.selectArgs(remote) }
      }
      const aggregate = `${name}_aggregate`
      if (this.offersAggregate(type, remote) && this.keep(aggregate) && !fields[aggregate]) {
        fields[aggregate] = { type: new GraphQLNonNull(this.aggregate(remote)), args: this.selectArgs(remote) }
      }
    }
    if (Object.keys(fields).length === 0) fields['_empty'] = { type: GraphQLString }
    return fields
  }

  private computedFields(table: Table): readonly ComputedField[] {
    if (!this.modern) return []
    return this.names.computedFields(table).filter(({ name, gives, arguments: args }) => {
      const shown = 'type' in gives || this.isType(this.find(gives.table))
      return shown && isGraphqlName(name) && this.keep(name) && takesNames(args)
    })
  }

  private computedField(field: ComputedField): Fields[string] {
    const { gives } = field
    if ('type' in gives) return { type: this.output(gives.type), args: this.callArgs(field) }
    return this.called(this.find(gives.table), gives.many, field)
  }

  private find(ref: { readonly schema: string; readonly name: string }): Table {
    return this.names.table(ref, 'select', '$')
  }

  /** Computed values that can be compared and sorted by. */
  private computedColumns(table: Table): readonly Column[] {
    if (!this.modern) return []
    return computedColumns(this.names, table).filter(({ name }) => isGraphqlName(name) && this.keep(name))
  }

  private offersAggregate(type: 'object' | 'array', remote: Table): boolean {
    return this.modern && type === 'array' && this.names.mayAggregate(remote)
  }

  private selectArgs(table: Table): GraphQLFieldConfigArgumentMap {
    const page = { limit: { type: GraphQLInt }, offset: { type: GraphQLInt } }
    const where = { type: this.boolExp(table) }
    if (!this.modern) return { where, ...page, order_by: { type: new GraphQLList(GraphQLString) } }
    return {
      ...this.columnsArg('distinct_on', table),
      ...page,
      order_by: { type: list(this.orderBy(table)) },
      where,
    }
  }

  /** A list of columns, unless an enum can name none of them. */
  private columnsArg(name: string, table: Table): Record<string, { type: GraphQLInputType }> {
    const some = this.names.columns(table).some((column) => isEnumName(column.name))
    return some ? { [name]: { type: list(this.columnEnum(table, 'select')) } } : {}
  }

  private keyArgs(table: Table): GraphQLInputFieldConfigMap & GraphQLFieldConfigArgumentMap {
    return Object.fromEntries(
      table.primaryKey.map((name) => {
        const { type } = table.columnsByName.get(name) as Column
        return [keyOf(table, name), { type: required(this.input(type)) }]
      }),
    )
  }

  private keyInput(table: Table): GraphQLInputObjectType {
    return this.once(
      `${this.nameOf(table)}_pk_columns_input`,
      (name) => new GraphQLInputObjectType({ name, fields: () => this.keyArgs(table) }),
    )
  }

  private boolExp(table: Table): GraphQLInputObjectType {
    return this.once(
      `${this.nameOf(table)}_bool_exp`,
      (name) => new GraphQLInputObjectType({ name, fields: () => this.boolExpFields(table) }),
    )
  }

  private boolExpFields(table: Table): GraphQLInputFieldConfigMap {
    const self = this.boolExp(table)
    const many = this.modern ? list(self) : new GraphQLList(self)
    const fields: GraphQLInputFieldConfigMap = Object.assign(Object.create(null), {
      _and: { type: many },
      _not: { type: self },
      _or: { type: many },
    })
    // A role that may not see rows may name nothing of them.
    if (!this.names.may(table, 'select')) return fields
    for (const { relationship, table: remote } of this.relationships(table)) {
      if (this.keep(relationship.name)) fields[relationship.name] ??= { type: this.boolExp(remote) }
      const aggregate = `${relationship.name}_aggregate`
      if (this.offersAggregate(relationship.type, remote) && this.keep(aggregate)) {
        fields[aggregate] ??= { type: this.aggregateBoolExp(remote) }
      }
    }
    for (const { name, type } of [...this.columns(table), ...this.computedColumns(table)]) {
      if (!COMBINATORS.has(name)) fields[name] = { type: this.comparison(type) }
    }
    return fields
  }

  private aggregateBoolExp(table: Table): GraphQLInputObjectType {
    const rest = { distinct: { type: GraphQLBoolean }, filter: { type: this.boolExp(table) } }
    const flags = this.names.columns(table).filter(({ name, type }) => type.kind === 'bool' && isEnumName(name))
    const name = `${this.nameOf(table)}_aggregate_bool_exp`
    const part = (fn: string, fields: GraphQLInputFieldConfigMap) =>
      this.once(`${name}_${fn}`, (own) => new GraphQLInputObjectType({ name: own, fields: { ...fields, ...rest } }))
    const flag = () => this.once(`${this.nameOf(table)}_boolean_column`, (own) => enumOf(own, flags))
    return this.once(
      name,
      (own) =>
        new GraphQLInputObjectType({
          name: own,
          fields: () => ({
            count: {
              type: part('count', {
                ...this.columnsArg('arguments', table),
                predicate: { type: required(this.comparison(INT4)) },
              }),
            },
            ...Object.fromEntries(
              (flags.length > 0 ? ['bool_and', 'bool_or'] : []).map((fn) => [
                fn,
                {
                  type: part(fn, {
                    arguments: { type: required(flag()) },
                    predicate: { type: required(this.comparison(BOOL)) },
                  }),
                },
              ]),
            ),
          }),
        }),
    )
  }

  private comparison(type: SqlType): GraphQLInputObjectType {
    return this.once(
      this.comparisonName(type),
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: () => ({
            ...Object.fromEntries(
              operatorsOn(type)
                .filter(([operator]) => this.keep(`_${operator}`))
                .map(([operator, right]) => [`_${operator}`, { type: this.operand(operator, type, right as SqlType) }]),
            ),
            _is_null: { type: GraphQLBoolean },
            ...(this.modern ? this.casts(type) : {}),
          }),
        }),
    )
  }

  /** `_cast: {String: {_like: "..."}}` */
  private casts(type: SqlType): GraphQLInputFieldConfigMap {
    const as = CASTS[type.kind]
    const to = as && castType(type, as)
    if (!to || !this.keep('_cast')) return {}
    const cast = this.once(
      `${scalarName(type)}_cast_exp`,
      (name) => new GraphQLInputObjectType({ name, fields: () => ({ [as]: { type: this.comparison(to) } }) }),
    )
    return { _cast: { type: cast } }
  }

  private operand(operator: string, left: SqlType, right: SqlType): GraphQLInputType {
    if (operator === 'st_d_within') return this.near(left)
    const whole = left.kind === 'array' && left.name === right.name
    return right.kind === 'array' && right.element && !whole ? list(this.input(right.element)) : this.input(right)
  }

  private near(type: SqlType): GraphQLInputObjectType {
    return this.once(
      type.kind === 'geometry' ? 'st_d_within_input' : 'st_d_within_geography_input',
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: {
            distance: { type: required(GraphQLFloat) },
            from: { type: required(this.input(type)) },
            ...(type.kind === 'geography' ? { use_spheroid: { type: GraphQLBoolean } } : {}),
          },
        }),
    )
  }

  private comparisonName(type: SqlType): string {
    if (type.kind === 'array' && type.element) return `${this.scalar(type.element).name}_array_comparison_exp`
    const older = !this.modern && type.schema === 'pg_catalog' ? ALPHA_NAMES.get(type.name) : undefined
    return `${older ?? this.scalar(type).name}_comparison_exp`
  }

  /** Lists may hold null; nested ones are lists of lists only to PostgreSQL. */
  private output(type: SqlType): GraphQLOutputType {
    return type.kind === 'array' && type.element ? new GraphQLList(this.scalar(type.element)) : this.scalar(type)
  }

  private input(type: SqlType): GraphQLInputType {
    return type.kind === 'array' && type.element ? new GraphQLList(this.scalar(type.element)) : this.scalar(type)
  }

  private scalar(type: SqlType): GraphQLScalarType {
    let name = scalarName(type)
    const builtIn = type.schema === 'pg_catalog' ? ownOf(BUILT_IN, name) : undefined
    if (builtIn) return builtIn
    while (exposed(this.names, this.dialect).isTaken(name)) name += '_scalar'
    return this.once(name, () => new GraphQLScalarType({ name }))
  }

  private orderBy(table: Table): GraphQLInputObjectType {
    return this.once(
      `${this.nameOf(table)}_order_by`,
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: () => {
            const fields: GraphQLInputFieldConfigMap = Object.create(null)
            for (const { name, type } of [...this.columns(table), ...this.computedColumns(table)]) {
              if (type.kind !== 'json') fields[name] = { type: this.direction() }
            }
            for (const { relationship, table: remote } of this.relationships(table)) {
              const { name, type } = relationship
              if (type === 'object' && this.keep(name)) fields[name] ??= { type: this.orderBy(remote) }
              const aggregate = `${name}_aggregate`
              if (this.offersAggregate(type, remote) && this.keep(aggregate)) {
                fields[aggregate] ??= { type: this.aggregateOrderBy(remote) }
              }
            }
            if (Object.keys(fields).length === 0) fields['_empty'] = { type: this.direction() }
            return fields
          },
        }),
    )
  }

  private aggregateOrderBy(table: Table): GraphQLInputObjectType {
    return this.once(
      `${this.nameOf(table)}_aggregate_order_by`,
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: () => ({
            count: { type: this.direction() },
            ...Object.fromEntries(
              this.functions(table).map(([fn, columns]) => [
                fn,
                {
                  type: this.once(
                    `${this.nameOf(table)}_${fn}_order_by`,
                    (inner) =>
                      new GraphQLInputObjectType({
                        name: inner,
                        fields: Object.fromEntries(columns.map((column) => [column.name, { type: this.direction() }])),
                      }),
                  ),
                },
              ]),
            ),
          }),
        }),
    )
  }

  private direction(): GraphQLEnumType {
    return this.once(
      'order_by',
      (name) => new GraphQLEnumType({ name, values: Object.fromEntries(DIRECTIONS.map((way) => [way, {}])) }),
    )
  }

  /** Whatever the document names: the value of a variable may name any of them. */
  private columnEnum(table: Table, action: 'select' | 'update'): GraphQLEnumType {
    return this.once(`${this.nameOf(table)}_${action}_column`, (name) =>
      enumOf(name, this.names.columns(table, action)),
    )
  }

  private aggregate(table: Table): GraphQLObjectType {
    return this.once(
      `${this.nameOf(table)}_aggregate`,
      (name) =>
        new GraphQLObjectType({
          name,
          fields: () => ({ aggregate: { type: this.aggregateFields(table) }, nodes: { type: this.rows(table) } }),
        }),
    )
  }

  private aggregateFields(table: Table): GraphQLObjectType {
    return this.once(
      `${this.nameOf(table)}_aggregate_fields`,
      (name) =>
        new GraphQLObjectType({
          name,
          fields: () => ({
            count: {
              type: new GraphQLNonNull(GraphQLInt),
              args: { ...this.columnsArg('columns', table), distinct: { type: GraphQLBoolean } },
            },
            ...Object.fromEntries(
              this.functions(table).map(([fn, columns]) => [fn, { type: this.functionFields(table, fn, columns) }]),
            ),
          }),
        }),
    )
  }

  private functionFields(table: Table, fn: string, columns: readonly Column[]): GraphQLObjectType {
    return this.once(
      `${this.nameOf(table)}_${fn}_fields`,
      (name) =>
        new GraphQLObjectType({
          name,
          fields: Object.fromEntries(columns.map((column) => [column.name, { type: this.computed(fn, column.type) }])),
        }),
    )
  }

  private computed(fn: string, type: SqlType): GraphQLOutputType {
    if (fn === 'min' || fn === 'max') return this.output(type)
    if (fn !== 'sum') return GraphQLFloat
    const name = type.kind === 'int2' || type.kind === 'int4' ? 'int8' : type.kind === 'int8' ? 'numeric' : type.name
    return this.scalar({ schema: 'pg_catalog', name, kind: 'numeric' })
  }

  /** The functions that fit some column, with those columns. */
  private functions(table: Table): [string, readonly Column[]][] {
    const columns = this.columns(table)
    const all: [string, readonly Column[]][] = [
      ...NUMERIC_FUNCTIONS.map((fn): [string, readonly Column[]] => [fn, columns.filter(isNumeric)]),
      ...['max', 'min'].map((fn): [string, readonly Column[]] => [fn, columns.filter(hasExtremes)]),
    ]
    return all.filter(([fn, of]) => of.length > 0 && this.keep(fn))
  }

  private mutationResponse(table: Table): GraphQLObjectType {
    return this.once(
      `${this.nameOf(table)}_mutation_response`,
      (name) =>
        new GraphQLObjectType({
          name,
          fields: () => ({
            affected_rows: { type: new GraphQLNonNull(GraphQLInt) },
            ...(this.names.may(table, 'select') ? { returning: { type: this.returned(table) } } : {}),
          }),
        }),
    )
  }

  private returned(table: Table): GraphQLOutputType {
    const rows = this.rows(table)
    return rows instanceof GraphQLNonNull ? rows : new GraphQLNonNull(rows)
  }

  private insertInput(table: Table): GraphQLInputObjectType {
    if (!this.modern) return this.alphaInput(table)
    return this.once(
      `${this.nameOf(table)}_insert_input`,
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: () => ({ ...this.inputColumns(this.columns(table, 'insert')), ...this.nestedInputs(table) }),
        }),
    )
  }

  /** Of relationships whose rows may be inserted along. */
  private nestedInputs(table: Table): GraphQLInputFieldConfigMap {
    const inputs = this.relationships(table).filter(
      ({ relationship, table: remote }) =>
        this.keep(relationship.name) && remote.insertable && this.names.may(remote, 'insert'),
    )
    return Object.fromEntries(
      inputs.map(({ relationship: { name, type }, table: remote }) => [
        name,
        { type: type === 'object' ? this.relatedInput(remote, 'obj') : this.relatedInput(remote, 'arr') },
      ]),
    )
  }

  private relatedInput(table: Table, kind: 'obj' | 'arr'): GraphQLInputObjectType {
    return this.once(
      `${this.nameOf(table)}_${kind}_rel_insert_input`,
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: () => {
            const input = this.insertInput(table)
            return { data: { type: required(kind === 'obj' ? input : list(input)) }, ...this.conflict(table) }
          },
        }),
    )
  }

  /** One type for inserts and for `_set`: the union of their columns. */
  private alphaInput(table: Table): GraphQLInputObjectType {
    return this.once(
      `${this.nameOf(table)}_input`,
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: () => {
            const [inserted, updated] = [this.columns(table, 'insert'), this.columns(table, 'update')]
            return this.inputColumns([...inserted, ...updated.filter((column) => !inserted.includes(column))])
          },
        }),
    )
  }

  private inputColumns(columns: readonly Column[]): GraphQLInputFieldConfigMap {
    const fields = Object.fromEntries(columns.map(({ name, type }) => [name, { type: this.input(type) }]))
    return columns.length > 0 ? fields : { _empty: { type: GraphQLBoolean } }
  }

  private conflict(table: Table): GraphQLFieldConfigArgumentMap {
    if (!this.modern || !this.names.mayUpsert(table) || !this.names.may(table, 'update')) return {}
    if (!table.keys.some(({ name }) => isEnumName(name))) return {}
    const type = this.once(
      `${this.nameOf(table)}_on_conflict`,
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: () => ({
            constraint: { type: required(this.constraint(table)) },
            update_columns: { type: required(list(this.columnEnum(table, 'update'))), defaultValue: [] },
            where: { type: this.boolExp(table) },
          }),
        }),
    )
    return { on_conflict: { type } }
  }

  private constraint(table: Table): GraphQLEnumType {
    return this.once(`${this.nameOf(table)}_constraint`, (name) => enumOf(name, table.keys))
  }

  /** `_set` and the like. */
  private operators(table: Table): GraphQLFieldConfigArgumentMap & GraphQLInputFieldConfigMap {
    const columns = this.columns(table, 'update')
    if (!this.modern) return { _set: { type: required(this.alphaInput(table)) } }
    const input = (operator: string, of: readonly Column[], type?: GraphQLInputType): GraphQLInputFieldConfigMap => {
      if (of.length === 0) return {}
      const made = this.once(
        `${this.nameOf(table)}${operator}_input`,
        (name) =>
          new GraphQLInputObjectType({
            name,
            fields: Object.fromEntries(of.map((column) => [column.name, { type: type ?? this.input(column.type) }])),
          }),
      )
      return { [operator]: { type: made } }
    }
    const visible = new Set(this.columns(table).map(({ name }) => name))
    const changeable = columns.filter(({ name }) => visible.has(name))
    const jsonb = changeable.filter(({ type }) => type.kind === 'jsonb')
    return {
      ...input('_set', columns),
      ...input('_inc', changeable.filter(isNumeric)),
      ...input('_append', jsonb),
      ...input('_prepend', jsonb),
      ...input('_delete_key', jsonb, GraphQLString),
      ...input('_delete_elem', jsonb, GraphQLInt),
      ...input('_delete_at_path', jsonb, list(GraphQLString)),
    } as GraphQLFieldConfigArgumentMap & GraphQLInputFieldConfigMap
  }

  private updates(table: Table): GraphQLInputObjectType {
    return this.once(
      `${this.nameOf(table)}_updates`,
      (name) =>
        new GraphQLInputObjectType({
          name,
          fields: () => ({ where: { type: required(this.boolExp(table)) }, ...this.operators(table) }),
        }),
    )
  }
}

/** The names that an enum may have; one without any has `_empty`, because there is no enum without a value. */
function enumOf(name: string, all: readonly { readonly name: string }[]): GraphQLEnumType {
  const values = all.filter((each) => isEnumName(each.name)).map((each) => [each.name, {}])
  return new GraphQLEnumType({ name, values: values.length > 0 ? Object.fromEntries(values) : { _empty: {} } })
}

const INT4: SqlType = { schema: 'pg_catalog', name: 'int4', kind: 'int4', array: '_int4' }
const BOOL: SqlType = { schema: 'pg_catalog', name: 'bool', kind: 'bool', array: '_bool' }
const COMBINATORS = new Set(['_and', '_or', '_not'])
export const DIRECTIONS = ['asc', 'asc_nulls_first', 'asc_nulls_last', 'desc', 'desc_nulls_first', 'desc_nulls_last']
/** What a type can be compared as. */
const CASTS: Partial<Record<SqlType['kind'], string>> = {
  jsonb: 'String',
  geometry: 'geography',
  geography: 'geometry',
}
const BUILT_IN: Readonly<Record<string, GraphQLScalarType>> = {
  Int: GraphQLInt,
  Float: GraphQLFloat,
  String: GraphQLString,
  Boolean: GraphQLBoolean,
}
const ALPHA_NAMES: ReadonlyMap<string, string> = new Map([
  ['int4', 'integer'],
  ['bool', 'boolean'],
  ['float4', 'real'],
  ['text', 'text'],
  ['varchar', 'varchar'],
])
const NUMERIC = new Set(['int2', 'int4', 'int8', 'float', 'numeric'])
export const isNumeric = ({ type }: Column): boolean => NUMERIC.has(type.kind)
/** Types that PostgreSQL can tell the smallest and the largest of. */
const hasExtremes = (column: Column): boolean =>
  isNumeric(column) ||
  column.type.kind === 'text' ||
  ['date', 'timestamp', 'timestamptz', 'time', 'timetz', 'interval', 'money', 'inet'].includes(column.type.name)
