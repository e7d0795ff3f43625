import type { Infer } from 'rowhouse'

const resumable = {
  type: 'object',
  advanced: true,
  description: 'Resumable uploads by the tus protocol.',
  properties: {
    enabled: { type: 'boolean', default: true, description: 'Whether /v1/upload exists.' },
    expireHours: {
      type: 'integer',
      minimum: 1,
      maximum: 8_760,
      default: 24,
      description: 'Time without new bytes after which an unfinished upload is removed.',
    },
    maxPerUser: {
      type: 'integer',
      minimum: 1,
      default: 20,
      description:
        'Maximum number of unfinished uploads of a user, or of an IP address for anonymous callers; then 429.',
    },
  },
  additionalProperties: false,
  default: {},
} as const

const pending = {
  type: 'object',
  advanced: true,
  description: 'Uploads that become files when a transaction commits.',
  properties: {
    expireHours: {
      type: 'integer',
      minimum: 1,
      maximum: 8_760,
      default: 24,
      description: 'Time after which an upload is removed unless it was attached.',
    },
    maxPerUser: {
      type: 'integer',
      minimum: 0,
      default: 100,
      description:
        'Maximum number of pending uploads of a user, or of an IP address for anonymous callers; then 429. 0 turns pending uploads off.',
    },
  },
  additionalProperties: false,
  default: {},
} as const

export const config = {
  type: 'object',
  properties: {
    userId: {
      type: 'string',
      enum: ['integer', 'text'],
      default: 'integer',
      description:
        'Which user ids can use files: integers, or any text, such as a UUID. `text` converts the owners of stored files; there is no way back.',
    },
    maxBytes: { type: 'integer', minimum: 0, default: 104_857_600, description: 'Maximum size of a file.' },
    limits: {
      type: 'object',
      description:
        'Limits by role, including admin: `maxBytes` of a file, and `userBytes` of all files of a user, including uploads in progress.',
      additionalProperties: {
        type: 'object',
        properties: {
          maxBytes: {
            type: 'integer',
            minimum: 0,
            description: 'Maximum size of a file; without it, the common maxBytes.',
          },
          userBytes: {
            type: 'integer',
            minimum: 0,
            description: 'Maximum size of all files of a user; without it, no limit.',
          },
        },
        additionalProperties: false,
      },
      default: {},
    },
    minBytesPerSecond: {
      type: 'integer',
      minimum: 0,
      default: 1_024,
      description: 'Minimum speed of an upload over 30 seconds; a slower one fails with 408.',
      advanced: true,
    },
    permissions: {
      type: 'object',
      description:
        'Operations that each role may perform: `create`, `read` and `delete`. Replacing a file needs `create`. Once one role has an entry, every role but admin needs one.',
      additionalProperties: {
        type: 'array',
        items: { type: 'string', enum: ['create', 'read', 'delete'] },
        uniqueItems: true,
      },
      default: {},
    },
    hook: {
      type: 'object',
      description: 'A service that is called before every operation of roles other than admin.',
      properties: {
        url: {
          type: 'string',
          description:
            'URL of the service, or one of the built-in rules user-read-write, public-read-user-write and public-read.',
        },
        timeoutMs: {
          type: 'integer',
          minimum: 1,
          default: 5000,
          description: 'Maximum time to wait for its response; then 500.',
          advanced: true,
        },
      },
      required: ['url'],
      additionalProperties: false,
    },
    handOff: {
      type: 'object',
      description: 'Lets a proxy or the object store send large downloads.',
      properties: {
        mode: {
          type: 'string',
          enum: ['none', 'x-accel-redirect', 'x-sendfile', 'redirect'],
          default: 'none',
          description:
            'The header that tells a proxy to send a file of the same disk, or a redirect to the object store.',
        },
        prefix: { type: 'string', default: '', description: 'Prefix for the path of a file on the disk.' },
        minBytes: {
          type: 'integer',
          minimum: 0,
          default: 1_048_576,
          description: 'This server sends smaller files itself.',
        },
      },
      additionalProperties: false,
      default: {},
      advanced: true,
    },
    signedUrls: {
      type: 'object',
      description: 'URLs of files that need no other credentials until they expire.',
      properties: {
        maxSeconds: {
          type: 'integer',
          minimum: 0,
          default: 604_800,
          description: 'Maximum lifetime of a URL; 0 turns them off.',
        },
      },
      additionalProperties: false,
      default: {},
      advanced: true,
    },
    cacheBytes: {
      type: 'integer',
      minimum: 0,
      default: 67_108_864,
      description:
        'Memory for cached files: half for files up to 64 KiB, half for files up to 1 MiB; 0 turns the cache off.',
      advanced: true,
    },
    collect: {
      type: 'object',
      description: 'Deletion of bytes that no file uses.',
      properties: {
        everySeconds: { type: 'integer', minimum: 1, default: 60, description: 'Interval between two runs.' },
        graceSeconds: {
          type: 'integer',
          minimum: 0,
          default: 900,
          description: 'How long such bytes are kept: longer than a backup, or a download from an object store, takes.',
        },
      },
      additionalProperties: false,
      default: {},
      advanced: true,
    },
    scrub: {
      type: 'object',
      description: 'Background verification of stored files.',
      properties: {
        bytesPerSecond: {
          type: 'integer',
          minimum: 0,
          default: 2_097_152,
          description: 'Maximum speed of one server; 0 turns verification off.',
        },
        everyDays: {
          type: 'number',
          minimum: 0,
          default: 30,
          description: 'Interval after which a file is verified again.',
        },
      },
      additionalProperties: false,
      default: {},
      advanced: true,
    },
    resumable,
    pending,
  },
  additionalProperties: false,
} as const

export type FilestoreConfig = Infer<typeof config>
export type FileOperation = 'create' | 'read' | 'delete'

/** Size limits of one upload, and of all files of one user. */
interface SizeLimits {
  readonly maxBytes: number
  readonly userBytes: number | undefined
}

export function limitsOf(role: string, { maxBytes, limits }: Pick<FilestoreConfig, 'maxBytes' | 'limits'>): SizeLimits {
  const own = Object.hasOwn(limits, role) ? limits[role] : undefined
  return { maxBytes: own?.maxBytes ?? maxBytes, userBytes: own?.userBytes }
}
