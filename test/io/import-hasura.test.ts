import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { run } from '../kit/command.js'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { type As, testServer } from '../kit/server.js'

const SCHEMA = `
  create table person (id int primary key, name text not null);
  create table note (id int generated always as identity primary key, owner_id int not null references person, text text);
  create function size_of(n note) returns int language sql stable as 'select length(n.text)';
  create function search(word text) returns setof note language sql stable as
    $$ select * from note where text like '%' || word || '%' $$;
  create function mine(hasura_session json) returns setof note language sql stable as
    $$ select * from note where owner_id = (hasura_session ->> 'x-hasura-user-id')::int $$;
  insert into person values (1, 'Ann'), (2, 'Bob');
  insert into note (owner_id, text) values (1, 'one'), (2, 'two')`

/** A project in the layout of version 3. */
const PROJECT = {
  'config.yaml': 'version: 3\nmetadata_directory: meta\n',
  'meta/version.yaml': 'version: 3\n',
  'meta/databases/databases.yaml':
    '- name: default\n  kind: postgres\n  tables: "!include default/tables/tables.yaml"\n  functions: !include default/functions.yaml\n',
  'meta/databases/default/tables/tables.yaml': '- "!include public_note.yaml"\n- "!include public_person.yaml"\n',
  'meta/databases/default/tables/public_note.yaml': `
table: {name: note, schema: public}
object_relationships:
  - name: owner
    using: {foreign_key_constraint_on: owner_id}
computed_fields:
  - name: size
    definition: {function: {name: size_of, schema: public}}
select_permissions:
  - role: user
    permission:
      columns: [id, text]
      computed_fields: [size]
      filter: {owner_id: {_eq: X-Hasura-User-Id}}
event_triggers:
  - name: wrote
    definition: {enable_manual: false, insert: {columns: '*'}}
  - name: changed
    definition: {enable_manual: false, update: {columns: [text]}}
    webhook: http://127.0.0.1:9/in
`,
  'meta/databases/default/tables/public_person.yaml': `
table: {name: person, schema: public}
configuration: {custom_root_fields: {select: people}}
array_relationships:
  - name: notes
    using:
      foreign_key_constraint_on:
        column: owner_id
        table: {name: note, schema: public}
`,
  'meta/databases/default/functions.yaml': `
- function: {name: search, schema: public}
  permissions: [{role: user}]
- function: {name: mine, schema: public}
  configuration: {session_argument: hasura_session}
  permissions: [{role: user}]
`,
  'meta/query_collections.yaml': `
- name: allowed-queries
  definition:
    queries:
      - name: note
        query: 'query ($id: Int!) { note(where: {id: {_eq: $id}}) { text } }'
`,
  'meta/rest_endpoints.yaml': `
- name: note
  url: note/:id
  methods: [GET]
  definition: {query: {collection_name: allowed-queries, query_name: note}}
`,
  'meta/actions.yaml': 'actions: []\ncustom_types: {enums: [], input_objects: [], objects: [], scalars: []}\n',
}

t.test('a project of version 3 moves to a database', async (t) => {
  const { folder, url, run } = await place(t, PROJECT)
  await rowsOf(url, SCHEMA)

  const moved = await run('import-hasura', '.', '--apply')

  t.match(moved, {
    code: 1,
    err: '',
    out: /^applied, and wrote metadata\.json: 2 tables, 2 relationships, 1 computed field, 1 permission, 2 functions, 1 query template\n/,
  })
  t.match(moved.out, /not moved:\n  event trigger \(.*\):\n    note\.wrote: it has no webhook\n/)
  t.match(moved.out, /"operations": \{\n +"note": "query/)
  t.match(moved.out, /"changed": \{\n +"use": "webhook",\n +"url": "http:\/\/127\.0\.0\.1:9\/in"/)
  const [{ n } = { n: '' }] = await rowsOf<{ n: string }>(
    url,
    `select count(*) as n from pg_trigger where tgrelid = 'note'::regclass and tgname like 'svc_capture%'`,
  )
  t.equal(n, '1', 'changes of notes are events')
  const server = await testServer(t, { databaseUrl: url, config: { auth: { hasuraNames: true } } })
  const graphql = async (text: string, as: As = {}): Promise<unknown> =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query: text }) }, as)).body
  const user = { role: 'user', variables: { 'x-hasura-user-id': '2' } }
  t.same(await graphql('{ note { text size } search(args: {word: "o"}) { text } mine { id } }', user), {
    data: { note: [{ text: 'two', size: 3 }], search: [{ text: 'two' }], mine: [{ id: 2 }] },
  })
  t.same(await graphql('{ people(order_by: {id: asc}) { name notes { text } } }'), {
    data: {
      people: [
        { name: 'Ann', notes: [{ text: 'one' }] },
        { name: 'Bob', notes: [{ text: 'two' }] },
      ],
    },
  })
  t.same((await server.fetch('/v1/template/note?id=1')).body, [{ text: 'one' }])
  t.match(await run('metadata', 'diff', 'metadata.json'), { code: 0, out: /no differences/ }, 'the file says the same')

  t.match(await run('import-hasura', '.'), { code: 2, err: /metadata\.json exists/ })
  t.match(await run('import-hasura', '.', '--apply', '--out', 'b.json'), { code: 2, err: /the database has metadata/ })
  t.match(await run('import-hasura', '.', '--apply', '--force', '--json'), { code: 1, out: /"kind": "event trigger"/ })
  t.match(JSON.parse(await readFile(join(folder, 'metadata.json'), 'utf8')), { tables: [{ table: 'note' }, {}] })
})

t.test('what the server refuses is reported, and the rest is applied', async (t) => {
  const permission = (role: string, columns: string[], filter = {}) => ({ role, permission: { columns, filter } })
  const relationship = (name: string, on: unknown) => ({ name, using: { foreign_key_constraint_on: on } })
  const { url, run } = await place(t, {
    'metadata.json': '{}',
    'old.json': JSON.stringify({
      version: 2,
      tables: [
        { table: 'gone', select_permissions: [permission('user', ['id'])] },
        {
          table: { schema: 'public', name: 'note' },
          object_relationships: [relationship('owner', 'owner_id'), relationship('lost', 'nothing')],
          select_permissions: [
            permission('user', ['id', 'gone', 'text']),
            permission('other', ['id'], { lost: { id: { _eq: 'X-Hasura-User-Id' } } }),
          ],
        },
        {
          table: 'person',
          configuration: { custom_name: 'note' },
          array_relationships: [
            relationship('notes', { table: 'note', column: 'owner_id' }),
            relationship('away', { table: 'gone', column: 'person_id' }),
            {
              name: 'namesakes',
              using: { manual_configuration: { remote_table: 'note', column_mapping: { name: 'id' } } },
            },
          ],
        },
      ],
      functions: ['search', 'no_function'],
    }),
  })
  await rowsOf(url, SCHEMA)

  const { code, out } = await run('import-hasura', 'old.json', '--apply', '--json', '--out', 'new.json')

  t.equal(code, 1)
  const { refused, notes, counts } = JSON.parse(out) as Record<'refused' | 'notes', Record<string, string>[]> & {
    counts: object
  }
  t.same(refused.map(({ kind, name }) => `${kind} ${name}`).sort(), [
    'configuration person',
    'function no_function',
    'relationship note.lost',
    'relationship person.away',
    'select permission note.other',
    'select permission note.user',
    'table gone',
  ])
  t.ok(refused.every(({ reason }) => reason !== undefined))
  t.match(
    notes.filter(({ kind }) => kind === 'relationship'),
    [{ name: 'person.namesakes', reason: /no query can use it.*text = integer/ }],
  )
  t.match(counts, { tables: 2, relationships: 3, permissions: 1, functions: 1 })
  t.match(await run('metadata', 'diff', 'new.json'), { code: 0, out: /no differences/ })
})

t.test('the older layouts, and a project that moves completely', async (t) => {
  const tables = '- table: {schema: public, name: note}\n- table: {schema: app, name: person}\n'
  const { folder, run } = await place(t, {
    'two/metadata/tables.yaml': tables,
    'two/metadata/functions.yaml': '[]\n',
    'two/metadata/version.yaml': 'version: 2\n',
    'one.yaml': `functions: []\nremote_schemas: []\ntables:\n${tables}`,
    'wrapped.json': `{"resource_version": 3, "metadata": {"version": 3, "sources": [{"name": "default", "kind": "postgres",
      "tables": [{"table": "note", "select_permissions": [{"role": "user", "permission": {"columns": "*", "filter": {"id": 9223372036854775807}}}]}]}]}}`,
    'replace.json': `{"type": "replace_metadata", "version": 2, "args": {"allow_inconsistent_metadata": true, "allow_warnings": true,
      "metadata": {"version": 3, "sources": [{"name": "default", "kind": "postgres",
        "tables": [{"table": "note", "select_permissions": [{"role": "user", "permission": {"columns": "*", "filter": {"id": 9223372036854775807}}}]}]}]}}}`,
    'first.yaml': `type: replace_metadata\nargs:\n  version: 2\n  tables:\n  - table: n\n    delete_permissions:
    - {role: r, permission: {filter: {id: 9223372036854775807}}}\n`,
    'row.json': `{"id": 1, "resource_version": 7, "metadata": {"version": 2,
      "tables": [{"table": "n", "delete_permissions": [{"role": "r", "permission": {"filter": {"id": 9223372036854775807}}}]}]}}`,
    'big.yaml':
      'tables:\n- table: n\n  delete_permissions:\n  - {role: r, permission: {filter: {id: 9223372036854775807}}}\n',
  })

  for (const [i, place] of ['two', 'two/metadata', 'one.yaml'].entries()) {
    t.match(await run('import-hasura', place, '--out', `${i}.json`), { code: 0, out: /2 tables/ }, place)
    t.match(JSON.parse(await readFile(join(folder, `${i}.json`), 'utf8')), {
      tables: [{ table: 'note' }, { table: { schema: 'app', name: 'person' } }],
    })
  }
  t.match(await run('import-hasura', 'one.yaml', '--out', './one.yaml', '--force'), {
    code: 2,
    err: /the file to read/,
  })
  for (const file of ['wrapped.json', 'big.yaml', 'replace.json', 'first.yaml', 'row.json']) {
    t.match(await run('import-hasura', file, '--force'), { code: 0 }, file)
    t.match(await readFile(join(folder, 'metadata.json'), 'utf8'), /"id": 9223372036854775807\n/)
  }
})

t.test('input that cannot be read', async (t) => {
  const level = (i: number) =>
    `a${i}: &a${i} [${Array<string>(9)
      .fill(`*a${i - 1}`)
      .join(',')}]\n`
  const bomb = `a0: &a0 [1,1]\n${Array.from({ length: 9 }, (_, i) => level(i + 1)).join('')}tables: *a9\n`
  const { folder, run } = await place(t, {
    'secret.yaml': 'a: 1\n',
    'up/metadata/tables.yaml': '- "!include ../../secret.yaml"\n',
    'link/metadata/tables.yaml': '- "!include a.yaml"\n',
    'loop/metadata/tables.yaml': '- "!include tables.yaml"\n',
    'lost/metadata/tables.yaml': '- "!include gone.yaml"\n',
    'tag.yaml': 'tables: !!js/function "x"\n',
    'twice.yaml': 'tables: []\ntables: []\n',
    'bomb.yaml': bomb,
    'deep.yaml': `tables: ${'['.repeat(100_000)}`,
    'deep.json': `{"tables": ${'['.repeat(2000)}${']'.repeat(2000)}}`,
    'broken.json': '{"tables": [',
    'text.yaml': 'hello\n',
    'other.yaml': 'services: {}\n',
    'request.json': '{"type": "pg_track_table", "args": {"table": "note"}}',
    'empty/readme.md': '',
    'away/readme.md': '',
  })
  await symlink('../../secret.yaml', join(folder, 'link/metadata/a.yaml'))
  await symlink('../lost/metadata', join(folder, 'away/metadata'))

  for (const [place, err] of [
    ['up', /secret\.yaml is outside of/],
    ['link', /a\.yaml is outside of/],
    ['loop', /include each other/],
    ['lost', /gone\.yaml/],
    ['tag.yaml', /tag\.yaml: .*tag/],
    ['twice.yaml', /twice\.yaml: .*unique/],
    ['bomb.yaml', /bomb\.yaml: .*alias/],
    ['deep.yaml', /deep\.yaml: /],
    ['deep.json', /deep\.json: is nested too deeply/],
    ['broken.json', /broken\.json: /],
    ['text.yaml', /expected an object/],
    ['other.yaml', /expected metadata of Hasura/],
    ['request.json', /expected metadata of Hasura/],
    ['empty', /contains no metadata/],
    ['away', /contains no metadata/],
    ['nowhere', /ENOENT/],
  ] as const) {
    t.match(await run('import-hasura', place), { code: 2, out: '', err }, place)
  }
  t.match(await run('import-hasura'), { code: 2, err: /requires a folder or a file/ })
})

/** A folder with files, and an empty database. */
async function place(t: Test, files: Readonly<Record<string, string>>) {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-hasura-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  for (const [file, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), text)
  }
  const { url } = await freshDatabase(t)
  const env = { DATABASE_URL: url }
  return { folder, url, run: (...args: readonly string[]) => run(folder, args, { env }) }
}
