import { type Infer, setting } from 'rowhouse'

const { advanced, count, flag, text } = setting

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
  properties: {
    url: text('URL of the service, http or https.'),
    sdl: text('The schema as SDL text. `{"$file": path}` reads a file.'),
    schemaUrl: text(
      'URL to fetch the schema from: SDL, or JSON with the key `schema`, as `GET /v1alpha1/graphql/schema` returns.',
    ),
    introspect: flag(true, 'Whether to introspect the service when neither `sdl` nor `schemaUrl` is set.'),
    schemaHeaders: headers('Additional headers for fetching the schema.'),
    headers: headers('Headers for every request. All callers of this server act with them.'),
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
    timeoutMs: count(5_000, 'Maximum time for one request and its response, in milliseconds.'),
    maxBytes: count(10_485_760, 'Maximum size of one response, in bytes.'),
    maxFields: count(50, 'Maximum number of root fields in one request.'),
  },
} as const

const extension = {
  type: 'object',
  required: ['type', 'field', 'from', 'query'],
  properties: {
    type: text('Type to extend, with its prefix.'),
    field: text('Name of the new field.'),
    from: text('Schema that answers the field.'),
    query: text('Root field of that schema, without its prefix.'),
    arguments: {
      type: 'object',
      additionalProperties: true,
      default: {},
      description:
        'Arguments of the root field. `"$city"` is the column `city` of the row, `"$$"` a dollar sign, also inside objects.',
    },
    many: flag(false, 'Whether the field is the whole list. Otherwise it is the first item.'),
    batch: {
      type: 'object',
      required: ['argument', 'key'],
      description: 'Fetches all rows with one root field that takes a list of keys.',
      properties: {
        argument: text('Argument that takes the list. `where.city._in` names a list inside objects.'),
        key: text('Field of the result that contains the key of its row.'),
      },
    },
  },
} as const

export const config = {
  type: 'object',
  required: ['schemas'],
  properties: {
    path: {
      type: 'string',
      pattern: '^(/[A-Za-z0-9_.~-]+)+$',
      default: '/v1/stitch',
      description: 'Path of the endpoint.',
      advanced: true,
    },
    schemas: {
      type: 'object',
      minProperties: 1,
      additionalProperties: schema,
      description: 'GraphQL services to merge, by name. Error messages use the name.',
    },
    extensions: {
      type: 'array',
      items: extension,
      default: [],
      description: 'Fields that another schema answers.',
      advanced: true,
    },
    credentials: advanced.choice(
      ['check', 'pass'],
      'check',
      '`check`: this server verifies bearer tokens too. `pass`: only the schemas verify them, and here their bearers are anonymous.',
    ),
    introspection: advanced.flag(true, 'Whether roles other than admin can introspect the merged schema.'),
    limits: {
      type: 'object',
      default: {},
      properties: {
        maxBytes: count(262_144, 'Maximum size of a document, in bytes.'),
        maxTokens: count(
          5_000,
          'Maximum number of tokens in a document, and of fields. Each spread of a fragment counts its fields again.',
        ),
        maxDepth: count(20, 'Maximum depth of fields.'),
        maxRootFields: count(50, 'Maximum number of root fields of an operation.'),
        maxAliases: count(200, 'Maximum number of aliases and of fields that are selected again.'),
        maxRequests: count(100, 'Maximum number of requests to schemas for one request of a client.'),
      },
      advanced: true,
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
