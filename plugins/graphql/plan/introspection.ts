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
/** Characters of a piece, about. */
const PIECE = 128 * 1024

/** A field of the answer, and what is asked of what it gives. */
interface Selected {
  /** With its colon, as JSON has it. */
  readonly key: string
  readonly field: GraphQLField<unknown, unknown>
  readonly args: Readonly<Record<string, unknown>>
  readonly parentType: GraphQLObjectType
  /** Looked at when there is something: what nests and multiplies may lead nowhere. */
  readonly fields: () => readonly Selected[]
}

/**
 * Answers introspection fields of a valid document. The answer for 1,000 tables is millions of small objects in the
 * GraphQL library and a tenth of their memory as text, so it is written as text at once.
 * @returns JSON text in pieces, each in UTF-8, compressed with gzip and in base64: what repeats so much is worth keeping
 *   only like this
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
    // Null, where only the default of its variable made a document valid.
    throw error instanceof GraphQLError ? invalid(error.message, '$.query') : error
  }
  flush()
  return pieces

  function flush(): void {
    const piece = Buffer.from(text)
    text = ''
    bytes += piece.length
    if (bytes > MAX_BYTES) throw invalid(`the answer has more than ${MAX_BYTES} bytes`, '$.query')
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
    // Types of introspection are objects, so a fragment that is valid applies.
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
