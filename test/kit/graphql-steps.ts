import { type Expected, is, query, type Step } from './promises.js'
import type { As } from './server.js'

interface More {
  readonly variables?: unknown
  readonly operationName?: unknown
  readonly as?: As
  readonly headers?: Readonly<Record<string, string>>
  /** Other keys of the body. */
  readonly body?: object
}
type Ask = (document: string, expected: Expected, more?: More) => Step

const to =
  (path: string): Ask =>
  (document, expected, { as, headers, body, ...parts } = {}) => ({
    path,
    method: 'POST',
    body: JSON.stringify({ query: document, ...parts, ...body }),
    expected,
    ...(as ? { as } : {}),
    ...(headers ? { headers } : {}),
  })
/** A request to each of the endpoints. */
export const alpha = to('/v1alpha1/graphql')
export const modern = to('/v1/graphql')
export const relay = to('/v1beta1/relay')

/** A request whose body is as it is. */
export const rawTo =
  (path: string) =>
  (body: string, expected: Expected): Step => ({ path, method: 'POST', body, expected })

/** All of the data, and no errors. */
export const data = (all: unknown): Expected => is({ data: all })

/** One error of the older dialect, in all its forms, and nothing else. */
export const alphaFails = (code: string, error: string | RegExp, path?: string | RegExp): Expected => ({
  status: 400,
  like: {
    data: undefined,
    errors: [
      { code, error, message: error, extensions: { code, ...(path ? { path } : {}) }, ...(path ? { path } : {}) },
    ],
  },
})

/** One error of the newer dialect, and nothing else. */
export const fails = (
  code: string,
  message: RegExp | string,
  path: RegExp | string = /^\$/,
  status = 200,
): Expected => ({
  status,
  like: { data: undefined, errors: [{ message, extensions: { code, path } }] },
})
/** The document is not valid. */
export const invalid = (message: RegExp | string, path?: RegExp | string): Expected =>
  fails('validation-failed', message, path)

/** Counts the rows of a table, as admin. */
export const counted = (table: string, count: number): Step => query('count', { table }, is({ count }))
export const repeat = (count: number, fn: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => fn(i)).join(' ')
