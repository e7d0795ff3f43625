import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { area, type Case } from '../kit/promises.js'
import { ADMIN_SECRET, type Answered, GATEWAY_SECRET, testServer, type TestServer } from '../kit/server.js'
import {
  bearer,
  CONSOLE,
  gate,
  MALFORMED,
  NOT_HELD,
  pem,
  rawGet,
  secret,
  SHOP,
  token,
  UNPROVEN,
  whoIs,
} from '../kit/who-is.js'

/** What the secrets, the gateway and cookies prove, and which headers are ignored or refused. */
const PROMISES = {
  'none.anonymous': 'a caller without credentials is anonymous, whatever its headers say',
  'none.role': 'a caller without credentials has no other role',
  'secret.admin': 'the admin secret makes admin, without a user id',
  'secret.acts': 'with the admin secret a caller acts as any role with any variables',
  'secret.instructions': 'headers that are instructions or credentials are no variables',
  'secret.previous': 'previous admin secrets are accepted while they are configured',
  'secret.wrong': 'a wrong secret is refused, whatever else is right',
  'secret.role-name': 'a wrong role name is refused',
  'secret.backend': 'only a proven secret with a role has permissions for backends',
  'gateway.headers': 'with the gateway secret the headers are true',
  'gateway.default': 'without a role header a gateway gets the first allowed role, and no role outside of the list',
  'gateway.mode': 'in gateway mode all callers without a secret are refused',
  'gateway.previous': 'previous gateway secrets are accepted while they are configured',
  'gateway.older-name': 'in gateway mode the role has an older name, too',
  'gateway.socket': 'in gateway mode a connection over the unix socket is the gateway',
  'plugin.path': 'a path that a plugin protects itself ignores all credentials, in any mode',
  'header.repeated': 'a repeated header that identifies a caller is refused',
  'header.spelling': 'a header that a proxy could read as another name is refused',
  'header.value': 'a value that is not plain ASCII is refused',
  'cookie.csrf':
    'a request with a cookie that changes something comes from a page of this server or of a listed origin',
  'cookie.json': 'JSON with a cookie has its content type',
  'guess.limit': 'wrong credentials of an address are limited, and right ones still work',
  'start.refused': 'a server with contradictory settings does not start',
} as const

const PAGES = {
  'core/http/authentication.md': {
    Authentication: {
      '`X-Service-Admin-Secret` (or `X-Service-Access-Key`)': ['secret.admin', 'secret.acts'],
      '`X-Service-Gateway-Secret`': ['gateway.headers', 'gateway.default', 'gateway.mode'],
      'The unix socket, with `auth.mode: gateway`': 'gateway.socket',
      'A path where the plugin authenticates requests itself (`proves`). The server ignores all credentials there, in any mode':
        'plugin.path',
      None: ['none.anonymous', 'none.role'],
    },
  },
} as const

interface Sessions extends TestServer {
  readonly gateway: TestServer
  /** Answers to wrong secrets, one after the other; the last one is delayed by a second. */
  readonly guesses: readonly Promise<Answered>[]
}

const PREVIOUS = 'previous-secret-0123456789abcdef-01234567'

const ANONYMOUS = {
  signed_in: false,
  role: 'anonymous',
  via: 'anonymous',
  variables: { 'x-service-user-id': '0', 'x-service-role': 'anonymous' },
}

const CASES: Record<keyof typeof PROMISES, Case<Sessions>> = {
  'none.anonymous': async (t, server) => {
    t.same((await whoIs(server, [])).body, ANONYMOUS)
    t.same((await whoIs(server, [...UNPROVEN, 'X-Service-Role: anonymous'])).body, ANONYMOUS)
    t.same((await whoIs(server, ['X-Service-Use-Backend-Only-Permissions: true'])).body, ANONYMOUS)
  },
  'none.role': async (t, server) => {
    for (const role of ['admin', 'user']) {
      const { status, body } = await whoIs(server, [`X-Service-Role: ${role}`])
      t.match({ status, body }, NOT_HELD)
      t.equal(body.error, `role "${role}" is not held by this caller`)
    }
  },
  'secret.admin': async (t, server) => {
    const admin = { signed_in: true, role: 'admin', via: 'admin-secret', variables: { 'x-service-role': 'admin' } }
    t.same((await whoIs(server, [secret()])).body, admin)
    t.same((await whoIs(server, [`x-service-access-key: ${ADMIN_SECRET}`])).body, admin)
    t.match(await whoIs(server, [secret(), `X-Service-Access-Key: ${ADMIN_SECRET}`]), MALFORMED)
  },
  'secret.acts': async (t, server) => {
    const { body } = await whoIs(server, [
      secret(),
      'X-Service-Role: editor',
      'X-Service-User-Id: 7',
      'X-Service-Org-Id: north',
    ])
    t.same(body, {
      signed_in: true,
      role: 'editor',
      via: 'admin-secret',
      variables: { 'x-service-user-id': '7', 'x-service-org-id': 'north', 'x-service-role': 'editor' },
    })
  },
  'secret.instructions': async (t, server) => {
    const lines = [
      'X-Service-Allowed-Roles: x',
      'X-Service-CSRF: 1',
      'X-Service-Filestore-Range: bytes=0-1',
      'X-Service-Digits-As-Text: true',
      'X-Service-Use-Backend-Only-Permissions: false',
      gate(),
    ]
    t.same((await whoIs(server, [secret(), ...lines])).body.variables, { 'x-service-role': 'admin' })
  },
  'secret.previous': async (t, server) => {
    t.match(await whoIs(server, [secret(PREVIOUS)]), { status: 200, body: { role: 'admin' } })
    t.equal((await whoIs(server, [gate(PREVIOUS)])).status, 401)
  },
  'secret.wrong': async (t, server) => {
    const right = bearer(await token())
    for (const wrong of ['', 'x', ADMIN_SECRET.slice(1), `${ADMIN_SECRET}x`, ADMIN_SECRET.toUpperCase()]) {
      t.match(await whoIs(server, [secret(wrong), right]), { status: 401, body: { code: 'access-denied' } })
      t.match(await whoIs(server, [gate(wrong), right]), { status: 401, body: { code: 'access-denied' } })
    }
  },
  'secret.role-name': async (t, server) => {
    for (const role of ['a b', '', 'a'.repeat(65), 'a:backend', 'ü'])
      t.match(await whoIs(server, [secret(), `X-Service-Role: ${role}`]), MALFORMED, role)
    t.equal((await whoIs(server, [secret(), `X-Service-Role: ${'a'.repeat(64)}`])).status, 200)
  },
  'secret.backend': async (t, server) => {
    await server.sql('create table note (id int primary key)')
    await server.must('track_table', 'note')
    const permission = { check: {}, backend_only: true }
    await server.must('create_insert_permission', { table: 'note', role: 'user', permission })
    let id = 0
    const insert = (headers: Record<string, string>) => {
      const body = JSON.stringify({ type: 'insert', args: { table: 'note', objects: [{ id: ++id }] } })
      return server.bare('/v1/query', { method: 'POST', body, headers })
    }
    const backend = (value: string) => ({ 'x-service-use-backend-only-permissions': value })
    const proven = { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-role': 'user' }
    const gatewayed = { 'x-service-gateway-secret': GATEWAY_SECRET, 'x-service-role': 'user' }
    const denied = { status: 400, body: { code: 'permission-denied' } }
    t.match(await insert({ ...proven, ...backend('true') }), { status: 200, body: { affected_rows: 1 } })
    t.match(await insert({ ...gatewayed, ...backend('TRUE') }), { status: 200, body: { affected_rows: 1 } })
    t.match(await insert(proven), denied)
    t.match(await insert({ ...gatewayed, ...backend('false') }), denied)
    t.match(await insert({ authorization: `Bearer ${await token()}`, ...backend('true') }), denied)
    const unnamed = { 'x-service-gateway-secret': GATEWAY_SECRET, 'x-service-allowed-roles': 'user' }
    t.match(await insert({ ...unnamed, ...backend('true') }), denied, 'a default role')
    t.match(await insert({ ...proven, ...backend('yes') }), MALFORMED)
  },
  'gateway.headers': async (t, server) => {
    const lines = [gate(), 'X-Service-Role: user', 'X-Service-User-Id: 5', 'X-Service-Org: a']
    const expected = {
      signed_in: true,
      role: 'user',
      via: 'gateway',
      variables: { 'x-service-user-id': '5', 'x-service-org': 'a', 'x-service-role': 'user' },
    }
    t.same((await whoIs(server.gateway, lines)).body, expected)
    t.same((await whoIs(server, lines)).body, expected)
    t.match((await whoIs(server.gateway, [gate()])).body, {
      role: 'anonymous',
      variables: { 'x-service-user-id': '0' },
    })
  },
  'gateway.default': async (t, { gateway }) => {
    const lines = [gate(), 'X-Service-Allowed-Roles: user, editor']
    t.match(await whoIs(gateway, lines), { status: 200, body: { role: 'user' } })
    t.match(await whoIs(gateway, [...lines, 'X-Service-Role: editor']), { status: 200, body: { role: 'editor' } })
    t.match(await whoIs(gateway, [...lines, 'X-Service-Role: admin']), NOT_HELD)
    t.match(await whoIs(gateway, [gate(), 'X-Service-Allowed-Roles: a b']), MALFORMED)
  },
  'gateway.mode': async (t, { gateway }) => {
    const refused = { status: 401, body: { code: 'missing-credentials' } }
    t.match(await whoIs(gateway, []), refused)
    t.match(await whoIs(gateway, ['X-Service-Role: user', 'X-Service-User-Id: 5']), refused)
    t.match(await whoIs(gateway, [bearer(await token())]), refused)
    t.match(await whoIs(gateway, [secret()]), { status: 200, body: { role: 'admin' } })
  },
  'gateway.previous': async (t, { gateway }) => {
    t.match(await whoIs(gateway, [gate(PREVIOUS), 'X-Service-Role: user']), { status: 200, body: { role: 'user' } })
  },
  'gateway.older-name': async (t, server) => {
    const older = [gate(), 'X-Service-User-Role: user']
    t.match((await whoIs(server.gateway, older)).body, { role: 'user', variables: { 'x-service-role': 'user' } })
    t.match(await whoIs(server.gateway, [...older, 'X-Service-Role: editor']), MALFORMED)
    t.match((await whoIs(server, older)).body, { role: 'anonymous' })
  },
  'gateway.socket': async (t, server) => {
    const folder = await mkdtemp(join(tmpdir(), 'rowhouse-socket-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const path = join(folder, 'http')
    const { url } = await testServer(t, {
      databaseUrl: server.databaseUrl,
      builtins: CONSOLE,
      config: { auth: { mode: 'gateway', gatewaySecret: undefined }, http: { socket: { path }, port: undefined } },
    })
    t.equal(url, `unix:${path}`)
    const editor = ['X-Service-Role: editor', 'X-Service-User-Id: 7']
    t.match(await rawGet({ path }, editor), {
      status: 200,
      body: { role: 'editor', via: 'gateway', variables: { 'x-service-user-id': '7' } },
    })
    t.match(await rawGet({ path }, []), { status: 200, body: { role: 'anonymous' } })
    t.equal((await rawGet({ path }, [gate('wrong')])).status, 401)
  },
  'plugin.path': async (t, { gateway }) => {
    for (const lines of [[], [secret('wrong')], [bearer('x')], [secret(), 'X-Service-Role: a b']]) {
      const { status, body } = await whoIs(gateway, lines, '/v1/send/events/email/memory')
      t.match([status, body], [405, { code: 'method_not_allowed' }])
    }
    const posted = await gateway.bare('/v1/send/events/email/memory', { method: 'POST', body: '[]' })
    t.match(posted, { status: 404, body: { code: 'not_found' } })
  },
  'header.repeated': async (t, server) => {
    const line = bearer(await token())
    for (const lines of [
      [line, bearer('x')],
      ['Host: b'],
      [secret(), secret()],
      [secret(), 'X-Service-Role: user', 'X-Service-Role: editor'],
      [line, 'X-Service-User-Id: 1', 'x-service-user-id: 2'],
    ])
      t.match(await whoIs(server, lines), MALFORMED, lines.join())
  },
  'header.spelling': async (t, server) => {
    for (const name of [
      'X_Service_Role',
      'X.Service.Role',
      'X-Service-User_Id',
      'x_service_admin_secret',
      'X-Service_Org',
    ])
      for (const more of [[], [secret()], [bearer(await token())]])
        t.match(await whoIs(server, [...more, `${name}: admin`]), MALFORMED, name)
  },
  'header.value': async (t, server) => {
    for (const value of ['\xa0admin', 'é', 'a\tb']) t.match(await whoIs(server, [`X-Service-Org: ${value}`]), MALFORMED)
    t.equal((await whoIs(server, [secret(), 'X-Service-Org: a b'])).body.variables['x-service-org'], 'a b')
  },
  'cookie.csrf': async (t, server) => {
    const admin = await token({ rowhouse: { 'x-service-allowed-roles': ['admin'] } })
    const cookie = { cookie: `rowhouse_session=${admin}` }
    const write = async (headers: Record<string, string>) => {
      const { status, body } = await server.bare('/v1/send/suppressed/a@example.com', { method: 'DELETE', headers })
      return status === 403 ? [status, body.code] : [status]
    }
    // Nothing is suppressed: 404 is what comes after the check.
    for (const headers of [
      { 'sec-fetch-site': 'same-origin' },
      { 'sec-fetch-site': 'none' },
      { 'x-service-csrf': '1' },
      { origin: 'https://app.example' },
      { origin: server.url },
    ])
      t.same(await write({ ...cookie, ...(headers as object) }), [404], JSON.stringify(headers))
    for (const headers of [
      {},
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { origin: 'https://app.example.evil' },
      { origin: 'null' },
      { origin: server.url.replace('http:', 'https:') },
      { origin: server.url, 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-origin', 'sec-purpose': 'prefetch' },
      { 'x-service-csrf': '0' },
    ])
      t.same(await write({ ...cookie, ...(headers as object) }), [403, 'csrf'], JSON.stringify(headers))
    t.same(
      await write({ authorization: `Bearer ${admin}`, 'sec-fetch-site': 'cross-site' }),
      [404],
      'a token, from anywhere',
    )
    const post = { method: 'POST', headers: { ...cookie, 'content-type': 'application/json' }, body: '{}' }
    t.match(await server.bare('/v1/send/00000000-0000-4000-8000-000000000000/retry', post), { status: 403 })
    t.match(await server.bare('/v1/send/template/a', { method: 'DELETE', headers: cookie }), { status: 403 })
  },
  'cookie.json': async (t, server) => {
    const admin = await token({ rowhouse: { 'x-service-allowed-roles': ['admin'] } })
    const put = (type: string, credential: object) =>
      server.bare('/v1/send/suppressed', {
        method: 'POST',
        body: '{"address": "x@example.com"}',
        headers: { 'content-type': type, 'sec-fetch-site': 'same-origin', ...credential },
      })
    const cookie = { cookie: `rowhouse_session=${admin}` }
    t.match(await put('text/plain', cookie), { status: 415, body: { code: 'unsupported_media_type' } })
    t.equal((await put('application/json; charset=utf-8', cookie)).status, 200)
    t.equal((await put('text/plain', { authorization: `Bearer ${admin}` })).status, 200)
  },
  'guess.limit': async (t, { gateway, guesses }) => {
    const answers = await Promise.all(guesses)
    t.same(
      answers.map(({ status, body }) => `${status} ${body.code}`),
      ['401 access-denied', '401 access-denied', '401 access-denied', '429 too-many-failures'],
    )
    t.equal(answers.at(-1)!.headers.get('retry-after'), '60')
    t.match(await whoIs(gateway, [secret()]), { status: 200, body: { role: 'admin' } })
    t.match(await whoIs(gateway, []), { status: 401, body: { code: 'missing-credentials' } }, 'none is no wrong one')
  },
  'start.refused': async (t, { databaseUrl }) => {
    const key = pem(SHOP)
    for (const [auth, message] of [
      [{ mode: 'gateway', gatewaySecret: undefined }, /auth\.gatewaySecret is required/],
      [
        { jwt: { algorithms: ['ES256'], key }, webhook: { url: 'http://127.0.0.1:1/' } },
        /only one of "jwt" and "webhook"/,
      ],
      [{ jwt: { algorithms: ['HS256'], key: 'short' } }, /at least 32 bytes/],
      [{ jwt: { algorithms: ['HS256'], key } }, /not a PEM or JWK/],
      [{ jwt: { algorithms: ['ES256'] } }, /exactly one of "key" and "jwksUrl"/],
      [{ jwt: { algorithms: ['ES256'], jwksUrl: 'http://x.example' } }, /must be https/],
      [
        {
          jwt: [
            { algorithms: ['ES256'], key },
            { algorithms: ['ES256'], key },
          ],
        },
        /issuer/,
      ],
    ] as const)
      await t.rejects(testServer(t, { databaseUrl, config: { auth } }), message)
  },
}

/** Its promises, with a case for each. */
export const sessions = area('sessions', { promises: PROMISES, pages: PAGES, cases: CASES, start })

async function start(t: Test): Promise<Sessions> {
  const options = { builtins: CONSOLE, notify: true }
  const providers = { email: { default: 'memory', memory: {} } }
  // Refused callers are not what their promises are about.
  const http = { failedAuthPerMinute: 10_000, cors: { origins: ['https://app.example'] } }
  const jwt = { algorithms: ['ES256'], key: pem(SHOP), issuer: 'shop', audience: 'rowhouse' }
  const server = await testServer(t, {
    ...options,
    config: { providers, http, auth: { previousAdminSecrets: [PREVIOUS], jwt } },
  })
  const gateway = await testServer(t, {
    ...options,
    databaseUrl: server.databaseUrl,
    config: {
      providers,
      http: { failedAuthPerMinute: 3 },
      auth: { mode: 'gateway', previousGatewaySecrets: [PREVIOUS] },
    },
  })
  const wrong = () => gateway.bare('/console/session', { headers: { 'x-service-admin-secret': 'wrong' } })
  const guesses = [wrong(), wrong(), wrong()]
  await Promise.all(guesses)
  return { ...server, gateway, guesses: [...guesses, wrong()] }
}
