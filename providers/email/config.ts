import { timeoutMs } from '../api.js'

/** The keys that every provider has that sends through an HTTP API. */
export const common = {
  timeoutMs,
  domains: {
    type: 'array',
    items: { type: 'string', minLength: 1 },
    description: 'domains that mail may be from; absent: any',
  },
} as const

export const secret = <const D extends string>(description: D) =>
  ({ type: 'string', minLength: 1, secret: true, description }) as const
