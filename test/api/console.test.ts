import { SignJWT } from 'jose'
import pg from 'pg'
import t from 'tap'
import { ADMIN_SECRET, type Answered, testServer } from '../kit/server.js'

const KEY = 'a key of a test with 32 characters or more'
const server = await testServer(t, {
  builtins: { console: new URL('../../plugins/console/index.js', import.meta.url) },
  notify: true,
  config: {
    http: { home: '/console', cors: { origins: ['http://127.0.0.1:3999'], credentials: true } },
    auth: { jwt: { algorithms: ['HS256'], key: KEY } },
  },
})
await server.must('run_sql', {
  sql: `create table note (id int primary key, owner text); insert into note values (1, '7')`,
})
await server.must('bulk', [
  { type: 'track_table', args: 'note' },
  {
    type: 'create_select_permission',
    args: { table: 'note', role: 'user', permission: { columns: ['id'], filter: { owner: 'X-Service-User-Id' } } },
  },
])

const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
const SECRET = { 'x-service-admin-secret': ADMIN_SECRET }
type Headers = Readonly<Record<string, string>>

const signIn = (headers: Headers, body: object = {}): Promise<Answered> =>
  server.bare('/console/session', {
    method: 'POST',
    headers: { ...SAME_ORIGIN, ...headers },
    body: JSON.stringify(body),
  })
const cookieOf = ({ headers }: Answered): string => headers.get('set-cookie')?.split(';')[0] ?? ''
const signedIn = async (headers: Headers = SECRET): Promise<string> => cookieOf(await signIn(headers))
const whoIs = async (cookie: string) => (await server.bare('/console/session', { headers: { cookie } })).body
const select = (cookie: string, headers: Headers = {}): Promise<Answered> =>
  server.bare('/v1/query', {
    method: 'POST',
    headers: { ...SAME_ORIGIN, cookie, ...headers },
    body: '{"type":"select","args":{"table":"note","columns":["id"]}}',
  })
const tokenOf = (expires: string, id = '7'): Promise<string> =>
  new SignJWT({ rowhouse: { 'x-service-allowed-roles': ['user', 'editor'], 'x-service-user-id': id } })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime(expires)
    .sign(new TextEncoder().encode(KEY))

t.test('the admin secret gives a cookie that scripts cannot read, and that acts as any role', async (t) => {
  const answer = await signIn(SECRET)
  t.equal(answer.status, 201)
  const port = new URL(server.url).port
  t.match(
    answer.headers.get('set-cookie'),
    new RegExp(`^rowhouse-${port}=[\\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$`),
  )
  t.notMatch(JSON.stringify(answer.body), cookieOf(answer).split('=')[1])
  const cookie = cookieOf(answer)
  t.same(await whoIs(cookie), {
    signed_in: true,
    role: 'admin',
    via: 'cookie',
    variables: { 'x-service-role': 'admin' },
  })
  t.same((await select(cookie)).body, [{ id: 1 }])
  t.same((await select(cookie, { 'x-service-role': 'user', 'x-service-user-id': '7' })).body, [{ id: 1 }])
  t.same((await select(cookie, { 'x-service-role': 'user', 'x-service-user-id': '8' })).body, [])
  t.same((await select(cookie, { 'x-service-role': 'nobody' })).status, 400)
})

t.test('the cookie of an admin reads the metrics', async (t) => {
  const cookie = await signedIn()

  t.match(await server.bare('/metrics', { headers: { cookie } }), { status: 200, text: /^rowhouse_build_info/m })
  t.equal((await server.bare('/metrics', { headers: { cookie, 'x-service-role': 'user' } })).status, 401)
  t.equal((await server.bare('/metrics')).status, 401)
})

t.test('a cookie over HTTPS is for HTTPS only', async (t) => {
  const answer = await signIn({ ...SECRET, origin: 'https://example.com' })
  t.match(answer.headers.get('set-cookie'), /^__Host-rowhouse-\d+=.*; Path=\/;.*; Secure$/)
  t.equal((await whoIs(cookieOf(answer))).role, 'admin')
})

t.test('wrong credentials and other sites get no cookie', async (t) => {
  for (const [headers, body, status] of [
    [{ 'x-service-admin-secret': 'wrong' }, {}, 401],
    [{}, {}, 401],
    [{}, { code: 'wrong' }, 401],
    [{ ...SECRET, 'sec-fetch-site': 'cross-site' }, {}, 403],
    [{ cookie: await signedIn() }, {}, 401],
  ] as const) {
    const answer = await signIn(headers, body)
    t.equal(answer.status, status, JSON.stringify([Object.keys(headers), body]))
    t.equal(answer.headers.get('set-cookie'), null)
  }
})

t.test('another site cannot use the cookie', async (t) => {
  const cookie = await signedIn()
  t.match(await select(cookie, { 'sec-fetch-site': 'cross-site' }), {
    status: 400,
    body: { code: 'permission-denied' },
  })
  t.equal((await select(cookie, { 'sec-fetch-site': 'cross-site', 'x-service-role': 'admin' })).status, 403)
  t.equal((await select(cookie, { 'content-type': 'text/plain' })).status, 415)
  const out = await server.bare('/console/session', {
    method: 'DELETE',
    headers: { cookie, 'sec-fetch-site': 'cross-site' },
  })
  t.equal(out.status, 403)
  t.equal((await whoIs(cookie)).signed_in, true)
})

t.test('a sign-out ends the session at the server, and all sessions if an admin says so', async (t) => {
  const [one, two] = [await signedIn(), await signedIn()]
  const user = await signedIn({ authorization: `Bearer ${await tokenOf('1h')}` })
  const end = (cookie: string, query = '') =>
    server.bare(`/console/session${query}`, { method: 'DELETE', headers: { ...SAME_ORIGIN, cookie } })
  const answer = await end(one)
  t.equal(answer.status, 204)
  t.match(answer.headers.get('set-cookie'), /=; Path=\/; Max-Age=0/)
  t.equal((await whoIs(one)).signed_in, false)
  t.match(await select(one, { 'x-service-role': 'admin' }), { status: 403, body: { code: 'access-denied' } })
  t.equal((await whoIs(two)).signed_in, true)
  t.equal((await end(user, '?all')).status, 400, 'a user cannot')
  t.equal((await end(two, '?all')).status, 204)
  t.equal((await whoIs(user)).signed_in, false)
})

t.test('a session ends with the admin secret that opened it', async (t) => {
  const OLD = 'an older secret of a test, 32 letters'
  const builtins = { console: new URL('../../plugins/console/index.js', import.meta.url) }
  const { databaseUrl } = server
  const before = await testServer(t, {
    builtins,
    databaseUrl,
    config: { auth: { previousAdminSecrets: [OLD] } },
  })
  const post = async (path: string, headers: Headers, body = {}) =>
    before.bare(path, { method: 'POST', headers: { ...SAME_ORIGIN, ...headers }, body: JSON.stringify(body) })
  const byOld = { 'x-service-admin-secret': OLD }
  const codeOf = async (headers: Headers) =>
    (await post('/console/sign-in-link', headers)).body.path.split('=')[1] as string
  const valueOf = async (answer: Promise<Answered>) => cookieOf(await answer).split('=')[1] ?? ''
  const opened = {
    old: await valueOf(post('/console/session', byOld)),
    oldByLink: await valueOf(post('/console/session', {}, { code: await codeOf(byOld) })),
    oldAsUser: await valueOf(post('/console/session', { ...byOld, 'x-service-role': 'user' })),
    current: await valueOf(post('/console/session', SECRET)),
    currentByLink: await valueOf(post('/console/session', {}, { code: await codeOf(SECRET) })),
  }
  const signedInAt = async ({ url, bare }: typeof server) => {
    const port = new URL(url).port
    const answers = Object.entries(opened).map(async ([name, value]) => {
      const { body } = await bare('/console/session', { headers: { cookie: `rowhouse-${port}=${value}` } })
      return [name, body.signed_in]
    })
    return Object.fromEntries(await Promise.all(answers))
  }
  t.same(await signedInAt(before), { old: true, oldByLink: true, oldAsUser: true, current: true, currentByLink: true })
  t.same(
    await signedInAt(server),
    { old: false, oldByLink: false, oldAsUser: false, current: true, currentByLink: true },
    'a server without the old secret',
  )
})

t.test('a user signs out everywhere, and nobody else does', async (t) => {
  const token = async (id: string, role = 'user') =>
    ({
      authorization: `Bearer ${await tokenOf('1h', id)}`,
      'x-service-role': role,
    }) satisfies Headers
  const [one, two, other, admin] = [
    await signedIn(await token('7')),
    await signedIn(await token('7', 'editor')),
    await signedIn(await token('8')),
    await signedIn(),
  ]
  const everywhere = (headers: Headers) => server.bare('/console/sessions', { method: 'DELETE', headers })
  const who = async () => Promise.all([one, two, other, admin].map(async (cookie) => (await whoIs(cookie)).signed_in))
  t.equal((await everywhere({ cookie: one, 'sec-fetch-site': 'cross-site' })).status, 401)
  t.equal((await everywhere({ cookie: one })).status, 403)
  t.equal((await everywhere({})).status, 401)
  t.same(await who(), [true, true, true, true])
  const answer = await everywhere({ ...SAME_ORIGIN, cookie: one })
  t.equal(answer.status, 204)
  t.match(answer.headers.get('set-cookie'), /=; Path=\/; Max-Age=0/)
  t.same(await who(), [false, false, true, true])
  t.equal((await everywhere(SECRET)).status, 204, 'without a cookie')
  t.same(await who(), [false, false, true, false])
})

t.test('a user has at most 100 sessions, and the oldest ends', async (t) => {
  const headers = { authorization: `Bearer ${await tokenOf('1h', '100')}` }
  const other = await signedIn({ authorization: `Bearer ${await tokenOf('1h', '101')}` })
  const cookies: string[] = []
  for (let i = 0; i < 101; i++) cookies.push(await signedIn(headers))
  const is = await Promise.all([0, 1, 100].map(async (i) => (await whoIs(cookies[i]!)).signed_in))
  t.same(is, [false, true, true])
  t.equal((await whoIs(other)).signed_in, true)
})

t.test('a session of a token with several roles may choose among them', async (t) => {
  const cookie = await signedIn({ authorization: `Bearer ${await tokenOf('1h')}` })
  t.match(await whoIs(cookie), { role: 'user', roles: ['user', 'editor'] })
  const asEditor = await server.bare('/console/session', { headers: { cookie, 'x-service-role': 'editor' } })
  t.match(asEditor.body, { role: 'editor', variables: { 'x-service-role': 'editor', 'x-service-user-id': '7' } })
  t.same((await select(cookie, { 'x-service-role': 'user' })).body, [{ id: 1 }])
  t.match(await select(cookie, { 'x-service-role': 'editor' }), { status: 400, body: { code: 'permission-denied' } })
  for (const role of ['admin', 'guest'])
    t.match(await select(cookie, { 'x-service-role': role }), { status: 403, body: { code: 'access-denied' } })
})

t.test('a token gives a session of its role, for as long as it is valid', async (t) => {
  const answer = await signIn({ authorization: `Bearer ${await tokenOf('10m')}` })
  const seconds = Number(/Max-Age=(\d+)/.exec(answer.headers.get('set-cookie') ?? '')?.[1])
  t.ok(seconds > 500 && seconds <= 600)
  const cookie = cookieOf(answer)
  t.match(await whoIs(cookie), { role: 'user', variables: { 'x-service-user-id': '7' } })
  t.same((await select(cookie)).body, [{ id: 1 }])
  t.same((await select(cookie, { 'x-service-user-id': '8' })).body, [{ id: 1 }], 'headers change nothing')
  t.equal((await select(cookie, { 'x-service-role': 'admin' })).status, 403)
})

t.test('a token in a header goes before the cookie', async (t) => {
  const cookie = await signedIn()
  t.equal((await select(cookie, { authorization: 'Bearer nonsense' })).status, 401)
  const own = await select(cookie, { authorization: `Bearer ${await tokenOf('1h')}`, 'x-service-role': 'user' })
  t.same(own.body, [{ id: 1 }])
  const admin = await select(cookie, { authorization: `Bearer ${await tokenOf('1h')}`, 'x-service-role': 'admin' })
  t.equal(admin.status, 403)
})

t.test('pages of other origins are not signed in, even if CORS lists them', async (t) => {
  const cookie = await signedIn()
  for (const headers of [
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': '', origin: 'http://127.0.0.1:3999' },
  ]) {
    const listed = { origin: 'http://127.0.0.1:3999', 'x-service-csrf': '1', 'x-service-role': 'admin', ...headers }
    t.equal((await select(cookie, listed)).status, 403)
    t.equal((await server.bare('/console/session', { headers: { cookie, ...listed } })).body.signed_in, undefined)
  }
})

t.test('a session does not outlive its token by a sign-in link', async (t) => {
  const admin = await new SignJWT({ rowhouse: { 'x-service-allowed-roles': ['admin'] } })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1m')
    .sign(new TextEncoder().encode(KEY))
  const link = (headers: Headers) =>
    server.bare('/console/sign-in-link', { method: 'POST', headers: { ...SAME_ORIGIN, ...headers } })
  t.equal((await link({ authorization: `Bearer ${admin}` })).status, 400)
  t.equal((await link({ cookie: await signedIn({ authorization: `Bearer ${admin}` }) })).status, 400)
  t.equal((await link({ cookie: await signedIn() })).status, 400)
})

t.test('a sign-in link works once, and its code is no cookie', async (t) => {
  const make = async (headers: Headers) =>
    server.bare('/console/sign-in-link', { method: 'POST', headers: { ...SAME_ORIGIN, ...headers } })
  t.equal((await make({})).status, 400, 'only an admin makes one')
  t.equal((await make({ ...SECRET, 'x-service-role': 'user' })).status, 400)
  const { body } = await make(SECRET)
  t.match(body, { path: /^\/console#code=[\w-]{43}$/, expires_in_seconds: 3600 })
  const code = body.path.split('=')[1]
  t.equal((await whoIs(`rowhouse-${new URL(server.url).port}=${code}`)).signed_in, false)
  const answer = await signIn({}, { code })
  t.equal(answer.status, 201)
  t.equal((await whoIs(cookieOf(answer))).role, 'admin')
  t.equal((await signIn({}, { code })).status, 401, 'a second time')
})

t.test('the database has no secret of a session, and an expired one is worth nothing', async (t) => {
  const cookie = await signedIn()
  const client = new pg.Client(server.databaseUrl)
  await client.connect()
  const { rows } = await client.query('select t::text as row from svc_catalog.svc_console_session t')
  t.ok(rows.length > 0)
  t.notOk(rows.some(({ row }) => row.includes(cookie.split('=')[1])))
  await client.query(`update svc_catalog.svc_console_session set expires_at = now() - interval '1 second'`)
  t.equal((await whoIs(cookie)).signed_in, false)
  await signedIn()
  const left = await client.query('select 1 from svc_catalog.svc_console_session')
  t.equal(left.rowCount, 1, 'expired ones are deleted')
  await client.end()
})

t.test('the root leads browsers to the console, and lists the routes for others', async (t) => {
  const html = await server.bare('/', { headers: { accept: 'text/html,*/*;q=0.8' }, redirect: 'manual' })
  t.equal(html.status, 302)
  t.equal(html.headers.get('location'), '/console')
  const json = await server.bare('/', { headers: { accept: 'application/json' } })
  t.equal(json.body.database, 'up')
  t.ok(json.body.links.some(({ href }: { href: string }) => href === '/console'))
})

t.test('GET /v1/send leads browsers to the messages in the console', async (t) => {
  const html = await server.bare('/v1/send', { headers: { accept: 'text/html,*/*;q=0.8' }, redirect: 'manual' })
  t.equal(html.status, 302)
  t.equal(html.headers.get('location'), '/console/messages')
  t.match(html.headers.get('vary'), 'Accept')
  t.match(await server.bare('/v1/send', { headers: { accept: '*/*' } }), { status: 401 })
  t.match(await server.fetch('/v1/send'), { status: 200, body: { messages: [] } })
  const { links } = (await server.bare('/', { headers: { accept: 'application/json' } })).body
  t.match(
    links.find(({ title }: { title: string }) => title === 'Messages'),
    { href: '/console/messages' },
  )
})

t.test('the frame for HTML of others allows no script and no network', async (t) => {
  const policy = (await server.bare('/console/frame')).headers.get('content-security-policy') ?? ''
  t.match(policy, /^default-src 'none'; style-src 'unsafe-inline'; img-src data:;/)
  t.notMatch(policy, /script-src|frame-src|connect-src/)
})

t.test('the pages of other plugins allow no script but their own, either', async (t) => {
  for (const path of ['/v1/graphql', '/v1/openapi']) {
    const page = await server.bare(path, { headers: { accept: 'text/html' } })
    const policy = page.headers.get('content-security-policy') ?? ''
    const nonce = /script-src 'nonce-([^']+)' 'strict-dynamic';/.exec(policy)?.[1]
    t.ok(nonce, path)
    for (const [, attributes] of page.text.matchAll(/<script([^>]*)>/g)) t.match(attributes, `nonce="${nonce}" `)
  }
})

t.test('the page allows no inline script and no other origin', async (t) => {
  const page = await server.bare('/console/data/note')
  t.equal(page.status, 200)
  const policy = page.headers.get('content-security-policy') ?? ''
  t.match(policy, /script-src 'nonce-[^']+' 'strict-dynamic';/)
  t.notMatch(policy, /unsafe/)
  t.notMatch(page.text, /<script(?![^>]* src=)|\son\w+=/)
  t.equal((policy.match(/nonce-([^']+)/) ?? [])[1], /<script[^>]* nonce="([^"]+)"/.exec(page.text)?.[1])
  const script = /src="([^"]+)"/.exec(page.text)?.[1] ?? ''
  const asset = await server.bare(script, { headers: { 'accept-encoding': 'identity' } })
  t.match(asset.headers.get('content-type'), /javascript/)
  t.equal((await server.bare('/console/assets/nothing.js')).status, 404)
  t.equal((await server.bare('/console/assets/constructor')).status, 404)
})
