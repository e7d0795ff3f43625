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
    '20260103000000_data.up.sql': 'set search_path to nowhere; COPY public.note FROM stdin;\n2\ttwo\n3\t\\N\n\\.\n',
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
  t.match(await run('migrate', 'up'), { code: 0, out: /nothing to migrate\napplying metadata.json\nno differences\n/ })
  t.match(await run('migrate'), { code: 0, out: 'nothing to migrate\n' }, 'alone, it is about the schema of the server')

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
  const fails = async (text: string, err: RegExp) => {
    await write(folder, 'migrations', { '20260101000000_bad.up.sql': text })
    t.match(await run('migrate', 'up'), { code: 1, err }, text)
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
    /bad\.up\.sql:4: invalid input syntax[^]*context: COPY a, line 2/,
  )
  await fails('create table a (id int);\nselect 1; commit;', /bad\.up\.sql:2:11: the file is a transaction/)
  await fails(
    "create table a (id int); insert into a values (1)\n; do $$ begin raise exception 'no' using hint = 'ask'; end $$",
    /bad\.up\.sql:2:3: no\n  hint: ask\n  context: PL/,
  )
  await fails("create table a (id int); select 'x", /bad\.up\.sql: line 1: ' is not closed/)
  await fails(
    'create table a (id int);\nCOPY a FROM stdin;\n1\n',
    /20260101000000_bad\.up\.sql: line 4: the data of COPY must end/,
  )
  await fails('-- rowhouse: no transaction\ndiscard all', /bad\.up\.sql:2:1: discard all would let another/)
  await fails('\\d a', /bad\.up\.sql:1:1: a command of psql/)
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
  t.match(await run('migrate', 'up', '-1', '--dir', 'sql'), { code: 2 })
  t.match(await run('migrate', 'up', 'x', '--dir', 'sql'), { code: 1, err: /"x" is not a number/ })
  await write(folder, 'sql', { 'notes.sql': '', '20260101000000_x.down.sql': '' })
  t.match(await run('migrate', 'status', '--dir', 'sql'), { code: 1, err: /: 20260101000000_x\.down\.sql, notes\.sql/ })
})

t.test('sql runs a text, a file, or what is typed', async (t) => {
  const { folder, run, type } = await place(t)
  await write(folder, '.', {
    'a.sql':
      'create table note (id int, text text default $$none$$);\nCOPY note FROM stdin;\n1\té\n\\.\nselect * from note;\nselect nope from note',
  })

  t.match(await run('sql', '-c', "select 1 as one, null as none, 'a|é' as t; select 2 as two, 3 as two"), {
    code: 0,
    out: ' one | none | t\n-----+------+-----\n 1   |      | a|é\n(1 row)\n two | two\n-----+-----\n 2   | 3\n(1 row)\n',
  })
  t.match(await run('sql', '-c', 'select 1;\nselec 2'), { code: 1, err: 'SQL:2:1: syntax error at or near "selec"\n' })
  t.match(await run('sql', 'a.sql'), {
    code: 1,
    out: /CREATE\n[^]* 1  \| é\n\(1 row\)\n/,
    err: 'a.sql:6:8: column "nope" does not exist\n',
  })
  const typed = await type('\\d\n\\d note\nselect 7 as seven; select 8 as eight;\n\\q\nselect 9 as nine;\n')
  t.match(typed, {
    code: 0,
    out: /public \| note \| table\n[^]* text +\| text +\| +\| 'none'::text\n[^]*seven\n[^]*eight\n/,
    err: '',
  })
  t.notMatch(typed.out, 'nine')
  t.match(await type('select 1 as one;\nselect 10 as ten'), { code: 0, out: / one\n[^]* ten\n/, err: '' })
  for (const [text, err] of [
    ["select 'a", "line 1: ' is not closed\n"],
    ['select\n 1 as "first",\n nope;\nselect 9;', 'SQL:3:2: column "nope" does not exist\n'],
    ['select nope', 'SQL:1:8: column "nope" does not exist\n'],
    ['\\x\nselect 9;', 'there is no command \\x; \\? shows help\n'],
    ['COPY note FROM stdin;\nselect 9;', 'COPY from stdin works in files only: rowhouse sql FILE\n'],
  ] as const) {
    t.match(await type(text), { code: 3, out: '', err }, text)
  }
})

t.test('sql writes what COPY TO stdout copies, and control characters as escapes', async (t) => {
  const { run, type } = await place(t)
  const copies = "copy (select n, E'a\\tb' from generate_series(1, 3) n) to stdout"

  t.match(await run('sql', '-c', `${copies}; select 4 as four`), {
    code: 0,
    out: '1\ta\\tb\n2\ta\\tb\n3\ta\\tb\n four\n------\n 4\n(1 row)\n',
  })
  t.match(await type(`${copies};\n`), { code: 0, out: /^1\ta/ })
  t.match(await run('sql', '-c', 'copy (select 1 where false) to stdout'), { code: 0, out: '' })
  t.match(await run('sql', '-c', "copy (select 1 as a from (select 2) x where 'x from stdin' <> '') to stdout"), {
    code: 0,
    out: '1\n',
  })
  t.equal(
    (await run('sql', '-c', "copy (select repeat('x', 1000) from generate_series(1, 900)) to stdout")).out.length,
    900_900,
  )
  t.match(await run('sql', '-c', 'select E\'\\x1b[31m\\u009b\' as "\x1b"'), {
    code: 0,
    out: ' \\x1B\n--------------\n \\x1B[31m\\x9B\n(1 row)\n',
  })
})

const DUMP = String.raw`--
-- A dump
--
\restrict abc123

SET statement_timeout = 0;
SET a_setting_of_a_newer_version = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);

CREATE SCHEMA public;
ALTER SCHEMA public OWNER TO someone_else;
COMMENT ON SCHEMA public IS 'the usual one';
CREATE EXTENSION IF NOT EXISTS not_to_be_had WITH SCHEMA public;
COMMENT ON EXTENSION not_to_be_had IS 'a comment; with a semicolon';

CREATE FUNCTION public.one() RETURNS integer
    LANGUAGE sql
    BEGIN ATOMIC
 SELECT CASE WHEN true THEN 1 END;
END;
CREATE FUNCTION public.two() RETURNS text LANGUAGE plpgsql AS $_$
begin
  return 'it''s; $$';
end;
$_$;
ALTER FUNCTION public.one() OWNER TO "Someone Else";

CREATE TABLE public.note (
    id integer NOT NULL,
    text text DEFAULT 'a;b'::text
);
ALTER TABLE public.note OWNER TO someone_else;

COPY public.note (id, text) FROM stdin;
1	one
2	\N
3	it's; \\.
4	é 🐘\ttab
\.

ALTER TABLE ONLY public.note ADD CONSTRAINT note_pkey PRIMARY KEY (id);
COPY public.note (id, text) FROM stdin;
\.
REVOKE USAGE ON SCHEMA public FROM PUBLIC;
GRANT ALL ON SCHEMA public TO PUBLIC;
GRANT SELECT ON TABLE public.note TO someone_else;
ALTER DEFAULT PRIVILEGES FOR ROLE someone_else IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC;

\unrestrict abc123
`

t.test('a dump is loaded, and what is missing here is skipped and counted', async (t) => {
  const { folder, url, run } = await place(t)
  await write(folder, '.', { 'dump.sql': DUMP })

  const done = await run('import', 'dump.sql')

  t.match(done, { code: 0, err: '' })
  for (const line of [
    /^imported dump\.sql: \d+ statements\n/,
    /skipped 3: owners/,
    /skipped 1: SET a_setting_of_a_newer_version = 0 \(unrecognized/,
    /skipped 1: CREATE SCHEMA public \(/,
    /skipped 1: CREATE EXTENSION IF NOT EXISTS not_to_be_had WITH SCHEMA public \(.*not available/,
    /skipped 2: privileges of the role someone_else, which does not exist/,
  ]) {
    t.match(done.out, line)
  }
  t.same(await rowsOf(url, 'select id, text, one(), two() from note order by id'), [
    { id: 1, text: 'one', one: 1, two: "it's; $$" },
    { id: 2, text: null, one: 1, two: "it's; $$" },
    { id: 3, text: "it's; \\.", one: 1, two: "it's; $$" },
    { id: 4, text: 'é 🐘\ttab', one: 1, two: "it's; $$" },
  ])
})

t.test('a failed import leaves nothing, and names the line', async (t) => {
  const { folder, url, run } = await place(t)
  const fails = async (text: string | Buffer, err: RegExp | string, ...flags: string[]) => {
    await writeFile(join(folder, 'dump.sql'), text)
    t.match(await run('import', 'dump.sql', ...flags), { code: 1, err })
  }
  const table = 'create table note (id int);\n'

  await fails(`${table}COPY note FROM stdin;\n1\nx\n\\.\n`, /dump\.sql:4: invalid input syntax/)
  await fails(`${table}COPY note FROM stdin`, /dump\.sql.*the data of COPY must end/)
  await fails(`${table}COPY note FROM stdin;\n1\n`, /dump\.sql.*the data of COPY must end/)
  await fails(
    `create extension not_to_be_had;\n${table}create table b (x not_to_be_had);`,
    /skipped 1: create extension[^]*dump\.sql:3:19: type "not_to_be_had"/,
  )
  await fails(`${table}\\connect other\n`, /dump\.sql:2:1: \\connect other: the dump chooses a database/)
  await fails(`${table}\\i other.sql\n`, /dump\.sql:2:1: a command of psql/)
  await fails(`${table}rollback;`, /dump\.sql:2:1: the import is one transaction/)
  await fails(`set client_encoding = 'LATIN1';`, /expected UTF-8/)
  await fails(Buffer.from(`${table}select 'é'`, 'latin1'), /dump\.sql:2:1: the text is not UTF-8/)
  await fails('PGDMP\x01', /convert it with pg_restore/)
  await fails(Buffer.from([0x1f, 0x8b, 8, 0]), /compressed/)
  t.same(await rowsOf(url, `select to_regclass('note') as note`), [{ note: null }])
  await fails(`begin; ${table}commit; select nope;`, /dump\.sql:2:\d+: column "nope"/, '--no-transaction')
  t.same(await rowsOf(url, `select to_regclass('note')::text as note`), [{ note: 'note' }])
  t.match(await run('import'), { code: 1, err: /requires a file/ })
})

t.test('in the embedded database everything belongs to the login of the server', async (t) => {
  const { folder } = await place(t)
  const embedded = (...args: string[]) => run(folder, args)
  const { default: provider } = await import('../../providers/database/embedded/index.js')
  await (await provider.start({ dataDir: join(folder, '.rowhouse') })).stop()
  await write(folder, '.', { 'dump.sql': 'create table note (id int); ALTER TABLE note OWNER TO rowhouse;' })
  await write(folder, 'migrations', { '20260101000000_b.up.sql': 'create table b (id int)' })

  t.match(await embedded('import', 'dump.sql'), { code: 0 })
  t.match(await embedded('migrate', 'up'), { code: 0 })
  const owners = `select distinct tableowner from pg_tables where schemaname in ('public', 'svc_catalog')`
  t.match(await embedded('sql', '-c', owners), { code: 0, out: / tableowner\n-+\n rowhouse_server\n\(1 row\)/ })
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
    type: (stdin: string) => run(folder, ['sql'], { env, stdin }),
  }
}

async function write(folder: string, name: string, files: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(join(folder, name), { recursive: true })
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder, name, file), text)
}
