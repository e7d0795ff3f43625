import { once } from 'node:events'
import { connect } from 'node:net'
import tap from 'tap'
import { ADMIN_SECRET, type As, testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

tap.test('answers that are too much', async (t) => {
  const server = await testServer(t, {
    config: { database: { maxAnswerBytes: 1024 * 1024, streamPoolSize: 7, poolSize: 2 } },
  })
  await server.must('run_sql', {
    sql: `create table big (id int primary key, t text);
      insert into big select n, repeat('x', 300000) from generate_series(1, 20) n;
      create view huge as select b.id * 1000 + n as id, t from big b, generate_series(1, 30) n;
      create table small (id int primary key, p point, a text collate "C", b text collate "POSIX", j jsonb);
      insert into small values (1, '(1,1)', 'a', 'b', '{}');
      create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not today' using errcode = 'U0001'; end $$;
      create trigger refuse before update on small for each row execute function refuse();`,
  })
  for (const table of ['big', 'huge', 'small']) {
    await server.must('track_table', table)
    await server.must('create_select_permission', { table, role: 'user', permission: { columns: '*', filter: {} } })
  }
  const user: As = { role: 'user', variables: { 'x-service-user-id': '1' } }
  const select = (args: object, as?: As) => server.query('select', { table: 'big', columns: ['id', 't'], ...args }, as)

  await t.test('one that is held in memory is refused before it is; a stream of the same rows is not', async (t) => {
    t.match(await select({ limit: 20 }), {
      status: 400,
      body: { code: 'answer-too-large', error: /1 MiB \(database.maxAnswerBytes\)/ },
    })
    t.equal((await select({})).body.length, 20)
    t.equal((await select({ limit: 3 })).body.length, 3)
    await server.must('run_sql', { sql: `insert into big values (99, repeat('x', 2000000))` })
    t.match(await select({ where: { id: 99 } }), { status: 400, body: { code: 'answer-too-large' } })
    await server.must('delete', { table: 'big', where: { id: 99 } })
    t.equal((await select({ limit: 1 })).status, 200, 'and the server goes on')
  })

  await t.test('the answers of a bulk, of a mutation and of a batch are one answer', async (t) => {
    const three = { type: 'select', args: { table: 'big', columns: ['id', 't'], limit: 3 } }
    t.equal((await server.query('bulk', [three])).status, 200)
    t.match(await server.query('bulk', [three, three]), { status: 400, body: { code: 'answer-too-large' } })
    const graphql = (body: unknown) => server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify(body) })
    const query = { query: '{ big(limit: 3) { id t } }' }
    t.equal((await graphql([query])).status, 200)
    const tooLarge = { errors: [{ extensions: { code: 'answer-too-large' } }] }
    const { body: batch } = await graphql([
      query,
      query,
      { query: 'mutation { delete_big(where: {}) { affected_rows } }' },
    ])
    t.match(
      batch,
      [{ data: { big: Array } }, tooLarge, tooLarge],
      'those before have their answers, those behind do not run',
    )
    const update = (alias: string) => `${alias}: update_big(where: {id: {_lt: 4}}, _inc: {id: 0}) { returning { t } }`
    t.equal((await graphql({ query: `mutation { ${update('a')} }` })).body.errors, undefined)
    t.match((await graphql({ query: `mutation { ${update('a')} ${update('b')} }` })).body, {
      errors: [{ extensions: { code: 'answer-too-large' } }],
    })
  })

  const skip = PROCESSES > 1 && 'the limit holds for each process'
  await t.test('one caller leaves streams for the others', { skip }, async (t) => {
    const open = () => {
      const body = JSON.stringify({ type: 'select', args: { table: 'huge', columns: ['id', 't'] } })
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
      socket.write(
        `POST /v1/query HTTP/1.1\r\nhost: x\r\nx-service-admin-secret: ${ADMIN_SECRET}\r\nx-service-role: user\r\nx-service-user-id: 1\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      )
      socket.once('data', () => socket.pause())
      return socket
    }
    const sockets = [open(), open()]
    // Both have begun before anybody else asks.
    for (const socket of sockets) t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1.1 200/)
    await until('its share is used up', async () => (await select({}, user)).status === 429)
    t.equal((await select({})).status, 200)
    t.equal((await select({}, { ...user, variables: { 'x-service-user-id': '2' } })).status, 200)
    for (const socket of sockets) socket.destroy()
    await Promise.all(sockets.map((socket) => once(socket, 'close')))
    await until('its share is free again', async () => (await select({}, user)).status === 200)
  })

  await t.test('a bulk within a bulk counts', async (t) => {
    const members = Array.from({ length: 600 }, () => ({ type: 'count', args: { table: 'small' } }))
    const nested = [
      { type: 'bulk', args: members },
      { type: 'bulk', args: members },
    ]
    t.match((await server.query('bulk', nested)).body, { code: 'parse-failed', error: /at most 1000 members in total/ })
  })

  await t.test("what PostgreSQL refuses is the client's business", async (t) => {
    const where = (exp: object) => server.query('select', { table: 'small', columns: ['id'], where: exp }, user)
    t.match(await where({ a: { $clt: 'b' } }), { status: 400 })
    t.match(await where({ p: '(1,1)' }), { status: 400 })
    t.match(await server.query('update', { table: 'small', where: {}, $set: { a: 'x' } }), {
      status: 400,
      body: { error: /not today/ },
    })
    t.match(
      (await server.query('select', { table: 'small', columns: [{ name: 'x', alias: '', columns: ['id'] }] })).status,
      400,
    )
    t.match((await server.query('select', { table: 'small', columns: ['id'], order_by: { column: [] } })).body, {
      code: 'parse-failed',
      path: '$.args.order_by.column',
    })
    t.match((await server.query('delete', { table: 'small', where: {}, returning: ['id', 'id'] })).body, {
      code: 'unexpected-payload',
      path: '$.args.returning[1]',
    })
  })

  await t.test('a request that fails for good leaves what is compiled alone', async (t) => {
    await server.must('count', { table: 'small' })
    const compiled = async () => {
      const { text } = await server.fetch('/metrics')
      return Number(/rowhouse_compilations_total\{by="process"\} (\d+)/.exec(text)?.[1])
    }
    await server.query('select', { table: 'small', columns: ['id'], where: { p: '(1,1)' } }, user)
    const before = await compiled()
    await server.must('count', { table: 'small' })
    t.equal(await compiled(), before)
  })
})

tap.test('a type may not change under a relationship so that it can be compared no more', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: 'create table ra (id int primary key, k int); create table rb (k int primary key)',
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'ra' },
    { type: 'track_table', args: 'rb' },
    {
      type: 'create_object_relationship',
      args: {
        table: 'ra',
        name: 'b',
        using: { manual_configuration: { remote_table: 'rb', column_mapping: { k: 'k' } } },
      },
    },
    {
      type: 'create_select_permission',
      args: { table: 'ra', role: 'user', permission: { columns: '*', filter: { id: { $gt: 3 } } } },
    },
  ])
  const sql = async (text: string) => (await server.query('run_sql', { sql: text })).body
  t.match(await sql('alter table rb alter column k type text'), {
    code: 'dependency-error',
    error: /relationship ra.b/,
  })
  t.match(await sql('alter table rb alter column k type bigint'), { result_type: 'CommandOk' })
  t.match(await sql('alter table ra drop column id, add column id text'), {
    code: 'dependency-error',
    error: /permission ra.user.select/,
  })
})
