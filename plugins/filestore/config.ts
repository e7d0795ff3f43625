import type { Infer } from 'rowhouse'

export const config = {
  type: 'object',
  properties: {
    maxBytes: { type: 'integer', minimum: 0, default: 104_857_600, description: 'of a file' },
    minBytesPerSecond: {
      type: 'integer',
      minimum: 0,
      default: 1_024,
      description: 'of an upload, over half a minute; a slower one is ended with 408',
    },
    permissions: {
      type: 'object',
      description: 'what each role may do; without an entry nothing; the role admin may do everything',
      additionalProperties: {
        type: 'array',
        items: { type: 'string', enum: ['create', 'read', 'delete'] },
        uniqueItems: true,
      },
      default: {},
    },
    collect: {
      type: 'object',
      description: 'how bytes that no file points to any more are taken away',
      properties: {
        everySeconds: { type: 'integer', minimum: 1, default: 60, description: 'between two rounds' },
        graceSeconds: {
          type: 'integer',
          minimum: 0,
          default: 900,
          description: 'how long they stay: longer than a backup takes, and than a download from an object store',
        },
      },
      additionalProperties: false,
      default: {},
    },
  },
  additionalProperties: false,
} as const

export type FilestoreConfig = Infer<typeof config>
export type FileOperation = 'create' | 'read' | 'delete'
