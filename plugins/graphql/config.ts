import type { Infer } from 'rowhouse'

const count = (fallback: number, description: string) =>
  ({ type: 'integer', minimum: 1, default: fallback, description }) as const

const limits = {
  type: 'object',
  properties: {
    maxBytes: count(262_144, 'of a document'),
    maxTokens: count(5_000, 'of a document; also fields, where fragments are counted as often as they are spread'),
    maxDepth: count(20, 'levels of fields'),
    maxRootFields: count(50, 'fields of an operation'),
    maxAliases: count(200, 'where fragments are counted as often as they are spread'),
    maxCost: count(100_000_000, 'a field of a row counts 1, a list without a limit 100 rows'),
    maxBatch: count(20, 'operations in one request'),
  },
  additionalProperties: false,
  default: {},
} as const

export const config = {
  type: 'object',
  properties: {
    limits,
    roles: {
      type: 'object',
      description: 'Limits of roles, in place of those for all.',
      additionalProperties: {
        type: 'object',
        properties: Object.fromEntries(
          Object.entries(limits.properties).map(([name, { type, minimum }]) => [name, { type, minimum }]),
        ),
        additionalProperties: false,
      },
      default: {},
    },
    operations: {
      type: 'object',
      description: 'Documents by name: a client may send the name as "documentId" in place of a query.',
      additionalProperties: { type: 'string' },
      default: {},
    },
    onlyListed: {
      type: 'boolean',
      default: false,
      description: 'Whether roles other than admin may run the documents of "operations" only.',
    },
    maxPersisted: {
      type: 'integer',
      minimum: 0,
      default: 1_000,
      description: 'Documents that clients may leave with the server and name by their hash; 0: none.',
    },
    digitsAsText: {
      type: 'boolean',
      default: false,
      description: 'Whether /v1/graphql answers bigint and numeric as strings, for clients that would round them.',
    },
    introspection: {
      type: 'boolean',
      default: true,
      description: 'Whether /v1/graphql answers introspection for roles other than admin.',
    },
  },
  additionalProperties: false,
} as const

export type GraphqlConfig = Infer<typeof config>
