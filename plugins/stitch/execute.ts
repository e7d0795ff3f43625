import {
  execute,
  type FieldNode,
  getNamedType,
  type GraphQLFieldResolver,
  type GraphQLError,
  type GraphQLNamedType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  type GraphQLTypeResolver,
  isCompositeType,
  isObjectType,
  Kind,
  type SelectionSetNode,
  type VariableDefinitionNode,
  visit,
} from 'graphql'
import { type Json, type JsonObject, NumberText, stringifyJson } from 'rowhouse/plan'
import { atField, fieldError, missingField, type Outcome, publicError, type Value } from './answer.js'
import { type Document, InvalidDocument, nameNode } from './document.js'
import type { Extension } from './extension.js'
import type { Merged } from './merge.js'
import type { Origin, RootKind } from './subschema.js'
import { named } from './remote.js'
import { isRow, Requests, type RequestsOptions } from './requests.js'
import { columnAlias, translate, type Translation, typeAlias } from './selection.js'

interface ExecuteOptions extends Pick<RequestsOptions, 'targets' | 'maxRequests' | 'signal' | 'onEnd'> {
  readonly merged: Merged
  readonly document: Document
  readonly text: string
  readonly variables: JsonObject
  /** Called with internal errors. */
  readonly onUnexpected: (error: Error) => void
}

/**
 * Runs an operation against the schemas. graphql-js builds the response as if all data were local; the resolvers only
 * fetch root fields.
 * @throws InvalidDocument 400 when a variable does not have the type that the operation declares
 */
export async function executeStitched(options: ExecuteOptions): Promise<Outcome> {
  const { merged, document, variables } = options
  const unplaced: GraphQLError[] = []
  const prefix = unusedPrefix(options.text)
  const requests = new Requests({
    ...options,
    definitions: definitionsOf(document, merged),
    values: variables,
    prefix,
    onError: (error) => void unplaced.push(error),
  })
  const context: Context = { merged, document, prefix, requests, batches: new Map(), places: new Map() }
  const result = await execute({
    schema: merged.schema,
    document: { kind: Kind.DOCUMENT, definitions: [document.operation, ...document.fragments.values()] },
    contextValue: context,
    variableValues: plainVariables(variables),
    fieldResolver: resolve,
    typeResolver: resolveType,
  })
  if (!('data' in result)) throw new InvalidDocument('validation-failed', result.errors ?? [])
  const errors = [...(result.errors ?? []), ...unplaced.slice(0, MAX_UNPLACED)]
  return {
    status: 200,
    data: result.data as Json,
    errors: errors.map((error) => publicError(error, options.onUnexpected)),
  }
}
const MAX_UNPLACED = 20

interface Context {
  readonly merged: Merged
  readonly document: Document
  readonly prefix: string
  readonly requests: Requests
  /** Open batches by their place in the document. */
  readonly batches: Map<string, Batch>
  /** Numbers of places in the document: graphql-js hands all rows of a list the same nodes. */
  readonly places: Map<readonly FieldNode[], string>
}
interface Batch {
  readonly keys: Map<string, Json>
  readonly rows: Promise<Error | ReadonlyMap<string, readonly Value[]> | null>
}

/** Finds a prefix that the client's document does not contain, so that added names never conflict with its own. */
function unusedPrefix(text: string): string {
  let prefix = 'st'
  while (text.includes(prefix)) prefix += 'x'
  return prefix
}

const resolve: GraphQLFieldResolver<unknown, Context> = (source, _args, context, info) => {
  const { merged } = context
  const { parentType, fieldName } = info
  if (info.path.prev === undefined) {
    const operation = parentType === merged.schema.getMutationType() ? 'mutation' : 'query'
    // graphql-js resolves introspection and `__typename` itself.
    return fetchRoot(operation, merged.roots[operation].get(fieldName)!, context, info)
  }
  const extension = merged.extensions.get(`${parentType.name}.${fieldName}`)
  if (extension) return fetchExtension(extension, source, context, info)
  return convertNumbers(property(source, String(info.path.key), schemaOf(parentType, merged)), info.returnType)
}

const schemaOf = ({ name }: GraphQLNamedType, { types }: Merged): string => types.get(name)?.schema ?? ''

const resolveType: GraphQLTypeResolver<unknown, Context> = (source, { merged, prefix }, _info, abstractType) => {
  const schema = schemaOf(abstractType, merged)
  const name = property(source, typeAlias(prefix), schema)
  const type = merged.schema.getPossibleTypes(abstractType).find((each) => merged.types.get(each.name)?.name === name)
  if (type) return type.name
  const message = `${named(schema)} returned an object whose type does not belong to "${abstractType.name}"`
  throw fieldError('remote-invalid', message, schema)
}

async function fetchRoot(operation: RootKind, { schema, name }: Origin, context: Context, info: GraphQLResolveInfo) {
  const answer = await context.requests.fetch({ schema, operation, node: () => rootNode(name, context, info) })
  return convertNumbers(answer, info.returnType)
}

async function fetchExtension(extension: Extension, source: unknown, context: Context, info: GraphQLResolveInfo) {
  const { schema, query, columns, key, first, many } = extension
  const owner = schemaOf(info.parentType, context.merged)
  const values: Json[] = []
  for (const column of columns) {
    const value = property(source, columnAlias(context.prefix, column), owner)
    if (value instanceof Error) return value
    // A null argument could mean "all rows" to the other schema, so nothing is fetched.
    if (value === null) return null
    values.push(value as Json)
  }
  const place = placeOf(context, info)
  const field = { schema, operation: 'query' } as const
  if (key === undefined) {
    const answer = await context.requests.fetch({
      ...field,
      key: `${place} ${stringifyJson(values)}`,
      node: () => rootNode(query, context, info),
      arguments: () => typedArguments(extension, values),
    })
    if (first && answer instanceof Error) return atField(answer)
    return convertNumbers(first && Array.isArray(answer) ? (answer[0] ?? null) : answer, info.returnType)
  }

  let batch = context.batches.get(place)
  if (!batch) {
    const keys = new Map<string, Json>()
    const answer = context.requests.fetch({
      ...field,
      node: () => {
        // The request is being sent, so further rows need another one.
        context.batches.delete(place)
        return rootNode(query, context, info, [key])
      },
      arguments: () => typedArguments(extension, [...keys.values()]),
    })
    batch = { keys, rows: answer.then((rows) => byKey(rows, columnAlias(context.prefix, key), schema)) }
    context.batches.set(place, batch)
  }
  const text = keyText(values[0]!)
  batch.keys.set(text, values[0]!)
  const rows = await batch.rows
  if (rows === null) return null
  if (rows instanceof Error) return atField(rows)
  const found = rows.get(text) ?? []
  return convertNumbers(many ? [...found] : (found[0] ?? null), info.returnType)
}

const typedArguments = (extension: Extension, values: readonly Json[]) =>
  Object.fromEntries(
    Object.entries(extension.argumentsFor(values)).map(([name, value]) => [
      name,
      { type: extension.argumentTypes[name]!, value },
    ]),
  )

function placeOf({ places }: Context, { fieldNodes }: GraphQLResolveInfo): string {
  const place = places.get(fieldNodes) ?? String(places.size)
  places.set(fieldNodes, place)
  return place
}

/** Builds a root field of a schema with the arguments and the selection of the client. */
function rootNode(name: string, context: Context, info: GraphQLResolveInfo, more: readonly string[] = []): FieldNode {
  const type = getNamedType(info.returnType)
  const sets = info.fieldNodes.flatMap(({ selectionSet }): SelectionSetNode[] => (selectionSet ? [selectionSet] : []))
  const { merged, document, prefix } = context
  const translation: Translation = { merged, fragments: document.fragments, variables: info.variableValues, prefix }
  return {
    kind: Kind.FIELD,
    name: nameNode(name),
    arguments: info.fieldNodes[0]?.arguments ?? [],
    selectionSet: isCompositeType(type) ? translate(type, sets, translation, more) : undefined,
  }
}

function byKey(rows: Value, key: string, schema: string): Error | ReadonlyMap<string, readonly Value[]> | null {
  if (rows instanceof Error || rows === null) return rows
  if (!Array.isArray(rows)) {
    return fieldError('remote-invalid', `${named(schema)} returned a value that is not a list`, schema)
  }
  const found = new Map<string, Value[]>()
  for (const row of rows) {
    if (row instanceof Error) return row
    if (row === null) continue
    const value = property(row, key, schema)
    if (value instanceof Error) return value
    const text = keyText(value as Json)
    const before = found.get(text)
    if (before) before.push(row)
    else found.set(text, [row])
  }
  return found
}

/** `7` and `"7"` are the same key, because a number in one schema may be text in another. */
const keyText = (value: Json): string => (typeof value === 'string' ? value : stringifyJson(value))

/** Returns a field of an object in a response. */
function property(source: unknown, key: string, schema: string): Value {
  const value = isRow(source) ? source[key] : undefined
  return value === undefined ? missingField(schema) : value
}

/** Converts numbers for the types that GraphQL defines. In other scalars they keep all their digits. */
function convertNumbers(value: Value, type: GraphQLOutputType): Value {
  if (value instanceof NumberText) {
    const { name } = getNamedType(type)
    if (name === 'String' || name === 'ID') return value.text
    return name === 'Float' || name === 'Int' ? Number(value.text) : value
  }
  return Array.isArray(value) && !isObjectType(getNamedType(type))
    ? value.map((item) => convertNumbers(item, type))
    : value
}

/** Variables for graphql-js, which only checks them: as JavaScript numbers. Schemas get the values as received. */
const plainVariables = (values: JsonObject) => JSON.parse(stringifyJson(values)) as Record<string, unknown>

function definitionsOf({ operation }: Document, { types }: Merged): readonly VariableDefinitionNode[] {
  return (operation.variableDefinitions ?? []).map((definition) =>
    visit({ ...definition, directives: [] } as VariableDefinitionNode, {
      NamedType: ({ kind, name: { value } }) => ({ kind, name: nameNode(types.get(value)?.name ?? value) }),
    }),
  )
}
