import tap from 'tap'
import { type As, testServer } from '../kit/server.js'

tap.test('writes where PostgreSQL has its own ideas', async (t) => {
  const server = await testServer(t)
  const sql = (text: string) => server.must('run_sql', { sql: text })
  const track = (...tables: string[]) =>
    server.must(
      'bulk',
      tables.map((table) => ({ type: 'track_table', args: table })),
    )
  const permit = (type: string, table: string, permission: object) =>
    server.must(`create_${type}_permission`, { table, role: 'user', permission })
  const user: As = { role: 'user', variables: { 'x-service-user-id': '1' } }

  await t.test('a check is not passed by a row that a trigger has moved', async (t) => {
    await sql(`
      create table parent (id int primary key, owner int);
      insert into parent values (1, 1), (2, 2);
      create table child (pid int references parent, note text, n int default 0);
      create function bump() returns trigger language plpgsql as $$ begin update child set n = n + 1 where note = new.note; return null; end $$;
      create trigger bump after insert on child for each row execute function bump();`)
    await track('parent', 'child')
    await server.must('create_object_relationship', {
      table: 'child',
      name: 'parent',
      using: { foreign_key_constraint_on: 'pid' },
    })
    await permit('insert', 'child', { check: { parent: { owner: 'X-Service-User-Id' } } })
    t.match(await server.query('insert', { table: 'child', objects: [{ pid: 2, note: 'x' }] }, user), {
      status: 400,
      body: { error: /would not pass the/ },
    })
    t.same(await server.must('count', { table: 'child' }), { count: 0 })
  })

  await t.test('a row without a key that a trigger has changed is checked, returned and related', async (t) => {
    const own = { table: 'child', objects: [{ pid: 1, note: 'y' }] }
    t.same((await server.query('insert', own, user)).body, { affected_rows: 1 })
    const returning = ['note', 'n', { name: 'parent', columns: ['owner'] }]
    const made = { note: 'z', n: 1, parent: { owner: 2 } }
    const object = { note: 'z', parent: { data: { id: 3, owner: 2 } } }
    t.same(await server.must('insert', { table: 'child', objects: [{ pid: 2, note: 'z' }], returning }), {
      affected_rows: 1,
      returning: [made],
    })
    t.same(await server.must('insert', { table: 'child', objects: [{ ...object, note: 'v' }], returning }), {
      affected_rows: 2,
      returning: [{ ...made, note: 'v' }],
    })
  })

  await t.test('values that two relationships give a row are compared by their type', async (t) => {
    await sql(`create schema other; create extension if not exists citext schema other;
      create table price (n numeric, name other.citext, unique (n, name), id int primary key);
      create table cost (n numeric, name other.citext, unique (n, name), id int primary key);
      create table sale (id int primary key, n numeric, name other.citext)`)
    await track('price', 'cost', 'sale')
    for (const name of ['price', 'cost']) {
      const manual = { remote_table: name, column_mapping: { n: 'n', name: 'name' } }
      const using = { manual_configuration: manual }
      await server.must('create_object_relationship', { table: 'sale', name, using })
    }
    const add = (id: number, price: string, cost: string) =>
      server.raw(`{"type": "insert", "args": {"table": "sale", "objects": [
        {"id": ${id}, "price": {"data": {"id": ${id}, ${price}}}, "cost": {"data": {"id": ${id}, ${cost}}}}]}}`)
    for (const [i, [price, cost]] of [
      ['"n": 1.50, "name": "a"', '"n": 1.5, "name": "a"'],
      ['"n": -0, "name": "a"', '"n": 0.00, "name": "a"'],
      ['"n": "NaN", "name": "a"', '"n": "NaN", "name": "A"'],
    ].entries()) {
      t.match(await add(i, price as string, cost as string), { status: 200, body: { affected_rows: 3 } })
    }
    t.match(await add(9, '"n": 1.50, "name": "b"', '"n": 1.51, "name": "b"'), {
      status: 400,
      body: { path: '$.args.objects[0].cost', error: /another value/ },
    })
  })

  await t.test('a default does not decide about the type of the values beside it', async (t) => {
    await sql(
      'create table num (b int, code bigint default (random() * 1000000), n numeric default random(), t text default 5)',
    )
    await track('num')
    const objects = '[{"b": 1}, {"b": 2, "code": 9007199254740993, "n": 12345678901234567890.123456789, "t": "x"}]'
    const { text } = await server.raw(
      `{"type": "insert", "args": {"table": "num", "objects": ${objects}, "returning": ["code", "n", "t"]}}`,
    )
    t.match(text, /"code":9007199254740993,"n":12345678901234567890.123456789,"t":"x"/)
    t.match(text, /"t":"5"/)
  })

  await t.test('rows without keys', async (t) => {
    await sql('create table owned (owner int, note text); create view owned_view as select * from owned')
    await track('owned', 'owned_view')
    await permit('insert', 'owned', { check: {}, columns: ['note'], set: { owner: 'X-Service-User-Id' } })
    t.same((await server.query('insert', { table: 'owned', objects: [{}, {}] }, user)).body, { affected_rows: 2 })
    t.same(await server.must('select', { table: 'owned', columns: ['owner', 'note'] }), [
      { owner: 1, note: null },
      { owner: 1, note: null },
    ])
    t.match((await server.query('insert', { table: 'owned_view', objects: [{}] })).body, {
      code: 'unexpected-payload',
      path: '$.args.objects',
    })
  })

  await t.test('the default of a domain is a default', async (t) => {
    await sql('create domain five as int default 5; create table dom (a five, b int)')
    await track('dom')
    const { returning } = await server.must('insert', {
      table: 'dom',
      objects: [{ b: 1 }, { a: 2, b: 2 }],
      returning: ['a'],
    })
    t.same(returning, [{ a: 5 }, { a: 2 }])
  })

  await t.test('an upsert into a partitioned table by a role', async (t) => {
    await sql(
      'create table part (id int primary key, n int) partition by range (id); create table part_1 partition of part for values from (0) to (100)',
    )
    await track('part')
    await permit('insert', 'part', { check: { n: { $gt: 0 } }, allow_upsert: true })
    await permit('update', 'part', { columns: ['n'], filter: {}, check: { n: { $lt: 100 } } })
    await permit('select', 'part', { columns: '*', filter: {} })
    const upsert = (n: number) =>
      server.query(
        'insert',
        {
          table: 'part',
          objects: [{ id: 1, n }],
          on_conflict: { action: 'update', constraint_on: 'id' },
          returning: ['n'],
        },
        user,
      )
    t.same((await upsert(1)).body, { affected_rows: 1, returning: [{ n: 1 }] })
    t.same((await upsert(2)).body, { affected_rows: 1, returning: [{ n: 2 }] })
    t.equal((await upsert(0)).status, 400)
    t.equal((await upsert(100)).status, 400)
  })

  await t.test('rows with different keys come back as PostgreSQL has them', async (t) => {
    await sql('create table ident (id int generated by default as identity primary key, doc json, b int)')
    await track('ident')
    const objects = '[{"doc": {"b":1,"b": 2, "2":1.0,"1":2}}, {"id": 7, "b": 1}]'
    const answer = await server.raw(
      `{"type": "insert", "args": {"table": "ident", "objects": ${objects.replace('"b":1,', '')}, "returning": ["id", "doc", "b"]}}`,
    )
    t.equal(
      answer.text,
      '{"affected_rows":2,"returning":[{"id":1,"doc":{"b": 2, "2":1.0,"1":2},"b":null},{"id":7,"doc":null,"b":1}]}',
    )
    await sql(`insert into ident (id, doc) values (20, '{"b":1,"b":2}')`)
    const upsert = {
      table: 'ident',
      objects: [{ id: 20, b: 5 }, { id: 21 }],
      on_conflict: { action: 'update', constraint_on: 'id' },
      returning: ['doc'],
    }
    t.equal(
      (await server.query('insert', upsert)).text,
      '{"affected_rows":2,"returning":[{"doc":{"b":1,"b":2}},{"doc":null}]}',
    )
  })

  await t.test('who may not upsert learns nothing about constraints', async (t) => {
    await sql('create table pr (id int primary key, secret int constraint pr_secret_key unique)')
    await track('pr')
    await permit('insert', 'pr', { check: {}, columns: ['id'] })
    const ask = async (constraint: string) =>
      (
        await server.query(
          'insert',
          { table: 'pr', objects: [{ id: 1 }], on_conflict: { action: 'ignore', constraint } },
          user,
        )
      ).body
    t.same(await ask('pr_secret_key'), await ask('nope'))
  })

  await t.test('a relationship name that is too long is refused wherever it comes from', async (t) => {
    const metadata = await server.must('export_metadata', {})
    const table = metadata.tables.find((each: { table: string }) => each.table === 'child')
    table.object_relationships.push({ name: 'x'.repeat(256), using: { foreign_key_constraint_on: 'pid' } })
    t.match((await server.query('replace_metadata', metadata)).body, { code: 'parse-failed', error: /255 bytes/ })
  })

  await t.test('elements of an array have its type', async (t) => {
    await sql('create table lists (id int primary key, t text[], n int[][])')
    await track('lists')
    const insert = (row: object) => server.query('insert', { table: 'lists', objects: [{ id: 1 }, row] })
    t.match((await insert({ id: 2, t: ['a', 1] })).body, { code: 'parse-failed', path: '$.args.objects[1].t[1]' })
    t.match((await insert({ id: 2, t: [true] })).body, { code: 'parse-failed', path: '$.args.objects[1].t[0]' })
    t.match((await insert({ id: 2, n: [[1], ['x']] })).status, 400)
    t.same(
      (
        await insert({
          id: 2,
          t: ['a', null],
          n: [
            [1, 2],
            [3, null],
          ],
        })
      ).body,
      { affected_rows: 2 },
    )
    t.same(await server.must('select', { table: 'lists', columns: ['t', 'n'], where: { id: 2 } }), [
      {
        t: ['a', null],
        n: [
          [1, 2],
          [3, null],
        ],
      },
    ])
  })

  await t.test('JSON in CSV is JSON', async (t) => {
    await sql(
      `create table doc (id int primary key, j jsonb); insert into doc values (1, 'null'), (2, '"abc"'), (3, null), (4, '{"a": 1}')`,
    )
    await track('doc')
    const { text } = await server.raw(
      '{"type": "select", "args": {"table": "doc", "columns": ["j"], "order_by": ["id"]}}',
      {},
      { accept: 'text/csv' },
    )
    t.equal(text, 'j\r\nnull\r\n"""abc"""\r\n\r\n"{""a"": 1}"\r\n')
  })
})
