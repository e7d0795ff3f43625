import {
  type DocumentNode,
  type FragmentDefinitionNode,
  getOperationAST,
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
import { ServiceError, serviceError } from 'rowhouse'
import type { StitchConfig } from './config.js'

export type Fragments = ReadonlyMap<string, FragmentDefinitionNode>

export const nameNode = (value: string) => ({ kind: Kind.NAME, value }) as const

export interface Document {
  readonly operation: OperationDefinitionNode
  readonly fragments: Fragments
}

/** 400: the document has one or more errors. */
export class InvalidDocument extends ServiceError {
  constructor(
    code: string,
    readonly errors: readonly GraphQLError[],
  ) {
    super(400, code, errors[0]?.message ?? 'the document is invalid', '$.query')
  }
}

/**
 * Reads a document and checks it against the merged schema.
 * @throws InvalidDocument; ServiceError 400 for a limit, or when it is unclear which operation to run
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
  // Before validation, which takes quadratic time for fields that are selected repeatedly.
  const used = new Set<string>()
  for (const operation of operations) checkLimits(operation, byName, limits, used)
  // An unused fragment was not counted.
  const idle = fragments.find(({ name }) => !used.has(name.value))
  if (idle) throw invalid(`fragment "${idle.name.value}" is never used`)
  const rules = introspection ? specifiedRules : [...specifiedRules, NoSchemaIntrospectionCustomRule]
  const errors = validate(schema, ast, rules, { maxErrors: 20 })
  if (errors.length > 0) throw new InvalidDocument('validation-failed', errors)
  const operation = getOperationAST(ast, operationName)
  if (operation) return { operation, fragments: byName }
  const message =
    operationName === undefined
      ? 'the document has more than one operation, or none: set operationName'
      : `no such operation found in the document: "${operationName}"`
  throw serviceError('validation-failed', message, '$.operationName')
}

function parsed(text: string, maxTokens: number): DocumentNode {
  try {
    return parse(text, { maxTokens })
  } catch (error) {
    if (error instanceof GraphQLError) throw new InvalidDocument('parse-failed', [error])
    throw error
  }
}

const invalid = (message: string) => serviceError('validation-failed', message, '$.query')

/**
 * Counts fields, levels and aliases, each fragment as often as it is spread, and stops at the first limit.
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
      // Spreads count too: otherwise fragments that only spread each other would be free.
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
