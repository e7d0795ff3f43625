import { type Call, type Data, ServiceError, timed } from 'rowhouse'
import type { Json, JsonObject } from 'rowhouse/plan'
import type { Limits } from './plan/document.js'
import type { GraphqlShape } from './plan/index.js'
import { type InputTypes, invalid, keysIn, liftVariables } from './plan/input.js'
import type { Dialect } from './plan/names.js'
import type { Failure, Prepared, PrepareShape } from './plan/prepare.js'

export const PLANNER = 'graphql'

export interface GraphqlRequest {
  readonly text: string
  readonly operationName?: string
  readonly variables: JsonObject
}
export interface ExecuteOptions {
  readonly dialect: Dialect
  readonly limits: Limits
  readonly introspection: boolean
  /** Whether bigint and numeric are returned as strings. */
  readonly digitsAsText: boolean
  /** Whether long lists are streamed. */
  readonly streams: boolean
  /** Whether there are live queries. */
  readonly subscriptions?: true | undefined
}

/** 400: the document has one or more errors. */
export class InvalidDocument extends ServiceError {
  readonly failures: readonly Failure[]

  constructor(failures: readonly Failure[]) {
    const [{ code, message, path }] = failures as [Failure]
    super(400, code, message, path)
    this.failures = failures
  }
}

/** Reads and validates the document. @throws InvalidDocument */
export async function prepare(
  data: Data,
  { text, operationName, variables }: GraphqlRequest,
  { dialect, limits, subscriptions }: ExecuteOptions,
  call: Call,
) {
  const { maxTokens, maxDepth, maxRootFields, maxAliases } = limits
  const shape: PrepareShape = {
    kind: 'document',
    dialect,
    text,
    operationName,
    keys: [...keysIn(variables)].sort(),
    limits: { maxTokens, maxDepth, maxRootFields, maxAliases },
    subscriptions,
  }
  const prepared = await data.prepare<Prepared>(PLANNER, shape, call)
  if ('failed' in prepared) throw new InvalidDocument(prepared.failed)
  return prepared
}

/** A request apart from the planner's name, with its values by slot. */
export interface LiftedRequest {
  readonly shape: GraphqlShape
  readonly values: readonly Json[]
}

/** Splits a request into its shape and the values of its variables. @throws ServiceError 400 */
export function liftRequest(
  { inputs }: Pick<Extract<Prepared, { inputs: unknown }>, 'inputs'>,
  request: GraphqlRequest,
  { dialect, digitsAsText }: ExecuteOptions,
  call: Call,
): LiftedRequest {
  if (dialect === 'alpha') refuseUndeclared(inputs, request.variables)
  const { shape: variables, values } = timed(call.timing, 'lift', () => liftVariables(inputs, request.variables))
  const { text, operationName } = request
  return { shape: { dialect, text, operationName, variables, digitsAsText: digitsAsText || undefined }, values }
}

/** Replaces the path of an error about a whole statement, which is `$.args` as in the JSON query API. */
export async function withPath<T>(running: Promise<T>, replace: (error: ServiceError) => ServiceError): Promise<T> {
  try {
    return await running
  } catch (error) {
    throw error instanceof ServiceError && isWhole(error) ? replace(error) : error
  }
}
export const isWhole = ({ path }: ServiceError): boolean => /^\$\.args\b/.test(path)
export const atSelectionSet = (error: ServiceError): ServiceError => error.moved('$.selectionSet')

/** Without this, a condition on a variable with a mistyped name would match all rows. */
function refuseUndeclared({ variables }: InputTypes, given: JsonObject): void {
  const declared = new Set(variables.map(({ name }) => name))
  const others = Object.keys(given).filter((name) => !declared.has(name))
  if (others.length > 0) throw invalid(`unexpected variables in variableValues: ${others.join(', ')}`, '$.variables')
}
