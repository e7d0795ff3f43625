import {
  type ArgumentNode,
  type FieldNode,
  GraphQLError,
  Kind,
  type OperationTypeNode,
  parseType,
  print,
  type VariableDefinitionNode,
  visit,
} from 'graphql'
import { isObject, type Json, type JsonObject, NumberText, stringifyJson } from 'rowhouse/plan'
import { fieldError, readAnswer, type Value } from './answer.js'
import { nameNode } from './document.js'
import type { RootKind } from './subschema.js'
import { type Remote, RemoteError } from './remote.js'

/** A schema with the headers that one client's request sends to it. */
export interface Target {
  readonly remote: Remote
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly maxFields: number
}
export interface RequestsOptions {
  readonly targets: ReadonlyMap<string, Target>
  /** Variables of the client's document, their types named as in the schemas, and their values as received. */
  readonly definitions: readonly VariableDefinitionNode[]
  readonly values: JsonObject
  /** Prefix for the names of added variables. */
  readonly prefix: string
  readonly maxRequests: number
  readonly signal: AbortSignal
  /** Called with each error without a path in the data. */
  readonly onError: (error: GraphQLError) => void
  /** Called when a request to a schema has ended. */
  readonly onEnd: (schema: string, outcome: string) => void
}

/** One root field to fetch from a schema. */
interface RootField {
  readonly schema: string
  readonly operation: RootKind
  /** Pending root fields with equal keys are fetched once. Without a key, always. */
  readonly key?: string
  /** Builds the node, without an alias, when the request is sent. */
  node(): FieldNode
  /** Additional arguments, by name, with their types in the schema. */
  readonly arguments?: () => Readonly<Record<string, { readonly type: string; readonly value: Json }>>
}

interface Pending {
  readonly field: RootField
  readonly answer: Promise<Value>
  resolve(value: Value): void
}

/** Collects the root fields that one client's request needs at the same time into one request for each schema. */
export class Requests {
  private pending: Pending[] = []
  private readonly byKey = new Map<string, Pending>()
  private sent = 0

  constructor(private readonly options: RequestsOptions) {}

  /** Never rejects: the promise resolves to the error. Several callers may share an answer, so do not change it. */
  fetch(field: RootField): Promise<Value> {
    const key = field.key === undefined ? undefined : `${field.schema} ${field.key}`
    const before = key === undefined ? undefined : this.byKey.get(key)
    if (before) return before.answer
    let resolve: Pending['resolve'] = () => {}
    const answer = new Promise<Value>((fn) => (resolve = fn))
    const pending = { field, answer, resolve }
    // graphql-js resolves all rows of a response before this runs, so that their fields share one request.
    if (this.pending.length === 0) setImmediate(() => this.flush())
    this.pending.push(pending)
    if (key !== undefined) this.byKey.set(key, pending)
    return answer
  }

  private flush(): void {
    const groups = new Map<string, Pending[]>()
    for (const each of this.pending) {
      const name = `${each.field.operation} ${each.field.schema}`
      const group = groups.get(name)
      if (group) group.push(each)
      else groups.set(name, [each])
    }
    this.pending = []
    this.byKey.clear()
    for (const group of groups.values()) {
      const { schema, operation } = group[0]!.field
      const { maxFields } = this.options.targets.get(schema)!
      for (let i = 0; i < group.length; i += maxFields) {
        void this.send(schema, operation, group.slice(i, i + maxFields))
      }
    }
  }

  private async send(schema: string, operation: RootKind, group: readonly Pending[]): Promise<void> {
    const { targets, prefix, maxRequests, signal, onEnd, onError } = this.options
    const { remote, url, headers } = targets.get(schema)!
    const aliases = group.map((_, i) => `f${i}`)
    try {
      if (++this.sent > maxRequests) {
        const message = `the request needs more than ${maxRequests} requests to schemas (plugins.stitch.limits.maxRequests)`
        throw fieldError('limit-exceeded', message, schema)
      }
      const body = this.document(operation, group, aliases)
      const request = { method: 'POST', url, headers, body, repeatable: operation === 'query' } as const
      const { data, unplaced } = readAnswer(schema, await remote.ask(request, signal), aliases, prefix)
      for (const [i, { resolve }] of group.entries()) resolve(data[aliases[i]!] ?? null)
      for (const error of unplaced) onError(error)
      onEnd(schema, 'answered')
    } catch (error) {
      const known = error instanceof RemoteError ? fieldError(error.code, error.message, schema) : error
      const answer = known instanceof Error ? known : new Error(String(known))
      for (const { resolve } of group) resolve(answer)
      onEnd(schema, known instanceof GraphQLError ? String(known.extensions['code']) : 'unexpected')
    }
  }

  /** Writes the body of a request for all fields of a group. */
  private document(operation: RootKind, group: readonly Pending[], aliases: readonly string[]): string {
    const { prefix, definitions, values } = this.options
    const variables: JsonObject = Object.create(null)
    const declared: VariableDefinitionNode[] = []
    let count = 0
    const selections = group.map(({ field }, i): FieldNode => {
      const node = field.node()
      const added = Object.entries(field.arguments?.() ?? {}).map(([name, { type, value }]): ArgumentNode => {
        const variable = { kind: Kind.VARIABLE, name: nameNode(`${prefix}${count++}`) } as const
        variables[variable.name.value] = asText(value, type)
        declared.push({ kind: Kind.VARIABLE_DEFINITION, variable, type: parseType(type, { noLocation: true }) })
        return { kind: Kind.ARGUMENT, name: nameNode(name), value: variable }
      })
      return { ...node, alias: nameNode(aliases[i]!), arguments: [...(node.arguments ?? []), ...added] }
    })
    const used = new Set<string>()
    for (const node of selections) visit(node, { Variable: ({ name }) => void used.add(name.value) })
    for (const definition of definitions) {
      const name = definition.variable.name.value
      if (!used.has(name)) continue
      declared.push(definition)
      const value = values[name]
      if (value !== undefined) variables[name] = value
    }
    const query = print({
      kind: Kind.OPERATION_DEFINITION,
      operation: operation as OperationTypeNode,
      variableDefinitions: declared,
      selectionSet: { kind: Kind.SELECTION_SET, selections },
    })
    return stringifyJson({ query, variables })
  }
}

/** Writes a number as text where the argument is a String or an ID. */
function asText(value: Json, type: string): Json {
  if (!/^\[*(String|ID)\b/.test(type)) return value
  if (Array.isArray(value)) return value.map((item) => asText(item, type))
  if (value instanceof NumberText) return value.text
  return typeof value === 'number' ? String(value) : value
}

export const isRow = (value: unknown): value is Readonly<Record<string, Value>> =>
  typeof value === 'object' && value !== null && !(value instanceof Error) && isObject(value as Json)
