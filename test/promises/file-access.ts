import { join } from 'node:path'
import type { Test } from 'tap'
import { databaseForServer } from '../kit/database.js'
import { fileHook, type FileHook } from '../kit/file-hook.js'
import { bad, denied, get, head, hidden, OK, pathOf, post, put, REFUSED, remove, wrong } from '../kit/file-steps.js'
import { admin, type Files, filestore, user } from '../kit/files.js'
import { patience } from '../kit/patience.js'
import { area, type Case, type Expected, is, like, query, type Step, takeAll } from '../kit/promises.js'
import type { As } from '../kit/server.js'

/** Who may do what with files: entries of roles, rules on the table of records, the hook, and all of them. */
const PROMISES = {
  'none.admin-only': 'without permissions, rules and a hook, only the admin has access',
  'entry.operations': 'a role with an entry may do what the entry lists, and nothing else',
  'entry.every-role': 'a role without an entry has no access',
  'entry.replace': 'replacing a file needs create',
  'entry.unknown': 'an operation that does not exist stops the start',
  'hook.built-in': 'user-read-write, public-read-user-write and public-read are rules without a service',
  'hook.url': 'a hook that is neither a URL nor a built-in rule stops the start',
  'hook.request': 'the hook gets the file, the operation and the caller, before anything happens',
  'hook.forms': 'the hook is called for each file of a form',
  'hook.admin': 'the hook is not called for the admin',
  'hook.refuses': 'a 403 of the hook is a 403, and nothing happens',
  'hook.fails': 'any other answer of the hook is a 500, and nothing happens',
  'hook.timeout': 'a hook that does not answer within timeoutMs is a 500',
  'rules.tracked': 'with a tracked table of records, a role without a permission on it has no access',
  'rules.select': 'a file is read if the filter of select accepts its record; otherwise it is a 404',
  'rules.insert': 'a new file is stored if the check of insert accepts its record',
  'rules.size-type': 'rules see the size and the type of an upload',
  'rules.update': 'a file is replaced if the filter of update accepts its record, and the check the new one',
  'rules.delete': 'a file is deleted if the filter of delete accepts its record',
  'rules.hidden': 'a file that rules hide is as one that does not exist',
  'rules.forms-and-uploads': 'forms and resumable uploads obey the same rules',
  'rules.records': 'the role lists the records of the files that it may read',
  'rules.explained': 'an admin who acts as a role sees why a rule refuses it, and the role does not',
  'record.delete': 'deleting a record deletes its file',
  'record.rename': 'a record may get another id, and the file with it',
  'record.protected': 'a change that contradicts the stored bytes is refused',
  'all.agree': 'of permissions, rules and a hook, all that are configured must allow a request',
  'rules.broken': 'a rule that is broken opens nothing',
} as const

const FILE = { schema: 'svc_catalog', name: 'svc_file' }
const OWNS = { document: { owner_id: 'X-SERVICE-USER-ID' } }
const other: As = { role: 'user', variables: { 'x-service-user-id': '43' } }
const guest: As = { role: 'guest', variables: user.variables! }
const cleaner: As = { role: 'cleaner', variables: user.variables! }
const reader: As = { role: 'reader', variables: user.variables! }
const FAILED = wrong(500, 'fatal_internal_error', 'internal server error')
const content = (text: string): Expected => ({ status: 200, text })
const records = (type: string, args: object, expected: Expected, as?: As): Step =>
  query(type, { table: FILE, ...args }, expected, as)

interface Documents extends Files {
  /** A server with the same files and rules. */
  beside(t: Test, filestore: object): Promise<Files>
  /** A server on another database, without rules. */
  without(t: Test, filestore: object): Promise<Files>
  /** A server of that database with entries of roles. */
  readonly entries: Files
  /** A server of that database with a hook. */
  readonly hooked: Files
  readonly hook: FileHook
}

const CASES: Readonly<Record<keyof typeof PROMISES, Case<Documents>>> = {
  'none.admin-only': async (t, server) => {
    await takeAll(t, await server.without(t, {}), [
      post('f', 'x', OK),
      get('f', denied('user'), {}, user),
      put('f', 'y', denied('user'), user),
      remove('f', denied('user'), user),
      { ...get('f', denied('anonymous')), bare: true },
      get('f', content('x')),
    ])
  },
  'entry.operations': (t, { entries }) =>
    takeAll(t, entries, [
      put('e', 'x', OK),
      get('e', content('x'), {}, user),
      put('u', 'x', like({ user_id: 42, user_role: 'user' }), user),
      remove('e', denied('user'), user),
      get('e', content('x'), {}, reader),
      post('r', 'x', denied('reader'), reader),
      remove('e', denied('reader'), reader),
      get('e', denied('cleaner'), {}, cleaner),
      put('e', 'y', denied('cleaner'), cleaner),
      get('e', content('x')),
      remove('e', OK, cleaner),
    ]),
  'entry.every-role': (t, { entries }) =>
    takeAll(t, entries, [
      put('e', 'x', OK),
      ...['other', 'constructor', 'none'].map((role) => get('e', denied(role), {}, { ...user, role })),
      { ...get('e', denied('anonymous')), bare: true },
      head('e', { status: 403 }, {}, guest),
    ]),
  'entry.replace': (t, { entries }) =>
    takeAll(t, entries, [put('e', 'y', denied('reader'), reader), put('e', 'y', OK, user), get('e', content('y'))]),
  'entry.unknown': async (t, server) => {
    await t.rejects(server.without(t, { permissions: { user: ['write'] } }), /plugins\.filestore\.permissions\.user/)
  },
  'hook.built-in': async (t, server) => {
    const anonymous: As = { role: 'anonymous', variables: { 'x-service-user-id': '0' } }
    const rules = {
      'user-read-write': { user: [OK, OK], anonymous: [REFUSED, REFUSED] },
      'public-read-user-write': { user: [OK, OK], anonymous: [OK, REFUSED] },
      'public-read': { user: [OK, REFUSED], anonymous: [OK, REFUSED] },
    }
    for (const [url, expected] of Object.entries(rules)) {
      const steps = [user, anonymous].flatMap((as) => {
        const [read, create] = expected[as.role as 'user'] as [Expected, Expected]
        return [get('b', read, {}, as), put(`b of ${as.role}`, 'x', create, as), remove('b', REFUSED, as)]
      })
      await takeAll(t, await server.without(t, { hook: { url } }), [put('b', 'x', OK), ...steps, remove('b', OK)])
    }
  },
  'hook.url': async (t, server) => {
    for (const url of ['public', '/v1/hooks/other', 'ftp://x', 'http://169.254.169.254/', 'http://u:p@x/'])
      await t.rejects(server.without(t, { hook: { url } }), /plugins\.filestore\.hook\.url/, url)
  },
  'hook.request': async (t, { hooked, hook }) => {
    const id = 'a b&file_op=read/ü'
    await takeAll(t, hooked, [
      post(id, 'x', OK, user),
      put(id, 'y', OK, user),
      get(id, content('y'), {}, user),
      head(id, OK, {}, user),
      remove(id, OK, user),
    ])

    const asked = (operation: object) => ['GET', '/may', { key: 'k', file_id: id, ...operation }]
    t.same(
      hook.asked.map(({ method, url }) => [method, url.pathname, Object.fromEntries(url.searchParams)]),
      [
        asked({ file_op: 'create' }),
        asked({ file_op: 'create', file_method: 'put' }),
        asked({ file_op: 'read' }),
        asked({ file_op: 'read' }),
        asked({ file_op: 'delete' }),
      ],
    )
    t.match(hook.asked[0]?.headers, {
      'x-service-user-id': '42',
      'x-service-user-role': 'user',
      'x-service-role': 'user',
      'x-service-allowed-roles': 'user',
    })
    t.notOk(JSON.stringify(hook.asked).includes('secret'), 'no credential of the caller goes on')
  },
  'hook.forms': async (t, { hooked, hook }) => {
    hook.asked.length = 0
    await takeAll(t, hooked, [
      form('/v1/file', 'in a form', 'x', OK, user),
      form({ path: '/v1/file/by%20path', method: 'PUT' }, undefined, 'x', OK, user),
      tus('by tus', 'x', { status: 201 }, user),
    ])
    t.same(
      hook.asked.map(({ url, headers }) => [Object.fromEntries(url.searchParams), headers['x-service-user-id']]),
      [
        [{ key: 'k', file_id: 'in a form', file_op: 'create' }, '42'],
        [{ key: 'k', file_id: 'by path', file_op: 'create', file_method: 'put' }, '42'],
        [{ key: 'k', file_id: 'by tus', file_op: 'create' }, '42'],
      ],
    )
  },
  'hook.admin': async (t, { hooked, hook }) => {
    hook.asked.length = 0
    hook.answers({ status: 403 })
    await takeAll(t, hooked, [put('h', 'kept', OK), get('h', content('kept'))])
    t.same(hook.asked, [])
  },
  'hook.refuses': async (t, { hooked, hook }) => {
    hook.answers({ status: 403, body: 'a long story' })
    await takeAll(t, hooked, nothingHappens(REFUSED))
  },
  'hook.fails': async (t, { hooked, hook }) => {
    hook.answers({ status: 500 })
    await takeAll(t, hooked, nothingHappens(FAILED))
    const answers = [
      ...[201, 204, 400, 401, 404, 503].map((status) => ({ status })),
      { status: 302, headers: { location: hook.url } },
      { status: 200, body: 'x'.repeat(100_000) },
      'cut',
      'upgrade',
    ] as const
    for (const answer of answers) {
      hook.answers(answer)
      await takeAll(t, hooked, stepsOfAUser(FAILED))
    }
  },
  'hook.timeout': async (t, { hooked, hook }) => {
    hook.answers('hang')
    await takeAll(t, hooked, stepsOfAUser(FAILED))
  },
  'rules.tracked': [
    put('free', 'any', OK, admin, { 'Content-Type': 'a/b' }),
    get('free', denied('guest'), {}, guest),
    put('free', 'x', denied('guest'), guest),
    post('of a guest', 'x', denied('guest'), guest),
    remove('free', denied('guest'), guest),
    get('free', content('any')),
    remove('free', OK),
  ],
  'rules.select': [
    post('mine', 'ten bytes!', OK, user),
    get('mine', content('ten bytes!'), {}, user),
    get('mine', hidden('mine'), {}, other),
    head('mine', { status: 404 }, {}, other),
    { ...get('mine', hidden('mine'), {}, other), path: '/v1/file-url', method: 'POST', body: '{"file_id":"mine"}' },
    query('insert', { table: 'share', objects: [{ file_id: 'mine', user_id: 43 }] }, OK),
    get('mine', { status: 206, text: 'ten' }, { Range: 'bytes=0-2' }, other),
  ],
  'rules.insert': [
    post('nobodys', 'x', REFUSED, user),
    put('nobodys', 'x', REFUSED, user),
    get('nobodys', hidden('nobodys')),
    put('second', 'x', REFUSED, other),
    put('second', 'x', like({ user_id: 42, user_role: 'user' }), user),
  ],
  'rules.size-type': [
    put('third', 'longer than 10', REFUSED, user),
    put('third', 'x', REFUSED, user, { 'Content-Type': 'image/png' }),
    get('third', hidden('third')),
    put('third', 'ten bytes.', OK, user, { 'Content-Type': 'text/css' }),
  ],
  'rules.update': [
    put('mine', 'longer than 10', OK, user),
    put('mine', 'x', REFUSED, other),
    put('mine', 'longer than the check of update', REFUSED, user),
    get('mine', content('longer than 10')),
    query('update', { table: 'document', $set: { locked: true }, where: { file_id: 'mine' } }, OK),
    put('mine', 'x', REFUSED, user),
    get('mine', content('longer than 10'), {}, user),
  ],
  'rules.delete': [
    remove('third', hidden('third'), other),
    remove('mine', REFUSED, other),
    get('third', content('ten bytes.')),
    remove('third', OK, user),
    get('third', hidden('third')),
  ],
  'rules.hidden': async (t, server) => {
    const tries: (readonly [string, Readonly<Record<string, string>>])[] = [
      ['POST', {}],
      ['POST', { 'If-Match': '*' }],
      ['PUT', {}],
      ['PUT', { 'If-Match': '*' }],
      ['PUT', { 'If-None-Match': '*' }],
      ['DELETE', {}],
    ]
    const answers = async (id: string) => {
      const all = []
      for (const [method, headers] of tries) {
        const { status, text } = await server.put(id, 'x', other, headers, method)
        all.push([method, headers, status, text.replaceAll(id, 'ID')])
      }
      return all
    }
    t.same(await answers('second'), await answers('none'))
    await takeAll(t, server, [
      get('second', content('x'), {}, user),
      post('second', 'y', bad('file already exists : second'), user),
    ])
  },
  'rules.forms-and-uploads': [
    form(onto('second', 'PUT'), undefined, 'taken', REFUSED, other),
    form('/v1/file', 'fourth', 'taken', REFUSED, other),
    tus('second', 'taken', REFUSED, other, true),
    tus('fourth', 'taken', REFUSED, other),
    tus('fourth', 'x', REFUSED, user, false, 'image/png'),
    tus('fourth', 'x', denied('guest'), guest),
    get('second', content('x')),
    get('fourth', hidden('fourth')),
    form(onto('second', 'PUT'), undefined, 'by form', like({ file_size: 7 }), user),
    tus('second', 'by tus', { status: 201 }, user, true),
    get('second', content('by tus')),
    form('/v1/file', 'fourth', 'by form', OK, user),
    tus('fifth', 'by tus', { status: 201 }, user),
    get('fifth', content('by tus')),
  ],
  'rules.records': [
    records(
      'select',
      { columns: ['file_id', 'file_size'], order_by: 'file_id' },
      is([{ file_id: 'mine', file_size: 14 }]),
      other,
    ),
    records('select', { columns: ['user_id'] }, { status: 400, like: { code: 'permission-denied' } }, other),
    records('select', { columns: ['file_id'] }, { status: 400, like: { code: 'permission-denied' } }, guest),
  ],
  'record.delete': [
    records('delete', { where: { file_id: 'fifth' } }, is({ affected_rows: 0 }), other),
    get('fifth', content('by tus')),
    records('delete', { where: { file_id: 'fifth' } }, is({ affected_rows: 1 }), user),
    get('fifth', hidden('fifth')),
  ],
  'record.rename': [
    put('old', 'x', OK),
    records('update', { $set: { file_id: 'renamed' }, where: { file_id: 'old' } }, OK),
    get('renamed', content('x')),
    get('old', hidden('old')),
  ],
  'record.protected': [
    { file_size: 9 },
    { etag: '"x"' },
    { content_type: 'a/b\r\nX: y' },
    { file_id: 'a\u0007' },
    { file_id: '' },
    { file_id: 'x'.repeat(1025) },
    { file_status: 'gone' },
  ].map((change) => records('update', { $set: change, where: { file_id: 'renamed' } }, { status: 400 })),
  'rules.explained': async (t, server) => {
    const rule = { verdict: 'refused', table: 'svc_catalog.svc_file' }
    const explained = async (step: Step, status: number, expected: object) => {
      const { path, method, headers = {}, body, as } = step
      const init: RequestInit = { method, headers, ...(body === undefined ? {} : { body }) }
      const { internal, ...shown } = (await server.fetch(path, init, { ...as, acting: true })).body
      const role = await server.fetch(path, init, as)
      t.strictSame([role.status, role.body], [status, shown], 'the role gets the rest')
      t.match(internal, { ...rule, ...expected })
    }
    await explained(get('second', OK, {}, other), 404, {
      operation: 'select',
      reason: 'filter',
      session: { 'x-service-user-id': '43' },
      filter: {
        result: false,
        any: [
          { path: '$.filter.$or[0].document', rows: [{ rule: { values: { owner_id: 42 } } }] },
          { path: '$.filter.$or[1].document', result: false },
        ],
      },
    })
    const url = { ...get('second', OK, {}, other), path: '/v1/file-url', method: 'POST', body: '{"file_id":"second"}' }
    await explained(url, 404, { operation: 'select', reason: 'filter' })
    await explained(get('none', OK, {}, other), 404, { operation: 'select', reason: 'row' })
    await explained(remove('second', OK, other), 404, { operation: 'delete', reason: 'filter' })
    await explained(remove('mine', OK, other), 403, {
      operation: 'delete',
      reason: 'filter',
      filter: { path: '$.filter.document', result: false },
    })
    await explained(remove('none', OK, user), 404, { operation: 'delete', reason: 'row' })
    await explained(put('mine', 'x', OK, user), 403, {
      operation: 'update',
      reason: 'filter',
      filter: {
        path: '$.filter.document',
        rows: [{ rule: { all: [{ values: { locked: true } }, { result: true }] } }],
      },
    })
    await explained(put('second', 'x', OK, other), 403, { operation: 'update', reason: 'filter' })
    await explained(post('second', 'x', OK, other), 403, { operation: 'select', reason: 'filter' })
    await explained(put('second', 'longer than the check of update', OK, user), 403, {
      operation: 'update',
      reason: 'check',
      check: { all: [{}, { path: '$.check.file_size', result: false, values: { file_size: 31 } }] },
    })
    await explained(put('third', 'longer than 10', OK, user), 403, {
      operation: 'insert',
      reason: 'check',
      permission: { check: { file_size: { $lte: 10 } } },
      check: { all: [{}, { path: '$.check.file_size', result: false, values: { file_size: 14 } }] },
    })
    const inForm = form('/v1/file', 'third', 'longer than 10', OK, user)
    await explained(inForm, 403, { operation: 'insert', reason: 'check', check: { result: false } })
    const none = { reason: 'permission', permission: null }
    await explained(get('mine', OK, {}, guest), 403, { ...none, operation: 'select' })
    await explained(post('third', 'x', OK, guest), 403, { ...none, operation: 'insert' })
    await explained(remove('mine', OK, guest), 403, { ...none, operation: 'delete' })
    await takeAll(t, server, [
      post('second', 'x', bad('file already exists : second'), { ...user, acting: true }),
      get('none', hidden('none')),
      get('second', content('by tus')),
      get('third', hidden('third')),
    ])
  },
  'all.agree': async (t, server) => {
    const hook = await fileHook(t)
    const strict = await server.beside(t, { permissions: { user: ['read'] }, hook: { url: hook.url } })
    await takeAll(t, strict, [
      put('second', 'y', denied('user'), user),
      get('second', denied('guest'), {}, guest),
      get('second', hidden('second'), {}, other),
    ])
    t.same(hook.asked, [], 'the hook is called last')
    await takeAll(t, strict, [get('second', content('by tus'), {}, user)])
    hook.answers({ status: 403 })
    await takeAll(t, strict, [get('second', REFUSED, {}, user)])
  },
  'rules.broken': async (t, server) => {
    await server.must('run_sql', { sql: 'drop table share; alter table document drop column owner_id', cascade: true })
    await takeAll(t, server, [
      get('second', denied('user'), {}, user),
      put('second', 'y', denied('user'), user),
      remove('second', denied('user'), user),
      get('second', content('by tus')),
      // Somebody else may have changed the tables.
      query('select', { table: 'document', columns: ['file_id'] }, OK),
      query('untrack_table', { table: FILE, cascade: true }, OK),
      get('second', denied('user'), {}, user),
    ])
  },
}

/** Everything that a user may try is answered in this way. */
const nothingHappens = (expected: Expected): readonly Step[] => [
  form('/v1/file', 'new', 'x', expected, user),
  form(onto('h', 'PUT'), undefined, 'y', expected, user),
  tus('new', 'x', expected, user),
  ...stepsOfAUser(expected),
]
function stepsOfAUser(expected: Expected): readonly Step[] {
  return [
    get('h', expected, {}, user),
    put('h', 'y', expected, user),
    post('new', 'x', expected, user),
    remove('h', expected, user),
    get('h', content('kept')),
    get('new', hidden('new')),
  ]
}

function onto(id: string, method: string) {
  return { path: pathOf(id), method }
}

/** A form with one file. @param id of the field `file_id` */
function form(
  to: string | { readonly path: string; readonly method: string },
  id: string | undefined,
  bytes: string,
  expected: Expected,
  as: As,
): Step {
  const field = id === undefined ? '' : `--B\r\nContent-Disposition: form-data; name="file_id"\r\n\r\n${id}\r\n`
  const file = `--B\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\n${bytes}\r\n`
  return {
    ...(typeof to === 'string' ? { path: to, method: 'POST' } : to),
    body: `${field}${file}--B--\r\n`,
    headers: { 'Content-Type': 'multipart/form-data; boundary=B' },
    as,
    expected,
  }
}

/** A resumable upload whose bytes come with its first request. */
function tus(id: string, bytes: string, expected: Expected, as: As, replaces = false, type = 'text/plain'): Step {
  const metadata = { file_id: id, content_type: type, replace: String(replaces) }
  return {
    path: '/v1/upload',
    method: 'POST',
    body: bytes,
    headers: {
      'Tus-Resumable': '1.0.0',
      'Upload-Length': String(bytes.length),
      'Upload-Metadata': Object.entries(metadata)
        .map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`)
        .join(),
      'Content-Type': 'application/offset+octet-stream',
    },
    as,
    expected,
  }
}

/** Documents of users, each with a file; a user reads what it owns and what is shared with it. */
async function start(t: Test): Promise<Documents> {
  const server = await filestore(t)
  await server.sql(`create table document (file_id text primary key, owner_id bigint not null, locked boolean not null default false);
      create table share (file_id text not null references document, user_id bigint not null);
      insert into document select id, 42 from unnest('{mine,second,third,fourth,fifth}'::text[]) as id`)
  const permit = (type: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table: FILE, role: 'user', permission },
  })
  await server.must('bulk', [
    ...['document', 'share', FILE].map((args) => ({ type: 'track_table', args })),
    {
      type: 'create_object_relationship',
      args: {
        table: FILE,
        name: 'document',
        using: { manual_configuration: { remote_table: 'document', column_mapping: { file_id: 'file_id' } } },
      },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'document',
        name: 'shares',
        using: { foreign_key_constraint_on: { table: 'share', column: 'file_id' } },
      },
    },
    permit('select', {
      columns: ['file_id', 'file_size'],
      filter: { $or: [OWNS, { document: { shares: { user_id: 'X-SERVICE-USER-ID' } } }] },
    }),
    permit('insert', { check: { ...OWNS, file_size: { $lte: 10 }, content_type: { $like: 'text/%' } } }),
    permit('update', {
      columns: [],
      filter: { document: { locked: false, ...OWNS.document } },
      check: { ...OWNS, file_size: { $lte: 20 } },
    }),
    permit('delete', { filter: OWNS }),
  ])
  const plain = { databaseUrl: (await databaseForServer(t)).url, dataDir: join(server.dataDir, 'plain') }
  const without = (t: Test, settings: object) => filestore(t, settings, {}, plain)
  const hook = await fileHook(t)
  return {
    ...server,
    beside: (t, settings) => filestore(t, settings, {}, server),
    without,
    entries: await without(t, {
      permissions: { user: ['create', 'read'], reader: ['read'], cleaner: ['delete'], none: [] },
    }),
    hook,
    hooked: await without(t, { hook: { url: hook.url, timeoutMs: patience(100) } }),
  }
}

/** Its promises, with a case for each. */
export const fileAccess = area('file-access', {
  promises: PROMISES,
  cases: CASES,
  start,
  pages: {
    'plugins/filestore/README.md': {
      Permissions: {
        'GET, HEAD': 'rules.select',
        'POST, and PUT of a new file': ['rules.insert', 'rules.size-type'],
        'PUT of an existing file': 'rules.update',
        DELETE: 'rules.delete',
        'There are three kinds of permissions, and all that are configured must allow a request.': 'all.agree',
      },
      Errors: {
        '403': ['entry.operations', 'rules.insert', 'hook.refuses'],
        '500': 'hook.fails',
      },
    },
  },
})
