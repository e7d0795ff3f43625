import type { Infer } from 'rowhouse'

export const config = {
  type: 'object',
  properties: {
    bucket: { type: 'string', minLength: 3, description: 'where the objects are; it has to exist' },
    prefix: {
      type: 'string',
      pattern: '^[0-9A-Za-z_.-]*(/[0-9A-Za-z_.-]+)*/?$',
      default: '',
      description: 'what every key begins with, e.g. "files/"; other objects of the bucket are left alone',
    },
    region: { type: 'string', minLength: 1, description: 'absent: AWS_REGION; with an endpoint "us-east-1"' },
    endpoint: {
      type: 'string',
      pattern: '^https?://',
      description: 'the store, for other ones than Amazon S3, e.g. "https://s3.example.com"',
    },
    pathStyle: {
      type: 'boolean',
      description: 'whether the bucket is in the path and not in the host name; absent: with an endpoint it is',
    },
    accessKeyId: {
      type: 'string',
      minLength: 1,
      description:
        'absent, and the secret too: found as the AWS SDK does, in the environment, a profile or the machine',
    },
    secretAccessKey: { type: 'string', minLength: 1, secret: true, description: 'of the access key' },
    partBytes: {
      type: 'integer',
      minimum: 5_242_880,
      maximum: 1_073_741_824,
      default: 8_388_608,
      description: 'longer objects are sent in parts of this size; an upload holds up to three in memory',
    },
    connectTimeoutMs: { type: 'integer', minimum: 1, default: 5_000, description: 'longest wait for a connection' },
    timeoutMs: {
      type: 'integer',
      minimum: 1,
      default: 10_000,
      description: 'longest silence of the store: before an answer, while it takes a part, between bytes of a download',
    },
  },
  required: ['bucket'],
  additionalProperties: false,
} as const

export type S3Config = Infer<typeof config>
