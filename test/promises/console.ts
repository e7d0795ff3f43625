import { SignJWT } from 'jose'
import type { Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { area, type Case } from '../kit/promises.js'
import {
  ADMIN_SECRET,
  type Answered,
  GATEWAY_SECRET,
  type TestOptions,
  testServer,
  type TestServer,
} from '../kit/server.js'
import { CONSOLE } from '../kit/who-is.js'

/** What the console promises to browsers, but for its pages: signing in and out, and what a session may do. */
const PROMISES = {
  'session.secret': 'the admin secret gives a cookie that scripts cannot read, and that acts as any role',
  'session.who': 'a browser sees whether it is signed in, as whom, and by what',
  'session.metrics': 'the cookie of an admin reads the metrics',
  'session.https': 'a cookie over HTTPS is for HTTPS only',
  'session.refused': 'wrong credentials and other sites get no cookie',
  'session.other-site': 'another site cannot use the cookie',
  'session.ends': 'a sign-out ends the session at the server, and all sessions if an admin says so',
  'session.secret-gone': 'a session ends with the admin secret that opened it',
  'session.everywhere': 'a user signs out of all of their own sessions, and of no others',
  'session.hundred': 'a user has at most 100 sessions, and the oldest ends',
  'session.roles': 'a session of a token with several roles may choose among them',
  'session.token': 'a token gives a session of its role, for as long as it is valid',
  'session.hours': 'a session ends after sessionHours, and after an hour if its credentials have no known expiry',
  'session.token-first': 'a token in a header goes before the cookie',
  'session.other-origins': 'pages of other origins are not signed in, even if CORS lists them',
  'link.not-by-token': 'a session does not outlive its token by a sign-in link',
  'link.once': 'a sign-in link works once, and its code is no cookie',
  'session.stored': 'the database has no secret of a session, and an expired one is worth nothing',
  'page.root': 'the root leads browsers to the console, and lists the routes for others',
  'page.messages': 'GET /v1/send leads browsers to the messages in the console',
  'page.frame': 'the frame for HTML of others allows no script and no network',
  'page.plugins': 'the pages of other plugins allow no script but their own, either',
  'page.policy': 'the page allows no inline script and no other origin',
  'files.tracked': 'files are listed once their table is tracked',
} as const

const PAGES = {
  'plugins/console/README.md': {
    'Signing in': {
      '`GET /console/session`': 'session.who',
      '`POST /console/session`': ['session.secret', 'session.token', 'session.refused'],
      '`DELETE /console/session`': 'session.ends',
      '`DELETE /console/sessions`': 'session.everywhere',
      '`POST /console/sign-in-link`': ['link.once', 'link.not-by-token'],
    },
    Files: {
      'It lists the rows of `svc_catalog.svc_file`, so this table must be tracked; the panel offers that.':
        'files.tracked',
    },
  },
} as const

const KEY = 'a key of a test with 32 characters or more'
const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
const SECRET = { 'x-service-admin-secret': ADMIN_SECRET }
type Headers = Readonly<Record<string, string>>

interface Consoled extends TestServer {
  /** `POST /console/session` of its page. */
  signIn(headers: Headers, body?: object): Promise<Answered>
  /** The cookie of a browser that signed in, with the admin secret unless told otherwise. */
  signedIn(headers?: Headers): Promise<string>
  /** `GET /console/session`. */
  // oxlint-disable-next-line typescript/no-explicit-any
  whoIs(cookie: string): Promise<any>
  /** Rows, as its page reads them. */
  select(cookie: string, headers?: Headers): Promise<Answered>
}

const cookieOf = ({ headers }: Answered): string => headers.get('set-cookie')?.split(';')[0] ?? ''
const secondsOf = ({ headers }: Answered): number => Number(/Max-Age=(\d+)/.exec(headers.get('set-cookie') ?? '')?.[1])
const tokenOf = (expires: string, id = '7'): Promise<string> =>
  new SignJWT({ rowhouse: { 'x-service-allowed-roles': ['user', 'editor'], 'x-service-user-id': id } })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime(expires)
    .sign(new TextEncoder().encode(KEY))

const CASES: Record<keyof typeof PROMISES, Case<Consoled>> = {
  'session.secret': async (t, server) => {
    const { select, signIn, whoIs } = server
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
  },
  'session.who': async (t, { bare, signedIn, whoIs }) => {
    const cookie = await signedIn({ authorization: `Bearer ${await tokenOf('1h')}` })
    t.same(await whoIs(cookie), {
      signed_in: true,
      role: 'user',
      roles: ['user', 'editor'],
      via: 'cookie',
      variables: { 'x-service-role': 'user', 'x-service-user-id': '7' },
    })
    t.match((await bare('/console/session')).body, { signed_in: false, role: 'anonymous', via: 'anonymous' })
  },
  'session.metrics': async (t, server) => {
    const { signedIn } = server
    const cookie = await signedIn()

    t.match(await server.bare('/metrics', { headers: { cookie } }), { status: 200, text: /^rowhouse_build_info/m })
    t.equal((await server.bare('/metrics', { headers: { cookie, 'x-service-role': 'user' } })).status, 401)
    t.equal((await server.bare('/metrics')).status, 401)
  },
  'session.https': async (t, { signIn, whoIs }) => {
    const answer = await signIn({ ...SECRET, origin: 'https://example.com' })
    t.match(answer.headers.get('set-cookie'), /^__Host-rowhouse-\d+=.*; Path=\/;.*; Secure$/)
    t.equal((await whoIs(cookieOf(answer))).role, 'admin')
  },
  'session.refused': async (t, { signedIn, signIn }) => {
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
  },
  'session.other-site': async (t, server) => {
    const { select, signedIn, whoIs } = server
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
  },
  'session.ends': async (t, server) => {
    const { select, signedIn, whoIs } = server
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
  },
  'session.secret-gone': async (t, server) => {
    const OLD = 'an older secret of a test, 32 letters'
    const { databaseUrl } = server
    const before = await testServer(t, {
      builtins: CONSOLE,
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
    const signedInAt = async ({ url, bare }: TestServer) => {
      const port = new URL(url).port
      const answers = Object.entries(opened).map(async ([name, value]) => {
        const { body } = await bare('/console/session', { headers: { cookie: `rowhouse-${port}=${value}` } })
        return [name, body.signed_in]
      })
      return Object.fromEntries(await Promise.all(answers))
    }
    t.same(await signedInAt(before), {
      old: true,
      oldByLink: true,
      oldAsUser: true,
      current: true,
      currentByLink: true,
    })
    t.same(
      await signedInAt(server),
      { old: false, oldByLink: false, oldAsUser: false, current: true, currentByLink: true },
      'a server without the old secret',
    )
  },
  'session.everywhere': async (t, server) => {
    const { signedIn, whoIs } = server
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
  },
  'session.hundred': async (t, { signedIn, whoIs }) => {
    const headers = { authorization: `Bearer ${await tokenOf('1h', '100')}` }
    const other = await signedIn({ authorization: `Bearer ${await tokenOf('1h', '101')}` })
    const cookies: string[] = []
    // In whatever role: a token with many roles must not have as many more.
    for (let i = 0; i < 101; i++) {
      cookies.push(await signedIn({ ...headers, 'x-service-role': i % 2 === 0 ? 'user' : 'editor' }))
    }
    const is = await Promise.all([0, 1, 100].map(async (i) => (await whoIs(cookies[i]!)).signed_in))
    t.same(is, [false, true, true])
    t.equal((await whoIs(other)).signed_in, true)
  },
  'session.roles': async (t, server) => {
    const { select, signedIn, whoIs } = server
    const cookie = await signedIn({ authorization: `Bearer ${await tokenOf('1h')}` })
    t.match(await whoIs(cookie), { role: 'user', roles: ['user', 'editor'] })
    const asEditor = await server.bare('/console/session', { headers: { cookie, 'x-service-role': 'editor' } })
    t.match(asEditor.body, { role: 'editor', variables: { 'x-service-role': 'editor', 'x-service-user-id': '7' } })
    t.same((await select(cookie, { 'x-service-role': 'user' })).body, [{ id: 1 }])
    t.match(await select(cookie, { 'x-service-role': 'editor' }), { status: 400, body: { code: 'permission-denied' } })
    for (const role of ['admin', 'guest'])
      t.match(await select(cookie, { 'x-service-role': role }), { status: 403, body: { code: 'access-denied' } })
  },
  'session.token': async (t, { select, signIn, whoIs }) => {
    const answer = await signIn({ authorization: `Bearer ${await tokenOf('10m')}` })
    const seconds = Number(/Max-Age=(\d+)/.exec(answer.headers.get('set-cookie') ?? '')?.[1])
    t.ok(seconds > 500 && seconds <= 600)
    const cookie = cookieOf(answer)
    t.match(await whoIs(cookie), { role: 'user', variables: { 'x-service-user-id': '7' } })
    t.same((await select(cookie)).body, [{ id: 1 }])
    t.same((await select(cookie, { 'x-service-user-id': '8' })).body, [{ id: 1 }], 'headers change nothing')
    t.equal((await select(cookie, { 'x-service-role': 'admin' })).status, 403)
  },
  'session.hours': async (t, { signIn, databaseUrl }) => {
    const other = await consoled(t, { databaseUrl, config: { plugins: { console: { sessionHours: 2 } } } })
    t.equal(secondsOf(await other.signIn(SECRET)), 7200)
    const gateway = { 'x-service-gateway-secret': GATEWAY_SECRET, 'x-service-role': 'user', 'x-service-user-id': '9' }
    const seconds = secondsOf(await signIn(gateway))
    t.ok(seconds > 3500 && seconds <= 3600, `${seconds}`)
  },
  'session.token-first': async (t, { select, signedIn }) => {
    const cookie = await signedIn()
    t.equal((await select(cookie, { authorization: 'Bearer nonsense' })).status, 401)
    const own = await select(cookie, { authorization: `Bearer ${await tokenOf('1h')}`, 'x-service-role': 'user' })
    t.same(own.body, [{ id: 1 }])
    const admin = await select(cookie, { authorization: `Bearer ${await tokenOf('1h')}`, 'x-service-role': 'admin' })
    t.equal(admin.status, 403)
  },
  'session.other-origins': async (t, server) => {
    const { select, signedIn } = server
    const cookie = await signedIn()
    for (const headers of [
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': '', origin: 'http://127.0.0.1:3999' },
    ]) {
      const listed = { origin: 'http://127.0.0.1:3999', 'x-service-csrf': '1', 'x-service-role': 'admin', ...headers }
      t.equal((await select(cookie, listed)).status, 403)
      t.equal((await server.bare('/console/session', { headers: { cookie, ...listed } })).body.signed_in, undefined)
    }
  },
  'link.not-by-token': async (t, server) => {
    const { signedIn } = server
    const admin = await new SignJWT({ rowhouse: { 'x-service-allowed-roles': ['admin'] } })
      .setProtectedHeader({ alg: 'HS256' })
      .setExpirationTime('1m')
      .sign(new TextEncoder().encode(KEY))
    const link = (headers: Headers) =>
      server.bare('/console/sign-in-link', { method: 'POST', headers: { ...SAME_ORIGIN, ...headers } })
    t.equal((await link({ authorization: `Bearer ${admin}` })).status, 400)
    t.equal((await link({ cookie: await signedIn({ authorization: `Bearer ${admin}` }) })).status, 400)
    t.equal((await link({ cookie: await signedIn() })).status, 400)
  },
  'link.once': async (t, server) => {
    const { signIn, whoIs } = server
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
    const late = (await make(SECRET)).body.path.split('=')[1]
    await rowsOf(server.databaseUrl, `update svc_catalog.svc_console_session set expires_at = now()`)
    t.equal((await signIn({}, { code: late })).status, 401, 'after its hour')
  },
  'session.stored': async (t, server) => {
    const { signedIn, whoIs } = server
    const cookie = await signedIn()
    const table = 'svc_catalog.svc_console_session'
    const rows = await rowsOf<{ row: string }>(server.databaseUrl, `select t::text as row from ${table} t`)
    t.ok(rows.length > 0)
    t.notOk(rows.some(({ row }) => row.includes(cookie.split('=')[1]!)))
    await rowsOf(server.databaseUrl, `update ${table} set expires_at = now() - interval '1 second'`)
    t.equal((await whoIs(cookie)).signed_in, false)
    await signedIn()
    t.equal((await rowsOf(server.databaseUrl, `select 1 from ${table}`)).length, 1, 'expired ones are deleted')
  },
  'page.root': async (t, server) => {
    const html = await server.bare('/', { headers: { accept: 'text/html,*/*;q=0.8' }, redirect: 'manual' })
    t.equal(html.status, 302)
    t.equal(html.headers.get('location'), '/console')
    const json = await server.bare('/', { headers: { accept: 'application/json' } })
    t.equal(json.body.database, 'up')
    t.ok(json.body.links.some(({ href }: { href: string }) => href === '/console'))
  },
  'page.messages': async (t, server) => {
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
  },
  'page.frame': async (t, server) => {
    const policy = (await server.bare('/console/frame')).headers.get('content-security-policy') ?? ''
    t.match(policy, /^default-src 'none'; style-src 'unsafe-inline'; img-src data:;/)
    t.notMatch(policy, /script-src|frame-src|connect-src/)
  },
  'page.plugins': async (t, server) => {
    for (const path of ['/v1/graphql', '/v1/openapi']) {
      const page = await server.bare(path, { headers: { accept: 'text/html' } })
      const policy = page.headers.get('content-security-policy') ?? ''
      const nonce = /script-src 'nonce-([^']+)' 'strict-dynamic';/.exec(policy)?.[1]
      t.ok(nonce, path)
      for (const [, attributes] of page.text.matchAll(/<script([^>]*)>/g)) t.match(attributes, `nonce="${nonce}" `)
    }
  },
  'page.policy': async (t, server) => {
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
  },
  'files.tracked': async (t, server) => {
    const table = { schema: 'svc_catalog', name: 'svc_file' }
    const headers = { 'content-type': 'text/plain', 'x-service-user-id': '7' }
    t.equal((await server.fetch('/v1/file/a', { method: 'PUT', body: 'x', headers })).status, 200)
    t.match(await server.query('select', { table, columns: ['file_id'] }), {
      status: 400,
      body: { code: 'not-exists' },
    })
    await server.must('track_table', table)
    t.same((await server.query('select', { table, columns: ['file_id'] })).body, [{ file_id: 'a' }])
  },
}

/** Its promises, with a case for each. */
export const consoleApi = area('console', { promises: PROMISES, pages: PAGES, cases: CASES, start })

/** A server with the console. */
async function consoled(t: Test, { config, ...options }: TestOptions): Promise<Consoled> {
  const server = await testServer(t, {
    builtins: CONSOLE,
    config: {
      ...config,
      auth: { jwt: { algorithms: ['HS256'], key: KEY }, ...(config?.['auth'] as object | undefined) },
    },
    ...options,
  })
  const signIn = (headers: Headers, body: object = {}) =>
    server.bare('/console/session', {
      method: 'POST',
      headers: { ...SAME_ORIGIN, ...headers },
      body: JSON.stringify(body),
    })
  return {
    ...server,
    signIn,
    signedIn: async (headers = SECRET) => cookieOf(await signIn(headers)),
    whoIs: async (cookie) => (await server.bare('/console/session', { headers: { cookie } })).body,
    select: (cookie, headers = {}) =>
      server.bare('/v1/query', {
        method: 'POST',
        headers: { ...SAME_ORIGIN, cookie, ...headers },
        body: '{"type":"select","args":{"table":"note","columns":["id"]}}',
      }),
  }
}

async function start(t: Test): Promise<Consoled> {
  const cors = { origins: ['http://127.0.0.1:3999'], credentials: true }
  const server = await consoled(t, {
    notify: true,
    files: true,
    config: { dataDir: t.testdir({}), http: { home: '/console', cors } },
  })
  await server.sql(`create table note (id int primary key, owner text); insert into note values (1, '7')`)
  const permission = { columns: ['id'], filter: { owner: 'X-Service-User-Id' } }
  await server.must('bulk', [
    { type: 'track_table', args: 'note' },
    { type: 'create_select_permission', args: { table: 'note', role: 'user', permission } },
  ])
  return server
}
