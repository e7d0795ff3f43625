import type { Expected, Step } from './promises.js'
import type { As } from './server.js'

/** A query of a bulk. */
export interface Request {
  readonly type: string
  readonly args: unknown
}

export const track = (table: string): Request => ({ type: 'track_table', args: table })

export const permit = (type: string, table: string | object, role: string, permission: object): Request => ({
  type: `create_${type}_permission`,
  args: { table, role, permission },
})

/** By a foreign key: `column` of the table itself, or `{table, column}` of the one that refers to it. */
export const relate = (type: 'object' | 'array', table: string, name: string, column: unknown): Request => ({
  type: `create_${type}_relationship`,
  args: { table, name, using: { foreign_key_constraint_on: column } },
})

/** `POST /v1/graphql`. */
export const graphql = (document: string, expected: Expected, as?: As): Step => ({
  path: '/v1/graphql',
  method: 'POST',
  body: JSON.stringify({ query: document }),
  expected,
  ...(as ? { as } : {}),
})
