import type { Infer, Schema } from '../json/schema.js'
import { setting } from '../json/setting.js'
import { hostUrls, isPostgresUrl } from './host-urls.js'
import { isWritable } from './writer.js'

const { advanced, amount, count } = setting

export const databaseConfig = {
  type: 'object',
  properties: {
    url: {
      type: 'string',
      secret: true,
      description:
        'Connection URL of the PostgreSQL database. For a unix socket, set its path in the `host` parameter. It may name [several hosts](db/README.md#several-hosts).',
    },
    directUrl: {
      type: 'string',
      secret: true,
      description:
        'Direct connection URL of PostgreSQL, for migrations and for LISTEN. Required when `url` is a connection pooler in transaction mode.',
    },
    readUrls: {
      type: 'array',
      secret: true,
      items: { type: 'string' },
      default: [],
      description: 'Connection URLs of standbys, which answer reads in rotation. See [core/db](db/README.md#standbys).',
    },
    readFrom: advanced.choice(
      ['standby', 'primary'],
      'standby',
      'Where reads run, if there are `readUrls` and the request has no header `Rowhouse-Read-From`.',
    ),
    maxLagMs: {
      type: 'integer',
      minimum: 1000,
      default: 5000,
      description: 'Maximum age of the data of a standby. One that is further behind gets no reads.',
      advanced: true,
    },
    maxAnswerBytes: {
      type: 'integer',
      minimum: 1024,
      default: 64 * 1024 * 1024,
      description:
        'Maximum size of a buffered response, or of one row of a streamed one. Larger ones fail with 400. Also limits the unread responses and unfinished bodies of one caller (429).',
      advanced: true,
    },
    maxAnonymousAnswerBytes: {
      type: 'integer',
      minimum: 1024,
      default: 16 * 1024 * 1024,
      description:
        'The same limit for the role anonymous, if it is smaller. It covers all parts of a bulk, a mutation or a batch together, and everything that one address holds.',
      advanced: true,
    },
    maxConnections: {
      type: 'integer',
      minimum: 7,
      description:
        'Maximum number of connections of all processes of this server together. If it is less than the sum of the sizes below, they shrink in proportion. Default: no maximum for one process, 80 for several. While processes are replaced, one more of them may be connected. [`run_sql`](cli/README.md#several-processes) may open more.',
    },
    poolSize: count(10, 'Maximum number of connections for requests.'),
    pipelines: advanced.amount(
      4,
      'Number of connections that pipeline fast reads of many requests. 0 disables pipelining. Unused behind a connection pooler.',
    ),
    sharedCommits: advanced.amount(
      3,
      'Number of connections that commit fast inserts of several requests together; these see the same `now()`. 0 disables shared commits. Unused behind a connection pooler.',
    ),
    pipelineMaxMs: advanced.count(
      5,
      'Typical duration up to which a read may use a shared connection. For an insert, the limit is eight times as long.',
    ),
    streamPoolSize: advanced.count(
      10,
      'Maximum number of concurrent streamed responses. Further streams fail with 503.',
    ),
    streamMaxAgeMs: advanced.count(
      3_600_000,
      'Maximum time for a client to read a streamed response. The connection is then closed.',
    ),
    streamMinBytesPerSecond: advanced.amount(
      8192,
      'Minimum rate at which a client must read a streamed response, in bytes per second, after the first 30 seconds. Connections of slower clients are closed. 0 disables the limit.',
    ),
    callerShare: advanced.share(
      0.5,
      'Fraction of `poolSize` that one caller (a user in a role, otherwise an address) may use. Further requests fail with 429.',
    ),
    streamShare: advanced.share(
      0.3,
      'Fraction of `streamPoolSize` that the streams of one caller may use. Further streams fail with 429.',
    ),
    anonymousShare: advanced.share(
      0.3,
      'Upper limit of `callerShare` and `streamShare` for the anonymous callers of one address.',
    ),
    anonymousTotalShare: advanced.share(
      0.5,
      'Share of the connections, and of the streams, that all anonymous callers may use together, at least one of each.',
    ),
    roleTimeoutMs: {
      type: 'object',
      default: { anonymous: 5000 },
      description:
        'Maximum duration of a statement by role, if shorter than `statementTimeoutMs`. Longer statements fail with 504.',
      additionalProperties: { type: 'integer', minimum: 1 },
    },
    poolWaitMs: advanced.count(1000, 'Maximum time to wait for a connection. Requests that wait longer fail with 503.'),
    statementTimeoutMs: count(
      30_000,
      'Maximum duration of a statement or of an operation of a plugin. Longer ones fail with 504.',
    ),
    slowQueryMs: amount(
      100,
      'Duration above which the statement of a request is logged as slow and listed by `slow_queries`. 0 disables this.',
    ),
    queryTags: advanced.flag(
      false,
      'Appends an SQL comment with trace, route and operation to the statements of traced requests. These are not prepared and share no connection.',
    ),
    writerVariables: {
      type: 'array',
      items: { type: 'string' },
      default: [],
      description:
        'Session variables that writes tell the database, besides the user id: `x-service-org-id` becomes the setting `service.org_id`. See [who writes](db/README.md#who-writes).',
      advanced: true,
    },
    lockTimeoutMs: advanced.count(
      10_000,
      'Maximum time to wait for a lock. Statements that wait longer fail with 409.',
    ),
  },
} as const satisfies Schema
export type DatabaseConfig = Infer<typeof databaseConfig>

/** Returns the mistakes in the section `database` that its schema cannot detect. Quotes no password. */
export function checkDatabase(
  config: DatabaseConfig,
): readonly { readonly keys: readonly (string | number)[]; readonly message: string }[] {
  const { url, directUrl, readUrls, writerVariables } = config
  const misspelt = (['url', 'directUrl'] as const).filter(
    (key) => config[key] !== undefined && !isPostgresUrl(config[key]),
  )
  return [
    ...misspelt.map((key) => ({ keys: [key], message: EXPECTED })),
    ...readUrls.flatMap((each, i) => {
      const message = !isPostgresUrl(each) ? EXPECTED : hostUrls(each).length > 1 ? ONE_HOST : undefined
      return message === undefined ? [] : [{ keys: ['readUrls', i], message }]
    }),
    ...writerVariables.flatMap((name, i) =>
      isWritable(name) ? [] : [{ keys: ['writerVariables', i], message: NO_VARIABLE }],
    ),
    ...(directUrl !== undefined && url === undefined ? [{ keys: ['directUrl'], message: NO_POOLER }] : []),
  ]
}

const ONE_HOST = 'names several hosts; each standby needs a URL of its own, because its position is checked'

const NO_POOLER = 'requires `database.url` (DATABASE_URL), the URL of the connection pooler'

const NO_VARIABLE =
  'must be `x-service-` in lower case and a name that begins with a letter, such as `x-service-org-id`'

const EXPECTED =
  'must be a PostgreSQL URL: postgresql://user:password@host:5432/name, with special characters percent-encoded'
