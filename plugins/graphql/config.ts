import type { Infer } from 'rowhouse'

const count = (fallback: number, description: string) =>
  ({ type: 'integer', minimum: 1, default: fallback, description }) as const

const limits = {
  type: 'object',
  advanced: true,
  properties: {
    maxBytes: count(262_144, 'Maximum size of a document, in bytes.'),
    maxTokens: count(
      5_000,
      'Maximum number of tokens in a document, and of fields. Each spread of a fragment counts its fields again.',
    ),
    maxDepth: count(20, 'Maximum depth of fields.'),
    maxRootFields: count(50, 'Maximum number of root fields of an operation.'),
    maxAliases: count(200, 'Maximum number of aliases. Each spread of a fragment counts its aliases again.'),
    maxBatch: count(20, 'Maximum number of operations in one request.'),
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
      description: 'Limits by role. They override `limits`.',
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
      description: 'Documents by name. A client can send the name as `documentId` instead of a query.',
      additionalProperties: { type: 'string' },
      default: {},
    },
    onlyListed: {
      type: 'boolean',
      default: false,
      description: 'Whether roles other than admin can run only the documents in `operations`.',
    },
    maxPersisted: {
      type: 'integer',
      minimum: 0,
      default: 1_000,
      description: 'Maximum number of documents that clients can register by hash. 0 disables this.',
      advanced: true,
    },
    digitsAsText: {
      type: 'boolean',
      default: false,
      description:
        'Whether `/v1/graphql` and `/v1beta1/relay` return bigint and numeric as strings, for clients that would round them.',
      advanced: true,
    },
    relay: {
      type: 'boolean',
      default: true,
      description: 'Whether to serve the schema for Relay at `/v1beta1/relay`.',
      advanced: true,
    },
    namingConvention: {
      type: 'string',
      enum: ['hasura-default', 'graphql-default'],
      default: 'hasura-default',
      description:
        'Names in `/v1/graphql` of what has no custom name. `hasura-default`: those of the database, with parts in snake_case. `graphql-default`: fields and arguments in camelCase, types in PascalCase.',
      advanced: true,
    },
    inferFunctionPermissions: {
      type: 'boolean',
      default: false,
      description:
        'Whether roles may call `stable` and `immutable` functions without a function permission if they may select from the table whose rows these return.',
      advanced: true,
    },
    introspection: {
      type: 'boolean',
      default: true,
      description: 'Whether roles other than admin can use introspection on `/v1/graphql` and `/v1beta1/relay`.',
    },
  },
  additionalProperties: false,
} as const

export type GraphqlConfig = Infer<typeof config>
