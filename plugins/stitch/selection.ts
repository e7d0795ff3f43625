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
import type { Fragments } from './document.js'
import type { Merged } from './merge.js'

/** What the translation of a client's selection needs to know about its request. */
export interface Translation {
  readonly merged: Merged
  readonly fragments: Fragments
  /** After coercion, for `@skip` and `@include`. */
  readonly variables: Readonly<Record<string, unknown>>
  /** Begins the names that we add to what the client selects; nothing in its document begins so. */
  readonly mark: string
}

/** The name under which a column is fetched that an extension needs. */
export const hidden = (mark: string, column: string): string => `${mark}_${column}`
/** The name under which the type of an object is fetched where it may be one of several. */
export const hiddenType = (mark: string): string => `${mark}type`

const field = (name: string, alias?: string): FieldNode => ({
  kind: Kind.FIELD,
  name: { kind: Kind.NAME, value: name },
  ...(alias === undefined ? {} : { alias: { kind: Kind.NAME, value: alias } }),
})

/**
 * What to ask the schema of a type for: the client's selection without fields of extensions and with the columns that
 * they need, without `@skip` and `@include`, and without fragments on the type itself, because not every endpoint takes
 * fragments.
 * @param more columns beside the selection
 */
export function translate(
  type: GraphQLCompositeType,
  sets: readonly SelectionSetNode[],
  translation: Translation,
  more: readonly string[] = [],
): SelectionSetNode {
  const { merged, mark } = translation
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
  selections.push(...[...columns].map((column) => field(column, hidden(mark, column))), ...fragments)
  if (!isObjectType(type)) selections.push(field('__typename', hiddenType(mark)))
  return { kind: Kind.SELECTION_SET, selections: selections.length === 0 ? [field('__typename')] : selections }
}

function conditional(condition: string, set: SelectionSetNode, translation: Translation): SelectionNode {
  const type = translation.merged.schema.getType(condition) as GraphQLCompositeType
  const name = translation.merged.types.get(condition)?.name ?? condition
  return {
    kind: Kind.INLINE_FRAGMENT,
    typeCondition: { kind: Kind.NAMED_TYPE, name: { kind: Kind.NAME, value: name } },
    selectionSet: translate(type, [set], translation),
  }
}

function isIncluded(node: SelectionNode, variables: Translation['variables']): boolean {
  const skip = getDirectiveValues(GraphQLSkipDirective, node, variables)
  const include = getDirectiveValues(GraphQLIncludeDirective, node, variables)
  return skip?.['if'] !== true && include?.['if'] !== false
}
