import type { Size } from '../data.js'
import type { Aims } from '../efficiency.js'
import type { Document, Visible } from './postgraphile.js'

/** A read that is repeated as often as can be. */
export interface LoadScenario {
  readonly id: string
  readonly title: string
  /** Connections, each with one request under way. */
  readonly clients: number
  readonly aims: Aims
  /** A body of `POST /v1/query`, for the n-th of the requests that are sent in turn. */
  request(n: number, size: Size): { readonly type: 'select'; readonly args: object }
  /** A body of `POST /v1/graphql` whose field `root` is the same. */
  graphql(n: number, size: Size): Document
  /** A body of PostGraphile's `POST /graphql` whose field `root` is the same, by aliases; `rowsOf` evens out the rest. */
  postgraphile(n: number, size: Size, visible: Visible): Document
  /** Path and query of a GET of Directus, which asks for permitted rows only; by a key it answers one row. */
  directus(n: number, size: Size): string
  /** Path and query of a GET of the server that is written by hand with Fastify; it answers a list. */
  fastify(n: number, size: Size): string
  /** A body of Hasura's `POST /v1/graphql`, where it is another one than `graphql`; its field `root` is the rows, or the one row. */
  hasura?(n: number, size: Size): Document
  /** Path and query of a GET of PostgREST, which hides rows by policies of the database. */
  postgrest(n: number, size: Size): string
  /** Written by hand: a query with one JSON value, which the n-th answer must equal. */
  reference(n: number, size: Size): string
  /** Values of `$1`, `$2`, ... in the SQL that the request is compiled to. */
  parameters(size: Size): readonly Parameter[]
}

/** The same for every request, as a literal of pgbench, or `base + step * n`. */
export type Parameter = string | { readonly base: number; readonly step: number }

/** How many different requests there are. */
export const requestCount = (size: Size): number => Math.min(1000, size.authors)

export const valueOf = (parameter: Parameter, n: number): string =>
  typeof parameter === 'string' ? parameter : String(parameter.base + parameter.step * n)
