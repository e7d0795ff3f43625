import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  GraphQLError,
  Kind,
  type OperationDefinitionNode,
  parse,
  type SelectionNode,
  type SelectionSetNode,
  visit,
} from 'graphql'
import { ServiceError } from 'rowhouse/plan'
import { invalid } from './input.js'

/** Limits on a document. They are checked before validation. */
export interface Limits {
  readonly maxTokens: number
  readonly maxDepth: number
  readonly maxRootFields: number
  readonly maxAliases: number
}

export interface Document {
  readonly ast: DocumentNode
  readonly operation: OperationDefinitionNode
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>
}

/** @throws ServiceError 400 `parse-failed`, or `validation-failed` when it is unclear which operation to run */
export function readDocument(text: string, operationName: string | undefined, maxTokens?: number): Document {
  const ast = parsed(text, maxTokens)
  const operations = ast.definitions.filter((node) => node.kind === Kind.OPERATION_DEFINITION)
  const fragments = ast.definitions.filter((node) => node.kind === Kind.FRAGMENT_DEFINITION)
  const other = ast.definitions.find(
    (node) => node.kind !== Kind.OPERATION_DEFINITION && node.kind !== Kind.FRAGMENT_DEFINITION,
  )
  if (other) throw located(invalid('a document can contain only operations and fragments', '$.query'), other)
  return {
    ast,
    operation: chosen(operations, operationName),
    fragments: new Map(fragments.map((node) => [node.name.value, node])),
  }
}

function parsed(text: string, maxTokens: number | undefined): DocumentNode {
  try {
    return parse(text, { maxTokens })
  } catch (error) {
    // The parser is recursive.
    if (error instanceof RangeError)
      throw new DocumentError('parse-failed', 'the document nests too deeply', '$.query', [])
    if (!(error instanceof GraphQLError)) throw error
    throw new DocumentError('parse-failed', error.message, '$.query', error.locations ?? [])
  }
}

function chosen(all: readonly OperationDefinitionNode[], name: string | undefined): OperationDefinitionNode {
  if (all.length === 0) throw invalid('the document contains no operation', '$.query')
  if (name === undefined || name === '') {
    const [first, ...more] = all
    if (first && more.length === 0) return first
    throw invalid('exactly one operation has to be present in the document when operationName is not specified', '$')
  }
  if (all.some((each) => !each.name)) {
    throw invalid('operationName cannot be used when an anonymous operation exists in the document', '$.operationName')
  }
  const found = all.find((each) => each.name?.value === name)
  if (!found) throw invalid(`no such operation found in the document: "${name}"`, '$.operationName')
  return found
}

/**
 * Returns the fields of a selection by response key, including those of fragments.
 * @param isIncluded evaluates the directives of a node
 */
export function fieldsByKey(
  selections: readonly SelectionNode[],
  fragments: Document['fragments'],
  isIncluded: (node: SelectionNode) => boolean = () => true,
): ReadonlyMap<string, readonly FieldNode[]> {
  const fields = new Map<string, FieldNode[]>()
  const spread = new Set<string>()
  const collect = (nodes: readonly SelectionNode[]): void => {
    for (const node of nodes) {
      if (!isIncluded(node)) continue
      if (node.kind === Kind.INLINE_FRAGMENT) collect(node.selectionSet.selections)
      else if (node.kind === Kind.FRAGMENT_SPREAD) {
        const name = node.name.value
        if (spread.has(name)) continue
        spread.add(name)
        collect(fragments.get(name)?.selectionSet.selections ?? [])
      } else {
        const key = (node.alias ?? node.name).value
        const same = fields.get(key)
        if (same) same.push(node)
        else fields.set(key, [node])
      }
    }
  }
  collect(selections)
  return fields
}

/**
 * A subscription has one root field, whatever its variables say.
 * @throws ServiceError 400 `validation-failed`
 * @see GraphQL specification, section 5.2.4
 */
export function checkSubscription({ operation, fragments }: Document): void {
  const { selections } = operation.selectionSet
  const fields = [...fieldsByKey(selections, fragments).values()]
  const [field] = fields[0] ?? []
  if (fields.length !== 1 || field?.name.value.startsWith('__')) {
    throw located(invalid('a subscription has exactly one root field', '$.query'), operation)
  }
  const conditional = (nodes: readonly SelectionNode[]): SelectionNode | undefined =>
    nodes.find(({ directives = [] }) =>
      directives.some(({ name }) => name.value === 'skip' || name.value === 'include'),
    ) ??
    nodes
      .map((node) => {
        if (node.kind === Kind.FIELD) return undefined
        const set = node.kind === Kind.INLINE_FRAGMENT ? node : fragments.get(node.name.value)
        return conditional(set?.selectionSet.selections ?? [])
      })
      .find((node) => node !== undefined)
  const found = conditional(selections)
  if (found) throw located(invalid('the root field of a subscription takes no @skip and no @include', '$.query'), found)
}

/** Returns the error with the locations of nodes. */
export function located(
  error: ServiceError,
  ...nodes: readonly { readonly loc?: DocumentNode['loc'] }[]
): ServiceError {
  const locations = nodes.flatMap(({ loc }) =>
    loc ? [{ line: loc.startToken.line, column: loc.startToken.column }] : [],
  )
  return new DocumentError(error.code, error.message, error.path, locations)
}

/** 400: an error of the document, with its locations. */
export class DocumentError extends ServiceError {
  constructor(
    code: string,
    message: string,
    path: string,
    readonly locations: readonly Location[],
  ) {
    super(400, code, message, path)
  }
}
export interface Location {
  readonly line: number
  readonly column: number
}

interface Measure {
  readonly depth: number
  readonly aliases: number
  readonly fields: number
}
const NOTHING: Measure = { depth: 0, aliases: 0, fields: 0 }

/** The same as for JSON. */
const MAX_NESTING = 64

/** @throws ServiceError 400 `validation-failed` that names the limit */
export function checkLimits({ ast, operation, fragments }: Document, limits: Limits): void {
  checkNesting(ast)
  const roots = operation.selectionSet.selections.length
  const { depth, aliases, fields } = measure(operation.selectionSet, fragments)
  if (roots > limits.maxRootFields) throw limitExceeded('root fields', roots, limits, 'maxRootFields')
  if (depth > limits.maxDepth) throw limitExceeded('levels', depth, limits, 'maxDepth')
  if (aliases > limits.maxAliases) throw limitExceeded('aliases', aliases, limits, 'maxAliases')
  if (fields > limits.maxTokens) throw limitExceeded('fields', fields, limits, 'maxTokens')
}

/** Limits the nesting of values and types, because the next steps are recursive. */
function checkNesting(ast: DocumentNode): void {
  let levels = 0
  const nesting = {
    enter() {
      if (++levels > MAX_NESTING) throw invalid(`values and types may nest at most ${MAX_NESTING} levels`, '$.query')
    },
    leave() {
      levels--
    },
  }
  visit(ast, { [Kind.OBJECT]: nesting, [Kind.LIST]: nesting, [Kind.LIST_TYPE]: nesting })
}

const limitExceeded = (what: string, found: number, limits: Limits, setting: keyof Limits) =>
  invalid(
    `the document has ${found} ${what}; at most ${limits[setting]} are allowed (plugins.graphql.limits.${setting})`,
    '$.query',
  )

/** Measures each fragment once and counts it for each spread, so that a small document cannot expand to a huge one. */
function measure(set: SelectionSetNode, fragments: Document['fragments']): Measure {
  const known = new Map<string, Measure | null>()
  const ofFragment = (name: string): Measure => {
    const before = known.get(name)
    if (before === null) throw invalid(`fragment "${name}" spreads itself`, '$.query')
    if (before) return before
    const fragment = fragments.get(name)
    if (!fragment) return NOTHING
    known.set(name, null)
    const found = ofSet(fragment.selectionSet)
    known.set(name, found)
    return found
  }
  const ofSet = ({ selections }: SelectionSetNode): Measure => {
    let [depth, aliases, fields] = [0, 0, 0]
    for (const node of selections) {
      const inner =
        node.kind === Kind.FRAGMENT_SPREAD
          ? ofFragment(node.name.value)
          : node.selectionSet
            ? ofSet(node.selectionSet)
            : NOTHING
      const isField = node.kind === Kind.FIELD
      depth = Math.max(depth, inner.depth + (isField ? 1 : 0))
      aliases += inner.aliases + (isField && node.alias ? 1 : 0)
      fields += inner.fields + (isField ? 1 : 0)
    }
    return { depth, aliases, fields }
  }
  return ofSet(set)
}

/** Returns every name in a text: fields, arguments, types, enum values. */
export function namesIn(text: string): Set<string> {
  return new Set(text.match(/[_A-Za-z]\w*/g))
}
