import { isIP } from 'node:net'
import type { Infer } from 'rowhouse'

export const config = {
  type: 'object',
  properties: {
    host: { type: 'string', minLength: 1, description: 'the mail server' },
    port: { type: 'integer', minimum: 1, maximum: 65_535, default: 465, description: 'where it takes mail' },
    security: {
      type: 'string',
      enum: ['tls', 'starttls', 'none'],
      description:
        'tls: from the first byte; starttls: a plain connection that has to become one of TLS; none: readable by everybody between. Absent: tls at port 465, else starttls',
    },
    username: { type: 'string', minLength: 1, description: 'absent: the server takes mail without one' },
    password: { type: 'string', minLength: 1, secret: true, description: 'of the user' },
    ca: {
      type: 'string',
      minLength: 1,
      description: 'certificates (PEM) that the one of the server may be made with, instead of those that Node trusts',
    },
    servername: { type: 'string', minLength: 1, description: 'name in the certificate of the server; absent: host' },
    domains: {
      type: 'array',
      minItems: 1,
      items: { type: 'string', minLength: 1 },
      description: 'mail goes out from addresses of these domains only; absent: of any',
    },
    name: {
      type: 'string',
      pattern: '^[!-~]+$',
      description: 'what we call ourselves; absent: the name of the machine, if that has a domain',
    },
    connections: {
      type: 'integer',
      minimum: 1,
      maximum: 100,
      default: 3,
      description: 'how many may be open at once; each sends one mail after the other',
    },
    connectTimeoutMs: {
      type: 'integer',
      minimum: 1,
      default: 10_000,
      description: 'longest wait for a connection, from the look-up of the name to the greeting and TLS',
    },
    silenceTimeoutMs: {
      type: 'integer',
      minimum: 1,
      default: 20_000,
      description: 'longest silence of the server in a connection',
    },
    timeoutMs: {
      type: 'integer',
      minimum: 1,
      default: 30_000,
      description: 'time for one mail, with the wait for a free connection',
    },
  },
  required: ['host'],
  additionalProperties: false,
} as const

export type SmtpConfig = Infer<typeof config>

/** @throws Error when the settings contradict each other, or would show a password to everybody */
export function securityOf({ host, port, security, username, password }: SmtpConfig): 'tls' | 'starttls' | 'none' {
  if ((username === undefined) !== (password === undefined)) {
    throw new Error('username and password belong together: set both or none')
  }
  if (security === 'none' && username !== undefined && !isLoopback(host)) {
    throw new Error(`security "none" would send the password readable to "${host}": only this machine may get it so`)
  }
  return security ?? (port === 465 ? 'tls' : 'starttls')
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
