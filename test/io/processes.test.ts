import { spawn } from 'node:child_process'
import cluster from 'node:cluster'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import { returnUntaken } from '../../core/processes/handover.js'
import { freshDatabase, rowsOf } from '../kit/database.js'
import { ADMIN_SECRET } from '../kit/server.js'
import { until } from '../kit/until.js'

const CLI = fileURLToPath(new URL('../../core/cli.js', import.meta.url))
const ADMIN = { 'content-type': 'application/json', 'x-service-admin-secret': ADMIN_SECRET }

const READY = 'READY=1 STATUS='
const RELOADING = 'RELOADING=1 MONOTONIC_USEC=N'

/** Starts the command `start` or `worker`. */
async function run(t: Test, args: readonly string[], databaseUrl: string, config: object = {}, path?: string) {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-test-processes-'))
  const write = (values: object) => writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify(values))
  await write(config)
  // In place of the program of systemd.
  const notified = join(folder, 'notified')
  await writeFile(join(folder, 'systemd-notify'), '#!/bin/sh\necho "$*" >>"$NOTIFY_SOCKET"\n', { mode: 0o755 })
  const child = spawn(process.execPath, [CLI, ...args], {
    cwd: folder,
    env: {
      PATH: path ?? `${folder}:${process.env['PATH']}`,
      NOTIFY_SOCKET: notified,
      DATABASE_URL: databaseUrl,
      ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()))
  const ended = once(child, 'exit').then(([code]) => code as number | null)
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  /** What it has told its service manager. */
  const states = async () =>
    (await readFile(notified, 'utf8').catch(() => ''))
      .trim()
      .replace(/USEC=\d+/g, 'USEC=N')
      .split('\n')
  return { child, ended, folder, write, states, log: () => log }
}

async function supervised(t: Test, config: object = {}) {
  const database = await freshDatabase(t)
  const server = await run(t, ['start', '--processes', '2', '--port', '0'], database.url, config)
  await until('both processes listen', () => {
    if (server.child.exitCode !== null) throw new Error(server.log())
    return server.log().split('"msg":"listening"').length === 3
  })
  const url = /"url":"(http:[^"]+)"/.exec(server.log())![1]!
  /** A request on a connection of its own, so that the processes take turns. */
  const ask = (path: string, body?: object, headers: object = {}) =>
    fetch(url + path, {
      method: body ? 'POST' : 'GET',
      headers: { ...ADMIN, connection: 'close', ...headers },
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
  const must = async (type: string, args: unknown) => {
    const response = await ask('/v1/query', { type, args })
    const answer = (await response.json()) as any
    if (!response.ok) throw new Error(JSON.stringify(answer))
    return answer
  }
  return { ...server, database, url, ask, must }
}

t.test('several processes serve one port', async (t) => {
  const server = await supervised(t, {
    database: { maxConnections: 30, slowQueryMs: 1 },
    http: { failedAuthPerMinute: 3 },
    limits: { newQueries: { perSecond: 1, burst: 10 } },
  })
  const { ask, must } = server
  /** Returns the process ids of the children. */
  const pids = () =>
    [...server.log().matchAll(/"process":(\d),"url".*/g)].map(([, number]) => Number(number)).toSorted()
  t.same(pids(), [1, 2], 'each says its number')
  const started = server
    .log()
    .split('\n')
    .filter((line) => line.includes('"msg":"started"'))
  t.equal(started.length, 1, 'one line says what this server is')
  t.match(JSON.parse(started[0] ?? '{}'), {
    version: /^\d+\./,
    node: process.version,
    database: /^\d+/,
    plugins: Array,
    migrations: Number,
    processes: 2,
    tracing: false,
  })

  await t.test('a change of metadata holds in both', async () => {
    await must('run_sql', { sql: 'create table note (id int primary key, text text)' })
    await must('track_table', 'note')
    await must('insert', { table: 'note', objects: [{ id: 1, text: 'a' }] })
    for (let i = 0; i < 8; i++) {
      await until('it holds', async () => (await ask('/v1/query', select)).status === 200)
    }
  })

  await t.test('reload_metadata reads the database again in both', async (t) => {
    const city = { type: 'select', args: { table: 'city', columns: ['id', 'mayor'] } }
    await must('run_sql', { sql: 'create table city (id int primary key)' })
    await must('track_table', 'city')
    await rowsOf(server.database.url, 'alter table city add mayor text')

    await must('reload_metadata', {})

    const statuses = await Promise.all(Array.from({ length: 8 }, async () => (await ask('/v1/query', city)).status))
    t.same(new Set(statuses), new Set([200]))
  })

  await t.test('the dashboard, the alerts and the pages name metrics that exist', async (t) => {
    const text = await (await ask('/metrics')).text()
    const types = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)]
    const samples = types.flatMap(([, name, type]) =>
      type === 'histogram' ? ['', '_bucket', '_sum', '_count'].map((end) => `${name}${end}`) : [name],
    )
    // Exists with `database.readUrls` only; see standbys.test.ts.
    samples.push('rowhouse_standby_lag_seconds', 'rowhouse_standby_usable')
    const monitoring = 'deploy/monitoring'
    for (const page of [`${monitoring}/dashboard.json`, `${monitoring}/alerts.yaml`, 'http/observability.md']) {
      const named = await readFile(new URL(`../../../core/${page}`, import.meta.url), 'utf8')
      const names = named.match(/\b(rowhouse_|nodejs_|process_(resident|cpu|open))\w+/g) ?? []
      t.ok(names.length > 0, page)
      t.same(new Set(names.filter((name) => !samples.includes(name))), new Set(), page)
    }
  })

  await t.test('metrics are one scrape', async (t) => {
    const count = async () => {
      const text = await (await ask('/metrics')).text()
      const route = /http_request_duration_seconds_count\{[^}]*route="\/v1\/query",status="200"[^}]*\} (\d+)/
      return { text, queries: Number(route.exec(text)?.[1]) }
    }
    const before = await count()
    for (let i = 0; i < 10; i++) await must('select', { table: 'note', columns: ['id'] })
    const after = await count()

    t.equal(after.queries - before.queries, 10, 'the requests of both')
    t.match(after.text, /^rowhouse_processes 2$/m)
    t.match(after.text, /^rowhouse_process_restarts_total 0$/m)
    t.match(after.text, /^rowhouse_build_info\{version="[^"]+",build="[0-9a-f]+"\} 1$/m)
  })

  await t.test('they share the budget of connections', async (t) => {
    const { pools, processes } = await must('server_status', {})
    const most = pools.reduce((sum: number, { max }: { max: number }) => sum + max, 0)

    t.equal(processes, 2)
    t.ok(most >= 20 && most + 2 <= 30, `${most} and two that listen`)
    await Promise.all(
      Array.from({ length: 60 }, () => must('run_sql', { sql: 'select pg_sleep(0.05)' }).catch(() => {})),
    )
    const [{ count }] = (await rowsOf<{ count: string }>(
      server.database.url,
      `select count(*) from pg_stat_activity where application_name like 'rowhouse %' and datname = current_database()`,
    )) as [{ count: string }]
    t.ok(Number(count) <= 30, `${count} connections`)
  })

  await t.test('limits of a caller hold for both together', async (t) => {
    await must('run_sql', { sql: 'create table limited (id int primary key)' })
    await must('track_table', { table: 'limited' })
    await must('create_select_permission', { table: 'limited', role: 'user', permission: { columns: '*', filter: {} } })
    const since = performance.now()
    const shapes = Array.from({ length: 30 }, (_, i) => ({
      type: 'select',
      args: { table: 'limited', columns: ['id'], where: { $and: Array(i + 1).fill({ id: 1 }) } },
    }))
    const tried = await Promise.all(shapes.map((shape) => ask('/v1/query', shape, { 'x-service-role': 'user' })))
    const compiled = tried.filter(({ status }) => status === 200).length
    const refilled = Math.ceil((performance.now() - since) / 1000)
    t.ok(compiled >= 10 && compiled <= 10 + refilled, `${compiled} new shapes in ${refilled} s`)

    const wrong = { 'x-service-admin-secret': 'wrong' }
    const guesses = await Promise.all(Array.from({ length: 8 }, () => ask('/v1/query', shapes[0], wrong)))
    const refused = guesses.filter(({ status }) => status === 401).length
    t.ok(refused >= 2 && refused <= 3, `${refused} guesses`)
  })

  await t.test('the log and the slow queries are those of both', async (t) => {
    await must('run_sql', {
      sql: `create view slow as select id from note, pg_sleep(0.01); `,
    })
    await must('track_table', 'slow')
    for (let i = 0; i < 8; i++) await must('select', { table: 'slow', columns: ['id'] })

    const { queries } = await must('slow_queries', {})
    t.match(
      queries.filter(({ sql }: { sql: string }) => sql.includes('"slow"')),
      [{ count: 8 }],
    )
    let last = 0
    const numbers: number[] = []
    const processes = new Set<number>()
    await until('the lines of both arrive', async () => {
      const answer = await must('log_lines', { after: last })
      last = answer.last
      for (const { number, line } of answer.lines) {
        numbers.push(number)
        processes.add(line.process)
      }
      return processes.size === 2
    })
    t.same(
      numbers,
      [...new Set(numbers)].sort((a, b) => a - b),
      'each once, in order',
    )
  })

  await t.test('a process that dies is replaced while the other serves', async (t) => {
    const children = await childrenOf(server.child.pid!)
    const answers = Array.from({ length: 40 }, async (_, i) => {
      if (i === 10) process.kill(children[0]!, 'SIGKILL')
      // A connection that the process has taken is lost. All others are answered by somebody.
      return ask('/healthz').then(
        ({ status }) => status,
        () => 'reset',
      )
    })
    const failed = (await Promise.all(answers)).filter((status) => status !== 200)
    t.ok(failed.length < 40, `${failed.length} of 40 lost their connection, none waits for ever`)

    await until('there are two again', async () => {
      const response = await ask('/metrics').catch(() => undefined)
      return /^rowhouse_process_restarts_total 1$/m.test((await response?.text()) ?? '')
    })
    await until('it listens', () => server.log().split('"msg":"listening"').length === 4)
    t.match(server.log(), /"msg":"a process ended; replacing it"/)
    t.equal((await ask('/v1/query', select)).status, 200)
  })

  await t.test('SIGHUP replaces all, with the new configuration, and fails no request', async (t) => {
    const before = await childrenOf(server.child.pid!)
    const statuses: number[] = []
    let isDone = false
    const load = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!isDone)
          statuses.push(
            await ask('/v1/query', select).then(
              ({ status }) => status,
              () => 0,
            ),
          )
      }),
    )
    // One connection that stays open for all of its requests.
    const kept = (async () => {
      while (!isDone) {
        const { status } = await fetch(`${server.url}/v1/query`, {
          method: 'POST',
          headers: ADMIN,
          body: JSON.stringify(select),
        })
        statuses.push(status)
      }
    })()
    await server.write({ database: { slowQueryMs: 0 } })
    server.child.kill('SIGHUP')
    await until('all are replaced', () => server.log().includes('"msg":"all processes are replaced"'))
    await until('systemd knows', async () => (await server.states()).length === 3)
    isDone = true
    await Promise.all([load, kept])

    t.same([...new Set(statuses)], [200], `${statuses.length} requests`)
    const after = await childrenOf(server.child.pid!)
    t.equal(after.length, 2)
    t.notOk(
      after.some((pid) => before.includes(pid)),
      'others',
    )
    t.equal((await must('slow_queries', {})).threshold_ms, null, 'the configuration was read again')
    t.same(await server.states(), [READY, RELOADING, READY])
  })

  await t.test('SIGHUP with a mistake in the configuration changes nothing', async (t) => {
    const before = await lastingChildrenOf(server.child.pid!)
    await server.write({ database: { slowQueryMs: 'often' } })
    server.child.kill('SIGHUP')
    await until('it says so', () => server.log().includes('the replacement did not start'))
    await until('systemd knows', async () => (await server.states()).length === 5)

    t.match(server.log(), /^\{.*"error":"[^"]*slowQueryMs.*\}$/m)
    t.same(await lastingChildrenOf(server.child.pid!), before)
    t.equal((await ask('/v1/query', select)).status, 200)
    t.same((await server.states()).slice(3), [
      RELOADING,
      `${READY}the replacement did not start; the other processes go on as they are`,
    ])
  })

  await t.test('SIGTERM finishes what is in progress and ends all', async (t) => {
    const gate = new pg.Client({ connectionString: server.database.url })
    await gate.connect()
    t.teardown(() => gate.end())
    await gate.query('select pg_advisory_lock(1)')
    const slow = must('run_sql', { sql: 'select pg_advisory_xact_lock(1)' })
    await until('it runs', async () => {
      const { rows } = await gate.query(`select 1 from pg_locks where locktype = 'advisory' and not granted`)
      return rows.length > 0
    })
    server.child.kill('SIGTERM')
    await until('all end', () => server.log().includes('"by":"SIGTERM"'))
    await gate.query('select pg_advisory_unlock(1)')
    await t.resolves(slow)
    t.equal(await server.ended, 0)
    t.equal((await server.states()).at(-1), 'STOPPING=1')
    t.match(server.log(), /"by":"SIGTERM".*\n(.*\n)*.*"all processes have ended"/)
  })
})

t.test('one process tells systemd when it answers and when it stops', async (t) => {
  const database = await freshDatabase(t)
  const gate = new pg.Client({ connectionString: database.url })
  await gate.connect()
  t.teardown(() => gate.end())
  await gate.query('create schema svc_catalog; begin; lock table pg_namespace in access exclusive mode').catch(() => {})
  const server = await run(t, ['start', '--port', '0'], database.url)
  await until('it waits for the database', async () => {
    const { rows } = await gate.query(`select from pg_locks where not granted`)
    return rows.length > 0
  })
  t.same(await server.states(), [''], 'not before')
  await gate.query('rollback')
  await until('it is ready', async () => (await server.states())[0] === READY)
  t.match(server.log(), /"msg":"listening"/)
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
  t.same(await server.states(), [READY, 'STOPPING=1'])

  const without = await run(t, ['start', '--port', '0'], database.url, {}, '/nowhere')
  await until('it says so', () => without.log().includes('systemd-notify failed'))
})

t.test('signals during the start', async (t) => {
  const database = await freshDatabase(t)
  const server = await run(t, ['start', '--processes', '2', '--port', '0'], database.url)
  await until('the first process listens', () => server.log().includes('"msg":"listening"'))
  server.child.kill('SIGHUP')
  server.child.kill('SIGTERM')

  t.equal(await server.ended, 0)
  t.match(server.log(), /"all processes have ended"/)
})

const select = { type: 'select', args: { table: 'note', columns: ['id'] } }

async function childrenOf(pid: number): Promise<readonly number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return text.trim().split(' ').map(Number)
}

t.test('they share a unix socket with the configured permissions', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-test-socket-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const socketPath = join(folder, 'rowhouse.sock')
  const database = await freshDatabase(t)
  const http = { socket: { path: socketPath, mode: '0660' } }
  const server = await run(t, ['start', '--processes', '2'], database.url, { http })
  await until('both processes listen', () => server.log().split('"msg":"listening"').length === 3)

  t.equal((await stat(socketPath)).mode & 0o777, 0o660)
  const status = await new Promise((resolve, reject) =>
    request({ socketPath, path: '/healthz' }, ({ statusCode }) => resolve(statusCode))
      .on('error', reject)
      .end(),
  )
  t.equal(status, 200)
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
})

t.test('what cannot work is refused at once', async (t) => {
  const database = await freshDatabase(t)
  const refused = async (count: string, config: object, why: RegExp) => {
    const server = await run(t, ['start', '--port', '0', '--processes', count], database.url, config)
    t.equal(await server.ended, 1)
    t.match(server.log(), why)
  }
  await refused('0', {}, /--processes must be auto, or 1 to 256/)
  await refused('4', { database: { maxConnections: 20 } }, /maxConnections is 20, but 4 processes need at least 28/)
  await refused('2', { database: { poolSiz: 1 } }, /poolSiz/)
  await refused('2', { auth: { jwt: { key: 'x' } } }, /\$\.auth\.jwt/)
})

t.test('a worker sends what a server only accepts', async (t) => {
  const database = await freshDatabase(t)
  const providers = { email: { default: 'log', log: {} } }
  const accepting = await run(t, ['start', '--port', '0'], database.url, {
    plugins: { notify: { queue: { concurrency: 0 } } },
    providers,
  })
  await until('it listens', () => /"url":"(http:[^"]+)"/.test(accepting.log()))
  const url = /"url":"(http:[^"]+)"/.exec(accepting.log())![1]!
  const message = { sub: 'Hello', text: 'x', from: 'a@example.com', to: ['b@example.com'], queue: true }
  const sent = await fetch(`${url}/v1/send/email`, { method: 'POST', headers: ADMIN, body: JSON.stringify(message) })
  t.match(await sent.json(), { detail: 'queued' })
  const states = () => rowsOf<{ state: string }>(database.url, 'select state from svc_catalog.svc_outbox')
  t.same(await states(), [{ state: 'queued' }])

  const worker = await run(t, ['worker', '--port', '0'], database.url, { providers })
  await until('the message is sent, to the log', async () => (await states())[0]?.state === 'caught')
  await until('it listens', () => /"url":"(http:[^"]+)"/.test(worker.log()))
  const health = /"url":"(http:[^"]+)"/.exec(worker.log())![1]!
  t.equal((await fetch(`${health}/readyz`)).status, 200)
  t.equal((await fetch(`${health}/v1/query`, { method: 'POST', headers: ADMIN, body: '{}' })).status, 404)
  worker.child.kill('SIGTERM')
  t.equal(await worker.ended, 0)
})

/** Returns the children that a process has at rest: without those that only tell systemd. */
async function lastingChildrenOf(pid: number): Promise<readonly number[]> {
  for (let found = await childrenOf(pid); ;) {
    await sleep(300)
    const again = await childrenOf(pid)
    if (again.join() === found.join()) return found
    found = again
  }
}

t.test('this version of Node passes connections as core/processes/handover.ts expects', async (t) => {
  const folder = t.testdir({
    'process.mjs': `import { createServer } from 'node:http'
      createServer((_, res) => res.end(String(process.pid))).listen(0, '127.0.0.1')`,
  })
  cluster.setupPrimary({ exec: join(folder, 'process.mjs'), execArgv: [], serialization: 'advanced' })
  const started = async () => {
    const worker = cluster.fork()
    t.teardown(() => worker.process.kill('SIGKILL'))
    const sent: unknown[] = []
    const confirmed: unknown[] = []
    const { process: child } = worker
    const send = child.send.bind(child) as (...args: unknown[]) => boolean
    child.send = (message: unknown, ...more: unknown[]) => {
      if (more[0]) sent.push(message)
      return send(message, ...more)
    }
    child.on('internalMessage', (message) => confirmed.push(message))
    const handBack = returnUntaken(worker, () => t.fail(`unknown messages in Node ${process.version}`))
    const [address] = (await once(worker, 'listening')) as [{ readonly port: number }]
    return { worker, sent, confirmed, handBack, port: address.port }
  }
  const first = await started()
  const ask = async () => {
    const res = await fetch(`http://127.0.0.1:${first.port}`, { headers: { connection: 'close' } })
    return Number(await res.text())
  }
  t.equal(await ask(), first.worker.process.pid)
  const [passed] = first.sent as { readonly seq: number }[]
  const known = `known messages in Node ${process.version}`
  t.match(passed, { cmd: 'NODE_CLUSTER', act: 'newconn', seq: Number }, known)
  // The answer to the client may be first.
  await until(known, () =>
    first.confirmed.some((each) => Object(each).cmd === 'NODE_CLUSTER' && Object(each).ack === passed?.seq),
  )
  if (!t.passing()) return first.worker.process.kill('SIGKILL')

  const second = await started()
  first.worker.process.kill('SIGSTOP')
  const before = first.sent.length
  const asked: Promise<number>[] = []
  await until('a connection waits for a process that hangs', () => {
    if (first.sent.length === before) asked.push(ask())
    return first.sent.length > before
  })
  const ended = once(first.worker, 'exit')
  first.worker.process.kill('SIGKILL')
  await ended
  first.handBack()
  t.same(new Set(await Promise.all(asked)), new Set([second.worker.process.pid]), 'the other process answers it')
  second.worker.process.kill('SIGKILL')
  await once(second.worker, 'exit')
})
