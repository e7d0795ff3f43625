import { SignJWT } from 'jose'
import tap from 'tap'
import { type Answered, testServer, type TestOptions, type TestServer } from '../kit/server.js'

const KEY = 'a shared secret of a test, 32 characters.'

const UUID = '8d6f2b1e-4c0a-4f57-9b1e-0a1b2c3d4e5f'
const OTHER = '11111111-2222-4333-8444-555555555555'
const PLAIN = "auth0|O'Neil %_ 漢\\"
/** Types of columns, an id that fits each, the other owner in the table, and ids that do not fit. */
const TYPES: readonly (readonly [type: string, id: string, other: string, unfit: readonly string[]])[] = [
  ['smallint', '7', '8', ['32768', '-32769', 'abc', UUID, '7.0', ' 7']],
  ['integer', '7', '8', ['2147483648', 'abc', UUID, '0x7', '1e3', 'null', 'NaN']],
  ['bigint', '7', '8', ['9223372036854775808', 'abc', UUID, '7 ', '+7']],
  ['uuid', UUID, OTHER, ['7', 'abc', `{${UUID}}`, UUID.replaceAll('-', ''), `${UUID} `]],
  ['text', PLAIN, 'b', []],
  ['varchar(40)', 'a b', 'b', []],
  ['char(9)', 'a b', 'b', ['a b ']],
  ['citext', 'Bob', 'eve', []],
  ['small_number', '7', '8', ['2147483648', 'abc']],
  ['short_text', 'abc', 'b', []],
]
const USER = 'X-Service-User-Id'

/** Rules over `doc.owner`, its array relationship `shares` and the table `share`; `{}` is public. */
const RULES: Readonly<Record<string, object>> = {
  equals: { owner: USER },
  eq: { owner: { $eq: USER } },
  ne: { owner: { $ne: USER } },
  gt: { owner: { $gt: USER } },
  gte: { owner: { $gte: USER } },
  lt: { owner: { $lt: USER } },
  lte: { owner: { $lte: USER } },
  distinct: { owner: { $is_distinct: USER } },
  'not distinct': { owner: { $is_not_distinct: USER } },
  'negated distinct': { $not: { owner: { $is_distinct: USER } } },
  'negated not distinct': { $not: { owner: { $is_not_distinct: USER } } },
  'relationship not distinct': { $not: { shares: { who: { $is_distinct: USER } } } },
  in: { owner: { $in: [USER] } },
  nin: { owner: { $nin: [USER] } },
  'not equals': { $not: { owner: USER } },
  'not ne': { $not: { owner: { $ne: USER } } },
  'not in': { $not: { owner: { $in: [USER] } } },
  'not nin': { $not: { owner: { $nin: [USER] } } },
  'not or': { $not: { $or: [{ owner: USER }, { owner: { $ne: USER } }] } },
  relationship: { shares: { who: USER } },
  'not relationship': { $not: { shares: { who: USER } } },
  'not relationship ne': { $not: { shares: { who: { $ne: USER } } } },
  'not not relationship': { $not: { $not: { shares: { who: USER } } } },
  'relationship not relationship': { shares: { doc: { $not: { shares: { who: USER } } } } },
  'not relationship not': { $not: { shares: { $not: { who: USER } } } },
  exists: { $exists: { _table: 'share', _where: { who: USER } } },
  'not exists': { $not: { $exists: { _table: 'share', _where: { who: USER } } } },
  'not exists ne': { $not: { $exists: { _table: 'share', _where: { who: { $ne: USER } } } } },
  'count is 0': { shares_aggregate: { count: { filter: { who: USER }, predicate: { $eq: 0 } } } },
  'count below': { shares_aggregate: { count: { filter: { who: { $nin: [USER] } }, predicate: { $lt: 9 } } } },
  'not count above': { $not: { shares_aggregate: { count: { filter: { who: USER }, predicate: { $gt: 0 } } } } },
  'not count not 0': { $not: { shares_aggregate: { count: { filter: { who: USER }, predicate: { $ne: 0 } } } } },
}

const NONE = { affected_rows: 0 }

interface Identified extends TestServer {
  /** Any request of a user with a token: the id is its `sub`. */
  fetchAs(id: string | number, role: string, path: string, init?: RequestInit): Promise<Answered>
  /** `POST /v1/query`. */
  queryAs(id: string | number, role: string, type: string, args: unknown): Promise<Answered>
}

async function identified(
  t: { teardown(fn: () => Promise<void>): unknown },
  options: TestOptions = {},
): Promise<Identified> {
  const claims = { allowedRoles: '/roles', variables: { 'x-service-user-id': '/sub' } }
  const auth = { jwt: { algorithms: ['HS256'], key: KEY, claims } }
  const server = await testServer(t, { ...options, config: { ...options.config, auth } })
  const tokens = new Map<string, Promise<string>>()
  const tokenOf = (sub: string | number, role: string) => {
    const key = JSON.stringify([sub, role])
    const made =
      tokens.get(key) ??
      new SignJWT({ roles: [role], sub } as Record<string, unknown>)
        .setProtectedHeader({ alg: 'HS256' })
        .setExpirationTime('1h')
        .sign(Buffer.from(KEY))
    tokens.set(key, made)
    return made
  }
  const fetchAs: Identified['fetchAs'] = async (id, role, path, init = {}) => {
    const headers = new Headers(init.headers)
    headers.set('Authorization', `Bearer ${await tokenOf(id, role)}`)
    return server.bare(path, { ...init, headers })
  }
  return {
    ...server,
    fetchAs,
    queryAs: (id, role, type, args) =>
      fetchAs(id, role, '/v1/query', { method: 'POST', body: JSON.stringify({ type, args }) }),
  }
}

tap.test('a user id that does not fit a column matches nothing', async (t) => {
  const server = await identified(t)
  await server.must('run_sql', {
    sql: `create extension if not exists citext;
      create domain small_number as integer check (value < 100);
      create domain short_text as varchar(5) check (value <> 'no')`,
  })
  for (const [index, [type, id, other, unfit]] of TYPES.entries()) {
    const schema = `s${index}`
    const text = (value: string) => `'${value.replaceAll("'", "''")}'`
    await server.must('run_sql', {
      sql: `create schema ${schema};
        create table ${schema}.doc (id int primary key, owner ${type});
        create table ${schema}.share (doc_id int references ${schema}.doc, who ${type});
        insert into ${schema}.doc values (1, ${text(id)}), (2, ${text(other)}), (3, null);
        insert into ${schema}.share values (1, ${text(other)}), (2, ${text(id)}), (2, ${text(other)})`,
    })
    const [doc, share] = ['doc', 'share'].map((name) => ({ schema, name })) as [object, object]
    const many = { foreign_key_constraint_on: { table: share, column: 'doc_id' } }
    const one = { foreign_key_constraint_on: 'doc_id' }
    const rules = Object.entries(RULES).map(([name, given], i) => {
      const rule = JSON.parse(JSON.stringify(given).replaceAll('"share"', JSON.stringify(share))) as object
      return { name, role: `role${i}`, rule }
    })
    await server.must('bulk', [
      { type: 'track_table', args: doc },
      { type: 'track_table', args: share },
      { type: 'create_array_relationship', args: { table: doc, name: 'shares', using: many } },
      { type: 'create_object_relationship', args: { table: share, name: 'doc', using: one } },
      ...rules.flatMap(({ role, rule: filter }) =>
        ['select', 'update', 'delete'].map((kind) => ({
          type: `create_${kind}_permission`,
          args: { table: doc, role, permission: { columns: kind === 'delete' ? undefined : ['id', 'owner'], filter } },
        })),
      ),
    ])
    for (const { name, role } of rules) {
      const ids = async (who: string) =>
        (await server.queryAs(who, role, 'select', { table: doc, columns: ['id'], order_by: ['id'] })).body
      await Promise.all(
        unfit.map(async (wrong) => {
          const where = { id: { $gt: 0 } }
          const [read, removed, changed] = await Promise.all([
            ids(wrong),
            server.queryAs(wrong, role, 'delete', { table: doc, where }),
            server.queryAs(wrong, role, 'update', { table: doc, where, $set: { owner: null } }),
          ])
          t.same([read, removed.body, changed.body], [[], NONE, NONE], `${type}, ${name}: ${wrong}`)
        }),
      )
      if (name === 'equals' || name === 'in') t.same(await ids(id), [{ id: 1 }], `${type}, ${name}: ${id}`)
      if (name === 'ne' || name === 'not in') t.same(await ids(id), [{ id: 2 }], `${type}, ${name}: ${id}`)
      if (name === 'relationship') t.same(await ids(id), [{ id: 2 }], `${type}, ${name}: ${id}`)
      if (name === 'not relationship' || name === 'count is 0')
        t.same(await ids(id), [{ id: 1 }, { id: 3 }], `${type}, ${name}: ${id}`)
    }
  }
})

const doc = (owner: string) => `create table doc (id serial primary key, owner ${owner}, text text)`
const rule = { owner: USER }

tap.test('a text id reads and writes by every API', async (t) => {
  for (const [type, id, other] of [
    ['uuid', UUID, OTHER],
    ['text', PLAIN, 'b'],
    ['citext', 'Bob', 'eve'],
    ['integer', '7', '8'],
  ] as const) {
    await t.test(type, async (t) => {
      const server = await identified(t)
      await server.must('run_sql', { sql: `create extension if not exists citext; ${doc(type)}` })
      const permission = { columns: '*', filter: rule }
      const write = { columns: ['text'], check: rule, set: rule }
      await server.must('bulk', [
        { type: 'track_table', args: 'doc' },
        { type: 'create_select_permission', args: { table: 'doc', role: 'user', permission } },
        { type: 'create_delete_permission', args: { table: 'doc', role: 'user', permission: { filter: rule } } },
        { type: 'create_insert_permission', args: { table: 'doc', role: 'user', permission: write } },
        {
          type: 'create_update_permission',
          args: { table: 'doc', role: 'user', permission: { columns: ['text'], filter: {}, set: rule } },
        },
        {
          type: 'create_query_template',
          args: { name: 'mine', template: { type: 'select', args: { table: 'doc', columns: ['owner'] } } },
        },
      ])
      const insert = { table: 'doc', objects: [{ text: 'x' }], returning: ['owner'] }
      const query = (type: string, args: unknown, who: string = id) => server.queryAs(who, 'user', type, args)
      const owner = type === 'integer' ? 7 : id

      t.match((await query('insert', insert)).body, { returning: [{ owner }] })
      await query('insert', insert, other)
      t.same((await query('select', { table: 'doc', columns: ['owner'] })).body, [{ owner }])
      t.same((await query('execute_query_template', { name: 'mine', args: {} })).body, [{ owner }])
      for (const path of ['/v1/graphql', '/v1alpha1/graphql']) {
        const body = JSON.stringify({ query: '{ doc { owner } }' })
        t.same((await server.fetchAs(id, 'user', path, { method: 'POST', body })).body, { data: { doc: [{ owner }] } })
      }
      const update = { table: 'doc', where: { id: 1 }, $set: { text: 'y' } }
      t.match((await query('update', update, other)).body, { affected_rows: 1 }, 'the preset is written')
      t.same((await query('select', { table: 'doc', columns: ['id'] })).body, [])
      t.match((await query('delete', { table: 'doc', where: {} }, other)).body, { affected_rows: 2 })

      if (type !== 'uuid' && type !== 'integer') return
      // Neither the name nor the type of a column that the role may not know.
      const message = 'X-Service-User-Id does not fit a column that the server sets'
      const refused = (path: string) => ({ status: 400, body: { path, error: message, code: 'parse-failed' } })
      t.match(await query('insert', insert, 'abc'), refused('$.args.objects'))
      t.match(await query('update', update, 'abc'), refused('$.args.$set'))
      const mutation = JSON.stringify({
        query: 'mutation { insert_doc(objects: [{text: "x"}]) { affected_rows } }',
      })
      const { body } = await server.fetchAs('abc', 'user', '/v1/graphql', { method: 'POST', body: mutation })
      t.match(body.errors, [{ message, extensions: { code: 'parse-failed' } }])
      t.notMatch(body.errors[0].extensions.path, /owner/)
    })
  }
})
