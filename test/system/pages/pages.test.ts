import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { testServer } from '../../kit/server.js'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const PATIENCE_MS = 60_000

t.test('the pages work in a browser, with nothing from elsewhere', async (t) => {
  const server = await testServer(t)
  await server.must('run_sql', { sql: 'create table town (id int primary key, name text)' })
  await server.must('bulk', [
    { type: 'track_table', args: 'town' },
    {
      type: 'create_select_permission',
      args: { table: 'town', role: 'anonymous', permission: { columns: '*', filter: {} } },
    },
    {
      type: 'create_query_template',
      args: {
        name: 'towns',
        comment: 'Every town.',
        template: { type: 'select', args: { table: 'town', columns: ['name'], limit: { param: 'n', default: 5 } } },
      },
    },
  ])

  const graphiql = await open(t, `${server.url}/v1/graphql`)
  t.match(graphiql.dom, /class="graphiql-container/)
  t.match(graphiql.dom, /X-Service-Admin-Secret/)
  t.same(graphiql.complaints, [])

  const openApi = await open(t, `${server.url}/v1/openapi`)
  t.match(openApi.dom, /class="opblock opblock-get"/)
  t.match(openApi.dom, /Every town\./)
  t.same(openApi.complaints, [])

  const home = await open(t, server.url)
  t.match(home.dom, /href="\/v1\/graphql"/)
  t.match(home.dom, /href="\/v1\/openapi"/)
  t.same(home.complaints, [])
})

/** What a page has become after its scripts, and what the browser had against it. */
async function open(t: Test, url: string): Promise<{ readonly dom: string; readonly complaints: readonly string[] }> {
  const profile = await mkdtemp(join(tmpdir(), 'rowhouse-browser-'))
  t.teardown(() => rm(profile, { recursive: true, force: true, maxRetries: 5 }))
  const options = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--enable-logging=stderr',
    '--virtual-time-budget=8000',
  ]
  // Whatever is not ours is not found.
  const only = '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1'
  const child = spawn(CHROMIUM, [...options, only, `--user-data-dir=${profile}`, '--dump-dom', url], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: PATIENCE_MS,
  })
  const [dom, log] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { dom, complaints: log.split('\n').filter((line) => line.includes('CONSOLE')) }
}
