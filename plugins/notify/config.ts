import { type Infer, type Schema, setting } from 'rowhouse'

const { advanced, amount, count } = setting

const names = { type: 'array', items: { type: 'string' }, default: [] } as const

/** Configuration keys shared by the channels. */
const channel = {
  failover: {
    ...names,
    description: 'Providers to call, in this order, when the default one does not accept a message.',
  },
  perSecond: {
    type: 'object',
    additionalProperties: { type: 'number', minimum: 0.001 },
    default: {},
    description: 'Maximum messages per second from this server, by provider; no limit for other providers.',
  },
} as const

export const config = {
  type: 'object',
  properties: {
    email: {
      type: 'object',
      default: {},
      properties: {
        ...channel,
        ownTemplates: advanced.flag(
          true,
          'Whether to use templates stored in Rowhouse when the provider has no templates.',
        ),
        maxRecipients: { ...advanced.count(50, 'Maximum recipients of one request.'), maximum: 50 },
        maxAttachmentBytes: advanced.amount(10 * 1024 * 1024, 'Maximum total size of the attachments of a mail.'),
      },
    },
    sms: {
      type: 'object',
      default: {},
      properties: {
        ...channel,
        countryCodes: {
          type: 'array',
          items: { type: 'string', pattern: '^[1-9]\\d{0,2}$' },
          default: [],
          description: 'Allowed calling codes; an empty list allows all.',
        },
        perNumberPerHour: amount(0, 'Maximum messages to one number within an hour; 0 means no limit.'),
        perDay: amount(0, 'Maximum messages within 24 hours; 0 means no limit.'),
      },
    },
    queue: {
      type: 'object',
      default: {},
      properties: {
        concurrency: {
          ...amount(
            8,
            'Queued messages of a channel that a server sends at the same time. With 0 it only sends messages whose callers wait, and leaves the queue to `rowhouse worker` or another server.',
          ),
          maximum: 100,
        },
        pollMs: {
          type: 'integer',
          minimum: 10,
          default: 1000,
          description: 'How often the outbox is checked for messages that other servers or transactions have stored.',
          advanced: true,
        },
        retrySeconds: {
          type: 'number',
          minimum: 0.01,
          default: 5,
          description: 'Pause before the second attempt; it doubles with each further attempt, up to 15 minutes.',
          advanced: true,
        },
        maxAgeSeconds: advanced.count(86_400, 'Age after which a message is no longer retried.'),
        leaseSeconds: {
          type: 'integer',
          minimum: 2,
          default: 120,
          description: 'Time after which another server may take over a message; an attempt ends after half of it.',
          advanced: true,
        },
      },
    },
    breaker: {
      type: 'object',
      default: {},
      properties: {
        failures: count(5, 'Consecutive failures after which a provider is skipped.'),
        seconds: { type: 'number', minimum: 0.01, default: 30, description: 'How long the provider is skipped.' },
      },
      advanced: true,
    },
    keepDays: count(30, 'How long messages are kept; the contents of sent messages are deleted immediately.'),
  },
} as const satisfies Schema
export type NotifyConfig = Infer<typeof config>
