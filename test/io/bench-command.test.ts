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
/** Before what a test says, which wins. */
const SHORT = ['--clients', '1,3', '--seconds', '0.2']
const secret = { ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET }

t.test('templates, queries and documents are asked, and each number of clients gets a line', async (t) => {
  const { url, must } = await shop(t)
  const folder = await newFolder(t)
  const bench = (...args: string[]) => run(folder, [url, ...args], secret)

  const some = await bench('--template', 'from', '--arg', 'least=1..3', '--arg', 'most=8', '--arg', 'most=9')
  t.match(some, {
    code: 0,
    err: new RegExp(`${url} as admin`),
    out: /template from: 3 different requests; the first is answered with 200, \d+ bytes\n\n.*p50 ms.*p90 ms.*p99 ms.*\n +1 +\d.*█.* 0\n +3 +\d.* 0\n[^]*closed loop/,
  })
  const every = await bench()
  t.match(every, { code: 0, out: /template all: 1 different request;/ })
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
    out: /the first is answered with 200, 10 bytes/,
  })
  t.match(await bench(), { code: 1, err: /the first answer is 400: .*permission-denied/ })
  t.match(await bench('--header', 'nonsense'), { code: 1, err: /--header should be 'Name: value'/ })
  const others = await run(folder, [url, '--query', 'all.json', '--header', 'Authorization: Bearer x'], secret)
  t.match(
    others,
    { code: 1, err: /the first answer is 401/ },
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
  const bench = (...args: string[]) => run(folder, args, secret)

  for (const [args, err] of [
    [[], /needs the URL/],
    [['http://192.0.2.1'], /192\.0\.2\.1 is neither this machine nor in a private network: --yes/],
    [['http://127.0.0.1:1'], /no server answers at 127\.0\.0\.1 port 1: ECONNREFUSED/],
    [['http://user:pass@127.0.0.1'], /must not hold credentials/],
    [[url, '--template', 'form'], /there is no template "form" as admin, did you mean "from"\?/],
    [[url, '--template', 'from'], /template "from" needs --arg least=\.\.\. --arg most=\.\.\./],
    [[url, '--template', 'all', '--arg', 'least=1'], /template "all" has no parameter "least"/],
    [[url, '--template', 'from', '--arg', 'least=3..1'], /3\.\.1 is no range/],
    [[url, '--template', 'add'], /template "add" changes something: --writes/],
    [[url, '--query', 'add.json'], /add\.json: "run_sql" may change something: --writes/],
    [[url, '--graphql', 'add.graphql'], /a mutation changes something: --writes/],
    [[url, '--query', 'broken.ndjson'], /broken\.ndjson: line 2 is no JSON/],
    [[url, '--query', 'add.json', '--template', 'all'], /say one of/],
    [[url, '--clients', '1,x'], /--clients should be whole numbers/],
  ] as const) {
    const told = await bench(...args)
    t.match(told, { code: 1, err }, args.join(' '))
  }
  const { code, err } = await run(folder, [url])
  t.match(
    { code, err },
    { code: 1, err: /say what to ask with --template, --query or --graphql: there is no template that reads/ },
  )
  await must('drop_query_template', { name: 'all' })
  t.match(await bench(url), { code: 1, err: /--template from --arg least=\.\.\. --arg most=\.\.\./ })
  t.same(await must('count', { table: 'item' }), { count: 9 })

  t.match(await bench(url, '--template', 'add', '--writes'), { code: 0, out: /template add/ })
  t.not((await must('count', { table: 'item' })).count, 9)
})

t.test('refusals are counted by what they say, with the setting behind them, and are no success', async (t) => {
  const { url, must } = await shop(t, { limits: { misses: { perSecond: 1, burst: 3 } } })
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

  t.match(await run(folder, [url, '--query', 'forms.ndjson']), {
    code: 1,
    out: /1 client: \d+ x 429 too-many-requests \(.*limits\.misses.*\): \{.*new form/,
  })
})

t.test('Ctrl-C prints what there is', async (t) => {
  const { url } = await shop(t)
  const folder = await newFolder(t)
  const child = spawn(
    process.execPath,
    [CLI, 'bench', url, '--template', 'all', '--clients', '1', '--seconds', '1000'],
    {
      cwd: folder,
      env: { PATH: process.env['PATH'], ...secret },
    },
  )
  let out = ''
  let err = ''
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()))
  const told = () => /measuring/.test(err)
  while (!told()) await once(child.stderr, 'data')

  child.kill('SIGINT')

  t.same((await once(child, 'exit'))[0], 130)
  t.match(out, /template all[^]*\n +1 +\d/)
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
  const told = await run(folder, [url, '--query', 'one.json', '--json'])

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
