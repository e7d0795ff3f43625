export const resumable = {
  type: 'object',
  description: 'Resumable uploads by the tus protocol.',
  properties: {
    enabled: { type: 'boolean', default: true, description: 'Serve resumable uploads' },
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
