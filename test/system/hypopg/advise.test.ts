import t from 'tap'
import { rowsOf } from '../../kit/database.js'
import { testServer } from '../../kit/server.js'

const SQL = `create extension hypopg;
create table note (id int primary key, user_id int not null, body text);
insert into note select i, i % 1000, repeat('x', 100) from generate_series(1, 20000) i;
analyze note`

t.test('indexes are checked with hypopg, and none is left', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: SQL })
  await server.must('track_table', 'note')
  const permission = { columns: '*', filter: { user_id: 'X-Service-User-Id' } }
  await server.must('create_select_permission', { table: 'note', role: 'user', permission })
  const indexes = () => rowsOf(server.databaseUrl, 'select count(*) from pg_index')
  const before = await indexes()

  const [first] = (await server.must('advise_indexes', {})).advice
  const [again, ...others] = (await server.must('advise_indexes', {})).advice

  t.match(first, { sql: 'create index concurrently on public.note (user_id)', checked: 'hypopg' })
  const [gain] = first.statements
  t.ok(gain.after < gain.before / 5, `the cost goes from ${gain.before} to ${gain.after}`)
  t.same(again, first, 'the index of the first call is forgotten')
  t.same(others, [])
  t.same(await indexes(), before)
  const { findings } = await server.must('lint_metadata', {})
  t.match(findings, [{ rule: 'unindexed-rule' }], 'a later check of the filter finds no index')
})
