import t from 'tap'
import { databaseForServer, rowsOf } from '../kit/database.js'
import { startSqlTap } from '../kit/sql-tap.js'
import { type As, testServer } from '../kit/server.js'

/** Marks statements of the test among those of the server. */
const MINE = '/* mine */'
const SQL = `${MINE}
create type colour as enum ('red', 'green');
create table town (id serial primary key, name varchar(40), note text, info jsonb, tags varchar[], n int, colour colour, stays int4range, rev int not null default 1);
create table person (id serial primary key, name varchar(40), n numeric, town_id int references town on delete cascade);
create function near(t town) returns setof person language sql stable as 'select * from public.person where n < t.n';
create function named(word text) returns setof town language sql stable as 'select * from public.town where note = word';
insert into town (name, note, info, tags, n, colour, stays)
  select 'town ' || i, 'note', '{"a": 1}', '{a,b}', i, 'red', '[1,5)' from generate_series(1, 5) i;
insert into person (name, n, town_id) select 'p' || i, i, 1 + i % 5 from generate_series(1, 9) i;`

/** Functions and operators of types that PostgreSQL has no exact ones for. Whoever calls one is noted. */
const SHADOWS = `${MINE}
create table seen (what text);
create function note(what text) returns void language sql as 'insert into public.seen values (what)';
${['text', 'varchar', 'int', 'int8', 'numeric', 'jsonb', 'colour', 'varchar[]', 'town']
  .flatMap((type) => [
    `create function to_json(${type}) returns json language sql as $$ select public.note('to_json(${type})'), '"shadow"'::json $$;`,
    `create function to_jsonb(${type}) returns jsonb language sql as $$ select public.note('to_jsonb(${type})'), '"shadow"'::jsonb $$;`,
    `create function num_nulls(${type}) returns int language sql as $$ select public.note('num_nulls(${type})'), 1 $$;`,
    `create function array_to_json(${type}[]) returns json language sql as $$ select public.note('array_to_json(${type}[])'), '[]'::json $$;`,
  ])
  .filter((sql) => !/varchar\[\]\[\]/.test(sql))
  .join('\n')
  .replaceAll(
    /select public\.note\((.*?)\), (.*?) \$\$/g,
    'select $2 from (select public.note($1) offset 0) called $$$$',
  )}
${['varchar', 'colour', 'varchar[]', 'int4range']
  .flatMap((type, i) =>
    ['=', '<>', '<', '>', '~~', '@>', '&&'].map(
      (operator, j) => `
        create function compared_${i}_${j}(${type}, ${type}) returns bool language sql as $$
          select true from (select public.note('${type} ${operator} ${type}') offset 0) called $$;
        create operator public.${operator} (leftarg = ${type}, rightarg = ${type}, function = compared_${i}_${j});`,
    ),
  )
  .join('')}`

const USER: As = { role: 'user', variables: { 'x-service-user-id': '1' } }

t.test('the server calls what belongs to PostgreSQL by its schema', async (t) => {
  const database = await databaseForServer(t)
  const tap = await startSqlTap(t, database.url)
  const server = await testServer(t, { databaseUrl: tap.url })
  await rowsOf(database.url, SQL)
  await rowsOf(database.url, SHADOWS)

  const asked = async (type: string, args: unknown, as?: As) => {
    const answer = await server.query(type, args, as)
    t.equal(answer.status, 200, `${type} ${answer.text.slice(0, 300)}`)
    return answer.body
  }
  const graphql = async (query: string, path = '/v1/graphql') => {
    const answer = await server.fetch(path, { method: 'POST', body: JSON.stringify({ query }) })
    t.equal(answer.body?.errors, undefined, `${query} ${answer.text.slice(0, 300)}`)
    return answer.body?.data
  }
  const permission = (type: string, table: string, definition: object) =>
    asked(`create_${type}_permission`, { table, role: 'user', permission: { columns: '*', ...definition } })

  await asked('track_all', {})
  await asked('set_table_version', { table: 'town', column: 'rev' })
  await permission('select', 'town', { filter: { name: { $like: 'town%' } }, allow_aggregations: true })
  await permission('select', 'person', { filter: { town: { colour: 'red' } } })
  await permission('insert', 'person', { check: { name: { $ne: 'bad' }, town: { tags: { $contains: ['a'] } } } })
  await permission('update', 'person', { filter: { name: { $in: ['p1', 'p2'] } } })

  const where = { name: 'town 2', colour: 'red', tags: { $contains: ['a'] }, stays: { $overlaps: '[2,3)' } }
  for (const as of [undefined, USER]) {
    const columns = ['*', { name: 'people', columns: ['name'], order_by: ['name'] }]
    const [town] = await asked('select', { table: 'town', columns, where }, as)
    t.match(town, { name: 'town 2', colour: 'red', tags: ['a', 'b'], people: [{ name: 'p1' }, { name: 'p6' }] })
    t.match(await asked('count', { table: 'town', where: { name: { $gt: 'town 3' } }, distinct: ['name'] }, as), {
      count: 2,
    })
    const values = [{ count: '*' }, { max: 'n' }, { array_agg: 'name', as: 'names' }]
    await asked('select', { table: 'town', columns: ['colour', ...values], group_by: ['colour'] }, as)
    await asked('select', { table: 'person', columns: ['*'], order_by: ['-town.name'], limit: 2 }, as)
    await asked('select', { table: 'town', columns: ['name', '$version'], order_by: ['name'], limit: 2, after: {} })
    const rows = [
      { name: 'new', town_id: 3 },
      { name: 'newer', town_id: 4 },
    ]
    await asked(
      'insert',
      { table: 'person', objects: rows, returning: ['name', { name: 'town', columns: ['name'] }] },
      as,
    )
    await asked('update', { table: 'person', where: { name: 'p1' }, $set: { n: 5 }, returning: ['*'] }, as)
  }
  for (const accept of ['text/csv', 'application/x-ndjson']) {
    const body = JSON.stringify({ type: 'select', args: { table: 'town', columns: ['*'], order_by: ['id'] } })
    const { text } = await server.fetch('/v1/query', { method: 'POST', body, headers: { accept } })
    t.match(text, /town 1/)
    t.notMatch(text, /shadow/)
  }
  const nested = { name: 'x', people: { data: [{ name: 'y' }] } }
  await asked('insert', { table: 'town', objects: [nested], returning: ['name'] })
  await asked('delete', { table: 'town', where: { name: 'x' }, returning: ['name'] })
  await graphql(
    '{ town_aggregate { aggregate { count(columns: name, distinct: true) max { name } sum { n } } nodes { id } } }',
  )
  await graphql('{ town(order_by: {people_aggregate: {max: {name: desc}}}, where: {people_aggregate: {count: {predicate: {_gt: 1}}}}) { name } }') // prettier-ignore
  await graphql('{ town(where: {note: {_matches: "note"}}, order_by: {note_rank: {query: "note"}}) { name info(path: "$.a") } }') // prettier-ignore
  await graphql('mutation { insert_town(objects: {name: "g", tags: ["z"]}) { affected_rows returning { id tags } } }')
  await graphql('mutation { delete_town(where: {name: {_eq: "g"}}) { affected_rows } }')
  await graphql('{ named(args: {word: "note"}) { name } }')
  await graphql('{ town_connection(first: 2, order_by: {name: asc}) { edges { cursor node { id name } } pageInfo { hasNextPage } } }', '/v1beta1/relay') // prettier-ignore
  for (const type of ['export_metadata', 'describe', 'lint_metadata', 'advise_indexes', 'table_sizes', 'get_inconsistent_metadata', 'reload_metadata', 'server_status', 'slow_queries']) await asked(type, {}) // prettier-ignore
  const explained = { query: { type: 'select', args: { table: 'town', columns: ['*'], where } } }
  t.equal((await server.fetch('/v1/query/explain', { method: 'POST', body: JSON.stringify(explained) })).status, 200)
  await asked('explain_permission', { role: 'user', session: USER.variables, table: 'town', operation: 'select', key: { id: 1 } }) // prettier-ignore
  await asked('dependents', { table: 'town', key: { id: 1 } })
  await asked('run_sql', { sql: `${MINE} create table later (id int primary key)` })
  await server.raw(`{"type":"insert","args":{"table":"person","objects":[{"name":"once"}]}}`, undefined, {
    'idempotency-key': 'once',
  })

  t.same(await rowsOf(database.url, 'select distinct what from seen order by 1'), [], 'what was called')

  const names = await rowsOf<{ name: string }>(
    database.url,
    `select distinct proname as name from pg_catalog.pg_proc where pronamespace = 'pg_catalog'::regnamespace`,
  )
  const functions = new Set(names.map(({ name }) => name).filter((name) => !SYNTAX.has(name)))
  const statements = [...tap.texts].filter((text) => !text.includes(MINE) && !/^\s*(create|alter) /i.test(text))
  t.ok(statements.length > 80, `${statements.length} statements`)
  const unqualified = statements.flatMap((text) =>
    callsIn(text)
      .filter((name) => functions.has(name))
      .map((name) => `${name}: ${text.slice(0, 200)}`),
  )
  t.same(unqualified, [], 'what is called without a schema')
})

/** Words of SQL that look like calls. */
const SYNTAX = new Set([
  // Of an aggregate in `order_by`: that of an extension's type is in its schema.
  'max',
  ...'bit char date interval name numeric text time timestamp position overlay substring trim extract'.split(' '),
])

/** Returns the names of what a statement calls without a schema. */
function callsIn(text: string): string[] {
  const bare = text.replaceAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--.*|\$\$[^]*?\$\$/g, (part) =>
    part.startsWith('"') ? '"q"' : "''",
  )
  return [...bare.matchAll(/(?<![\w.$"])(?<!\bas )([a-z_][a-z0-9_]*)\(/g)].map(([, name]) => name as string)
}
