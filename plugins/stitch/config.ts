import type { Infer } from 'rowhouse'

const count = (fallback: number, description: string) =>
  ({ type: 'integer', minimum: 1, default: fallback, description }) as const
const headers = (description: string) =>
  ({
    type: 'object',
    additionalProperties: { type: 'string', secret: true },
    default: {},
    description,
  }) as const

const schema = {
  type: 'object',
  required: ['url'],
  additionalProperties: false,
  properties: {
    url: { type: 'string', minLength: 1, description: 'where its queries are sent: http or https' },
    sdl: { type: 'string', minLength: 1, description: 'its schema as text; {"$file": path} reads a file' },
    schemaUrl: {
      type: 'string',
      minLength: 1,
      description: 'where its schema is fetched: text, or JSON with the key "schema" as GET /v1alpha1/graphql/schema',
    },
    introspect: {
      type: 'boolean',
      default: true,
      description: 'without sdl and schemaUrl its schema is asked for by introspection',
    },
    schemaHeaders: headers('sent, beside headers, when the schema is fetched, and never otherwise'),
    headers: headers('sent with everything; whoever may call this server acts with them'),
    forwardHeaders: {
      type: 'array',
      items: { type: 'string', pattern: '^[A-Za-z0-9-]+$' },
      default: ['authorization'],
      description: 'headers of a request that are passed on; no other reaches the schema',
    },
    prefix: {
      type: 'string',
      pattern: '^[A-Za-z][A-Za-z0-9_]*$',
      description: 'put before the names of its root fields and types, scalars excepted',
    },
    timeoutMs: count(5_000, 'of one request, the answer included'),
    maxBytes: count(10_485_760, 'of one answer'),
    maxFields: count(50, 'root fields in one request; more keys than that take several requests'),
  },
} as const

const extension = {
  type: 'object',
  required: ['type', 'field', 'from', 'query'],
  additionalProperties: false,
  properties: {
    type: { type: 'string', minLength: 1, description: 'the type that is extended, with its prefix' },
    field: { type: 'string', minLength: 1, description: 'the name of the new field' },
    from: { type: 'string', minLength: 1, description: 'the schema that answers it' },
    query: { type: 'string', minLength: 1, description: 'a root field of that schema, without its prefix' },
    arguments: {
      type: 'object',
      additionalProperties: true,
      default: {},
      description: 'its arguments; "$city" stands for the column city of the row, "$$" for a $, also inside objects',
    },
    many: {
      type: 'boolean',
      default: false,
      description: 'whether all of a list is the answer; otherwise the first of it',
    },
    batch: {
      type: 'object',
      required: ['argument', 'key'],
      additionalProperties: false,
      description: 'asks once with the keys of all rows',
      properties: {
        argument: {
          type: 'string',
          minLength: 1,
          description: 'which of the arguments takes a list of them; "where.city._in" is one inside objects',
        },
        key: { type: 'string', minLength: 1, description: 'the field of the result that says which row it is for' },
      },
    },
  },
} as const

export const config = {
  type: 'object',
  required: ['schemas'],
  additionalProperties: false,
  properties: {
    path: {
      type: 'string',
      pattern: '^(/[A-Za-z0-9_.~-]+)+$',
      default: '/v1/stitch',
      description: 'of the endpoint',
    },
    schemas: {
      type: 'object',
      minProperties: 1,
      additionalProperties: schema,
      description: 'the GraphQL services that become one, by a name for messages',
    },
    extensions: { type: 'array', items: extension, default: [], description: 'fields that lead from one to another' },
    credentials: {
      type: 'string',
      enum: ['check', 'pass'],
      default: 'check',
      description: 'pass: bearer tokens are for the schemas to check, their callers are anonymous here',
    },
    introspection: { type: 'boolean', default: true, description: 'whether others than admin may ask for the schema' },
    limits: {
      type: 'object',
      additionalProperties: false,
      default: {},
      properties: {
        maxBytes: count(262_144, 'of a document'),
        maxTokens: count(5_000, 'of a document; also fields, where fragments are counted as often as they are spread'),
        maxDepth: count(20, 'levels of fields'),
        maxRootFields: count(50, 'fields of an operation'),
        maxAliases: count(200, 'also fields that are selected again'),
        maxRequests: count(100, 'to the schemas, for one request of a client'),
      },
    },
  },
} as const

export type StitchConfig = Infer<typeof config>
export type SchemaConfig = StitchConfig['schemas'][string]
export type ExtensionConfig = StitchConfig['extensions'][number]

/** One thing that is wrong with the configuration. */
export interface Mistake {
  /** Below the configuration of the plugin, e.g. `.extensions[0].type`. */
  readonly path: string
  readonly message: string
}
