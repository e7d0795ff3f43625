import type { Test } from 'tap'
import { area, type Case, exactly, query, refused, type Step } from '../kit/promises.js'
import { openEvents as open, type EventClient as Client } from '../kit/events.js'
import { type As, type TestServer, testServer } from '../kit/server.js'

/** What live queries promise. */
const PROMISES = {
  'open.answer': 'a stream begins with the whole answer of each query, under its name',
  'open.roles': 'each caller gets what its role may read',
  'open.refused': 'what is no read, or not allowed, or wrong is refused with its path before the stream begins',
  'open.limit': 'a caller has at most `maxQueriesPerCaller` live queries',
  'open.known': 'a client that sends the last event id gets only the answers that it does not have',
  'change.writes': 'any write sends the new answer: of the API, of SQL, of a cascade',
  'change.related': 'so does a change of a table that only a relationship, a condition or a permission reads',
  'change.same': 'an answer that is the same is not sent again',
  'change.others': 'a change of rows that lead to no value of a query does not even read it',
  'change.rolled-back': 'what is rolled back sends nothing, and what is open for long is sent after its commit',
  'change.truncate': 'truncate sends the new answer',
  'change.partitions': 'writes to a partition by its own name send the new answer',
  'change.count': 'counts and templates are live, too',
  'change.view': 'a view is live if the tables below it are, and its query depends on nothing else',
  'polled.said': 'a query that also depends on what is not live is read at intervals, and the stream says so',
  'metadata.refused': 'a caller who loses the right gets the error, and the stream ends',
  'metadata.widened': 'a changed permission changes the answer',
  'error.later': 'a query that fails later sends its error, and the stream goes on',
  'template.events': 'GET of a template with Accept: text/event-stream is a stream, too',
  'set.off': 'set_table_live {live: false} drops the triggers',
  'set.admin': 'only admin sets it',
  'end.closing': 'a server that stops ends its streams first, so that their clients go to another one',
} as const

const SQL = `
create table author (id int primary key, name text, tenant text);
create table post (id int primary key, author_id int references author on delete cascade, title text, n int);
create table still (id int primary key, text text);
create table part (id int primary key, text text) partition by range (id);
create table part_1 partition of part for values from (0) to (100);
create view posts as select * from post;
insert into author values (1, 'Ana', 'a'), (2, 'Ben', 'b');
insert into post values (1, 1, 'one', 1), (2, 2, 'two', 0);
insert into still values (1, 'x');`

const A: As = { role: 'user', variables: { 'x-service-tenant': 'a', 'x-service-user-id': 'ana' } }
const B: As = { role: 'user', variables: { 'x-service-tenant': 'b', 'x-service-user-id': 'ben' } }

const live = (server: TestServer, queries: object, as?: As, headers: Record<string, string> = {}): Promise<Client> =>
  open(server, '/v1/live', { method: 'POST', body: JSON.stringify(queries), headers }, as)
const select = (table: string, columns: readonly unknown[], more: object = {}) => ({
  type: 'select',
  args: { table, columns, order_by: ['id'], ...more },
})
const POSTS = select('post', ['id', 'title'])
const body = (queries: unknown, expected: Step['expected'], as?: As): Step => ({
  path: '/v1/live',
  method: 'POST',
  body: JSON.stringify(queries),
  expected,
  ...(as ? { as } : {}),
})
const rest = (ms = 400) => new Promise((resolve) => setTimeout(resolve, ms))

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'open.answer': async (t, server) => {
    const client = await live(server, { posts: POSTS, n: { type: 'count', args: { table: 'author' } } })
    await client.has(
      t,
      'posts',
      [
        { id: 1, title: 'one' },
        { id: 2, title: 'two' },
      ],
      'rows',
    )
    await client.has(t, 'n', { count: 2 }, 'a count')
    t.equal(client.count('polled'), 0)
    client.close()
  },
  'open.roles': async (t, server) => {
    const [a, b] = await Promise.all([live(server, { posts: POSTS }, A), live(server, { posts: POSTS }, B)])
    await a.has(t, 'posts', [{ id: 1, title: 'one' }], 'of a')
    await b.has(t, 'posts', [{ id: 2, title: 'two' }], 'of b')
    await server.sql(`insert into post values (3, 1, 'three', 0)`)
    await a.has(
      t,
      'posts',
      [
        { id: 1, title: 'one' },
        { id: 3, title: 'three' },
      ],
      'of a again',
    )
    await rest()
    t.equal(b.count('posts'), 1, 'b hears nothing of it')
    a.close()
    b.close()
    await server.sql('delete from post where id = 3')
  },
  'open.refused': [
    body({}, refused('parse-failed', /queries by name/)),
    body([], refused('parse-failed', /queries by name/)),
    body({ end: POSTS }, refused('parse-failed', /name/)),
    body({ 'a b': POSTS }, refused('parse-failed', /name/)),
    body({ a: { type: 'delete', args: { table: 'post', where: {} } } }, refused('not-supported', /only reads/, '$.a')),
    body({ a: { type: 'run_sql', args: { sql: 'select 1' } } }, refused('not-supported', /run_sql/)),
    body({ a: { type: 'run_sql', args: { sql: 'select 1' } } }, refused('access-denied', /./), A),
    body({ a: { type: 'nothing', args: {} } }, { status: 400, like: { path: /^\$\.a/ } }),
    body({ a: select('nothing', ['id']) }, refused('not-exists', /nothing/, '$.a.args.table')),
    body({ a: POSTS, b: select('still', ['id']) }, refused('permission-denied', /still/, '$.b.args.table'), A),
    query('select', { table: 'post', columns: ['id'] }, exactly([{ id: 1 }, { id: 2 }])),
  ],
  'open.limit': async (t, server) => {
    const many = Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`q${i}`, POSTS]))
    const client = await live(server, many, A)
    await t.rejects(live(server, many, A), /too-many-requests/)
    const other = await live(server, many, B)
    client.close()
    let again: Client | undefined
    for (let tries = 0; tries < 100 && !again; tries++) {
      await rest(100)
      again = await live(server, many, A).catch(() => undefined)
    }
    t.ok(again, 'and others when those are closed')
    other.close()
    again?.close()
  },
  'open.known': async (t, server) => {
    const queries = { posts: POSTS, n: { type: 'count', args: { table: 'author' } } }
    const first = await live(server, queries)
    await first.has(t, 'n', { count: 2 }, 'a count')
    await first.has(
      t,
      'posts',
      [
        { id: 1, title: 'one' },
        { id: 2, title: 'two' },
      ],
      'rows',
    )
    const id = first.events.at(-1)?.id ?? ''
    first.close()
    await server.sql(`insert into author values (3, 'Cy', 'c')`)
    const second = await live(server, queries, undefined, { 'last-event-id': id })
    await second.has(t, 'n', { count: 3 }, 'what changed meanwhile')
    t.equal(second.count('posts'), 0, 'and not what it has')
    second.close()
    await server.sql('delete from author where id = 3')
  },
  'change.writes': async (t, server) => {
    const client = await live(server, { posts: select('post', ['id', 'title']) })
    const two = { id: 2, title: 'two' }
    await client.has(t, 'posts', [{ id: 1, title: 'one' }, two], 'at first')
    await server.must('update', { table: 'post', where: { id: 1 }, $set: { title: 'uno' } })
    await client.has(t, 'posts', [{ id: 1, title: 'uno' }, two], 'after the API')
    await server.sql(`update post set title = 'one' where id = 1`)
    await client.has(t, 'posts', [{ id: 1, title: 'one' }, two], 'after SQL')
    await server.sql(`insert into author values (4, 'Dee', 'd'); insert into post values (4, 4, 'four', 0)`)
    await client.has(t, 'posts', [{ id: 1, title: 'one' }, two, { id: 4, title: 'four' }], 'after an insert')
    await server.must('delete', { table: 'author', where: { id: 4 } })
    await client.has(t, 'posts', [{ id: 1, title: 'one' }, two], 'after a cascade')
    client.close()
  },
  'change.related': async (t, server) => {
    const client = await live(
      server,
      {
        names: select('post', ['id', { name: 'author', columns: ['name'] }]),
        some: select('post', ['id'], { where: { author: { name: 'Ana' } } }),
        posts: POSTS,
      },
      A,
    )
    await client.has(t, 'names', [{ id: 1, author: { name: 'Ana' } }], 'at first')
    await server.sql(`update author set name = 'Anna' where id = 1`)
    await client.has(t, 'names', [{ id: 1, author: { name: 'Anna' } }], 'a relationship')
    await client.has(t, 'some', [], 'a condition')
    await server.sql(`update author set tenant = 'b', name = 'Ana' where id = 1`)
    await client.has(t, 'posts', [], 'a permission')
    await server.sql(`update author set tenant = 'a' where id = 1`)
    await client.has(t, 'some', [{ id: 1 }], 'and back')
    client.close()
  },
  'change.same': async (t, server) => {
    const client = await live(server, { posts: POSTS })
    await client.has(
      t,
      'posts',
      [
        { id: 1, title: 'one' },
        { id: 2, title: 'two' },
      ],
      'at first',
    )
    await server.sql('update post set n = n + 1')
    await server.sql('update post set n = 1 where id = 99')
    await rest()
    t.equal(client.count('posts'), 1)
    client.close()
  },
  'change.others': async (t, server) => {
    const metric = async (name: string) =>
      [
        ...(await server.fetch('/metrics')).text.matchAll(
          new RegExp(`^rowhouse_live_${name}(?:\\{.*\\})? (\\d+)$`, 'gm'),
        ),
      ].reduce((sum, [, count]) => sum + Number(count), 0)
    const readings = () => metric('reads_total')
    /** Waits until clients of before are gone, and everything has been read. */
    const settled = async (): Promise<number> => {
      for (let tries = 0, before = -1; tries < 50; tries++) {
        const now = await readings()
        if (now === before && (await metric('streams')) === 2) return now
        before = now
        await rest()
      }
      return -1
    }
    const one = { where: { id: 1 } }
    const client = await live(server, {
      key: select('author', ['name', { name: 'posts', columns: ['title'], order_by: ['id'] }], one),
      list: select('post', ['title'], { where: { id: { $in: [1, 50] } } }),
      below: select('post', ['id'], { where: { author: { id: 1, name: 'Ana' } } }),
    })
    const mine = await live(server, { posts: POSTS }, A)
    await client.has(t, 'below', [{ id: 1 }], 'at first')
    await mine.has(t, 'posts', [{ id: 1, title: 'one' }], 'at first')
    const before = await settled()
    await server.sql(`
      update author set name = 'Bea', tenant = 'c' where id = 2; update author set name = 'Ben', tenant = 'b' where id = 2;
      insert into post select g, 2, 'other', 0 from generate_series(51, 90) g; delete from post where id > 50`)
    await rest()
    t.equal(await readings(), before)
    await server.sql(`update post set author_id = 1, id = 50 where id = 2`)
    await client.has(t, 'key', [{ name: 'Ana', posts: [{ title: 'one' }, { title: 'two' }] }], 'a relationship')
    await client.has(t, 'list', [{ title: 'one' }, { title: 'two' }], 'a list')
    await client.has(t, 'below', [{ id: 1 }, { id: 50 }], 'a condition')
    await mine.has(
      t,
      'posts',
      [
        { id: 1, title: 'one' },
        { id: 50, title: 'two' },
      ],
      'a permission',
    )
    await server.sql(`update post set author_id = 2, id = 2 where id = 50`)
    await client.has(t, 'key', [{ name: 'Ana', posts: [{ title: 'one' }] }], 'and back')
    client.close()
    mine.close()
  },
  'change.rolled-back': async (t, server) => {
    const client = await live(server, { posts: POSTS })
    const [one, two] = [
      { id: 1, title: 'one' },
      { id: 2, title: 'two' },
    ]
    await client.has(t, 'posts', [one, two], 'at first')
    await server.sql(`begin; insert into post values (5, 1, 'five', 0); rollback`)
    const long = server.sql(`begin; insert into post values (6, 1, 'six', 0); select pg_sleep(1.5); commit`)
    await rest(300)
    await server.sql(`insert into post values (7, 1, 'seven', 0)`)
    await client.has(t, 'posts', [one, two, { id: 7, title: 'seven' }], 'a later one that commits first')
    await long
    await client.has(t, 'posts', [one, two, { id: 6, title: 'six' }, { id: 7, title: 'seven' }], 'and the long one')
    await server.sql('delete from post where id > 2')
    await client.has(t, 'posts', [one, two], 'and back')
    client.close()
  },
  'change.truncate': async (t, server) => {
    const client = await live(server, { part: select('part', ['id', 'text']) })
    await client.has(t, 'part', [], 'at first')
    await server.sql(`insert into part values (1, 'a')`)
    await client.has(t, 'part', [{ id: 1, text: 'a' }], 'an insert')
    await server.sql('truncate part')
    await client.has(t, 'part', [], 'truncate')
    client.close()
  },
  'change.partitions': async (t, server) => {
    const client = await live(server, { part: select('part', ['id', 'text']) })
    await client.has(t, 'part', [], 'at first')
    await server.sql(`insert into part_1 values (2, 'b')`)
    await client.has(t, 'part', [{ id: 2, text: 'b' }], 'an insert into a partition')
    await server.must('run_sql', { sql: 'create table part_2 partition of part for values from (100) to (200)' })
    await server.sql(`insert into part_2 values (100, 'c')`)
    await client.has(
      t,
      'part',
      [
        { id: 2, text: 'b' },
        { id: 100, text: 'c' },
      ],
      'a new partition',
    )
    client.close()
  },
  'change.count': async (t, server) => {
    const client = await live(server, {
      n: { type: 'count', args: { table: 'post', where: { n: { $gt: 100 } } } },
      one: { type: 'execute_query_template', args: { name: 'one', args: { id: 1 } } },
      nulls: select('post', ['id'], { where: { id: { $in: [1, null] } } }),
    })
    await client.has(t, 'nulls', [{ id: 1 }], 'a list with null')
    await client.has(t, 'n', { count: 0 }, 'a count')
    await client.has(t, 'one', [{ title: 'one' }], 'a template')
    await server.sql(`update post set n = 101, title = 'I' where id = 1`)
    await client.has(t, 'n', { count: 1 }, 'a count')
    await client.has(t, 'one', [{ title: 'I' }], 'a template')
    await server.sql(`update post set n = 1, title = 'one' where id = 1`)
    client.close()
  },
  'change.view': async (t, server) => {
    await server.sql(`create view tops as select p.title, a.name from posts p join author a on a.id = p.author_id;
      create view nows as select now() > '2000-01-01' as now, count(*) as n from post;
      create view dates as select current_date > '2000-01-01' as now from post`)
    await server.must(
      'bulk',
      ['tops', 'nows', 'dates'].map((args) => ({ type: 'track_table', args })),
    )
    const of = (table: string, column: string) => ({ type: 'select', args: { table, columns: [column] } })
    const client = await live(server, {
      tops: of('tops', 'title'),
      nows: of('nows', 'n'),
      dates: of('dates', 'now'),
      view: select('posts', ['title']),
    })
    await client.has(t, 'polled', { queries: ['nows', 'dates'], ms: 300 }, 'which')
    await client.has(t, 'view', [{ title: 'one' }, { title: 'two' }], 'at first')
    await server.sql(`update author set name = 'Bea' where id = 2; update post set title = 'ii' where id = 2`)
    await client.has(t, 'tops', [{ title: 'one' }, { title: 'ii' }], 'later')
    await client.has(t, 'view', [{ title: 'one' }, { title: 'ii' }], 'later')
    await server.sql(`update author set name = 'Ben' where id = 2; update post set title = 'two' where id = 2`)
    client.close()
  },
  'polled.said': async (t, server) => {
    const client = await live(server, {
      still: select('still', ['text']),
      view: select('posts', ['title']),
      posts: POSTS,
    })
    await client.has(t, 'polled', { queries: ['still'], ms: 300 }, 'which')
    await client.has(t, 'still', [{ text: 'x' }], 'at first')
    await server.sql(`update still set text = 'y'; update post set title = 'ii' where id = 2`)
    await client.has(t, 'still', [{ text: 'y' }], 'later')
    await client.has(t, 'view', [{ title: 'one' }, { title: 'ii' }], 'later')
    await server.sql(`update still set text = 'x'; update post set title = 'two' where id = 2`)
    client.close()
  },
  'metadata.refused': async (t, server) => {
    const client = await live(server, { posts: POSTS }, A)
    await client.has(t, 'posts', [{ id: 1, title: 'one' }], 'at first')
    await server.must('drop_select_permission', { table: 'post', role: 'user' })
    await client.has(t, 'end', { code: 'changed' }, 'the end')
    t.match(client.last('posts'), { error: { code: 'permission-denied', path: '$.args.table' } })
    await server.must('create_select_permission', PERMISSION)
  },
  'metadata.widened': async (t, server) => {
    const client = await live(server, { posts: POSTS }, A)
    await client.has(t, 'posts', [{ id: 1, title: 'one' }], 'at first')
    await server.must('bulk', [
      { type: 'drop_select_permission', args: { table: 'post', role: 'user' } },
      {
        type: 'create_select_permission',
        args: { ...PERMISSION, permission: { columns: ['id', 'title'], filter: {} } },
      },
    ])
    await client.has(
      t,
      'posts',
      [
        { id: 1, title: 'one' },
        { id: 2, title: 'two' },
      ],
      'more rows',
    )
    await server.must('bulk', [
      { type: 'drop_select_permission', args: { table: 'post', role: 'user' } },
      { type: 'create_select_permission', args: PERMISSION },
    ])
    await client.has(t, 'posts', [{ id: 1, title: 'one' }], 'and fewer')
    client.close()
  },
  'error.later': async (t, server) => {
    await server.sql('update post set n = 10 where id = 1; update post set n = 1 where id = 2')
    const wrong = await live(server, { a: select('post', ['id'], { where: { id: 'x' } }), posts: POSTS })
    for (let tries = 0; tries < 300 && wrong.count('a') === 0; tries++) await rest(20)
    t.match(wrong.last('a'), { error: { path: /^\$/, code: /./, error: /integer/ } })
    wrong.close()
    const client = await live(server, { quotient: select('quotient', ['q']), posts: POSTS })
    await client.has(t, 'quotient', [{ q: 1 }, { q: 10 }], 'at first')
    await server.sql('update post set n = 0 where id = 1')
    for (let tries = 0; tries < 300 && !(client.last('quotient') as { error?: object }).error; tries++) await rest(20)
    t.match(client.last('quotient'), { error: { path: '$', code: /./, error: /zero/ } })
    await server.sql(`update post set n = 5, title = 'I' where id = 1`)
    await client.has(t, 'quotient', [{ q: 2 }, { q: 10 }], 'again')
    await client.has(
      t,
      'posts',
      [
        { id: 1, title: 'I' },
        { id: 2, title: 'two' },
      ],
      'the others too',
    )
    await server.sql(`update post set n = 10, title = 'one' where id = 1`)
    client.close()
  },
  'template.events': async (t, server) => {
    const client = await open(server, '/v1/template/one?id=1', { headers: { accept: 'text/event-stream' } })
    await client.has(t, 'message', [{ title: 'one' }], 'at first')
    await server.sql(`update post set title = 'I' where id = 1`)
    await client.has(t, 'message', [{ title: 'I' }], 'later')
    await server.sql(`update post set title = 'one' where id = 1`)
    client.close()
  },
  'set.off': async (t, server) => {
    const count = async () =>
      (await server.sql(`select count(*) from pg_trigger where tgrelid = 'part'::regclass and not tgisinternal`))
        .result[1]
    t.same(await count(), ['4'])
    await server.must('set_table_live', { table: 'part', live: false })
    t.same(await count(), ['0'])
  },
  'set.admin': [
    query('set_table_live', { table: 'post', live: false }, refused('access-denied', /./), A),
    query('set_table_live', { table: 'posts', live: true }, refused('unexpected-payload', /view/)),
    query(
      'set_table_live',
      { table: 'post', live: true, columns: ['id', 'x'] },
      refused('not-exists', /column "x" of "post"/, '$.args.columns[1]'),
    ),
  ],
  'end.closing': async (t, server) => {
    const client = await live(server, { posts: POSTS })
    const closed = server.close()
    await client.has(t, 'end', { code: 'closing' }, 'the end')
    await closed
  },
}

const PERMISSION = {
  table: 'post',
  role: 'user',
  permission: { columns: ['id', 'title'], filter: { author: { tenant: 'X-Service-Tenant' } } },
}

/** Its promises, with a case for each. */
export const liveQueries = area('live', { promises: PROMISES, cases: CASES, start })

async function start(t: Test) {
  const builtin = (name: string) => new URL(`../../plugins/${name}/index.js`, import.meta.url)
  const server = await testServer(t, {
    builtins: { live: builtin('live'), template: builtin('template') },
    config: { plugins: { live: { pollMs: 300, maxQueriesPerCaller: 8 } } },
  })
  await server.sql(SQL)
  await server.sql('create view quotient as select id, 10 / n as q from post where n is not null')
  await server.sql('update post set n = 10 where id = 1; update post set n = 1 where id = 2')
  await server.must('bulk', [
    ...['author', 'post', 'still', 'part', 'posts', 'quotient'].map((args) => ({ type: 'track_table', args })),
    { type: 'set_table_live', args: { table: 'author', live: true, columns: ['tenant'] } },
    ...['post', 'part'].map((table) => ({ type: 'set_table_live', args: { table, live: true } })),
    {
      type: 'create_object_relationship',
      args: { table: 'post', name: 'author', using: { foreign_key_constraint_on: 'author_id' } },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'author',
        name: 'posts',
        using: { foreign_key_constraint_on: { table: 'post', column: 'author_id' } },
      },
    },
    { type: 'create_select_permission', args: PERMISSION },
    {
      type: 'create_select_permission',
      args: { table: 'author', role: 'user', permission: { columns: ['name'], filter: {} } },
    },
    {
      type: 'create_query_template',
      args: {
        name: 'one',
        template: { type: 'select', args: { table: 'post', columns: ['title'], where: { id: { param: 'id' } } } },
      },
    },
  ])
  return server
}
