import { SignJWT } from 'jose'
import t from 'tap'
import { ADMIN_SECRET, testServer } from '../kit/server.js'
import { PROCESSES } from '../kit/several-processes.js'
import { until } from '../kit/until.js'

const KEY = 'a key of a test, of 32 characters!'

t.test('only admin, and only on /v1/query, may send more than http.maxJsonBytes', async (t) => {
  const server = await testServer(t, { config: { http: { maxJsonBytes: 1000, maxAdminJsonBytes: 3000 } } })
  const query = (bytes: number) => {
    const start = '{"type":"bulk","args":[]'
    return `${start}${' '.repeat(bytes - start.length - 1)}}`
  }
  const post = async (path: string, body: string, role: string) => {
    const response = await fetch(server.url + path, {
      method: 'POST',
      body,
      headers: { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-role': role },
    })
    return { status: response.status, text: await response.text() }
  }

  t.match(await post('/v1/query', query(3000), 'admin'), { status: 200 })
  t.match(await post('/v1/query', query(3001), 'admin'), { status: 413, text: /3000 bytes \(http.maxAdminJsonBytes\)/ })
  t.match(await post('/v1/query', query(1001), 'user'), { status: 413, text: /1000 bytes \(http.maxJsonBytes\)/ })
  t.match(await post('/v1/query/explain', query(1001), 'admin'), { status: 413, text: /\(http.maxJsonBytes\)/ })
})

t.test('admin may send the metadata of thousands of tables', async (t) => {
  const server = await testServer(t)
  const many = `[${'[],'.repeat(300_000)}[]]`
  t.match(await server.raw(many, { role: 'user' }), { status: 400, text: /more than 250000 objects and arrays/ })
  t.match(await server.raw(many), { status: 400, text: /expecting an object with the keys type and args/ })
})

const skip = PROCESSES > 1 && 'the limit holds for each process'
t.test('one caller’s flood of new forms is limited, its values and everybody else are not', { skip }, async (t) => {
  const server = await testServer(t, {
    threads: 1,
    config: {
      limits: { newQueries: { perSecond: 1, burst: 20 } },
      auth: { adminSecret: ADMIN_SECRET, jwt: { algorithms: ['HS256'], key: KEY } },
    },
  })
  await server.must('run_sql', { sql: 'create table note (id int primary key, text text)' })
  await server.must('track_table', 'note')
  for (const role of ['user', 'guest', 'anonymous']) {
    const permission = { columns: '*', filter: {} }
    await server.must('create_select_permission', { table: 'note', role, permission })
  }
  const ask = async (args: object, headers: Record<string, string>) => {
    const body = JSON.stringify({ type: 'select', args: { table: 'note', columns: ['id'], ...args } })
    const response = await fetch(`${server.url}/v1/query`, { method: 'POST', body, headers })
    return { status: response.status, headers: response.headers, body: (await response.json()) as unknown }
  }
  const as = async (role: string, id: string | undefined) => ({ authorization: `Bearer ${await tokenOf(role, id)}` })
  /** A form that nobody has asked for. */
  const novel = () => ({ where: { $or: Array.from({ length: ++forms }, () => ({ id: 1 })) } })
  let forms = 0
  const flooder = await as('user', '1')
  const known = (id: number) => ({ where: { id } })
  t.equal((await ask(known(1), flooder)).status, 200)

  const flood = await Promise.all(Array.from({ length: 60 }, () => ask(novel(), flooder)))
  const refused = flood.filter(({ status }) => status !== 200)

  t.ok(refused.length >= 30 && refused.length < 60, `${refused.length} of 60 are refused`)
  t.match(refused[0], {
    status: 429,
    body: { path: '$', error: /limits\.newQueries/, code: 'too-many-requests', message: /limits\.newQueries/ },
  })
  t.equal(refused[0]?.headers.get('retry-after'), '1')
  const hits = await Promise.all(Array.from({ length: 60 }, (_, id) => ask(known(id), flooder)))
  t.ok(
    hits.every(({ status }) => status === 200),
    'the flooder itself still has what is known',
  )
  const others: Record<string, Record<string, string>> = {
    'another user': await as('user', '2'),
    'the same id in another role': await as('guest', '1'),
    'a token without an id': await as('user', undefined),
    admin: { 'x-service-admin-secret': ADMIN_SECRET },
  }
  for (const [name, headers] of Object.entries(others)) {
    t.equal((await ask(known(2), headers)).status, 200, `a hit of ${name}`)
    t.equal((await ask(novel(), headers)).status, 200, `a miss of ${name}`)
  }

  await t.test('what is refused for its content counts as well', async (t) => {
    const headers = await as('user', '3')
    const wrong = await Promise.all(Array.from({ length: 60 }, (_, i) => ask({ columns: [`secret${i}`] }, headers)))
    t.same(new Set(wrong.map(({ status }) => status)), new Set([400, 429]))
  })
  await t.test('anonymous callers count by their address, admin not at all', async (t) => {
    const anonymous = await Promise.all(Array.from({ length: 60 }, () => ask(novel(), {})))
    t.ok(anonymous.some(({ status }) => status === 429))
    const admin = await Promise.all(
      Array.from({ length: 60 }, () => ask(novel(), { 'x-service-admin-secret': ADMIN_SECRET })),
    )
    t.ok(admin.every(({ status }) => status === 200))
  })
  await t.test('the bucket fills again', async (t) => {
    await until('a miss is answered', async () => (await ask(novel(), flooder)).status === 200)
    t.match((await server.fetch('/metrics')).text, /rowhouse_compilations_refused_total [1-9]/)
  })
})

function tokenOf(role: string, id: string | undefined): Promise<string> {
  const user = id === undefined ? {} : { 'x-service-user-id': id }
  return new SignJWT({ rowhouse: { 'x-service-allowed-roles': [role], ...user } })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(Buffer.from(KEY))
}

t.test('a request is no longer than PostgreSQL parses quickly', async (t) => {
  const server = await testServer(t)
  const columns = Array.from({ length: 100 }, (_, n) => `${'a'.repeat(57)}${1000 + n}`)
  await server.must('run_sql', {
    sql: `create table note (id int primary key, other int references note, ${columns.map((name) => `${name} int`).join()})`,
  })
  await server.must('track_table', 'note')
  const others = { name: 'others', using: { foreign_key_constraint_on: { table: 'note', column: 'other' } } }
  await server.must('create_array_relationship', { table: 'note', ...others })
  await server.must('create_select_permission', {
    table: 'note',
    role: 'user',
    permission: { columns: '*', filter: {} },
  })
  const user = { role: 'user' }
  const ids = (count: number) => Array.from({ length: count }, () => 'id')
  const select = (more: object) => server.query('select', { table: 'note', columns: ['id'], ...more }, user)
  const refused = (path: string, error: RegExp) => ({ status: 400, body: { code: 'unexpected-payload', path, error } })

  t.match(await select({ columns: ids(1601) }), refused('$.args.columns', /at most 1600 columns/))
  t.match(await select({ order_by: ids(1601) }), refused('$.args.order_by', /at most 1600 columns/))
  t.match(await select({ columns: [`*${'.*'.repeat(1_000_000)}`] }), refused('$.args.columns', /at most 5 levels/))
  t.match(await select({ order_by: ids(101) }), refused('$.args', /sorted by at most 100 columns/))
  t.match(await select({ order_by: ids(100) }), { status: 200 })
  const distinct = await server.query('count', { table: 'note', distinct: ids(1601) }, user)
  t.match(distinct, refused('$.args.distinct', /at most 1600 columns/))
  const order = `[${ids(101)
    .map((id) => `{${id}: asc}`)
    .join()}]`
  const body = JSON.stringify({ query: `{ note(order_by: ${order}) { id } }` })
  const { body: answer } = await server.fetch('/v1/graphql', { method: 'POST', body }, user)
  t.match(answer, { errors: [{ message: /sorted by at most 100 columns/ }] })

  const many = Array.from({ length: 95 }, (_, n) => ({ name: 'others', alias: `o${n}`, columns: ['*'] }))
  t.match(await select({ columns: many }), refused('$', /SQL has \d+ characters, and at most 1048576/))
})
