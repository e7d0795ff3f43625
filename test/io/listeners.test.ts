import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { type Server, startServer } from '../../core/host/server.js'
import { freshDatabase } from '../kit/database.js'
import { patience } from '../kit/patience.js'
import { ADMIN_SECRET } from '../kit/server.js'
import { until } from '../kit/until.js'

const ADMIN = { 'x-service-admin-secret': ADMIN_SECRET, 'x-service-user-id': '1' }
const FILE = { ...ADMIN, 'content-type': 'text/plain' }
const SELECT = '{"type": "select", "args": {"table": "note", "columns": ["id"]}}'

t.test('a plugin with a listener of its own is served there, and only there', async (t) => {
  const { main, files, addresses } = await withFiles(t)
  t.same(
    addresses.map(({ plugins }) => plugins),
    [['query'], ['filestore']],
  )
  t.not(main, files)

  t.match(await ask(`${files}/v1/file/a`, { method: 'PUT', headers: FILE, body: 'hello' }), { status: 200 })
  t.match(await ask(`${files}/v1/file/a`, { headers: ADMIN }), { status: 200, body: 'hello' })
  t.match(await ask(`${main}/v1/query`, { method: 'POST', headers: ADMIN, body: SELECT }), { status: 200, body: '[]' })
  const absent = { status: 404, body: /"code":"not-found"/ }
  t.match(await ask(`${main}/v1/file/a`, { headers: ADMIN }), absent)
  t.match(await ask(`${main}/v1/file/a`, { method: 'PUT', headers: FILE, body: 'other' }), absent)
  t.match(await ask(`${files}/v1/query`, { method: 'POST', headers: ADMIN, body: SELECT }), absent)

  await t.test('a wrong method is known where the path is', async (t) => {
    t.match(await ask(`${files}/v1/file/a`, { method: 'PATCH', headers: ADMIN }), {
      status: 405,
      headers: { allow: 'POST, PUT, GET, HEAD, DELETE' },
    })
    t.match(await ask(`${main}/v1/file/a`, { method: 'PATCH', headers: ADMIN }), { status: 404 })
    t.match(await ask(`${main}/v1/query`, { headers: ADMIN }), { status: 405, headers: { allow: 'POST' } })
    t.match(await ask(`${files}/v1/query`, { headers: ADMIN }), { status: 404 })
  })
  await t.test('what is the core’s is everywhere', async (t) => {
    for (const url of [main, files]) {
      t.match(await ask(`${url}/healthz`), { status: 200, body: '{"status":"ok"}' })
      t.match(await ask(`${url}/readyz`, { headers: ADMIN }), { status: 200, body: /"database"/ })
      t.match(await ask(`${url}/v1/version`), { status: 200 })
      const measured = await ask(`${url}/metrics`, { headers: ADMIN })
      for (const plugin of ['query', 'filestore']) {
        t.ok(new RegExp(`request_duration_seconds_count\\{.*plugin="${plugin}"\\}`).test(measured.body), plugin)
      }
      t.equal(measured.body.match(/^# TYPE rowhouse_http_requests_in_flight /gm)?.length, 1)
    }
  })
  await t.test('the page at / shows what is served there', async (t) => {
    const shown = async (url: string) => {
      const { body } = await ask(url, { headers: { accept: 'application/json' } })
      const { plugins, database } = JSON.parse(body) as { plugins: { name: string }[]; database: string }
      return { names: plugins.map(({ name }) => name), database }
    }
    t.same(await shown(main), { names: ['query'], database: 'up' })
    t.same(await shown(files), { names: ['filestore'], database: 'up' })
  })
})

t.test('the end comes to all at once, and no request under way is lost', async (t) => {
  const { server, main, files } = await withFiles(t, { drainDelayMs: patience(2_000) })
  const upload = slow(`${files}/v1/file/late`, 'PUT', FILE)
  const query = slow(`${main}/v1/query`, 'POST', ADMIN)
  const underWay = async () =>
    /requests_in_flight (\d+)/.exec((await ask(`${main}/metrics`, { headers: ADMIN })).body)?.[1] === '3'
  await until('both are under way', underWay)

  const closed = server.close()
  for (const url of [main, files]) {
    t.match(await ask(`${url}/readyz`, { headers: ADMIN }), { status: 503, body: /shutting down/ })
  }
  for (const url of [main, files]) await until('it is closed', () => isRefused(url))
  upload.end('late')
  query.end(SELECT)

  t.match(await upload.answer, { status: 200, body: /"late"/ })
  t.match(await query.answer, { status: 200, body: '[]' })
  await closed
})

// What the tests need.

/** A server with the JSON API, and files on a listener of their own. */
async function withFiles(t: Test, http: object = {}) {
  const database = await freshDatabase()
  const builtin = (path: string) => new URL(`../../${path}`, import.meta.url)
  const dataDir = newFolder(t)
  const server: Server = await startServer({
    env: {},
    cwd: dataDir,
    builtins: {
      plugins: { query: builtin('plugins/query/index.js'), filestore: builtin('plugins/filestore/index.js') },
      providers: { storage: { disk: builtin('providers/storage/disk.js') } },
      defaults: { storage: 'disk' },
    },
    overrides: {
      http: { port: 0, listeners: [{ plugins: ['filestore'], port: 0 }], ...http },
      database: { url: database.url },
      auth: { adminSecret: ADMIN_SECRET },
      log: { level: 'fatal' },
      compile: { threads: 0 },
      dataDir,
    },
  })
  t.teardown(async () => {
    await server.close()
    await database.drop()
  })
  const { url: main, addresses } = server
  const sql = 'create table note (id int)'
  const track = {
    type: 'bulk',
    args: [
      { type: 'run_sql', args: { sql } },
      { type: 'track_table', args: 'note' },
    ],
  }
  await ask(`${main}/v1/query`, { method: 'POST', headers: ADMIN, body: JSON.stringify(track) })
  return { server, addresses, main, files: addresses[1]!.url }
}

/** With a path that is short enough for a socket. */
function newFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'rowhouse-listeners-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

interface Asked {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly socketPath?: string
}

/** On a connection of its own. */
async function ask(url: string, { body, ...options }: Asked = {}) {
  const req = request(url, { ...options, agent: false })
  req.end(body)
  return answerOf(req)
}

async function answerOf(req: ClientRequest) {
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  return { status: res.statusCode, headers: res.headers, body: await text(res) }
}

/** A request whose body is still to come. */
function slow(url: string, method: string, headers: Record<string, string>) {
  const req = request(url, { method, headers, agent: false })
  req.flushHeaders()
  return { end: (body: string) => void req.end(body), answer: answerOf(req) }
}

const isRefused = (url: string): Promise<boolean> =>
  ask(`${url}/healthz`).then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
  )
