import type { Test } from 'tap'
import { rowsOf } from '../kit/database.js'
import { permit, relate, track } from '../kit/metadata-requests.js'
import { area, type Case, is, like, query, refused } from '../kit/promises.js'
import { type As, testServer, type TestServer } from '../kit/server.js'

/** Exports of all metadata, what changes of them mean, and metadata that no longer matches the database. */
const PROMISES = {
  'export.content': 'an export has everything that was tracked, related, permitted, named and inherited',
  'export.replace': 'replacing the metadata by an export restores it, and clearing it removes everything',
  'replace.missing': 'what an export does not have is dropped',
  'replace.refused': 'an export that does not fit is refused as a whole, with the path of the wrong part',
  'replace.twice': 'a table or an inherited role that an export has twice is refused',
  'replace.reload': 'a second server follows, and sees the same',
  'diff.nothing': 'diff_metadata lists no change between equal exports, and changes nothing',
  'diff.changes': 'it lists what is added, removed and changed, with the entries before and after',
  'diff.refused': 'it says with which error replace_metadata would fail',
  'diff.effects': 'an effect says whether a role may do more or less, by the meaning of a rule',
  'diff.permissions': 'effects name columns, rows, limits and aggregates of a permission',
  'diff.writes': 'and the checks, presets and on_conflict of permissions to write',
  'diff.variable': 'an effect says that a request needs another session variable',
  'diff.related': 'a permission is a change if a relationship that it uses is another',
  'diff.inherited': 'inherited roles have effects of their own',
  'rows.select': 'the metadata can be read as rows of svc_catalog, by admin only',
  'rows.read-only': 'and is changed by metadata operations only',
  'reload.effect': 'reload_metadata finds what others changed in the database',
  'inconsistent.listed': 'metadata that the database no longer matches is listed with its reason, and gives nothing',
  'inconsistent.dropped': 'dropping it untracks tables that are gone, and leaves the rest',
  'sizes.rows': 'table_sizes has the rows and bytes of all tables, tracked or not',
  'dump.state': 'dump_internal_state has the tables of the snapshot',
  'dry-run.metadata': 'a dry run of a change of metadata has its answer, and changes nothing',
  'bulk.metadata': 'changes of metadata in a bulk happen together, and later ones use earlier ones',
  'bulk.rolled-back': 'if one fails, nothing is changed, and the error has its path',
  'admin-only': 'all of this is for admin only',
} as const

const SQL = `
create table town (id int primary key, name text, code bigint, size int, mayor_id int, paid bool, day date);
create table street (id int primary key, town_id int references town, name text);
create table mayor (id int primary key, name text);
create table kind (value text primary key);
create table loose (id int);
insert into kind values ('big');
alter table town add foreign key (mayor_id) references mayor;
create function big_towns() returns setof town language sql stable as 'select * from town where size > 10';
create function is_long(s street) returns bool language sql stable as 'select length(s.name) > 5';
insert into town values (1, 'Quito', 1, 20), (2, 'Oslo', 2, 5);
insert into loose select generate_series(1, 5);
analyze loose`

const USER: As = { role: 'user' }
const TOWN = {
  table: 'town',
  configuration: { custom_name: 'place' },
  version_column: 'id',
  object_relationships: [{ name: 'mayor', using: { foreign_key_constraint_on: 'mayor_id' }, comment: null }],
  array_relationships: [
    { name: 'streets', using: { foreign_key_constraint_on: { table: 'street', column: 'town_id' } }, comment: null },
  ],
  insert_permissions: [
    {
      role: 'user',
      permission: { columns: ['id'], check: { size: { $gt: 1 } }, set: { paid: false } },
      comment: 'new',
    },
  ],
  select_permissions: [
    { role: 'user', permission: { columns: ['id', 'name'], filter: { size: { $gt: 10 } } }, comment: null },
  ],
  update_permissions: [],
  delete_permissions: [],
}
const none = {
  object_relationships: [],
  array_relationships: [],
  insert_permissions: [],
  select_permissions: [],
  update_permissions: [],
  delete_permissions: [],
}

type Entry = Readonly<Record<string, unknown>>
/** Metadata with one table that has these permissions of the role user. */
const towns = (permissions: Entry, more: Entry = {}): Entry => ({
  tables: [
    {
      table: 'town',
      object_relationships: TOWN.object_relationships,
      ...Object.fromEntries(
        Object.entries(permissions).map(([type, permission]) => [
          `${type}_permissions`,
          [{ role: 'user', permission }],
        ]),
      ),
    },
    { table: 'mayor' },
  ],
  query_templates: [],
  ...more,
})

/** Effects of replacing one metadata by another, as `effect: text`. */
async function effects(server: TestServer, before: Entry, after: Entry): Promise<readonly string[]> {
  await server.must('replace_metadata', before)
  const { changes, refused: problem } = await server.must('diff_metadata', after)
  if (problem) throw new Error(JSON.stringify(problem))
  return changes.flatMap((change: { effects: { effect: string; text: string }[] }) =>
    change.effects.map(({ effect, text }) => `${effect}: ${text}`),
  )
}
const SELECT = { columns: ['id', 'name'], filter: {} }

const CASES: Readonly<Record<keyof typeof PROMISES, Case>> = {
  'export.content': async (t, server) => {
    await server.must('bulk', METADATA)
    t.same(await server.must('export_metadata', {}), {
      tables: [
        { table: 'kind', is_enum: true, ...none },
        { table: 'mayor', ...none },
        {
          table: 'street',
          ...none,
          delete_permissions: [{ role: 'clerk', permission: { filter: { is_long: true } }, comment: null }],
          computed_fields: [{ name: 'is_long', definition: { function: 'is_long' }, comment: null }],
        },
        TOWN,
      ],
      query_templates: [{ name: 'all', template: { type: 'count', args: { table: 'town' } }, comment: null }],
      functions: [
        {
          function: 'big_towns',
          configuration: { custom_name: 'large_towns' },
          comment: 'by size',
          permissions: [{ role: 'user' }],
        },
      ],
      inherited_roles: [{ role: 'boss', roles: ['user', 'clerk'] }],
    })
  },
  'export.replace': async (t, server) => {
    const before = await server.must('export_metadata', {})
    t.same(await server.must('clear_metadata', {}), { message: 'success' })
    t.same(await server.must('export_metadata', {}), { tables: [], query_templates: [] })
    t.match((await server.query('count', { table: 'town' })).body, { code: 'not-exists' })
    t.same(await server.must('replace_metadata', before), { message: 'success' })
    t.same(await server.must('export_metadata', {}), before)
    t.same((await server.query('select', { table: 'town', columns: ['id'] }, USER)).body, [{ id: 1 }])
    t.same((await server.query('call', { function: 'big_towns', columns: ['name'] }, USER)).body, [{ name: 'Quito' }])
    t.same(await server.must('execute_query_template', { name: 'all', args: {} }), { count: 2 })
    const graph = await server.fetch('/v1/graphql', {
      method: 'POST',
      body: '{"query":"{ place(where: {id: {_eq: 1}}) { name streets { id } } }"}',
    })
    t.same(graph.body, { data: { place: [{ name: 'Quito', streets: [] }] } })
  },
  'replace.missing': async (t, server) => {
    const before = await server.must('export_metadata', {})
    await server.must('replace_metadata', {
      tables: [{ ...TOWN, array_relationships: [], object_relationships: [], insert_permissions: [] }],
      query_templates: [],
    })
    const after = await server.must('export_metadata', {})
    t.match(after, {
      tables: [{ table: 'town', insert_permissions: { length: 0 }, select_permissions: { length: 1 } }],
    })
    t.equal(after.tables.length, 1)
    t.equal(after.functions, undefined)
    t.match((await server.query('insert', { table: 'town', objects: [{ id: 9 }] }, USER)).body, {
      code: 'permission-denied',
    })
    await server.must('replace_metadata', before)
  },
  'replace.refused': async (t, server) => {
    const before = await server.must('export_metadata', {})
    const tries: readonly (readonly [object, object])[] = [
      [{ tables: [{ table: 'nope' }] }, { path: '$.args.tables[0].table', code: 'not-exists' }],
      [
        {
          tables: [
            { table: 'town', select_permissions: [{ role: 'user', permission: { columns: ['nope'], filter: {} } }] },
          ],
        },
        { path: '$.args.tables[0].select_permissions[0].permission.columns[0]', code: 'not-exists' },
      ],
      [
        {
          tables: [
            {
              table: 'town',
              object_relationships: [{ name: 'mayor', using: { foreign_key_constraint_on: 'mayor_id' } }],
            },
          ],
        },
        { path: /^\$\.args\.tables\[0\]\.object_relationships\[0\]\.using/ },
      ],
      [
        { tables: [], functions: [{ function: 'nope' }] },
        { path: '$.args.functions[0]', code: 'not-exists' },
      ],
      [
        { tables: [], query_templates: [{ name: 'x', template: { type: 'count', args: { table: 'town' } } }] },
        { path: '$.args.query_templates[0].template.args.table', code: 'not-exists' },
      ],
      [{ tables: [{ table: 'town', selects: [] }] }, { path: '$.args.tables[0].selects', code: 'unexpected-payload' }],
      [{ tables: {} }, { path: '$.args.tables', code: 'parse-failed' }],
    ]
    for (const [metadata, error] of tries) {
      t.match(
        await server.query('replace_metadata', { query_templates: [], ...metadata }),
        { status: 400, body: error },
        JSON.stringify(metadata),
      )
    }
    t.same(await server.must('export_metadata', {}), before)
  },
  'replace.twice': [
    query(
      'replace_metadata',
      { tables: [{ table: 'town' }, { table: 'town' }], query_templates: [] },
      refused('already-exists', 'table "town" is declared twice', '$.args.tables[1]'),
    ),
  ],
  'replace.reload': async (t, server) => {
    const other = await testServer(t, { databaseUrl: server.databaseUrl })
    t.same(await other.must('export_metadata', {}), await server.must('export_metadata', {}))
    t.same((await other.query('select', { table: 'town', columns: ['id'] }, USER)).body, [{ id: 1 }])
    await other.close()
  },
  'diff.nothing': async (t, server) => {
    const now = await server.must('export_metadata', {})
    t.same(await server.must('diff_metadata', now), { changes: [], refused: null })
    await server.must('diff_metadata', { tables: [], query_templates: [] })
    t.same(await server.must('export_metadata', {}), now)
  },
  'diff.changes': async (t, server) => {
    const now = await server.must('export_metadata', {})
    const [from] = TOWN.select_permissions
    const to = { role: 'user', permission: { columns: ['id'], filter: { size: { $gt: 10 } } }, comment: null }
    const { changes, refused: problem } = await server.must('diff_metadata', {
      ...now,
      tables: [
        ...now.tables.filter(({ table }: Entry) => table !== 'town' && table !== 'kind'),
        { ...TOWN, select_permissions: [to] },
        { table: 'loose' },
      ],
    })
    t.equal(problem, null)
    t.match(changes, [
      { change: 'added', object: 'table loose', from: null },
      { change: 'removed', object: 'table kind', to: null },
      { change: 'removed', object: 'enum kind' },
      {
        change: 'changed',
        object: 'permission town.user.select',
        from,
        to,
        effects: [{ role: 'user', effect: 'narrower', text: 'role user can no longer read 1 column of town: name' }],
      },
    ])
    const digits = JSON.stringify({ ...now, tables: [{ ...TOWN, select_permissions: [to] }] }).replace(
      '{"$gt":10}',
      '{"$gt":9007199254740993}',
    )
    t.match((await server.raw(`{"type": "diff_metadata", "args": ${digits}}`)).text, /9007199254740993/)
  },
  'diff.refused': [
    query(
      'diff_metadata',
      { tables: [{ table: 'city' }], query_templates: [] },
      like({
        changes: [{ change: 'added', object: 'table city', effects: { length: 0 } }],
        refused: { path: '$.args.tables[0].table', code: 'not-exists', error: /"city"/ },
      }),
    ),
  ],
  'diff.effects': async (t, server) => {
    const rules: readonly (readonly [object, object, string])[] = [
      [{ size: 1 }, { $and: [{ paid: true }, { size: 1 }] }, 'narrower'],
      [{ $or: [{ paid: true }, { size: 1 }] }, { size: 1 }, 'narrower'],
      [{ name: { $in: ['a', 'b'] } }, { name: 'a' }, 'narrower'],
      [{ name: { $nin: ['a', 'b'] } }, { name: { $ne: 'a' } }, 'wider'],
      [{ size: { $gt: 1 } }, { size: { $gte: 2 } }, 'same'],
      [{ size: { $gt: 1 } }, { size: { $gt: 0 } }, 'wider'],
      [{ day: { $gt: '2030-01-01' } }, { day: { $gt: '2030-02-01' } }, 'narrower'],
      [{ size: 1 }, { size: 2 }, 'different'],
      [{ paid: { $ne: true } }, { paid: false }, 'same'],
      [{ $or: [{ paid: true }, { paid: false }] }, {}, 'wider'],
      [{ mayor: { name: 'a' } }, { mayor: {} }, 'wider'],
      [{ $not: { mayor: { name: 'a' } } }, { $not: { mayor: {} } }, 'narrower'],
      [{ name: { $like: 'a%' } }, { name: { $like: 'ab%' } }, 'unknown'],
      [{ name: { $gt: 'a' } }, { name: { $gt: 'b' } }, 'unknown'],
    ]
    const all = (side: 0 | 1) => ({
      ...towns({}),
      tables: [
        {
          table: 'town',
          object_relationships: TOWN.object_relationships,
          select_permissions: rules.map((rule, i) => ({
            role: `r${i}`,
            permission: { columns: ['id'], filter: rule[side] },
          })),
        },
        { table: 'mayor' },
      ],
    })
    await server.must('replace_metadata', all(0))
    const { changes } = await server.must('diff_metadata', all(1))
    const found = new Map(
      changes.map(({ object, effects: of }: { object: string; effects: { effect: string }[] }) => [
        object,
        of[0]?.effect,
      ]),
    )
    for (const [i, [before, after, wanted]] of rules.entries()) {
      t.equal(
        found.get(`permission town.r${i}.select`) ?? 'same',
        wanted,
        `${JSON.stringify(before)} becomes ${JSON.stringify(after)}`,
      )
    }
  },
  'diff.permissions': async (t, server) => {
    const own = { mayor_id: 'X-Service-User-Id' }
    const check = async (before: Entry, after: Entry, ...wanted: string[]) =>
      t.strictSame(await effects(server, towns(before), towns(after)), wanted)
    await check(
      {},
      { select: { ...SELECT, filter: own, limit: 10 } },
      "wider: role user can read 2 columns of town: id, name (rows where mayor_id is the user's id; at most 10 at a time)",
    )
    await check({ select: SELECT }, {}, 'narrower: role user can no longer read town')
    await check(
      { select: { ...SELECT, filter: { code: 1 } } },
      { select: { ...SELECT, filter: { code: 2 } } },
      'different: role user can read other rows of town: rows where code is 2 (was: rows where code is 1)',
    )
    await check(
      { select: SELECT },
      { select: { ...SELECT, columns: ['id', 'size'] } },
      'wider: role user can read 1 more column of town: size',
      'narrower: role user can no longer read 1 column of town: name',
    )
    await check(
      { select: { ...SELECT, filter: own } },
      { select: SELECT },
      "wider: role user can read all rows of town (was: only rows where mayor_id is the user's id)",
    )
    await check(
      { select: SELECT },
      { select: { ...SELECT, filter: own } },
      "narrower: role user can read only rows of town where mayor_id is the user's id (was: all rows)",
    )
    await check(
      { select: { ...SELECT, limit: 10 } },
      { select: { ...SELECT, limit: 1, allow_aggregations: true } },
      'narrower: role user can read at most 1 row of town at a time (was: at most 10)',
      'wider: role user can aggregate rows of town',
    )
    await check(
      { delete: { filter: {} } },
      { delete: { filter: own } },
      "narrower: role user can delete only rows of town where mayor_id is the user's id (was: all rows)",
    )
  },
  'diff.writes': async (t, server) => {
    const insert = { columns: ['id', 'size'], check: {} }
    const update = { columns: ['size'], filter: {} }
    const check = async (before: Entry, after: Entry, ...wanted: string[]) =>
      t.strictSame(await effects(server, towns(before), towns(after)), wanted)
    await check(
      { insert: { ...insert, set: { paid: false } } },
      { insert: { check: { size: { $lt: 5 } }, columns: ['id', 'size', 'name'], set: { paid: true } } },
      'wider: role user can insert values for 1 more column of town: name',
      'narrower: role user can insert fewer rows into town: rows where size is less than 5 (was: all rows)',
      'different: role user can insert rows into town, and the server sets paid to true (was: false)',
    )
    await check(
      { update: { ...update, check: { size: 1 } } },
      { update },
      'wider: role user can write all rows into town by an update (was: only rows where size is 1)',
    )
    await check(
      { insert },
      { insert, update },
      'wider: role user can update 1 column of town: size (all rows; afterwards all rows)',
      'wider: role user can insert into town with on_conflict',
    )
    await check(
      { insert },
      { insert: { ...insert, backend_only: true } },
      'narrower: role user can no longer insert into town',
    )
  },
  'diff.variable': async (t, server) => {
    const filter = (more: object[]) => ({ select: { ...SELECT, filter: { $or: [{ paid: true }, ...more] } } })
    const found = await effects(server, towns(filter([])), towns(filter([{ name: 'X-Service-Name' }])))
    t.equal(found.at(-1), 'narrower: role user can read town only with X-Service-Name')
    t.match(found[0], /^wider: role user can read more rows of town/)
  },
  'diff.related': async (t, server) => {
    const made = (column: string) => ({
      tables: [
        {
          table: 'town',
          object_relationships: [
            {
              name: 'mayor',
              using: { manual_configuration: { remote_table: 'mayor', column_mapping: { [column]: 'id' } } },
            },
          ],
          select_permissions: [{ role: 'user', permission: { ...SELECT, filter: { mayor: { id: 1 } } } }],
        },
        { table: 'mayor' },
      ],
      query_templates: [],
    })
    t.strictSame(await effects(server, made('mayor_id'), made('size')), [
      "unknown: role user can read rows of town by another rule: rows where the mayor's id is 1 (was the same, with another meaning)",
    ])
  },
  'diff.inherited': async (t, server) => {
    const roles = (...parts: string[]) =>
      towns({ select: SELECT }, { inherited_roles: [{ role: 'boss', roles: parts }] })
    t.strictSame(
      (await effects(server, roles('user'), roles('clerk'))).filter((text) => text.includes('role boss')),
      ['narrower: role boss can no longer read town'],
    )
  },
  'rows.select': [
    query(
      'replace_metadata',
      {
        tables: [TOWN, { table: 'mayor' }, { table: 'street' }],
        query_templates: [],
        functions: [{ function: 'big_towns', permissions: [{ role: 'user' }] }],
      },
      is({ message: 'success' }),
    ),
    query(
      'select',
      {
        table: { schema: 'svc_catalog', name: 'svc_function' },
        columns: ['function_name', { name: 'permissions', columns: ['role_name'] }],
      },
      is([{ function_name: 'big_towns', permissions: [{ role_name: 'user' }] }]),
    ),
    query('untrack_function', 'big_towns', is({ message: 'success' })),
    query(
      'select',
      {
        table: { schema: 'svc_catalog', name: 'svc_table' },
        columns: ['table_name', { name: 'permissions', columns: ['role_name', 'perm_type'], order_by: 'perm_type' }],
        where: { table_name: 'town' },
      },
      is([
        {
          table_name: 'town',
          permissions: [
            { role_name: 'user', perm_type: 'insert' },
            { role_name: 'user', perm_type: 'select' },
          ],
        },
      ]),
    ),
    query(
      'select',
      { table: { schema: 'svc_catalog', name: 'svc_permission' }, columns: ['*'] },
      refused('permission-denied', /svc_permission/),
      USER,
    ),
  ],
  'rows.read-only': ['svc_permission', 'svc_table'].map((name) =>
    query(
      'delete',
      { table: { schema: 'svc_catalog', name }, where: {} },
      refused('unexpected-payload', /only metadata operations/),
    ),
  ),
  'reload.effect': async (t, server) => {
    await rowsOf(server.databaseUrl, 'alter table mayor add column party text')
    t.same(await server.must('reload_metadata', {}), { message: 'success' })
    t.same(await server.must('select', { table: 'mayor', columns: ['party'] }), [])
  },
  'inconsistent.listed': async (t, server) => {
    await server.must('bulk', [
      track('loose'),
      permit('select', 'loose', 'user', { columns: ['id'], filter: {} }),
      { type: 'set_table_customization', args: { table: 'loose', configuration: { custom_name: 'free' } } },
      { type: 'add_computed_field', args: { table: 'street', name: 'is_long', definition: { function: 'is_long' } } },
      permit('select', 'mayor', 'user', { columns: ['id'], filter: { party: 'x' } }),
      { type: 'track_function', args: 'big_towns' },
    ])
    await rowsOf(
      server.databaseUrl,
      'alter table mayor drop column party; drop table loose; drop function big_towns; drop function is_long; alter table street drop column town_id',
    )
    await server.must('reload_metadata', {})
    const found = await server.must('get_inconsistent_metadata', {})
    t.equal(found.is_consistent, false)
    t.same(found.inconsistent_objects.map(({ name }: Entry) => name).toSorted(), [
      'computed-field street.is_long',
      'function big_towns',
      'permission loose.user.select',
      'permission mayor.user.select',
      'relationship town.streets',
      'table loose',
    ])
    t.match(
      found.inconsistent_objects.find(({ name }: Entry) => name === 'table loose'),
      { reason: 'table or view "loose" does not exist in the database' },
    )
    t.match((await server.query('select', { table: 'mayor', columns: ['id'] }, USER)).body, {
      code: 'permission-denied',
    })
    t.same((await server.query('select', { table: 'town', columns: ['id'] }, USER)).body, [{ id: 1 }])
    t.match((await server.query('select', { table: 'loose', columns: ['id'] })).body, { code: 'not-exists' })
  },
  'inconsistent.dropped': async (t, server) => {
    t.same(await server.must('drop_inconsistent_metadata', {}), { message: 'success' })
    t.same(await server.must('get_inconsistent_metadata', {}), { is_consistent: true, inconsistent_objects: [] })
    const exported = await server.must('export_metadata', {})
    const { tables, functions } = exported
    t.same(tables, [
      { table: 'mayor', ...none },
      { table: 'street', ...none },
      { ...TOWN, array_relationships: [] },
    ])
    t.equal(functions, undefined)
    await server.must('replace_metadata', exported)
  },
  'sizes.rows': async (t, server) => {
    await rowsOf(
      server.databaseUrl,
      'create table counted (id int primary key); insert into counted select generate_series(1, 7); analyze counted',
    )
    const { tables } = await server.must('table_sizes', {})
    const of = (wanted: string) => tables.find(({ table }: { table: { name: string } }) => table.name === wanted)
    t.match(of('town'), { table: { schema: 'public', name: 'town' }, tracked: true, rows: 2, estimated: false })
    t.match(of('counted'), { tracked: false, rows: 7, estimated: true })
    t.ok(of('town').bytes > of('town').index_bytes && of('town').index_bytes > 0)
    await rowsOf(
      server.databaseUrl,
      `create table parted (id int) partition by range (id);
        create table parted_1 partition of parted for values from (0) to (10);
        create table parted_2 partition of parted for values from (10) to (1000);
        insert into parted select generate_series(1, 40);
        create view seen as select id from parted; create table bare (id int); insert into mayor (id) values (77); analyze parted_1; analyze parted_2; analyze town`,
    )
    const named =
      (wanted: string) =>
      ({ table }: { table: { name: string } }) =>
        table.name === wanted
    const { tables: all } = await server.must('table_sizes', {})
    const now = (wanted: string) => all.find(named(wanted))
    t.match(now('town'), { tracked: true, rows: 2, estimated: true })
    t.match(now('bare'), { tracked: false, rows: 0, estimated: true })
    t.match(now('parted'), { tracked: false, rows: 40, estimated: true })
    t.notOk(now('seen') ?? now('parted_1'), 'neither views nor partitions')
    t.match(now('mayor'), { tracked: true, rows: 1, estimated: false })
    const [inside] = await server.must('bulk', [{ type: 'table_sizes', args: {} }])
    t.match(inside.tables.find(named('mayor')), { rows: null }, 'in a bulk')
    await rowsOf(server.databaseUrl, 'delete from mayor where id = 77')
  },
  'dump.state': async (t, server) => {
    const { tables } = await server.must('dump_internal_state', {})
    t.match(
      tables.find(({ name }: Entry) => name === 'town'),
      { columns: [{ name: 'id' }, { name: 'name' }] },
    )
  },
  'dry-run.metadata': async (t, server) => {
    const before = await server.must('export_metadata', {})
    const { status, text } = await server.raw(
      JSON.stringify({ type: 'untrack_table', args: { table: 'town' }, dry_run: true }),
    )
    t.same([status, text], [200, '{"message":"success"}'])
    const cleared = await server.raw(JSON.stringify({ type: 'clear_metadata', args: {}, dry_run: true }))
    t.equal(cleared.status, 200)
    t.same(await server.must('export_metadata', {}), before)
    t.same(await server.must('count', { table: 'town' }), { count: 2 })
    t.match(await server.raw(JSON.stringify({ type: 'reload_metadata', args: {}, dry_run: true })), {
      status: 400,
      body: { code: 'not-supported' },
    })
  },
  'bulk.metadata': async (t, server) => {
    const [made, , read, related] = await server.must('bulk', [
      {
        type: 'run_sql',
        args: {
          sql: 'create table fresh (id int primary key, town_id int references town); insert into fresh values (1, 2)',
        },
      },
      track('fresh'),
      { type: 'select', args: { table: 'fresh', columns: ['*'] } },
      relate('object', 'fresh', 'town', 'town_id'),
    ])
    t.same(made, { result_type: 'CommandOk' })
    t.same(read, [{ id: 1, town_id: 2 }])
    t.same(related, { message: 'success' })
    t.same(await server.must('select', { table: 'fresh', columns: [{ name: 'town', columns: ['name'] }] }), [
      { town: { name: 'Oslo' } },
    ])
  },
  'bulk.rolled-back': async (t, server) => {
    const before = await server.must('export_metadata', {})
    const failed = await server.query('bulk', [
      { type: 'untrack_table', args: { table: 'fresh' } },
      { type: 'run_sql', args: { sql: 'drop table fresh' } },
      { type: 'drop_select_permission', args: { table: 'town', role: 'nobody' } },
    ])
    t.match(failed, { status: 400, body: { path: '$.args[2].args', code: 'permission-denied' } })
    t.same(await server.must('export_metadata', {}), before)
    t.same(await server.must('count', { table: 'fresh' }), { count: 1 })
  },
  'admin-only': (
    [
      'export_metadata',
      'replace_metadata',
      'clear_metadata',
      'diff_metadata',
      'reload_metadata',
      'get_inconsistent_metadata',
      'drop_inconsistent_metadata',
      'table_sizes',
      'dump_internal_state',
    ] as const
  ).map((type) =>
    query(type, { tables: [], query_templates: [] }, refused('access-denied', 'only the role admin may do this'), USER),
  ),
}

const METADATA = [
  ...['town', 'street', 'mayor'].map(track),
  { type: 'track_table', args: { table: 'kind', is_enum: true } },
  relate('object', 'town', 'mayor', 'mayor_id'),
  relate('array', 'town', 'streets', { table: 'street', column: 'town_id' }),
  { type: 'set_table_version', args: { table: 'town', column: 'id' } },
  { type: 'set_table_customization', args: { table: 'town', configuration: { custom_name: 'place' } } },
  {
    type: 'track_function',
    args: { function: 'big_towns', configuration: { custom_name: 'large_towns' }, comment: 'by size' },
  },
  { type: 'create_function_permission', args: { function: 'big_towns', role: 'user' } },
  { type: 'add_computed_field', args: { table: 'street', name: 'is_long', definition: { function: 'is_long' } } },
  ...TOWN.select_permissions.map(({ role, permission }) => permit('select', 'town', role, permission)),
  { type: 'create_insert_permission', args: { table: 'town', ...TOWN.insert_permissions[0] } },
  permit('delete', 'street', 'clerk', { filter: { is_long: true } }),
  { type: 'create_query_template', args: { name: 'all', template: { type: 'count', args: { table: 'town' } } } },
  { type: 'set_role_inheritance', args: { role: 'boss', roles: ['user', 'clerk'] } },
]

export const allMetadata = area('metadata', {
  promises: PROMISES,
  pages: {
    'plugins/query/metadata.md': {
      'SQL and metadata (admin)': {
        '`export_metadata`, `replace_metadata`, `clear_metadata`': [
          'export.content',
          'export.replace',
          'replace.missing',
        ],
        '`diff_metadata`': ['diff.changes', 'diff.refused', 'diff.effects'],
        '`reload_metadata`': 'reload.effect',
        '`get_inconsistent_metadata`, `drop_inconsistent_metadata`': ['inconsistent.listed', 'inconsistent.dropped'],
        '`table_sizes`': 'sizes.rows',
        '`dump_internal_state`': 'dump.state',
      },
    },
  },
  start,
  cases: CASES,
})

async function start(t: Test) {
  const server = await testServer(t)
  await server.sql(SQL)
  return server
}
