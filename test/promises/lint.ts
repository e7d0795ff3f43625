import type { Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { relate, type Request, track } from '../kit/metadata-requests.js'
import { area, type Case } from '../kit/promises.js'
import { testServer, type TestServer } from '../kit/server.js'

/** What lint_metadata and advise_indexes find. */
const PROMISES = {
  'lint.always-true': 'a rule that is true for every row is found, and a deliberate {} is not',
  'lint.never-true': 'a rule that no row satisfies is found',
  'lint.misspelt-variable': 'a text that looks like a session variable is found, with the right spelling',
  'lint.unknown-part': 'a role without permissions is found where others inherit from it',
  'lint.readable-secret': 'a column with the name of a secret is found where callers without credentials may read it',
  'lint.caller-writable-rule': 'a column that decides by the session is found where the same role may write it',
  'lint.unrunnable-template': 'a template that no role may run is found',
  'lint.tenant-leak': 'a relationship that leads out of a tenant is found',
  'lint.write-without-read': 'a write of rows that the role may not select is found',
  'lint.disclosing-aggregates': 'a limit that aggregates do not heed is found',
  'lint.unindexed-rule': 'a filter that no index serves is found, whatever the size of the table',
  'lint.answer': 'an answer has the findings with message and advice, and the rules; only admin gets it',
  'advise.proposed': 'advise_indexes proposes indexes for filters and templates, and says whether they were tried',
  'advise.tried': 'with try, an index is created, measured and rolled back',
  'advise.admin-only': 'only admin gets advice, and try is true or false',
} as const

const OWN = { user_id: 'X-Service-User-Id' }
const ORG = { org_id: 'X-Service-Org-Id' }

/** A permission: table, role, action, and the definition without the keys that all need. */
type Permission = readonly [table: string, role: string, type: string, permission?: object]

/** Starts anew, with these permissions and nothing else. */
async function shop(
  server: TestServer,
  permissions: readonly Permission[],
  more: readonly Request[] = [],
): Promise<void> {
  await server.must('clear_metadata', {})
  const permit = ([table, role, type, permission]: Permission) => ({
    type: `create_${type}_permission`,
    args: { table, role, permission: { ...NEEDED[type], ...permission } },
  })
  await server.must('bulk', [
    ...['account', 'note', 'comment', 'member', 'big'].map(track),
    relate('array', 'note', 'comments', { table: 'comment', column: 'note_id' }),
    relate('array', 'note', 'members', { table: 'member', column: 'note_id' }),
    relate('object', 'comment', 'note', 'note_id'),
    ...permissions.map(permit),
    ...more,
  ])
}
const NEEDED: Readonly<Record<string, object>> = {
  select: { columns: ['id'], filter: {} },
  insert: { columns: ['id'], check: {} },
  update: { columns: ['title'], filter: {} },
  delete: { filter: {} },
}

interface Found {
  readonly rule: string
  readonly level: string
  readonly object: string
  readonly path: string
  readonly message: string
}
/** Returns what one rule finds, as `level object path`. */
async function found(server: TestServer, rule: string): Promise<readonly string[]> {
  const { findings } = (await server.must('lint_metadata', {})) as { findings: readonly Found[] }
  return findings.filter((each) => each.rule === rule).map(({ level, object, path }) => `${level} ${object} ${path}`)
}
const byLevel = (a: string, b: string): number => Number(a.startsWith('info')) - Number(b.startsWith('info'))

const INDEX = 'create index concurrently on public.big (org_id)'

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'lint.always-true': async (t, server) => {
    const select = (role: string, filter: object): Permission => ['note', role, 'select', { filter }]
    await shop(server, [
      select('a1', { id: { $is_null: false } }),
      select('a2', { $or: [{}, OWN] }),
      select('a3', { $and: [{ user_id: { $ceq: 'user_id' } }, { id: {} }] }),
      select('a4', { state: { $in: ['open', 'done'] } }),
      select('a5', { $or: [{ title: null }, { $not: { title: null } }] }),
      select('a6', { id: { $nin: [] } }),
      ['note', 'a7', 'insert', { check: { $or: [{ id: 1 }, { $not: { $or: [] } }] } }],
      select('a8', { $or: [{ user_id: { $lt: 5 } }, { user_id: { $gte: 5 } }] }),
      select('a9', { id: { $gte: -2147483648 } }),
      select('c1', { $or: [{ open: true }, { open: false }] }),
      select('c2', { $or: [{ state: 'open' }, { state: 'done' }] }),
      select('c3', { $or: [{ user_id: 'X-Service-Boss' }, { user_id: { $ne: 'X-Service-Boss' } }] }),
      select('b1', {}),
      select('b2', { org_id: { $is_null: false } }),
      select('b3', { org_id: { $ceq: 'org_id' } }),
      select('b4', { state: { $in: ['open'] } }),
      select('b5', { $or: [{ org_id: 1 }, { $not: { org_id: 1 } }] }),
      select('b6', { comments: {} }),
      select('b7', { comments_aggregate: { count: { predicate: { $gte: 0 } } } }),
      select('b8', { $or: [{ size: { $lt: 5 } }, { size: { $gte: 5 } }] }),
      // The id of a caller need not be a number, and is null then.
      select('b9', { $or: [OWN, { user_id: { $ne: 'X-Service-User-Id' } }] }),
    ])

    t.same(await found(server, 'always-true'), [
      'warning permission note.a1.select $.filter.id',
      'warning permission note.a2.select $.filter.$or[0]',
      'warning permission note.a3.select $.filter.$and',
      'warning permission note.a4.select $.filter.state',
      'warning permission note.a5.select $.filter.$or',
      'warning permission note.a6.select $.filter.id',
      'warning permission note.a7.insert $.check.$or[1].$not',
      'warning permission note.a8.select $.filter.$or',
      'warning permission note.a9.select $.filter.id',
      'warning permission note.c1.select $.filter.$or',
      'warning permission note.c2.select $.filter.$or',
      'warning permission note.c3.select $.filter.$or',
    ])
  },
  'lint.never-true': async (t, server) => {
    const select = (role: string, filter: object): Permission => ['note', role, 'select', { filter }]
    await shop(server, [
      select('a1', { ...OWN, id: { $is_null: true } }),
      select('a2', { id: { $in: [] } }),
      select('a3', { $and: [{ state: 'open' }, { state: { $eq: 'done' } }] }),
      select('a4', { size: { $gt: 5, $lt: 6 } }),
      select('a5', { comments: { id: null } }),
      select('a6', { user_id: { $cne: 'user_id' } }),
      select('a7', { $and: [{ title: null }, { title: 'x' }] }),
      select('a8', { state: { $in: ['open'], $ne: 'open' } }),
      select('a9', { id: { $eq: 5, $ne: 5 } }),
      ['note', 'a9', 'delete', { filter: { $or: [] } }],
      select('c1', { day: { $gt: '2026-02-01', $lt: '2026-01-31' } }),
      select('c2', { day: { $gt: '2026-01-31', $lt: '2026-02-01' } }),
      select('c3', { at: { $gte: '2026-01-01T00:00:00Z', $lt: '2025-12-31T23:59:59.5Z' } }),
      select('c4', { score: { $gt: 1.5, $lte: 1.25 } }),
      select('c5', { rank: { $lt: 0.1, $eq: 0.2 } }),
      select('c6', { $and: [OWN, { user_id: { $ne: 'X-Service-User-Id' } }] }),
      select('c7', { comments: { org_id: 1, id: 5 }, $not: { comments: { org_id: 1 } } }),
      select('c8', { title: { $like: 'a%' }, $not: { title: { $is_null: false } } }),
      select('c9', { open: { $nin: [true, false] } }),
      select('d1', { user_id: { $gt: 2147483647 } }),
      select('d2', { $and: [{ title: null }, { title: { $nin: ['x'] } }] }),
      select('b1', { title: { $is_null: true } }),
      select('b8', { day: { $gt: '2026-01-30', $lt: '2026-02-01' } }),
      select('b9', { score: { $gt: 1.25, $lte: 1.5 } }),
      select('b2', { $or: [{ state: 'open' }, { state: 'done' }] }),
      select('b3', { size: { $gte: 5, $lte: 5 } }),
      select('b4', { $and: [{ title: null }, { title: { $is_distinct: 'x' } }] }),
      select('b5', { $and: [OWN, { user_id: 'X-Service-Boss' }] }),
      select('b6', { comments: { $and: [{ org_id: 1 }] }, $not: { comments: { org_id: 1, id: 5 } } }),
      select('b7', { title: { $eq: 'a', $like: 'b%' } }),
    ])

    t.same(await found(server, 'never-true'), [
      'warning permission note.a1.select $.filter.id',
      'warning permission note.a2.select $.filter.id',
      'warning permission note.a3.select $.filter.$and',
      'warning permission note.a4.select $.filter.size',
      'warning permission note.a5.select $.filter.comments.id',
      'warning permission note.a6.select $.filter.user_id',
      'warning permission note.a7.select $.filter.$and',
      'warning permission note.a8.select $.filter.state',
      'warning permission note.a9.delete $.filter.$or',
      'warning permission note.a9.select $.filter.id',
      'warning permission note.c1.select $.filter.day',
      'warning permission note.c2.select $.filter.day',
      'warning permission note.c3.select $.filter.at',
      'warning permission note.c4.select $.filter.score',
      'warning permission note.c5.select $.filter.rank',
      'warning permission note.c6.select $.filter.$and',
      'warning permission note.c7.select $.filter',
      'warning permission note.c8.select $.filter',
      'warning permission note.c9.select $.filter.open',
      'warning permission note.d1.select $.filter.user_id',
      'warning permission note.d2.select $.filter.$and',
    ])
  },
  'lint.misspelt-variable': async (t, server) => {
    const select = (role: string, filter: object): Permission => ['note', role, 'select', { filter }]
    await shop(server, [
      select('a1', { title: 'X-Servce-User-Id' }),
      select('a2', { $or: [{ id: 1 }, { $not: { title: { $in: ['x', 'x-hasura-org_id'] } } }] }),
      select('a3', { comments: { note: { title: 'x_service_user_id' } } }),
      ['note', 'a4', 'insert', { check: { title: { $ne: 'X-Service-User-Id ' } }, set: { title: 'X-Serivce-Role' } }],
      select('b1', { title: 'X-Service-Title' }),
      select('b2', { title: { $in: ['x-ray-scan', 'X-Large', 'service', 'x-men-2'] } }),
      select('b3', { title: { $ceq: 'title' } }),
    ])
    const { findings } = (await server.must('lint_metadata', {})) as {
      findings: readonly (Found & { advice: string })[]
    }

    t.same(
      findings
        .filter(({ rule }) => rule === 'misspelt-variable')
        .map(({ level, object, path, advice }) => `${level} ${object} ${path}: ${/X-[\w-]+/.exec(advice)?.[0]}`),
      [
        'warning permission note.a1.select $.filter.title: X-Service-User-Id',
        'warning permission note.a2.select $.filter.$or[1].$not.title: X-Service-Org_Id',
        'warning permission note.a3.select $.filter.comments.note.title: X-Service-User-Id',
        'warning permission note.a4.insert $.check.title: X-Service-User-Id',
        'warning permission note.a4.insert $.set.title: X-Service-Role',
      ],
    )
  },
  'lint.unknown-part': async (t, server) => {
    const inherit = (role: string, ...roles: string[]) => ({ type: 'set_role_inheritance', args: { role, roles } })
    const sql = `create function add_up(a int) returns int language sql immutable as 'select a'`
    await shop(
      server,
      [['note', 'editor', 'select']],
      [
        inherit('chief', 'editr', 'caller', 'both'),
        inherit('both', 'editor', 'nobody'),
        { type: 'run_sql', args: { sql } },
        { type: 'track_function', args: 'add_up' },
        { type: 'create_function_permission', args: { function: 'add_up', role: 'caller' } },
      ],
    )
    const { findings } = (await server.must('lint_metadata', {})) as { findings: readonly Found[] }

    t.same(
      findings
        .filter(({ rule }) => rule === 'unknown-part')
        .map(({ level, object, path, message }) => `${level} ${object} ${path}: ${message}`),
      [
        'warning inherited-role both $.roles[1]: the role inherits from "nobody", which has no permissions',
        'warning inherited-role chief $.roles[0]: the role inherits from "editr", which has no permissions, did you mean "editor"?',
      ],
    )
  },
  'lint.readable-secret': async (t, server) => {
    const columns = ['id', 'password', 'password_changed_at', 'token_count', 'content_hash', 'cardNumber', 'title']
    await shop(server, [
      ['account', 'anonymous', 'select', { columns }],
      ['account', 'user', 'select', { columns: '*' }],
    ])
    const { findings } = (await server.must('lint_metadata', {})) as { findings: readonly Found[] }

    t.same(
      findings.map(({ level, object, message }) => `${level} ${object} ${/"(\w+)"/.exec(message)?.[1]}`),
      ['error permission account.anonymous.select cardNumber', 'error permission account.anonymous.select password'],
    )
  },
  'lint.caller-writable-rule': async (t, server) => {
    await shop(server, [
      // May take any note.
      ['note', 'taker', 'select', { filter: OWN }],
      ['note', 'taker', 'update', { columns: ['user_id'], filter: { state: 'open' } }],
      // May give its notes away, and write notes of others.
      ['note', 'giver', 'select', { filter: OWN }],
      ['note', 'giver', 'insert', { columns: ['id', 'user_id'] }],
      ['note', 'giver', 'update', { columns: ['title', 'user_id'], filter: OWN }],
      // May join the members of any note.
      ['note', 'guest', 'select', { filter: { members: OWN } }],
      ['member', 'guest', 'insert', { columns: ['note_id'], set: OWN, check: {} }],
      ['note', 'pinned', 'select', { filter: OWN }],
      ['note', 'pinned', 'insert', { columns: ['id', 'user_id'], check: OWN }],
      ['note', 'pinned', 'update', { columns: ['title', 'user_id'], filter: OWN, check: OWN }],
      ['note', 'preset', 'select', { filter: { members: { ...OWN, role: 'owner' } } }],
      ['note', 'preset', 'insert', { columns: '*', set: OWN }],
      ['member', 'preset', 'insert', { columns: ['note_id'], set: { ...OWN, role: 'reader' }, check: {} }],
      // A comment belongs to a note that exists already.
      ['comment', 'author', 'select', { filter: { note: OWN } }],
      ['note', 'author', 'select', { filter: OWN }],
      ['note', 'author', 'insert', { columns: ['id', 'title'], set: OWN }],
    ])

    t.same(await found(server, 'caller-writable-rule'), [
      'error permission member.guest.insert $.columns',
      'error permission note.taker.update $.columns',
      'warning permission note.giver.insert $.columns',
      'warning permission note.giver.update $.columns',
    ])
  },
  'lint.unrunnable-template': async (t, server) => {
    const create = (name: string, table: string) => ({
      type: 'create_query_template',
      args: { name, template: { type: 'select', args: { table, columns: ['id'], where: { id: { param: 'id' } } } } },
    })
    await shop(server, [['note', 'user', 'select']], [create('notes', 'note'), create('accounts', 'account')])

    t.same(await found(server, 'unrunnable-template'), ['info query-template accounts $'])
  },
  'lint.tenant-leak': async (t, server) => {
    await shop(server, [
      ['note', 'user', 'select', { filter: ORG }],
      ['comment', 'user', 'select', { columns: ['id', 'org_id'] }],
      ['note', 'strict', 'select', { filter: ORG }],
      ['comment', 'strict', 'select', { filter: ORG }],
      ['note', 'related', 'select', { filter: ORG }],
      ['comment', 'related', 'select', { filter: { note: ORG } }],
      // Notes of a user may have comments that everybody reads.
      ['note', 'own', 'select', { filter: OWN }],
      ['comment', 'own', 'select'],
    ])

    t.same(await found(server, 'tenant-leak'), ['warning permission comment.user.select $.filter'])
  },
  'lint.write-without-read': async (t, server) => {
    await shop(server, [
      ['note', 'form', 'insert'],
      ['note', 'blind', 'update', { filter: OWN }],
      ['note', 'broad', 'select', { filter: OWN }],
      ['note', 'broad', 'delete'],
      ['note', 'same', 'select', { filter: OWN }],
      ['note', 'same', 'update', { filter: { ...OWN, state: 'open' } }],
      ['note', 'all', 'select'],
      ['note', 'all', 'update'],
    ])

    t.same(
      await found(server, 'write-without-read'),
      [
        'info permission note.form.insert $',
        'warning permission note.blind.update $',
        'warning permission note.broad.delete $.filter',
      ].sort(byLevel),
    )
  },
  'lint.disclosing-aggregates': async (t, server) => {
    await shop(server, [
      ['big', 'totals', 'select', { columns: ['id', 'size'], limit: 0, allow_aggregations: true }],
      ['big', 'some', 'select', { limit: 10, allow_aggregations: true }],
      ['big', 'all', 'select', { allow_aggregations: true }],
      ['big', 'few', 'select', { limit: 10 }],
    ])

    t.same(await found(server, 'disclosing-aggregates'), [
      'warning permission big.totals.select $.allow_aggregations',
      'info permission big.some.select $.allow_aggregations',
    ])
    const args = { table: 'big', columns: [{ jsonb_agg: 'id', as: 'all' }] }
    t.equal((await server.query('select', args, { role: 'some' })).body[0].all.length, 20_000)
  },
  'lint.unindexed-rule': async (t, server) => {
    const select = (table: string, role: string, filter: object): Permission => [table, role, 'select', { filter }]
    await shop(server, [
      select('big', 'org', ORG),
      select('big', 'own', OWN),
      // An index would not help: most rows are larger.
      select('big', 'large', { size: { $gt: 10 } }),
      select('big', 'smaller', { size: { $lt: 'X-Service-Size' } }),
      select('big', 'both', { ...OWN, ...ORG }),
      select('note', 'title', { title: 'X-Service-Title' }),
      select('note', 'own', OWN),
      select('note', 'partial', { ...ORG, title: { $is_null: false } }),
      select('comment', 'note', { note: OWN }),
      select('comment', 'title', { note: { title: 'X-Service-Title' } }),
      select('big', 'none', {}),
    ])

    t.same(await found(server, 'unindexed-rule'), [
      'warning permission big.org.select $.filter',
      'info permission comment.title.select $.filter',
      'info permission note.title.select $.filter',
    ])
    await server.sql('create index on big (org_id, id); create index on note (title)')
    t.same(await found(server, 'unindexed-rule'), [])
  },
  'lint.answer': async (t, server) => {
    await shop(server, [['note', 'user', 'select', { filter: { id: { $in: [] } } }]])
    const { findings, rules } = await server.must('lint_metadata', {})
    t.match(findings, [
      {
        rule: 'never-true',
        level: 'warning',
        object: 'permission note.user.select',
        path: '$.filter.id',
        message: String,
        advice: String,
      },
    ])
    t.equal(findings.length, 1)
    t.equal(typeof rules['never-true'], 'string')
    t.match((await server.query('lint_metadata', {}, { role: 'user' })).body, { code: 'access-denied' })
    t.match((await server.query('lint_metadata', { all: true })).body, { path: '$.args.all' })
  },
  'advise.proposed': async (t, server) => {
    await server.must('run_sql', { sql: 'drop index if exists big_org_id_id_idx' })
    await shop(
      server,
      [
        ['big', 'tenant', 'select', { filter: ORG }],
        ['big', 'tenant', 'update', { columns: ['org_id'] }],
      ],
      [
        {
          type: 'create_query_template',
          args: {
            name: 'sized',
            template: { type: 'select', args: { table: 'big', columns: ['id'], where: { size: { param: 'size' } } } },
          },
        },
      ],
    )
    await server.must('execute_query_template', { name: 'sized', args: { size: 5 } })
    const { advice, without_statistics: unknown, left_out: left } = await server.must('advise_indexes', {})
    t.match(
      advice.find(({ sql }: { sql: string }) => sql === INDEX),
      {
        table: 'big',
        columns: ['org_id'],
        checked: null,
        reason: /not checked/,
        updatable_by: ['tenant'],
        statements: [{ role: 'tenant', calls: null, before: null }],
      },
    )
    t.match(
      advice.find(({ sql }: { sql: string }) => sql.endsWith('(size)')),
      { statements: [{ name: 'template sized', calls: 1 }] },
    )
    t.same([advice.length, unknown, left], [2, [], 0])
  },
  'advise.tried': async (t, server) => {
    const count = () => rowsOf(server.databaseUrl, 'select count(*) from pg_index')
    const before = await count()
    const { advice } = await server.must('advise_indexes', { try: true })
    const found = advice.find(({ sql }: { sql: string }) => sql === INDEX)
    t.match(found, { checked: 'created', bytes: Number, rows: 20_000 })
    t.ok(found.statements[0].after < found.statements[0].before / 2)
    t.same(await count(), before)
  },
  'advise.admin-only': async (t, server) => {
    t.match((await server.query('advise_indexes', {}, { role: 'tenant' })).body, { code: 'access-denied' })
    t.match((await server.query('advise_indexes', { try: 1 })).body, { path: '$.args.try' })
  },
}

export const lint = area('lint', {
  promises: PROMISES,
  pages: {
    'plugins/query/review.md': {
      'Lint (admin)': {
        '`always-true`': 'lint.always-true',
        '`never-true`': 'lint.never-true',
        '`misspelt-variable`': 'lint.misspelt-variable',
        '`unknown-part`': 'lint.unknown-part',
        '`readable-secret`': 'lint.readable-secret',
        '`caller-writable-rule`': 'lint.caller-writable-rule',
        '`unrunnable-template`': 'lint.unrunnable-template',
        '`tenant-leak`': 'lint.tenant-leak',
        '`write-without-read`': 'lint.write-without-read',
        '`disclosing-aggregates`': 'lint.disclosing-aggregates',
        '`unindexed-rule`': 'lint.unindexed-rule',
      },
    },
  },
  start,
  cases: CASES,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(`create type state as enum ('open', 'done');
      create table account (id int primary key, password text, password_changed_at timestamptz, token_count int,
        content_hash text, "cardNumber" text, title text, admin_token text);
      create table note (id int primary key, user_id int not null, org_id int, state state not null, title text, size int,
        day date, at timestamptz, score float8, rank real, open boolean not null default true);
      create index on note (user_id); create index on note (org_id) where title is not null;
      create table comment (id int primary key, note_id int references note, org_id int, user_id int);
      create index on comment (note_id);
      create table member (note_id int references note, user_id int, role text, primary key (note_id, user_id));
      create table big (id int primary key, org_id int, user_id int, size int);
      insert into big select i, i % 500, i % 400, i from generate_series(1, 20000) i;
      create index on big (user_id); analyze big`)
  return server
}
