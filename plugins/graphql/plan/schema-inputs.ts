import {
  GraphQLBoolean,
  GraphQLEnumType,
  type GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLList,
  GraphQLScalarType,
  GraphQLString,
} from 'graphql'
import {
  castType,
  type Column,
  type ComputedField,
  type FunctionData,
  isEnumName,
  isGraphqlName,
  operatorsOn,
  type SqlType,
  supports,
  type Table,
} from 'rowhouse/plan'
import { argumentKeys, enumType, isCursor, keyOf, rankKeys } from './names.js'
import { type InputFields, isNumeric, list, type Registry, required, typed } from './registry.js'
import { FLOAT, INT } from './scalars.js'

type Named = Pick<Column, 'name' | 'type'>

/** Builds the arguments of fields, and their input types. */
export class SchemaInputs {
  constructor(private readonly registry: Registry) {}

  /** Arguments of a field that returns a list of rows. */
  select(table: Table): InputFields {
    const [limit, offset, where] = [INT, INT, this.boolExp(table)]
    if (!this.registry.modern) return typed({ where, limit, offset, order_by: new GraphQLList(GraphQLString) })
    const [distinct, order] = [this.columnList(table), list(this.orderBy(table))]
    return this.registry.words<GraphQLInputType>({ distinct_on: distinct, limit, offset, order_by: order, where })
  }

  /** Arguments of a field that streams rows. */
  stream(table: Table): InputFields {
    const columns = () => this.values(this.registry.columns(table).filter(isCursor))
    const value = this.input(table, '_stream_cursor_value_input', columns)
    const cursor = this.input(table, '_stream_cursor_input', () =>
      this.registry.words<GraphQLInputType>({ initial_value: required(value), ordering: this.cursorOrdering() }),
    )
    const [size, cursors] = [required(INT), required(new GraphQLList(cursor))]
    return this.registry.words<GraphQLInputType>({ batch_size: size, cursor: cursors, where: this.boolExp(table) })
  }

  private cursorOrdering(): GraphQLEnumType {
    const make = (name: string) => new GraphQLEnumType({ name, values: { ASC: {}, DESC: {} } })
    return this.registry.once(this.registry.typeNamed('cursor_ordering'), make)
  }

  /** Arguments of a connection. */
  connection(table: Table): InputFields {
    const { limit: _, offset: __, ...rows } = this.select(table)
    const page = { first: INT, last: INT, after: GraphQLString, before: GraphQLString }
    return { ...rows, ...typed<GraphQLInputType>(page) }
  }

  /** The primary key. */
  key(table: Table): InputFields {
    const keys = table.primaryKey.map((name) => {
      const { type } = table.columnsByName.get(name) as Column
      const { naming } = this.registry.names
      return [keyOf(table, name, naming), required(this.registry.value(enumType(type, naming)))] as const
    })
    return typed(Object.fromEntries(keys))
  }

  insert(table: Table): InputFields {
    const objects = required(list(this.insertInput(table)))
    return this.registry.words<GraphQLInputType>({ objects, on_conflict: this.conflict(table) })
  }

  insertOne(table: Table): InputFields {
    const object = required(this.insertInput(table))
    return this.registry.words<GraphQLInputType>({ object, on_conflict: this.conflict(table) })
  }

  update(table: Table): InputFields {
    return { ...this.delete(table), ...this.changes(table) }
  }

  updateByKey(table: Table): InputFields {
    const key = this.input(table, '_pk_columns_input', () => this.key(table))
    return { ...this.registry.words({ pk_columns: required(key) }), ...this.changes(table) }
  }

  updateMany(table: Table): InputFields {
    return typed({ updates: required(list(this.input(table, '_updates', () => this.update(table)))) })
  }

  delete(table: Table): InputFields {
    return typed({ where: required(this.boolExp(table)) })
  }

  /** The arguments of a function that clients can set, as one input. */
  call(call: FunctionData | ComputedField): InputFields {
    const own = call.arguments.filter((each) => each.is === 'client')
    if (own.length === 0) return {}
    const keys = argumentKeys(call.arguments, this.registry.isCamel)
    const named = own.map(({ name = '', type }) => ({ name: keys.get(name) as string, type }))
    const type = this.registry.input(this.registry.exposed.argsOf(call), () => this.values(named))
    return typed({ args: own.every(({ optional }) => optional) ? type : required(type) })
  }

  /** A list of columns; undefined if no column has a name that is valid in an enum. */
  columnList(table: Table): GraphQLInputType | undefined {
    const some = this.registry.names.columns(table).some((column) => isEnumName(column.name))
    return some ? list(this.columnEnum(table, 'select')) : undefined
  }

  private input(table: Table, suffix: string, fields: () => InputFields): GraphQLInputObjectType {
    return this.registry.input(this.registry.nameOf(table, suffix), fields)
  }

  /** All columns, not only those in the document: the value of a variable can name any of them. */
  private columnEnum(table: Table, action: 'select' | 'update'): GraphQLEnumType {
    return this.registry.enum(
      this.registry.nameOf(table, `_${action}_column`),
      this.registry.names.columns(table, action),
    )
  }

  /** A field for each column or argument. */
  private values(columns: readonly Named[], type?: GraphQLInputType): InputFields {
    const fields: InputFields = {}
    for (const each of columns) fields[each.name] = { type: type ?? this.registry.value(each.type) }
    return fields
  }

  private boolExp(table: Table): GraphQLInputObjectType {
    return this.input(table, '_bool_exp', () => this.boolExpFields(table))
  }

  private boolExpFields(table: Table): InputFields {
    const self = this.boolExp(table)
    const many = this.registry.modern ? list(self) : new GraphQLList(self)
    const fields: InputFields = Object.assign(Object.create(null), typed({ _and: many, _not: self, _or: many }))
    // A role without the select permission cannot use columns in conditions.
    if (!this.registry.names.may(table, 'select')) return fields
    for (const { name, gives, table: remote } of this.registry.related(table)) {
      fields[name] ??= { type: gives === 'aggregate' ? this.aggregateBoolExp(remote) : this.boolExp(remote) }
    }
    for (const { name, type } of this.registry.comparable(table)) {
      if (!COMBINATORS.has(name)) fields[name] = { type: this.comparison(type) }
    }
    for (const { name, gives, table: remote } of this.registry.computedRows(table)) {
      if (gives !== 'aggregate') fields[name] ??= { type: this.boolExp(remote) }
    }
    return fields
  }

  private aggregateBoolExp(table: Table): GraphQLInputObjectType {
    const { names } = this.registry
    const part = (fn: string, result: SqlType, columns: GraphQLInputType | undefined) =>
      this.input(table, `_aggregate_bool_exp_${fn}`, () =>
        typed({
          arguments: columns,
          predicate: required(this.comparison(result)),
          distinct: GraphQLBoolean,
          filter: this.boolExp(table),
        }),
      )
    return this.input(table, '_aggregate_bool_exp', () => {
      const flags = names.columns(table).filter(({ name, type }) => type.kind === 'bool' && isEnumName(name))
      const count = part('count', INT4, this.columnList(table))
      if (flags.length === 0) return typed({ count })
      const flag = (fn: 'bool_and' | 'bool_or') => {
        const suffix = `_select_column_${this.registry.nameOf(table)}_aggregate_bool_exp_${fn}_arguments_columns`
        return part(fn, BOOL, required(this.registry.enum(this.registry.nameOf(table, suffix), flags)))
      }
      return typed({ count, bool_and: flag('bool_and'), bool_or: flag('bool_or') })
    })
  }

  private comparison(type: SqlType): GraphQLInputObjectType {
    const { keep, modern } = this.registry
    return this.registry.input(this.comparisonName(type), () => {
      const operators = operatorsOn(type)
        .filter(([operator]) => keep(this.registry.word(`_${operator}`)))
        .map(([operator, right]) => [`_${operator}`, this.operand(operator, type, right as SqlType)] as const)
      const cast = modern && keep('_cast') ? this.cast(type) : undefined
      const others = { _is_null: GraphQLBoolean, _cast: cast }
      return this.registry.words<GraphQLInputType>({ ...Object.fromEntries(operators), ...others })
    })
  }

  /** `_cast: {String: {_like: "..."}}` */
  private cast(type: SqlType): GraphQLInputType | undefined {
    const as = CASTS[type.kind]
    const to = as && castType(type, as)
    if (!as || !to) return undefined
    const name = this.registry.typeNamed(`${this.registry.scalar(type).name}_cast_exp`)
    return this.registry.input(name, () => typed({ [as]: this.comparison(to) }))
  }

  private operand(operator: string, left: SqlType, right: SqlType): GraphQLInputType {
    if (operator === 'st_d_within' || operator === 'st_3d_d_within') return this.near(left)
    if (right.search) return this.search()
    // Patterns have the type of the column, such as citext.
    if (this.registry.modern && left.kind === 'text' && right.kind === 'text' && !left.labels)
      return this.registry.value(left)
    return right.list && right.element ? list(this.registry.value(right.element)) : this.registry.value(right)
  }

  private near(type: SqlType): GraphQLInputObjectType {
    const name = type.kind === 'geometry' ? 'st_d_within_input' : 'st_d_within_geography_input'
    return this.registry.input(name, () =>
      typed<GraphQLInputType>({
        distance: required(FLOAT),
        from: required(this.registry.value(type)),
        use_spheroid: type.kind === 'geography' ? GraphQLBoolean : undefined,
      }),
    )
  }

  /** A text, or an object like that of `rank`. */
  private search(): GraphQLInputType {
    return this.registry.once(this.registry.typeNamed('full_text_query'), (name) => {
      const description = 'A full-text query: a text, or {query: String!, language: String}'
      return new GraphQLScalarType({ name, description })
    })
  }

  /** `{query: "red shoe", language: "english"}`, the best match first unless there is an order. */
  private rank(): GraphQLInputObjectType {
    return this.registry.input(this.registry.typeNamed('full_text_rank'), () =>
      typed<GraphQLInputType>({ query: required(GraphQLString), language: GraphQLString, order: this.direction() }),
    )
  }

  private comparisonName(type: SqlType): string {
    const { modern } = this.registry
    if (this.registry.isList(type)) {
      return this.registry.typeNamed(`${this.registry.scalar(type.element).name}_array_comparison_exp`)
    }
    const older = !modern && type.schema === 'pg_catalog' ? ALPHA_NAMES.get(type.name) : undefined
    return this.registry.typeNamed(`${older ?? this.registry.scalar(type).name}_comparison_exp`)
  }

  private orderBy(table: Table): GraphQLInputObjectType {
    return this.input(table, '_order_by', () => {
      const fields: InputFields = Object.create(null)
      for (const { name, type } of this.registry.comparable(table)) {
        if (type.kind !== 'json' && supports(type, 'sort')) fields[name] = { type: this.direction() }
      }
      for (const { name, gives, table: remote } of this.registry.related(table)) {
        if (gives === 'object') fields[name] ??= { type: this.orderBy(remote) }
        if (gives === 'aggregate') fields[name] ??= { type: this.aggregateOrderBy(remote) }
      }
      for (const { name, gives, table: remote } of this.registry.computedRows(table)) {
        if (gives === 'aggregate') fields[name] ??= { type: this.aggregateOrderBy(remote) }
      }
      for (const key of rankKeys(table, this.registry.names).keys()) {
        if (isGraphqlName(key) && this.registry.keep(key)) fields[key] ??= { type: this.rank() }
      }
      return Object.keys(fields).length > 0 ? fields : typed({ _empty: this.direction() })
    })
  }

  private aggregateOrderBy(table: Table): GraphQLInputObjectType {
    return this.input(table, '_aggregate_order_by', () => {
      const functions = this.registry
        .functions(table)
        .map(([fn, columns]) => [
          this.registry.word(fn),
          this.input(table, `_${fn}_order_by`, () => this.values(columns, this.direction())),
        ])
      return typed({ count: this.direction(), ...Object.fromEntries(functions) })
    })
  }

  private direction(): GraphQLEnumType {
    const ways = this.registry.isCamel ? DIRECTIONS.map((way) => way.toUpperCase()) : DIRECTIONS
    const make = (name: string) =>
      new GraphQLEnumType({ name, values: Object.fromEntries(ways.map((way) => [way, {}])) })
    return this.registry.once(this.registry.typeNamed('order_by'), make)
  }

  private insertInput(table: Table): GraphQLInputObjectType {
    if (!this.registry.modern) return this.alphaInput(table)
    return this.input(table, '_insert_input', () => ({
      ...this.columnInputs(this.registry.columns(table, 'insert')),
      ...this.relatedInputs(table),
    }))
  }

  /** Inputs of relationships whose rows the role may insert too. */
  private relatedInputs(table: Table): InputFields {
    const inputs = this.registry
      .related(table)
      .filter(({ gives, table: remote }) => gives !== 'aggregate' && this.mayInsert(remote))
    return typed(
      Object.fromEntries(
        inputs.map(({ name, gives, table: remote }) => {
          const input = () => this.insertInput(remote)
          const [suffix, data] = gives === 'object' ? ['_obj', input] : ['_arr', () => list(input())]
          const fields = () =>
            this.registry.words<GraphQLInputType>({ data: required(data()), on_conflict: this.conflict(remote) })
          return [name, this.input(remote, `${suffix}_rel_insert_input`, fields)]
        }),
      ),
    )
  }

  private mayInsert(table: Table): boolean {
    return table.insertable && this.registry.names.may(table, 'insert')
  }

  /** The type of inserts and of `_set`: the union of their columns. */
  private alphaInput(table: Table): GraphQLInputObjectType {
    return this.input(table, '_input', () => {
      const [inserted, updated] = [this.registry.columns(table, 'insert'), this.registry.columns(table, 'update')]
      return this.columnInputs([...inserted, ...updated.filter((column) => !inserted.includes(column))])
    })
  }

  private columnInputs(columns: readonly Column[]): InputFields {
    return columns.length > 0 ? this.values(columns) : typed({ _empty: GraphQLBoolean })
  }

  private conflict(table: Table): GraphQLInputObjectType | undefined {
    const { modern, names } = this.registry
    if (!modern) return undefined
    const keys = names.conflictKeys(table)
    if (!keys.some(({ name }) => isEnumName(name))) return undefined
    return this.input(table, '_on_conflict', () => ({
      constraint: { type: required(this.registry.enum(this.registry.nameOf(table, '_constraint'), keys)) },
      [this.registry.word('update_columns')]: {
        type: required(list(this.columnEnum(table, 'update'))),
        defaultValue: [],
      },
      where: { type: this.boolExp(table) },
    }))
  }

  /** The arguments of an update that change columns: `_set` and the others. */
  private changes(table: Table): InputFields {
    if (!this.registry.modern) return typed({ _set: required(this.alphaInput(table)) })
    // All columns, not only those in the document: an operator can be empty.
    const columns = this.registry.allColumns(table, 'update')
    const visible = new Set(this.registry.allColumns(table).map(({ name }) => name))
    const changeable = columns.filter(({ name }) => visible.has(name))
    const jsonb = changeable.filter(({ type }) => type.kind === 'jsonb')
    const kept = (of: readonly Column[]) => of.filter(({ name }) => this.registry.keep(name))
    const input = (operator: string, of: readonly Column[], type?: GraphQLInputType) =>
      of.length > 0 ? this.input(table, `${operator}_input`, () => this.values(kept(of), type)) : undefined
    return this.registry.words({
      // An empty `_set` names no column, and writes the presets.
      _set: columns.length > 0 ? this.input(table, '_set_input', () => this.columnInputs(kept(columns))) : undefined,
      _inc: input('_inc', changeable.filter(isNumeric)),
      _append: input('_append', jsonb),
      _prepend: input('_prepend', jsonb),
      _delete_key: input('_delete_key', jsonb, GraphQLString),
      _delete_elem: input('_delete_elem', jsonb, INT),
      _delete_at_path: input('_delete_at_path', jsonb, list(GraphQLString)),
    })
  }
}

const INT4: SqlType = { schema: 'pg_catalog', name: 'int4', kind: 'int4', array: '_int4' }
const BOOL: SqlType = { schema: 'pg_catalog', name: 'bool', kind: 'bool', array: '_bool' }
const COMBINATORS = new Set(['_and', '_or', '_not'])
const DIRECTIONS = ['asc', 'asc_nulls_first', 'asc_nulls_last', 'desc', 'desc_nulls_first', 'desc_nulls_last']
/** The types that `_cast` can convert to. */
const CASTS: Partial<Record<SqlType['kind'], string>> = {
  jsonb: 'String',
  geometry: 'geography',
  geography: 'geometry',
}
const ALPHA_NAMES: ReadonlyMap<string, string> = new Map([
  ['int4', 'integer'],
  ['bool', 'boolean'],
  ['float4', 'real'],
  ['text', 'text'],
  ['varchar', 'varchar'],
])
