import { type Data, type Operations, type Place, placeholder, type Request, tablesOf } from 'rowhouse'
import { at, type Json, type JsonObject, type Names } from 'rowhouse/plan'
import { ALL, checkReferences, fillReferences, hasReferences, hasSteps, readStep, within } from './steps.js'

/** The service for other plugins: what they must know of queries that they keep, such as query templates. */
export interface Query {
  /**
   * Returns the query itself, or the members of a bulk and of bulks in it, with placeholders for references.
   * @param values paths in the query of values that came from elsewhere: nothing in them is a reference
   * @throws ServiceError 400
   */
  members(query: JsonObject, values: readonly string[]): Iterable<Member>
  /**
   * Checks the references between the steps of a bulk.
   * @param open paths in the query of values that are placeholders
   * @throws ServiceError 400
   */
  checkSteps(query: JsonObject, names: Names, open: readonly string[]): void
}
/** A query without members. */
export interface Member {
  readonly query: JsonObject
  /** Its path, e.g. `$.args[1]`. */
  readonly path: string
  /** Paths in it of the placeholders for references. */
  readonly open: readonly string[]
}
declare module 'rowhouse' {
  interface Services {
    query: Query
  }
}

export const queryService = (data: Data, operations: Operations): Query => ({
  members: (query, values) => members(query, operations, hasReferences(query) ? values : ALL),
  checkSteps(query, names, open) {
    const { args } = query
    if (!Array.isArray(args) || !hasSteps(args)) return
    const plan = (request: Request) => data.plan(request, names)
    checkReferences(query, new Map(), { operations, find: tablesOf(names), plan, open }, false)
  },
})

function* members(query: JsonObject, operations: Operations, values: readonly string[], path = '$'): Generator<Member> {
  const operation = operations.get(query['type'] as string)
  if (operation?.templatable === 'queries') {
    for (const [i, member] of (query['args'] as readonly Json[]).entries()) {
      const here = at('$.args', i)
      const inner = values === ALL ? ALL : within(values, here)
      yield* members(readStep(member).query, operations, inner, `${path}${here.slice(1)}`)
    }
    return
  }
  const open: string[] = []
  const valueOf = (_: JsonObject, place: Place): Json => {
    open.push(place.path)
    return placeholder(place)
  }
  yield { query: fillReferences(query, operation, valueOf, values), path, open }
}
