import {
  DirectiveLocation,
  GraphQLBoolean,
  GraphQLDirective,
  type GraphQLFieldConfig,
  GraphQLID,
  GraphQLInterfaceType,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLSchema,
  GraphQLString,
  specifiedDirectives,
} from 'graphql'
import {
  type Column,
  type ComputedField,
  type FunctionData,
  isGraphqlName,
  type Names,
  type SqlType,
  type Table,
} from 'rowhouse/plan'
import { exposed } from './exposed.js'
import { type Dialect, takesNames } from './names.js'
import { Registry, typed } from './registry.js'
import { NODE, type RootAction, type RootField } from './roots.js'
import { FLOAT, INT } from './scalars.js'
import { SchemaInputs } from './schema-inputs.js'

type FieldConfig = GraphQLFieldConfig<unknown, unknown>
type Fields = Record<string, FieldConfig>

export interface SchemaParts {
  /**
   * Returns whether to include a name. Without the names that a document does not contain, a schema of 1,000 tables is as
   * small as the document, and validates it just as the whole schema would.
   */
  readonly keep?: (name: string) => boolean
  /** Names of scalars and enums to include although no kept name has them. */
  readonly scalars?: ReadonlySet<string> | undefined
  /** Whether there are subscriptions. */
  readonly subscriptions?: true | undefined
}

/** Builds the schema that a role sees in a dialect. */
export function buildSchema(
  names: Names,
  dialect: Dialect,
  { keep = () => true, scalars = new Set(), subscriptions }: SchemaParts = {},
): GraphQLSchema {
  const { query, mutation, subscription, tables, isNode } = exposed(names, dialect)
  const registry = new Registry(names, dialect, exposed(names, dialect), keep)
  const outputs = new SchemaOutputs(registry)
  // Only fragments name the types of nodes.
  const nodes = dialect === 'relay' ? [...tables].filter(([name, table]) => keep(name) && isNode(table)) : undefined
  const root = (name: string, fields: ReadonlyMap<string, RootField>, more: Fields = {}) =>
    new GraphQLObjectType({
      name,
      fields: () => ({
        ...more,
        ...Object.fromEntries(
          [...fields].filter(([field]) => keep(field)).map(([field, root]) => [field, outputs.root(root)]),
        ),
      }),
    })
  const empty = new GraphQLObjectType({
    name: 'query_root',
    description: 'This role may read no table.',
    fields: { _empty: { type: GraphQLString } },
  })
  return new GraphQLSchema({
    query: query.size > 0 ? root('query_root', query, nodes && outputs.node()) : empty,
    types: [...(nodes ?? []).map(([, table]) => outputs.row(table)), ...registry.scalarsNamed(scalars)],
    mutation: mutation.size > 0 ? root('mutation_root', mutation) : undefined,
    subscription:
      subscriptions && query.size > 0 ? root('subscription_root', subscription, nodes && outputs.node()) : undefined,
    directives: dialect === 'alpha' ? undefined : [...specifiedDirectives, CACHED],
    assumeValid: true,
  })
}

/** Clients of Hasura send it. */
const CACHED = new GraphQLDirective({
  name: 'cached',
  description: 'It has no effect: every query reads the database.',
  locations: [DirectiveLocation.QUERY],
  args: {
    ttl: { type: new GraphQLNonNull(INT), defaultValue: 60 },
    refresh: { type: new GraphQLNonNull(GraphQLBoolean), defaultValue: false },
  },
})

/** How long the last whole schema is kept after its last use. */
const KEEP_MS = 10_000
let last:
  | { readonly names: Names; readonly dialect: Dialect; readonly schema: GraphQLSchema; readonly until: number }
  | undefined

/**
 * Returns everything that a role sees in a dialect. Keeps the last schema for some seconds, because tools query one type
 * after the other, but never two: one takes more than 100 MB for 2,000 tables.
 */
export function wholeSchema(names: Names, dialect: Dialect, subscriptions?: true): GraphQLSchema {
  if (last?.names !== names || last.dialect !== dialect) last = undefined
  const schema = last?.schema ?? buildSchema(names, dialect, { subscriptions })
  last = { names, dialect, schema, until: performance.now() + KEEP_MS }
  return schema
}

/**
 * Frees a whole schema that is old or of another snapshot. Every task must call it: a worker waits for tasks without
 * running its event loop, so no timer fires there, and an object that a WeakRef returned is never freed.
 */
export function dropOldSchema({ snapshot }: Names): void {
  if (last && (last.names.snapshot !== snapshot || performance.now() > last.until)) last = undefined
}

/** The types that fields return: rows, aggregates, and the responses of mutations. */
class SchemaOutputs {
  private readonly inputs: SchemaInputs

  constructor(private readonly registry: Registry) {
    this.inputs = new SchemaInputs(registry)
  }

  root({ action, table, call }: RootField): FieldConfig {
    if (call?.result?.values) return { type: this.values(table, call.many), args: this.inputs.call(call) }
    if (call && !call.many) return this.called(table, false, call)
    const args = this.inputs[action.args](table)
    return { type: this.given(action.gives, table), args: call ? { ...this.inputs.call(call), ...args } : args }
  }

  /** A value that a function returns, or a list of them. */
  private values({ columns: [column] }: Table, many: boolean): GraphQLOutputType {
    const type = this.registry.value((column as Column).type)
    return many ? new GraphQLNonNull(new GraphQLList(type)) : type
  }

  private given(gives: RootAction['gives'], table: Table): GraphQLOutputType {
    switch (gives) {
      case 'rows':
        return this.rows(table)
      case 'row':
        return this.row(table)
      case 'aggregate':
        return new GraphQLNonNull(this.aggregate(table))
      case 'connection':
        return new GraphQLNonNull(this.connection(table))
      case 'response':
        return this.response(table)
      case 'responses':
        return new GraphQLList(this.response(table))
    }
  }

  /** A field whose rows, or one row, a function returns. */
  private called(table: Table, many: boolean, call: FunctionData | ComputedField): FieldConfig {
    const args = this.inputs.call(call)
    return many
      ? { type: this.rows(table), args: { ...args, ...this.inputs.select(table) } }
      : { type: this.row(table), args }
  }

  private object(table: Table, suffix: string, fields: () => Fields): GraphQLObjectType {
    const name = this.registry.nameOf(table, suffix)
    return this.registry.once(name, () => new GraphQLObjectType({ name, fields }))
  }

  private rows(table: Table): GraphQLOutputType {
    const type = this.row(table)
    return this.registry.modern ? new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(type))) : new GraphQLList(type)
  }

  /** The root field of Relay that returns a row of any table. */
  node(): Fields {
    return { [NODE]: { type: this.nodeType(), args: typed({ id: new GraphQLNonNull(GraphQLID) }) } }
  }

  private nodeType(): GraphQLInterfaceType {
    const make = (name: string) =>
      new GraphQLInterfaceType({ name, fields: typed({ id: new GraphQLNonNull(GraphQLID) }) })
    return this.registry.once('Node', make)
  }

  private connection(table: Table): GraphQLObjectType {
    const pageInfo = this.registry.once('PageInfo', (name) => {
      const [cursor, has] = [new GraphQLNonNull(GraphQLString), new GraphQLNonNull(GraphQLBoolean)]
      const fields = typed({ startCursor: cursor, endCursor: cursor, hasNextPage: has, hasPreviousPage: has })
      return new GraphQLObjectType({ name, fields })
    })
    const edge = this.object(table, 'Edge', () =>
      typed<GraphQLOutputType>({
        cursor: new GraphQLNonNull(GraphQLString),
        node: new GraphQLNonNull(this.row(table)),
      }),
    )
    const edges = new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(edge)))
    return this.object(table, 'Connection', () =>
      typed<GraphQLOutputType>({ pageInfo: new GraphQLNonNull(pageInfo), edges }),
    )
  }

  row(table: Table): GraphQLObjectType {
    const make = (name: string) => {
      const interfaces = this.registry.exposed.isNode(table) ? [this.nodeType()] : []
      return new GraphQLObjectType({ name, interfaces, fields: () => this.rowFields(table) })
    }
    return this.registry.once(this.registry.nameOf(table), make)
  }

  private rowFields(table: Table): Fields {
    const { modern } = this.registry
    const fields: Fields = Object.create(null)
    if (this.registry.exposed.isNode(table)) fields['id'] = { type: new GraphQLNonNull(GraphQLID) }
    for (const { name, type, nullable } of this.registry.columns(table)) {
      const output = this.registry.value(type)
      if (fields[name]) continue
      // A part of a JSON value may be absent.
      if (modern && (type.kind === 'json' || type.kind === 'jsonb')) {
        fields[name] = { type: output, args: typed({ path: GraphQLString }) }
      } else fields[name] = { type: modern && !nullable ? new GraphQLNonNull(output) : output }
    }
    for (const field of this.computedFields(table)) fields[field.name] ??= this.computedField(field)
    for (const { name, gives, table: remote } of this.registry.related(table)) {
      fields[name] ??=
        gives === 'object'
          ? { type: this.row(remote) }
          : { type: this.given(gives === 'array' ? 'rows' : gives, remote), args: this.inputs.select(remote) }
    }
    for (const { name, table: remote } of this.registry.connections(table)) {
      fields[name] ??= { type: this.given('connection', remote), args: this.inputs.connection(remote) }
    }
    if (Object.keys(fields).length === 0) fields['_empty'] = { type: GraphQLString }
    return fields
  }

  private computedFields(table: Table): readonly ComputedField[] {
    const { modern, names, exposed, keep } = this.registry
    if (!modern) return []
    return names.computedFields(table).filter(({ name, gives, arguments: args }) => {
      const shown = 'type' in gives || exposed.nameOf(gives.table) !== undefined
      return shown && isGraphqlName(name) && keep(name) && takesNames(args)
    })
  }

  private computedField(field: ComputedField): FieldConfig {
    const { gives } = field
    if ('type' in gives) return { type: this.registry.value(gives.type), args: this.inputs.call(field) }
    return this.called(this.registry.names.table(gives.table, 'select', '$'), gives.many, field)
  }

  private aggregate(table: Table): GraphQLObjectType {
    return this.object(table, '_aggregate', () =>
      typed<GraphQLOutputType>({ aggregate: this.aggregateFields(table), nodes: this.rows(table) }),
    )
  }

  private aggregateFields(table: Table): GraphQLObjectType {
    return this.object(table, '_aggregate_fields', () => {
      const count = {
        type: new GraphQLNonNull(INT),
        args: typed({ columns: this.inputs.columnList(table), distinct: GraphQLBoolean }),
      }
      const functions = this.registry.functions(table).map(([fn, columns]) => {
        const fields = () =>
          typed(Object.fromEntries(columns.map(({ name, type }) => [name, this.computed(fn, type)] as const)))
        return [this.registry.word(fn), { type: this.object(table, `_${fn}_fields`, fields) }] as const
      })
      return { count, ...Object.fromEntries(functions) }
    })
  }

  private computed(fn: string, type: SqlType): GraphQLOutputType {
    if (fn === 'min' || fn === 'max') return this.registry.value(type)
    if (fn !== 'sum') return FLOAT
    const name = type.kind === 'int2' || type.kind === 'int4' ? 'int8' : type.kind === 'int8' ? 'numeric' : type.name
    return this.registry.scalar({ schema: 'pg_catalog', name, kind: 'numeric' })
  }

  private response(table: Table): GraphQLObjectType {
    return this.object(table, '_mutation_response', () => {
      const rows = this.registry.names.may(table, 'select') ? this.rows(table) : undefined
      return this.registry.words<GraphQLOutputType>({
        affected_rows: new GraphQLNonNull(INT),
        returning: rows && (rows instanceof GraphQLNonNull ? rows : new GraphQLNonNull(rows)),
      })
    })
  }
}
