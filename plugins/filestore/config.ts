import type { Infer } from 'rowhouse'
import { resumable } from './tus/config.js'

export const config = {
  type: 'object',
  properties: {
    maxBytes: { type: 'integer', minimum: 0, default: 104_857_600, description: 'of a file' },
    limits: {
      type: 'object',
      description: 'of roles, the admin only among them when it is named',
      additionalProperties: {
        type: 'object',
        properties: {
          maxBytes: { type: 'integer', minimum: 0, description: 'of a file; maxBytes of all when absent' },
          userBytes: { type: 'integer', minimum: 0, description: 'of all files of a user together; any when absent' },
        },
        additionalProperties: false,
      },
      default: {},
    },
    minBytesPerSecond: {
      type: 'integer',
      minimum: 0,
      default: 1_024,
      description: 'of an upload, over half a minute; a slower one is ended with 408',
    },
    permissions: {
      type: 'object',
      description: 'what each role may do, as soon as there is an entry for one; the role admin may do everything',
      additionalProperties: {
        type: 'array',
        items: { type: 'string', enum: ['create', 'read', 'delete'] },
        uniqueItems: true,
      },
      default: {},
    },
    hook: {
      type: 'object',
      description: 'a service that is asked before every operation of another role than admin',
      properties: {
        url: {
          type: 'string',
          description: 'its address; or user-read-write, public-read-user-write, public-read, which need no service',
        },
        timeoutMs: { type: 'integer', minimum: 1, default: 5000, description: 'longest wait for it; then 500' },
      },
      required: ['url'],
      additionalProperties: false,
    },
    handOff: {
      type: 'object',
      description: 'who sends the bytes of downloads instead of this server',
      properties: {
        by: {
          type: 'string',
          enum: ['none', 'x-accel-redirect', 'x-sendfile', 'redirect'],
          default: 'none',
          description: 'a proxy that reads the same disk and obeys that header, or the store itself, by a redirect',
        },
        prefix: { type: 'string', default: '', description: 'put before the path of a file on the disk' },
        minBytes: { type: 'integer', minimum: 0, default: 1_048_576, description: 'smaller files are sent from here' },
      },
      additionalProperties: false,
      default: {},
    },
    signedUrls: {
      type: 'object',
      description: 'addresses that need no caller until they expire',
      properties: {
        maxSeconds: {
          type: 'integer',
          minimum: 0,
          default: 604_800,
          description: 'longest life of one; 0: there are none',
        },
      },
      additionalProperties: false,
      default: {},
    },
    cacheBytes: {
      type: 'integer',
      minimum: 0,
      default: 67_108_864,
      description:
        'of memory for files that were read, half of it for those of up to 64 KiB, half up to 1 MiB; 0: none',
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
    scrub: {
      type: 'object',
      description: 'how stored bytes are read again, to find damage before somebody needs them',
      properties: {
        bytesPerSecond: {
          type: 'integer',
          minimum: 0,
          default: 2_097_152,
          description: 'read by one server at most; 0: never',
        },
        everyDays: { type: 'number', minimum: 0, default: 30, description: 'how often each file is read' },
      },
      additionalProperties: false,
      default: {},
    },
    resumable,
  },
  additionalProperties: false,
} as const

export type FilestoreConfig = Infer<typeof config>
export type FileOperation = 'create' | 'read' | 'delete'

/** What one upload of a role may have, and all files of one of its users. */
export interface SizeLimits {
  readonly maxBytes: number
  readonly userBytes: number | undefined
}

export function limitsOf(role: string, { maxBytes, limits }: Pick<FilestoreConfig, 'maxBytes' | 'limits'>): SizeLimits {
  const own = Object.hasOwn(limits, role) ? limits[role] : undefined
  return { maxBytes: own?.maxBytes ?? maxBytes, userBytes: own?.userBytes }
}
