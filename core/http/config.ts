import type { Infer } from '../json/schema.js'
import { setting } from '../json/setting.js'

const { advanced, choice, count, flag, milliseconds, section } = setting

const host = { type: 'string' } as const
const port = { type: 'integer', minimum: 0, maximum: 65_535 } as const
const socket = {
  type: 'object',
  required: ['path'],
  properties: {
    // 103 bytes and a terminating NUL fit on every platform.
    path: {
      type: 'string',
      minLength: 1,
      maxLength: 103,
      description: 'Path of the socket file. Rowhouse replaces a stale file.',
    },
    mode: {
      type: 'string',
      pattern: '^0?[0-7]{3}$',
      default: '660',
      description: 'File permissions of the socket, in octal. They decide which users can connect.',
      advanced: true,
    },
  },
} as const
const metrics = { type: 'string', enum: ['secret', 'open'] } as const

const listener = {
  type: 'object',
  required: ['plugins'],
  properties: {
    plugins: {
      type: 'array',
      items: { type: 'string', minLength: 1 },
      description:
        'Names of the plugins to serve on this listener only. An empty list serves only the endpoints of the core.',
    },
    host: { ...host, description: 'Address to listen on. Defaults to `http.host`.' },
    port: { ...port, description: 'Port to listen on. 0 picks a free port.' },
    socket: { ...socket, description: 'Unix socket to listen on instead of host and port.', advanced: true },
    metrics: {
      ...metrics,
      description: 'Access to /metrics and /readyz on this listener. Takes the same values as `http.metrics`.',
      advanced: true,
    },
  },
} as const

/** The section `http` of the configuration. */
export const httpConfig = {
  type: 'object',
  default: {},
  properties: {
    host: { ...host, default: '127.0.0.1', description: 'Address to listen on.' },
    port: { ...port, default: 8080, description: 'Port to listen on. 0 picks a free port.' },
    socket: { ...socket, description: 'Unix socket to listen on instead of host and port.' },
    listeners: {
      type: 'array',
      items: listener,
      default: [],
      description: 'Additional listeners, each serving the plugins that it names.',
    },
    hosts: {
      type: 'array',
      minItems: 1,
      items: { type: 'string', pattern: '^([a-z0-9._-]+|\\[[0-9a-f:.]+\\])$' },
      description:
        'Names and addresses that the `Host` header may contain, in lower case and without a port. Other requests, including health checks, fail with 421. Protects against [DNS rebinding](http/authentication.md#dns-rebinding). Defaults to every host, and to the names of loopback for `rowhouse dev` on loopback.',
    },
    trustedProxies: {
      type: 'array',
      items: { type: 'string' },
      default: [],
      description:
        'Proxies whose `X-Forwarded-For` header is trusted: addresses, CIDR ranges such as `10.0.0.0/8`, or `unix` for the unix socket. Trusts no proxy by default.',
    },
    maxJsonBytes: count(10 * 1024 * 1024, 'Maximum size of a JSON body. Larger bodies fail with 413.'),
    maxAnonymousJsonBytes: advanced.count(
      1024 * 1024,
      'Maximum size of a JSON body of the role anonymous, if smaller than `maxJsonBytes`. Larger bodies fail with 413.',
    ),
    maxJsonValues: advanced.count(
      100_000,
      'Maximum number of values in a JSON body of a role other than admin. The rows in `objects` do not count. Bodies with more fail with 413.',
    ),
    maxAnonymousJsonValues: advanced.count(
      10_000,
      'Maximum number of values in a JSON body of the role anonymous, if smaller than `maxJsonValues`. Bodies with more fail with 413.',
    ),
    maxAdminJsonBytes: advanced.count(
      64 * 1024 * 1024,
      'Maximum size of a JSON body that the role admin sends to `/v1/query`. Larger bodies fail with 413.',
    ),
    jsonTimeoutMs: advanced.milliseconds(30_000, 'Maximum time to receive a JSON body. Slower requests fail with 408.'),
    headersTimeoutMs: advanced.milliseconds(
      10_000,
      'Maximum time to receive the headers of a request. Slower requests fail with 408.',
    ),
    keepAliveTimeoutMs: advanced.milliseconds(
      65_000,
      'Time to keep an idle connection open. Set it higher than the idle timeout of the proxy in front.',
    ),
    idleWriteTimeoutMs: advanced.milliseconds(
      60_000,
      'Maximum time that a client may stop reading a response. The connection is then closed. 0 disables the limit.',
    ),
    maxHeaderBytes: advanced.count(
      16 * 1024,
      'Maximum total size of the request headers. Larger headers fail with 431.',
    ),
    maxHeaders: advanced.count(100, 'Maximum number of request headers. Requests with more fail with 431.'),
    maxConnections: advanced.count(
      10_000,
      'Maximum number of open connections per listener. A further one replaces the oldest idle connection of the address with most of them, or is refused.',
    ),
    maxConcurrentRequests: count(
      1_000,
      'Maximum number of concurrent requests. Further requests fail with 503. One address, except loopback, may have half of them; its further requests fail with 429.',
    ),
    failedAuthPerMinute: advanced.count(
      10,
      'Failed authentication attempts per minute that one address may make. Further failed attempts get 429, delayed by one second.',
    ),
    drainDelayMs: milliseconds(
      0,
      'Time to keep listening after /readyz starts to return 503. Use about 5000 behind a load balancer.',
    ),
    drainTimeoutMs: advanced.milliseconds(
      25_000,
      'Maximum time for in-flight requests to finish after the listener has closed.',
    ),
    metrics: {
      ...metrics,
      description:
        'Access to /metrics and to the names in /readyz. `secret` requires the role admin or, for /metrics, the `metricsToken`; `open` allows every client. Defaults to `secret`, and to `open` for `rowhouse dev` on loopback.',
    },
    metricsToken: {
      type: 'string',
      minLength: 16,
      secret: true,
      description: 'Bearer token that grants access to /metrics only.',
    },
    home: {
      type: 'string',
      pattern: '^/[^/]',
      description:
        'Page to which browsers are redirected from `/`, such as `/console`, as for `rowhouse dev`. Without it they get a list of all routes.',
      advanced: true,
    },
    refusalReasons: {
      type: 'boolean',
      description:
        'Whether a 401 says in `internal` why the credentials were refused. For development only. True for `rowhouse dev`, otherwise false.',
      advanced: true,
    },
    explainPermissions: {
      type: 'boolean',
      description:
        'Whether every caller may run `explain_permission` about itself. For development only: the answer shows data that the caller may not read. True for `rowhouse dev` on loopback, otherwise false.',
      advanced: true,
    },
    serverTiming: {
      type: 'boolean',
      description:
        'Adds a `Server-Timing` header to responses for the role admin. True for `rowhouse dev`, otherwise false.',
      advanced: true,
    },
    cors: section('Cross-origin access for browsers (CORS).', {
      origins: {
        type: 'array',
        items: { type: 'string', pattern: '^https?://[^/*\\s]+$' },
        default: [],
        description:
          'Exact origins that may read responses and, with a session cookie, send writes. An empty list disables CORS.',
      },
      credentials: flag(false, 'Allows these origins to send cookies.'),
      maxAgeSeconds: advanced.amount(600, 'Time for which browsers may cache a preflight response, in seconds.'),
    }),
  },
} as const
export type HttpConfig = Infer<typeof httpConfig>

const pointer = { type: 'string', pattern: '^(/([^~/]|~[01])*)+$' } as const
const secret = { type: 'string', minLength: 1, secret: true } as const
const secrets = { type: 'array', items: secret, default: [] } as const

const jwtConfig = {
  type: 'object',
  required: ['algorithms'],
  properties: {
    algorithms: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      items: {
        type: 'string',
        enum: [
          'HS256',
          'HS384',
          'HS512',
          'RS256',
          'RS384',
          'RS512',
          'PS256',
          'PS384',
          'PS512',
          'ES256',
          'ES384',
          'ES512',
          'EdDSA',
          'Ed25519',
        ],
      },
      description: 'Accepted signature algorithms. HS* cannot be combined with other algorithms.',
    },
    key: {
      type: 'string',
      minLength: 1,
      secret: true,
      description: 'For HS*, a shared secret of at least 32 bytes. For other algorithms, a public key as PEM or JWK.',
    },
    jwksUrl: {
      type: 'string',
      description: 'URL of a key set (JWKS) to use instead of `key`. Must be https, or http on loopback.',
    },
    jwksTimeoutMs: { ...advanced.milliseconds(500, 'Maximum time to fetch the key set.'), minimum: 1 },
    jwksMaxAgeMs: advanced.milliseconds(600_000, 'Age at which the key set is fetched again.'),
    jwksCooldownMs: advanced.milliseconds(30_000, 'Minimum time between fetches caused by unknown key ids.'),
    issuer: {
      type: 'string',
      description:
        'Required value of the `iss` claim. Set it in production. With several issuers, it selects the one that issued the token.',
    },
    audience: {
      type: 'string',
      description: 'Value that the `aud` claim must equal or contain. Set it in production.',
    },
    leewaySeconds: { ...advanced.amount(30, 'Allowed clock difference, in seconds.'), maximum: 600 },
    cookie: {
      type: 'string',
      pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
      default: 'rowhouse_session',
      description: 'Name of the cookie that may hold the token.',
    },
    header: {
      type: 'string',
      pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
      description: 'Name of a header that holds the bare token. It replaces Authorization and the cookie.',
    },
    claims: section('Location of roles and session variables in the token.', {
      namespace: {
        type: 'string',
        default: 'rowhouse',
        description: 'Claim that holds `x-service-allowed-roles`, `x-service-default-role` and the session variables.',
      },
      namespacePath: {
        type: 'string',
        pattern: '^(/([^~/]|~[01])*)*$',
        description: 'JSON pointer to that object, instead of `namespace`, e.g. `/app/claims`.',
        advanced: true,
      },
      format: advanced.choice(
        ['json', 'stringified_json'],
        'json',
        'Format of that claim. Use `stringified_json` when the claim is a string that contains JSON.',
      ),
      allowedRoles: {
        ...pointer,
        description: 'JSON pointer to the list of roles, e.g. `/realm_access/roles`.',
        advanced: true,
      },
      defaultRole: {
        ...pointer,
        description: 'JSON pointer to the role of requests that name no role.',
        advanced: true,
      },
      variables: {
        type: 'object',
        additionalProperties: pointer,
        default: {},
        description: 'JSON pointers by session variable, e.g. `{"x-service-user-id": "/sub"}`.',
        advanced: true,
      },
    }),
  },
} as const
export type JwtConfig = Infer<typeof jwtConfig>

const webhookConfig = {
  type: 'object',
  required: ['url'],
  description: 'Service that authenticates every request without a secret.',
  properties: {
    url: { type: 'string', pattern: '^https?://', description: 'URL of the service.' },
    method: advanced.choice(
      ['GET', 'POST'],
      'GET',
      'HTTP method. GET forwards the headers of the request; POST sends them as JSON.',
    ),
    timeoutMs: {
      ...advanced.milliseconds(5_000, 'Maximum time to wait for the response. The request then fails with 500.'),
      minimum: 1,
    },
  },
} as const
export type WebhookConfig = Infer<typeof webhookConfig>

/** The section `auth` of the configuration. */
export const authConfig = {
  type: 'object',
  default: {},
  properties: {
    mode: choice(
      ['direct', 'gateway'],
      'direct',
      'With `gateway`, every caller needs the gateway secret or an admin secret, except over `http.socket`.',
    ),
    adminSecret: { ...secret, description: 'Secret whose holder may act as any role. Use at least 32 characters.' },
    previousAdminSecrets: { ...secrets, description: 'Previous admin secrets that stay valid during a rotation.' },
    gatewaySecret: {
      ...secret,
      description: 'Secret that identifies the gateway. Its `X-Service-*` headers are trusted.',
    },
    previousGatewaySecrets: {
      ...secrets,
      description: 'Previous gateway secrets that stay valid during a rotation.',
      advanced: true,
    },
    jwt: {
      type: 'array',
      minItems: 1,
      items: jwtConfig,
      description:
        'Issuer of signed tokens (JWT), or a list of issuers. Clients send tokens as `Authorization: Bearer` or in the session cookie.',
    },
    webhook: webhookConfig,
    hasuraNames: advanced.flag(
      false,
      'Whether headers, claims and webhook responses may use `X-Hasura-*` for `X-Service-*`, and the claim `https://hasura.io/jwt/claims`.',
    ),
  },
} as const
export type AuthConfig = Infer<typeof authConfig>
