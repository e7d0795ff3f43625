import t from 'tap'
import { mapMetadata } from '../../plugins/hasura/map-metadata.js'
import { type Json, type JsonObject, NO_LIMITS, parseJson } from '../../core/json/parse.js'

/** Moves the only table of a source, and returns it with the report. */
function moveTable(table: object) {
  const { metadata, report } = mapMetadata(
    source({ tables: [{ table: { schema: 'public', name: 'note' }, ...table }] }),
  )
  return { table: metadata.tables[0]!, report }
}
const source = (rest: object, top: object = {}): JsonObject =>
  json({ version: 3, sources: [{ name: 'default', kind: 'postgres', tables: [], configuration: {}, ...rest }], ...top })
const json = (value: object) => parseJson(JSON.stringify(value), NO_LIMITS) as JsonObject
const permit = (list: string, permission: object, role = 'user') => ({ [list]: [{ role, permission }] })

t.test('session variables get other names in rules and presets', async (t) => {
  const rule = {
    _and: [
      { owner_id: { _eq: 'X-Hasura-User-Id' } },
      { $or: [{ team: { members: { id: { $in: ['x-hasura-user-id', 'fixed'] } } } }, { org: 'X-HASURA-ORG_ID' }] },
      { _exists: { _table: { schema: 'public', name: 'grant' }, _where: { to: { _eq: 'X-Hasura-Role' } } } },
      { place: { _st_d_within: { distance: 5, from: 'X-Hasura-Place' } } },
      { data: { _contains: { by: 'X-Hasura-User-Id' } } },
    ],
  }
  const set = { owner_id: 'x-hasura-User-Id', label: 'new', data: { by: 'X-Hasura-User-Id' } }

  const { table, report } = moveTable(
    permit('insert_permissions', { check: rule, set, columns: ['text'], backend_only: false }),
  )

  t.same(table['insert_permissions'], [
    {
      role: 'user',
      permission: {
        check: {
          _and: [
            { owner_id: { _eq: 'X-Service-User-Id' } },
            {
              $or: [
                { team: { members: { id: { $in: ['X-Service-user-id', 'fixed'] } } } },
                { org: 'X-Service-ORG_ID' },
              ],
            },
            { _exists: { _table: { schema: 'public', name: 'grant' }, _where: { to: { _eq: 'X-Service-Role' } } } },
            { place: { _st_d_within: { distance: 5, from: 'X-Service-Place' } } },
            { data: { _contains: { by: 'X-Hasura-User-Id' } } },
          ],
        },
        set: { owner_id: 'X-Service-User-Id', label: 'new', data: { by: 'X-Hasura-User-Id' } },
        columns: ['text'],
        allow_upsert: true,
      },
    },
  ])
  t.same(report.left, [])
})

t.test('backend_only and enum tables are moved', async (t) => {
  for (const [list, permission] of Object.entries({
    insert_permissions: { check: {} },
    update_permissions: { columns: '*', filter: {} },
    delete_permissions: { filter: {} },
  })) {
    const { table, report } = moveTable({ ...permit(list, { ...permission, backend_only: true }), is_enum: true })
    t.match(table, { is_enum: true, [list]: [{ permission: { backend_only: true } }] })
    t.same(report.left, [])
  }
})

t.test('a permission is left out if it would permit more than before', async (t) => {
  const cases: readonly [string, object, RegExp][] = [
    ['select_permissions', { columns: '*', filter: {}, query_root_fields: [] }, /query_root_fields/],
    ['select_permissions', { columns: '*', filter: {}, query_root_fields: ['select_by_pk'] }, /query_root_fields/],
    ['insert_permissions', { check: {}, validate_input: { type: 'http', definition: {} } }, /validate_input/],
    ['select_permissions', { columns: '*' }, /no "filter"/],
    ['insert_permissions', { columns: '*', check: null }, /no "check"/],
    ['select_permissions', { columns: '*', filter: {}, unheard: 1 }, /"unheard" is not known/],
    ['select_permissions', { columns: '*', filter: { a: { _ne: 'X-Hasura-Org.Id' } } }, /session variable in "filter"/],
    ['select_permissions', { columns: '*', filter: { a: { _ne: 'X-Service-Org' } } }, /session variable in "filter"/],
    ['update_permissions', { columns: '*', filter: {}, set: { a: 'x-hasura-a b' } }, /session variable in "set"/],
  ]
  for (const [list, permission, reason] of cases) {
    const { table, report } = moveTable(permit(list, permission))

    t.same(table[list], [], JSON.stringify(permission))
    t.match(report.left, [{ kind: list.replace('_permissions', ' permission'), name: 'note.user', reason }])
  }
  for (const role of ['admin', 'sales team']) {
    t.equal(moveTable(permit('delete_permissions', { filter: {} }, role)).report.left.length, 1, role)
  }
})

t.test('other keys of permissions', async (t) => {
  const moved = (list: string, permission: object) => {
    const { table, report } = moveTable(permit(list, permission))
    const notes = report.notes.filter(({ kind }) => kind !== 'role')
    return [(table[list] as JsonObject[])[0]?.['permission'], notes.length, report.left.length]
  }

  t.same(
    moved('select_permissions', {
      columns: ['id'],
      filter: {},
      limit: 10,
      allow_aggregations: true,
      computed_fields: ['size'],
      query_root_fields: ['select', 'select_aggregate'],
      subscription_root_fields: [],
    }),
    [{ columns: ['id'], filter: {}, limit: 10, allow_aggregations: true, computed_fields: ['size'] }, 1, 0],
  )
  t.same(
    moved('select_permissions', { query_root_fields: ['select'], columns: '*', filter: {}, allow_aggregations: true }),
    [{ columns: '*', filter: {}, allow_aggregations: false }, 1, 0],
  )
  t.same(moved('update_permissions', { columns: [], filter: {}, check: null, set: {} }), [
    { columns: [], filter: {}, set: {} },
    0,
    0,
  ])
})

t.test('whoever may insert may ignore conflicts', async (t) => {
  const insert = permit('insert_permissions', { check: {} })
  const upserts = (update: object) =>
    (moveTable({ ...insert, ...update }).table['insert_permissions'] as JsonObject[])[0]?.['permission']

  t.same(upserts(permit('update_permissions', { columns: ['a'], filter: {} })), { check: {}, allow_upsert: true })
  t.same(upserts(permit('update_permissions', { columns: [], filter: {} })), { check: {}, allow_upsert: true })
  t.same(upserts({}), { check: {}, allow_upsert: true })
  t.same(
    upserts({
      ...permit('insert_permissions', { check: {}, allow_upsert: false }),
      ...permit('update_permissions', { columns: '*', filter: {} }),
    }),
    {
      check: {},
    },
  )
})

t.test('sorting by aggregates that a role may not read is reported', async (t) => {
  const may = (role: string, more: object = {}) => ({ role, permission: { columns: ['id'], filter: {}, ...more } })
  const { report } = mapMetadata(
    source({
      tables: [
        {
          table: 'author',
          array_relationships: [
            {
              name: 'notes',
              using: { foreign_key_constraint_on: { table: { schema: 'app', name: 'note' }, column: 'by' } },
            },
            {
              name: 'twins',
              using: { manual_configuration: { remote_table: 'author', column_mapping: { id: 'id' } } },
            },
          ],
          select_permissions: [may('user', { allow_aggregations: true }), may('guest'), may('clerk')],
        },
        {
          table: { schema: 'app', name: 'note' },
          object_relationships: [{ name: 'author', using: { foreign_key_constraint_on: 'by' } }],
          select_permissions: [may('user'), may('clerk', { allow_aggregations: true }), may('other')],
        },
      ],
    }),
  )

  t.same(
    report.notes.filter(({ kind }) => kind === 'order_by by aggregates').map(({ name }) => name),
    ['author.notes.user', 'author.twins.guest', 'author.twins.clerk'],
  )
})

t.test('relationships, names, computed fields and functions', async (t) => {
  const manual = (more: object) => ({
    manual_configuration: { remote_table: { schema: 'app', name: 'a' }, column_mapping: { x: 'y' }, ...more },
  })
  const { metadata, report } = mapMetadata(
    source({
      tables: [
        {
          table: { schema: 'app', name: 'note' },
          configuration: {
            custom_name: 'Note',
            custom_root_fields: { select: 'notes', select_by_pk: { name: 'note', comment: 'One' }, select_stream: 's' },
            custom_column_names: { created_at: 'createdAt' },
            column_config: { created_at: { custom_name: 'createdAt' }, body: { custom_name: 'text', comment: 'Text' } },
          },
          object_relationships: [
            { name: 'owner', using: { foreign_key_constraint_on: 'owner_id' }, comment: 'Who wrote it' },
            { name: 'pair', using: { foreign_key_constraint_on: ['a', 'b'] } },
            { name: 'plain', using: manual({ insertion_order: null }) },
            { name: 'ordered', using: manual({ insertion_order: 'before_parent' }) },
            { name: 'later', using: manual({ insertion_order: 'after_parent' }) },
          ],
          array_relationships: [
            {
              name: 'tags',
              using: { foreign_key_constraint_on: { table: { schema: 'public', name: 'tag' }, column: 'note_id' } },
            },
          ],
          computed_fields: [
            { name: 'size', definition: { function: { schema: 'public', name: 'size_of' }, session_argument: 's' } },
          ],
        },
      ],
      functions: [
        'plain',
        {
          function: { schema: 'public', name: 'search' },
          configuration: { session_argument: 'who', custom_root_fields: { function: 'find', function_aggregate: 'f' } },
          permissions: [{ role: 'user' }],
        },
      ],
    }),
  )

  const to = { remote_table: { schema: 'app', name: 'a' }, column_mapping: { x: 'y' } }
  t.match(metadata.tables, [
    {
      table: { schema: 'app', name: 'note' },
      configuration: {
        custom_name: 'Note',
        custom_root_fields: { select: 'notes', select_by_pk: 'note' },
        column_config: { created_at: { custom_name: 'createdAt' }, body: { custom_name: 'text' } },
      },
      object_relationships: [
        { name: 'owner', using: { foreign_key_constraint_on: 'owner_id' }, comment: 'Who wrote it' },
        { name: 'pair', using: { foreign_key_constraint_on: ['a', 'b'] } },
        { name: 'plain', using: { manual_configuration: to } },
        { name: 'ordered', using: { manual_configuration: { ...to, insertion_order: 'before_parent' } } },
        { name: 'later', using: { manual_configuration: { ...to, insertion_order: 'after_parent' } } },
      ],
      array_relationships: [
        { name: 'tags', using: { foreign_key_constraint_on: { table: 'tag', column: 'note_id' } } },
      ],
      computed_fields: [{ name: 'size', definition: { function: 'size_of', session_argument: 's' } }],
    },
  ])
  t.notMatch(JSON.stringify(metadata), '"insertion_order":null')
  t.same(metadata.functions, [
    { function: 'plain', configuration: null, permissions: [] },
    {
      function: 'search',
      configuration: { session_argument: 'who', custom_name: 'find' },
      permissions: [{ role: 'user' }],
    },
  ])
  t.match(report.left, [
    { kind: 'root field', name: 'app.note.select_stream' },
    { kind: 'function', name: 'search', reason: /aggregate/ },
  ])
  t.same(
    report.notes.map(({ kind, name }) => `${kind} ${name}`),
    [
      'root field app.note.select_by_pk',
      'column app.note.body',
      'computed field app.note.size',
      'function search',
      'function search',
      'function inferFunctionPermissions',
    ],
  )
  t.same(report.configuration, { plugins: { graphql: { inferFunctionPermissions: true } } })
  const changing = source({ functions: [{ function: 'add', configuration: { exposed_as: 'mutation' } }] })
  const { report: other } = mapMetadata(changing)
  t.match(other.notes, [{ name: 'add', reason: /only admin may call it/ }])
  t.same(other.configuration, {})
})

t.test('the names of a function in GraphQL, and those that change', async (t) => {
  const move = (configuration: object, customization = {}, of: Json = 'find') => {
    const { metadata, report } = mapMetadata(source({ functions: [{ function: of, configuration }], customization }))
    const about = ({ kind, name, reason }: { kind: string; name: string; reason?: string }) =>
      kind === 'function' && name === 'find' ? reason : []
    return [metadata.functions[0]?.['configuration'], report.left.flatMap(about), report.notes.flatMap(about)]
  }
  const roots = (of: object, more = {}) => ({ ...more, custom_root_fields: of })
  const aggregate = 'the name of its aggregate begins with get instead of find'
  const args = 'the type of its args begins with get instead of find'

  t.same(move({ custom_name: 'get' }), [{ custom_name: 'get' }, [], []])
  t.same(move({ custom_name: 'get', custom_root_fields: {} }), [{ custom_name: 'get' }, [], []])
  t.same(move(roots({ function: 'find' })), [{ custom_name: 'find' }, [], []])
  t.same(move(roots({ function: 'get' }, { custom_name: 'get' })), [{ custom_name: 'get' }, [], []])
  t.same(move(roots({ function: 'get' })), [{ custom_name: 'get' }, [], [aggregate, args]])
  t.same(move(roots({ function: 'get' }, { custom_name: 'find' })), [{ custom_name: 'get' }, [], [aggregate, args]])
  t.same(move(roots({ function: 'get', function_aggregate: 'get_aggregate' })), [{ custom_name: 'get' }, [], [args]])
  t.same(move(roots({ function_aggregate: 'find_aggregate' })), [null, [], []])
  t.same(move(roots({ function_aggregate: 'count' }, { custom_name: 'get' })), [
    { custom_name: 'get' },
    ['its aggregate cannot be called count'],
    [],
  ])
  const camel = { naming_convention: 'graphql-default' }
  t.same(move(roots({ function_aggregate: 'findAggregate' }), camel), [null, [], []])
  t.match(move(roots({ function_aggregate: 'find_aggregate' }), camel), [null, [/cannot be called find_aggregate/], []])
  t.same(move(roots({ function: null, function_aggregate: null })), [null, [], []])
  t.match(move(roots({ other: 'x' })), [null, ['configuration.custom_root_fields.other has no equivalent'], []])
  t.match(move({ response: { type: 'table' } }), [null, ['configuration.response has no equivalent'], []])
  t.same(move(roots({ function: 'app_find' }), {}, { schema: 'app', name: 'find' }), [
    { custom_name: 'app_find' },
    [],
    [],
  ])
})

t.test('everything without an equivalent is reported', async (t) => {
  const { report } = mapMetadata(
    source(
      {
        tables: [
          {
            table: 'note',
            is_enum: true,
            event_triggers: [{ name: 'wrote' }],
            remote_relationships: [{ name: 'weather' }],
            apollo_federation_config: { enable: 'v1' },
            unheard: [1],
          },
        ],
        customization: { naming_convention: 'graphql-default', root_fields: { prefix: 'shop_' } },
        logical_models: [],
      },
      {
        remote_schemas: [{ name: 'github' }],
        actions: [{ name: 'login' }],
        custom_types: { objects: [{ name: 'Token' }], scalars: [] },
        cron_triggers: [{ name: 'nightly' }],
        inherited_roles: [{ role_name: 'editor', role_set: ['user'] }],
        api_limits: { disabled: false, rate_limit: { global: { max_reqs_per_min: 5 } } },
        graphql_schema_introspection: { disabled_for_roles: ['user'] },
        network: {},
        opentelemetry: { status: 'enabled' },
        allowlist: [],
      },
    ),
  )

  t.same(
    report.left.map(({ kind, name }) => `${kind}: ${name}`),
    [
      'source: customization.root_fields',
      'event trigger: note.wrote',
      'remote relationship: note.weather',
      'table note: apollo_federation_config',
      'table note: unheard',
      'remote schema: github',
      'action: login',
      'custom type: Token',
      'cron trigger: nightly',
      'api limits: disabled, rate_limit',
      'introspection: disabled for user',
      'setting: opentelemetry',
    ],
  )
  t.same(report.configuration, { plugins: { graphql: { namingConvention: 'graphql-default' } } })
})

t.test('event triggers move, with the providers of their webhooks', async (t) => {
  const trigger = (name: string, definition: object, more: object) => ({ name, definition, ...more })
  const { metadata, report } = mapMetadata(
    source(
      {
        tables: [
          {
            table: 'note',
            event_triggers: [
              trigger(
                'wrote',
                { enable_manual: true, insert: { columns: '*' }, update: { columns: ['text'], payload: '*' } },
                {
                  webhook_from_env: 'ERP_URL',
                  retry_conf: { num_retries: 100, interval_sec: 60 },
                  headers: [
                    { name: 'X-Key', value_from_env: 'ERP_KEY' },
                    { name: 'X-From', value: 'shop' },
                  ],
                },
              ),
              trigger('gone', { delete: { columns: '*' } }, { webhook: '{{HOOK}}', request_transform: { version: 2 } }),
              trigger('odd name', { insert: { columns: '*' } }, { webhook: 'https://a.example.com' }),
            ],
          },
        ],
      },
      {
        cron_triggers: [
          { name: 'nightly', schedule: '0 3 * * *', webhook: 'https://b.example.com/in', payload: { a: 1 } },
        ],
      },
    ),
  )
  t.same(metadata.tables[0]!['captures'], {
    events: {
      wrote: { on: { insert: {}, update: { columns: ['text'] } }, to: { provider: 'wrote' }, retry: { for_hours: 2 } },
      gone: { on: { delete: {} }, to: { provider: 'gone' }, retry: { for_hours: 1 } },
    },
  })
  t.same(report.configuration, {
    providers: {
      event: {
        wrote: {
          use: 'webhook',
          url: { $env: 'ERP_URL' },
          headers: { 'X-Key': { $env: 'ERP_KEY' }, 'X-From': 'shop' },
        },
        gone: { use: 'webhook', url: { $env: 'HOOK' } },
        nightly: { use: 'webhook', url: 'https://b.example.com/in' },
      },
    },
  })
  t.match(report.left, [
    { kind: 'event trigger', name: 'note.odd name' },
    {
      kind: 'cron trigger',
      name: 'nightly',
      reason:
        /^run {"type":"create_schedule","args":{"name":"nightly","cron":"0 3 \* \* \*","to":{"provider":"nightly"}}}; it sends no payload$/,
    },
  ])
  t.ok(report.notes.some(({ name, reason }) => name === 'note.gone' && /request_transform/.test(reason ?? '')))
})

t.test('inherited roles inherit, and may write nothing where their members differ', async (t) => {
  const roles = (list: string, permissions: Record<string, object>) => ({
    [list]: Object.entries(permissions).map(([role, permission]) => ({ role, permission })),
  })
  const own = { id: { _eq: 'X-Hasura-User-Id' } }
  const given = (tables: object[]) =>
    source(
      { tables, functions: [{ function: 'find', permissions: [{ role: 'reader' }] }, 'plain'] },
      {
        inherited_roles: [
          { role_name: 'chief', role_set: ['editor', 'auditor'] },
          { role_name: 'editor', role_set: ['reader', 'writer'] },
          { role_name: 'ring', role_set: ['round'] },
          { role_name: 'round', role_set: ['ring', 'reader'] },
        ],
      },
    )
  const { metadata, report } = mapMetadata(
    given([
      {
        table: 'note',
        ...roles('select_permissions', {
          reader: { columns: ['id', 'text'], filter: own, limit: 5 },
          writer: { columns: ['text', 'id'], filter: { open: { _eq: true } }, limit: 9, allow_aggregations: true },
          auditor: { columns: ['id'], filter: {} },
        }),
        ...roles('insert_permissions', {
          reader: { columns: ['text'], check: own },
          writer: { columns: ['text'], check: {} },
        }),
        ...roles('update_permissions', {
          reader: { columns: ['text', 'id'], filter: own },
          writer: { columns: ['id', 'text'], filter: own },
        }),
        ...roles('delete_permissions', { writer: { filter: {} }, chief: { filter: own } }),
      },
      {
        table: 'tag',
        ...roles('select_permissions', {
          reader: { columns: ['id'], filter: {}, computed_fields: ['size'] },
          writer: { columns: '*', filter: {} },
        }),
      },
    ]),
  )

  const permissionOf = (table: number, list: string, role: string) =>
    (metadata.tables[table]![list] as JsonObject[]).find((each) => each['role'] === role)?.['permission']
  t.same(metadata.inherited_roles, [
    { role: 'chief', roles: ['editor', 'auditor'] },
    { role: 'editor', roles: ['reader', 'writer'] },
  ])
  t.notOk(permissionOf(0, 'select_permissions', 'editor'))
  t.notOk(permissionOf(0, 'update_permissions', 'editor'), 'its members agree')
  t.same(permissionOf(0, 'insert_permissions', 'editor'), { columns: [], check: { $or: [] } })
  t.notOk(permissionOf(0, 'insert_permissions', 'chief'), 'it inherits that of editor')
  t.same(permissionOf(0, 'delete_permissions', 'chief'), { filter: { id: { _eq: 'X-Service-User-Id' } } })
  t.same(
    report.left.map(({ kind, name, reason }) => `${kind} ${name}: ${reason}`),
    ['inherited role ring: it inherits from itself', 'inherited role round: it inherits from itself'],
  )
  t.match(
    report.notes.filter(({ name }) => name === 'note.editor'),
    [{ kind: 'insert permission', reason: 'reader, writer differ, so it allows nothing, as in Hasura' }],
  )
})

t.test('the role of callers without credentials gets the name that it has here', async (t) => {
  const tables = [{ table: 'a', ...permit('select_permissions', { columns: ['id'], filter: {} }, 'public') }]
  const functions = [{ function: 'find', permissions: [{ role: 'public' }] }]

  const { metadata } = mapMetadata(source({ tables, functions }), undefined, 'public')

  t.match(metadata.tables, [{ select_permissions: [{ role: 'anonymous' }] }])
  t.match(metadata.functions, [{ permissions: [{ role: 'anonymous' }] }])
  const nameless = { table: 'a', select_permissions: [{ permission: { columns: ['id'], filter: {} } }] }
  t.notMatch(mapMetadata(source({ tables: [nameless] })).metadata, {
    tables: [{ select_permissions: [{ role: 'anonymous' }] }],
  })
})

t.test('a role that has the name of the role of callers without credentials is refused', (t) => {
  const may = (role: string) => [{ table: 'a', ...permit('select_permissions', { columns: ['id'], filter: {} }, role) }]
  const wrong = /^the project has a role "anonymous" besides "public"/

  t.throws(() => mapMetadata(source({ tables: may('anonymous') }), undefined, 'public'), { message: wrong })
  const functions = [{ function: 'find', permissions: [{ role: 'anonymous' }] }]
  t.throws(() => mapMetadata(source({ tables: [], functions }), undefined, 'public'), { message: wrong })
  const inherited = { ...source({ tables: may('x') }), inherited_roles: [{ role_name: 'anonymous', role_set: ['x'] }] }
  t.throws(() => mapMetadata(inherited, undefined, 'public'), { message: wrong })
  t.match(mapMetadata(source({ tables: may('anonymous') }), undefined, 'anonymous').metadata.tables, [
    { select_permissions: [{ role: 'anonymous' }] },
  ])
  t.end()
})

t.test('the report says how clients keep their headers', async (t) => {
  const { report } = moveTable(permit('select_permissions', { columns: ['id'], filter: {} }))

  t.match(report.notes, [{ kind: 'role', name: 'X-Hasura-Role', reason: /set auth\.hasuraNames to true/ }])
})

t.test('one PostgreSQL source is moved', async (t) => {
  const tables = [{ table: 'a' }]
  const given = json({
    version: 3,
    sources: [
      { name: 'sales', kind: 'mssql', tables },
      { name: 'other', kind: 'postgres', tables },
      { name: 'default', kind: 'citus', tables: [{ table: { schema: 'public', name: 'b' } }] },
    ],
  })

  t.same(mapMetadata(given).metadata.tables[0]?.['table'], 'b')
  t.match(mapMetadata(given).report.left, [
    { kind: 'mssql database', name: 'sales' },
    { kind: 'source', name: 'other' },
  ])
  t.same(mapMetadata(given, 'other').metadata.tables[0]?.['table'], 'a')
  t.throws(() => mapMetadata(given, 'sales'), /no PostgreSQL source "sales"; the metadata has: other, default/)
  t.throws(() => mapMetadata({ a: 1 }), /expected metadata of Hasura/)
  t.same(
    mapMetadata(json({ version: 2, tables })).metadata.tables[0]?.['table'],
    'a',
    'version 1 and 2 have no sources',
  )
})

t.test('documents become operations, and REST endpoints templates', async (t) => {
  const query = (name: string, text: string) => ({ name, query: text })
  const endpoint = (name: string, of = name) => ({
    name,
    url: `x/${name}`,
    methods: ['GET'],
    definition: { query: { collection_name: 'all', query_name: of } },
  })
  const texts = {
    list: `query ($min: Int!, $most: Int, $tag: [String!] = ["new"]) {
      rows: notes(where: {_or: [{stars: {_gte: $min}}, {tags: {name: {_in: $tag}}}], _not: {owner: {id: {_eq: 3}}}},
        order_by: [{owner: {name: desc_nulls_last}}, {id: asc}], limit: $most) { id owner { name } tags(limit: 2) { name } }
    }`,
    one: 'query ($id: Int!) { note_by_pk(id: $id) { id } }',
    sum: '{ note_aggregate { aggregate { count } } }',
    two: '{ a: notes { id } b: notes { id } }',
    write: 'mutation { delete_note(where: {}) { affected_rows } }',
    whole: 'query ($where: note_bool_exp!) { notes(where: $where) { id } }',
    broken: '{ notes',
  }
  const { metadata, report } = mapMetadata(
    source(
      { tables: [{ table: 'note', configuration: { custom_root_fields: { select: 'notes' } } }] },
      {
        query_collections: [
          { name: 'all', definition: { queries: Object.entries(texts).map(([name, text]) => query(name, text)) } },
        ],
        rest_endpoints: [...Object.keys(texts).map((name) => endpoint(name)), endpoint('lost', 'nothing')],
      },
    ),
  )

  t.same(metadata.query_templates, [
    {
      name: 'list',
      template: {
        type: 'select',
        args: {
          table: 'note',
          columns: ['id', { name: 'owner', columns: ['name'] }, { name: 'tags', columns: ['name'], limit: 2 }],
          where: {
            _or: [
              { stars: { _gte: { param: 'min' } } },
              { tags: { name: { _in: { param: 'tag', default: ['new'] } } } },
            ],
            _not: { owner: { id: { _eq: 3 } } },
          },
          order_by: [
            { column: 'owner.name', type: 'desc', nulls: 'last' },
            { column: 'id', type: 'asc' },
          ],
          limit: { param: 'most', default: null },
        },
      },
    },
    {
      name: 'one',
      template: { type: 'select', args: { table: 'note', columns: ['id'], where: { id: { $eq: { param: 'id' } } } } },
    },
  ])
  t.match(report.notes, [
    { kind: 'REST endpoint', name: 'list', reason: /^x\/list is now \/v1\/template\/list\?tag=|.*"rows"/ },
    { kind: 'REST endpoint', name: 'one', reason: /\/v1\/template\/one\?id=\.\.\., .*"note_by_pk"/ },
  ])
  t.same(
    report.left.map(({ name }) => name),
    ['sum', 'two', 'write', 'whole', 'broken', 'lost'],
  )
  t.same(report.configuration, { plugins: { graphql: { operations: texts } } })
})

t.test('an allow list admits only its documents', async (t) => {
  const collection = (name: string) => ({ name, definition: { queries: [{ name: `q-${name}`, query: '{ a }' }] } })
  const given = (allowlist: Json) =>
    mapMetadata(source({}, { query_collections: [collection('in'), collection('out'), collection('some')], allowlist }))
      .report
  const report = given([
    { collection: 'in', scope: { global: true } },
    { collection: 'some', scope: { global: false, roles: ['user'] } },
  ] as Json)

  t.same(report.configuration, { plugins: { graphql: { operations: { 'q-in': '{ a }' }, onlyListed: true } } })
  t.match(report.left, [
    { kind: 'allow list', name: 'some', reason: /the roles user/ },
    { kind: 'query', name: 'out.q-out' },
    { kind: 'query', name: 'some.q-some' },
  ])
  t.match(given([{ collection: 'some', scope: { global: false, roles: [] } }] as Json).configuration, {
    plugins: { graphql: { operations: {}, onlyListed: true } },
  })
})
