import tap from 'tap'
import { type Answered, testServer, type TestServer } from '../kit/server.js'

const SCHEMA = `
  create table note (id int primary key, text text, rev int not null default 1);
  create function bump() returns trigger language plpgsql as $$ begin new.rev := old.rev + 1; return new; end $$;
  create trigger bump before update on note for each row execute function bump();
  create table counter (id int primary key, n int not null);
  insert into note (id, text) values (1, 'one');
  insert into counter values (1, 0)`

/** Sends a query with headers. */
const send = (server: TestServer, type: string, args: unknown, headers: Record<string, string>) =>
  server.fetch('/v1/query', { method: 'POST', body: JSON.stringify({ type, args }), headers })
const etag = ({ headers }: Answered) => headers.get('ETag')
const said = ({ status, body }: Answered) => [status, body.code ?? body, body.path]

tap.test('row versions', async (t) => {
  const server = await testServer(t)
  const must = (type: string, args: unknown) => server.must(type, args)
  await must('run_sql', { sql: SCHEMA })
  for (const [table, column] of [
    ['note', 'rev'],
    ['counter', 'xmin'],
  ] as const) {
    await must('track_table', table)
    await must('set_table_version', { table, column })
  }

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
})
