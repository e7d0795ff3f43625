/** Requests that are right, of every operation, for mutations to start from. */
export const VALID: readonly unknown[] = [
  {
    type: 'select',
    args: {
      table: 'person',
      columns: ['id', 'name', { name: 'town', columns: ['name', { name: 'people', columns: ['*'], limit: 2 }] }],
      where: { $or: [{ age: { $gt: 10 } }, { town: { name: { $like: 'k%' } } }], name: { $ne: null } },
      order_by: ['-age', '+town.name', { column: 'id', type: 'desc', nulls: 'last' }],
      limit: 10,
      offset: 1,
    },
  },
  {
    type: 'select',
    args: {
      table: { schema: 'public', name: 'town' },
      columns: ['*', { name: 'people', alias: 'folk', columns: ['id', 'doc', 'facts'], order_by: 'id' }],
      where: { people: { mood: { $in: ['calm', 'wild'] }, numbers: { $contains: [1, 2] }, alive: true } },
    },
  },
  {
    type: 'select',
    args: {
      table: 'person',
      columns: ['id', 'shout', 'span', 'wait', 'address', 'bits', 'money', 'big', 'raw'],
      where: {
        facts: { $contains: { a: [1] }, $has_keys_any: ['a', 'b'] },
        big: { $nin: [1, 2, 9007199254740991] },
        score: { $gte: 1.5, $lte: '7.25' },
        key: { $eq: '00000000-0000-0000-0000-000000000000' },
        name: { $ilike: '%a_', $regex: '^p', $similar: '(a|b)%' },
        nick: { $is_null: true },
        born: { $lt: '2030-01-01T00:00:00Z' },
        $not: { age: { $ceq: 'age' }, moods: ['calm'] },
      },
    },
  },
  { type: 'select', args: { table: 'grown_up', columns: ['id', 'name'], where: { age: 20 } } },
  { type: 'select', args: { table: 'person', columns: ['*', '*.*'] } },
  { type: 'count', args: { table: 'person', where: { age: { $gte: 3 } }, distinct: ['name', 'age'] } },
  { type: 'count', args: { table: 'town' } },
  {
    type: 'insert',
    args: {
      table: 'person',
      objects: [
        { name: 'marker', age: 3, mood: 'wild', numbers: [1, null], facts: { a: [1, { b: null }] }, money: 1.25 },
        { name: 'other', doc: { x: [1] }, key: '11111111-1111-1111-1111-111111111111', span: '[1,4)', bits: '1010' },
        { name: 'third', born: '2020-01-01', wait: '1 day', address: '::1', big: 9007199254740991, raw: '\\x00ff' },
      ],
      on_conflict: { action: 'update', constraint: 'person_town_id_name_key' },
      returning: ['id', 'name', 'shout'],
    },
  },
  {
    type: 'insert',
    args: {
      table: 'town',
      objects: [{ name: 'a town' }, { name: 'b town', tags: ['x', 'y'], facts: [1] }],
      on_conflict: { action: 'ignore', constraint_on: ['name'] },
      returning: ['id'],
    },
  },
  { type: 'insert', args: { table: 'person', objects: [{ name: 'one', town_id: 1, id: 77 }] } },
  {
    type: 'update',
    args: {
      table: 'person',
      where: { id: { $gt: 0 } },
      $set: { nick: 'marker', moods: ['calm'], facts: { b: 1 }, doc: [1, 2] },
      $inc: { age: 1, big: 2 },
      $mul: { score: 1.5 },
      $default: ['money'],
      returning: ['id', 'age', 'money'],
    },
  },
  { type: 'update', args: { table: 'town', where: { name: 'a town' }, values: { area: 2.5, founded: '1200-01-01' } } },
  { type: 'delete', args: { table: 'person', where: { name: { $like: 'third%' } }, returning: ['id', 'name'] } },
  { type: 'delete', args: { table: 'town', where: { $and: [{ name: 'b town' }, { $not: { people: {} } }] } } },
  {
    type: 'call',
    args: {
      function: 'mingle',
      arguments: {
        age: 3,
        mood: 'wild',
        facts: { a: [1] },
        moods: ['calm', null],
        spot: { name: 'marker', at: '[1,4)' },
        price: 1.25,
        born: '2030-01-01T00:00:00Z',
        raw: '\\x00ff',
      },
      columns: ['age', 'spot', { count: '*' }],
      where: { mood: { $ne: 'calm' }, facts: { $has_key: 'a' } },
      group_by: ['age', 'spot'],
      order_by: ['-age'],
      limit: 3,
    },
  },
  { type: 'call', args: { function: { schema: 'public', name: 'tally' }, arguments: { numbers: [1, 2.5, null] } } },
  { type: 'call', args: { function: 'measure', arguments: { bits: '1010', wait: '01:00:00' }, columns: ['*'] } },
  {
    type: 'bulk',
    args: [
      { type: 'insert', args: { table: 'town', objects: [{ name: 'in bulk' }] } },
      { type: 'count', args: { table: 'town', where: {} } },
      { type: 'bulk', args: [{ type: 'select', args: { table: 'town', columns: ['id'], limit: 1 } }] },
      { type: 'delete', args: { table: 'town', where: { name: 'in bulk' } } },
    ],
  },
]

const table = 'person'
const definition = {
  columns: ['id', 'name'],
  filter: {
    town_id: 'X-Service-User-Id',
    $or: [{ name: 'X-Service-Name' }, { town: { people: { age: { $in: [1, 'X-Service-Age'] } } } }],
    $exists: { _table: 'town', _where: { name: { $eq: 'kept' } } },
  },
}

/** Changes of metadata that are right. */
export const METADATA: readonly unknown[] = [
  { type: 'track_table', args: 'quiet' },
  { type: 'untrack_table', args: { table: 'grown_up', cascade: true } },
  {
    type: 'create_object_relationship',
    args: { table, name: 'home', using: { foreign_key_constraint_on: 'town_id' } },
  },
  {
    type: 'create_array_relationship',
    args: {
      table: 'town',
      name: 'same',
      using: { manual_configuration: { remote_table: 'person', column_mapping: { id: 'town_id', name: 'name' } } },
      comment: 'marker',
    },
  },
  { type: 'drop_relationship', args: { table, relationship: 'town', cascade: true } },
  { type: 'set_relationship_comment', args: { table, name: 'town', comment: null } },
  { type: 'create_select_permission', args: { table, role: 'guest', permission: { ...definition, limit: 3 } } },
  {
    type: 'create_insert_permission',
    args: { table, role: 'guest', permission: { check: definition.filter, set: { age: 1, mood: 'wild' } } },
  },
  {
    type: 'create_update_permission',
    args: { table, role: 'guest', permission: { ...definition, check: {}, set: { facts: { a: 1 }, numbers: [1] } } },
  },
  { type: 'create_delete_permission', args: { table, role: 'guest', permission: { filter: definition.filter } } },
  { type: 'drop_select_permission', args: { table, role: 'user' } },
  { type: 'set_permission_comment', args: { table, role: 'user', type: 'select', comment: 'marker' } },
  {
    type: 'replace_metadata',
    args: {
      tables: [
        {
          table: 'town',
          array_relationships: [
            { name: 'people', using: { foreign_key_constraint_on: { table: 'person', column: 'town_id' } } },
          ],
          select_permissions: [{ role: 'guest', permission: { columns: ['id'], filter: { people: { age: 1 } } } }],
        },
        { table: { schema: 'public', name: 'person' } },
      ],
      query_templates: [{ name: 't', template: { type: 'select' }, comment: null }],
    },
  },
  { type: 'export_metadata', args: {} },
  { type: 'clear_metadata', args: {} },
  { type: 'reload_metadata', args: {} },
  { type: 'dump_internal_state', args: {} },
  { type: 'get_inconsistent_metadata', args: {} },
  { type: 'drop_inconsistent_metadata', args: {} },
  {
    type: 'run_sql',
    args: { sql: 'alter table person add column more int; select 1 as a, null as b', cascade: false },
  },
  { type: 'select', args: { table: { schema: 'svc_catalog', name: 'svc_table' }, columns: ['*', '*.*'] } },
]

const EXPLAINED = new Set(['select', 'insert', 'update'])
export const EXPLAIN: readonly unknown[] = VALID.filter((each) => EXPLAINED.has((each as { type: string }).type)).map(
  (query) => ({ query, role: 'user', headers: { 'X-Service-User-Id': '1' } }),
)

/** Requests of the right form that nobody may make. */
export const REFUSED: readonly unknown[] = [
  { type: 'insert', args: { table: { schema: 'svc_catalog', name: 'svc_table' }, objects: [{ table_name: 'x' }] } },
  { type: 'delete', args: { table: { schema: 'svc_catalog', name: 'svc_permission' }, where: {} } },
  { type: 'insert', args: { table: 'town', objects: [{ name: 'x', id: 1 }] } },
  { type: 'update', args: { table: 'person', where: {}, $set: { shout: 'x' } } },
  { type: 'run_sql', args: { sql: 'create table stray (id int); commit' } },
]
