import {
  execute,
  type FieldNode,
  getNamedType,
  type GraphQLFieldResolver,
  type GraphQLError,
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
import { failed, type Outcome, shown, type Value } from './answer.js'
import { type Document, InvalidDocument } from './document.js'
import type { Extension } from './extension.js'
import type { Merged, Origin, RootKind } from './merge.js'
import { named } from './remote.js'
import { isRow, Requests, type RequestsOptions } from './requests.js'
import { hidden, hiddenType, translate, type Translation } from './selection.js'

export interface ExecuteOptions extends Pick<RequestsOptions, 'targets' | 'maxRequests' | 'signal' | 'onEnd'> {
  readonly merged: Merged
  readonly document: Document
  readonly text: string
  readonly variables: JsonObject
  /** Told of faults of ours. */
  readonly onUnexpected: (error: Error) => void
}

/**
 * Runs an operation against the schemas behind this one. graphql-js completes the answer as if everything were here;
 * the resolvers only say what to ask for.
 * @throws InvalidDocument 400 for variables that are not what the operation declares
 */
export async function executeStitched(options: ExecuteOptions): Promise<Outcome> {
  const { merged, document, variables } = options
  const rest: GraphQLError[] = []
  const mark = markFor(options.text)
  const requests = new Requests({
    ...options,
    definitions: definitionsOf(document, merged),
    values: variables,
    mark,
    onError: (error) => void rest.push(error),
  })
  const context: Context = { merged, document, mark, requests, groups: new Map(), ids: new Map() }
  const result = await execute({
    schema: merged.schema,
    document: { kind: Kind.DOCUMENT, definitions: [document.operation, ...document.fragments.values()] },
    contextValue: context,
    variableValues: plainVariables(variables),
    fieldResolver: resolve,
    typeResolver: resolveType,
  })
  if (!('data' in result)) throw new InvalidDocument('validation-failed', result.errors ?? [])
  const errors = [...(result.errors ?? []), ...rest.slice(0, MAX_REST)]
  return { status: 200, data: result.data as Json, errors: errors.map((error) => shown(error, options.onUnexpected)) }
}
const MAX_REST = 20

interface Context {
  readonly merged: Merged
  readonly document: Document
  readonly mark: string
  readonly requests: Requests
  /** Rows that wait for the same question. */
  readonly groups: Map<string, Group>
  /** Numbers of places in the document: graphql-js gives all rows of a list the same nodes. */
  readonly ids: Map<readonly FieldNode[], string>
}
interface Group {
  readonly keys: Map<string, Json>
  readonly found: Promise<Error | ReadonlyMap<string, readonly Value[]>>
}

/** Something that no name in the document begins with, so that names of ours cannot meet the client's. */
function markFor(text: string): string {
  let mark = 'st'
  while (text.includes(mark)) mark += 'x'
  return mark
}

const resolve: GraphQLFieldResolver<unknown, Context> = (source, _args, context, info) => {
  const { merged } = context
  const operation = info.parentType === merged.schema.getMutationType() ? 'mutation' : 'query'
  if (info.path.prev === undefined) {
    return askRoot(operation, merged.roots[operation].get(info.fieldName)!, context, info)
  }
  const extension = merged.extensions.get(`${info.parentType.name}.${info.fieldName}`)
  if (extension) return askExtension(extension, source, context, info)
  const schema = merged.types.get(info.parentType.name)?.schema ?? ''
  return plain(property(source, String(info.path.key), schema), info.returnType)
}

const resolveType: GraphQLTypeResolver<unknown, Context> = (source, { merged, mark }, _info, abstractType) => {
  const schema = merged.types.get(abstractType.name)?.schema ?? ''
  const name = property(source, hiddenType(mark), schema)
  for (const type of merged.schema.getPossibleTypes(abstractType)) {
    const origin = merged.types.get(type.name)
    if (origin?.name === name) return type.name
  }
  throw failed(
    'remote-invalid',
    `${named(schema)} answered an object of a type that "${abstractType.name}" cannot be`,
    schema,
  )
}

async function askRoot(operation: RootKind, { schema, name }: Origin, context: Context, info: GraphQLResolveInfo) {
  // Introspection and `__typename` never come here.
  const field = () => questionField(name, context, info)
  const answer = await context.requests.ask({ schema, operation, key: undefined, field })
  return plain(answer, info.returnType)
}

async function askExtension(extension: Extension, source: unknown, context: Context, info: GraphQLResolveInfo) {
  const { schema, query, columns, argumentTypes, key, first, many } = extension
  const owner = context.merged.types.get(info.parentType.name)?.schema ?? ''
  const values: Json[] = []
  for (const column of columns) {
    const value = property(source, hidden(context.mark, column), owner)
    if (value instanceof Error) return value
    // Nothing to ask with. Asking with null could mean to ask for everything.
    if (value === null) return null
    values.push(value as Json)
  }
  const place = placeOf(context, info)
  const extra = (given: readonly Json[]) => () =>
    Object.fromEntries(
      Object.entries(extension.argumentsFor(given)).map(([name, value]) => [
        name,
        { type: argumentTypes[name]!, value },
      ]),
    )
  if (key === undefined) {
    const field = () => questionField(query, context, info)
    const asked = { schema, operation: 'query', key: `${place} ${stringifyJson(values)}`, field } as const
    const answer = await context.requests.ask({ ...asked, extra: extra(values) })
    return plain(first && Array.isArray(answer) ? (answer[0] ?? null) : answer, info.returnType)
  }

  let group = context.groups.get(place)
  if (!group) {
    const keys = new Map<string, Json>()
    const field = () => {
      // From here on it is on its way; rows that come later need another question.
      context.groups.delete(place)
      return questionField(query, context, info, [key])
    }
    const asked = { schema, operation: 'query', key: undefined, field } as const
    const answer = context.requests.ask({ ...asked, extra: () => extra([...keys.values()])() })
    group = { keys, found: answer.then((rows) => byKey(rows, hidden(context.mark, key), schema)) }
    context.groups.set(place, group)
  }
  const text = keyText(values[0]!)
  group.keys.set(text, values[0]!)
  const found = await group.found
  if (found instanceof Error) return found
  const rows = found.get(text) ?? []
  return plain(many ? [...rows] : (rows[0] ?? null), info.returnType)
}

function placeOf({ ids }: Context, { fieldNodes }: GraphQLResolveInfo): string {
  const before = ids.get(fieldNodes)
  if (before !== undefined) return before
  const id = String(ids.size)
  ids.set(fieldNodes, id)
  return id
}

/** The field to ask a schema for, with the arguments and the selection of the client. */
function questionField(
  name: string,
  context: Context,
  info: GraphQLResolveInfo,
  more: readonly string[] = [],
): FieldNode {
  const type = getNamedType(info.returnType)
  const sets = info.fieldNodes.flatMap(({ selectionSet }): SelectionSetNode[] => (selectionSet ? [selectionSet] : []))
  const { merged, document, mark } = context
  const translation: Translation = { merged, fragments: document.fragments, variables: info.variableValues, mark }
  return {
    kind: Kind.FIELD,
    name: { kind: Kind.NAME, value: name },
    arguments: info.fieldNodes[0]?.arguments ?? [],
    ...(isCompositeType(type) ? { selectionSet: translate(type, sets, translation, more) } : {}),
  }
}

function byKey(rows: Value, key: string, schema: string): Error | ReadonlyMap<string, readonly Value[]> {
  if (rows instanceof Error) return rows
  if (rows !== null && !Array.isArray(rows)) {
    return failed('remote-invalid', `${named(schema)} answered something that is no list`, schema)
  }
  const found = new Map<string, Value[]>()
  for (const row of (rows ?? []) as readonly Value[]) {
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

/** `7` and `"7"` are the same key: one schema's number is another one's text. */
const keyText = (value: Json): string => (typeof value === 'string' ? value : stringifyJson(value))

/** A field of an object that a schema has answered. */
function property(source: unknown, key: string, schema: string): Value {
  const value = isRow(source) ? source[key] : undefined
  if (value !== undefined) return value
  return failed('remote-invalid', `${named(schema)} left out a field that was asked for`, schema)
}

/** Numbers whose digits a JavaScript number would lose stay as they are, except where GraphQL itself knows the type. */
function plain(value: Value, type: GraphQLOutputType): Value {
  if (value instanceof NumberText) {
    const { name } = getNamedType(type)
    if (name === 'String' || name === 'ID') return value.text
    return name === 'Float' || name === 'Int' ? Number(value.text) : value
  }
  return Array.isArray(value) && !isObjectType(getNamedType(type)) ? value.map((item) => plain(item, type)) : value
}

/** For coercion only, which knows no numbers but JavaScript's; what is sent on are the values as they came. */
function plainVariables(values: JsonObject): Record<string, unknown> {
  const strip = (value: Json): unknown => {
    if (value instanceof NumberText) return Number(value.text)
    if (Array.isArray(value)) return value.map(strip)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, strip(item as Json)]))
  }
  return strip(values) as Record<string, unknown>
}

function definitionsOf({ operation }: Document, { types }: Merged): readonly VariableDefinitionNode[] {
  return (operation.variableDefinitions ?? []).map((definition) =>
    visit({ ...definition, directives: [] } as VariableDefinitionNode, {
      NamedType(type) {
        const name = types.get(type.name.value)?.name ?? type.name.value
        return { ...type, name: { ...type.name, value: name } }
      },
    }),
  )
}
