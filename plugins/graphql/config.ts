import { type Infer, setting } from 'rowhouse'

const { advanced, count, flag } = setting

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
      },
      default: {},
    },
    operations: {
      type: 'object',
      description: 'Documents by name. A client can send the name as `documentId` instead of a query.',
      additionalProperties: { type: 'string' },
      default: {},
    },
    onlyListed: flag(false, 'Whether roles other than admin can run only the documents in `operations`.'),
    maxPersisted: advanced.amount(
      1_000,
      'Maximum number of documents that clients can register by hash. 0 disables this.',
    ),
    digitsAsText: advanced.flag(
      false,
      'Whether `/v1/graphql` and `/v1beta1/relay` return bigint and numeric as strings, for clients that would round them.',
    ),
    relay: advanced.flag(true, 'Whether to serve the schema for Relay at `/v1beta1/relay`.'),
    namingConvention: advanced.choice(
      ['hasura-default', 'graphql-default'],
      'hasura-default',
      'Names in `/v1/graphql` of what has no custom name. `hasura-default`: those of the database, with parts in snake_case. `graphql-default`: fields and arguments in camelCase, types in PascalCase.',
    ),
    inferFunctionPermissions: advanced.flag(
      false,
      'Whether roles may call `stable` and `immutable` functions without a function permission if they may select from the table whose rows these return.',
    ),
    introspection: flag(
      true,
      'Whether roles other than admin can use introspection on `/v1/graphql` and `/v1beta1/relay`.',
    ),
  },
} as const

export type GraphqlConfig = Infer<typeof config>
