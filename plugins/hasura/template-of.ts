import { graphqlName, isObject, type Json, type JsonObject, NO_LIMITS, parseJson, ROOT_FIELDS } from 'rowhouse/plan'
import {
  type FieldNode,
  Kind,
  type ObjectValueNode,
  type OperationDefinitionNode,
  parse,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql'
import { type Metadata, objects, textOf } from './metadata.js'

/** A query template, or why the document cannot be one. */
type FoundTemplate =
  | {
      readonly template: JsonObject
      /** The root field of the document. */
      readonly field: string
      /** Names of the parameters. */
      readonly parameters: readonly string[]
    }
  | { readonly reason: string }

/** Thrown for what templates cannot express. */
class Inexpressible extends Error {}

const MAX_TOKENS = 20_000

/** Returns the query template that does the same as a GraphQL document. */
export function templateOf(text: string, metadata: Metadata): FoundTemplate {
  try {
    const { definitions } = parse(text, { maxTokens: MAX_TOKENS, noLocation: true })
    const [operation] = definitions
    if (definitions.length !== 1 || operation?.kind !== Kind.OPERATION_DEFINITION || operation.operation !== 'query') {
      throw new Inexpressible('only a document with one query can be a template')
    }
    const [field, ...others] = operation.selectionSet.selections
    if (field?.kind !== Kind.FIELD || others.length > 0) {
      throw new Inexpressible('only a query with one field can be a template')
    }
    const variables = new Variables(operation)
    const args = rootArguments(field, metadata, variables)
    return {
      template: { type: 'select', args },
      field: (field.alias ?? field.name).value,
      parameters: [...variables.used],
    }
  } catch (error) {
    return {
      reason: error instanceof Inexpressible ? error.message : `it is not a document: ${(error as Error).message}`,
    }
  }
}

/** The variables of a document. */
class Variables {
  readonly used = new Set<string>()
  private readonly defaults: ReadonlyMap<string, Json>

  constructor({ variableDefinitions = [] }: OperationDefinitionNode) {
    this.defaults = new Map(
      variableDefinitions.flatMap(({ variable, defaultValue }) =>
        defaultValue ? [[variable.name.value, constant(defaultValue)] as const] : [],
      ),
    )
  }

  /** @param missing value of a variable without a default, if it is optional here */
  parameter(name: string, missing?: Json): JsonObject {
    this.used.add(name)
    const fallback = this.defaults.get(name) ?? missing
    return fallback === undefined ? { param: name } : { param: name, default: fallback }
  }
}

function rootArguments(field: FieldNode, metadata: Metadata, variables: Variables): JsonObject {
  const name = field.name.value
  for (const table of metadata.tables) {
    for (const kind of ['select', 'select_by_pk'] as const) {
      if (rootField(table, kind) !== name) continue
      const args = { table: table['table'] ?? null, columns: columnsOf(field.selectionSet, metadata, variables) }
      if (kind === 'select') return { ...args, ...listArguments(field, variables) }
      const key = (field.arguments ?? []).map(({ name: column, value }) => {
        checkColumn(column.value, metadata)
        return [column.value, { $eq: operand(value, variables) }]
      })
      return { ...args, where: Object.fromEntries(key) as JsonObject }
    }
  }
  throw new Inexpressible(`the field ${name} is not one of a table that returns rows`)
}

/** Returns the name of a root field of a table. */
function rootField(table: JsonObject, kind: 'select' | 'select_by_pk'): string {
  const configuration = isObject(table['configuration']) ? table['configuration'] : {}
  const roots = isObject(configuration['custom_root_fields']) ? configuration['custom_root_fields'] : {}
  const ref = table['table']
  const plain = isObject(ref) ? graphqlName({ schema: textOf(ref['schema']), name: textOf(ref['name']) }) : textOf(ref)
  return textOf(roots[kind] ?? ROOT_FIELDS[kind].name(textOf(configuration['custom_name'] ?? plain)))
}

function columnsOf(selected: SelectionSetNode | undefined, metadata: Metadata, variables: Variables): Json[] {
  return (selected?.selections ?? []).map((field): Json => {
    if (field.kind !== Kind.FIELD) throw new Inexpressible('fragments cannot be in a template')
    const name = field.name.value
    if ((field.directives ?? []).length > 0) throw new Inexpressible('directives cannot be in a template')
    checkColumn(name, metadata)
    if (field.selectionSet) {
      return {
        name,
        ...(field.alias ? { alias: field.alias.value } : {}),
        columns: columnsOf(field.selectionSet, metadata, variables),
        ...listArguments(field, variables),
      }
    }
    if (field.alias || (field.arguments ?? []).length > 0) {
      throw new Inexpressible(`the column ${name} has an alias or arguments`)
    }
    return name
  })
}

/** Refuses fields that only GraphQL has. */
function checkColumn(name: string, { tables }: Metadata): void {
  const isCustom = tables.some((table) => {
    const { column_config: columns } = isObject(table['configuration']) ? table['configuration'] : {}
    const names = Object.values(isObject(columns) ? columns : {})
    return names.some((each) => isObject(each) && each['custom_name'] === name)
  })
  const isComputed = tables.some((table) => objects(table['computed_fields']).some((each) => each['name'] === name))
  if (isCustom || isComputed || name === '__typename' || name.endsWith('_aggregate')) {
    throw new Inexpressible(`only GraphQL has the field ${name}`)
  }
}

function listArguments(field: FieldNode, variables: Variables): JsonObject {
  const args: JsonObject = {}
  for (const { name, value } of field.arguments ?? []) {
    const key = name.value
    if (key === 'limit' || key === 'offset') {
      args[key] = value.kind === Kind.VARIABLE ? variables.parameter(value.name.value, null) : constant(value)
    } else if (key === 'where' && value.kind === Kind.OBJECT) args['where'] = condition(value, variables)
    else if (key === 'order_by' && value.kind !== Kind.VARIABLE) args['order_by'] = orders(value)
    else throw new Inexpressible(`the argument ${key} of ${field.name.value} cannot be in a template`)
  }
  return args
}

function condition(node: ObjectValueNode, variables: Variables): JsonObject {
  const entries = node.fields.map(({ name, value }): [string, Json] => {
    const key = name.value
    if (key === '_and' || key === '_or') {
      const parts = value.kind === Kind.LIST ? value.values : [value]
      return [key, parts.map((part) => condition(asObject(part, key), variables))]
    }
    if (key === '_is_null') return [key, constant(value)]
    if (/^_(?!not$)/.test(key) && value.kind !== Kind.OBJECT) return [key, operand(value, variables)]
    return [key, condition(asObject(value, key), variables)]
  })
  return Object.fromEntries(entries)
}

function asObject(node: ValueNode, key: string): ObjectValueNode {
  if (node.kind === Kind.OBJECT) return node
  throw new Inexpressible(`the condition on ${key} is a variable or null`)
}

function operand(node: ValueNode, variables: Variables): Json {
  if (node.kind === Kind.VARIABLE) return variables.parameter(node.name.value)
  return node.kind === Kind.LIST ? node.values.map((each) => operand(each, variables)) : constant(node)
}

/** Returns `[{column, type, nulls?}]` for `{author: {name: desc_nulls_last}}`. */
function orders(node: ValueNode, prefix = ''): Json[] {
  if (node.kind === Kind.LIST) return node.values.flatMap((each) => orders(each, prefix))
  if (node.kind !== Kind.OBJECT) throw new Inexpressible('order_by cannot be in a template')
  return node.fields.flatMap(({ name, value }): Json[] => {
    const column = prefix + name.value
    if (name.value.endsWith('_aggregate')) throw new Inexpressible(`only GraphQL has the field ${name.value}`)
    if (value.kind !== Kind.ENUM) return orders(value, `${column}.`)
    const [type = 'asc', , nulls] = value.value.split('_')
    return [{ column, type, ...(nulls === undefined ? {} : { nulls }) }]
  })
}

function constant(node: ValueNode): Json {
  switch (node.kind) {
    case Kind.INT:
    case Kind.FLOAT:
      return parseJson(node.value, NO_LIMITS)
    case Kind.STRING:
    case Kind.BOOLEAN:
    case Kind.ENUM:
      return node.value
    case Kind.NULL:
      return null
    case Kind.LIST:
      return node.values.map(constant)
    case Kind.OBJECT:
      return Object.fromEntries(node.fields.map(({ name, value }) => [name.value, constant(value)]))
    case Kind.VARIABLE:
      throw new Inexpressible(`the variable ${node.name.value} cannot be a parameter where it is used`)
  }
}
