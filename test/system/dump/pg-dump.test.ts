import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { freshDatabase, rowsOf } from '../../kit/database.js'

const CLI = fileURLToPath(new URL('../../../core/cli.js', import.meta.url))
const BIN = process.env['PG_BIN'] ?? ''
const run = promisify(execFile)

const SQL = String.raw`
create extension citext;
create type mood as enum ('it''s', 'a;b');
create domain short as text check (value !~ ';\\');
create table "Odd ""name;" (
  id int generated always as identity primary key, t text default E'tab\there; it''s', m mood, d short, c citext, b bytea, j jsonb,
  len int generated always as (length(t)) stored
);
insert into "Odd ""name;" (t, m, d, c, b, j)
  select repeat(chr(i), 3) || E'\\.\n\\N\r\t;''$$', 'it''s', 'x', 'é🐘', decode(to_hex(i + 4096), 'hex'), jsonb_build_object('i', i)
  from generate_series(1, 300) as i;
insert into "Odd ""name;" (t) values (null), (''), (E'\\.');
create table part (id int, at date) partition by range (at);
create table part_1 partition of part for values from ('2026-01-01') to ('2027-01-01');
insert into part values (1, '2026-05-05');
create function atomic(int) returns int language sql begin atomic select case when $1 > 1 then 2 end; select $1 + 1; end;
create function quoted() returns trigger language plpgsql as $_$ begin new.id := 7; return new; -- ; it's $$
end $_$;
create trigger quoted before insert on part_1 for each row execute function quoted();
create view odd as select id, t || ';' as t from "Odd ""name;";
create materialized view many as select count(*) from odd;
create rule keep as on delete to part do instead (select 1; select 2);
create procedure twice() language sql begin atomic insert into part values (1, '2026-01-01'); insert into part values (2, '2026-01-01'); end;
create policy own on part using (id = 1);
comment on table part is E'a ''comment''; -- /* $$ \\ ';
create sequence counter start 7;
select nextval('counter'), lo_from_bytea(0, '\x00ff3b27');
create role nobody_here;
grant select on part to nobody_here;
alter table part owner to nobody_here`

for (const options of [[], ['--inserts'], ['--rows-per-insert=100', '--column-inserts'], ['--clean', '--if-exists']]) {
  t.test(`what pg_dump ${options.join(' ')} writes is loaded, and dumped again it is the same`, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'rowhouse-dump-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const [from, to] = [await freshDatabase(t), await freshDatabase(t)]
    await rowsOf(from.url, SQL)
    await rowsOf(from.url, 'alter table part owner to current_user; drop owned by nobody_here; drop role nobody_here')
    const dump = async (url: string) => (await run(join(BIN, 'pg_dump'), [...options, url], { maxBuffer: 1e9 })).stdout
    const dumped = await dump(from.url)
    await writeFile(join(folder, 'dump.sql'), dumped)

    const { stdout } = await run(process.execPath, [CLI, 'import', 'dump.sql'], {
      cwd: folder,
      env: { DATABASE_URL: to.url },
    })

    t.match(stdout, /^imported dump\.sql/)
    const meaning = (text: string) => text.split('\n').filter((line) => !/^\\(un)?restrict/.test(line))
    t.same(meaning(await dump(to.url)), meaning(dumped))
  })
}
