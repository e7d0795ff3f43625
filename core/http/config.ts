import type { Infer } from '../schema.js'

const milliseconds = { type: 'integer', minimum: 0, maximum: 3_600_000 } as const
const count = { type: 'integer', minimum: 1 } as const

const host = { type: 'string' } as const
const port = { type: 'integer', minimum: 0, maximum: 65_535 } as const
const socket = {
  type: 'object',
  additionalProperties: false,
  required: ['path'],
  properties: {
    // 103 bytes and an end fit on every platform.
    path: { type: 'string', minLength: 1, maxLength: 103, description: 'its file; a stale one is replaced' },
    mode: { type: 'string', pattern: '^0?[0-7]{3}$', default: '660', description: 'who may connect, octal' },
  },
} as const
const metrics = { type: 'string', enum: ['secret', 'open'] } as const

const listener = {
  type: 'object',
  additionalProperties: false,
  required: ['plugins'],
  properties: {
    plugins: {
      type: 'array',
      items: { type: 'string', minLength: 1 },
      description:
        'names of the plugins that are served here, and nowhere else; none for the endpoints of the core alone',
    },
    host: { ...host, description: 'address to listen on; `http.host` unless given' },
    port: { ...port, description: 'port; 0 takes a free one' },
    socket: { ...socket, description: 'a unix socket to listen on in place of host and port' },
    metrics: { ...metrics, description: 'the same as `http.metrics`, for this listener' },
  },
} as const

/** The section `http` of the configuration. */
export const httpConfig = {
  type: 'object',
  additionalProperties: false,
  default: {},
  properties: {
    host: { ...host, default: '127.0.0.1', description: 'address to listen on' },
    port: { ...port, default: 8080, description: 'port; 0 takes a free one' },
    socket: { ...socket, description: 'a unix socket to listen on in place of host and port' },
    listeners: {
      type: 'array',
      items: listener,
      default: [],
      description: 'further places to listen, each for some of the plugins',
    },
    trustedProxies: {
      type: 'array',
      items: { type: 'string' },
      default: [],
      description:
        'addresses, ranges as `10.0.0.0/8`, or `unix` for the socket, whose `X-Forwarded-For` is believed; none by default',
    },
    maxJsonBytes: { ...count, default: 10 * 1024 * 1024, description: 'largest JSON body, in bytes' },
    maxAdminJsonBytes: {
      ...count,
      default: 64 * 1024 * 1024,
      description: 'largest JSON body of the role admin on `/v1/query`, in bytes',
    },
    jsonTimeoutMs: { ...milliseconds, default: 30_000, description: 'time for a JSON body to arrive' },
    headersTimeoutMs: { ...milliseconds, default: 10_000, description: 'time for the headers to arrive' },
    checkIntervalMs: {
      ...milliseconds,
      minimum: 10,
      default: 1_000,
      description: 'how often connections are checked against headersTimeoutMs',
    },
    keepAliveTimeoutMs: {
      ...milliseconds,
      default: 65_000,
      description: 'how long an idle connection stays open; more than the proxy in front keeps it',
    },
    idleWriteTimeoutMs: {
      ...milliseconds,
      default: 60_000,
      description: 'how long a client may leave an answer unread; 0 is no limit',
    },
    maxHeaderBytes: { ...count, default: 16 * 1024, description: 'size of all headers together, in bytes' },
    maxHeaders: { ...count, default: 100, description: 'number of header lines' },
    maxConnections: { ...count, default: 10_000, description: 'open connections of each listener; more are refused' },
    maxConcurrentRequests: {
      ...count,
      default: 1_000,
      description: 'requests worked on at once, then 503; half of them from one address, loopback excepted, then 429',
    },
    failedAuthPerMinute: {
      ...count,
      default: 10,
      description: 'wrong credentials per minute and address that are answered at once; then 429, a second late',
    },
    drainDelayMs: {
      ...milliseconds,
      default: 0,
      description: 'how long the listener stays open after /readyz says 503, for load balancers to notice',
    },
    drainTimeoutMs: {
      ...milliseconds,
      default: 25_000,
      description: 'how long requests under way may take once the listener is closed',
    },
    metrics: {
      ...metrics,
      description:
        'who may read /metrics and the names in /readyz: `secret` for admin and the holder of the metricsToken, `open` for everybody who can connect. Default: `secret`; of `rowhouse dev` on loopback `open`',
    },
    metricsToken: {
      type: 'string',
      minLength: 16,
      secret: true,
      description: 'bearer token that may read /metrics and nothing else',
    },
    serverTiming: {
      type: 'boolean',
      default: false,
      description:
        'send the role admin a `Server-Timing` header that says how long each step of a request took; `rowhouse dev` turns it on',
    },
    cors: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description: 'cross-origin access by browsers',
      properties: {
        origins: {
          type: 'array',
          items: { type: 'string', pattern: '^https?://[^/*\\s]+$' },
          default: [],
          description: 'exact origins that may read answers, and whose cookie callers may write; none is off',
        },
        credentials: { type: 'boolean', default: false, description: 'whether those origins may send cookies' },
        maxAgeSeconds: {
          type: 'integer',
          minimum: 0,
          default: 600,
          description: 'how long a browser may keep a preflight answer',
        },
      },
    },
  },
} as const
export type HttpConfig = Infer<typeof httpConfig>

const pointer = { type: 'string', pattern: '^(/([^~/]|~[01])*)+$' } as const
const secret = { type: 'string', minLength: 1, secret: true } as const
const secrets = { type: 'array', items: secret, default: [] } as const

const jwtConfig = {
  type: 'object',
  additionalProperties: false,
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
      description: 'the only algorithms accepted; HS* never together with others',
    },
    key: {
      type: 'string',
      minLength: 1,
      secret: true,
      description: 'shared secret of at least 32 bytes for HS*; else a public key as PEM or JWK',
    },
    jwksUrl: { type: 'string', description: 'key set to fetch instead of `key`: https, or http on loopback' },
    jwksTimeoutMs: { ...milliseconds, minimum: 1, default: 500, description: 'time for one fetch of the key set' },
    jwksMaxAgeMs: { ...milliseconds, default: 600_000, description: 'age at which the key set is fetched again' },
    jwksCooldownMs: {
      ...milliseconds,
      default: 30_000,
      description: 'least time between fetches because of an unknown key id',
    },
    jwksStaleMs: {
      ...milliseconds,
      default: 3_600_000,
      description: 'how much longer an old key set serves while fetching fails',
    },
    issuer: {
      type: 'string',
      description: 'required `iss`; set it in production. Of several issuers it tells whose token it is',
    },
    audience: { type: 'string', description: 'required `aud`, or one of its members; set it in production' },
    leewaySeconds: { type: 'integer', minimum: 0, maximum: 600, default: 30, description: 'clock difference allowed' },
    cookie: {
      type: 'string',
      pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
      default: 'rowhouse_session',
      description: 'cookie that may hold the token',
    },
    header: {
      type: 'string',
      pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
      description: 'header that holds the token alone, in place of Authorization and the cookie',
    },
    claims: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description: 'where roles and session variables are found in a token',
      properties: {
        namespace: {
          type: 'string',
          default: 'rowhouse',
          description: 'claim that holds `x-service-allowed-roles`, `x-service-default-role` and session variables',
        },
        namespacePath: {
          type: 'string',
          pattern: '^(/([^~/]|~[01])*)*$',
          description: 'JSON pointer of the same, in place of `namespace`, e.g. `/app/claims`',
        },
        format: {
          type: 'string',
          enum: ['json', 'stringified_json'],
          default: 'json',
          description: 'stringified_json: what is found there is a text that holds the object',
        },
        allowedRoles: { ...pointer, description: 'JSON pointer of the list of roles, e.g. `/realm_access/roles`' },
        defaultRole: { ...pointer, description: 'JSON pointer of the role used when none is asked for' },
        variables: {
          type: 'object',
          additionalProperties: pointer,
          default: {},
          description: 'session variable to JSON pointer, e.g. `{"x-service-user-id": "/sub"}`',
        },
      },
    },
  },
} as const
export type JwtConfig = Infer<typeof jwtConfig>

const webhookConfig = {
  type: 'object',
  additionalProperties: false,
  required: ['url'],
  description: 'a service that is asked who the caller is, for every request without a secret',
  properties: {
    url: { type: 'string', pattern: '^https?://', description: 'address to ask' },
    method: {
      type: 'string',
      enum: ['GET', 'POST'],
      default: 'GET',
      description: 'GET forwards headers, POST sends them as JSON',
    },
    timeoutMs: { ...milliseconds, minimum: 1, default: 5_000, description: 'time for its answer' },
  },
} as const
export type WebhookConfig = Infer<typeof webhookConfig>

/** The section `auth` of the configuration. */
export const authConfig = {
  type: 'object',
  additionalProperties: false,
  default: {},
  properties: {
    mode: {
      type: 'string',
      enum: ['direct', 'gateway'],
      default: 'direct',
      description:
        'gateway: only callers with the gateway secret or an admin secret are served, or any over `http.socket`',
    },
    adminSecret: { ...secret, description: 'whoever has it may act as any role; 32 characters or more' },
    previousAdminSecrets: { ...secrets, description: 'still accepted while a new admin secret is rolled out' },
    gatewaySecret: { ...secret, description: 'proves the gateway, whose `X-Service-*` headers are then believed' },
    previousGatewaySecrets: { ...secrets, description: 'still accepted while a new gateway secret is rolled out' },
    jwt: {
      type: 'array',
      minItems: 1,
      items: jwtConfig,
      description: 'signed tokens, as `Authorization: Bearer` or in the session cookie: one issuer, or a list of them',
    },
    webhook: webhookConfig,
  },
} as const
export type AuthConfig = Infer<typeof authConfig>
