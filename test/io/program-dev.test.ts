import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { inspectEmbedded } from '../../providers/database/embedded/index.js'
import { run as inProcess } from '../kit/command.js'
import { freshDatabase } from '../kit/database.js'
import { freePort } from '../kit/free-port.js'
import { until } from '../kit/until.js'

import { newFolder, run, start } from '../kit/program.js'

const SECRET = 'a secret for the tests of the program'

t.test('the first dev run makes a database with the shop, and its curl lines work as pasted', async (t) => {
  const folder = await newFolder(t)

  const server = await start(t, folder, ['dev', '--port', '0'])

  const lines = server
    .output()
    .split('\n')
    .filter((line) => line.startsWith('curl '))
  t.equal(lines.length, 5)
  const answers = await Promise.all(lines.map((line) => paste(folder, line)))
  t.match(answers[0], [{ name: String, orders: [{ id: Number }] }])
  t.match(answers[1], { affected_rows: 1, returning: [{ name: 'Teapot' }] })
  t.match(answers[2], [{ id: Number, status: String }])
  t.match(answers[3], { verdict: 'refused', reason: 'filter' })
  t.match(answers[4], { id: /^memory-/, detail: /kept in memory/ })
  const why = { type: 'explain_permission', args: { operation: 'select', table: 'orders', key: { id: 1 } } }
  const anonymous = await fetch(`${server.url}/v1/query`, { method: 'POST', body: JSON.stringify(why) })
  t.match(await anonymous.json(), { verdict: 'refused', reason: 'permission' }, 'everybody may ask about themselves')
  const rebound = request(`${server.url}/v1/query`, { method: 'POST', headers: { host: 'evil.test' } })
  const [refused] = (await once(rebound.end(JSON.stringify(why)), 'response')) as [IncomingMessage]
  t.equal(refused.resume().statusCode, 421, 'but no page of another site by a name of its own')
  const secret = join(folder, '.rowhouse/admin-secret')
  t.equal((await stat(secret)).mode & 0o777, 0o600)
  t.notMatch(server.output(), await readFile(secret, 'utf8'))

  const key = await readFile(secret, 'utf8')
  const caught = await fetch(`${server.url}/v1/send`, { headers: { 'X-Service-Admin-Secret': key } })
  const { messages } = (await caught.json()) as { messages: { id: string }[] }
  t.match(messages, [
    { state: 'caught', sub: 'It works', provider: 'memory' },
    { state: 'caught', sub: 'Your order 46455 is late', provider: 'memory' },
  ])
  const mail = await fetch(`${server.url}/v1/send/${messages[0]?.id}`, { headers: { 'X-Service-Admin-Secret': key } })
  t.match(await mail.json(), { text: 'This mail goes nowhere.' })
  t.match(server.output(), /Mail and SMS are not delivered. Open http/)
  const outside = { type: 'run_sql', args: { sql: "copy (select 1) to program 'true'" } }
  t.match(await post(server.url, outside, key), { internal: { error: { status_code: '42501' } } })
  const extension = { type: 'run_sql', args: { sql: 'create extension citext' } }
  t.same(await post(server.url, extension, key), { result_type: 'CommandOk' })

  // The second start finds what the first one left, even when that was killed.
  await server.stop('SIGKILL')
  const http = { explainPermissions: false, refusalReasons: false, serverTiming: false }
  const providers = { sms: { http: { url: 'http://127.0.0.1:9', fields: { to: '{to}', text: '{message}' } } } }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify({ http, providers }))
  const again = await start(t, folder, ['dev', '--port', '0'])
  t.match(again.output(), /Mail is not delivered; SMS is sent by http\. Open http/)
  const teapots = { type: 'count', args: { table: 'product', where: { sku: 'NEW-1' } } }
  t.same(await post(again.url, teapots, await readFile(secret, 'utf8')), { count: 1 })
  const silent = await fetch(`${again.url}/v1/query`, { method: 'POST', body: JSON.stringify(why) })
  t.match(await silent.json(), { code: 'access-denied' }, 'and nobody if the configuration says so')
  t.match(await run(folder, ['dev', '--port', '0']), { code: 1, err: /is already running/ })
  const init = {
    method: 'PUT',
    body: 'x',
    headers: { 'X-Service-Admin-Secret': key, 'X-Service-User-Id': '1', 'Content-Type': 'a/b' },
  }
  t.equal((await fetch(`${again.url}/v1/file/x`, init)).status, 200)
  const checked = { code: 0, out: /^17 files, 17 blobs, 17 objects in the stores; read 0: clean\n$/ }
  t.match(await inProcess(folder, ['fsck']), checked)
  t.match(await inProcess(folder, ['metadata', 'export']), { code: 0, out: /"name": "product"|"table": "product"/ })
  t.match(await inProcess(folder, ['upgrade']), { code: 0, out: 'svc_catalog is up to date\n' })
  t.equal(await again.stop('SIGINT'), 0)
  t.match(await inProcess(folder, ['fsck']), checked, 'on a database that is started for it')
  t.equal((await inspectEmbedded(join(folder, '.rowhouse'))).server, undefined)
})

t.test('dev --watch restarts when a source changes, and survives mistakes in it', async (t) => {
  const folder = await newFolder(t)
  const project = join(folder, 'project')
  const config = (plugins: object) =>
    writeFile(
      join(project, 'rowhouse.config.json'),
      JSON.stringify({
        plugins: { query: false, template: false, graphql: false, filestore: false, notify: false, ...plugins },
      }),
    )
  const hello = { use: '../shared/hello.mjs' }
  const plugin = (word: string) => `import { mark } from './lib/mark.mjs'
export default { name: 'hello', database: false, config: { type: 'object', properties: { to: { type: 'string', default: 'you' } } }, setup(host, { to }) {
  host.router.get('/v1/hello', (ctx) => void (ctx.body = '${word} ' + to + mark))
} }`
  for (const each of ['project', 'shared', 'shared/lib']) await mkdir(join(folder, each))
  await config({ hello })
  await writeFile(join(folder, 'shared/hello.mjs'), plugin('Hello'))
  await writeFile(join(folder, 'shared/lib/mark.mjs'), 'export const mark = "."')
  const port = await freePort()
  const dev = await start(t, project, ['dev', '--watch', '--port', String(port)])
  const says = (word: string) =>
    until(word, async () => {
      const text = await fetch(`${dev.url}/v1/hello`).then((answer) => answer.text(), () => '') // prettier-ignore
      return text === word
    })

  await says('Hello you.')
  await writeFile(join(folder, 'shared/hello.mjs'), plugin('Moin'))
  await says('Moin you.')
  await writeFile(join(folder, 'shared/lib/mark.mjs'), 'export const mark = "!"')
  await says('Moin you!')
  await config({ hello: { ...hello, to: 'all' } })
  await says('Moin all!')
  await writeFile(join(folder, 'shared/hello.mjs'), plugin('Oops').replace('} }', '} '))
  await until('it waits', () => dev.output().includes('rowhouse dev ended; waiting for a change'))
  t.match(dev.output(), /"\.\.\/shared\/hello\.mjs" cannot be loaded: .* \(\/.*\/shared\/hello\.mjs:\d+\)/)
  await writeFile(join(folder, 'shared/hello.mjs'), plugin('Back with'))
  await says('Back with all!')

  t.match(dev.output(), /mark\.mjs changed; restarting/)
  t.equal(await dev.stop('SIGINT'), 0)
  await t.rejects(fetch(dev.url))
})

t.test('sql opens psql where there is one, and tells it the password in its environment only', async (t) => {
  const folder = await newFolder(t)
  const { url } = await freshDatabase(t)
  await mkdir(join(folder, 'bin'))
  const show = '#!/bin/sh\necho "args:$*"\nenv | grep ^PG | sort\nexit 3\n'
  await writeFile(join(folder, 'bin/psql'), show, { mode: 0o755 })
  const { hostname, port, username, password, pathname } = new URL(url)

  const { code, out } = await run(folder, ['sql'], {
    PATH: `${join(folder, 'bin')}:/usr/bin:/bin`,
    PGSERVICE: 'other',
    DATABASE_URL: `${url.replace(hostname, `absent.invalid,${hostname}`)}?sslmode=prefer&target_session_attrs=read-write`,
  })

  t.equal(code, 3)
  t.same(out.trim().split('\n'), [
    'args:-v ON_ERROR_STOP=1',
    `PGDATABASE=${pathname.slice(1)}`,
    `PGHOST=absent.invalid,${hostname}`,
    `PGPASSWORD=${decodeURIComponent(password)}`,
    `PGPORT=5432,${port}`,
    'PGSSLMODE=prefer',
    'PGTARGETSESSIONATTRS=read-write',
    `PGUSER=${username}`,
  ])
})

async function post(url: string, query: object, secret = SECRET): Promise<unknown> {
  const body = JSON.stringify(query)
  const response = await fetch(`${url}/v1/query`, {
    method: 'POST',
    body,
    headers: { 'X-Service-Admin-Secret': secret },
  })
  return response.json()
}

function paste(folder: string, line: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    execFile('bash', ['-c', line], { cwd: folder }, (error, out) => (error ? reject(error) : resolve(JSON.parse(out))))
  })
}
