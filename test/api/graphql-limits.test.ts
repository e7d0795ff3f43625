import { createHash } from 'node:crypto'
import tap from 'tap'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'

tap.test('what a document may ask for is limited', async (t) => {
  const server = await testServer(t, {
    config: {
      plugins: { graphql: { roles: { guest: { maxDepth: 2, maxRootFields: 1 } } } },
    },
  })
  await server.must('run_sql', {
    sql: 'create table node (id int primary key, up int references node); insert into node values (1, null), (2, 1)',
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'node' },
    {
      type: 'create_object_relationship',
      args: { table: 'node', name: 'parent', using: { foreign_key_constraint_on: 'up' } },
    },
    {
      type: 'create_array_relationship',
      args: { table: 'node', name: 'children', using: { foreign_key_constraint_on: { table: 'node', column: 'up' } } },
    },
    {
      type: 'create_select_permission',
      args: { table: 'node', role: 'guest', permission: { columns: '*', filter: {} } },
    },
  ])
  const ask = async (query: string, role = 'admin') =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query }) }, { role })).body
  const refused = async (query: string, role?: string) => {
    const { errors } = await ask(query, role)
    return `${errors?.[0].extensions.code}: ${errors?.[0].message}`
  }
  const nested = (depth: number): string => (depth === 0 ? 'id' : `parent { ${nested(depth - 1)} }`)

  t.match(
    await refused(`{ node { ${nested(30)} } }`),
    /^validation-failed: the document has 3\d levels; at most 20 are allowed \(plugins.graphql.limits.maxDepth\)/,
  )
  t.match(
    await refused(`{ ${Array.from({ length: 60 }, (_, i) => `a${i}: node { id }`).join(' ')} }`),
    /60 root fields; at most 50/,
  )
  t.match(
    await refused(`{ node { ${Array.from({ length: 300 }, (_, i) => `a${i}: id`).join(' ')} } }`),
    /300 aliases; at most 200/,
  )
  t.match(await refused(`{ node { ${'id '.repeat(6000)} } }`), /^parse-failed: .*token/i)
  t.match(await refused(`{ node(where: ${'['.repeat(4000)}) { id } }`), /^parse-failed/)
  t.match(await refused(`# ${'x'.repeat(300_000)}\n{ node { id } }`), /longer than 262144 bytes/)
  t.match(
    await refused(`{ node(where: ${'{_not: '.repeat(60)}{}${'}'.repeat(60)}) { id } }`),
    /^unexpected-payload: a condition may nest at most 50 levels/,
  )
  t.match(
    await refused('{ node { ...a } } fragment a on node { ...b } fragment b on node { ...a }'),
    /^validation-failed: fragment "a" spreads itself/,
  )
  const doubling = Array.from(
    { length: 15 },
    (_, i) => `fragment f${i} on node { x: parent { ...f${i + 1} } y: parent { ...f${i + 1} } }`,
  ).join(' ')
  t.match(
    await refused(`{ node { ...f0 } } ${doubling} fragment f15 on node { id }`),
    /^validation-failed: .* aliases; at most 200/,
  )

  await t.test('values and types nest as far as JSON, in defaults of variables too', async (t) => {
    const deep = (levels: number) => `${'{_not: '.repeat(levels)}{}${'}'.repeat(levels)}`
    const answers = await Promise.all([
      refused(`query ($v: node_bool_exp = ${deep(1000)}) { node(where: $v) { id } }`),
      refused(`{ node(where: ${deep(1000)}) { id } }`),
      refused(`query ($v: ${'['.repeat(1000)}Int${']'.repeat(1000)}) { node { id } }`),
    ])

    for (const answer of answers) t.match(answer, /^validation-failed: values and types may nest at most 64 levels/)
    t.equal((await ask(`query ($v: node_bool_exp = ${deep(40)}) { node(where: $v) { id } }`)).data.node.length, 2)
  })

  await t.test('variables hold so many objects, however many values', async (t) => {
    const query = 'query ($w: node_bool_exp!) { node(where: $w) { id } }'
    const send = async (w: object) => {
      const body = JSON.stringify({ query, variables: { w } })
      return (await server.fetch('/v1/graphql', { method: 'POST', body })).body
    }

    t.match(await send({ _or: Array.from({ length: 20_001 }, () => ({})) }), {
      errors: [{ message: /more than 20000 objects/, extensions: { path: '$.variables', code: 'validation-failed' } }],
    })
    t.match(await send({ id: { _in: Array.from({ length: 30_000 }, (_, i) => i) } }), {
      data: { node: [{ id: 1 }, { id: 2 }] },
    })
  })

  await t.test('an error repeats only the beginning of a long name', async (t) => {
    const name = 'a'.repeat(100_000)
    t.ok((await refused(`{ node { ${name} } }`)).length < 5000)
    const { text } = await server.query('select', { table: 'node', columns: ['id'], where: { [name]: 1 } })
    t.match(text, /not-exists/)
    t.ok(text.length < 10_000, `${text.length} characters`)
  })

  await t.test('a role may have limits of its own', async (t) => {
    t.match(await refused('{ a: node { id } b: node { id } }', 'guest'), /2 root fields; at most 1/)
    t.match(await refused('{ node { parent { id } } }', 'guest'), /3 levels; at most 2/)
    t.same((await ask('{ node_by_pk: node(where: {id: {_eq: 2}}) { id up } }', 'guest')).data, {
      node_by_pk: [{ id: 2, up: 1 }],
    })
  })
})

tap.test('documents that the server knows', async (t) => {
  const listed = 'query one { node_by_pk(id: 1) { id } }'
  const server = await testServer(t, {
    config: { plugins: { graphql: { operations: { one: listed }, onlyListed: true, maxPersisted: 2 } } },
  })
  await server.must('run_sql', { sql: 'create table node (id int primary key); insert into node values (1)' })
  await server.must('bulk', [
    { type: 'track_table', args: 'node' },
    {
      type: 'create_select_permission',
      args: { table: 'node', role: 'guest', permission: { columns: '*', filter: {} } },
    },
  ])
  const ask = async (body: object, role = 'admin') =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify(body) }, { role })).body
  const hashed = (text: string) => ({
    persistedQuery: { version: 1, sha256Hash: createHash('sha256').update(text).digest('hex') },
  })
  const one = { data: { node_by_pk: { id: 1 } } }

  await t.test('listed ones, by name, hash or text; others are refused', async (t) => {
    t.same(await ask({ documentId: 'one' }, 'guest'), one)
    t.same(await ask({ extensions: hashed(listed) }, 'guest'), one)
    t.same(await ask({ query: listed }, 'guest'), one)
    t.match(await ask({ query: '{ node { id } }' }, 'guest'), {
      errors: [{ extensions: { code: 'permission-denied' } }],
    })
    t.same(await ask({ query: '{ node { id } }' }), { data: { node: [{ id: 1 }] } }, 'admin may run any')
  })

  const skip = PROCESSES > 1 && 'each process has its own'
  await t.test('left by a client, and forgotten when there are too many', { skip }, async (t) => {
    const text = (n: number) => `{ a${n}: node { id } }`
    t.match(await ask({ extensions: hashed(text(1)) }), {
      errors: [{ message: 'PersistedQueryNotFound', extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } }],
    })
    for (const n of [1, 2, 3]) t.match(await ask({ query: text(n), extensions: hashed(text(n)) }), { data: {} })
    t.match(await ask({ extensions: hashed(text(3)) }), { data: { a3: [{ id: 1 }] } })
    t.match(await ask({ extensions: hashed(text(1)) }), { errors: [{ message: 'PersistedQueryNotFound' }] })
    t.match(await ask({ query: text(1), extensions: hashed(text(2)) }), {
      errors: [{ extensions: { code: 'parse-failed' } }],
    })
    const query = new URLSearchParams({ extensions: JSON.stringify(hashed(text(3))) })
    t.match((await server.fetch(`/v1/graphql?${query.toString()}`)).body, { data: { a3: [{ id: 1 }] } })
  })
})

tap.test('names that JavaScript knows are names like others', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', {
    sql: `create type "toString" as enum ('a'); create table "constructor" (id int primary key, "toString" text, "valueOf" "toString", "__proto__" int)`,
  })
  await server.must('track_table', 'constructor')
  const ask = async (query: string, variables?: object) =>
    (await server.fetch('/v1/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) })).body
  t.same(
    await ask(
      'mutation { insert_constructor(objects: {id: 1, toString: "x", valueOf: a}) { returning { constructor: id toString valueOf } } }',
    ),
    {
      data: { insert_constructor: { returning: [{ constructor: 1, toString: 'x', valueOf: 'a' }] } },
    },
  )
  t.same(
    await ask(
      'query q($constructor: constructor_bool_exp, $toString: Int) { constructor(where: $constructor, limit: $toString) { id } }',
    ),
    { data: { constructor: [{ id: 1 }] } },
  )
  t.same(
    await ask('query q($w: constructor_bool_exp) { constructor(where: $w) { id } }', { w: { toString: { _eq: 'x' } } }),
    { data: { constructor: [{ id: 1 }] } },
  )
  for (const key of ['hasOwnProperty', 'isPrototypeOf', '__proto__']) {
    const body = `{"query": "query q($w: constructor_bool_exp) { constructor(where: $w) { id } }", "variables": {"w": {"${key}": {"_eq": 1}}}}`
    const answer = await server.fetch('/v1/graphql', { method: 'POST', body })
    t.match(answer.body, { errors: [{ extensions: { code: 'validation-failed' } }] }, key)
  }
  t.match(
    await ask(
      'mutation m($constructor: constructor_insert_input!) { insert_constructor_one(object: $constructor) { id } }',
    ),
    { errors: [{ extensions: { code: 'validation-failed' } }] },
  )
  t.match(
    (await server.query('create_query_template', { name: 'x', template: { type: 'constructor', args: {} } })).body,
    { code: 'unexpected-payload' },
  )
})

tap.test('the price of a query fits the sizes of its tables', async (t) => {
  const database = await freshDatabase()
  t.teardown(() => database.drop())
  const first = await testServer(t, { databaseUrl: database.url })
  await first.must('run_sql', {
    sql: 'create table node (id int primary key, up int references node); insert into node values (1, null), (2, 1)',
  })
  await first.must('track_table', 'node')
  await first.must('create_array_relationship', {
    table: 'node',
    name: 'children',
    using: { foreign_key_constraint_on: { table: 'node', column: 'up' } },
  })
  await first.must('create_select_permission', {
    table: 'node',
    role: 'guest',
    permission: { columns: '*', filter: {} },
  })
  const query = '{ node { children { children { children { children { id } } } } } }'
  const ask = async (rows: number, role: string, text = query) => {
    await rowsOf(database.url, `update pg_class set reltuples = ${rows} where oid = 'node'::regclass`)
    const server = await testServer(t, { databaseUrl: database.url })
    const body = JSON.stringify({ query: text })
    return (await server.fetch('/v1/graphql', { method: 'POST', body }, { role })).body
  }

  const answer = { data: { node: [{ children: [{ children: [] }] }, { children: [] }] } }
  t.same(await ask(5_000, 'guest'), answer)
  t.match(await ask(1e9, 'guest', '{ node { id up children { id } } }'), {
    errors: [{ message: /may cost about \d+ points, and at most 1000000000 are allowed \(limits.price\)/ }],
  })
  t.same(await ask(1e9, 'guest', '{ node(limit: 5) { id } }'), { data: { node: [{ id: 1 }, { id: 2 }] } })
  t.same(await ask(1e9, 'guest', '{ node(where: {up: {_eq: 1}}) { id } }'), { data: { node: [{ id: 2 }] } })
  t.same(await ask(1e12, 'admin'), answer, 'an admin')
})
