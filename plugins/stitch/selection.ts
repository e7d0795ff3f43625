import {
  type FieldNode,
  getDirectiveValues,
  getNamedType,
  type GraphQLCompositeType,
  GraphQLIncludeDirective,
  GraphQLSkipDirective,
  isCompositeType,
  isObjectType,
  Kind,
  type SelectionNode,
  type SelectionSetNode,
} from 'graphql'
import { type Fragments, nameNode } from './document.js'
import type { Merged } from './merge.js'

/** The context of a translation: the merged schema and the client's request. */
export interface Translation {
  readonly merged: Merged
  readonly fragments: Fragments
  /** Coerced, for `@skip` and `@include`. */
  readonly variables: Readonly<Record<string, unknown>>
  /** Prefix for added aliases. No name in the client's document contains it. */
  readonly prefix: string
}

/** The alias of a column that an extension needs. */
export const columnAlias = (prefix: string, column: string): string => `${prefix}_${column}`
/** The alias of `__typename` in an interface or a union. */
export const typeAlias = (prefix: string): string => `${prefix}type`

const field = (name: string, alias?: string): FieldNode => ({
  kind: Kind.FIELD,
  name: nameNode(name),
  alias: alias === undefined ? undefined : nameNode(alias),
})

/**
 * Translates a client's selection for the schema that has the type: without fields of extensions, with the columns that
 * they need, and with `@skip`, `@include` and fragments on the type itself resolved, because not every endpoint
 * supports fragments.
 * @param more columns to add to the selection
 */
export function translate(
  type: GraphQLCompositeType,
  sets: readonly SelectionSetNode[],
  translation: Translation,
  more: readonly string[] = [],
): SelectionSetNode {
  const { merged, prefix } = translation
  const fields = new Map<string, { node: FieldNode; sets: SelectionSetNode[] }>()
  const columns = new Set(more)
  const fragments: SelectionNode[] = []

  const collect = (set: SelectionSetNode): void => {
    for (const node of set.selections) {
      if (!isIncluded(node, translation.variables)) continue
      if (node.kind === Kind.FIELD) {
        const key = (node.alias ?? node.name).value
        const extension = merged.extensions.get(`${type.name}.${node.name.value}`)
        if (extension) for (const column of extension.columns) columns.add(column)
        if (extension || node.name.value === '__typename') continue
        const before = fields.get(key) ?? { node, sets: [] }
        if (node.selectionSet) before.sets.push(node.selectionSet)
        fields.set(key, before)
        continue
      }
      const fragment = node.kind === Kind.FRAGMENT_SPREAD ? translation.fragments.get(node.name.value) : node
      if (!fragment) continue
      const condition = fragment.typeCondition?.name.value ?? type.name
      if (condition === type.name) collect(fragment.selectionSet)
      else fragments.push(conditional(condition, fragment.selectionSet, translation))
    }
  }
  for (const set of sets) collect(set)

  const selections = [...fields.values()].map(({ node, sets: inner }): SelectionNode => {
    const { selectionSet: _, directives: __, ...bare } = node
    if (inner.length === 0) return bare
    const fieldType = 'getFields' in type ? getNamedType(type.getFields()[node.name.value]?.type) : undefined
    if (!isCompositeType(fieldType)) return bare
    return { ...bare, selectionSet: translate(fieldType, inner, translation) }
  })
  selections.push(...[...columns].map((column) => field(column, columnAlias(prefix, column))), ...fragments)
  if (!isObjectType(type)) selections.push(field('__typename', typeAlias(prefix)))
  return { kind: Kind.SELECTION_SET, selections: selections.length === 0 ? [field('__typename')] : selections }
}

function conditional(condition: string, set: SelectionSetNode, translation: Translation): SelectionNode {
  const type = translation.merged.schema.getType(condition) as GraphQLCompositeType
  const name = translation.merged.types.get(condition)?.name ?? condition
  return {
    kind: Kind.INLINE_FRAGMENT,
    typeCondition: { kind: Kind.NAMED_TYPE, name: nameNode(name) },
    selectionSet: translate(type, [set], translation),
  }
}

function isIncluded(node: SelectionNode, variables: Translation['variables']): boolean {
  const skip = getDirectiveValues(GraphQLSkipDirective, node, variables)
  const include = getDirectiveValues(GraphQLIncludeDirective, node, variables)
  return skip?.['if'] !== true && include?.['if'] !== false
}
