import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { run } from '../kit/command.js'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { testServer } from '../kit/server.js'
import { until } from '../kit/until.js'

t.test('an empty database becomes the same as another in one command, and goes back', async (t) => {
  const { folder, url, run } = await place(t)
  await write(folder, 'migrations', {
    '20260101000000_note.up.sql':
      'create table note (id int primary key, text text);\ninsert into note values (1, $$a;b$$);',
    '20260101000000_note.down.sql': 'drop table note',
    '20260102000000_index.up.sql':
      '-- rowhouse: no transaction\ncreate index concurrently note_text on note (text);\nvacuum note',
    '20260102000000_index.down.sql': 'drop index note_text',
    '20260103000000_data.up.sql': `\ufeffset search_path to nowhere; insert into public.note values (2, 'two'), (3, null);`,
    'metadata.json': JSON.stringify({
      tables: [{ table: 'note', select_permissions: [{ role: 'user', permission: { columns: '*', filter: {} } }] }],
      query_templates: [],
    }),
  })

  t.match(await run('migrate', 'status'), {
    code: 0,
    out: 'pending  20260101000000_note\npending  20260102000000_index\npending  20260103000000_data\n',
  })
  t.match(await run('migrate', 'up', '--dry-run'), { code: 0, out: /would apply 20260101000000_note\nwould apply/ })
  t.match(await run('migrate', 'up', '1'), { code: 0, out: /applied 20260101000000_note\n$/ })
  const server = await testServer(t, { databaseUrl: url })
  t.match(await server.must('run_sql', { sql: 'select count(*) from note' }), { result: [['count'], ['1']] })
  const up = await run('migrate', 'up')
  t.match(up, {
    code: 0,
    out: /applied 20260102000000_index\napplied 20260103000000_data\napplying metadata.json\n\+ table note\n +wider: role admin can use note\n\+ permission note.user.select\n/,
  })
  t.same(await rowsOf(url, 'select id, text from note order by id'), [
    { id: 1, text: 'a;b' },
    { id: 2, text: 'two' },
    { id: 3, text: null },
  ])
  await until(
    'the running server knows the table',
    async () => (await server.query('select', { table: 'note', columns: ['id'] }, { role: 'user' })).status === 200,
  )
  t.match(await run('migrate', 'up'), {
    code: 0,
    out: 'svc_catalog is up to date\nnothing to migrate\napplying metadata.json\nno differences\n',
  })

  const file = join(folder, 'migrations/20260101000000_note.up.sql')
  await writeFile(file, 'create table note (id int)')
  t.match(await run('migrate', 'up'), { code: 1, err: /20260101000000_note\.up\.sql was changed after it ran/ })
  t.match(await run('migrate', 'status'), { code: 1, out: /changed  20260101000000_note\n/ })
  t.match(await run('migrate', 'down'), { code: 1, err: /20260103000000_data cannot be reverted: it has no file/ })
  await write(folder, 'migrations', { '20260103000000_data.down.sql': 'delete from note where id > 1' })
  t.match(await run('migrate', 'down', '2'), {
    code: 0,
    out: 'reverted 20260103000000_data\nreverted 20260102000000_index\n',
  })
  t.same(await rowsOf(url, `select id, to_regclass('note_text') as "index" from note`), [{ id: 1, index: null }])
})

t.test('a migration that fails names its line, and leaves nothing', async (t) => {
  const { folder, url, run } = await place(t)
  const fails = async (text: string | Buffer, err: RegExp) => {
    await write(folder, 'migrations', { '20260101000000_bad.up.sql': text })
    t.match(await run('migrate', 'up'), { code: 1, err }, String(text).slice(0, 100))
    t.same(
      await rowsOf(
        url,
        `select to_regclass('a') as a, count(*)::int as n from svc_catalog.svc_migration where owner = 'sql files'`,
      ),
      [{ a: null, n: 0 }],
    )
  }

  await fails(
    'create table a (id int);\n\n  selec 1',
    /20260101000000_bad\.up\.sql:3:3: syntax error at or near "selec"/,
  )
  await fails("create table a (id int);\nselect 'é', nope from a;", /bad\.up\.sql:2:13: column "nope" does not exist/)
  await fails(
    'create table a (id int);\nCOPY a FROM stdin;\n1\nx\n\\.\n',
    /bad\.up\.sql:3:1: syntax error at or near "1"\n {2}hint: a migration cannot contain the data of COPY: use insert/,
  )
  await fails('create table a (id int);\nCOPY a FROM stdin;', /bad\.up\.sql:2:1: a migration cannot contain the data/)
  await fails('create table a (id int);\nselect 1; commit;', /bad\.up\.sql:2:11: the file is a transaction/)
  await fails(
    "create table a (id int); insert into a values (1)\n; do $$ begin raise exception 'no' using hint = 'ask'; end $$",
    /bad\.up\.sql:2:3: no\n  hint: ask\n  context: PL/,
  )
  await fails("create table a (id int); select 'x", /bad\.up\.sql:1:33: unterminated quoted string/)
  const long = `create table a (id int);\n-- ${'é'.repeat(1024 * 1024)}\n`
  await fails(`${long}select nope`, /bad\.up\.sql:3:8: column "nope" does not exist/)
  await fails(`${long}rollback; begin`, /bad\.up\.sql: it ended its transaction\. The statements before it have run/)
  await fails(Buffer.from("select '\xe9'", 'latin1'), /bad\.up\.sql: the text is not UTF-8/)
  await fails(
    'create table a (id int);\nsavepoint b; insert into a values (1); rollback to b; release b; select nope',
    /bad\.up\.sql:2:73: column "nope" does not exist/,
  )
  await fails(
    `-- rowhouse: no transaction\n-- ${'é'.repeat(1024 * 1024)}\nvacuum; select nope`,
    /bad\.up\.sql:3:16: column "nope" [^]*The statements before it have run/,
  )
  await fails('-- rowhouse: no transaction\ndiscard all', /bad\.up\.sql:2:1: discard all would let another/)
  await fails('\\d a', /bad\.up\.sql:1:1: syntax error at or near "\\"/)
  await fails('-- rowhouse: no transaction\nselect nope', /bad\.up\.sql:2:8: [^]*The statements before it have run/)
})

t.test('new makes a pair of files, and others are refused', async (t) => {
  const { folder, run } = await place(t)

  t.match(await run('migrate', 'up'), {
    code: 1,
    err: /cannot read the folder \.\/migrations; create .* rowhouse migrate new/,
  })
  t.match(await run('migrate', 'new', 'add_notes', '--dir', 'sql'), {
    code: 0,
    out: /^sql\/\d{14}_add_notes\.up\.sql\nsql\/\d{14}_add_notes\.down\.sql\n$/,
  })
  t.equal((await readdir(join(folder, 'sql'))).length, 2)
  t.match(await run('migrate', 'new', '../x'), { code: 1, err: /expected a name/ })
  t.match(await run('migrate', 'dwn'), { code: 1, err: /expected new, up, down or status/ })
  t.match(await run('migrate'), { code: 1, err: /rowhouse upgrade updates the schema/ })
  t.match(await run('migrate', 'up', '-1', '--dir', 'sql'), { code: 2 })
  t.match(await run('migrate', 'up', 'x', '--dir', 'sql'), { code: 1, err: /"x" is not a number/ })
  await write(folder, 'sql', { 'notes.sql': '', '20260101000000_x.down.sql': '' })
  t.match(await run('migrate', 'status', '--dir', 'sql'), { code: 1, err: /: 20260101000000_x\.down\.sql, notes\.sql/ })
})

t.test('in the embedded database everything belongs to the login of the server', async (t) => {
  const { folder } = await place(t)
  const embedded = (...args: string[]) => run(folder, args)
  const { default: provider } = await import('../../providers/database/embedded/index.js')
  await (await provider.start({ dataDir: join(folder, '.rowhouse') })).stop()
  await write(folder, 'migrations', { '20260101000000_b.up.sql': 'create table b (id int)' })

  t.match(await embedded('migrate', 'up'), { code: 0 })
  const psql = `#!${process.execPath}\nconst { PGHOST, PGUSER, PGDATABASE } = process.env\nconsole.log(PGHOST, PGUSER, PGDATABASE)`
  await writeFile(join(folder, 'psql'), psql, { mode: 0o755 })
  t.match(await run(folder, ['sql'], { env: { PATH: folder } }), { code: 0, out: /^\S+ rowhouse_server \w+\n$/ })
  const { serverUrl, stop } = await provider.start({ dataDir: join(folder, '.rowhouse') })
  t.teardown(stop)
  const owners = `select distinct tableowner from pg_tables where schemaname in ('public', 'svc_catalog')`
  t.same(await rowsOf(serverUrl, owners), [{ tableowner: 'rowhouse_server' }])
})

/** A folder and a database, and a command line that knows both. */
async function place(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-sql-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const { url } = await freshDatabase(t)
  const env = { DATABASE_URL: url }
  return {
    folder,
    url,
    run: (...args: string[]) => run(folder, args, { env }),
  }
}

async function write(folder: string, name: string, files: Readonly<Record<string, string | Buffer>>): Promise<void> {
  await mkdir(join(folder, name), { recursive: true })
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder, name, file), text)
}
