import { timeoutMs } from '../api.js'

/** Configuration keys shared by all providers that send through an HTTP API. */
export const common = {
  timeoutMs,
  domains: {
    type: 'array',
    items: { type: 'string', minLength: 1 },
    description: 'Allowed domains of sender addresses. Allows any domain by default.',
  },
} as const

export const secret = <const D extends string>(description: D) =>
  ({ type: 'string', minLength: 1, secret: true, description }) as const
