import { type Infer, setting } from 'rowhouse'

const { advanced, amount, choice, count, flag } = setting

const resumable = advanced.section('Resumable uploads by the tus protocol.', {
  enabled: flag(true, 'Whether /v1/upload exists.'),
  expireHours: {
    ...count(24, 'Time without new bytes after which an unfinished upload is removed.'),
    maximum: 8_760,
  },
  maxPerUser: count(
    20,
    'Maximum number of unfinished uploads of a user, or of an IP address for anonymous callers; then 429.',
  ),
})

const pending = advanced.section('Uploads that become files when a transaction commits.', {
  expireHours: { ...count(24, 'Time after which an upload is removed unless it was attached.'), maximum: 8_760 },
  maxPerUser: amount(
    100,
    'Maximum number of pending uploads of a user, or of an IP address for anonymous callers; then 429. 0 turns pending uploads off.',
  ),
})

export const config = {
  type: 'object',
  properties: {
    userId: choice(
      ['integer', 'text'],
      'integer',
      'Which user ids can use files: integers, or any text, such as a UUID. `text` converts the owners of stored files; there is no way back.',
    ),
    maxBytes: amount(104_857_600, 'Maximum size of a file.'),
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
      },
      default: {},
    },
    minBytesPerSecond: advanced.amount(
      1_024,
      'Minimum speed of an upload over 30 seconds; a slower one fails with 408.',
    ),
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
        timeoutMs: advanced.count(5000, 'Maximum time to wait for its response; then 500.'),
      },
      required: ['url'],
    },
    handOff: advanced.section('Lets a proxy or the object store send large downloads.', {
      mode: choice(
        ['none', 'x-accel-redirect', 'x-sendfile', 'redirect'],
        'none',
        'The header that tells a proxy to send a file of the same disk, or a redirect to the object store.',
      ),
      prefix: { type: 'string', default: '', description: 'Prefix for the path of a file on the disk.' },
      minBytes: amount(1_048_576, 'This server sends smaller files itself.'),
    }),
    signedUrls: advanced.section('URLs of files that need no other credentials until they expire.', {
      maxSeconds: amount(604_800, 'Maximum lifetime of a URL; 0 turns them off.'),
    }),
    cacheBytes: advanced.amount(
      67_108_864,
      'Memory for cached files: half for files up to 64 KiB, half for files up to 1 MiB; 0 turns the cache off.',
    ),
    collect: advanced.section('Deletion of bytes that no file uses.', {
      everySeconds: count(60, 'Interval between two runs.'),
      graceSeconds: amount(
        900,
        'How long such bytes are kept: longer than a backup, or a download from an object store, takes.',
      ),
    }),
    scrub: advanced.section('Background verification of stored files.', {
      bytesPerSecond: amount(2_097_152, 'Maximum speed of one server; 0 turns verification off.'),
      everyDays: {
        type: 'number',
        minimum: 0,
        default: 30,
        description: 'Interval after which a file is verified again.',
      },
    }),
    resumable,
    pending,
  },
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
