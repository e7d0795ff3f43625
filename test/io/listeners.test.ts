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
  return { server, main, files: addresses[1]!.url }
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
