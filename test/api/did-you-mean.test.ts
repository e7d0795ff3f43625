import t from 'tap'
import { testServer } from '../kit/server.js'

t.test('errors suggest the name that was probably meant, for a role only names that it may use', async (t) => {
  for (const threads of [0, 1]) {
    const server = await testServer(t, { threads })
    await server.must('run_sql', {
      sql: `create table note (id int primary key, title text, titles text);
        create table company (id int); create schema other; create table other."Odd ones" (id int)`,
    })
    await server.must('bulk', [
      { type: 'track_table', args: 'note' },
      {
        type: 'create_select_permission',
        args: { table: 'note', role: 'user', permission: { columns: ['id', 'title'], filter: {} } },
      },
      {
        type: 'create_select_permission',
        args: { table: 'note', role: 'blind', permission: { columns: ['id'], filter: {} } },
      },
    ])
    const error = async (type: string, args: object, role?: string) =>
      (await server.query(type, args, role === undefined ? {} : { role })).body.error as string
    const select = (more: object, role?: string) => error('select', { table: 'note', columns: ['id'], ...more }, role)

    t.equal(await select({ table: 'notez' }), 'table "notez" does not exist, did you mean "note"?')
    t.equal(await select({ columns: ['titel'] }), '"titel" does not exist, did you mean "title"?')
    t.equal(await select({ order_by: 'titel' }), 'column "titel" does not exist, did you mean "title"?')
    t.equal(await select({ where: { title: { $lik: 'x' } } }), 'unknown operator "$lik", did you mean "$like"?')
    t.equal(await select({ where: { title: { _lik: 'x' } } }), 'unknown operator "_lik", did you mean "_like"?')
    t.equal(await select({ wher: {} }), 'unexpected key "wher", did you mean "where"?')
    t.equal(await error('selct', {}), 'unknown type "selct", did you mean "select"?')
    t.equal(await error('run_sq', {}, 'user'), 'unknown type "run_sq"')

    const denied = 'role "user" does not have permission to select column'
    t.equal(await select({ columns: ['titel'] }, 'user'), `${denied} "titel", did you mean "title"?`)
    t.equal(await select({ columns: ['titles'] }, 'user'), `${denied} "titles", did you mean "title"?`)
    t.equal(await select({ columns: ['titlez'] }, 'user'), `${denied} "titlez", did you mean "title"?`)
    t.notMatch(await select({ columns: ['titel'] }, 'blind'), /mean/)
    t.match(await select({ table: 'notez' }, 'user'), /is not allowed, did you mean "note"\?$/)
    t.equal(await select({ table: 'notez' }, 'nobody'), 'select on "notez" for role "nobody" is not allowed. ')

    const untracked = 'table "company" exists but is not tracked; rowhouse track company'
    t.match(await server.query('select', { table: 'company', columns: ['*'] }), {
      status: 400,
      body: { path: '$.args.table', error: untracked, code: 'not-exists' },
    })
    t.equal(await error('create_select_permission', { table: 'company', role: 'a', permission: {} }), untracked)
    t.equal(
      await select({ table: { schema: 'other', name: 'Odd ones' } }),
      `table "other.Odd ones" exists but is not tracked; rowhouse track 'other.Odd ones'`,
    )
    t.equal(
      await select({ table: 'company' }, 'user'),
      (await select({ table: 'compan7' }, 'user')).replace('compan7', 'company'),
    )
  }
})

t.test(
  'an admin who names a table with a dot, or without its schema, is told how to name it; other roles are not',
  async (t) => {
    const server = await testServer(t)
    await server.must('run_sql', {
      sql: `create schema hr; create table hr.employee (id int primary key); create table hr.later (id int primary key);
      create table note (id int primary key, employee_id int); create function hr.who() returns setof hr.employee
      language sql stable as 'select * from hr.employee'`,
    })
    const employee = { schema: 'hr', name: 'employee' }
    await server.must('bulk', [
      { type: 'track_table', args: employee },
      { type: 'track_table', args: 'note' },
      { type: 'track_function', args: { schema: 'hr', name: 'who' } },
      {
        type: 'create_select_permission',
        args: { table: employee, role: 'user', permission: { columns: '*', filter: {} } },
      },
    ])
    const permission = { columns: ['id'], filter: {} }
    const selects = (table: unknown) => ({ table, columns: ['id'] })
    const manual = (remote_table: unknown) => ({
      manual_configuration: { remote_table, column_mapping: { employee_id: 'id' } },
    })
    const doors: readonly (readonly [string, (table: unknown) => object])[] = [
      ['select', selects],
      ['count', (table) => ({ table })],
      ['insert', (table) => ({ table, objects: [{ id: 1 }] })],
      ['update', (table) => ({ table, where: {}, $set: { id: 1 } })],
      ['delete', (table) => ({ table, where: {} })],
      ['bulk', (table) => [{ type: 'select', args: selects(table) }]],
      ['explain_permission', (table) => ({ table, role: 'user', operation: 'select', key: { id: 1 } })],
      ['dependents', (table) => ({ table, key: { id: 1 } })],
      ['track_all', (table) => ({ tables: [table] })],
      ['untrack_table', (table) => ({ table })],
      ['set_table_version', (table) => ({ table, column: 'id' })],
      ['create_select_permission', (table) => ({ table, role: 'a', permission })],
      ['drop_select_permission', (table) => ({ table, role: 'user' })],
      ['create_object_relationship', (table) => ({ table, name: 'x', using: manual('note') })],
      ['create_object_relationship', (remote) => ({ table: 'note', name: 'x', using: manual(remote) })],
      ['create_query_template', (table) => ({ name: 'x', template: { type: 'select', args: selects(table) } })],
      [
        'create_select_permission',
        (_table) => ({
          table: 'note',
          role: 'a',
          permission: { columns: ['id'], filter: { _exists: { _table, _where: {} } } },
        }),
      ],
    ]
    const hint = 'did you mean {"schema": "hr", "name": "employee"}?'
    for (const [type, args] of doors) {
      for (const name of ['hr.employee', 'employee', { schema: 'publik', name: 'employee' }]) {
        const { status, body } = await server.query(type, args(name))
        t.match({ status, error: body.error }, { status: 400, error: hint }, `${type} ${JSON.stringify(name)}`)
      }
    }
    t.match((await server.query('select', selects('hr.employe'))).body.error, hint, 'a misspelt name too')
    t.match((await server.query('select', selects('public.note'))).body.error, 'did you mean "note"?')
    for (const name of ['hr.later', 'later']) {
      const wanted = 'did you mean {"schema": "hr", "name": "later"}?'
      t.match((await server.query('select', selects(name))).body.error, wanted, `${name}, which is not tracked`)
      t.match((await server.query('track_table', name)).body.error, wanted, `track_table ${name}`)
    }
    t.match(
      (await server.query('drop_function_permission', { function: 'hr.who', role: 'user' })).body.error,
      '{"schema": "hr", "name": "who"}?',
    )
    t.match(
      (await server.query('track_all', { names: { employee: { singular: 'a', plural: 'b' } } })).body.error,
      'did you mean "hr.employee"?',
    )
    t.notMatch((await server.query('select', selects('nothing'))).body.error, 'mean')

    for (const name of ['hr.employee', 'employee', 'hr.later']) {
      const refused = (await server.query('select', selects(name), { role: 'user' })).body.error
      t.equal(refused, `select on "${name}" for role "user" is not allowed. `)
    }
  },
)

t.test('a name of a million characters gets no suggestion', async (t) => {
  const server = await testServer(t)

  for (const table of ['x'.repeat(1_000_000), 'x.'.repeat(500_000)]) {
    const { status, body } = await server.query('select', { table, columns: [] })
    t.equal(status, 400)
    t.notMatch(body.error, 'mean')
  }
})
