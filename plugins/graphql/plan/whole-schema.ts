import type { GraphQLSchema } from 'graphql'
import type { Names } from 'rowhouse/plan'
import type { Dialect } from './names.js'
import { buildSchema } from './schema.js'

/** From when it was last asked about. */
const KEPT_MS = 10_000
let last:
  | { readonly names: Names; readonly dialect: Dialect; readonly schema: GraphQLSchema; readonly until: number }
  | undefined

/**
 * All that a role sees in a dialect. The last one is kept for some seconds: tools ask about one type after the other.
 * Never two: one takes more than 100 MB for 2,000 tables.
 */
export function wholeSchema(names: Names, dialect: Dialect): GraphQLSchema {
  if (last?.names !== names || last.dialect !== dialect) last = undefined
  const schema = last?.schema ?? buildSchema(names, dialect)
  last = { names, dialect, schema, until: performance.now() + KEPT_MS }
  return schema
}

/**
 * Gives up a schema that is old or of another snapshot. Every task has to ask for it: a worker waits for tasks without
 * turning its event loop, so there a timer never fires and what a WeakRef has once given is held.
 */
export function dropOldSchema({ snapshot }: Names): void {
  if (last && (last.names.snapshot !== snapshot || performance.now() > last.until)) last = undefined
}
