import type { Infer, Schema } from 'rowhouse'

const names = { type: 'array', items: { type: 'string' }, default: [] } as const

/** What the channels have in common. */
const channel = {
  failover: {
    ...names,
    description: 'providers to ask, in this order, when the default one does not take a message',
  },
  perSecond: {
    type: 'object',
    additionalProperties: { type: 'number', minimum: 0.001 },
    default: {},
    description: 'by provider, how many messages this server hands it in a second; no limit for others',
  },
} as const

export const config = {
  type: 'object',
  additionalProperties: false,
  properties: {
    email: {
      type: 'object',
      additionalProperties: false,
      default: {},
      properties: {
        ...channel,
        ownTemplates: {
          type: 'boolean',
          default: true,
          description: 'whether mails are made of the templates that are kept here, where the provider has none',
        },
        maxRecipients: { type: 'integer', minimum: 1, maximum: 50, default: 50, description: 'of one request' },
        maxAttachmentBytes: {
          type: 'integer',
          minimum: 0,
          default: 10 * 1024 * 1024,
          description: 'of all attachments of a mail together',
        },
      },
    },
    sms: {
      type: 'object',
      additionalProperties: false,
      default: {},
      properties: {
        ...channel,
        countryCodes: {
          type: 'array',
          items: { type: 'string', pattern: '^[1-9]\\d{0,2}$' },
          default: [],
          description: 'calling codes that may be written to; none given is all',
        },
        perNumberPerHour: {
          type: 'integer',
          minimum: 0,
          default: 0,
          description: 'messages to one number within an hour; 0 is no limit',
        },
        perDay: { type: 'integer', minimum: 0, default: 0, description: 'messages within 24 hours; 0 is no limit' },
      },
    },
    queue: {
      type: 'object',
      additionalProperties: false,
      default: {},
      properties: {
        concurrency: { type: 'integer', minimum: 1, maximum: 100, default: 8, description: 'messages sent at once' },
        pollMs: {
          type: 'integer',
          minimum: 10,
          default: 1000,
          description: 'how often the outbox is looked at for messages that came with a commit',
        },
        retrySeconds: {
          type: 'number',
          minimum: 0.01,
          default: 5,
          description: 'pause before the second try; it doubles with each further one, up to 15 minutes',
        },
        maxAgeSeconds: {
          type: 'integer',
          minimum: 1,
          default: 86_400,
          description: 'age at which a message is no longer tried',
        },
        leaseSeconds: {
          type: 'integer',
          minimum: 2,
          default: 120,
          description:
            'after this time whoever was sending a message is taken for dead; a try is given up at half of it',
        },
      },
    },
    breaker: {
      type: 'object',
      additionalProperties: false,
      default: {},
      properties: {
        failures: {
          type: 'integer',
          minimum: 1,
          default: 5,
          description: 'in a row, after which a provider is let alone',
        },
        seconds: { type: 'number', minimum: 0.01, default: 30, description: 'for so long' },
      },
    },
    keepDays: {
      type: 'integer',
      minimum: 1,
      default: 30,
      description: 'how long is kept what became of a message, and the contents of those that were not sent',
    },
  },
} as const satisfies Schema
export type NotifyConfig = Infer<typeof config>
