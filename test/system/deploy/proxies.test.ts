import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import tap, { type Test } from 'tap'
import { freshDatabase, rowsOf } from '../../kit/database.js'
import { freePort } from '../../kit/free-port.js'
import { patience } from '../../kit/patience.js'
import { ADMIN_SECRET, endKeptConnections } from '../../kit/server.js'
import { until } from '../../kit/until.js'

const CLI = fileURLToPath(new URL('../../../core/cli.js', import.meta.url))
const DEPLOY = fileURLToPath(new URL('../../../../core/deploy/', import.meta.url))
const NGINX = '/usr/sbin/nginx'
const HAPROXY = '/usr/sbin/haproxy'
const CLIENTS = 8
const HEADERS = { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-user-id': '1' }

/** A way to run an example of ours before two servers, with other addresses. */
interface Proxy {
  readonly program: string
  readonly drainDelayMs: number
  start(folder: string, port: number, servers: readonly number[]): Promise<ChildProcess>
}

const PROXIES: Readonly<Record<string, Proxy>> = {
  nginx: {
    program: NGINX,
    drainDelayMs: 0,
    async start(folder, port, servers) {
      const site = join(folder, 'rowhouse.conf')
      await writeFile(site, (await example('nginx.conf', servers)).replace('listen 80;', `listen 127.0.0.1:${port};`))
      const main = join(folder, 'nginx.conf')
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (name) => `${name}_temp_path ${folder}/${name};`,
      )
      await writeFile(
        main,
        `daemon off; user root; pid ${folder}/pid; events {} http { access_log off; ${temporary.join(' ')} include ${site}; }`,
      )
      return spawn(NGINX, ['-c', main, '-e', 'stderr'], { stdio: 'ignore' })
    },
  },
  HAProxy: {
    program: HAPROXY,
    drainDelayMs: 5000,
    async start(folder, port, servers) {
      const file = join(folder, 'haproxy.cfg')
      await writeFile(file, (await example('haproxy.cfg', servers)).replace('bind :80', `bind 127.0.0.1:${port}`))
      return spawn(HAPROXY, ['-f', file], { stdio: 'ignore' })
    },
  },
}

/** An example of ours for these servers instead of its own three. */
async function example(name: string, servers: readonly number[]): Promise<string> {
  const lines = (await readFile(join(DEPLOY, name), 'utf8')).split('\n')
  return lines
    .map((line) =>
      line.replace(/rowhouse-(\d):8080/, (_, n: string) => `127.0.0.1:${servers[Number(n) - 1] ?? 'none'}`),
    )
    .filter((line) => !line.includes('127.0.0.1:none'))
    .join('\n')
}

for (const [name, proxy] of Object.entries(PROXIES)) {
  const skip = existsSync(proxy.program) ? false : `needs ${proxy.program}`
  tap.test(`two servers behind ${name}`, { skip }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'rowhouse-proxies-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const database = await freshDatabase(t)
    const servers: Server[] = []
    for (const port of [await freePort(), await freePort()])
      servers.push(await startServer(t, { folder, port, databaseUrl: database.url, drainDelayMs: proxy.drainDelayMs }))
    const port = await freePort()
    const running = await proxy.start(
      folder,
      port,
      servers.map((server) => server.port),
    )
    t.teardown(() => stop(running))
    const url = `http://127.0.0.1:${port}`
    await until(`${name} answers`, () =>
      fetch(`${url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      ),
    )
    const ask = (type: string, args: object, headers: object = {}) =>
      fetch(`${url}/v1/query`, {
        method: 'POST',
        headers: { ...HEADERS, ...headers },
        body: JSON.stringify({ type, args }),
        signal: AbortSignal.timeout(patience(60_000)),
      })

    await (await ask('run_sql', { sql: SCHEMA })).text()
    for (const table of ['note', 'slowly']) await (await ask('track_table', { schema: 'public', name: table })).text()

    await t.test('a query, with the address of the client', async (t) => {
      const answer = await ask('select', { table: 'note', columns: ['id'] }, { 'x-forwarded-for': '203.0.113.7' })
      t.strictSame([answer.status, await answer.json()], [200, []])
      await until('the log has the address', () => servers.some((server) => server.log().includes('203.0.113.7')))
    })

    await t.test('a file of 100 MB, up and down', async (t) => {
      const bytes = randomBytes(100_000_000)
      const file = `${url}/v1/file/large`
      const put = await fetch(file, {
        method: 'PUT',
        headers: { ...HEADERS, 'content-type': 'text/plain' },
        body: bytes,
      })
      t.equal(put.status, 200, await put.text())
      const got = Buffer.from(await (await fetch(file, { headers: HEADERS })).arrayBuffer())
      t.ok(got.equals(bytes))
    })

    await t.test('rows that arrive while the statement runs', async (t) => {
      const answer = await ask(
        'select',
        { table: 'slowly', columns: ['id', 'text', 'slept'] },
        { accept: 'application/x-ndjson' },
      )
      t.equal(answer.status, 200)
      const reader = answer.body!.getReader()
      t.match(Buffer.from((await reader.read()).value!).toString(), /^\{"id":1,/)
      const active = `select from pg_stat_activity where wait_event = 'PgSleep' and query like '%slowly%'`
      await until('the statement sleeps', async () => (await rowsOf(database.url, active)).length > 0)
      let size = 0
      for (let part = await reader.read(); !part.done; part = await reader.read()) size += part.value.length
      t.ok(size > 4_000_000, 'and all others')
    })

    await t.test('a rolling restart fails no request', async (t) => {
      let over = false
      const failed: string[] = []
      let sent = 0
      const acknowledged: number[] = []
      const client = async (): Promise<void> => {
        while (!over) {
          const id = ++sent
          const writes = id % 4 === 0
          const request = writes
            ? ask('insert', { table: 'note', objects: [{ id }] })
            : ask('select', { table: 'note', columns: ['id'], where: { id: 4 } })
          const answer = await request.then(async (response) => `${response.status} ${await response.text()}`, String)
          if (!answer.startsWith('200 ')) failed.push(answer)
          else if (writes) acknowledged.push(id)
        }
      }
      const clients = Array.from({ length: CLIENTS }, client)
      for (const server of servers) {
        const before = sent
        await server.restart()
        await until('more requests came', () => sent > before + 200)
      }
      over = true
      await Promise.all(clients)
      t.comment(`${sent} requests, ${failed.length} failed`)
      t.strictSame(failed, [])
      const rows = await rowsOf<{ id: number }>(database.url, 'select id from note order by id')
      t.strictSame(
        rows.map(({ id }) => id),
        acknowledged.toSorted((a, b) => a - b),
        'each acknowledged row once',
      )
    })
  })
}

/** Rows of which the last comes late. */
const SCHEMA = `create table note (id int primary key);
  create view slowly as select i as id, repeat('x', 1000) as text, case when i = 5000 then pg_sleep(3)::text else '' end as slept
    from generate_series(1, 5000) i`

interface Server {
  readonly port: number
  log(): string
  restart(): Promise<void>
}

interface ServerOptions {
  readonly folder: string
  readonly port: number
  readonly databaseUrl: string
  readonly drainDelayMs: number
}

async function startServer(t: Test, { folder, port, databaseUrl, drainDelayMs }: ServerOptions): Promise<Server> {
  const cwd = join(folder, String(port))
  await mkdir(cwd)
  let log = ''
  const start = async () => {
    const child = spawn(process.execPath, [CLI, 'start'], {
      cwd,
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: databaseUrl,
        ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET,
        ROWHOUSE_PORT: String(port),
        ROWHOUSE_DATA_DIR: join(folder, 'data'),
        ROWHOUSE_HTTP__TRUSTED_PROXIES: '127.0.0.1',
        ROWHOUSE_HTTP__DRAIN_DELAY_MS: String(drainDelayMs),
        ROWHOUSE_DATABASE__POOL_WAIT_MS: String(patience(10_000)),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()))
    const ready = () =>
      fetch(`http://127.0.0.1:${port}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      )
    await until('the server is ready', ready)
    return child
  }
  let child = await start()
  t.teardown(() => {
    endKeptConnections()
    return stop(child)
  })
  return {
    port,
    log: () => log,
    async restart() {
      await stop(child)
      child = await start()
    },
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  await gone
}
