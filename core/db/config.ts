import type { Infer, Schema } from '../schema.js'

export const databaseConfig = {
  type: 'object',
  properties: {
    url: {
      type: 'string',
      secret: true,
      description: 'PostgreSQL to serve: a URL, or a socket path in its `host` parameter',
    },
    directUrl: {
      type: 'string',
      secret: true,
      description:
        'PostgreSQL itself, when `url` is a connection pooler in transaction mode: to migrate, and to LISTEN for metadata changes',
    },
    maxAnswerBytes: {
      type: 'integer',
      minimum: 1024,
      default: 64 * 1024 * 1024,
      description:
        'Largest part of an answer that is held in memory: a whole answer, or a row of a streamed one; then 400. Also how much of unread answers and unfinished bodies of one caller may wait; then its next request gets 429',
    },
    poolSize: { type: 'integer', minimum: 1, default: 10, description: 'Connections for requests' },
    pipelines: {
      type: 'integer',
      minimum: 0,
      default: 4,
      description: 'Connections that quick reads share, each with many under way; 0: none. Unused behind a pooler',
    },
    sharedCommits: {
      type: 'integer',
      minimum: 0,
      default: 3,
      description:
        'Connections on which quick inserts are committed together, for which `now()` is then the same; 0: none. Unused behind a pooler',
    },
    quickMs: {
      type: 'integer',
      minimum: 1,
      default: 5,
      description:
        'What a read may take on its own connection, most often, to be one that shares; for an insert eight times as long',
    },
    streamPoolSize: {
      type: 'integer',
      minimum: 1,
      default: 10,
      description: 'Streamed answers at the same time; then 503',
    },
    streamMaxAgeMs: {
      type: 'integer',
      minimum: 1,
      default: 3_600_000,
      description: 'Longest time for a client to read an answer; then it is cut off',
    },
    streamMinBytesPerSecond: {
      type: 'integer',
      minimum: 0,
      default: 8192,
      description: 'What a client has to read of rows after half a minute, or it is cut off; 0: anything',
    },
    callerShare: {
      type: 'number',
      minimum: 0,
      maximum: 1,
      default: 0.5,
      description:
        'Part of `poolSize` that the requests of one caller may take: a user in its role, else an address; then 429',
    },
    streamShare: {
      type: 'number',
      minimum: 0,
      maximum: 1,
      default: 0.3,
      description: 'Part of `streamPoolSize` that the streams of one caller may take; then 429',
    },
    anonymousShare: {
      type: 'number',
      minimum: 0,
      maximum: 1,
      default: 0.3,
      description: 'The part of either for an address whose callers are anonymous, where it is smaller',
    },
    roleTimeoutMs: {
      type: 'object',
      default: { anonymous: 5000 },
      description: 'Longest statement of a role, where it is shorter than `statementTimeoutMs`; then 504',
      additionalProperties: { type: 'integer', minimum: 1 },
    },
    poolWaitMs: { type: 'integer', minimum: 1, default: 1000, description: 'Longest wait for a connection; then 503' },
    statementTimeoutMs: {
      type: 'integer',
      minimum: 1,
      default: 30_000,
      description: 'Longest statement, and longest operation of a plugin; then 504',
    },
    lockTimeoutMs: { type: 'integer', minimum: 1, default: 10_000, description: 'Longest wait for a lock; then 409' },
  },
} as const satisfies Schema
export type DatabaseConfig = Infer<typeof databaseConfig>
