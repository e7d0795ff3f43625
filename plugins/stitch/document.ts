import {
  type DocumentNode,
  type FragmentDefinitionNode,
  GraphQLError,
  type GraphQLSchema,
  Kind,
  NoSchemaIntrospectionCustomRule,
  type OperationDefinitionNode,
  parse,
  type SelectionSetNode,
  specifiedRules,
  validate,
} from 'graphql'
import { ServiceError } from 'rowhouse'
import type { StitchConfig } from './config.js'

export type Fragments = ReadonlyMap<string, FragmentDefinitionNode>

export interface Document {
  readonly ast: DocumentNode
  readonly operation: OperationDefinitionNode
  readonly fragments: Fragments
}

/** 400: what is wrong with a document, one or more things. */
export class InvalidDocument extends ServiceError {
  readonly errors: readonly GraphQLError[]

  constructor(code: string, errors: readonly GraphQLError[]) {
    super(400, code, errors[0]?.message ?? 'the document is wrong', '$.query')
    this.errors = errors
  }
}

/**
 * Reads a document and checks it against the merged schema.
 * @throws InvalidDocument; ServiceError 400 when no operation is meant
 */
export function readDocument(
  text: string,
  operationName: string | undefined,
  schema: GraphQLSchema,
  { limits, introspection }: { readonly limits: StitchConfig['limits']; readonly introspection: boolean },
): Document {
  const ast = parsed(text, limits.maxTokens)
  const operations = ast.definitions.filter((node) => node.kind === Kind.OPERATION_DEFINITION)
  const fragments = ast.definitions.filter((node) => node.kind === Kind.FRAGMENT_DEFINITION)
  const byName = new Map(fragments.map((node) => [node.name.value, node]))
  // Before validation, whose time grows with the square of fields that are selected again.
  const used = new Set<string>()
  for (const operation of operations) checkLimits(operation, byName, limits, used)
  // And fragments that nobody uses have not been counted.
  const idle = fragments.find(({ name }) => !used.has(name.value))
  if (idle) throw invalid(`fragment "${idle.name.value}" is never used`)
  const rules = introspection ? specifiedRules : [...specifiedRules, NoSchemaIntrospectionCustomRule]
  const errors = validate(schema, ast, rules, { maxErrors: 20 })
  if (errors.length > 0) throw new InvalidDocument('validation-failed', errors)
  return { ast, operation: chosen(operations, operationName), fragments: byName }
}

function parsed(text: string, maxTokens: number): DocumentNode {
  try {
    return parse(text, { maxTokens })
  } catch (error) {
    if (error instanceof GraphQLError) throw new InvalidDocument('parse-failed', [error])
    throw error
  }
}

function chosen(all: readonly OperationDefinitionNode[], name: string | undefined): OperationDefinitionNode {
  const [only] = all
  if (name === undefined && only && all.length === 1) return only
  const found = name === undefined ? undefined : all.find((each) => each.name?.value === name)
  if (found) return found
  const message =
    name === undefined
      ? 'the document has more than one operation, or none: say which by operationName'
      : `no such operation found in the document: "${name}"`
  throw new ServiceError(400, 'validation-failed', message, '$.operationName')
}

const invalid = (message: string) => new ServiceError(400, 'validation-failed', message, '$.query')

/**
 * Counts what a document asks for, fragments wherever they are spread, and stops at the first limit.
 * @throws ServiceError 400 `validation-failed` that names the limit
 */
function checkLimits(
  operation: OperationDefinitionNode,
  fragments: Fragments,
  limits: StitchConfig['limits'],
  used: Set<string>,
): void {
  let fields = 0
  let aliases = 0
  const over = (what: string, limit: keyof StitchConfig['limits']) =>
    invalid(`the document has more than ${limits[limit]} ${what} (plugins.stitch.limits.${limit})`)
  const visit = (set: SelectionSetNode, depth: number, spread: readonly string[], seen: Set<string>): void => {
    for (const node of set.selections) {
      // Spreads count too: fragments that only spread each other would not be counted otherwise.
      if (++fields > limits.maxTokens) throw over('fields', 'maxTokens')
      if (node.kind === Kind.FIELD) {
        if (depth > limits.maxDepth) throw over('levels', 'maxDepth')
        const key = (node.alias ?? node.name).value
        if (node.alias || seen.has(key)) aliases++
        if (aliases > limits.maxAliases) throw over('aliases', 'maxAliases')
        seen.add(key)
        if (depth === 1 && seen.size > limits.maxRootFields) throw over('root fields', 'maxRootFields')
        if (node.selectionSet) visit(node.selectionSet, depth + 1, spread, new Set())
      } else if (node.kind === Kind.INLINE_FRAGMENT) {
        visit(node.selectionSet, depth, spread, seen)
      } else {
        const name = node.name.value
        if (spread.includes(name)) throw invalid(`fragment "${name}" spreads itself`)
        used.add(name)
        const fragment = fragments.get(name)
        if (fragment) visit(fragment.selectionSet, depth, [...spread, name], seen)
      }
    }
  }
  visit(operation.selectionSet, 1, [], new Set())
}
