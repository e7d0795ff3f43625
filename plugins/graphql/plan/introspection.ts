import { gzipSync } from 'node:zlib'
import {
  type FieldNode,
  getArgumentValues,
  getDirectiveValues,
  getNamedType,
  getVariableValues,
  GraphQLError,
  type GraphQLField,
  GraphQLIncludeDirective,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  GraphQLSkipDirective,
  isLeafType,
  isListType,
  isNonNullType,
  isObjectType,
  SchemaMetaFieldDef,
  type SelectionNode,
  TypeMetaFieldDef,
  TypeNameMetaFieldDef,
} from 'graphql'
import type { Json } from 'rowhouse/plan'
import { type Document, fieldsByKey } from './document.js'
import { invalid } from './input.js'

const MAX_BYTES = 64 * 1024 * 1024
/** Approximate number of characters in a piece. */
const PIECE = 128 * 1024

/** A field of the response, and the selection of its value. */
interface Selected {
  /** As JSON text, with its colon. */
  readonly key: string
  readonly field: GraphQLField<unknown, unknown>
  readonly args: Readonly<Record<string, unknown>>
  readonly parentType: GraphQLObjectType
  /** Called only for values that exist, because a nested selection may multiply without selecting anything. */
  readonly fields: () => readonly Selected[]
}

/**
 * Evaluates the introspection fields of a valid document. For 1,000 tables the GraphQL library would create millions of
 * small objects, which take ten times the memory of the text, so this writes text directly.
 * @returns JSON text in pieces, each compressed with gzip and encoded in base64, because the text is very repetitive
 * @throws ServiceError 400
 */
export function introspectionText(
  schema: GraphQLSchema,
  { operation, fragments }: Document,
  selections: readonly FieldNode[],
  given: Readonly<Record<string, Json>>,
): readonly string[] {
  const { coerced: variables, errors } = getVariableValues(schema, operation.variableDefinitions ?? [], given)
  if (!variables) throw invalid(errors[0]?.message ?? '', '$.query')
  const pieces: string[] = []
  let bytes = 0
  let text = ''
  try {
    writeFields(select(schema.getQueryType() as GraphQLObjectType, selections), undefined)
  } catch (error) {
    // A variable is null, but only its default made the document valid.
    throw error instanceof GraphQLError ? invalid(error.message, '$.query') : error
  }
  flush()
  return pieces

  function flush(): void {
    const piece = Buffer.from(text)
    text = ''
    bytes += piece.length
    if (bytes > MAX_BYTES) throw invalid(`the response has more than ${MAX_BYTES} bytes`, '$.query')
    pieces.push(gzipSync(piece, { level: 1 }).toString('base64'))
  }

  function writeFields(selected: readonly Selected[], source: unknown): void {
    let before = '{'
    for (const { key, field, args, parentType, fields } of selected) {
      text += before + key
      before = ','
      const value: unknown = field.resolve?.(source, args, undefined, { schema, parentType } as GraphQLResolveInfo)
      write(field.type, value, fields)
    }
    text += before === '{' ? '{}' : '}'
    if (text.length > PIECE) flush()
  }

  function write(type: GraphQLOutputType, value: unknown, fields: Selected['fields']): void {
    if (isNonNullType(type)) write(type.ofType, value, fields)
    else if (value === null || value === undefined) text += 'null'
    else if (isLeafType(type)) text += JSON.stringify(type.serialize(value))
    else if (isListType(type)) {
      let before = '['
      for (const each of value as Iterable<unknown>) {
        text += before
        before = ','
        write(type.ofType, each, fields)
      }
      text += before === '[' ? '[]' : ']'
    } else writeFields(fields(), value)
  }

  function select(parentType: GraphQLObjectType, selections: readonly SelectionNode[]): readonly Selected[] {
    // Introspection types are objects, so every valid fragment applies.
    return [...fieldsByKey(selections, fragments, isIncluded)].map(([key, nodes]) => {
      const [node] = nodes as [FieldNode]
      const field = fieldOf(parentType, node.name.value)
      const type = getNamedType(field.type)
      const inner = () => nodes.flatMap(({ selectionSet }) => selectionSet?.selections ?? [])
      let fields: readonly Selected[] | undefined
      return {
        key: `${JSON.stringify(key)}:`,
        field,
        args: getArgumentValues(field, node, variables),
        parentType,
        fields: () => (fields ??= isObjectType(type) ? select(type, inner()) : []),
      }
    })
  }

  function isIncluded(node: SelectionNode): boolean {
    if (getDirectiveValues(GraphQLSkipDirective, node, variables)?.['if'] === true) return false
    return getDirectiveValues(GraphQLIncludeDirective, node, variables)?.['if'] !== false
  }
}

function fieldOf(type: GraphQLObjectType, name: string): GraphQLField<unknown, unknown> {
  const meta = [SchemaMetaFieldDef, TypeMetaFieldDef, TypeNameMetaFieldDef].find((field) => field.name === name)
  return meta ?? (type.getFields()[name] as GraphQLField<unknown, unknown>)
}
