import {
  type ASTNode,
  type ConstValueNode,
  type FieldNode,
  type GraphQLError,
  type GraphQLInputType,
  GraphQLList,
  GraphQLNonNull,
  type GraphQLScalarType,
  type GraphQLSchema,
  GraphQLString,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isScalarType,
  Kind,
  NoUnusedVariablesRule,
  type OperationDefinitionNode,
  printSchema,
  type SelectionNode,
  SingleFieldSubscriptionsRule,
  specifiedRules,
  typeFromAST,
  type TypeNode,
  validate,
  type ValidationRule,
  type ValueNode,
  VariablesInAllowedPositionRule,
  visit,
} from 'graphql'
import { at, type Json, type Names, ServiceError, serviceError } from 'rowhouse/plan'
import {
  checkLimits,
  checkSubscription,
  type Document,
  DocumentError,
  fieldsByKey,
  type Limits,
  located,
  type Location,
  namesIn,
  readDocument,
} from './document.js'
import { type Exposed, exposed } from './exposed.js'
import {
  type Input,
  type InputType,
  type InputTypes,
  invalid,
  type ScalarInput,
  type TypeRef,
  type Variable,
} from './input.js'
import { constantIn, scalarIn } from './literal.js'
import { introspectionText } from './introspection.js'
import { type Dialect, graphqlNames } from './names.js'
import { isDataEnum } from './registry.js'
import { buildSchema, dropOldSchema, wholeSchema } from './schema.js'
import { alphaMessage } from './wording.js'

/** A task for a document that is seen for the first time, or for a schema. */
export type PrepareShape =
  | {
      readonly kind: 'document'
      readonly dialect: Dialect
      readonly text: string
      readonly operationName?: string
      /** Keys in the variables, which their types must contain. */
      readonly keys: readonly string[]
      readonly limits: Limits
      /** Whether there are live queries. */
      readonly subscriptions?: true | undefined
    }
  | {
      readonly kind: 'introspection'
      readonly dialect: Dialect
      readonly text: string
      readonly operationName?: string
      readonly variables: Readonly<Record<string, Json>>
      readonly subscriptions?: true | undefined
    }
  | { readonly kind: 'schema'; readonly dialect: Dialect }

/** What the main thread needs to run a document. */
export type Prepared =
  | {
      readonly operation: OperationDefinitionNode['operation']
      readonly inputs: InputTypes
      /** Whether the query has root fields other than introspection. */
      readonly reads: boolean
      readonly introspects: boolean
      /** Whether it is the subscription to a stream. */
      readonly streams?: true | undefined
      /** The root fields of a mutation, in order. */
      readonly roots: readonly MutationRoot[]
    }
  | { readonly failed: readonly Failure[] }
export interface Failure {
  readonly code: string
  readonly message: string
  readonly path: string
  readonly locations: readonly Location[]
}

export interface MutationRoot {
  readonly key: string
  /** Absent for `__typename`. */
  readonly action?: string
  readonly table?: { readonly schema: string; readonly name: string }
  /** Whether the field calls a function. */
  readonly calls?: true
  /** For each occurrence in the document, the directives of the field and of the fragments around it. */
  readonly when: readonly (readonly Condition[])[]
  /** The rows of an insert, or the entries of `updates`. */
  readonly objects?: Template
  /** Whether the field has `on_conflict`. */
  readonly conflicts?: true
}
interface Condition {
  readonly is: boolean
  readonly value: Template
}
/** A value of the document that may contain variables. */
export type Template =
  | { readonly kind: 'variable'; readonly name: string }
  | ScalarInput
  | { readonly kind: 'list'; readonly of: readonly Template[] }
  | { readonly kind: 'object'; readonly fields: Readonly<Record<string, Template>> }

export default function prepare(shape: PrepareShape, all: Names): unknown {
  dropOldSchema(all)
  const names = shape.dialect === 'alpha' ? all : graphqlNames(all)
  switch (shape.kind) {
    case 'schema':
      return { schema: printSchema(wholeSchema(names, shape.dialect)) }
    case 'introspection':
      return introspect(shape, names)
    case 'document':
      try {
        return prepareDocument(shape, names)
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error
        const { code, message, path } = error
        return { failed: [{ code, message, path, locations: error instanceof DocumentError ? error.locations : [] }] }
      }
  }
}

function prepareDocument(shape: Extract<PrepareShape, { kind: 'document' }>, names: Names): Prepared {
  const { dialect, text, limits } = shape
  const document = readDocument(text, shape.operationName, limits.maxTokens)
  const { operation } = document
  if (dialect === 'alpha') refuseUnsupported(document)
  if (operation.operation === 'subscription' && !shape.subscriptions) {
    const message = dialect === 'alpha' ? 'subscriptions are not supported' : 'subscriptions need the plugin "live"'
    throw located(invalid(message, '$.query'), operation)
  }
  checkLimits(document, limits)
  if (operation.operation === 'subscription') checkSubscription(document)
  const known = namesIn(text)
  for (const key of shape.keys) known.add(key)
  if (operation.operation === 'mutation' && exposed(names, dialect).mutation.size === 0) {
    throw located(invalid('no mutations exist', '$.query'), operation)
  }
  const keep = (name: string) => known.has(name)
  const make = (scalars?: ReadonlySet<string>) =>
    buildSchema(names, dialect, { keep, scalars, subscriptions: shape.subscriptions })
  let schema = make()
  // A variable within the literal of a document may have a type that nothing else in the document has.
  const others = typesOfVariables(document).filter((name) => !schema.getType(name))
  if (others.length > 0) schema = make(new Set(others))
  const errors = validate(schema, document.ast, rules(document), { maxErrors: 10 })
  if (errors.length > 0) return { failed: errors.map((error) => failure(error, operation, dialect)) }
  const roots = rootFields(document)
  const introspects = roots.some(isIntrospection)
  return {
    operation: operation.operation,
    inputs: inputTypes(document, schema, dialect),
    reads: roots.some((node) => !isIntrospection(node)),
    introspects,
    streams: operation.operation === 'subscription' ? isStream(roots, names, dialect) : undefined,
    roots: operation.operation === 'mutation' ? mutationRoots(document, names, dialect) : [],
  }
}

const isStream = (roots: readonly FieldNode[], names: Names, dialect: Dialect): true | undefined =>
  exposed(names, dialect).subscription.get(roots[0]?.name.value ?? '')?.action.streams

function typesOfVariables({ operation }: Document): readonly string[] {
  return (operation.variableDefinitions ?? []).map(({ type }) => {
    let named: TypeNode = type
    while (named.kind !== Kind.NAMED_TYPE) named = named.type
    return named.name.value
  })
}

/** Variables may be unused if the document has operations that are not run. */
const rules = ({ ast }: Document) =>
  ast.definitions.length > 1 ? RULES.filter((rule) => rule !== NoUnusedVariablesRule) : RULES

/** Rules of the library without that for subscriptions, which throws when a variable of a directive has no default. */
const SPECIFIED = specifiedRules.filter((rule) => rule !== SingleFieldSubscriptionsRule)

/** Accepts a variable of type String wherever a text such as citext is expected. */
const fittingVariables: ValidationRule = (context) => {
  const isString = ({ variableDefinitions = [] }: OperationDefinitionNode, name: string): boolean => {
    let type = variableDefinitions.find(({ variable }) => variable.name.value === name)?.type
    while (type && type.kind !== Kind.NAMED_TYPE) type = type.type
    return type?.name.value === GraphQLString.name
  }
  const asString = (type: GraphQLInputType): GraphQLInputType => {
    if (isNonNullType(type)) return new GraphQLNonNull(asString(type.ofType) as GraphQLScalarType)
    if (isListType(type)) return new GraphQLList(asString(type.ofType as GraphQLInputType))
    return isScalarType(type) && type.extensions['isText'] === true ? GraphQLString : type
  }
  const getRecursiveVariableUsages: typeof context.getRecursiveVariableUsages = (operation) =>
    context.getRecursiveVariableUsages(operation).map((usage) => {
      const { type, node } = usage
      return type && isString(operation, node.name.value) ? { ...usage, type: asString(type) } : usage
    })
  return VariablesInAllowedPositionRule(
    Object.create(context, { getRecursiveVariableUsages: { value: getRecursiveVariableUsages } }),
  )
}
const RULES = SPECIFIED.map((rule) => (rule === VariablesInAllowedPositionRule ? fittingVariables : rule))

/** The alpha dialect supports neither fragments nor introspection. */
function refuseUnsupported({ ast, operation }: Document): void {
  const instead = 'is not supported here; use /v1/graphql'
  const fragment = ast.definitions.find((node) => node.kind === Kind.FRAGMENT_DEFINITION)
  if (fragment) throw located(serviceError('not-supported', `a fragment ${instead}`, '$.query'), fragment)
  visit(operation, {
    enter(node) {
      if (node.kind === Kind.FRAGMENT_SPREAD || node.kind === Kind.INLINE_FRAGMENT) {
        throw located(serviceError('not-supported', `a fragment ${instead}`, '$.query'), node)
      }
      if (node.kind === Kind.FIELD && isIntrospection(node)) {
        throw located(serviceError('not-supported', `introspection ${instead}`, '$.query'), node)
      }
    },
  })
}

const isIntrospection = ({ name }: FieldNode): boolean => name.value === '__schema' || name.value === '__type'

function failure(error: GraphQLError, operation: OperationDefinitionNode, dialect: Dialect): Failure {
  const node = error.nodes?.at(-1)
  const text = dialect === 'alpha' ? alphaMessage(error.message) : error.message
  const { code, message, path } = invalid(text, (node && pathTo(operation, node)) ?? '$.query')
  return {
    code,
    message,
    path,
    locations: (error.locations ?? []).map(({ line, column }) => ({ line, column })),
  }
}

/** Returns the path of a node in an operation, e.g. `$.selectionSet.author.args.where`. */
function pathTo(operation: OperationDefinitionNode, wanted: ASTNode): string | undefined {
  let found: string | undefined
  const stack: string[] = ['$']
  visit(operation, {
    enter(node, key, _, steps) {
      const top = stack.at(-1) as string
      let here = top
      if (typeof key === 'number' && steps.at(-2) === 'values') here = at(top, key)
      if (node.kind === Kind.FIELD) here = `${top}.selectionSet${at('', (node.alias ?? node.name).value)}`
      else if (node.kind === Kind.ARGUMENT) here = `${top}.args${at('', node.name.value)}`
      else if (node.kind === Kind.OBJECT_FIELD) here = at(top, node.name.value)
      else if (node.kind === Kind.VARIABLE_DEFINITION) here = at('$.variables', node.variable.name.value)
      stack.push(here)
      if (node === wanted) found ??= here
    },
    leave: () => void stack.pop(),
  })
  return found
}

/** Returns the root fields, including those in fragments and those that directives exclude. */
const rootFields = ({ operation, fragments }: Pick<Document, 'operation' | 'fragments'>): readonly FieldNode[] =>
  [...fieldsByKey(operation.selectionSet.selections, fragments).values()].flat()

function inputTypes({ operation, fragments }: Document, schema: GraphQLSchema, dialect: Dialect): InputTypes {
  const types: Record<string, InputType> = Object.create(null)
  const nodes = [operation, ...fragments.values()]
  const structural = structuralVariables(nodes, dialect)
  const opaque = dialect === 'relay' ? opaqueVariables(nodes) : new Set()
  const rows =
    operation.operation === 'mutation' ? rowVariables(nodes, rootFields({ operation, fragments })) : new Set()
  const variables = (operation.variableDefinitions ?? []).map(({ variable, type, defaultValue }): Variable => {
    const name = variable.name.value
    const known = typeFromAST(schema, type as TypeNode) as GraphQLInputType
    return {
      name,
      type: refOf(known, types),
      structural: structural.has(name),
      opaque: opaque.has(name) || undefined,
      rows: (rows.has(name) && isObjects(known)) || undefined,
      fallback: defaultValue && constant(defaultValue, known),
    }
  })
  return { variables, types }
}

const isObjects = (type: GraphQLInputType): boolean =>
  isNonNullType(type) || isListType(type) ? isObjects(type.ofType as GraphQLInputType) : isInputObjectType(type)

function refOf(type: GraphQLInputType, types: Record<string, InputType>): TypeRef {
  if (isNonNullType(type)) return { ...refOf(type.ofType, types), nonNull: true }
  if (isListType(type)) return { nonNull: false, of: refOf(type.ofType, types) }
  if (!types[type.name]) {
    if (isEnumType(type)) {
      const data = isDataEnum(type) || undefined
      types[type.name] = { kind: 'enum', values: type.getValues().map(({ name }) => name), data }
    } else if (isInputObjectType(type)) {
      const fields: Record<string, { type: TypeRef; fallback?: Input }> = Object.create(null)
      types[type.name] = { kind: 'object', fields }
      for (const [name, field] of Object.entries(type.getFields())) {
        // The only defaults in our schemas are empty lists.
        const fallback: Input | undefined = field.defaultValue === undefined ? undefined : { kind: 'list', of: [] }
        fields[name] = { type: refOf(field.type, types), fallback }
      }
    } else types[type.name] = { kind: 'scalar' }
  }
  return { nonNull: false, name: type.name }
}

/** Converts the default of a variable. A single value becomes a list of one if the type is a list. */
function constant(node: ConstValueNode, type: GraphQLInputType): Input {
  if (isNonNullType(type)) return constant(node, type.ofType)
  if (node.kind === Kind.NULL) return { kind: 'null' }
  if (isListType(type)) {
    const nodes = node.kind === Kind.LIST ? node.values : [node]
    return { kind: 'list', of: nodes.map((each) => constant(each, type.ofType)) }
  }
  if (isEnumType(type) && node.kind === Kind.ENUM) return { kind: 'enum', name: node.value }
  if (isInputObjectType(type) && node.kind === Kind.OBJECT) {
    const fields = type.getFields()
    return {
      kind: 'object',
      fields: Object.fromEntries(
        node.fields.map(({ name, value }) => [
          name.value,
          constant(value, (fields[name.value] as (typeof fields)[string]).type),
        ]),
      ),
    }
  }
  return constantIn(node)
}

/** Finds variables whose value changes the plan: in directives, in introspection, in an alpha `order_by`, as paths. */
function structuralVariables(nodes: readonly ASTNode[], dialect: Dialect): Set<string> {
  const found = new Set<string>()
  const add = (node: ASTNode) => visit(node, { Variable: ({ name }) => void found.add(name.value) })
  for (const node of nodes) {
    visit(node, {
      Directive: (directive) => void add(directive),
      Field(field) {
        if (isIntrospection(field)) add(field)
        for (const argument of field.arguments ?? []) {
          const { value } = argument.name
          // Only a JSON column, which has no subfields, takes `path`. Elsewhere it is a key column with that name.
          if (dialect === 'alpha' ? value === 'order_by' : value === 'path' && !field.selectionSet) add(argument)
        }
      },
    })
  }
  return found
}

/** Finds variables that may be global ids or cursors. */
function opaqueVariables(nodes: readonly ASTNode[]): Set<string> {
  const found = new Set<string>()
  for (const node of nodes) {
    visit(node, {
      Argument({ name, value }) {
        if (value.kind === Kind.VARIABLE && OPAQUE.has(name.value)) found.add(value.name.value)
      },
    })
  }
  return found
}
const OPAQUE = new Set(['id', 'after', 'before'])

/** Finds variables that are used in rows to insert, and nowhere else. */
function rowVariables(nodes: readonly ASTNode[], roots: readonly FieldNode[]): Set<string> {
  const inRows = new Set<ASTNode>()
  const args = roots.flatMap((field) => field.arguments ?? [])
  for (const argument of args.filter(({ name }) => name.value === 'objects' || name.value === 'object')) {
    visit(argument, { Variable: (node) => void inRows.add(node) })
  }
  const elsewhere = new Set<string>()
  const found = new Set<string>()
  for (const node of nodes) {
    visit(node, {
      VariableDefinition: () => false,
      Variable: (each) => void (inRows.has(each) ? found : elsewhere).add(each.name.value),
    })
  }
  return new Set([...found].filter((name) => !elsewhere.has(name)))
}

function mutationRoots({ operation, fragments }: Document, names: Names, dialect: Dialect): readonly MutationRoot[] {
  const roots = new Map<string, MutationRoot>()
  const add = (selections: readonly SelectionNode[], around: readonly Condition[]): void => {
    for (const node of selections) {
      const when = [...around, ...conditionsOf(node)]
      if (node.kind === Kind.FIELD) {
        const key = (node.alias ?? node.name).value
        const root = roots.get(key) ?? mutationRoot(key, node, exposed(names, dialect).mutation)
        roots.set(key, { ...root, when: [...root.when, when] })
      } else if (node.kind === Kind.INLINE_FRAGMENT) add(node.selectionSet.selections, when)
      else add(fragments.get(node.name.value)?.selectionSet.selections ?? [], when)
    }
  }
  add(operation.selectionSet.selections, [])
  return [...roots.values()]
}

const conditionsOf = ({ directives = [] }: SelectionNode): readonly Condition[] =>
  directives.map(({ name, arguments: args }) => ({
    is: name.value === 'include',
    value: templateOf(args?.[0]?.value as ValueNode),
  }))

function mutationRoot(key: string, node: FieldNode, mutation: Exposed['mutation']): MutationRoot {
  const root = mutation.get(node.name.value)
  const argument = (...names: string[]) => node.arguments?.find(({ name }) => names.includes(name.value))
  const objects = argument('objects', 'object', 'updates')
  return {
    key,
    action: root?.action.kind,
    table: root && { schema: root.table.schema, name: root.table.name },
    calls: root?.call && true,
    when: [],
    objects: objects && templateOf(objects.value),
    conflicts: argument('on_conflict', 'onConflict') && true,
  }
}

function templateOf(node: ValueNode): Template {
  if (node.kind === Kind.VARIABLE) return { kind: 'variable', name: node.name.value }
  if (node.kind === Kind.LIST) return { kind: 'list', of: node.values.map(templateOf) }
  if (node.kind !== Kind.OBJECT) return scalarIn(node)
  const fields = node.fields.map(({ name, value }) => [name.value, templateOf(value)] as const)
  return { kind: 'object', fields: Object.fromEntries(fields) }
}

/** Evaluates the introspection fields of a query. */
function introspect(
  shape: Extract<PrepareShape, { kind: 'introspection' }>,
  names: Names,
): { readonly compressed: readonly string[] } {
  const document = readDocument(shape.text, shape.operationName)
  const selections = rootFields(document).filter(isIntrospection)
  const schema = wholeSchema(names, shape.dialect, shape.subscriptions)
  return { compressed: introspectionText(schema, document, selections, shape.variables) }
}
