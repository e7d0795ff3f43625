import type { Infer } from 'rowhouse'

const count = (fallback: number, description: string) =>
  ({ type: 'integer', minimum: 1, default: fallback, description }) as const
const text = (description: string) => ({ type: 'string', minLength: 1, description }) as const
const flag = (fallback: boolean, description: string) => ({ type: 'boolean', default: fallback, description }) as const
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
    url: text('http or https address that queries are sent to'),
    sdl: text('the schema as SDL text; {"$file": path} reads a file'),
    schemaUrl: text(
      'address of the schema: SDL, or JSON with the key "schema" as GET /v1alpha1/graphql/schema answers',
    ),
    introspect: flag(true, 'whether to introspect the service when neither sdl nor schemaUrl is set'),
    schemaHeaders: headers('sent in addition to headers when the schema is fetched, and never otherwise'),
    headers: headers('sent with every request: all callers of this server act with them'),
    forwardHeaders: {
      type: 'array',
      items: { type: 'string', pattern: '^[A-Za-z0-9-]+$' },
      default: ['authorization'],
      description: 'Client headers to forward; no others reach the schema.',
    },
    prefix: {
      type: 'string',
      pattern: '^[A-Za-z][A-Za-z0-9_]*$',
      description: 'Prepended to names of root fields and types, except scalars.',
    },
    timeoutMs: count(5_000, 'maximum time for one request and its answer'),
    maxBytes: count(10_485_760, 'maximum size of one answer'),
    maxFields: count(50, 'maximum number of root fields in one request'),
  },
} as const

const extension = {
  type: 'object',
  required: ['type', 'field', 'from', 'query'],
  additionalProperties: false,
  properties: {
    type: text('type to extend, with its prefix'),
    field: text('name of the new field'),
    from: text('schema that answers the field'),
    query: text('root field of that schema, without its prefix'),
    arguments: {
      type: 'object',
      additionalProperties: true,
      default: {},
      description:
        'Arguments of the root field; "$city" is the column city of the row, "$$" a dollar sign, also inside objects.',
    },
    many: flag(false, 'whether the field is the whole list; otherwise its first item'),
    batch: {
      type: 'object',
      required: ['argument', 'key'],
      additionalProperties: false,
      description: 'Fetches all rows with one root field that takes a list of keys.',
      properties: {
        argument: text('argument that takes the list; "where.city._in" names one inside objects'),
        key: text('field of the result that holds the key of its row'),
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
      description: 'Path of the endpoint.',
    },
    schemas: {
      type: 'object',
      minProperties: 1,
      additionalProperties: schema,
      description: 'GraphQL services to merge, by name; error messages use the name',
    },
    extensions: {
      type: 'array',
      items: extension,
      default: [],
      description: 'Fields that are answered by another schema.',
    },
    credentials: {
      type: 'string',
      enum: ['check', 'pass'],
      default: 'check',
      description: 'Pass: only the schemas check bearer tokens, and their bearers are anonymous here.',
    },
    introspection: flag(true, 'whether roles other than admin may introspect the merged schema'),
    limits: {
      type: 'object',
      additionalProperties: false,
      default: {},
      properties: {
        maxBytes: count(262_144, 'maximum size of a document'),
        maxTokens: count(5_000, 'maximum number of tokens, and of fields with fragments spread'),
        maxDepth: count(20, 'maximum depth of fields'),
        maxRootFields: count(50, 'maximum number of root fields of an operation'),
        maxAliases: count(200, 'maximum number of aliases and of fields that are selected again'),
        maxRequests: count(100, 'maximum number of requests to schemas for one request of a client'),
      },
    },
  },
} as const

export type StitchConfig = Infer<typeof config>
export type SchemaConfig = StitchConfig['schemas'][string]
export type ExtensionConfig = StitchConfig['extensions'][number]

/** A mistake in the configuration. */
export interface Mistake {
  /** Path within the configuration of the plugin, e.g. `.extensions[0].type`. */
  readonly path: string
  readonly message: string
}
