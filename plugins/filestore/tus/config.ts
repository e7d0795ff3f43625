export const resumable = {
  type: 'object',
  description: 'uploads that go on after a break, by the tus protocol',
  properties: {
    enabled: { type: 'boolean', default: true },
    expireHours: {
      type: 'integer',
      minimum: 1,
      maximum: 8_760,
      default: 24,
      description: 'how long an upload may rest before its bytes are taken away',
    },
    maxPerUser: {
      type: 'integer',
      minimum: 1,
      default: 20,
      description: 'unfinished uploads of a user, or of an address where callers are anonymous; then 429',
    },
  },
  additionalProperties: false,
  default: {},
} as const
