import { createHash, createHmac, generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { Writable } from 'node:stream'
import { SignJWT, exportJWK, generateSecret } from 'jose'
import type { JWTHeaderParameters, JWTPayload } from 'jose'
import t from 'tap'
import type { Test } from 'tap'
import { ServiceError } from '../../core/errors.js'
import { resolveSection } from '../../core/host/resolve-section.js'
import { checkAuth } from '../../core/http/check-config.js'
import { authConfig, type AuthConfig } from '../../core/http/config.js'
import { createSecrets } from '../../core/http/secrets.js'
import { type Authenticator, createAuthenticate } from '../../core/http/admission.js'
import { createLogger } from '../../core/observe/log.js'
import { patience } from '../kit/patience.js'
import { until } from '../kit/until.js'

const ADMIN = 'admin-secret-marker-0123456789abcdef'
const GATEWAY = 'gateway-secret-marker-0123456789abcd'

const silent = createLogger({ level: 'silent' })

const RSA = rsa()
const JWT = {
  jwt: {
    algorithms: ['RS256'],
    key: String(RSA.publicKey.export({ type: 'spki', format: 'pem' })),
    issuer: 'https://issuer.example',
    audience: 'rowhouse',
  },
}
const CLAIMS: JWTPayload = {
  iss: 'https://issuer.example',
  aud: 'rowhouse',
  exp: Math.floor(Date.now() / 1000) + 600,
  rowhouse: {
    'X-Service-Allowed-Roles': ['user', 'editor'],
    'x-service-default-role': 'user',
    'x-service-user-id': 12,
    'x-service-org': 'a',
  },
}
const USER = {
  role: 'user',
  variables: { 'x-service-user-id': '12', 'x-service-org': 'a', 'x-service-role': 'user' },
  via: 'token',
}
const ANONYMOUS = {
  role: 'anonymous',
  variables: { 'x-service-user-id': '0', 'x-service-role': 'anonymous' },
  via: 'anonymous',
}

t.test('the spelling matrix', async (t) => {
  const names = [
    'Role',
    'User-Id',
    'User-Role',
    'Allowed-Roles',
    'Default-Role',
    'Admin-Secret',
    'Access-Key',
    'Gateway-Secret',
    'Org-Id',
    'Team',
    'Is-Admin',
    'Email',
  ]
  const spellings: Record<string, (name: string) => string> = {
    plain: (name) => `X-Service-${name}: admin`,
    lower: (name) => `x-service-${name.toLowerCase()}: admin`,
    upper: (name) => `X-SERVICE-${name.toUpperCase()}: admin`,
    underscores: (name) => `X_Service_${name.replaceAll('-', '_')}: admin`,
    dots: (name) => `X.Service.${name}: admin`,
    twice: (name) => `X-Service-${name}: anonymous\r\nX-Service-${name}: admin`,
    'space before the colon': (name) => `X-Service-${name} : admin`,
    'no-break space around the value': (name) => `X-Service-${name}: \xa0admin`,
    folded: (name) => `X-Service-${name}: anonymous,\r\n admin`,
  }
  const user = await token({})
  const modes = {
    direct: { config: { ...JWT, adminSecret: ADMIN, gatewaySecret: GATEWAY }, headers: [], expected: ANONYMOUS },
    'direct with a token': {
      config: { ...JWT, adminSecret: ADMIN },
      headers: [`Authorization: Bearer ${user}`],
      expected: USER,
    },
    'gateway without its secret': { config: { mode: 'gateway', gatewaySecret: GATEWAY }, headers: [], expected: null },
    'gateway with a wrong secret': {
      config: { mode: 'gateway', gatewaySecret: GATEWAY },
      headers: ['X-Service-Gateway-Secret: guessed'],
      expected: null,
    },
  }
  const statuses = new Map<number, number>()
  for (const [mode, { config, headers, expected }] of Object.entries(modes)) {
    const server = await serve(t, config)
    for (const [spelling, spell] of Object.entries(spellings)) {
      for (const name of names) {
        const answer = await server.raw([...headers, spell(name)])

        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
        const changed = answer.status === 200 && JSON.stringify(answer.body) !== JSON.stringify(expected)
        if (changed || answer.status >= 500) t.fail(`${mode}, ${spelling}, ${name}`, answer)
        if (
          ['underscores', 'dots', 'twice', 'no-break space around the value'].includes(spelling) &&
          answer.status !== 400
        ) {
          t.fail(`${mode}, ${spelling}, ${name} is answered ${answer.status}`)
        }
      }
    }
  }
  t.same([...statuses.keys()].sort(), [200, 400, 401, 403], 'every kind of answer occurs')
})

t.test('a repeated Authorization or Host header is refused', async (t) => {
  const server = await serve(t, JWT)

  const answer = await server.raw([`Authorization: Bearer ${await token({})}`, 'Authorization: Bearer x'])

  t.match(answer, { status: 400, body: { code: 'parse-failed' } })
  t.match(await server.raw(['Host: b']), { status: 400, body: { code: 'parse-failed' } })
})

t.test('nobody is admin without proof', async (t) => {
  const server = await serve(t, {})

  t.match(await server.raw([]), { status: 200, body: ANONYMOUS })
  t.match(await server.raw(['X-Service-Role: anonymous']), { status: 200, body: ANONYMOUS })
  t.match(await server.raw(['X-Service-Role: admin']), { status: 403, body: { code: 'access-denied' } })
  t.match(await server.raw(['X-Service-Admin-Secret: ']), { status: 401 }, 'an empty secret is no secret')
})

t.test('the admin secret', async (t) => {
  const previous = 'previous-secret-marker-0123456789ab'
  const server = await serve(t, { adminSecret: ADMIN, previousAdminSecrets: [previous] })

  await t.test('makes the caller admin, without a user id', async (t) => {
    const { body } = await server.raw([`X-Service-Admin-Secret: ${ADMIN}`])
    t.same(body, { role: 'admin', variables: { 'x-service-role': 'admin' }, via: 'admin-secret' })
  })
  await t.test('lets the caller act as any role with any variables', async (t) => {
    const { body } = await server.raw([
      `X-Service-Access-Key: ${ADMIN}`,
      'X-Service-Role: editor',
      'X-Service-User-Id: 7',
      'X-Service-Org-Id: north',
      'X-Service-Allowed-Roles: x',
      'X-Service-CSRF: 1',
      'X-Service-Filestore-Range: bytes=0-1',
    ])
    t.same(body, {
      role: 'editor',
      variables: { 'x-service-user-id': '7', 'x-service-org-id': 'north', 'x-service-role': 'editor' },
      via: 'admin-secret',
    })
  })
  await t.test('is accepted in its previous form while it is rotated', async (t) => {
    t.match(await server.raw([`X-Service-Admin-Secret: ${previous}`]), { status: 200, body: { role: 'admin' } })
  })
  await t.test('is refused when it is wrong, whatever else is right', async (t) => {
    for (const wrong of ['x', ADMIN.slice(1), `${ADMIN}x`, ADMIN.toUpperCase()]) {
      t.match(await server.raw([`X-Service-Admin-Secret: ${wrong}`]), { status: 401, body: { code: 'access-denied' } })
    }
    t.match(await server.raw([`X-Service-Admin-Secret: ${ADMIN}`, `X-Service-Access-Key: ${ADMIN}`]), { status: 400 })
  })
  await t.test('does not make a wrong role name right', async (t) => {
    for (const header of ['X-Service-Role: a b', 'X-Service-Role: ']) {
      t.match(await server.raw([`X-Service-Admin-Secret: ${ADMIN}`, header]), { status: 400 }, header)
    }
  })
})

t.test('the gateway secret', async (t) => {
  const secret = `X-Service-Gateway-Secret: ${GATEWAY}`
  const server = await serve(t, { mode: 'gateway', gatewaySecret: GATEWAY, adminSecret: ADMIN })

  await t.test('makes the headers of the gateway true', async (t) => {
    const { body } = await server.raw([secret, 'X-Service-Role: user', 'X-Service-User-Id: 5', 'X-Service-Org: a'])
    t.same(body, {
      role: 'user',
      variables: { 'x-service-user-id': '5', 'x-service-org': 'a', 'x-service-role': 'user' },
      via: 'gateway',
    })
  })
  await t.test('takes the first allowed role when none is named, and no other than those', async (t) => {
    const allowed = 'X-Service-Allowed-Roles: user, editor'
    t.match(await server.raw([secret, allowed]), { status: 200, body: { role: 'user' } })
    t.match(await server.raw([secret, allowed, 'X-Service-Role: editor']), { status: 200, body: { role: 'editor' } })
    t.match(await server.raw([secret, allowed, 'X-Service-Role: admin']), { status: 403 })
  })
  await t.test('makes a caller without roles anonymous', async (t) => {
    t.match(await server.raw([secret]), { status: 200, body: { ...ANONYMOUS, via: 'gateway' } })
  })
  await t.test('knows the role header by its old name, in gateway mode only', async (t) => {
    const direct = await serve(t, { gatewaySecret: GATEWAY })
    t.match(await server.raw([secret, 'X-Service-User-Role: user']), { status: 200, body: { role: 'user' } })
    t.match(await server.raw([secret, 'X-Service-User-Role: user', 'X-Service-Role: editor']), { status: 400 })
    t.match(await direct.raw([secret, 'X-Service-User-Role: user']), { status: 200, body: { role: 'anonymous' } })
  })
  await t.test('leaves the admin secret valid and everything else refused', async (t) => {
    t.match(await server.raw([`X-Service-Admin-Secret: ${ADMIN}`]), { status: 200, body: { role: 'admin' } })
    t.match(await server.raw([]), { status: 401, body: { code: 'missing-credentials' } })
    t.match(await server.raw([`Authorization: Bearer ${await token({})}`]), { status: 401 })
  })
})

t.test('tokens', async (t) => {
  const server = await serve(t, JWT)
  const bearer = async (value: string, ...headers: string[]) =>
    server.raw([`Authorization: Bearer ${value}`, ...headers])

  await t.test('carry the roles, the default role and the variables', async (t) => {
    t.same((await bearer(await token({}))).body, USER)
    t.match((await bearer(await token({}), 'X-Service-Role: editor')).body, { role: 'editor', via: 'token' })
    t.match(await bearer(await token({}), 'X-Service-Role: admin'), { status: 403 })
    t.match(await bearer(await token({}), 'X-Service-User-Id: 1'), { status: 200, body: USER })
  })
  await t.test('are read from the configured cookie, and a bearer token goes first', async (t) => {
    const cookie = `Cookie: a=b; rowhouse_session=${await token({})}`
    t.match((await server.raw([cookie])).body, { role: 'user', via: 'cookie' })
    t.match((await server.raw([`Cookie: other=${await token({})}`])).body, { via: 'anonymous' })
    t.match(await server.raw([cookie, 'Authorization: Bearer a.b.c']), { status: 401 })
    t.match(await server.raw(['Cookie: rowhouse_session=gone']), { status: 401 })
  })
  await t.test('are refused in an Authorization header of another form', async (t) => {
    for (const value of ['Bearer', 'Bearer a b', 'Basic YTpi', 'a.b.c', 'Bearer,a', '']) {
      t.match(
        await server.raw([`Authorization: ${value}`]),
        { status: 400, body: { code: 'malformed-authorization-header' } },
        value,
      )
    }
  })

  const now = () => Math.floor(Date.now() / 1000)
  const wrong: Record<string, () => Promise<string>> = {
    'expired beyond the leeway': () => token({ exp: now() - 31 }),
    'not valid yet': () => token({ nbf: now() + 60 }),
    'without exp': () => token({ exp: undefined }),
    'exp of the wrong type': () => token({ exp: '9999999999' }),
    'wrong issuer': () => token({ iss: 'https://other.example' }),
    'no issuer': () => token({ iss: undefined }),
    'wrong audience': () => token({ aud: 'other' }),
    'no audience': () => token({ aud: undefined }),
    oversized: () => token({ padding: 'x'.repeat(8_000) }),
    'another key': async () => token({}, { key: rsa().privateKey }),
    'another algorithm of the same key': async () => token({}, { header: { alg: 'RS512' } }),
    'algorithm none': async () => unsigned({ alg: 'none' }, ''),
    'algorithm none with a signature': async () => unsigned({ alg: 'none' }, 'AAAA'),
    'the public key as shared secret': async () => hmacWith(RSA.publicKey.export({ type: 'spki', format: 'pem' })),
    'the public key in DER as shared secret': async () =>
      hmacWith(RSA.publicKey.export({ type: 'spki', format: 'der' })),
    'unknown critical header': () =>
      token({}, { header: { alg: 'RS256', crit: ['exp-x'], 'exp-x': 1 } as never, unsafe: true }),
    'a key of its own in the header': async () => {
      const own = rsa()
      return token({}, { key: own.privateKey, header: { alg: 'RS256', jwk: await exportJWK(own.publicKey) } })
    },
    'a key set of its own in the header': () =>
      token({}, { key: rsa().privateKey, header: { alg: 'RS256', jku: 'http://127.0.0.1:1/' } }),
    'no roles': () => token({ rowhouse: {} }),
    'roles that are no list': () => token({ rowhouse: { 'x-service-allowed-roles': 'admin' } }),
    'an empty list of roles': () => token({ rowhouse: { 'x-service-allowed-roles': [] } }),
    'a role that is no name': () => token({ rowhouse: { 'x-service-allowed-roles': ['a b'] } }),
    'a default role that is not held': () =>
      token({ rowhouse: { 'x-service-allowed-roles': ['user'], 'x-service-default-role': 'admin' } }),
    'an empty user id': () => token({ rowhouse: { 'x-service-allowed-roles': ['user'], 'x-service-user-id': '' } }),
    'a user id with a control character': () =>
      token({ rowhouse: { 'x-service-allowed-roles': ['user'], 'x-service-user-id': 'a\u007f' } }),
    'a user id of 256 characters': () =>
      token({ rowhouse: { 'x-service-allowed-roles': ['user'], 'x-service-user-id': 'x'.repeat(256) } }),
    'a user id beyond exact numbers': () =>
      token({ rowhouse: { 'x-service-allowed-roles': ['user'], 'x-service-user-id': 2 ** 60 } }),
    'a variable that is an object': () =>
      token({ rowhouse: { 'x-service-allowed-roles': ['user'], 'x-service-a': {} } }),
    'a variable with a NUL': () => token({ rowhouse: { 'x-service-allowed-roles': ['user'], 'x-service-a': 'a\0' } }),
    'a changed payload': async () => {
      const [head, , signature] = (await token({})).split('.')
      return [head, part({ ...CLAIMS, rowhouse: { 'x-service-allowed-roles': ['admin'] } }), signature].join('.')
    },
    'two parts': async () => (await token({})).split('.').slice(0, 2).join('.'),
    'five parts': async () => `${await token({})}.a.b`,
    'no token at all': async () => 'x',
  }
  for (const [name, make] of Object.entries(wrong)) {
    await t.test(`are refused: ${name}`, async (t) => {
      const answer = await bearer(await make())
      t.match(answer, { status: 401, body: { code: 'invalid-token', error: 'invalid authorization token' } })
    })
  }
  await t.test('are refused once they have expired, however often they were right before', async (t) => {
    const short = await token({ exp: now() - 28 })
    t.match(await bearer(short), { status: 200 })
    t.match(await bearer(short), { status: 200 })
    await until('it has expired', async () => (await bearer(short)).status === 401)
  })
  await t.test('are asked for the role each time', async (t) => {
    const same = await token({})
    for (const [role, status] of [
      ['editor', 200],
      ['user', 200],
      ['admin', 403],
      ['editor', 200],
    ] as const) {
      const answer = await server.raw([`Authorization: Bearer ${same}`, `X-Service-Role: ${role}`])
      t.match(answer, { status, ...(status === 200 ? { body: { role } } : {}) }, role)
    }
  })
  await t.test('are still accepted within the leeway', async (t) => {
    t.match(await bearer(await token({ exp: now() - 20, nbf: now() + 20 })), { status: 200 })
  })
})

t.test('a secret is compared as a whole, however long, and its hash is none', async (t) => {
  for (const length of [32, 170, 171, 5000]) {
    const secret = 'é'.repeat(2) + 's'.repeat(length - 2)
    const secrets = createSecrets([undefined, secret, 'another'])
    t.ok(secrets.matches(secret), `${length}`)
    t.ok(secrets.matches('another'))
    for (const wrong of [
      secret.slice(1),
      `${secret}s`,
      secret.slice(0, -1),
      '',
      createHash('sha256').update(secret).digest('hex'),
    ])
      t.notOk(secrets.matches(wrong), `${length}`)
  }
  t.notOk(createSecrets([]).matches(''))
})

t.test('every configured algorithm verifies its own tokens and no others', async (t) => {
  const kinds = {
    HS256: { sign: await generateSecret('HS256', { extractable: true }), check: '' },
    RS256: keyPair(rsa()),
    PS384: keyPair(rsa()),
    ES256: keyPair(generateKeyPairSync('ec', { namedCurve: 'P-256' })),
    ES512: keyPair(generateKeyPairSync('ec', { namedCurve: 'P-521' })),
    Ed25519: keyPair(generateKeyPairSync('ed25519')),
  }
  const shared = 'a shared secret that is long enough'
  for (const [algorithm, { check }] of Object.entries(kinds)) {
    const server = await serve(t, { jwt: { algorithms: [algorithm], key: check || shared } })
    for (const [other, { sign }] of Object.entries(kinds)) {
      const key = other === 'HS256' ? Buffer.from(shared) : sign
      const made = await token({}, { header: { alg: other }, key })
      const { status } = await server.raw([`Authorization: Bearer ${made}`])
      t.equal(status, algorithm === other ? 200 : 401, `${other} where ${algorithm} is configured`)
    }
  }
})

t.test('claims are found by JSON pointer where the issuer puts them', async (t) => {
  const server = await serve(t, {
    jwt: {
      ...JWT.jwt,
      claims: {
        allowedRoles: '/realm_access/roles',
        defaultRole: '/https:~1~1x.example~1role',
        variables: { 'x-service-user-id': '/sub', 'x-service-org': '/orgs/0' },
      },
    },
  })
  const made = await token({
    rowhouse: undefined,
    sub: '42',
    realm_access: { roles: ['a', 'b'] },
    'https://x.example/role': 'b',
    orgs: ['north'],
  })

  const { body } = await server.raw([`Authorization: Bearer ${made}`])

  t.same(body, {
    role: 'b',
    variables: { 'x-service-user-id': '42', 'x-service-org': 'north', 'x-service-role': 'b' },
    via: 'token',
  })
})

t.test('claims are found in a text, and under a namespace that is nested or is the token itself', async (t) => {
  const roles = { 'x-service-allowed-roles': ['user'], 'x-service-user-id': '3' }
  const table: [claims: object, payload: Record<string, unknown>, status: number][] = [
    [{ format: 'stringified_json' }, { rowhouse: JSON.stringify(roles) }, 200],
    [{ format: 'stringified_json', namespacePath: '/app/a~1b' }, { app: { 'a/b': JSON.stringify(roles) } }, 200],
    [{ namespacePath: '/app/claims/0' }, { app: { claims: [roles] } }, 200],
    [{ namespacePath: '' }, roles, 200],
    [{ format: 'stringified_json' }, { rowhouse: roles }, 401],
    [{ format: 'stringified_json' }, { rowhouse: '{' }, 401],
    [{ format: 'stringified_json' }, { rowhouse: '"user"' }, 401],
    [{}, { rowhouse: JSON.stringify(roles) }, 401],
    [{ namespacePath: '/app' }, { rowhouse: roles }, 401],
    [{}, { rowhouse: { ...roles, 'X-Service-User-Id': '4' } }, 401],
    [{}, { rowhouse: { ...roles, Note: '', note: '' } }, 200],
  ]
  for (const [claims, payload, status] of table) {
    const server = await serve(t, { jwt: { ...JWT.jwt, claims } })

    const answer = await server.raw([`Authorization: Bearer ${await token({ rowhouse: undefined, ...payload })}`])

    t.equal(answer.status, status, JSON.stringify([claims, payload]))
    if (status === 200) t.match(answer.body, { role: 'user', variables: { 'x-service-user-id': '3' } })
  }
})

t.test('of several issuers', async (t) => {
  const shop = rsa()
  const staff = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const partner = 'partner-secret-marker-0123456789abcdef'
  const server = await serve(t, {
    jwt: [
      { algorithms: ['RS256'], key: keyPair(shop).check, issuer: 'shop', audience: 'rowhouse' },
      {
        algorithms: ['ES256'],
        key: String(staff.publicKey.export({ type: 'spki', format: 'pem' })),
        issuer: 'staff',
        cookie: 'staff_session',
        claims: { namespacePath: '/staff' },
      },
      { algorithms: ['HS256'], key: partner, header: 'X-Partner-Token' },
    ],
  })
  const claims = { 'x-service-allowed-roles': ['staff'] }
  const ofShop = await token({ iss: 'shop' }, { key: shop.privateKey })
  const ofStaff = await token({ iss: 'staff', staff: claims }, { key: staff.privateKey, header: { alg: 'ES256' } })
  const partnerKey = Buffer.from(partner)
  const ofPartner = await token({ iss: 'whoever' }, { key: partnerKey, header: { alg: 'HS256' } })
  const bearer = (text: string) => server.raw([`Authorization: Bearer ${text}`])

  await t.test('the one that the token names checks it, with its own claims', async (t) => {
    t.match(await bearer(ofShop), { status: 200, body: { role: 'user', via: 'token' } })
    t.match(await bearer(ofStaff), { status: 200, body: { role: 'staff', via: 'token' } })
  })
  await t.test('each has its cookie, or its header', async (t) => {
    t.match((await server.raw([`Cookie: rowhouse_session=${ofShop}`])).body, { role: 'user', via: 'cookie' })
    t.match((await server.raw([`Cookie: staff_session=${ofStaff}`])).body, { role: 'staff', via: 'cookie' })
    t.match((await server.raw([`X-Partner-Token: ${ofPartner}`])).body, { role: 'user', via: 'token' })
    t.match(await server.raw([`Cookie: staff_session=${ofShop}`]), { status: 401 }, 'and no other’s')
    t.match(await server.raw([`X-Partner-Token: ${ofShop}`]), { status: 401 })
    t.match(await bearer(ofPartner), { status: 401 })
  })
  const rogue = rsa()
  const jwk = await exportJWK(rogue.publicKey)
  let fetched = 0
  const own = await listen(t, (_, res) => {
    fetched++
    res.end(JSON.stringify({ keys: [{ ...jwk, kid: 'rogue', alg: 'RS256' }] }))
  })
  const wrong: Record<string, () => Promise<string>> = {
    'an issuer that nobody configured': () => token({ iss: own }, { key: rogue.privateKey }),
    'no issuer': () => token({ iss: undefined }, { key: shop.privateKey }),
    'issuers that are a list': () => token({ iss: ['shop'] }, { key: shop.privateKey }),
    'the name of another issuer over a key of its own': () =>
      token({ iss: 'staff', staff: claims }, { key: shop.privateKey }),
    'a key set to fetch': () =>
      token({ iss: 'shop' }, { key: rogue.privateKey, header: { alg: 'RS256', kid: 'rogue', jku: own } }),
    'a certificate to fetch': () =>
      token({ iss: 'shop' }, { key: rogue.privateKey, header: { alg: 'RS256', kid: 'rogue', x5u: own } }),
    'a key of its own': () => token({ iss: 'shop' }, { key: rogue.privateKey, header: { alg: 'RS256', jwk } }),
    'no token': async () => 'x.y.z',
  }
  for (const [name, make] of Object.entries(wrong)) {
    await t.test(`none believes ${name}`, async (t) => {
      t.match(await bearer(await make()), { status: 401, body: { code: 'invalid-token' } })
      t.equal(fetched, 0)
    })
  }
})

t.test('everything that is wrong with the issuers is said at once, by its place, without quoting a key', async (t) => {
  const pem = keyPair(RSA).check
  const one = { algorithms: ['RS256'], key: pem }

  t.same(checkAuth(filled({ jwt: one })), [])
  t.same(checkAuth(filled({ jwt: [one, { ...one, header: 'X-A' }] })), [])
  t.same(
    checkAuth(
      filled({
        jwt: [
          { ...one, issuer: 'a' },
          { ...one, issuer: 'b' },
        ],
      }),
    ),
    [],
  )
  const mistakes = checkAuth(
    filled({
      jwt: [
        { ...one, key: 'marker' },
        { ...one, issuer: 'a' },
        { ...one, issuer: 'a', jwksUrl: 'https://marker.example' },
        { ...one, header: 'X-Service-Token' },
        { ...one, header: 'authorization' },
        { ...one, header: 'X-Token' },
        { ...one, header: 'x-token', issuer: 'b' },
      ],
      webhook: { url: 'http://127.0.0.1:1/' },
    }),
  )
  t.same(
    mistakes.map(({ keys }) => keys.join('.')),
    [
      'jwt.0.key',
      'jwt.0.issuer',
      'jwt.1.issuer',
      'jwt.2',
      'jwt.2.issuer',
      'jwt.3.header',
      'jwt.4.header',
      'jwt.5.issuer',
      'webhook',
    ],
  )
  t.notMatch(JSON.stringify(mistakes), /marker/)
})

t.test('a fetched key set', async (t) => {
  await t.test('follows a rotation, but asks for unknown key ids once only', async (t) => {
    const [first, second] = [rsa(), rsa()]
    const issuer = await keySet(t, [await publicJwk(first, 'one')])
    const server = await serve(t, {
      jwt: { algorithms: ['RS256'], jwksUrl: issuer.url, jwksTimeoutMs: patience(60_000) },
    })
    const signed = (pair: KeyPair, kid: string) => token({}, { key: pair.privateKey, header: { alg: 'RS256', kid } })
    const status = async (made: string) => (await server.raw([`Authorization: Bearer ${made}`])).status

    t.equal(await status(await signed(first, 'one')), 200)
    issuer.keys = [await publicJwk(second, 'two')]
    t.equal(await status(await signed(first, 'one')), 200, 'a known key is not asked for again')
    t.equal(issuer.asked, 1)
    t.equal(await status(await signed(second, 'two')), 401, 'the last fetch is too recent')
    t.equal(issuer.asked, 1)
  })
  await t.test('takes the new key once the cooldown is over, and bounds fetches after that', async (t) => {
    const [first, second] = [rsa(), rsa()]
    const issuer = await keySet(t, [await publicJwk(first, 'one')])
    const server = await serve(t, {
      jwt: { algorithms: ['RS256'], jwksUrl: issuer.url, jwksTimeoutMs: patience(60_000), jwksCooldownMs: 0 },
    })
    const signed = (pair: KeyPair, kid: string) => token({}, { key: pair.privateKey, header: { alg: 'RS256', kid } })
    const status = async (made: string) => (await server.raw([`Authorization: Bearer ${made}`])).status

    t.equal(await status(await signed(first, 'one')), 200)
    issuer.keys = [await publicJwk(second, 'two')]
    t.equal(await status(await signed(second, 'two')), 200)
    t.equal(await status(await signed(first, 'one')), 401, 'the old key is gone')
  })
  await t.test('serves on while its issuer is down, and is 503 when there was never one', async (t) => {
    const pair = rsa()
    const issuer = await keySet(t, [await publicJwk(pair, 'one')])
    const jwt = { algorithms: ['RS256'], jwksUrl: issuer.url, jwksTimeoutMs: patience(60_000), jwksMaxAgeMs: 0 }
    const made = await token({}, { key: pair.privateKey, header: { alg: 'RS256', kid: 'one' } })
    const server = await serve(t, { jwt })
    t.equal((await server.raw([`Authorization: Bearer ${made}`])).status, 200)

    issuer.broken = true
    const late = await serve(t, { jwt })

    t.equal((await server.raw([`Authorization: Bearer ${made}`])).status, 200)
    t.match(await late.raw([`Authorization: Bearer ${made}`]), { status: 503, body: { code: 'unavailable' } })
  })
})

t.test('the webhook', async (t) => {
  type Hook = (req: IncomingMessage, body: string) => [status: number, answer: unknown]
  const withHook = async (t: Test, hook: Hook, more: object = {}) => {
    const url = await listen(t, async (req, res) => {
      const [status, answer] = hook(req, Buffer.concat(await req.toArray()).toString())
      res
        .writeHead(status, status === 302 ? { location: '/elsewhere' } : {})
        .end(typeof answer === 'string' ? answer : JSON.stringify(answer))
    })
    return serve(t, { adminSecret: ADMIN, webhook: { url, ...more } })
  }

  await t.test('says who the caller is', async (t) => {
    const server = await withHook(t, (req) => [
      200,
      {
        'X-Service-Role': 'user',
        'X-Service-User-Id': req.headers.authorization === 'Bearer seven' ? 7 : 8,
        'X-Service-Org': 'a',
        ttl: 5,
      },
    ])
    const { body } = await server.raw(['Authorization: Bearer seven'])
    t.same(body, {
      role: 'user',
      variables: { 'x-service-role': 'user', 'x-service-user-id': '7', 'x-service-org': 'a' },
      via: 'webhook',
    })
    t.match(await server.raw(['X-Service-Role: admin']), { status: 403 })
    t.match((await server.raw(['Cookie: a=b'])).body, { via: 'cookie' })
    t.match((await server.raw([`X-Service-Admin-Secret: ${ADMIN}`])).body, { role: 'admin', via: 'admin-secret' })
  })
  await t.test('may answer any text as user id', async (t) => {
    const userId = 'auth0|8d6f2b1e é'
    const server = await withHook(t, () => [200, { 'x-service-role': 'user', 'x-service-user-id': userId }])
    t.match((await server.raw([])).body, { variables: { 'x-service-user-id': userId } })
  })
  await t.test('is sent what tells about the caller, and nothing unproven', async (t) => {
    let got: IncomingMessage['headers'] = {}
    const server = await withHook(t, (req) => {
      got = req.headers
      return [200, { 'x-service-role': 'user' }]
    })
    await server.raw([
      'Cookie: a=1',
      'Cookie: b=2',
      'X-Service-User-Id: 1',
      'X-Service-CSRF: 1',
      'Origin: http://x',
      'X-Tenant: t',
    ])
    t.match(got, { cookie: 'a=1; b=2', 'x-tenant': 't' })
    t.notOk('x-service-user-id' in got || 'x-service-csrf' in got || 'origin' in got)
  })
  await t.test('may be asked by POST', async (t) => {
    let got: unknown
    const server = await withHook(
      t,
      (req, body) => {
        got = [req.method, JSON.parse(body).headers['x-tenant']]
        return [200, { 'x-service-allowed-roles': 'user,editor' }]
      },
      { method: 'POST' },
    )
    t.match((await server.raw(['X-Tenant: t', 'X-Service-Role: editor'])).body, { role: 'editor' })
    t.same(got, ['POST', 't'])
  })
  await t.test('refuses with 401; any other answer is a 500', async (t) => {
    const answers: [number, unknown, number][] = [
      [401, {}, 401],
      [403, {}, 500],
      [500, {}, 500],
      [302, '', 500],
      [204, '', 500],
      [200, 'no json', 500],
      [200, [], 500],
      [200, {}, 500],
      [200, { 'x-service-role': 'a b' }, 500],
      [200, { 'x-service-role': 'a', 'x-service-user-id': '' }, 500],
      [200, { 'x-service-role': 'a', 'x-service-user-id': 'a\nb' }, 500],
      [200, { 'x-service-role': 'a', 'x-service-b': {} }, 500],
      [200, { 'x-service-role': 'a', padding: 'x'.repeat(70_000) }, 500],
    ]
    for (const [status, answer, expected] of answers) {
      const elsewhere = { 'x-service-role': 'admin' }
      const server = await withHook(t, ({ url }) => (url === '/elsewhere' ? [200, elsewhere] : [status, answer]))
      const got = await server.raw([])
      t.equal(got.status, expected, `${status} ${JSON.stringify(answer).slice(0, 60)}`)
      if (expected === 500) t.match(got.body, { code: 'unexpected' })
    }
  })
  await t.test('is given up on when it does not answer in time', async (t) => {
    const url = await listen(t, () => {})
    const server = await serve(t, { webhook: { url, timeoutMs: 50 } })
    t.match(await server.raw([]), { status: 500, body: { code: 'unexpected' } })
  })
})

t.test('authenticators of plugins', async (t) => {
  const seen: unknown[] = []
  const extra: Authenticator[] = [
    ({ header }) => (seen.push(header('x-service-user-id')), null),
    ({ header, cookie }) =>
      header('authorization') === 'Key k' || cookie('sid') === 'k'
        ? { role: 'robot', variables: new Map([['x-service-user-id', '3']]), via: 'token' }
        : null,
  ]
  const server = await serve(t, { adminSecret: ADMIN }, extra)

  await t.test('are asked before a caller becomes anonymous', async (t) => {
    t.match((await server.raw(['Authorization: Key k'])).body, {
      role: 'robot',
      variables: { 'x-service-user-id': '3' },
    })
    t.match((await server.raw(['Cookie: x=1; sid=k'])).body, { role: 'robot' })
    t.match((await server.raw([])).body, ANONYMOUS)
    t.match(await server.raw(['Authorization: Key wrong']), { status: 400 })
  })
  await t.test('cannot give a role that was not asked for, and see no unproven header', async (t) => {
    t.match(await server.raw(['Authorization: Key k', 'X-Service-Role: admin', 'X-Service-User-Id: 1']), {
      status: 403,
    })
    t.ok(seen.every((value) => value === undefined))
  })
  await t.test('may answer later, with promises of any kind, but have to answer', async (t) => {
    const session = { role: 'robot', variables: new Map(), via: 'token' } as const
    const answering = (answer: unknown) => serve(t, { adminSecret: ADMIN }, [() => answer as null])
    // oxlint-disable-next-line unicorn/no-thenable
    const later = { then: (use: (found: typeof session) => void) => use(session) }
    for (const answer of [session, Promise.resolve(session), later]) {
      t.match((await (await answering(answer)).raw([])).body, { role: 'robot' })
    }
    t.match((await (await answering(Promise.resolve(null))).raw([])).body, ANONYMOUS)
    for (const answer of [undefined, Promise.resolve()]) {
      t.match(await (await answering(answer)).raw([]), { status: 599, body: { error: /neither a session nor null/ } })
    }
  })
})

t.test('names of Hasura', async (t) => {
  const on = { ...JWT, adminSecret: ADMIN, gatewaySecret: GATEWAY, hasuraNames: true }
  const claims = {
    'X-Hasura-Allowed-Roles': ['user', 'editor'],
    'x-hasura-default-role': 'user',
    'x-hasura-user-id': '12',
    'x-hasura-org': 'a',
  }
  const hasuraToken = await token({ rowhouse: undefined, 'https://hasura.io/jwt/claims': claims })
  const both = (variables: Record<string, string>) => ({
    ...Object.fromEntries(Object.entries(variables).map(([name, value]) => [`x-service-${name}`, value])),
    ...Object.fromEntries(Object.entries(variables).map(([name, value]) => [`x-hasura-${name}`, value])),
  })

  await t.test('mean nothing unless they are switched on', async (t) => {
    const server = await serve(t, { ...JWT, adminSecret: ADMIN, gatewaySecret: GATEWAY })
    t.same((await server.raw([`X-Hasura-Admin-Secret: ${ADMIN}`, 'X-Hasura-User-Id: 3'])).body, ANONYMOUS)
    t.same((await server.raw(['X-Hasura-Admin-Secret: guessed'])).body, ANONYMOUS)
    t.match(await server.raw([`Authorization: Bearer ${hasuraToken}`]), { status: 401 })
    t.same((await server.raw([`Authorization: Bearer ${await token({})}`, 'X-Hasura-Role: editor'])).body, USER)
  })
  await t.test('are other names of the same headers', async (t) => {
    const server = await serve(t, on)
    t.same((await server.raw([`X-Hasura-Admin-Secret: ${ADMIN}`])).body, {
      role: 'admin',
      variables: both({ role: 'admin' }),
      via: 'admin-secret',
    })
    t.match(await server.raw(['X-Hasura-Admin-Secret: guessed']), { status: 401 })
    const headers = ['x-hasura-role: user', 'X-HASURA-USER-ID: 3', 'X-Hasura-Org: b']
    t.same((await server.raw([`X-Hasura-Access-Key: ${ADMIN}`, ...headers])).body, {
      role: 'user',
      variables: both({ role: 'user', 'user-id': '3', org: 'b' }),
      via: 'admin-secret',
    })
    t.same((await server.raw([`X-Service-Admin-Secret: ${ADMIN}`, 'X-Hasura-Role: user'])).body, {
      role: 'user',
      variables: both({ role: 'user' }),
      via: 'admin-secret',
    })
  })
  await t.test('are other names of claims, in the namespace of Hasura or another', async (t) => {
    const server = await serve(t, on)
    const user = { role: 'user', variables: both({ role: 'user', 'user-id': '12', org: 'a' }), via: 'token' }
    for (const bearer of [hasuraToken, await token({ rowhouse: claims }), await token({})]) {
      t.same((await server.raw([`Authorization: Bearer ${bearer}`])).body, user)
      t.match((await server.raw([`Authorization: Bearer ${bearer}`, 'X-Hasura-Role: editor'])).body, { role: 'editor' })
      t.match(await server.raw([`Authorization: Bearer ${bearer}`, 'X-Hasura-Role: admin']), { status: 403 })
    }
    const twice = await token({ rowhouse: { ...claims, 'x-service-org': 'b' } })
    t.match(await server.raw([`Authorization: Bearer ${twice}`]), { status: 401 })
  })
  await t.test('are ignored, or refused, like X-Service-* without a proof', async (t) => {
    const anonymous = { role: 'anonymous', variables: both({ role: 'anonymous', 'user-id': '0' }), via: 'anonymous' }
    const user = { role: 'user', variables: both({ role: 'user', 'user-id': '12', org: 'a' }), via: 'token' }
    const server = await serve(t, on)
    const cases = [
      { headers: [], expected: anonymous },
      { headers: [`Authorization: Bearer ${hasuraToken}`], expected: user },
    ]
    for (const { headers, expected } of cases) {
      for (const name of ['User-Id', 'Org', 'Allowed-Roles', 'Default-Role', 'Is-Admin', 'User-Role']) {
        t.same((await server.raw([...headers, `X-Hasura-${name}: admin`])).body, expected, name)
      }
      t.match(await server.raw([...headers, 'X-Hasura-Role: admin']), { status: 403 })
      for (const line of [
        'X_Hasura_User_Id: 1',
        'X.Hasura.Role: user',
        'X-Hasura-Org_Id: 1',
        'X-Hasura-Org: 1\r\nX-Hasura-Org: 2',
        'X-Hasura-Org: 1\r\nX-Service-Org: 2',
        'X-Hasura-Org: \xa0a',
      ]) {
        t.match(await server.raw([...headers, line]), { status: 400 }, line)
      }
    }
    const gateway = await serve(t, { mode: 'gateway', gatewaySecret: GATEWAY, hasuraNames: true })
    t.match(await gateway.raw(['X-Hasura-Role: admin', 'X-Hasura-Gateway-Secret: guessed']), { status: 401 })
  })
  await t.test('reach the webhook and plugins like X-Service-*', async (t) => {
    let got: IncomingMessage['headers'] = {}
    let answer: object = { 'X-Hasura-Role': 'user', 'X-Hasura-User-Id': '7', 'cache-control': 'no-cache' }
    const url = await listen(t, (req, res) => {
      got = req.headers
      res.end(JSON.stringify(answer))
    })
    const server = await serve(t, { webhook: { url }, hasuraNames: true })
    t.same((await server.raw(['X-Hasura-User-Id: 1', 'X-Hasura-Role: user'])).body, {
      role: 'user',
      variables: both({ role: 'user', 'user-id': '7' }),
      via: 'webhook',
    })
    t.match(got, { 'x-hasura-role': 'user', 'x-hasura-user-id': undefined })
    answer = { 'X-Hasura-Role': 'user', 'X-Service-Role': 'editor' }
    t.match(await server.raw([]), { status: 500 })

    const seen: unknown[] = []
    const plugin: Authenticator = ({ header }) => (
      seen.push(header('x-hasura-user-id'), header('x-service-user-id'), header('x-service-role')),
      null
    )
    const withPlugin = await serve(t, { adminSecret: ADMIN, hasuraNames: true }, [plugin])
    await withPlugin.raw(['X-Hasura-User-Id: 1', 'X-Hasura-Role: anonymous'])
    t.same(seen, [undefined, undefined, 'anonymous'])
  })
  t.match(checkAuth(filled({ jwt: { ...JWT.jwt, header: 'X-Hasura-Token' }, hasuraNames: true })), [
    { keys: ['jwt', 0, 'header'] },
  ])
  t.same(checkAuth(filled({ jwt: { ...JWT.jwt, header: 'X-Hasura-Token' } })), [])
})

t.test('a configuration that cannot be right is refused at once, without quoting secrets', async (t) => {
  const pem = String(RSA.publicKey.export({ type: 'spki', format: 'pem' }))
  const wrong: [object, RegExp][] = [
    [{ mode: 'gateway' }, /auth\.gatewaySecret is required/],
    [{ ...JWT, webhook: { url: 'http://127.0.0.1:1/' } }, /only one of "jwt" and "webhook"/],
    [{ jwt: { algorithms: ['HS256', 'RS256'], key: pem } }, /cannot be mixed/],
    [{ jwt: { algorithms: ['HS256'], key: pem } }, /not a PEM or JWK/],
    [{ jwt: { algorithms: ['HS256'], key: 'marker-short' } }, /at least 32 bytes/],
    [{ jwt: { algorithms: ['RS256'], key: 'marker-no-pem' } }, /not a public key/],
    [{ jwt: { algorithms: ['RS256'] } }, /exactly one of "key" and "jwksUrl"/],
    [{ jwt: { algorithms: ['RS256'], key: pem, jwksUrl: 'https://x.example' } }, /exactly one of/],
    [{ jwt: { algorithms: ['RS256'], jwksUrl: 'http://x.example' } }, /must be https/],
    [{ jwt: { algorithms: ['HS256'], jwksUrl: 'https://x.example' } }, /cannot hold a shared secret/],
    ...['org', 'x-hasura-org', 'x-service-a b', 'x-service-'].map((name): [object, RegExp] => [
      { jwt: { algorithms: ['RS256'], key: pem, claims: { variables: { [name]: '/a' } } } },
      /auth\.jwt\[0\]\.claims\.variables.*: must be a name such as x-service-org/,
    ]),
  ]
  for (const [config, message] of wrong) {
    t.throws(() => createAuthenticate(filled(config), silent, []), message)
    t.throws(() => createAuthenticate(filled(config), silent, []), { message: /^(?!.*marker)/ })
  }
})

t.test('no secret gets into the log', async (t) => {
  let written = ''
  const destination = new Writable({
    write(chunk: Buffer, _, done) {
      written += chunk.toString()
      done()
    },
  })
  const config = filled({ ...JWT, adminSecret: ADMIN, gatewaySecret: 'short-marker' })
  const authenticate = createAuthenticate(config, createLogger({ level: 'trace', destination }), [])
  const server = await serveWith(t, authenticate)

  await server.raw([`X-Service-Admin-Secret: ${ADMIN}x`])
  await server.raw([`Authorization: Bearer ${await token({ iss: 'marker' })}`])

  t.match(written, /auth\.gatewaySecret is shorter than 32 characters/)
  t.notMatch(written, /marker/)
})

t.test('headers that a client sends later', async (t) => {
  const later = {
    authorization: 'Bearer t',
    'X-Service-Role': 'user',
    'x-hasura-user-id': 1,
    'x-token': 't',
    cookie: 'a=b',
    host: 'x',
  }
  const added = (config: object, rawHeaders: string[]) => {
    const authenticate = createAuthenticate(filled(config), silent, [])
    return authenticate.withLater!({ rawHeaders, headers: {} }, later).rawHeaders.slice(rawHeaders.length)
  }
  const secrets = { adminSecret: ADMIN, gatewaySecret: GATEWAY }
  const direct = { ...secrets, jwt: [{ ...JWT.jwt, header: 'X-Token' }] }
  const credentials = ['authorization', 'Bearer t', 'x-service-role', 'user']

  t.same(added(secrets, ['Host', 'a', 'Cookie', 'c=d']), credentials, 'only credentials count')
  t.same(added(direct, []), [...credentials, 'x-token', 't'], 'also in a configured header')
  t.same(added({ ...secrets, hasuraNames: true }, []), [...credentials, 'x-hasura-user-id', '1'])
  for (const name of ['Authorization', 'X-Service-Gateway-Secret', 'X-Service-User-Id', 'X-Token']) {
    t.same(added(direct, ['Host', 'a', name, 'x']), [], `none beside ${name}`)
  }
  t.same(added({ ...secrets, hasuraNames: true }, ['X-Hasura-Role', 'x']), [])
  t.same(added({ ...secrets, mode: 'gateway' }, ['Host', 'a']), [], 'none past a gateway')
})

// What the tests need.

type KeyPair = ReturnType<typeof rsa>
function rsa() {
  return generateKeyPairSync('rsa', { modulusLength: 2048 })
}
function keyPair({ publicKey, privateKey }: KeyPair) {
  return { sign: privateKey, check: String(publicKey.export({ type: 'spki', format: 'pem' })) }
}

/** Claims that are `undefined` are left out. */
function token(
  claims: Record<string, unknown>,
  {
    key = RSA.privateKey,
    header = { alg: 'RS256' },
    unsafe = false,
  }: { key?: Parameters<SignJWT['sign']>[0]; header?: JWTHeaderParameters; unsafe?: boolean } = {},
): Promise<string> {
  const payload = JSON.parse(JSON.stringify({ ...CLAIMS, ...claims }))
  return new SignJWT(payload).setProtectedHeader(header).sign(key, unsafe ? { crit: { 'exp-x': true } } : {})
}

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const unsigned = (header: object, signature: string) => `${part(header)}.${part(CLAIMS)}.${signature}`
function hmacWith(key: string | Buffer): string {
  const text = `${part({ alg: 'HS256' })}.${part(CLAIMS)}`
  return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`
}

function filled(config: object): AuthConfig {
  const resolved = resolveSection({ path: '$.auth', schema: authConfig, value: config, settings: [], where: 'a test' })
  if (!resolved.ok) throw new Error(JSON.stringify(resolved.mistakes))
  return resolved.value
}

async function serve(t: Test, config: object, extra: readonly Authenticator[] = []) {
  return serveWith(t, createAuthenticate(filled(config), silent, extra))
}

/** A server that answers with the session, and how to send it raw header lines. */
async function serveWith(t: Test, authenticate: ReturnType<typeof createAuthenticate>) {
  const url = await listen(t, (req, res) => {
    ;(async () => authenticate(req))().then(
      ({ role, variables, via }) => res.end(JSON.stringify({ role, variables: Object.fromEntries(variables), via })),
      (error: unknown) => {
        const known = error instanceof ServiceError ? error : new ServiceError(599, 'bug', String(error))
        res.writeHead(known.status).end(JSON.stringify({ code: known.code, error: known.message }))
      },
    )
  })
  const port = Number(new URL(url).port)
  return {
    raw: (lines: readonly string[]) =>
      new Promise<{ status: number; body: unknown }>((resolve, reject) => {
        const socket = connect(port, '127.0.0.1')
        const chunks: Buffer[] = []
        socket.on('data', (chunk) => chunks.push(chunk))
        socket.on('error', reject)
        socket.on('close', () => {
          const [head = '', body = ''] = Buffer.concat(chunks).toString().split('\r\n\r\n')
          resolve({ status: Number(head.split(' ')[1]), body: body === '' ? undefined : JSON.parse(body) })
        })
        socket.write(
          `GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`,
          'latin1',
        )
      }),
  }
}

async function listen(t: Test, handle: RequestListener): Promise<string> {
  const server = createServer((req, res) => {
    // Without chunks, so that a body is what comes after the head.
    res.useChunkedEncodingByDefault = false
    handle(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

async function publicJwk({ publicKey }: KeyPair, kid: string) {
  return { ...(await exportJWK(publicKey)), kid, alg: 'RS256' }
}

async function keySet(t: Test, keys: object[]) {
  const issuer = { keys, asked: 0, broken: false, url: '' }
  issuer.url = await listen(t, (_, res) => {
    issuer.asked++
    if (issuer.broken) res.writeHead(500).end()
    else res.end(JSON.stringify({ keys: issuer.keys }))
  })
  return issuer
}
