import tap from 'tap'
import { type Answered, type As, testServer, type TestServer } from '../kit/server.js'

const SCHEMA = `
  create table team (id int primary key, name text);
  insert into team values (1, 'a'), (2, 'b');
  create table note (id int primary key, team_id int references team, text text, secret text, rev int not null default 1);
  create function bump() returns trigger language plpgsql as $$ begin new.rev := old.rev + 1; return new; end $$;
  create trigger bump before update on note for each row execute function bump();
  create table counter (id int primary key, n int not null);
  create table part (id int, kind int, text text, primary key (id, kind)) partition by list (kind);
  create table part_1 (extra int, id int not null, kind int not null, text text);
  alter table part_1 drop column extra;
  alter table part attach partition part_1 for values in (1);
  create table part_2 partition of part for values in (2);
  create table plain (id int primary key, text text)`
const FILL = `
  truncate note, counter, part, plain;
  insert into note (id, team_id, text, secret) values (1, 1, 'one', 's'), (2, 2, 'two', 's'), (3, 1, 'three', 's');
  insert into counter values (1, 0);
  insert into part values (1, 1, 'a'), (1, 2, 'b');
  insert into plain values (1, 'a')`

const ofTeam = { team_id: 'X-Service-Team-Id' }
const USER: As = { role: 'user', variables: { 'x-service-team-id': '1' } }
/** May not see the column of the version. */
const BLIND: As = { ...USER, role: 'blind' }

async function notes(t: { teardown(fn: () => Promise<void>): unknown }): Promise<TestServer> {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SCHEMA })
  for (const table of ['team', 'note', 'counter', 'part', 'plain']) await server.must('track_table', table)
  const using = { foreign_key_constraint_on: 'team_id' }
  await server.must('create_object_relationship', { table: 'note', name: 'team', using })
  const many = { foreign_key_constraint_on: { table: 'note', column: 'team_id' } }
  await server.must('create_array_relationship', { table: 'team', name: 'notes', using: many })
  await server.must('set_table_version', { table: 'note', column: 'rev' })
  for (const table of ['counter', 'part']) await server.must('set_table_version', { table, column: 'xmin' })
  for (const role of ['user', 'blind']) {
    const columns = ['id', 'team_id', 'text', ...(role === 'user' ? ['rev'] : [])]
    await server.must('create_select_permission', { table: 'note', role, permission: { columns, filter: ofTeam } })
    await server.must('create_update_permission', {
      table: 'note',
      role,
      permission: { columns: ['text'], filter: { ...ofTeam, id: { $ne: 3 } } },
    })
    await server.must('create_delete_permission', { table: 'note', role, permission: { filter: ofTeam } })
    await server.must('create_select_permission', { table: 'team', role, permission: { columns: '*', filter: {} } })
  }
  const id = { id: { param: 'id' } }
  const expect = { version: { param: 'rev' } }
  const templates = {
    note: { type: 'select', args: { table: 'note', columns: ['id', 'text'], where: id } },
    note_and_team: {
      type: 'select',
      args: { table: 'note', columns: ['id', { name: 'team', columns: ['name'] }], where: id },
    },
    set_text: { type: 'update', args: { table: 'note', where: id, $set: { text: { param: 'text' } } } },
    set_text_of: { type: 'update', args: { table: 'note', where: id, expect, $set: { text: { param: 'text' } } } },
    remove: { type: 'delete', args: { table: 'note', where: id } },
    both: { type: 'bulk', args: [{ type: 'delete', args: { table: 'note', where: id } }] },
  }
  for (const [name, template] of Object.entries(templates))
    await server.must('create_query_template', { name, template })
  return server
}

const select = (id: number, table = 'note') => ({ table, columns: ['id', 'text'], where: { id } })
const update = (id: number, version: unknown, text = 'new') => ({
  table: 'note',
  where: { id },
  expect: { version },
  $set: { text },
})
const remove = (id: number, version: unknown) => ({ table: 'note', where: { id }, expect: { version } })
/** Sends a query with headers. */
const send = (server: TestServer, type: string, args: unknown, headers: Record<string, string>, as?: As) =>
  server.fetch('/v1/query', { method: 'POST', body: JSON.stringify({ type, args }), headers }, as)
const etag = ({ headers }: Answered) => headers.get('ETag')
const said = ({ status, body }: Answered) => [status, body.code ?? body, body.path]

tap.test('row versions', async (t) => {
  const server = await notes(t)
  const must = (type: string, args: unknown) => server.must(type, args)
  t.beforeEach(async () => {
    await must('run_sql', { sql: FILL })
  })
  const textOf = async (id: number) => (await must('select', select(id)))[0]?.text

  await t.test('a select by primary key answers with the version as ETag', async (t) => {
    for (const as of [undefined, USER]) {
      for (let i = 0; i < 4; i++) {
        const found = await server.query('select', select(1), as)
        t.same([found.status, etag(found), found.text], [200, '"1"', '[{"id":1,"text":"one"}]'])
      }
    }
    await must('update', update(1, '1'))
    t.equal(etag(await server.query('select', select(1))), '"2"')
    const related = { ...select(1), columns: ['id', { name: 'team', columns: ['name'] }] }
    t.equal(etag(await server.query('select', related, USER)), '"2"')
    t.same((await server.query('select', related, USER)).body, [{ id: 1, team: { name: 'a' } }])
    const other = [
      { ...select(1), where: { id: 1, text: 'new' } },
      { ...select(1), where: { id: { $in: [1] } } },
      { ...select(1), where: {}, order_by: 'id' },
      { table: 'note', columns: [{ count: '*' }], where: { id: 1 } },
      { ...select(1), offset: 1 },
      { ...select(9) },
      { ...select(1, 'plain') },
    ]
    for (const args of other) {
      const found = await server.query('select', args)
      t.same([found.status, etag(found)], [200, null], JSON.stringify(args))
      t.ok(Array.isArray(found.body))
    }
    for (const [accept, text] of [
      ['application/x-ndjson', '{"id":1,"text":"new"}\n'],
      ['text/csv', 'id,text\r\n1,new\r\n'],
    ]) {
      const found = await send(server, 'select', select(1), { accept: accept! })
      t.same([found.status, etag(found), found.text], [200, null, text])
    }
    const members = await server.query('bulk', [{ type: 'select', args: select(1) }])
    t.same([etag(members), members.body], [null, [[{ id: 1, text: 'new' }]]])
  })

  await t.test('an update or delete with another version changes nothing', async (t) => {
    for (const as of [undefined, USER]) {
      t.same(said(await server.query('update', update(1, '7'), as)), [
        412,
        'precondition-failed',
        '$.args.expect.version',
      ])
      t.same(said(await server.query('delete', remove(1, '7'), as)), [
        412,
        'precondition-failed',
        '$.args.expect.version',
      ])
    }
    t.equal(await textOf(1), 'one')
    const changed = await server.query('update', { ...update(1, '1'), returning: ['text', '$version'] }, USER)
    t.same(said(changed), [200, { affected_rows: 1, returning: [{ text: 'new', $version: '2' }] }, undefined])
    t.same((await server.query('delete', remove(1, '2'), USER)).body, { affected_rows: 1 })
    t.same((await server.query('update', update(1, '2'), USER)).body, { affected_rows: 0 }, 'a missing row')
  })

  await t.test('a hidden row is like a missing one', async (t) => {
    for (const [type, args] of [
      ['update', update],
      ['delete', remove],
    ] as const) {
      for (const version of ['1', '7']) {
        const hidden = await server.query(type, args(2, version), USER)
        const missing = await server.query(type, args(99, version), USER)
        t.same(said(hidden), [200, { affected_rows: 0 }, undefined])
        t.same([hidden.status, hidden.text], [missing.status, missing.text])
      }
      for (const header of ['"1"', '"7"', '*']) {
        const [hidden, missing] = await Promise.all(
          [2, 99].map((id) => {
            const { expect: _, ...rest } = args(id, '')
            return send(server, type, rest, { 'if-match': header }, USER)
          }),
        )
        t.equal(hidden?.status, header === '*' ? 412 : 200)
        t.same([hidden?.status, hidden?.text], [missing?.status, missing?.text])
      }
    }
    const [hidden, missing] = await Promise.all([2, 99].map((id) => server.query('select', select(id), USER)))
    t.same([hidden?.text, etag(hidden!)], ['[]', null])
    t.same([missing?.text, etag(missing!)], ['[]', null])
    t.same((await server.query('update', update(3, '1'), USER)).body, { affected_rows: 0 }, 'seen, but not for updates')
    t.equal((await server.query('update', update(3, '7'), USER)).status, 412)
  })

  await t.test('without the column there is no version', async (t) => {
    const found = await server.query('select', select(1), BLIND)
    t.same([found.status, etag(found), found.body], [200, null, [{ id: 1, text: 'one' }]])
    const selected = await server.query('select', { ...select(1), columns: ['$version'] }, BLIND)
    t.same(said(selected), [400, 'permission-denied', '$.args.columns[0]'])
    const none = { table: 'plain', where: { id: 1 }, expect: { version: '1' }, $set: { text: 'b' } }
    const [blind, without] = [await server.query('update', update(1, '1'), BLIND), await server.query('update', none)]
    t.same(said(blind), [400, 'unexpected-payload', '$.args.expect'])
    t.equal(blind.text.replace('note', 'plain'), without.text)
    const matched = await send(server, 'update', { ...none, expect: undefined }, { 'if-match': '"1"' })
    t.same(said(matched), [400, 'unexpected-payload', '$.headers.If-Match'])
    t.same(said(await server.query('select', { ...select(1, 'plain'), columns: ['$version'] })), [
      400,
      'not-exists',
      '$.args.columns[0]',
    ])
    const { tables } = (await server.query('describe', {}, BLIND)).body
    t.notOk(tables.some((table: object) => 'version' in table))
    const seen = (await server.query('describe', {}, USER)).body.tables
    t.equal(seen.find((each: { table: { name: string } }) => each.table.name === 'note').version, 'rev')
  })

  await t.test('wrong arguments are refused', async (t) => {
    const { expect: _, ...plain } = update(1, '')
    const wrong: [args: object, code: string, path: string][] = [
      [{ ...plain, expect: null }, 'parse-failed', '$.args.expect'],
      [{ ...plain, expect: 'a' }, 'parse-failed', '$.args.expect'],
      [{ ...plain, expect: {} }, 'parse-failed', '$.args.expect'],
      [{ ...plain, expect: { version: null } }, 'parse-failed', '$.args.expect.version'],
      [{ ...plain, expect: { version: 1 } }, 'parse-failed', '$.args.expect.version'],
      [{ ...plain, expect: { version: ['1'] } }, 'parse-failed', '$.args.expect.version'],
      [{ ...plain, expect: { version: '1', rows: 1 } }, 'unexpected-payload', '$.args.expect.rows'],
      [{ ...update(1, '1'), where: {} }, 'unexpected-payload', '$.args.where'],
      [{ ...update(1, '1'), where: { id: 1, text: 'one' } }, 'unexpected-payload', '$.args.where'],
      [{ ...update(1, '1'), where: { id: { $gte: 1 } } }, 'unexpected-payload', '$.args.where'],
      [{ ...update(1, '1'), where: { $or: [{ id: 1 }] } }, 'unexpected-payload', '$.args.where'],
      [{ ...update(1, '1'), where: { $not: { id: 1 } } }, 'unexpected-payload', '$.args.where'],
    ]
    for (const [args, code, path] of wrong) {
      t.same(said(await server.query('update', args)), [400, code, path], JSON.stringify(args))
    }
    for (const header of ['1', 'W/"1"', '"1", "2"', '"1', '"%zz"', '"%00"', '""1']) {
      const answer = await send(server, 'update', plain, { 'if-match': header })
      t.same(said(answer), [400, 'parse-failed', '$.headers.If-Match'], header)
    }
    const both = await send(server, 'update', update(1, '1'), { 'if-match': '"1"' })
    t.same(said(both), [400, 'unexpected-payload', '$.args.expect'])
    const all = await send(server, 'update', { ...plain, where: {} }, { 'if-match': '*' })
    t.same(said(all), [400, 'unexpected-payload', '$.args.where'])
    const quoted = await server.query('update', update(1, `1' or '1'='1`))
    t.equal(quoted.status, 412)
    t.equal(await textOf(1), 'one')
  })

  await t.test('If-Match is the version of one update or delete, and refused elsewhere', async (t) => {
    const { expect: _, ...plain } = update(1, '')
    const match = (type: string, args: unknown, header: string, as?: As) =>
      send(server, type, args, { 'if-match': header }, as)
    t.same(said(await match('update', plain, '"7"', USER)), [412, 'precondition-failed', '$.headers.If-Match'])
    t.same((await match('update', plain, '"1"', USER)).body, { affected_rows: 1 })
    t.same((await match('update', plain, '*', USER)).body, { affected_rows: 1 })
    t.same(said(await match('update', { ...plain, where: { id: 99 } }, '*')), [
      412,
      'precondition-failed',
      '$.headers.If-Match',
    ])
    t.same((await match('update', { ...plain, table: 'plain' }, '*')).body, { affected_rows: 1 }, 'needs no version')
    t.same(said(await match('delete', { table: 'note', where: { id: 1 } }, '"2"')), [
      412,
      'precondition-failed',
      '$.headers.If-Match',
    ])
    const others: [type: string, args: unknown][] = [
      ['select', select(1)],
      ['count', { table: 'note' }],
      ['insert', { table: 'plain', objects: [{ id: 5 }] }],
      ['bulk', [{ type: 'update', args: plain }]],
      ['run_sql', { sql: 'delete from note' }],
      ['describe', {}],
      ['execute_query_template', { name: 'note', args: { id: 1 } }],
      ['execute_query_template', { name: 'both', args: { id: 1 } }],
    ]
    for (const [type, args] of others) {
      const answer = await match(type, args, '"1"')
      t.same([answer.status, answer.body.code], [400, 'not-supported'], type)
      t.equal(answer.body.path, '$.headers.If-Match', type)
    }
    for (const path of ['/v1/graphql', '/v1alpha1/graphql']) {
      const body = JSON.stringify({ query: 'mutation { delete_note(where: {}) { affected_rows } }' })
      const answer = await server.fetch(path, { method: 'POST', body, headers: { 'if-match': '"1"' } })
      t.match(answer.text, /If-Match/, path)
    }
    t.equal((await must('count', { table: 'note' })).count, 3)
    const stored = { name: 'set_text', args: { id: 1, text: 'stored' } }
    t.equal((await match('execute_query_template', stored, '"1"')).status, 412)
    t.same((await match('execute_query_template', stored, '"3"')).body, { affected_rows: 1 })
  })

  await t.test('templates: ETag, 304 and 412', async (t) => {
    const get = (path: string, headers: Record<string, string> = {}, as: As = USER) =>
      server.fetch(`/v1/template/${path}`, { headers }, as)
    const first = await get('note?id=1')
    const tag = etag(first)!
    t.match(tag, /^"1;[\w-]+"$/)
    t.same([first.status, first.body], [200, [{ id: 1, text: 'one' }]])
    for (const header of [tag, `W/${tag}`, `"0", ${tag}`, '*']) {
      const same = await get('note?id=1', { 'if-none-match': header })
      t.same([same.status, same.text, etag(same)], [304, '', tag], header)
    }
    t.equal((await get('note?id=1', { 'if-none-match': '"1"' })).status, 200, 'the version alone is not the answer')
    t.equal((await get('note?id=1', { 'if-none-match': '"2"' })).status, 200)
    t.same((await get('note?id=2', { 'if-none-match': '"1"' })).body, [], 'hidden')
    t.same((await get('note?id=1', { 'if-none-match': '"1"' }, BLIND)).body, [{ id: 1, text: 'one' }])
    const related = await get('note_and_team?id=1', { 'if-none-match': '"1"' })
    const again = () => get('note_and_team?id=1', { 'if-none-match': etag(related)! })
    t.equal((await again()).status, 304)
    await server.must('run_sql', { sql: `update team set name = name || '!'` })
    t.same(
      [(await again()).status, etag(related)?.slice(0, 3)],
      [200, '"1;'],
      'a related row has changed, and not the row',
    )
    const posted = await server.fetch('/v1/template/note', {
      method: 'POST',
      body: '{"id": 1}',
      headers: { 'if-none-match': '"1"' },
    })
    t.equal(posted.status, 200)

    const put = (name: string, body: unknown, headers: Record<string, string> = {}) =>
      server.fetch(`/v1/template/${name}`, { method: 'PUT', body: JSON.stringify(body), headers }, USER)
    t.same(said(await put('set_text', { id: 1, text: 'a' }, { 'if-match': '"7"' })), [
      412,
      'precondition-failed',
      '$.headers.If-Match',
    ])
    t.same((await put('set_text', { id: 1, text: 'a' }, { 'if-match': '"1"' })).body, { affected_rows: 1 })
    t.same((await put('set_text_of', { id: 1, text: 'b', rev: '2' })).body, { affected_rows: 1 })
    t.same(said(await put('set_text_of', { id: 1, text: 'c', rev: '2' })), [412, 'precondition-failed', '$.rev'])
    t.same(said(await put('set_text_of', { id: 1, text: 'c', rev: null })), [400, 'parse-failed', '$.rev'])
    t.equal((await get('note?id=1', { 'if-none-match': '"1"' })).body[0].text, 'b')
    const removal = (rev: string) =>
      server.fetch('/v1/template/remove?id=1', { method: 'DELETE', headers: { 'if-match': rev } }, USER)
    t.equal((await removal('"1"')).status, 412)
    t.same((await removal('"3"')).body, { affected_rows: 1 })
    for (const [name, args] of [
      ['both', { id: 3 }],
      ['note', { id: 3 }],
    ] as const) {
      t.same(said(await put(name, args, { 'if-match': '"1"' })), [400, 'not-supported', '$.headers.If-Match'], name)
    }
  })

  await t.test('the OpenAPI document has the conditions', async (t) => {
    const { paths } = (await server.fetch('/v1/openapi.json', {}, USER)).body
    const { get, post } = paths['/v1/template/note']
    const headersOf = ({ parameters }: { parameters: { name?: string; in?: string }[] }) =>
      parameters.flatMap((each) => (each.in === 'header' ? each.name : []))
    t.same([Object.keys(get.responses), headersOf(get)], [['200', '304', '400'], ['If-None-Match']])
    t.same(headersOf(post), [])
    const change = paths['/v1/template/set_text'].post
    t.same([Object.keys(change.responses), headersOf(change)], [['200', '400', '412'], ['If-Match']])
    const version = paths['/v1/template/set_text_of'].post.requestBody.content['application/json'].schema
    t.match(version.properties.rev.type, ['string', 'null'])
    t.same(Object.keys(paths['/v1/template/note_and_team'].get.responses), ['200', '304', '400'])
    t.same(Object.keys(paths['/v1/template/both'].post.responses), ['200', '400'])
  })

  await t.test('$version is a value in lists, relationships and returning', async (t) => {
    const list = { table: 'note', columns: ['id', '$version'], order_by: 'id' }
    t.same((await server.query('select', list, USER)).text, '[{"id":1,"$version":"1"},{"id":3,"$version":"1"}]')
    const nested = { table: 'team', columns: [{ name: 'notes', columns: ['$version'] }], where: { id: 2 } }
    t.same(await must('select', nested), [{ notes: [{ $version: '1' }] }])
    const inserted = await must('insert', {
      table: 'note',
      objects: [{ id: 4 }, { id: 5, rev: 8 }],
      returning: ['$version', { name: 'team', columns: ['name'] }],
    })
    t.same(inserted.returning, [
      { $version: '1', team: null },
      { $version: '8', team: null },
    ])
    t.same((await must('select', { ...list, columns: ['*'], where: { id: 4 } }))[0].$version, undefined)
    for (const wrong of [{ where: { $version: '1' } }, { order_by: '$version' }, { distinct_on: ['$version'] }]) {
      t.equal((await server.query('select', { ...list, ...wrong })).status, 400)
    }
  })

  await t.test('xmin as version, also of partitions', async (t) => {
    const [row] = await must('select', { table: 'counter', columns: ['$version', 'n'], where: { id: 1 } })
    t.match(row.$version, /^\d+$/)
    const found = await server.query('select', { table: 'counter', columns: ['n'], where: { id: 1 } })
    t.equal(etag(found), `"${row.$version}"`)
    const change = (version: string) => ({ table: 'counter', where: { id: 1 }, expect: { version }, $inc: { n: 1 } })
    const changed = await must('update', { ...change(row.$version), returning: ['$version', 'n'] })
    t.equal(changed.returning[0].n, 1)
    t.not(changed.returning[0].$version, row.$version)
    t.equal((await server.query('update', change(row.$version))).status, 412)
    const at = { table: 'part', where: { id: 1, kind: 1 } }
    const versionNow = async (where: object = at.where) =>
      (await must('select', { ...at, where, columns: ['$version'] }))[0].$version
    const written = await must('update', { ...at, $set: { text: 'c' }, returning: ['$version', 'text'] })
    t.same(written.returning, [{ $version: await versionNow(), text: 'c' }])
    const more = { id: 2, kind: 2 }
    const inserted = await must('insert', { table: 'part', objects: [more], returning: ['$version'] })
    t.same(inserted.returning, [{ $version: await versionNow(more) }])
    const conflict = { constraint_on: ['id', 'kind'], action: 'update' }
    const upserted = await must('insert', {
      table: 'part',
      objects: [{ ...more, text: 'd' }],
      on_conflict: conflict,
      returning: ['$version'],
    })
    t.same(upserted.returning, [{ $version: await versionNow(more) }])
    const expect = { version: await versionNow() }
    const moved = await must('update', { ...at, expect, $set: { text: 'x' }, returning: ['$version'] })
    t.equal(moved.affected_rows, 1)
    t.equal((await server.query('delete', { ...at, expect })).status, 412)
    const deleted = await must('delete', { ...at, expect: { version: await versionNow() }, returning: ['$version'] })
    t.same(deleted, { affected_rows: 1, returning: moved.returning })
  })

  await t.test('rows of functions and of inheriting tables', async (t) => {
    await must('run_sql', {
      sql: `create function notes() returns setof note language sql stable as 'select * from note';
        create function counters() returns setof counter language sql stable as 'select * from counter';
        create table base (id int primary key, text text); create table heir (primary key (id)) inherits (base);
        insert into base values (1, 'a'); insert into heir values (1, 'b'), (2, 'c')`,
    })
    for (const name of ['notes', 'counters']) await must('track_function', name)
    const called = { function: 'notes', columns: ['id', '$version'], where: { id: 1 } }
    t.same(await must('call', called), [{ id: 1, $version: '1' }])
    const refused = await server.query('call', { function: 'counters', columns: ['$version'] })
    t.same(said(refused), [400, 'unexpected-payload', '$.args.columns'])
    await must('track_table', 'base')
    await must('set_table_version', { table: 'base', column: 'xmin' })
    const two = await server.query('select', { ...select(1, 'base'), order_by: 'text' })
    t.same([two.status, etag(two), two.body.length], [200, null, 2])
    t.ok(etag(await server.query('select', select(2, 'base'))))
  })

  await t.test('no update is lost', async (t) => {
    const loops = 6
    const each = 4
    for (const [table, set] of [
      ['counter', (n: number) => ({ n: n + 1 })],
      ['note', (n: number) => ({ text: String(n + 1) })],
    ] as const) {
      await must('update', { table: 'note', where: { id: 1 }, $set: { text: '0' } })
      const column = table === 'counter' ? 'n' : 'text'
      let refused = 0
      await Promise.all(
        Array.from({ length: loops }, async (_, i) => {
          for (let done = 0; done < each;) {
            const args = { table, columns: [column, '$version'], where: { id: 1 } }
            const read = await server.query('select', args)
            const [row] = read.body
            const change = { table, where: args.where, $set: set(Number(row[column])) }
            const answer =
              i % 2 === 0
                ? await server.query('update', { ...change, expect: { version: row.$version } })
                : await send(server, 'update', change, { 'if-match': etag(read)! })
            if (answer.status === 412) refused++
            else {
              t.same(said(answer), [200, { affected_rows: 1 }, undefined])
              done++
            }
          }
        }),
      )
      const [row] = await must('select', { table, columns: [column], where: { id: 1 } })
      t.equal(Number(row[column]), loops * each, table)
      t.ok(refused > 0, `${table}: some were refused`)
    }
  })

  await t.test('a bulk rolls back as a whole', async (t) => {
    const members = [
      { type: 'update', args: update(1, '1', 'a') },
      { type: 'update', args: update(1, '2', 'b') },
      { type: 'delete', args: remove(3, '1') },
    ]
    t.same(await must('bulk', members), [{ affected_rows: 1 }, { affected_rows: 1 }, { affected_rows: 1 }])
    const failing = [...members.slice(0, 1).map(({ type }) => ({ type, args: update(1, '3', 'c') })), members[1]]
    t.same(said(await server.query('bulk', failing)), [412, 'precondition-failed', '$.args[1].args.expect.version'])
    t.equal(await textOf(1), 'b')
  })

  await t.test('dry runs and Idempotency-Key', async (t) => {
    const dry = (version: string) =>
      server.raw(JSON.stringify({ type: 'update', args: update(1, version), dry_run: true }))
    t.same((await dry('1')).body, { affected_rows: 1 })
    t.equal((await dry('7')).status, 412)
    const { expect: _, ...plain } = update(1, '')
    const keyed = (key: string, tag: string) =>
      send(server, 'update', plain, { 'idempotency-key': key, 'if-match': tag }, USER)
    t.equal((await keyed('a', '"7"')).status, 412)
    t.same((await keyed('b', '"1"')).body, { affected_rows: 1 })
    const again = await keyed('b', '"1"')
    t.same([again.status, again.body, again.headers.get('Idempotency-Replayed')], [200, { affected_rows: 1 }, 'true'])
    t.equal((await keyed('b', '"2"')).status, 409, 'another version is another request')
    t.same((await keyed('a', '"2"')).body, { affected_rows: 1 }, 'a refusal is not kept')
  })

  await t.test('an update of related rows', async (t) => {
    await must('set_table_version', { table: 'team', column: 'xmin' })
    const where = { id: 1 }
    const [{ $version: version }] = await must('select', { table: 'team', columns: ['$version'], where })
    const change = (expect: object) => ({ table: 'team', where, expect, $set: { notes: { delete: { where: {} } } } })
    t.equal((await server.query('update', change({ version: '1' }))).status, 412)
    t.equal((await must('count', { table: 'note' })).count, 3)
    t.same(await must('update', change({ version })), { affected_rows: 3 })
    await must('set_table_version', { table: 'team', column: null })
  })

  await t.test('any text can be a version', async (t) => {
    await must('run_sql', { sql: `create table odd (v text not null, id int primary key)` })
    await must('track_table', 'odd')
    await must('set_table_version', { table: 'odd', column: 'v' })
    const odd = ['', '*', 'a b', '"', '50%', 'é\n😀', '\\', 'W/"x"', "'; --", 'ok']
    for (const [id, v] of odd.entries()) {
      await must('insert', { table: 'odd', objects: [{ id, v }] })
      const found = await server.query('select', { table: 'odd', columns: ['v'], where: { id } })
      t.same(found.body, [{ v }])
      t.match(etag(found), /^"[!#-~]*"$/)
      const change = { table: 'odd', where: { id }, $set: { v: 'next' } }
      t.same(said(await send(server, 'update', change, { 'if-match': '"other"' }))[0], 412)
      t.same((await send(server, 'update', change, { 'if-match': etag(found)! })).body, { affected_rows: 1 }, v)
    }
    await must('insert', { table: 'odd', objects: [{ id: 99, v: 'x'.repeat(5000) }] })
    t.equal(etag(await server.query('select', { table: 'odd', columns: ['v'], where: { id: 99 } })), null)
  })
})

tap.test('set_table_version', async (t) => {
  const server = await notes(t)
  const must = (type: string, args: unknown) => server.must(type, args)

  await t.test('refuses what cannot be a version', async (t) => {
    await must('run_sql', {
      sql: `create view seen as select 1 as id, 2 as rev; create table keyless (a int not null);
        create table odd (id int primary key, a point not null, "$version" int);
        create table more (id int primary key, a point not null, b int, c int not null)`,
    })
    for (const table of ['seen', 'keyless', 'odd', 'more']) await must('track_table', table)
    const wrong: [table: string, column: unknown, code: string, path: string][] = [
      ['seen', 'rev', 'unexpected-payload', '$.args.column'],
      ['seen', 'xmin', 'unexpected-payload', '$.args.column'],
      ['keyless', 'a', 'unexpected-payload', '$.args.column'],
      ['odd', 'id', 'unexpected-payload', '$.args.column'],
      ['more', 'a', 'unexpected-payload', '$.args.column'],
      ['more', 'b', 'unexpected-payload', '$.args.column'],
      ['more', 'nothing', 'not-exists', '$.args.column'],
      ['more', 'ctid', 'not-exists', '$.args.column'],
      ['more', 1, 'parse-failed', '$.args.column'],
      ['nothing', 'c', 'not-exists', '$.args.table'],
    ]
    for (const [table, column, code, path] of wrong) {
      t.same(
        said(await server.query('set_table_version', { table, column })),
        [400, code, path],
        `${table} ${JSON.stringify(column)}`,
      )
    }
    const denied = await server.query('set_table_version', { table: 'note', column: null }, USER)
    t.same(said(denied), [400, 'access-denied', '$'])
  })

  await t.test('is part of the metadata', async (t) => {
    const exported = await must('export_metadata', {})
    const entryOf = (all: typeof exported, table: string) =>
      all.tables.find((each: { table: string }) => each.table === table)
    t.equal(entryOf(exported, 'note').version_column, 'rev')
    t.equal(entryOf(exported, 'counter').version_column, 'xmin')
    t.notOk('version_column' in entryOf(exported, 'plain'))
    t.same(await must('diff_metadata', exported), { changes: [], refused: null })
    const other = structuredClone(exported)
    entryOf(other, 'note').version_column = 'xmin'
    delete entryOf(other, 'counter').version_column
    entryOf(other, 'plain').version_column = 'xmin'
    const { changes } = await must('diff_metadata', other)
    t.match(changes, [
      { change: 'added', object: 'version plain', from: null, to: { column: 'xmin' } },
      { change: 'removed', object: 'version counter', from: { column: 'xmin' }, to: null },
      { change: 'changed', object: 'version note', from: { column: 'rev' }, to: { column: 'xmin' } },
    ])
    t.equal(changes.length, 3)
    entryOf(other, 'note').version_column = 'nothing'
    const refused = await server.query('replace_metadata', other)
    t.equal(refused.status, 400)
    t.match(refused.body.path, /^\$\.args\.tables\[\d\]\.version_column$/)
    await must('clear_metadata', {})
    await must('replace_metadata', exported)
    t.same(await must('export_metadata', {}), exported)
    await must('reload_metadata', {})
    t.same(await must('export_metadata', {}), exported)
    t.equal(etag(await server.query('select', { ...select(1), where: { id: 1 } })), null)
    await must('run_sql', { sql: FILL })
    t.equal(etag(await server.query('select', select(1))), '"1"')
  })

  await t.test('run_sql keeps the column, unless it cascades', async (t) => {
    const changes = [
      'alter table note drop column rev',
      'alter table note alter column rev drop not null',
      'alter table note drop constraint note_pkey',
    ]
    for (const sql of changes) {
      const refused = await server.query('run_sql', { sql })
      t.same([refused.status, refused.body.code], [400, 'dependency-error'], sql)
      t.match(refused.body.error, /version note/, sql)
    }
    const named = await server.query('create_object_relationship', {
      table: 'note',
      name: '$version',
      using: { foreign_key_constraint_on: 'team_id' },
    })
    t.equal(named.status, 400)
    const used = await server.query('set_table_version', { table: 'note', column: null })
    t.same([used.status, used.body.code], [400, 'dependency-error'])
    t.match(used.body.error, /query-template set_text_of/)
    await must('drop_query_template', { name: 'set_text_of' })
    await must('run_sql', { sql: 'alter table note drop column rev', cascade: true })
    const { tables } = await must('export_metadata', {})
    t.notOk('version_column' in tables.find((each: { table: string }) => each.table === 'note'))
    t.same((await must('get_inconsistent_metadata', {})).inconsistent_objects, [])
    await must('set_table_version', { table: 'counter', column: null })
    const row = { table: 'counter', columns: ['n'], where: { id: 1 } }
    t.equal(etag(await server.query('select', row)), null)
  })
})
