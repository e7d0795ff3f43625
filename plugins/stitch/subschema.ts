import type { FieldDefinitionNode, GraphQLSchema, TypeDefinitionNode } from 'graphql'

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
