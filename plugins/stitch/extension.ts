import {
  coerceInputValue,
  type FieldDefinitionNode,
  getNamedType,
  getNullableType,
  type GraphQLField,
  type GraphQLInputType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  isInputObjectType,
  isLeafType,
  isListType,
  isNonNullType,
  isObjectType,
  isRequiredArgument,
  isRequiredInputField,
  Kind,
  parseType,
} from 'graphql'
import { isObject, type Json, type JsonObject } from 'rowhouse/plan'
import type { ExtensionConfig, Mistake } from './config.js'
import { nameNode } from './document.js'
import type { Origin, Subschema } from './subschema.js'

/** A field of a type of one schema that another schema answers. */
export interface Extension {
  /** The schema that answers, and its root field. */
  readonly schema: string
  readonly query: string
  /** Columns of the row that the arguments need. */
  readonly columns: readonly string[]
  /** Types of the arguments in that schema, by name. */
  readonly argumentTypes: Readonly<Record<string, string>>
  /** Builds the arguments from the values of `columns`, in their order; for a batch, from all its keys. */
  argumentsFor(values: readonly Json[]): Readonly<Record<string, Json>>
  /** Whether the field is the first item of a list. */
  readonly first: boolean
  /** Whether the field is a whole list. */
  readonly many: boolean
  /** The field of a result that names its row, when one root field serves all rows. */
  readonly key?: string
}

interface Sides {
  /** The schema of the extended type. */
  readonly owner: Subschema
  readonly origin: Origin
  /** The schema that answers. */
  readonly target: Subschema
}

/** Checks an entry of the configuration against both schemas, and reports all its mistakes. */
export function readExtension(entry: ExtensionConfig, { owner, origin, target }: Sides) {
  const mistakes: Mistake[] = []
  const refuse = (path: string, message: string) => void mistakes.push({ path, message })
  const type = owner.source.getType(origin.name)
  const root = target.source.getQueryType()?.getFields()[entry.query]
  if (!isObjectType(type)) refuse('.type', `"${entry.type}" is not an object type`)
  else if (type.getFields()[entry.field]) refuse('.field', `"${entry.type}" has a field "${entry.field}" already`)
  if (!/^(?!__)[A-Za-z_]\w*$/.test(entry.field)) refuse('.field', `"${entry.field}" is not a valid GraphQL name`)
  if (!root) refuse('.query', `the schema "${target.name}" has no query "${entry.query}"`)
  if (!isObjectType(type) || !root) return { mistakes }

  const list = listItem(root.type)
  if (entry.many && !list) refuse('.many', `"${entry.query}" does not return a list`)
  const columns = new Map<string, string>()
  checkArguments(entry, root, columns, refuse)
  for (const [column, path] of columns) checkColumn(type, column, path, refuse)
  if (columns.size === 0) refuse('.arguments', `no argument is a column, such as "$${firstLeaf(type) ?? 'id'}"`)
  if (entry.batch) checkBatch(entry, entry.batch, root, columns, refuse)
  if (mistakes.length > 0) return { mistakes }

  const names = [...columns.keys()]
  const extension: Extension = {
    schema: target.name,
    query: entry.query,
    columns: names,
    argumentTypes: Object.fromEntries(root.args.map((argument) => [argument.name, String(argument.type)])),
    argumentsFor: (values) => {
      const byColumn = entry.batch
        ? new Map([[names[0]!, [...values]]])
        : new Map(names.map((name, i) => [name, values[i] ?? null]))
      return filled(entry.arguments as Json, byColumn) as JsonObject
    },
    first: list !== undefined && !entry.many,
    many: entry.many,
    key: entry.batch?.key,
  }
  return { extension, field: definition(entry, root, target, entry.many ? undefined : list), mistakes }
}

/** Defines the field in the merged schema. Arguments that the configuration does not set are left to the client. */
function definition(
  entry: ExtensionConfig,
  root: GraphQLField<unknown, unknown>,
  target: Subschema,
  item: GraphQLOutputType | undefined,
): FieldDefinitionNode {
  const type = String(getNullableType(item ?? root.type))
  const named = getNamedType(root.type).name
  const node = target.roots.query.find(({ name }) => name.value === entry.query)
  return {
    kind: Kind.FIELD_DEFINITION,
    name: nameNode(entry.field),
    arguments: (node?.arguments ?? []).filter(({ name }) => !Object.hasOwn(entry.arguments, name.value)),
    type: parseType(type.replace(named, target.rename(named)), { noLocation: true }),
    description: node?.description,
  }
}

type Refuse = (path: string, message: string) => void

const listItem = (type: GraphQLOutputType): GraphQLOutputType | undefined => {
  const bare = getNullableType(type)
  return isListType(bare) ? (bare.ofType as GraphQLOutputType) : undefined
}

function checkArguments(
  { query, arguments: given }: ExtensionConfig,
  root: GraphQLField<unknown, unknown>,
  columns: Map<string, string>,
  refuse: Refuse,
): void {
  for (const [name, value] of Object.entries(given)) {
    const argument = root.args.find((each) => each.name === name)
    if (argument) checkValue(value as Json, argument.type, `.arguments.${name}`, columns, refuse)
    else refuse(`.arguments.${name}`, `the query "${query}" has no argument "${name}"`)
  }
}

/** Checks literals against their types. Columns are not checked: their scalar may have another name in the other schema. */
function checkValue(
  value: Json,
  type: GraphQLInputType,
  path: string,
  columns: Map<string, string>,
  refuse: Refuse,
): void {
  const column = columnOf(value)
  if (column !== undefined) {
    if (isInputObjectType(getNamedType(type))) refuse(path, `takes an object, not a column`)
    columns.set(column, columns.get(column) ?? path)
    return
  }
  const bare = isNonNullType(type) ? (type.ofType as GraphQLInputType) : type
  if (isListType(bare) && Array.isArray(value)) {
    for (const [i, item] of value.entries()) {
      checkValue(item, bare.ofType as GraphQLInputType, `${path}[${i}]`, columns, refuse)
    }
    return
  }
  const named = getNamedType(bare)
  if (isInputObjectType(named) && isObject(value)) {
    const fields = named.getFields()
    for (const [key, item] of Object.entries(value)) {
      const field = fields[key]
      if (field) checkValue(item, field.type, `${path}.${key}`, columns, refuse)
      else refuse(`${path}.${key}`, `"${named.name}" has no field "${key}"`)
    }
    for (const field of Object.values(fields)) {
      if (isRequiredInputField(field) && !(field.name in value)) refuse(path, `"${field.name}" is missing`)
    }
    return
  }
  coerceInputValue(filled(value, new Map()), type, (_path, _value, error) => refuse(path, error.message))
}

function checkColumn(type: GraphQLObjectType, column: string, path: string, refuse: Refuse): void {
  const field = type.getFields()[column]
  if (!field) refuse(path, `"${type.name}" has no column "${column}"`)
  else if (!isLeafType(getNullableType(field.type))) refuse(path, `"${column}" of "${type.name}" is not a single value`)
  else if (field.args.some(isRequiredArgument)) refuse(path, `"${column}" of "${type.name}" needs arguments`)
}

function checkBatch(
  entry: ExtensionConfig,
  { argument, key }: NonNullable<ExtensionConfig['batch']>,
  root: GraphQLField<unknown, unknown>,
  columns: ReadonlyMap<string, string>,
  refuse: Refuse,
): void {
  const steps = argument.split('.')
  let value: Json | undefined = entry.arguments as Json
  let type: GraphQLInputType | undefined
  for (const step of steps) {
    const fields: { readonly name: string; readonly type: GraphQLInputType }[] =
      type === undefined ? [...root.args] : fieldsOf(type)
    type = fields.find(({ name }) => name === step)?.type
    value = value !== undefined && isObject(value) ? value[step] : undefined
    if (type === undefined) return refuse('.batch.argument', `"${entry.query}" has no argument "${argument}"`)
  }
  if (!isListType(getNullableType(type))) refuse('.batch.argument', `"${argument}" does not take a list`)
  if (value === undefined || columnOf(value) === undefined) {
    refuse('.batch.argument', `"${argument}" must be a column in "arguments"`)
  }
  if (columns.size > 1) refuse('.batch', 'a batch can use only one column')
  const item = listItem(root.type)
  const result = item && getNullableType(item)
  if (!result) return refuse('.batch', `"${entry.query}" does not return a list`)
  if (!isObjectType(result)) return refuse('.batch', `"${entry.query}" does not return a list of objects`)
  checkColumn(result, key, '.batch.key', refuse)
}

const fieldsOf = (type: GraphQLInputType) => {
  const bare = getNullableType(type)
  return isInputObjectType(bare) ? Object.values(bare.getFields()) : []
}

const firstLeaf = (type: GraphQLObjectType): string | undefined =>
  Object.values(type.getFields()).find((field) => isLeafType(getNullableType(field.type)))?.name

/** Returns the column of `"$city"`. `"$$"` at the start is a dollar sign. */
function columnOf(value: Json): string | undefined {
  return typeof value === 'string' && /^\$[^$]/.test(value) ? value.slice(1) : undefined
}

function filled(value: Json, columns: ReadonlyMap<string, Json>): Json {
  if (typeof value === 'string') {
    const column = columnOf(value)
    if (column !== undefined) return columns.get(column) ?? null
    return value.startsWith('$$') ? value.slice(1) : value
  }
  if (Array.isArray(value)) return value.map((item) => filled(item, columns))
  if (value === null || !isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filled(item, columns)]))
}
