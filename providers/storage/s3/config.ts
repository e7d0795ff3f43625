import { type Infer, setting } from 'rowhouse'

const { count, text } = setting

export const config = {
  type: 'object',
  properties: {
    bucket: { type: 'string', minLength: 3, description: 'Name of the bucket. It must exist.' },
    prefix: {
      type: 'string',
      pattern: '^[0-9A-Za-z_.-]*(/[0-9A-Za-z_.-]+)*/?$',
      default: '',
      description: 'Prefix of every key, e.g. "files/". Other objects of the bucket stay untouched.',
    },
    region: text('Region. Defaults to AWS_REGION, or to "us-east-1" when an endpoint is set.'),
    endpoint: {
      type: 'string',
      pattern: '^https?://',
      description: 'URL of a store other than Amazon S3, e.g. "https://s3.example.com".',
    },
    pathStyle: {
      type: 'boolean',
      description: 'Puts the bucket in the path instead of the host name. Defaults to true when an endpoint is set.',
    },
    accessKeyId: text(
      'Access key. Without it and the secret, credentials are looked up like in the AWS SDK: environment, profile, instance.',
    ),
    secretAccessKey: { type: 'string', minLength: 1, secret: true, description: 'Secret of the access key.' },
    partBytes: {
      type: 'integer',
      minimum: 5_242_880,
      maximum: 1_073_741_824,
      default: 8_388_608,
      description:
        'Size of the parts of a multipart upload. Larger objects are uploaded in at most 10,000 parts, two at a time. Each upload buffers up to three parts in memory.',
    },
    connectTimeoutMs: count(5_000, 'Maximum time to connect.'),
    timeoutMs: count(
      10_000,
      'Maximum time without progress, in milliseconds: before a response, during the upload of a part, or between bytes of a download.',
    ),
  },
  required: ['bucket'],
} as const

export type S3Config = Infer<typeof config>
