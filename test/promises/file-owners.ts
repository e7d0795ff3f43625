import { SignJWT } from 'jose'
import type { Test } from 'tap'
import { databaseForServer } from '../kit/database.js'
import { fileHook } from '../kit/file-hook.js'
import { bad, get, hidden, OK, pathOf, post, put, remove, wrong } from '../kit/file-steps.js'
import { admin, type Files, filestore, user } from '../kit/files.js'
import { area, type Case, type Expected, is, like, query, type Step, takeAll } from '../kit/promises.js'
import { type As, testServer, type TestServer } from '../kit/server.js'

/** Whose files are whose, and how much they may take. */
const PROMISES = {
  'quota.files': 'limits.<role>.userBytes limits all files of a user together',
  'quota.replaced': 'what an upload replaces does not count',
  'quota.own': 'each user has a quota of its own, and the admin has none by default',
  'quota.deleted': 'a deleted file gives its bytes back',
  'quota.unannounced': 'an upload without a Content-Length may use what is left',
  'quota.forms': 'the files of a form count',
  'quota.resumable': 'a resumable upload counts with its full length from the beginning, until it is given up',
  'quota.in-progress': 'an upload in progress counts',
  'usage.own': 'file_usage returns what the caller uses, its quota and the maximum size of a file',
  'usage.role': 'file_usage needs the permission to store files',
  'usage.owners': 'an admin also gets the users with the most bytes',
  'text.any': 'with userId: text, any user id owns files',
  'text.admin': 'with userId: text, an admin needs no user id, and its files count for no quota',
  'text.others': 'with userId: text, other callers need a user id of 1 to 255 characters without control characters',
  'text.uploads': 'with userId: text, a resumable upload belongs to the user id that began it',
  'text.signed': 'with userId: text, signed URLs work alike',
  'text.rules': 'with userId: text, rules compare the owner with the user id',
  'text.hook': 'a hook gets a user id percent-encoded where a header cannot hold it',
  'text.converts': 'userId: text converts the owners of files and uploads that are stored',
  'text.no-way-back': 'after that, a server with userId: integer refuses to start',
} as const

const KEY = 'a shared secret of a test, 32 characters.'
const UUID = '8d6f2b1e-4c0a-4f57-9b1e-0a1b2c3d4e5f'
const NAMED = 'auth0|O\'Neil "漢" 100%'
const other: As = { role: 'user', variables: { 'x-service-user-id': '43' } }
const rich: As = { role: 'rich', variables: user.variables! }
const none: As = { role: 'none', variables: user.variables! }
const x = (length: number): string => 'x'.repeat(length)
const full = (used: number, role = 'user'): Expected =>
  wrong(
    413,
    'quota_exceeded',
    `your files use ${used} of 100 bytes, which leaves too little room for this one (plugins.filestore.limits.${role}.userBytes)`,
  )
const FULL: Expected = { status: 413, like: { code: 'quota_exceeded' } }
const usage = (expected: Expected, as: As): Step => query('file_usage', {}, expected, as)

const tus = (
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  expected: Expected,
  as: As = user,
  body?: string,
): Step => ({
  path,
  method,
  headers: {
    'Tus-Resumable': '1.0.0',
    ...(body === undefined ? {} : { 'Content-Type': 'application/offset+octet-stream' }),
    ...headers,
  },
  ...(body === undefined ? {} : { body }),
  as,
  expected,
})
const begin = (length: number, expected: Expected): Step =>
  tus('POST', '/v1/upload', { 'Upload-Length': String(length) }, expected)

interface Owners extends Files {
  /** With the setting `userId: text`. */
  readonly text: TextServer
}
interface TextServer extends TestServer {
  /** As a user with a token. */
  as(id: string, step: Step): Step
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Owners>>> = {
  'quota.files': [
    put('a', x(60), OK, user),
    put('b', x(41), full(60), user),
    put('b', x(40), OK, user),
    put('c', x(1), full(100), user),
    put('empty', '', OK, user),
    get('c', hidden('c')),
  ],
  'quota.replaced': [put('b', x(41), full(60), user), put('b', x(30), OK, user), put('b', x(40), OK, user)],
  'quota.own': [
    put('of another', x(100), OK, other),
    put('of the admin', x(400), OK),
    put('of the admin too', x(500), OK),
    put('d', x(101), full(100, 'rich'), rich),
  ],
  'quota.deleted': [
    remove('b', OK, user),
    put('c', x(41), full(60), user),
    put('c', x(40), OK, user),
    remove('c', OK, user),
  ],
  'quota.unannounced': async (t, server) => {
    t.match(await chunked(server, 'c', x(41)), full(60))
    t.match(await chunked(server, 'c', x(30)), { status: 200, body: { file_size: 30 } })
    await takeAll(t, server, [usage(like({ used_bytes: 90 }), user), put('e', x(11), full(90), user)])
  },
  'quota.forms': async (t, server) => {
    const form = new FormData()
    for (const id of ['f', 'g']) {
      form.append('file_id', id)
      form.append('file', new Blob([x(6)], { type: 'a/b' }), id)
    }
    const ask = () => server.fetch('/v1/file', { method: 'POST', body: form }, user)
    t.match(await ask(), full(96))
    await takeAll(t, server, [get('f', hidden('f')), usage(like({ used_bytes: 90 }), user), remove('c', OK, user)])
    t.equal((await ask()).status, 200)
    await takeAll(t, server, [usage(like({ used_bytes: 72 }), user), ...['f', 'g'].map((id) => remove(id, OK, user))])
  },
  'quota.resumable': async (t, server) => {
    await takeAll(t, server, [begin(41, FULL)])
    const begun = async () => (await server.fetch('/v1/upload', step(begin(40, OK)), user)).headers.get('location')!
    const ended = await begun()
    await takeAll(t, server, [
      usage(like({ used_bytes: 100 }), user),
      begin(1, FULL),
      put('h', x(1), full(100), user),
      tus('PATCH', ended, { 'Upload-Offset': '0' }, { status: 204 }, user, x(40)),
      usage(like({ used_bytes: 100 }), user),
      begin(1, FULL),
      remove(ended.split('/').at(-1)!, OK, user),
    ])
    const givenUp = await begun()
    await takeAll(t, server, [
      put('h', x(1), full(100), user),
      tus('DELETE', givenUp, {}, { status: 204 }),
      put('h', x(40), OK, user),
      remove('h', OK, user),
    ])
  },
  'quota.in-progress': async (t, server) => {
    const headers = { 'x-service-role': 'user', 'x-service-user-id': '42', 'content-length': 40 }
    const { request, answer } = await server.half(pathOf('h'), x(1), headers)
    await takeAll(t, server, [put('i', x(1), full(100), user)])
    request.end(x(39))
    t.match(await answer, { status: 200 })
    await takeAll(t, server, [usage(like({ used_bytes: 100 }), user)])
  },
  'usage.own': [
    usage(is({ user_id: '42', role: 'user', used_bytes: 100, max_user_bytes: 100, max_bytes: 500 }), user),
    usage(is({ user_id: '42', role: 'rich', used_bytes: 100, max_user_bytes: 100, max_bytes: 200 }), rich),
    usage(is({ user_id: '44', role: 'free', used_bytes: 0, max_user_bytes: null, max_bytes: 500 }), {
      role: 'free',
      variables: { 'x-service-user-id': '44' },
    }),
  ],
  'usage.role': [
    usage({ status: 403, like: { code: 'access-denied', error: 'no permission for role none' } }, none),
    usage({ status: 400, like: { error: 'missing header: X-Service-User-Id' } }, {}),
  ],
  'usage.owners': [
    usage(
      is({
        user_id: '7',
        role: 'admin',
        used_bytes: 900,
        max_user_bytes: null,
        max_bytes: 500,
        owners: [
          { user_id: 7, roles: ['admin'], files: 2, bytes: 900, max_user_bytes: null },
          { user_id: 42, roles: ['user'], files: 3, bytes: 100, max_user_bytes: 100 },
          { user_id: 43, roles: ['user'], files: 1, bytes: 100, max_user_bytes: 100 },
        ],
      }),
      admin,
    ),
  ],
  'text.any': async (t, { text }) => {
    for (const [i, who] of [UUID, NAMED, '7', 'a b', 'a', 'x'.repeat(255)].entries()) {
      await takeAll(t, text, [
        text.as(who, put(`f${i}`, x(6), like({ user_id: who, user_role: 'user' }))),
        text.as(who, put(`g${i}`, x(5), FULL)),
        text.as(who, put(`f${i}`, x(10), OK)),
        text.as(who, get(`f${i}`, { status: 200, text: x(10) })),
      ])
    }
    await takeAll(t, text, [text.as(NAMED, query('file_usage', {}, like({ user_id: NAMED, used_bytes: 10 })))])
  },
  'text.admin': (t, { text }) =>
    takeAll(t, text, [
      put('of none', x(8), like({ user_id: null, user_role: 'admin' }), {}),
      put('of none too', x(8), OK, {}),
      get('of none', { status: 200, text: x(8) }, {}, {}),
      query('file_usage', {}, like({ user_id: null, used_bytes: null }), {}),
      tus('POST', '/v1/upload', { 'Upload-Length': '3' }, { status: 201 }, {}),
    ]),
  'text.others': (t, { text }) => {
    const rule = bad('X-Service-User-Id should be 1 to 255 characters without control characters')
    return takeAll(t, text, [
      put('o', x(1), bad('missing header: X-Service-User-Id'), { role: 'user' }),
      put('o', x(1), rule, { variables: { 'x-service-user-id': 'x'.repeat(256) } }),
      put('o', x(1), rule, { variables: { 'x-service-user-id': '' } }),
    ])
  },
  'text.uploads': async (t, { text }) => {
    const begin = (who: string, expected: Expected): Step =>
      text.as(who, tus('POST', '/v1/upload', { 'Upload-Length': '3' }, expected, {}))
    const first = begin('b', OK)
    const begun = await text.bare(first.path, step(first))
    const path = begun.headers.get('location')!
    const bytes = (expected: Expected) => tus('PATCH', path, { 'Upload-Offset': '0' }, expected, {}, 'abc')
    t.equal(begun.status, 201)
    await takeAll(t, text, [
      begin('b', { status: 429, like: { code: 'too_many_uploads' } }),
      begin('b c', { status: 201 }),
      text.as('b c', bytes({ status: 404 })),
      text.as('b', bytes({ status: 204 })),
      query(
        'run_sql',
        { sql: `select user_id from svc_catalog.svc_file where file_id = '${path.split('/').at(-1)}'` },
        {
          status: 200,
          like: { result: [['user_id'], ['b']] },
        },
      ),
    ])
  },
  'text.signed': async (t, { text }) => {
    const sign = text.as(UUID, { ...get('f0', OK), path: '/v1/file-url', method: 'POST', body: '{"file_id":"f0"}' })
    const { body } = await text.bare(sign.path, step(sign))
    t.match(await text.bare(body.url), { status: 200, text: x(10) })
  },
  'text.rules': async (t, { text }) => {
    const table = { schema: 'svc_catalog', name: 'svc_file' }
    const mine = { user_id: 'X-Service-User-Id' }
    await text.must('track_table', table)
    await text.must('create_select_permission', { table, role: 'user', permission: { columns: '*', filter: mine } })
    await takeAll(t, text, [
      text.as(NAMED, get('f1', { status: 200, text: x(10) })),
      text.as(UUID, get('f1', hidden('f1'))),
      query('untrack_table', { table, cascade: true }, OK),
    ])
  },
  'text.hook': async (t, { text }) => {
    const hook = await fileHook(t)
    const hooked = await textServer(t, { hook: { url: hook.url } }, text.databaseUrl)
    await takeAll(
      t,
      hooked,
      [UUID, NAMED, ' a'].map((who) => text.as(who, post(`of ${who}`, '', OK))),
    )
    t.same(
      hook.asked.map(({ headers }) => headers['x-service-user-id']),
      [UUID, 'auth0|O\'Neil%20"%E6%BC%A2"%20100%25', '%20a'],
    )
  },
  'text.converts': async (t) => {
    const database = await databaseForServer(t)
    const before = await textServer(t, { userId: 'integer' }, database.url)
    await takeAll(t, before, [
      before.as('42', put('f', 'x', like({ user_id: 42 }))),
      before.as(UUID, put('g', 'x', bad('X-Service-User-Id should be an integer'))),
      before.as('42', tus('POST', '/v1/upload', { 'Upload-Length': '3' }, { status: 201 }, {})),
    ])
    await before.close()

    const after = await textServer(t, {}, database.url)
    const sql =
      "select (select user_id from svc_catalog.svc_file where file_id = 'f'), user_id from svc_catalog.svc_upload"
    t.same((await after.sql(sql)).result[1], ['42', '42'])
    await takeAll(t, after, [
      // One byte and an upload of three are there.
      after.as('42', put('h', x(7), FULL)),
      after.as('42', put('h', x(6), like({ user_id: '42' }))),
    ])
  },
  'text.no-way-back': async (t, { text }) => {
    await t.rejects(
      textServer(t, { userId: 'integer' }, text.databaseUrl),
      /plugins\.filestore\.userId is "integer", but this database stores the owners of files as texts/,
    )
  },
}

/** What `fetch` takes of a step. */
function step({ method, headers, body }: Step): RequestInit {
  return { method, ...(headers ? { headers } : {}), ...(body === undefined ? {} : { body }) }
}

/** Stores a file of the user without a Content-Length. */
function chunked(server: Files, id: string, text: string): ReturnType<Files['fetch']> {
  const body = new Blob([text]).stream()
  const init: RequestInit = { method: 'PUT', headers: { 'Content-Type': 'a/b' }, body, duplex: 'half' }
  return server.fetch(pathOf(id), init, user)
}

async function textServer(t: Test, settings: object, databaseUrl?: string): Promise<TextServer> {
  const claims = { allowedRoles: '/roles', variables: { 'x-service-user-id': '/sub' } }
  const limits = { user: { userBytes: 10 }, admin: { userBytes: 10 } }
  const permissions = { user: ['create', 'read', 'delete'] }
  const server = await testServer(t, {
    files: true,
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
    config: {
      providers: { storage: { default: 'memory', memory: {} } },
      auth: { jwt: { algorithms: ['HS256'], key: KEY, claims } },
      plugins: { filestore: { userId: 'text', permissions, limits, resumable: { maxPerUser: 1 }, ...settings } },
    },
  })
  const tokens = new Map<string, string>()
  for (const sub of [UUID, NAMED, '7', '42', 'a b', 'a', 'b', 'b c', ' a', 'x'.repeat(255)]) {
    const token = new SignJWT({ roles: ['user'], sub }).setProtectedHeader({ alg: 'HS256' }).setExpirationTime('1h')
    tokens.set(sub, await token.sign(Buffer.from(KEY)))
  }
  return {
    ...server,
    as: (id, step) => ({
      ...step,
      headers: { ...step.headers, Authorization: `Bearer ${tokens.get(id)}` },
      bare: true,
    }),
  }
}

/** Its promises, with a case for each. */
export const fileOwners = area('file-owners', {
  promises: PROMISES,
  cases: CASES,
  async start(t: Test): Promise<Owners> {
    const server = await filestore(t, {
      permissions: { user: ['create', 'read', 'delete'], rich: ['create'], free: ['create'], none: ['read'] },
      limits: { user: { userBytes: 100 }, rich: { userBytes: 100, maxBytes: 200 } },
      maxBytes: 500,
    })
    return { ...server, text: await textServer(t, {}) }
  },
  pages: {
    'plugins/filestore/README.md': {
      Errors: {
        '413': 'quota.files',
      },
    },
  },
})
