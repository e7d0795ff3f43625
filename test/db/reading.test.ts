import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'
import t, { type Test } from 'tap'
import { type Catalog, type CatalogData, type RolePermissions, tableKey } from '../../core/catalog/catalog.js'
import { readAll as readIn, type Reading } from '../../core/metadata/change.js'
import { inTransaction } from '../../core/db/database.js'
import { type Call, INTERNAL } from '../../core/index.js'
import type { BoolExp } from '../../core/ir.js'
import { generateStep, type Step, STEPS_METADATA, STEPS_SCHEMA } from '../kit/metadata-steps.js'
import { Random } from '../kit/oracle/generate.js'
import { LENT_DATA, lentData } from '../kit/lent-data.js'
import { cases } from '../kit/property.js'
import { testServer, type TestServer } from '../kit/server.js'

/** What is read and made again after a change is counted here. */

const STEPS = cases(60, 'ROWHOUSE_READING_STEPS')
const SEED = Number(process.env['ROWHOUSE_READING_SEED'] ?? 8)

const SCHEMA = `
create type mood as enum ('sad', 'glad');
create function one() returns int language sql immutable as 'select 1';
create table author (id int primary key, name text);
create table article (id int primary key, author_id int references author, title text);
create table note (id int primary key, mood mood, size int default one());
create view headline as select id, title from article;
create function shout(article) returns text language sql stable as 'select upper($1.title)'`

t.test('a reading takes from the one before what is still so', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SCHEMA })
  await server.must('bulk', [
    ...['author', 'article', 'note', 'headline'].map((table) => ({ type: 'track_table', args: table })),
    {
      type: 'create_object_relationship',
      args: { table: 'article', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    permission('article', { columns: '*', filter: { author: { name: 'Ann' } } }),
    permission('author', { columns: ['id'], filter: { id: 1 } }),
    permission('note', { columns: '*', filter: {} }),
    updating('article', { columns: ['title'], filter: { id: 2 }, check: { title: { $ne: 'x' } } }),
    permission('headline', { columns: '*', filter: { $exists: { _table: 'author', _where: { id: 3 } } } }),
    { type: 'add_computed_field', args: { table: 'article', name: 'loud', definition: { function: 'shout' } } },
    { type: 'set_table_customization', args: { table: 'headline', configuration: { custom_name: 'Headline' } } },
  ])
  const client = await connect(t, server)
  let before = await readAll(client)
  /** Names of the tables that were read again, and of those that were made again. */
  const readAgain = async () => {
    const now = await readAll(client, undefined, before)
    const fresh = await readAll(client)
    t.same(meaning(now), meaning(fresh), 'and it is what one finds who knows nothing')
    const names = {
      looked: [...now.found.tables].filter(([key, table]) => table !== before.found.tables.get(key)),
      said: [...now.metadata.tables].filter(([key, table]) => table !== before.metadata.tables.get(key)),
      made: now.data.tables.filter((table) => !before.data.tables.includes(table)).map((table) => [tableKey(table)]),
    }
    before = now
    return Object.fromEntries(Object.entries(names).map(([what, of]) => [what, of.map(([key]) => nameIn(key))]))
  }

  t.same(await readAgain(), { looked: [], said: [], made: [] }, 'nothing has changed')

  await client.query('alter table note add column more int')
  t.same(await readAgain(), { looked: ['note'], said: [], made: ['note'] }, 'a column')

  await client.query(`alter type mood rename to humour`)
  t.same(await readAgain(), { looked: ['note'], said: [], made: ['note'] }, 'a type')

  await client.query(`alter function one() rename to uno`)
  t.same(await readAgain(), { looked: ['note'], said: [], made: ['note'] }, 'the function of a default')

  await client.query(`update svc_catalog.svc_permission set comment = 'own rows' where table_name = 'note'`)
  t.same(await readAgain(), { looked: [], said: ['note'], made: [] }, 'a comment means nothing')

  await client.query(`update svc_catalog.svc_permission set perm_def = '{"columns": ["id", "name"], "filter": {"name": "Ann"}}'
    where table_name = 'author'`)
  t.same(await readAgain(), { looked: [], said: ['author'], made: ['author'] }, 'a permission concerns its own table')

  await client.query('alter table author alter name type varchar')
  t.same(
    await readAgain(),
    { looked: ['author'], said: [], made: ['article', 'author'] },
    'a permission is made again when a column of another table that it compares has changed',
  )

  await client.query('alter table author drop column name')
  t.same(await readAgain(), { looked: ['author'], said: [], made: ['article', 'author'] }, 'and when it has gone')
  t.match(before.data.inconsistent, [
    { object: 'permission article.user.select' },
    { object: 'permission author.user.select' },
  ])

  await client.query('drop table note')
  t.same(await readAgain(), { looked: [], said: [], made: [] }, 'a table that has gone is not there any more')
  t.match(before.data.inconsistent[2], { object: 'table note' })
})

t.test('filters stay where they are while nothing has changed', async (t) => {
  const server = await testServer(t, { builtins: LENT_DATA })
  await server.must('run_sql', { sql: SCHEMA })
  await server.must('bulk', [
    ...['author', 'article', 'note'].map((table) => ({ type: 'track_table', args: table })),
    // Made again with each reading, because names in GraphQL depend on those of all others.
    { type: 'set_table_customization', args: { table: 'article', configuration: { custom_name: 'Article' } } },
    updating('article', { columns: '*', filter: { id: 1 }, check: { id: 2 } }),
    permission('note', { columns: '*', filter: { id: 3 } }),
  ])
  await lentData().reload()
  const client = await connect(t, server)
  const one = await readAll(client)
  const two = await readAll(client, undefined, one)
  const three = await readAll(client, undefined, two)

  t.same(two.data.filters, one.data.filters, 'of a table that is made again beside one that is kept')
  for (const [i, reading] of [two, three].entries()) {
    t.ok(
      reading.data.tables.every((table, place) => table === one.data.tables[place]),
      `the tables are the same, reading ${i + 1}`,
    )
  }

  await client.query(`update svc_catalog.svc_permission set perm_def = '{"columns": "*", "filter": {"id": 4}}'
    where table_name = 'note'`)
  const changed = await readAll(client, undefined, three)
  t.same(
    changed.data.tables.filter((table) => !three.data.tables.includes(table)).map(({ name }) => name),
    ['note'],
    'those of other tables stay when one has changed',
  )
})

t.test('filters that no permission has any more are given back', async (t) => {
  const server = await testServer(t)
  const tables = Array.from({ length: 150 }, (_, i) => `t${i}`)
  await server.must('run_sql', { sql: tables.map((name) => `create table ${name} (id int primary key);`).join('') })
  await server.must('bulk', [
    ...tables.map((table) => ({ type: 'track_table', args: table })),
    ...tables.map((table, i) => permission(table, { columns: '*', filter: { id: i } })),
  ])
  const client = await connect(t, server)
  const all = await readAll(client)
  t.equal(new Set(all.data.filters).size, 150)

  await client.query(`delete from svc_catalog.svc_permission where table_name <> 't7'`)
  const few = await readAll(client, undefined, all)
  t.same(meaning(few), meaning(await readAll(client)))
  t.equal(few.data.filters.length, 1, 'when most of them are unused')
})

t.test('what could not be read in a transaction that is committed all the same is read later', async (t) => {
  const server = await testServer(t, { builtins: LENT_DATA })
  await server.must('run_sql', { sql: SCHEMA })
  await server.must('bulk', [
    { type: 'track_table', args: 'author' },
    { type: 'track_table', args: 'note' },
  ])
  const data = lentData()
  await data.transaction(CALL, async (call) => {
    const rename = data.runSql(call, false, (client) => client.query('alter table note rename size to extent'))
    await t.rejects(rename, { code: 'not-supported' })
    await data.alter(call, (edit) => edit.trackTable({ schema: 'public', name: 'article' }))
  })
  await server.must('untrack_table', { table: 'author' })

  t.match(await server.query('select', { table: 'note', columns: ['extent'] }), { status: 200 })
  const client = await connect(t, server)
  t.same(held(data.catalog), said((await readAll(client)).data))
})

t.test('a table that is changed while it is not tracked is looked at when it is tracked again', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SCHEMA })
  await server.must('track_table', 'note')
  const answers = await server
    .must('bulk', [
      { type: 'untrack_table', args: { table: 'note' } },
      { type: 'run_sql', args: { sql: 'alter table note add column more int' } },
      { type: 'track_table', args: 'note' },
      { type: 'select', args: { table: 'note', columns: ['more'] } },
    ])
    .catch(String)
  t.match(answers, [{}, {}, {}, []])
})

t.test('a table that comes back by SQL is there again', async (t) => {
  const server = await testServer(t, { builtins: LENT_DATA })
  await server.must('run_sql', { sql: SCHEMA })
  await server.must('bulk', [
    { type: 'track_table', args: 'note' },
    permission('note', { columns: '*', filter: { id: 1 } }),
  ])
  const client = await connect(t, server)
  await client.query('drop table note')
  await server.must('reload_metadata', {})
  t.same(
    lentData().catalog.inconsistent.map(({ object }) => object),
    ['table note', 'permission note.user.select'],
  )

  await server.must('run_sql', { sql: 'create table note (id int primary key)' })
  t.same(lentData().catalog.inconsistent, [])
  t.match(await server.query('select', { table: 'note', columns: ['id'] }, { role: 'user' }), { status: 200 })
})

t.test(
  `what a server holds is always what one finds who knows nothing, and can be told again (seed ${SEED})`,
  async (t) => {
    const server = await testServer(t, { builtins: LENT_DATA })
    await server.must('run_sql', { sql: STEPS_SCHEMA })
    await server.must('bulk', STEPS_METADATA)
    const client = await connect(t, server)
    const random = new Random(SEED)
    const counts = { done: 0, refused: 0, inconsistent: 0, told: 0 }
    const steps: string[] = []
    let known = await readAll(client)

    for (let i = 0; i < STEPS; i++) {
      const before = await exported(server)
      const step = generateStep(random, lentData().catalog)
      const error = await take(step, server, client)
      steps.push(`${JSON.stringify(step)} ${error ?? 'done'}`)
      counts[error === undefined ? 'done' : 'refused']++

      const fresh = await readAll(client)
      const next = await readAll(client, undefined, known)
      const again = await readAll(client, undefined, next)
      const { inconsistent } = lentData().catalog
      if (inconsistent.length > 0) counts.inconsistent++
      const told = inconsistent.length === 0 && 'type' in step && step.type !== 'untrack_table'
      if (told) counts.told++
      const pairs = [
        ['the server', held(lentData().catalog), said(fresh.data)],
        ['who knows the reading before', meaning(next), meaning(fresh)],
        ['who reads twice', again.data.filters, next.data.filters],
        ['who reads twice, tables', again.data.tables, next.data.tables],
        [
          'what is refused changes nothing',
          error !== undefined && 'type' in step ? await exported(server) : before,
          before,
        ],
        ['what is told again', told ? await toldAgain(server) : '', told ? await exported(server) : ''],
        ['what roles get', await wrongAnswers(server), []],
      ] as const
      for (const [who, found, wanted] of pairs) {
        if (isDeepStrictEqual(found, wanted)) continue
        t.strictSame(found, wanted, `${who} after ${steps.slice(-8).join('\n')}`)
        return
      }
      known = next
    }
    t.comment(JSON.stringify(counts))
    t.ok(counts.done > STEPS / 5 && counts.refused > STEPS / 5, 'the steps say something')
    t.ok(STEPS < 50 || (counts.inconsistent > 0 && counts.told > STEPS / 5), 'and find something')
  },
)

const exported = async (server: TestServer): Promise<string> => (await server.query('export_metadata', {})).text

/** Replaces the metadata by the server's own export, in a transaction that is rolled back. @returns the export after that, or the error */
async function toldAgain(server: TestServer): Promise<string> {
  const all = await exported(server)
  const again = await server.raw(
    `{"type":"bulk","args":[{"type":"replace_metadata","args":${all}},{"type":"export_metadata","args":{}}],"dry_run":true}`,
  )
  return again.status === 200 ? again.text.replace('[{"message":"success"},', '').replace(/\]$/, '') : again.text
}

/** Returns the errors of requests that need nothing but a permission to select. */
async function wrongAnswers(server: TestServer): Promise<readonly string[]> {
  const wrong: string[] = []
  for (const { name, permissionsByRole } of lentData().catalog.tables.values()) {
    for (const [role, { select }] of permissionsByRole) {
      if (!select) continue
      const as = { role, variables: { 'x-service-user-id': '1' } }
      const { status, text } = await server.query('select', { table: name, columns: select.columns }, as)
      if (status !== 200) wrong.push(`${role} ${name}: ${text}`)
    }
  }
  return wrong
}

/** @returns why it was refused */
async function take(step: Step, server: TestServer, client: pg.Client): Promise<string | undefined> {
  if ('outside' in step) {
    const failed = await client.query(step.outside).then(() => undefined, String)
    await server.must('reload_metadata', {})
    return failed
  }
  const { status, text } = await server.query(step.type, step.args)
  return status === 200 ? undefined : text
}

const CALL: Call = { session: INTERNAL, signal: new AbortController().signal, format: 'json' }

const updating = (table: string, definition: object) => ({
  type: 'create_update_permission',
  args: { table, role: 'user', permission: definition },
})

const permission = (table: string, definition: object) => ({
  type: 'create_select_permission',
  args: { table, role: 'user', permission: definition },
})

const nameIn = (key: unknown): string => String(key).replace(/^.*\0/, '')

/** What a snapshot says, wherever it keeps its filters and in whatever order it has what has names. */
function said({ tables, filters, version, templates, functions, inconsistent }: Omit<CatalogData, 'id'>) {
  const meant = tables.map((table) => ({
    ...table,
    relationships: byName(table.relationships),
    computedFields: byName(table.computedFields),
    permissions: new Map(table.permissions.map((each) => [each.role, withFilters(each, filters)])),
  }))
  return {
    version,
    // PostgreSQL orders the keys.
    templates: byName(templates.map((each) => ({ ...each, definition: JSON.parse(each.definition) as unknown }))),
    functions: byName(functions),
    // Only the server knows what templates mean.
    inconsistent: new Map(
      inconsistent
        .filter(({ object }) => !object.startsWith('query-template'))
        .map(({ object, reason }) => [object, reason]),
    ),
    tables: new Map(meant.map((each) => [tableKey(each), each])),
  }
}

const byName = <T extends { readonly name: string }>(all: readonly T[]) => new Map(all.map((each) => [each.name, each]))

/** The filters themselves in place of their places. */
function withFilters({ role, insert, select, update, delete: remove }: RolePermissions, filters: readonly BoolExp[]) {
  const at = (place: number | undefined) => place !== undefined && (filters[place] ?? 'nothing there')
  return {
    role,
    insert: insert && { ...insert, check: at(insert.check) },
    select: select && { ...select, filter: at(select.filter) },
    update: update && { ...update, filter: at(update.filter), check: at(update.check) },
    delete: remove && { filter: at(remove.filter) },
  }
}

const meaning = ({ data, metadata, found }: Reading) => ({
  ...said(data),
  metadata,
  found: { tables: found.tables, functions: found.functions },
})

/** The same of what a server holds, which has look-ups beside. */
const held = ({ tables, ...rest }: Catalog) =>
  said({
    ...rest,
    tables: [...tables.values()].map((table) => {
      const { columnsByName: _, relationshipsByName: __, computedByName: ___, permissionsByRole: ____, ...data } = table
      return data
    }),
  })

const readAll = (client: pg.Client, options?: undefined, known?: Reading): Promise<Reading> =>
  inTransaction(client, () => readIn(client, options, known), { mode: 'isolation level repeatable read read only' })

async function connect(t: Test, server: TestServer): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: server.databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

t.test('a bulk reads the tables that it tracks together, and again after run_sql', async (t) => {
  const { must, query } = await testServer(t)
  await must('run_sql', { sql: 'create table a (id int); create table b (id int)' })
  const track = (table: string) => ({ type: 'track_table', args: table })

  const failed = await query('bulk', [track('a'), track('b'), track('nope')])
  t.match(failed, { status: 400, body: { path: '$.args[2].args', code: 'not-exists' } })
  t.strictSame((await must('export_metadata', {})).tables, [])
  await must('bulk', [
    track('a'),
    { type: 'run_sql', args: { sql: 'alter table b add more int; create table c (id int)' } },
    track('b'),
    track('c'),
    { type: 'insert', args: { table: 'b', objects: [{ id: 1, more: 2 }] } },
  ])
  t.same(await must('select', { table: 'b', columns: ['*'] }), [{ id: 1, more: 2 }])
  t.match(await query('bulk', [track('a'), track('b')], { role: 'user' }), { body: { code: 'access-denied' } })
})
