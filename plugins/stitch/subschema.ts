import {
  astFromValue,
  type FieldDefinitionNode,
  getNullableType,
  type GraphQLArgument,
  type GraphQLInputField,
  type GraphQLSchema,
  isInputObjectType,
  isInterfaceType,
  isIntrospectionType,
  isObjectType,
  isScalarType,
  isTypeDefinitionNode,
  Kind,
  parse,
  printSchema,
  type TypeDefinitionNode,
  visit,
} from 'graphql'
import { nameNode } from './document.js'

/** The schema that a name of the merged schema comes from, and its name there. */
export interface Origin {
  readonly schema: string
  readonly name: string
}
export type RootKind = 'query' | 'mutation'

/** A loaded schema, and its definitions with the names that they have in the merged schema. */
export interface Subschema {
  readonly name: string
  readonly source: GraphQLSchema
  readonly prefix: string
  /** Returns the merged name of a type. */
  rename(type: string): string
  readonly types: readonly TypeDefinitionNode[]
  readonly roots: { readonly [O in RootKind]: readonly FieldDefinitionNode[] }
}

/** Reads the definitions of a schema, and adds its prefix to their names. */
export function subschemaOf(name: string, source: GraphQLSchema, prefix = ''): Subschema {
  const rename = (type: string) => (isScalarType(source.getType(type)) ? type : prefix + type)
  const rootNames = { query: source.getQueryType()?.name, mutation: source.getMutationType()?.name }
  const skipped = new Set([rootNames.query, rootNames.mutation, source.getSubscriptionType()?.name])
  const used = new Set<string>()
  for (const input of inputsOf(source)) dropUnprintableDefault(input)
  const all = parse(printSchema(source), { noLocation: true })
    .definitions.filter(isTypeDefinitionNode)
    .map((node) =>
      visit(node, {
        NamedType(type) {
          used.add(type.name.value)
          return { ...type, name: nameNode(rename(type.name.value)) }
        },
      }),
    )
  const fieldsOf = (type: string | undefined) => {
    const node = all.find((each) => each.name.value === type)
    return node?.kind === Kind.OBJECT_TYPE_DEFINITION ? (node.fields ?? []) : []
  }
  return {
    name,
    source,
    prefix,
    rename,
    roots: { query: fieldsOf(rootNames.query), mutation: fieldsOf(rootNames.mutation) },
    types: all
      // A root type is left out unless a field or a union refers to it.
      .filter((node) => !skipped.has(node.name.value) || used.has(node.name.value))
      .map((node) => ({ ...node, name: nameNode(rename(node.name.value)) })),
  }
}

type Input = GraphQLArgument | GraphQLInputField

/** Lists the arguments and the input fields of a schema. */
const inputsOf = (source: GraphQLSchema): readonly Input[] =>
  Object.values(source.getTypeMap()).flatMap((type): readonly Input[] => {
    if (isInputObjectType(type)) return Object.values(type.getFields())
    if (isIntrospectionType(type) || !(isObjectType(type) || isInterfaceType(type))) return []
    return Object.values(type.getFields()).flatMap(({ args }) => args)
  })

/**
 * Removes a default value that graphql-js cannot print, such as an object of a custom scalar. The input stays optional, and the
 * service uses its default.
 */
function dropUnprintableDefault(input: Input): void {
  try {
    astFromValue(input.defaultValue, input.type)
  } catch {
    input.defaultValue = undefined
    input.type = getNullableType(input.type)
  }
}
