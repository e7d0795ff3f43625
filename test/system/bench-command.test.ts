import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { ADMIN_SECRET, testServer } from '../kit/server.js'

const CLI = fileURLToPath(new URL('../../core/cli.js', import.meta.url))
/** Each client has at least one answer, however short it is. */
const SECONDS = 0.05
/** Before what a test says, which wins. */
const SHORT = ['--clients', '1,3', '--seconds', String(SECONDS)]
const secret = { ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET }

t.test('templates, queries and documents are asked, and each number of clients gets a line', async (t) => {
  const { url, must } = await shop(t)
  const folder = await newFolder(t)
  const bench = (...args: string[]) => run(folder, [url, ...args], secret)

  const some = await bench('--template', 'from', '--arg', 'least=1..3', '--arg', 'most=8', '--arg', 'most=9')
  t.match(some, {
    code: 0,
    err: new RegExp(`${url} as admin`),
    out: /template from: 3 different requests\n\n.*p50 ms.*p90 ms.*p99 ms.*\n +1 +\d.*█.* 0\n +3 +\d.* 0\n[^]*closed loop/,
  })
  const every = await bench()
  t.match(every, { code: 0, out: /template all: 1 different request\n/ })
  t.notMatch(every.out, /template (from|add)/, 'one needs arguments, the other writes')

  await writeFile(join(folder, 'one.json'), JSON.stringify(select(1)))
  await writeFile(join(folder, 'list.json'), JSON.stringify([select(1), select(2)]))
  await writeFile(join(folder, 'lines.ndjson'), [1, 2, 3].map((id) => JSON.stringify(select(id))).join('\n'))
  for (const [file, count] of Object.entries({ 'one.json': 1, 'list.json': 2, 'lines.ndjson': 3 })) {
    t.match(await bench('--query', file), { code: 0, out: new RegExp(`query ${file}: ${count} different request`) })
  }
  await writeFile(join(folder, 'one.graphql'), 'query ($id: Int!) { item_by_pk(id: $id) { id } } # no mutation {')
  await writeFile(join(folder, 'variables.json'), '[{"id": 1}, {"id": 2}]')
  t.match(await bench('--graphql', 'one.graphql', '--variables', 'variables.json'), { code: 0, out: /: 2 different/ })

  const json = JSON.parse((await bench('--template', 'all', '--json')).out)
  t.match(json, {
    url,
    caller: 'as admin',
    workloads: [{ name: 'template all', requests: 1, steps: [{ clients: 1 }, { clients: 3, failures: [] }] }],
  })
  const [{ p50, p90, p99, max, requests, seconds, requestsPerSecond }] = json.workloads[0].steps
  t.ok(p50 <= p90 && p90 <= p99 && p99 <= max)
  t.ok(requests > 0 && Math.abs(requestsPerSecond * seconds - requests) < 1)
  t.same(await must('count', { table: 'item' }), { count: 9 }, 'nothing was written')
})

t.test('it needs no configuration, not even a right one', async (t) => {
  const folder = await newFolder(t)
  await writeFile(join(folder, 'rowhouse.config.json'), '{"plugins": 7}')

  t.match(await run(folder, ['--help']), { code: 0, out: /^rowhouse bench URL [^]*--yes/ })
  t.match(await run(folder, ['http://127.0.0.1', 'http://127.0.0.1']), { code: 2, err: /too many arguments/ })
  t.match(await run(folder, ['--header', 'A: 1', '--confg', 'x']), { code: 2 })
})

t.test('it asks as who it is told to be', async (t) => {
  const { url, must } = await shop(t)
  const folder = await newFolder(t)
  await must('create_select_permission', {
    table: 'item',
    role: 'user',
    permission: { columns: ['id'], filter: { id: 'X-Service-User-Id' } },
  })
  await writeFile(join(folder, 'secret'), `${ADMIN_SECRET}\n`)
  await writeFile(join(folder, 'all.json'), '{"type": "select", "args": {"table": "item", "columns": ["id"]}}')
  const bench = (...args: string[]) => run(folder, [url, '--query', 'all.json', ...args])

  t.match(await bench('--admin-secret-file', 'secret', '--role', 'user', '--header', 'X-Service-User-Id: 7'), {
    code: 0,
    err: /as the role user/,
    out: / 10 +\d\S* +0\n/,
  })
  t.match(await bench(), { code: 1, err: /the first response is 400: .*permission-denied/ })
  t.match(await bench('--header', 'nonsense'), { code: 2, err: /--header must be 'Name: value'/ })
  const others = await run(folder, [url, '--query', 'all.json', '--header', 'Authorization: Bearer x'], secret)
  t.match(
    others,
    { code: 1, err: /^401: the header Authorization is not accepted: /m },
    'the secret of the environment is not sent beside a token',
  )
})

t.test('what is missing or may do harm is said before anything is sent twice', async (t) => {
  const { url, must } = await shop(t)
  const folder = await newFolder(t)
  await writeFile(
    join(folder, 'add.json'),
    '[{"type": "count", "args": {"table": "item"}}, {"type": "run_sql", "args": {}}]',
  )
  await writeFile(
    join(folder, 'add.graphql'),
    '{ item { id } } mutation add { insert_item(objects: [{}]) { affected_rows } }',
  )
  await writeFile(join(folder, 'broken.ndjson'), '{"type": "count"}\n{"type"')
  await writeFile(join(folder, 'empty.json'), '\n')
  await writeFile(join(folder, 'wrong.graphql'), '{ nope }')
  const bench = (...args: string[]) => run(folder, args, secret)

  for (const [args, err] of [
    [['http://192.0.2.1'], /192\.0\.2\.1 is neither this machine nor in a private network; use --yes/],
    [['http://127.0.0.1:1'], /cannot connect to 127\.0\.0\.1 port 1: ECONNREFUSED/],
    [[url, '--template', 'form'], /there is no template "form" as admin, did you mean "from"\?/],
    [[url, '--template', 'from'], /template "from" needs --arg least=\.\.\. --arg most=\.\.\./],
    [[url, '--template', 'all', '--arg', 'least=1'], /template "all" has no parameter "least"/],
    [[url, '--template', 'add'], /template "add" changes data; use --writes/],
    [[url, '--query', 'add.json'], /add\.json: "run_sql" may change data; use --writes/],
    [[url, '--graphql', 'add.graphql'], /a mutation changes data; use --writes/],
    [[url, '--query', 'broken.ndjson'], /broken\.ndjson: line 2 is not JSON/],
    [[url, '--query', 'empty.json'], /^empty\.json is empty$/m],
    [[url, '--query', 'none.json'], /^none\.json: no such file$/m],
    [[url, '--graphql', 'none.graphql'], /^none\.graphql: no such file$/m],
    [[url, '--graphql', 'wrong.graphql', '--variables', '.'], /^\.: is a directory/m],
    [[url, '--admin-secret-file', 'none'], /^none: no such file$/m],
    [[url, '--graphql', 'wrong.graphql'], /^GraphQL wrong\.graphql: GraphQL errors: Cannot query field "nope"/m],
    [[url.replace('http:', 'https:')], /^127\.0\.0\.1:\d+ does not support TLS; use http:\/\/ [^\n]*\n$/],
  ] as const) {
    const told = await bench(...args)
    t.match(told, { code: 1, err }, args.join(' '))
  }
  for (const [args, err] of [
    [[], /expecting the URL/],
    [['http://user:pass@127.0.0.1'], /must not contain credentials/],
    [[url, '--template', 'from', '--arg', 'least=3..1'], /range 3\.\.1 must go/],
    [[url, '--template', 'from', '--arg', 'least'], /--arg must be name=value/],
    [[url, '--query', 'add.json', '--template', 'all'], /use only one of/],
    [['http://127.0.0.1:1', '--arg', 'a=1'], /--arg needs --template/],
    [[url, '--variables', 'add.json'], /--variables needs --graphql/],
    [[url, '--clients', '1,x'], /--clients must be integers/],
    [[url, '--seconds', '0'], /--seconds must be a number above 0/],
  ] as const) {
    t.match(await bench(...args), { code: 2, err }, args.join(' '))
  }
  const { code, err } = await run(folder, [url])
  t.match(
    { code, err },
    { code: 1, err: /choose requests with --template, --query or --graphql: there is no template that reads/ },
  )
  await must('drop_query_template', { name: 'all' })
  t.match(await bench(url), { code: 1, err: /--template from --arg least=\.\.\. --arg most=\.\.\./ })
  t.same(await must('count', { table: 'item' }), { count: 9 })

  t.match(await bench(url, '--template', 'add', '--writes'), { code: 0, out: /template add/ })
  t.not((await must('count', { table: 'item' })).count, 9)
})

t.test('refusals are counted by what they say, with the setting behind them, and are no success', async (t) => {
  const { url, must } = await shop(t, { limits: { newQueries: { perSecond: 1, burst: 1 } } })
  const folder = await newFolder(t)
  await must('create_select_permission', {
    table: 'item',
    role: 'anonymous',
    permission: { columns: ['id'], filter: {} },
  })
  const forms = Array.from({ length: 40 }, (_, n) => {
    const columns = Array.from({ length: n + 1 }, () => 'id')
    return JSON.stringify({
      type: 'select',
      args: {
        table: 'item',
        columns: [...new Set(columns)],
        limit: 1,
        where: { $and: columns.map(() => ({ id: 1 })) },
      },
    })
  })
  await writeFile(join(folder, 'forms.ndjson'), forms.join('\n'))

  // More at once than the limit lets through.
  t.match(await run(folder, [url, '--query', 'forms.ndjson', '--clients', '40']), {
    code: 1,
    out: /40 clients: \d+ x 429 too-many-requests \(.*limits\.newQueries.*\): \{.*new query shape/,
  })
})

t.test('who is not let in is told why first', async (t) => {
  const { url } = await shop(t)
  const folder = await newFolder(t)

  t.match(await run(folder, [url], { ROWHOUSE_ADMIN_SECRET: 'wrong' }), {
    code: 1,
    err: /^401: the admin secret is wrong\n$/,
  })
  const bearer = await run(folder, [url, '--header', 'Authorization: Bearer x'])
  t.match(bearer, { code: 1, err: /^401: the header Authorization is not accepted: / })
  const role = await run(folder, [url, '--role', 'user'])
  t.match(role, { code: 1, err: /^40[13]: .* \(as the role user\); send credentials with --admin-secret-file F, / })
})

t.test('templates that cannot be asked like that are left out, unless it is all of them', async (t) => {
  const { url, must } = await shop(t)
  const folder = await newFolder(t)
  await must('run_sql', { sql: 'create table own (id int primary key)' })
  await must('track_table', 'own')
  const own = { type: 'select', args: { table: 'own', columns: ['id'] } }
  await must('create_query_template', { name: 'own', template: own })
  const mine = { columns: ['id'], filter: { id: 'X-Service-User-Id' } }
  await must('create_select_permission', { table: 'own', role: 'all', permission: mine })
  await must('create_select_permission', { table: 'own', role: 'user', permission: mine })
  await must('create_select_permission', { table: 'item', role: 'all', permission: { columns: ['id'], filter: {} } })
  const bench = (...args: string[]) => run(folder, [url, ...args], secret)
  const wayOut = /template own: the first response is 400: .*; send one, such as --header 'X-Service-User-Id: 7'\n/

  const some = await bench('--role', 'all')
  t.match(some, { code: 0, out: /template all: /, err: new RegExp(`skipped: ${wayOut.source}`) })
  t.notMatch(some.out, /template own/)
  const json = JSON.parse((await bench('--role', 'all', '--json')).out)
  t.match(json, {
    skipped: [{ name: 'template own', why: /X-Service-User-Id: 7/ }],
    workloads: [{ name: 'template all' }],
  })
  t.match(await bench('--role', 'user'), { code: 1, out: '', err: wayOut })
  t.match(await bench('--role', 'all', '--template', 'own'), { code: 1, out: '', err: wayOut })
  t.match(await bench('--role', 'user', '--header', 'X-Service-User-Id: 7'), { code: 0, out: /template own: 1/ })
})

t.test('an empty answer is called one, and bytes are those of the answer in the middle', async (t) => {
  const { url } = await shop(t)
  const folder = await newFolder(t)
  await writeFile(join(folder, 'none.json'), JSON.stringify(select(99)))
  await writeFile(join(folder, 'mostly.json'), JSON.stringify([99, 1, 2, 3, 4, 5].map(select)))
  await writeFile(join(folder, 'none.graphql'), '{ item(where: {id: {_eq: 99}}) { id } }')
  const bench = (...args: string[]) => run(folder, [url, '--clients', '1', ...args], secret)

  for (const args of [
    ['--query', 'none.json'],
    ['--graphql', 'none.graphql'],
  ]) {
    t.match(await bench(...args), {
      code: 0,
      out: /The measured response is empty/,
      err: /the first response is empty/,
    })
  }
  // Each of the six has its turn.
  const mostlyArgs = ['--query', 'mostly.json', '--clients', '6']
  const mostly = await bench(...mostlyArgs)
  t.match(mostly, { code: 0, err: /the first response is empty: \[\]\n/, out: / 10 +\d\S* +0\n/ })
  t.notMatch(mostly.out, /response is empty/)
  const json = JSON.parse((await bench(...mostlyArgs, '--json')).out)
  t.match(json.workloads, [{ firstAnswerBytes: 2, firstAnswerEmpty: true, steps: [{ answerBytes: 10 }] }])
})

t.test('the JSON says what was asked of what, and no secret', async (t) => {
  const { url } = await shop(t)
  const folder = await newFolder(t)

  const { out, err } = await run(folder, [
    url,
    '--clients',
    '1',
    '--template',
    'from',
    '--arg',
    'least=1',
    '--arg',
    'most=9',
    '--json',
    '--header',
    `X-Service-Admin-Secret: ${ADMIN_SECRET}`,
  ])

  t.match(err, / 1 client\n/)
  t.match(JSON.parse(out), {
    server: { version: /^\d+\.\d+\.\d+/ },
    processors: Number,
    options: {
      template: 'from',
      args: ['least=1', 'most=9'],
      headers: ['X-Service-Admin-Secret'],
      clients: [1],
      seconds: SECONDS,
    },
  })
  t.notMatch(out, /interrupted/)
  t.notOk(out.includes(ADMIN_SECRET))
})

t.test('Ctrl-C prints what there is, and says that it was cut', async (t) => {
  const { url } = await shop(t)
  const folder = await newFolder(t)

  const cut = await interrupted(/measuring/, '--seconds', '1000')
  t.match(cut, { code: 130, out: /template all[^]*\n +1 +\d.*  interrupted after \d\S* s\n[^]*closed loop/ })
  const { code, out } = await interrupted(/measuring/, '--seconds', '1000', '--json')
  t.equal(code, 130)
  const [{ steps }] = JSON.parse(out).workloads
  t.match(JSON.parse(out), { interrupted: true })
  t.match(steps, [{ interrupted: true }])
  t.ok(steps[0].seconds < 500)

  const early = await interrupted(/warming up/, '--seconds', '1000')
  t.same([early.code, early.out], [130, 'template all: interrupted before anything was measured\n'])

  async function interrupted(when: RegExp, ...args: string[]) {
    const command = [CLI, 'bench', url, '--template', 'all', '--clients', '1', ...args]
    const child = spawn(process.execPath, command, { cwd: folder, env: { PATH: process.env['PATH'], ...secret } })
    const closed = once(child, 'close')
    let out = ''
    let err = ''
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()))
    const told = () => when.test(err)
    while (!told()) await once(child.stderr, 'data')
    child.kill('SIGINT')
    return { code: (await closed)[0] as number, out }
  }
})

t.test('a server that breaks off is counted, and asked again', async (t) => {
  let asked = 0
  const server = createServer((request, response) => {
    asked++
    if (asked === 1) response.end('[]')
    else if (asked % 3 === 0) request.socket.destroy()
    else response.setHeader('Connection', asked % 2 === 0 ? 'close' : 'keep-alive').end('[]')
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const folder = await newFolder(t)
  await writeFile(join(folder, 'one.json'), JSON.stringify(select(1)))

  const url = `http://localhost:${(server.address() as AddressInfo).port}`
  // Enough clients that some of their first requests are answered and some are not.
  const told = await run(folder, [url, '--query', 'one.json', '--clients', '6', '--json'])

  t.equal(told.code, 1)
  const [one] = JSON.parse(told.out).workloads[0].steps
  t.match(one, { requests: Number, failures: [{ what: /closed|ECONNRESET/, count: Number }] })
  t.ok(one.requests > 0)
})

t.test('values of arguments take turns, and of a long range some are taken', async (t) => {
  const asked = new Set<string>()
  const parameters = { properties: { a: {}, b: {} }, required: ['a'] }
  const post = { requestBody: { content: { 'application/json': { schema: parameters } } } }
  const server = createServer((request, response) => {
    if (request.url === '/base/v1/openapi.json') {
      response.end(JSON.stringify({ paths: { '/v1/template/a%20b': { get: {}, post } } }))
      return
    }
    if (request.url === '/base/v1/version') {
      response.end('{}')
      return
    }
    asked.add(`${request.method} ${request.url}`)
    response.end('[]')
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/base/`
  const folder = await newFolder(t)

  const args = ['--template', 'a b', '--arg', 'a=-1..1', '--arg', 'a=x&y', '--arg', 'b=1', '--arg', 'b=2']
  t.match(await run(folder, [url, ...args]), { code: 0, out: /template a b: 4 different requests/ })
  t.same(
    [...asked],
    ['a=-1&b=1', 'a=0&b=2', 'a=1&b=1', 'a=x%26y&b=2'].map((query) => `GET /base/v1/template/a%20b?${query}`),
  )
  const many = await run(folder, [url, '--template', 'a b', '--arg', 'a=1..1000000'])
  t.match(many, { code: 0, out: /10000 different requests/ })
  t.ok(asked.has('GET /base/v1/template/a%20b?a=101'), 'evenly')
})

const select = (id: number) => ({ type: 'select', args: { table: 'item', columns: ['id'], where: { id } } })

/** A server with nine items and three templates. */
async function shop(t: Test, config: Readonly<Record<string, unknown>> = {}) {
  const server = await testServer(t, { config })
  await server.must('run_sql', {
    sql: 'create table item (id int primary key generated by default as identity (start 10), note text); insert into item select generate_series(1, 9)',
  })
  await server.must('track_table', 'item')
  const where = { id: { $gte: { param: 'least' }, $lte: { param: 'most' } } }
  const columns = ['id']
  for (const [name, template] of Object.entries({
    all: { type: 'select', args: { table: 'item', columns } },
    from: { type: 'select', args: { table: 'item', columns, where } },
    add: { type: 'insert', args: { table: 'item', objects: { param: 'rows', default: [{ note: 'x' }] } } },
  })) {
    await server.must('create_query_template', { name, template })
  }
  return server
}

async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-bench-command-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

function run(folder: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return new Promise<{ code: number; out: string; err: string }>((resolve) => {
    const options = { cwd: folder, env: { PATH: process.env['PATH'], ...env } }
    execFile(process.execPath, [CLI, 'bench', ...SHORT, ...args], options, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, out, err }),
    )
  })
}
