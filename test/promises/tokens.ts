import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { exportJWK, type JWTPayload } from 'jose'
import type { Test } from 'tap'
import { area, type Case } from '../kit/promises.js'
import { ADMIN_SECRET, testServer, type TestServer } from '../kit/server.js'
import {
  bearer,
  CLAIMS,
  CONSOLE,
  gate,
  INVALID,
  listen,
  MALFORMED,
  NOT_HELD,
  now,
  pair,
  type Pair,
  pem,
  ROLES,
  secret,
  SHOP,
  token,
  tokenOf,
  UNPROVEN,
  whoIs,
} from '../kit/who-is.js'

/** Who a caller is by a token, the webhook, or the authenticator of a plugin. */
const PROMISES = {
  'token.session': 'a token has the roles, the default role and the variables of its claims',
  'token.role': 'a role header chooses among the roles of a token, and no other',
  'token.first-role': 'without a default role the first one applies',
  'token.headers': 'other headers change nothing of the session of a token',
  'token.cookie': 'a token is read from the configured cookie, after those in headers',
  'token.form': 'an Authorization header of another form is refused',
  'token.refused': 'a token that is not right in everything is refused, with one answer for all reasons',
  'token.leeway': 'clocks may differ by half a minute',
  'token.user-id': 'a user id has 1 to 255 characters without control characters',
  'issuer.named': 'the issuer that the token names checks it, with its key and its claims',
  'issuer.places': 'each issuer has its header or cookie, and no other’s',
  'issuer.keys': 'a key that a token contains or points to is never used',
  'claims.pointers': 'claims are found by JSON pointer',
  'claims.text': 'claims are found inside a text',
  'keys.kinds': 'a key set may have keys without an id, several of one id, and keys that mean nothing here',
  'keys.renewed': 'a key set whose keys have no id is fetched again for a token that none of them has signed',
  'keys.rotation': 'a key set is fetched again for a new key, and its old key ends',
  'keys.down': 'a key set serves on while its issuer is down; without any set the server is unavailable',
  'roles.foreign': 'roles that cannot be roles here are left out, whoever names them; others are held',
  'variables.values': 'a variable is a text, a number, a boolean, or a list as an array; null is none',
  'variables.names': 'a name that cannot be a variable is left out, and others may have “_”',
  'webhook.session': 'the webhook says who a caller is',
  'webhook.role': 'the webhook’s roles limit the role header',
  'webhook.asked': 'the webhook gets what tells about the caller, and no unproven variables',
  'webhook.refuses': 'a caller whom the webhook refuses gets 401, and any other answer is a 500',
  'webhook.after': 'a secret is proved without the webhook',
  'plugin.session': 'the authenticator of a plugin decides before tokens and the webhook',
  'hasura.off': 'X-Hasura-* means nothing unless it is switched on',
  'hasura.headers': 'with hasuraNames, X-Hasura-* headers mean X-Service-*',
  'hasura.claims': 'and so do claims, in the namespace of Hasura, too',
  'hasura.both': 'a request with both names of a header is refused',
  'refused.reason': 'the reason of a refused token is in the answer only with refusalReasons',
} as const

const PAGES = {
  'core/http/authentication.md': {
    Authentication: {
      'An authenticator of a plugin': 'plugin.session',
      '`Authorization: Bearer <jwt>`, or the session cookie': ['token.session', 'token.cookie'],
      'The webhook, if configured': ['webhook.session', 'webhook.role'],
    },
  },
} as const

interface Tokens extends TestServer {
  readonly asked: TestServer
  readonly hasura: TestServer
  readonly webhook: Webhook
  readonly keys: KeySet
}

const STAFF = pair()
const PARTNER = 'partner-secret-0123456789abcdef-0123456789'
const secretKey = (text: string) => Buffer.from(text)
const TEXTS = 'texts-secret-0123456789abcdef-0123456789'

const USER = {
  signed_in: true,
  role: 'user',
  roles: ['editor', 'user'],
  via: 'token',
  variables: { 'x-service-user-id': '12', 'x-service-org': 'a', 'x-service-role': 'user' },
}
const ANONYMOUS = {
  signed_in: false,
  role: 'anonymous',
  via: 'anonymous',
  variables: { 'x-service-user-id': '0', 'x-service-role': 'anonymous' },
}

const CASES: Record<keyof typeof PROMISES, Case<Tokens>> = {
  'token.session': async (t, server) => {
    t.same((await whoIs(server, [bearer(await token())])).body, USER)
  },
  'token.role': async (t, server) => {
    const line = bearer(await token())
    // The same token again, so that it is also known already.
    for (const role of ['editor', 'user', 'editor'])
      t.match((await whoIs(server, [line, `X-Service-Role: ${role}`])).body, {
        role,
        variables: { 'x-service-role': role },
      })
    t.match(await whoIs(server, [line, 'X-Service-Role: admin']), NOT_HELD)
  },
  'token.first-role': async (t, server) => {
    t.match((await whoIs(server, [bearer(await tokenOf({}))])).body, { role: 'user', roles: ['user', 'editor'] })
  },
  'token.headers': async (t, server) => {
    t.same((await whoIs(server, [bearer(await token()), ...UNPROVEN])).body, USER)
  },
  'token.cookie': async (t, server) => {
    const cookie = `Cookie: a=b; rowhouse_session=${await token()}`
    t.same((await whoIs(server, [cookie])).body, { ...USER, via: 'cookie' })
    t.match((await whoIs(server, [cookie, bearer(await tokenOf({}))])).body, {
      via: 'token',
      roles: ['user', 'editor'],
    })
    t.equal((await whoIs(server, [cookie, bearer('a.b.c')])).status, 401)
    t.equal((await whoIs(server, ['Cookie: rowhouse_session=gone'])).status, 401)
    t.match((await whoIs(server, [`Cookie: other=${await token()}`])).body, ANONYMOUS)
  },
  'token.form': async (t, server) => {
    for (const value of ['Bearer', 'Bearer a b', 'Basic YTpi', 'a.b.c', 'Bearer,a', ''])
      t.match(
        await whoIs(server, [`Authorization: ${value}`]),
        { status: 400, body: { code: 'malformed-authorization-header' } },
        value,
      )
  },
  'token.refused': async (t, server) => {
    const [head = '', payload = '', signature = ''] = (await token()).split('.')
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const hmac = (key: string) => {
      const text = `${part({ alg: 'HS256' })}.${payload}`
      return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`
    }
    const signed = (header: object) => {
      const text = `${part({ alg: 'ES256', ...header })}.${payload}`
      const key = { key: SHOP.privateKey, dsaEncoding: 'ieee-p1363' } as const
      return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`
    }
    t.equal((await whoIs(server, [bearer(signed({ typ: 'any', cty: 'any', x: 1 }))])).status, 200)
    const wrong: Record<string, string> = {
      'expired beyond the leeway': await token({ exp: now() - 31 }),
      'not valid yet': await token({ nbf: now() + 60 }),
      'without exp': await token({ exp: undefined }),
      'exp of the wrong type': await token({ exp: '9999999999' as never }),
      'wrong issuer': await token({ iss: 'other' }),
      'no issuer': await token({ iss: undefined }),
      'wrong audience': await token({ aud: 'other' }),
      'no audience': await token({ aud: undefined }),
      oversized: await token({ padding: 'x'.repeat(8000) }),
      'another key': await token({}, pair().privateKey),
      'no algorithm': `${part({ alg: 'none' })}.${payload}.`,
      'no algorithm, with a signature': `${part({ alg: 'none' })}.${payload}.${signature}`,
      'the public key as shared secret': hmac(pem(SHOP)),
      'a changed payload': [
        head,
        part({ ...CLAIMS, rowhouse: { 'x-service-allowed-roles': ['admin'] } }),
        signature,
      ].join('.'),
      'two parts': `${head}.${payload}`,
      'no token': 'x',
      'no roles': await token({ rowhouse: {} }),
      'no claims': await token({ rowhouse: undefined }),
      'roles that are no list': await tokenOf({ 'x-service-allowed-roles': 'admin' }),
      'an empty list of roles': await tokenOf({ 'x-service-allowed-roles': [] }),
      'a role that is no name': await tokenOf({ 'x-service-allowed-roles': ['a b'] }),
      'a default role that is not held': await tokenOf({ 'x-service-default-role': 'admin' }),
      'a number that JSON does not represent': await tokenOf({ 'x-service-user-id': 2 ** 60 }),
      'an unknown critical parameter': signed({ crit: ['x'], x: 1 }),
      'a payload that is not encoded': signed({ crit: ['b64'], b64: false }),
      'two names of one claim': await tokenOf({ 'x-service-a': '1', 'X-Service-A': '2' }),
    }
    for (const [name, text] of Object.entries(wrong)) {
      const { status, body } = await whoIs(server, [bearer(text)])
      t.same([status, body], [401, INVALID], name)
    }
  },
  'token.leeway': async (t, server) => {
    t.equal((await whoIs(server, [bearer(await token({ exp: now() - 15, nbf: now() + 20 }))])).status, 200)
  },
  'token.user-id': async (t, server) => {
    for (const id of ['', 'a\nb', 'a\u0000', '\u0085', '\u007f', 'a\u007f', 'x'.repeat(256)]) {
      const { status, body } = await whoIs(server, [bearer(await tokenOf({ 'x-service-user-id': id }))])
      t.same([status, body], [401, INVALID], encodeURIComponent(id))
    }
    const numeric = await whoIs(server, [bearer(await tokenOf({ 'x-service-user-id': 12 }))])
    t.equal(numeric.body.variables['x-service-user-id'], '12')
    for (const id of [
      'auth0|5f0c',
      'x'.repeat(255),
      'é'.repeat(255),
      '漢'.repeat(255),
      '😀'.repeat(255),
      '-',
      '7f2c1f6e-0d5c-4b52-9a1f-3d3b0f9a4f11',
    ])
      t.equal(
        (await whoIs(server, [bearer(await tokenOf({ 'x-service-user-id': id }))])).body.variables['x-service-user-id'],
        id,
      )
  },
  'issuer.named': async (t, server) => {
    const staff = { iss: 'staff', staff: { 'x-service-allowed-roles': ['staff'] } }
    t.match((await whoIs(server, [bearer(await token(staff, STAFF.privateKey))])).body, { role: 'staff', via: 'token' })
    t.equal((await whoIs(server, [bearer(await token(staff))])).status, 401, 'the key of another issuer')
    t.equal((await whoIs(server, [bearer(await token({ iss: ['shop'] as never }))])).status, 401)
    const noAudience = { ...staff, aud: undefined, iss: 'staff' }
    t.equal((await whoIs(server, [bearer(await token(noAudience, STAFF.privateKey))])).status, 200, 'it asks for none')
  },
  'issuer.places': async (t, server) => {
    const [shop, partner] = [await token(), await token({ iss: 'anybody' }, secretKey(PARTNER))]
    const staff = await token({ iss: 'staff', staff: { 'x-service-allowed-roles': ['staff'] } }, STAFF.privateKey)
    t.match((await whoIs(server, [`Cookie: staff_session=${staff}`])).body, { role: 'staff', via: 'cookie' })
    t.match((await whoIs(server, [`X-Partner-Token: ${partner}`])).body, { role: 'user', via: 'token' })
    for (const line of [
      `Cookie: staff_session=${shop}`,
      `Cookie: rowhouse_session=${staff}`,
      `X-Partner-Token: ${shop}`,
      bearer(partner),
    ])
      t.equal((await whoIs(server, [line])).status, 401)
  },
  'issuer.keys': async (t, server) => {
    const rogue = pair()
    const jwk = await exportJWK(rogue.publicKey)
    let fetched = 0
    const own = await listen(t, (_, res) => (fetched++, res.end(JSON.stringify({ keys: [{ ...jwk, kid: 'rogue' }] }))))
    for (const header of [{ jwk }, { jku: own, kid: 'rogue' }, { x5u: own, kid: 'rogue' }])
      t.equal((await whoIs(server, [bearer(await token({}, rogue.privateKey, header))])).status, 401)
    t.equal(fetched, 0)
  },
  'claims.pointers': async (t, { hasura }) => {
    const claims = {
      iss: 'pointers',
      rowhouse: undefined,
      sub: '42',
      realm: { roles: ['a', 'b'] },
      'https://x.example/role': 'b',
      orgs: ['north'],
    }
    t.match((await whoIs(hasura, [bearer(await token(claims, secretKey(PARTNER)))])).body, {
      role: 'b',
      roles: ['a', 'b'],
      variables: { 'x-service-user-id': '42', 'x-service-org': 'north' },
    })
  },
  'claims.text': async (t, { hasura }) => {
    const texts = (app: unknown) => token({ iss: 'texts', rowhouse: undefined, app }, secretKey(TEXTS))
    const line = bearer(await texts({ 'a/b': JSON.stringify({ ...ROLES, 'x-service-user-id': '3' }) }))
    t.match((await whoIs(hasura, [line])).body, { role: 'user', variables: { 'x-service-user-id': '3' } })
    for (const wrong of [{ 'a/b': ROLES }, { 'a/b': '{' }, { 'a/b': '"user"' }, {}])
      t.equal((await whoIs(hasura, [bearer(await texts(wrong))])).status, 401)
  },
  'roles.foreign': async (t, { asked, hasura, webhook, ...server }) => {
    const realm = (roles: unknown, more: object = {}) =>
      token({ iss: 'pointers', rowhouse: undefined, sub: '1', realm: { roles }, ...more }, secretKey(PARTNER))
    const sources: Record<string, (roles: unknown) => Promise<{ status: number; body: unknown }>> = {
      'the namespace': async (roles) => whoIs(server, [bearer(await tokenOf({ 'x-service-allowed-roles': roles }))]),
      'a pointer': async (roles) => whoIs(hasura, [bearer(await realm(roles))]),
      'the names of Hasura': async (roles) => {
        const claims = { 'https://hasura.io/jwt/claims': { 'x-hasura-allowed-roles': roles }, rowhouse: undefined }
        return whoIs(hasura, [bearer(await token({ iss: 'hasura', ...claims }, secretKey(ADMIN_SECRET)))])
      },
      'a list of the webhook': (roles) => {
        webhook.answer = [200, { 'X-Service-Allowed-Roles': roles }]
        return whoIs(asked, [])
      },
      'a text of the webhook': (roles) => {
        webhook.answer = [200, { 'X-Service-Allowed-Roles': (roles as unknown[]).join(',') }]
        return whoIs(asked, [])
      },
    }
    const odd = ['default-roles-my realm', 'read:orders', '/staff/admins', 'Geschäftsführung', 'x'.repeat(70), '']
    for (const [source, ask] of Object.entries(sources)) {
      for (const name of odd)
        for (const list of [
          ['user', name, 'editor'],
          [name, 'user', 'editor'],
          ['user', 'editor', name],
        ])
          t.match(
            await ask(list),
            { status: 200, body: { role: 'user', roles: ['user', 'editor'] } },
            `${source}: ${name}`,
          )
      t.match(await ask(odd), { status: 401, body: INVALID }, `${source}: no role is left`)
    }
    for (const other of [null, 1, { name: 'a' }, ['a']])
      t.match(await sources['a pointer']!([other, 'user']), { status: 200, body: { role: 'user', roles: ['user'] } })
    const usual = await realm(['my realm', 'a', 'b'], { 'https://x.example/role': 'my realm' })
    t.match((await whoIs(hasura, [bearer(usual)])).body, { role: 'a', roles: ['a', 'b'] }, 'as default role')
    webhook.answer = [200, { 'X-Service-Role': 'my realm', 'X-Service-Allowed-Roles': ['my realm', 'a'] }]
    t.match((await whoIs(asked, [])).body, { role: 'a', roles: ['a'] }, 'as role of the webhook')
    const list = 'X-Service-Allowed-Roles: my realm, user,read:orders'
    t.match((await whoIs(asked, [gate(), list])).body, { role: 'user', via: 'gateway' })
    t.match(await whoIs(asked, [gate(), 'X-Service-Allowed-Roles: my realm']), MALFORMED)
    for (const text of ['CN=Doe\\, editor, user', '"a, editor, b", user', 'user, CN=Doe\\,editor,OU=b']) {
      t.match(await whoIs(asked, [gate(), `X-Service-Allowed-Roles: ${text}`]), MALFORMED, text)
      webhook.answer = [200, { 'X-Service-Allowed-Roles': text }]
      t.match(await whoIs(asked, []), { status: 401, body: INVALID }, `a comma in a name: ${text}`)
    }
    const ofDomain = 'X-Service-Allowed-Roles: CORP\\editor, user'
    t.match((await whoIs(asked, [gate(), ofDomain])).body, { role: 'user' }, 'a backslash alone separates nothing')
  },
  'variables.values': async (t, { asked, webhook, ...server }) => {
    const sources: Record<string, (value: unknown) => ReturnType<typeof whoIs>> = {
      'the token': async (value) => whoIs(server, [bearer(await tokenOf({ 'x-service-a': value }))]),
      'the webhook': (value) => {
        webhook.answer = [200, { 'x-service-role': 'user', 'X-Service-A': value }]
        return whoIs(asked, [])
      },
    }
    const good: readonly [unknown, string | undefined][] = [
      [null, undefined],
      ['', ''],
      ['é "x"', 'é "x"'],
      [0, '0'],
      [-7, '-7'],
      [1.5, '1.5'],
      [true, 'true'],
      [false, 'false'],
      [[], '{}'],
      [['a', 'b'], '{"a","b"}'],
      [[1, true, null, ''], '{"1","true",NULL,""}'],
      [['a,b', '{', 'say "hi"', 'back\\slash', 'NULL'], '{"a,b","{","say \\"hi\\"","back\\\\slash","NULL"}'],
    ]
    for (const [source, ask] of Object.entries(sources)) {
      for (const [value, text] of good) {
        const { status, body } = await ask(value)
        t.same([status, body.variables?.['x-service-a']], [200, text], `${source}: ${JSON.stringify(value)}`)
      }
      for (const value of [{}, { a: 1 }, [[1]], [{}], 2 ** 60, [2 ** 60], 'a\0', ['\0']])
        t.match(await ask(value), { status: source === 'the token' ? 401 : 500 }, `${source}: ${JSON.stringify(value)}`)
    }
    const none = await whoIs(server, [bearer(await tokenOf({ 'x-service-user-id': null }))])
    t.same([none.status, none.body.variables], [200, { 'x-service-role': 'user' }])
    for (const id of [['1'], true, 1.5, {}])
      t.equal((await whoIs(server, [bearer(await tokenOf({ 'x-service-user-id': id }))])).status, 401)
    const nothing = { 'X-Service-Role': 'user', 'X-Service-User-Id': null, 'X-Service-Allowed-Roles': null }
    webhook.answer = [200, nothing]
    t.same((await whoIs(asked, [])).body.variables, { 'x-service-role': 'user' })
    webhook.answer = [200, { ...nothing, 'X-Service-Role': null, 'X-Service-Allowed-Roles': ['user', null] }]
    t.match((await whoIs(asked, [])).body, { role: 'user', roles: ['user'] })
    for (const list of [7, {}, true]) {
      webhook.answer = [200, { ...nothing, 'X-Service-Allowed-Roles': list }]
      t.equal((await whoIs(asked, [])).status, 500)
    }
  },
  'variables.names': async (t, { asked, hasura, webhook, ...server }) => {
    const claims = { 'x-service-company_ids': '1', 'X-Service-_A__b-': '2', 'x-service-a b': '3', 'x-service-é': '4' }
    const expected = { 'x-service-company_ids': '1', 'x-service-_a__b-': '2', 'x-service-role': 'user' }
    t.same((await whoIs(server, [bearer(await tokenOf(claims))])).body.variables, expected)
    webhook.answer = [200, { 'x-service-role': 'user', ...claims }]
    t.same((await whoIs(asked, [])).body.variables, expected)
    const lines = ['X-Service-Role: user', 'X-Service-Company_Ids: 1', 'X-Service-_A__b-: 2']
    for (const proof of [secret(), gate()])
      t.same((await whoIs(asked, [proof, ...lines])).body.variables, expected, proof)
    const named = { 'x-hasura-allowed-roles': ['user'], 'x-hasura-company_ids': '1' }
    const line = bearer(await token({ iss: 'hasura', rowhouse: named }, secretKey(ADMIN_SECRET)))
    const ids = { 'x-service-company_ids': '1', 'x-hasura-company_ids': '1' }
    t.match((await whoIs(hasura, [line])).body, { role: 'user', variables: ids })
    t.match((await whoIs(hasura, [secret(), 'X-Hasura-Company_Ids: 1'])).body, { role: 'admin', variables: ids })
    for (const line of [bearer(await token()), 'A: b'])
      t.match(await whoIs(server, [line, 'X-Service-Company_Ids: 9']), MALFORMED, 'without a proof')
    // What another program reads as the same name, or as the name of an instruction.
    for (const wrong of [
      ['X-Service-A_B: 1', 'X-Service-A-B: 1'],
      ['X-Hasura-A_B: 1', 'X-Service-A-B: 1'],
      ['X-Service-Admin_Secret: 1'],
      ['X-Hasura-User_Id: 1'],
      ['X-Service-User_Role: user'],
      ['X-Service-Digits_As_Text: 1'],
      ['X_Service-Org: 1'],
      ['X-Service-Org.Id: 1'],
    ])
      t.match(await whoIs(hasura, [secret(), ...wrong]), MALFORMED, wrong.join())
  },
  'keys.kinds': async (t, { hasura, keys }) => {
    const [one, two, rsa] = [pair(), pair(), generateKeyPairSync('rsa', { modulusLength: 2048 })]
    const jwk = async (key: Pick<Pair, 'publicKey'>, more: object = {}) => ({
      ...(await exportJWK(key.publicKey)),
      ...more,
    })
    let made = 0
    const status = async (key: Pair, header: object, claims: JWTPayload = {}) =>
      (
        await whoIs(hasura, [
          bearer(await token({ iss: 'keys', jti: String(made++), ...claims }, key.privateKey, header)),
        ])
      ).status
    /** Of the keys that the token may have used, in a set with others. */
    const good: Record<string, [object[], object]> = {
      'without ids': [[await jwk(two), await jwk(one)], {}],
      'without an id in the token': [[await jwk(two, { kid: 'b' }), await jwk(one, { kid: 'a' })], {}],
      'several of one id': [
        [await jwk(two, { kid: 'a' }), await jwk(one, { kid: 'a' }), await jwk(rsa, { kid: 'a' })],
        { kid: 'a' },
      ],
      'an id that no key has': [[await jwk(two, { kid: 'b' }), await jwk(one)], { kid: 'a' }],
      'for signatures': [[await jwk(one, { use: 'sig', key_ops: ['verify'], alg: 'ES256', ext: true, more: 1 })], {}],
      'keys that mean nothing here': [
        [
          null as never,
          7 as never,
          [] as never,
          {},
          { kty: 'new', kid: 'a' },
          { kty: 'oct', k: 'AAAA', kid: 'a' },
          { kty: 'RSA', kid: 'a' },
          { kty: 'EC', crv: 'P-0', x: 'a', y: 'b', kid: 'a' },
          { kty: 7, kid: 'a' },
          await jwk(rsa, { kid: 'a', use: 'enc', alg: 'RSA-OAEP' }),
          await jwk(two, { kid: 'a', use: 'enc' }),
          await jwk(one, { kid: 'a' }),
        ],
        { kid: 'a' },
      ],
    }
    /** A key id that no key has makes the server fetch the set. */
    const use = async (set: readonly object[]) => {
      await keys.setAll(set)
      t.equal(await status(pair(), { kid: 'renew' }), 401)
    }
    for (const [name, [set, header]] of Object.entries(good)) {
      await use(set)
      t.equal(await status(one, header), 200, name)
      t.equal(await status(pair(), header), 401, `${name}: of another key`)
    }
    for (const [name, other] of Object.entries({
      use: { use: 'enc' },
      key_ops: { key_ops: ['encrypt'] },
      alg: { alg: 'ES384' },
    })) {
      await use([await jwk(one, { kid: name, ...other })])
      t.equal(await status(one, { kid: name }), 401, name)
    }
    await use([await jwk(one, { kid: 'times' })])
    t.equal(
      await status(one, { kid: 'times', typ: 'at+jwt' }, { exp: now() + 9.5, nbf: now() - 0.5, aud: ['a', 'b'] }),
      200,
    )
  },
  'keys.renewed': async (t, { hasura, keys }) => {
    const [first, second] = [pair(), pair()]
    const signed = async ({ privateKey }: Pair, header: object) =>
      (await whoIs(hasura, [bearer(await token({ iss: 'keys', jti: 'renewed' }, privateKey, header))])).status
    await keys.setAll([await exportJWK(first.publicKey)])
    t.equal(await signed(first, {}), 200)
    await keys.setAll([await exportJWK(second.publicKey)])
    t.equal(await signed(second, {}), 200)
    t.equal(await signed(first, {}), 401)
    await keys.setAll([await exportJWK(first.publicKey)])
    t.equal(await signed(first, { kid: 'any' }), 200)
  },
  'keys.rotation': async (t, { hasura, keys }) => {
    const [first, second] = [pair(), pair()]
    const signed = async ({ privateKey }: Pair, kid: string) =>
      bearer(await token({ iss: 'keys' }, privateKey, { kid }))
    await keys.set(first, 'one')
    t.equal((await whoIs(hasura, [await signed(first, 'one')])).status, 200)
    const { asked } = keys
    t.equal((await whoIs(hasura, [await signed(first, 'one')])).status, 200)
    t.equal(keys.asked, asked, 'a known key is not fetched again')
    await keys.set(second, 'two')
    t.equal((await whoIs(hasura, [await signed(second, 'two')])).status, 200)
    t.equal((await whoIs(hasura, [await signed(first, 'one')])).status, 401)
    t.equal((await whoIs(hasura, [await signed(first, 'two')])).status, 401)
  },
  'keys.down': async (t, { hasura, keys }) => {
    const third = pair()
    const signed = async (iss: string) => bearer(await token({ iss }, third.privateKey, { kid: 'three' }))
    await keys.set(third, 'three')
    t.equal((await whoIs(hasura, [await signed('keys')])).status, 200)
    keys.broken = true
    t.equal((await whoIs(hasura, [await signed('keys')])).status, 200)
    t.match(await whoIs(hasura, [await signed('never')]), { status: 503, body: { code: 'unavailable' } })
  },
  'webhook.session': async (t, { asked, webhook }) => {
    webhook.answer = [200, { 'X-Service-Role': 'user', 'X-Service-User-Id': 7, 'X-Service-Org': 'a', ttl: 5 }]
    t.same((await whoIs(asked, [bearer('seven')])).body, {
      signed_in: true,
      role: 'user',
      via: 'webhook',
      variables: { 'x-service-role': 'user', 'x-service-user-id': '7', 'x-service-org': 'a' },
    })
    t.match((await whoIs(asked, ['Cookie: a=b'])).body, { via: 'cookie' })
  },
  'webhook.role': async (t, { asked, webhook }) => {
    t.match(await whoIs(asked, ['X-Service-Role: admin']), NOT_HELD)
    webhook.answer = [200, { 'x-service-allowed-roles': 'user, editor' }]
    t.match((await whoIs(asked, [])).body, { role: 'user', roles: ['user', 'editor'] })
    t.match((await whoIs(asked, ['X-Service-Role: editor'])).body, { role: 'editor' })
    t.match(await whoIs(asked, ['X-Service-Role: admin']), NOT_HELD)
  },
  'webhook.asked': async (t, { asked, webhook }) => {
    const lines = [
      'Cookie: a=1',
      'Cookie: b=2',
      'X-Service-User-Id: 1',
      'X-Service-CSRF: 1',
      'X-Service-Role: user',
      'X-Tenant: t',
    ]
    await whoIs(asked, [...lines, 'Origin: http://x', 'Content-Type: text/plain'])
    const { headers, method } = webhook.asked.at(-1)!
    t.match([method, headers], ['GET', { cookie: 'a=1; b=2', 'x-tenant': 't', 'x-service-role': 'user' }])
    for (const name of ['x-service-user-id', 'x-service-csrf', 'origin', 'content-type']) t.notOk(name in headers, name)
  },
  'webhook.refuses': async (t, { asked, webhook }) => {
    webhook.answer = [401, {}]
    const refused = await whoIs(asked, [bearer('x')])
    t.same([refused.status, refused.body], [401, INVALID])
    for (const answer of [
      [403, {}],
      [302, ''],
      [204, ''],
      [200, 'no json'],
      [200, []],
      [200, {}],
      [200, { 'x-service-role': 'a b' }],
      [200, { 'x-service-role': 'a', 'x-service-user-id': 'a\nb' }],
      [200, { 'x-service-role': 'a', 'x-service-b': {} }],
      [200, { 'x-service-role': 'a', padding: 'x'.repeat(70_000) }],
    ] as const) {
      webhook.answer = answer
      t.match(
        await whoIs(asked, []),
        { status: 500, body: { code: 'unexpected' } },
        JSON.stringify(answer).slice(0, 60),
      )
    }
  },
  'webhook.after': async (t, { asked, webhook }) => {
    const { length } = webhook.asked
    t.match((await whoIs(asked, [secret()])).body, { role: 'admin', via: 'admin-secret' })
    t.match((await whoIs(asked, [gate(), 'X-Service-Role: user'])).body, { role: 'user', via: 'gateway' })
    t.equal((await whoIs(asked, [secret('wrong')])).status, 401)
    t.equal(webhook.asked.length, length)
  },
  'plugin.session': async (t, { asked, webhook }) => {
    const signedIn = await asked.fetch('/console/session', {
      method: 'POST',
      body: '{}',
      headers: { 'sec-fetch-site': 'same-origin' },
    })
    const [cookie] = (signedIn.headers.get('set-cookie') ?? '').split(';')
    const { length } = webhook.asked
    const { port } = new URL(asked.url)
    const { body } = await asked.bare('/console/session', { headers: { cookie: cookie! } })
    t.match(body, { role: 'admin', via: 'cookie' })
    t.equal(webhook.asked.length, length, 'the webhook is not asked')
    t.ok(cookie!.startsWith(`rowhouse-${port}=`))
  },
  'hasura.off': async (t, server) => {
    t.same((await whoIs(server, [`X-Hasura-Admin-Secret: ${ADMIN_SECRET}`, 'X-Hasura-User-Id: 3'])).body, ANONYMOUS)
    t.same((await whoIs(server, [bearer(await token()), 'X-Hasura-Role: editor'])).body, USER)
    const claims = { rowhouse: undefined, 'https://hasura.io/jwt/claims': { 'x-hasura-allowed-roles': ['user'] } }
    t.equal((await whoIs(server, [bearer(await token(claims))])).status, 401)
  },
  'hasura.headers': async (t, { hasura }) => {
    const lines = [`X-Hasura-Admin-Secret: ${ADMIN_SECRET}`, 'x-hasura-role: user', 'X-HASURA-USER-ID: 3']
    const both = {
      'x-service-role': 'user',
      'x-service-user-id': '3',
      'x-hasura-role': 'user',
      'x-hasura-user-id': '3',
    }
    t.same((await whoIs(hasura, lines)).body, { signed_in: true, role: 'user', via: 'admin-secret', variables: both })
    t.equal((await whoIs(hasura, ['X-Hasura-Admin-Secret: guessed'])).status, 401)
    t.match(await whoIs(hasura, ['X-Hasura-Role: admin']), NOT_HELD)
    t.match((await whoIs(hasura, ['X-Hasura-User-Id: 3'])).body, {
      role: 'anonymous',
      variables: { 'x-hasura-user-id': '0' },
    })
    t.match(await whoIs(hasura, ['X_Hasura_User_Id: 1']), MALFORMED)
  },
  'hasura.claims': async (t, { hasura }) => {
    const claims = {
      'X-Hasura-Allowed-Roles': ['user', 'editor'],
      'x-hasura-default-role': 'editor',
      'x-hasura-user-id': '12',
    }
    const user = { role: 'editor', variables: { 'x-service-user-id': '12', 'x-hasura-user-id': '12' } }
    const spaces = [{ rowhouse: claims }, { rowhouse: undefined, 'https://hasura.io/jwt/claims': claims }]
    for (const space of spaces) {
      const line = bearer(await token({ iss: 'hasura', ...space }, secretKey(ADMIN_SECRET)))
      t.match(await whoIs(hasura, [line]), { status: 200, body: user })
      t.match((await whoIs(hasura, [line, 'X-Hasura-Role: user'])).body, { role: 'user' })
    }
    const twice = { iss: 'hasura', rowhouse: { ...claims, 'x-service-user-id': '13' } }
    t.equal((await whoIs(hasura, [bearer(await token(twice, secretKey(ADMIN_SECRET)))])).status, 401)
  },
  'hasura.both': async (t, { hasura }) => {
    t.match(await whoIs(hasura, [secret(), 'X-Hasura-Org: 1', 'X-Service-Org: 2']), MALFORMED)
  },
  'refused.reason': async (t, { hasura }) => {
    const text = await token({ iss: 'pointers', exp: undefined }, secretKey(PARTNER))
    const { status, body } = await whoIs(hasura, [bearer(text)])
    t.same([status, body], [401, { ...INVALID, internal: { reason: 'missing required "exp" claim' } }])
  },
}

/** Its promises, with a case for each. */
export const tokens = area('tokens', { promises: PROMISES, pages: PAGES, cases: CASES, start })

async function start(t: Test): Promise<Tokens> {
  const webhook: Webhook = { answer: [200, {}], asked: [] }
  const hook = await listen(t, (req, res) => {
    webhook.asked.push(req)
    const [status, answer] = webhook.answer
    res.writeHead(status, { location: '/elsewhere' }).end(typeof answer === 'string' ? answer : JSON.stringify(answer))
  })
  const keys = await keySet(t)
  // Refused tokens are not what their promises are about.
  const http = { failedAuthPerMinute: 10_000 }
  const es256 = (more: object) => ({ algorithms: ['ES256'], ...more })
  const hs256 = (key: string, more: object) => ({ algorithms: ['HS256'], key, ...more })
  const server = await testServer(t, {
    builtins: CONSOLE,
    config: {
      http,
      auth: {
        jwt: [
          es256({ key: pem(SHOP), issuer: 'shop', audience: 'rowhouse' }),
          es256({ key: pem(STAFF), issuer: 'staff', cookie: 'staff_session', claims: { namespacePath: '/staff' } }),
          hs256(PARTNER, { header: 'X-Partner-Token' }),
        ],
      },
    },
  })
  const other = (auth: object, more: object = {}) =>
    testServer(t, {
      builtins: CONSOLE,
      databaseUrl: server.databaseUrl,
      config: { auth, http: { ...http, ...more } },
    })
  const asked = await other({ webhook: { url: hook } })
  const jwks = { jwksTimeoutMs: 60_000, jwksCooldownMs: 0, jwksMaxAgeMs: 0 }
  const pointers = {
    allowedRoles: '/realm/roles',
    defaultRole: '/https:~1~1x.example~1role',
    variables: { 'x-service-user-id': '/sub', 'x-service-org': '/orgs/0' },
  }
  const jwt = [
    es256({ jwksUrl: keys.url, issuer: 'keys', ...jwks, jwksMaxAgeMs: 60_000 }),
    es256({ jwksUrl: `${keys.url}never`, issuer: 'never', ...jwks }),
    hs256(PARTNER, { issuer: 'pointers', claims: pointers }),
    hs256(TEXTS, { issuer: 'texts', claims: { format: 'stringified_json', namespacePath: '/app/a~1b' } }),
    hs256(ADMIN_SECRET, { issuer: 'hasura' }),
  ]
  const hasura = await other({ hasuraNames: true, jwt }, { refusalReasons: true })
  return { ...server, asked, hasura, webhook, keys }
}

interface Webhook {
  answer: readonly [status: number, answer: unknown]
  readonly asked: IncomingMessage[]
}

interface KeySet {
  readonly url: string
  readonly asked: number
  broken: boolean
  /** Makes a key the only one. */
  set(key: Pair, kid: string): Promise<void>
  setAll(keys: readonly object[]): Promise<void>
}

async function keySet(t: Test): Promise<KeySet> {
  let keys: readonly object[] = []
  const set = { url: '', asked: 0, broken: false }
  set.url = await listen(t, ({ url }, res) => {
    if (set.broken || url === '/never') return res.writeHead(500).end()
    set.asked++
    return res.end(JSON.stringify({ keys }))
  })
  return Object.assign(set, {
    set: async ({ publicKey }: Pair, kid: string) => {
      keys = [{ ...(await exportJWK(publicKey)), kid, alg: 'ES256' }]
    },
    setAll: async (all: readonly object[]) => void (keys = all),
  })
}
