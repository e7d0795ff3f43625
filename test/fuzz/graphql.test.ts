import t from 'tap'
import fc, { cases } from '../kit/property.js'
import { testServer } from '../kit/server.js'

const REQUESTS = cases(1_000, 'ROWHOUSE_FUZZ_REQUESTS')
const ROUND = Math.min(500, REQUESTS)
const BUDGET_MS = process.env['ROWHOUSE_FUZZ_REQUESTS'] === undefined ? 20_000 : Infinity
const SEED = Number(process.env['ROWHOUSE_FUZZ_SEED'] ?? 1)
const AT_ONCE = 8

const SQL = `
create type mood as enum ('calm', 'wild');
create table town (id serial primary key, name text not null unique, mood mood, tags text[], info jsonb, doc json, at timestamptz, big bigint, num numeric, place point);
create table person (id serial primary key, name text not null, town_id int references town, boss int references person, flag bool);
insert into town (name, mood, tags, info) select 'town ' || n, 'calm', '{a}', '{"a": 1}' from generate_series(1, 5) n;
insert into person (name, town_id, boss, flag) select 'p' || n, 1 + n % 5, case when n > 1 then 1 end, n % 2 = 0 from generate_series(1, 20) n;`

/** Documents that work, to be bent out of shape. */
const DOCUMENTS = [
  'query q($id: Int!, $w: town_bool_exp, $o: [town_order_by!], $n: Int) { town(where: $w, order_by: $o, limit: $n) { id name tags info } town_by_pk(id: $id) { persons(where: {name: {_like: "p%"}}, limit: 2) { name town { name } } } }',
  'query { town_aggregate(where: {persons_aggregate: {count: {predicate: {_gt: 1}, filter: {flag: {_eq: true}}}}}) { aggregate { count(columns: [name], distinct: true) max { id name } sum { id } } nodes { id } } }',
  'mutation m($o: [town_insert_input!]!, $c: town_on_conflict) { insert_town(objects: $o, on_conflict: $c) { affected_rows returning { id persons { id } } } }',
  'mutation { insert_person_one(object: {name: "x", town: {data: {name: "fresh"}, on_conflict: {constraint: town_name_key, update_columns: [name]}}}) { id town { id } } }',
  'mutation { update_town(where: {id: {_eq: 1}}, _set: {mood: wild, tags: ["a"]}, _append: {info: {b: 1}}, _inc: {big: 1}) { affected_rows } delete_person(where: {id: {_gt: 1000}}) { affected_rows } }',
  'mutation u($u: [town_updates!]!) { update_town_many(updates: $u) { affected_rows } delete_town_by_pk(id: 77) { id } }',
  '{ town(distinct_on: [mood], order_by: [{mood: asc}, {persons_aggregate: {count: desc}}]) { ...f ... on town { n: name @skip(if: false) } } __typename } fragment f on town { id persons_aggregate { nodes { id } } }',
  '{ __schema { types { name } } __type(name: "town") { fields { name type { kind ofType { name } } } } }',
  '{ person(order_by: ["-town.name", "+id"], limit: 3, where: {_or: [{flag: {_is_null: true}}, {_not: {town: {}}}]}) { id town { name } } }',
  'mutation { insert_town(objects: [{name: "z"}]) { affected_rows } update_town(where: {}, _set: {name: "z"}) { returning { name } } delete_town(where: {name: {_eq: "z"}}) { affected_rows } }',
]
const VARIABLES = [
  { id: 1, w: { id: { _in: [1, 2] } }, o: [{ id: 'desc' }], n: 1 },
  {
    o: [{ name: 'n', persons: { data: [{ name: 'k' }] } }],
    c: { constraint: 'town_name_key', update_columns: ['mood'] },
  },
  { u: [{ where: { id: { _eq: 1 } }, _set: { mood: 'calm' } }] },
]
const TOKENS = [
  '{',
  '}',
  '(',
  ')',
  '[',
  ']',
  ':',
  '!',
  '$',
  '@',
  '...',
  '"',
  '"""',
  '|',
  '#',
  ',',
  '=',
  '&',
  '\u0000',
  '\ud800',
  '\ufeff',
  'null',
  'true',
  '0',
  '-1',
  '1e999',
  '99999999999999999999',
  '"\\u0000"',
  '"\\ud800"',
  '""',
  '[]',
  '{}',
  '[null]',
  '{a: 1}',
  'asc',
  'calm',
  '__proto__',
  'constructor',
  'toString',
  'id',
  'town',
  'persons',
  'person',
  '_eq',
  '_in',
  '_is_null',
  '_and',
  '_or',
  '_not',
  '_exists',
  'where',
  'town_bool_exp',
  'Int',
  'query_root',
  'fragment',
  'on',
  'subscription',
  '$w',
  '$id',
  '@include(if: $id)',
  '@skip(if: true)',
  '$constructor',
  'place',
  'doc',
  'at',
  'big',
  'num',
  '_contains',
  '_st_d_within',
  '_cast',
  '_has_keys_any',
  '_delete_at_path',
  'x'.repeat(70),
]
const JSONS: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  '',
  'x',
  '\u0001',
  '{1,2}',
  [],
  {},
  [null],
  [[1]],
  [{}],
  { a: 1 },
  { _eq: null },
  { _in: null },
  { _and: {} },
  { id: { _eq: {} } },
  { id: {} },
  { constructor: 1 },
  { data: [] },
  { data: null },
  { data: { name: 5 } },
  { persons: { data: [{}] } },
]

const splitter = /(\.\.\.|[A-Za-z_$@]\w*|\d+|"[^"]*"|\S)/g
const bent = (text: string): fc.Arbitrary<string> =>
  fc
    .array(fc.tuple(fc.nat(), fc.constantFrom('drop', 'put', 'change', 'twice'), fc.constantFrom(...TOKENS)), {
      maxLength: 2,
    })
    .map((changes) => {
      const tokens = text.match(splitter) ?? []
      for (const [place, way, token] of changes) {
        const at = place % Math.max(1, tokens.length)
        if (way === 'drop') tokens.splice(at, 1)
        else if (way === 'put') tokens.splice(at, 0, token)
        else if (way === 'change') tokens.splice(at, 1, token)
        else tokens.splice(at, 0, ...tokens.slice(at, at + 5))
      }
      return tokens.join(' ')
    })
const bentJson = (json: object): fc.Arbitrary<unknown> =>
  fc.array(fc.tuple(fc.nat(), fc.constantFrom(...JSONS)), { maxLength: 3 }).map((changes) => {
    const copy = structuredClone(json) as Record<string, unknown>
    for (const [place, value] of changes) {
      let node: Record<string, unknown> = copy
      for (let depth = 0; depth < 6; depth++) {
        const keys = Object.keys(node)
        const key = keys[(place >> depth) % Math.max(1, keys.length)]
        if (key === undefined) break
        const inner = node[key]
        if (typeof inner === 'object' && inner !== null && (place >> depth) % 3 > 0)
          node = inner as Record<string, unknown>
        else {
          node[key] = structuredClone(value)
          break
        }
      }
    }
    return copy
  })
const request = fc.record({
  path: fc.constantFrom('/v1/graphql', '/v1/graphql', '/v1alpha1/graphql', '/v1/graphql/explain'),
  role: fc.constantFrom('admin', 'user', 'nobody'),
  query: fc.constantFrom(...DOCUMENTS).chain(bent),
  variables: fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...VARIABLES).chain(bentJson) },
    { weight: 1, arbitrary: fc.constantFrom(undefined, ...JSONS) },
  ),
})

t.test(`no document of ${REQUESTS} gets an answer of another form (seed ${SEED})`, async (t) => {
  const server = await testServer(t, { threads: 1 })
  await server.must('run_sql', { sql: SQL })
  const permit = (type: string, table: string, permission: object) => ({
    type: `create_${type}_permission`,
    args: { table, role: 'user', permission },
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'town' },
    { type: 'track_table', args: 'person' },
    {
      type: 'create_object_relationship',
      args: { table: 'person', name: 'town', using: { foreign_key_constraint_on: 'town_id' } },
    },
    {
      type: 'create_array_relationship',
      args: {
        table: 'town',
        name: 'persons',
        using: { foreign_key_constraint_on: { table: 'person', column: 'town_id' } },
      },
    },
    permit('select', 'town', { columns: ['id', 'name', 'mood', 'place'], filter: {}, allow_aggregations: true }),
    permit('select', 'person', { columns: '*', filter: { flag: true }, limit: 5, allow_aggregations: true }),
    permit('insert', 'town', { check: { name: { $ne: 'bad' } }, columns: ['name'], allow_upsert: true }),
    permit('update', 'town', { columns: ['mood'], filter: {} }),
    permit('delete', 'person', { filter: { id: { $gt: 5 } } }),
  ])
  const before = Object.getOwnPropertyNames(Object.prototype)
  const faults: string[] = []
  const seen = new Map<string, number>()
  const deadline = performance.now() + BUDGET_MS

  for (let round = 0; round * ROUND < REQUESTS && performance.now() < deadline && faults.length === 0; round++) {
    const pending = fc.sample(request, { seed: SEED * 1_000_003 + round, numRuns: ROUND }).values()
    const worker = async () => {
      for (const { path, role, query, variables } of pending) {
        const init = { method: 'POST', body: JSON.stringify({ query, variables }) }
        const as = { role, variables: { 'x-service-user-id': '1' }, acting: true } as const
        const { status, body, text } = await server.fetch(path, init, as)
        const codes = (body?.errors as { extensions: { code: string; path: string } }[] | undefined)?.map(
          ({ extensions }) => extensions,
        )
        const kind = body?.data || Array.isArray(body) ? 'data' : (codes?.[0]?.code ?? 'none')
        seen.set(kind, (seen.get(kind) ?? 0) + 1)
        const formed =
          body?.data !== undefined ||
          Array.isArray(body) ||
          (codes?.every((each) => each.code && each.path?.startsWith('$')) ?? false)
        if (status >= 500 || kind === 'unexpected' || !formed)
          faults.push(`${path} ${role} ${JSON.stringify({ query, variables })}\n${status} ${text}`)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
  }
  t.same(faults.slice(0, 5), [])
  t.ok(
    (seen.get('data') ?? 0) > REQUESTS / 50 && (seen.get('validation-failed') ?? 0) > REQUESTS / 20,
    JSON.stringify([...seen]),
  )
  t.same(Object.getOwnPropertyNames(Object.prototype), before)
  t.equal((await server.query('count', { table: 'town' })).status, 200, 'and the server is there')
})
