import { isIP } from 'node:net'
import { type Infer, setting } from 'rowhouse'

const { count, text } = setting

export const config = {
  type: 'object',
  properties: {
    host: text('Host name of the mail server.'),
    port: { type: 'integer', minimum: 1, maximum: 65_535, default: 465, description: 'Port of the mail server.' },
    security: {
      type: 'string',
      enum: ['tls', 'starttls', 'none'],
      description:
        'Transport security. `tls` encrypts from the first byte, `starttls` requires an upgrade of the plain connection, `none` does not encrypt, and sends a password to this machine only. Defaults to `tls` on port 465, otherwise to `starttls`.',
    },
    username: text('User name. Leave it out for servers without authentication.'),
    password: { type: 'string', minLength: 1, secret: true, description: 'Password of the user.' },
    ca: text('CA certificates (PEM) to trust for the server certificate, instead of those that Node.js trusts.'),
    servername: text('Host name expected in the server certificate. Defaults to `host`.'),
    domains: {
      type: 'array',
      minItems: 1,
      items: { type: 'string', minLength: 1 },
      description: 'Allowed domains of sender addresses; any by default.',
    },
    name: {
      type: 'string',
      pattern: '^[!-~]+$',
      description: 'Host name to send in EHLO. Defaults to the host name of the machine if it includes a domain.',
    },
    connections: {
      ...count(3, 'Maximum number of open connections. Each is kept for 15 seconds idle and for 100 mails.'),
      maximum: 100,
    },
    connectTimeoutMs: count(10_000, 'Maximum time to connect, including name lookup, TLS and the greeting.'),
    silenceTimeoutMs: count(20_000, 'Maximum time without a reply from the server.'),
    timeoutMs: count(30_000, 'Maximum time to send one message, including the wait for a free connection.'),
  },
  required: ['host'],
} as const

export type SmtpConfig = Infer<typeof config>

/** @throws Error when settings conflict, or would send a password unencrypted over a network */
export function securityOf({ host, port, security, username, password }: SmtpConfig): 'tls' | 'starttls' | 'none' {
  if ((username === undefined) !== (password === undefined)) {
    throw new Error('username and password must be set together')
  }
  if (security === 'none' && username !== undefined && !isLoopback(host)) {
    throw new Error(
      `security "none" would send the password unencrypted to "${host}"; it is allowed on this machine only`,
    )
  }
  return security ?? (port === 465 ? 'tls' : 'starttls')
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
