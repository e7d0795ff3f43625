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
import { failed, readAnswer, type Value } from './answer.js'
import type { RootKind } from './merge.js'
import { type Remote, RemoteError } from './remote.js'

/** A schema as one request of a client may use it. */
export interface Target {
  readonly remote: Remote
  readonly url: string
  /** Fixed ones and those of the client that are passed on. */
  readonly headers: Readonly<Record<string, string>>
  readonly maxFields: number
}
export interface RequestsOptions {
  readonly targets: ReadonlyMap<string, Target>
  /** Variables of the client's document, their types named as in the schemas, and values as they came. */
  readonly definitions: readonly VariableDefinitionNode[]
  readonly values: JsonObject
  /** Begins the names of variables of ours. */
  readonly mark: string
  readonly maxRequests: number
  readonly signal: AbortSignal
  /** Told of errors that stand nowhere in the data. */
  readonly onError: (error: GraphQLError) => void
  /** Told of each request that has ended. */
  readonly onEnd: (schema: string, outcome: string) => void
}

/** One root field of a schema to ask for. */
export interface Question {
  readonly schema: string
  readonly operation: RootKind
  /** Equal questions at the same time are asked once; undefined is always asked. */
  readonly key: string | undefined
  /** Without an alias. */
  field(): FieldNode
  /** Arguments of ours, by name, with their types in the schema. */
  readonly extra?: () => Readonly<Record<string, { readonly type: string; readonly value: Json }>>
}

interface Pending {
  readonly question: Question
  readonly answer: Promise<Value>
  resolve(value: Value): void
}

/** Gathers what is asked of each schema at the same time into one document. Lives as long as a request of a client. */
export class Requests {
  private readonly options: RequestsOptions
  private pending: Pending[] = []
  private readonly byKey = new Map<string, Pending>()
  private sent = 0

  constructor(options: RequestsOptions) {
    this.options = options
  }

  /** Never rejects: what goes wrong is the answer. An answer must not be changed, others may have it too. */
  ask(question: Question): Promise<Value> {
    const key = question.key === undefined ? undefined : `${question.schema} ${question.key}`
    const before = key === undefined ? undefined : this.byKey.get(key)
    if (before) return before.answer
    let resolve: Pending['resolve'] = () => {}
    const answer = new Promise<Value>((fn) => (resolve = fn))
    const pending = { question, answer, resolve }
    // All rows of an answer are completed before this comes: what they ask goes into one document.
    if (this.pending.length === 0) setImmediate(() => this.flush())
    this.pending.push(pending)
    if (key !== undefined) this.byKey.set(key, pending)
    return answer
  }

  private flush(): void {
    const all = this.pending
    this.pending = []
    this.byKey.clear()
    const groups = new Map<string, Pending[]>()
    for (const each of all) {
      const name = `${each.question.operation} ${each.question.schema}`
      groups.set(name, [...(groups.get(name) ?? []), each])
    }
    for (const group of groups.values()) {
      const { schema, operation } = group[0]!.question
      const { maxFields } = this.options.targets.get(schema)!
      for (let i = 0; i < group.length; i += maxFields) {
        void this.send(schema, operation, group.slice(i, i + maxFields))
      }
    }
  }

  private async send(schema: string, operation: RootKind, group: readonly Pending[]): Promise<void> {
    const { targets, maxRequests, signal, onEnd, onError } = this.options
    const { remote, url, headers } = targets.get(schema)!
    const aliases = group.map((_, i) => `f${i}`)
    try {
      if (++this.sent > maxRequests) {
        const message = `the request needs more than ${maxRequests} requests to schemas (plugins.stitch.limits.maxRequests)`
        throw failed('limit-exceeded', message, schema)
      }
      const body = this.document(operation, group, aliases)
      const request = { method: 'POST', url, headers, body, repeatable: operation === 'query' } as const
      const { data, errors } = readAnswer(schema, await remote.ask(request, signal), aliases)
      for (const [i, { resolve }] of group.entries()) resolve(data[aliases[i]!] ?? null)
      for (const error of errors) onError(error)
      onEnd(schema, 'answered')
    } catch (error) {
      const known = error instanceof RemoteError ? failed(error.code, error.message, schema) : error
      const answer = known instanceof Error ? known : new Error(String(known))
      for (const { resolve } of group) resolve(answer)
      onEnd(schema, known instanceof GraphQLError ? String(known.extensions['code']) : 'unexpected')
    }
  }

  /** The body of a request for all fields of a group. */
  private document(operation: RootKind, group: readonly Pending[], aliases: readonly string[]): string {
    const { mark, definitions, values } = this.options
    const variables: JsonObject = Object.create(null)
    const declared: VariableDefinitionNode[] = []
    let count = 0
    const selections = group.map(({ question }, i): FieldNode => {
      const field = question.field()
      const extra = Object.entries(question.extra?.() ?? {}).map(([name, { type, value }]): ArgumentNode => {
        const variable = { kind: Kind.VARIABLE, name: nameNode(`${mark}${count++}`) } as const
        variables[variable.name.value] = asText(value, type)
        declared.push({ kind: Kind.VARIABLE_DEFINITION, variable, type: parseType(type, { noLocation: true }) })
        return { kind: Kind.ARGUMENT, name: nameNode(name), value: variable }
      })
      return { ...field, alias: nameNode(aliases[i]!), arguments: [...(field.arguments ?? []), ...extra] }
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

const nameNode = (value: string) => ({ kind: Kind.NAME, value }) as const

/** A number column may be the text argument of another schema. */
function asText(value: Json, type: string): Json {
  if (!/^\[*(String|ID)\b/.test(type)) return value
  if (Array.isArray(value)) return value.map((item) => asText(item, type))
  if (value instanceof NumberText) return value.text
  return typeof value === 'number' ? String(value) : value
}

export const isRow = (value: unknown): value is Readonly<Record<string, Value>> =>
  typeof value === 'object' && value !== null && !(value instanceof Error) && isObject(value as Json)
