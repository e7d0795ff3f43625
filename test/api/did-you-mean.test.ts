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
    t.equal(await select({ where: { title: { $lik: 'x' } } }), 'Unknown operator : $lik, did you mean "$like"?')
    t.equal(await select({ where: { title: { _lik: 'x' } } }), 'Unknown operator : _lik, did you mean "_like"?')
    t.equal(await select({ wher: {} }), 'unexpected key "wher", did you mean "where"?')
    t.equal(await error('selct', {}), 'unknown type : "selct", did you mean "select"?')
    t.equal(await error('run_sq', {}, 'user'), 'unknown type : "run_sq"')

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

t.test('a name of a million characters gets no suggestion', async (t) => {
  const server = await testServer(t)

  t.match(await server.query('select', { table: 'x'.repeat(1_000_000), columns: [] }), { status: 400 })
})
