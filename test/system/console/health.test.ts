import type { Page } from 'playwright-core'
import t from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'
import { freshDatabase } from '../../kit/database.js'
import { patience } from '../../kit/patience.js'
import { startProxy } from '../../kit/proxy.js'

const CONFIG = {
  log: { level: 'warn' },
  database: { slowQueryMs: 100 },
  providers: { email: { default: 'memory', memory: { keep: 10 } } },
}
const TABS = ['Now', 'Slow queries', 'Indexes', 'Server', 'Log']
const tab = (page: Page, name: string) => page.getByRole('tab', { name, exact: true })

t.test('an admin sees what the server does, also after the database was away', async (t) => {
  const database = await freshDatabase(t)
  const proxy = await startProxy(t, database.url)
  const { server, page, complaints, elsewhere, open } = await openConsole(t, {
    databaseUrl: proxy.url,
    notify: true,
    config: CONFIG,
  })
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await server.must('run_sql', {
    sql: `create function paused() returns bool stable language plpgsql as $$
        begin perform pg_sleep(0.2); return true; end $$;
      create view late as select 1 as id where paused()`,
  })
  await server.must('track_table', 'late')
  const beSlow = () => server.must('select', { table: 'late', columns: ['id'] })
  await beSlow()
  await open('health')

  await t.test('figures of now, probes and plots', async () => {
    await page.locator('.tile', { hasText: 'Connections' }).getByText('of 10').waitFor()
    await page.getByLabel('Probes').getByText('notify.providers').waitFor()
    await page.locator('.plot-card canvas').nth(7).waitFor()
    await server.must('select', { table: 'late', columns: ['id'], limit: 2 })
    const latency = page.getByRole('img', { name: /^Latency over time; last: p50 \d.* m?s, p99 \d/ })
    await latency.waitFor({ timeout: patience(30_000) })
    await page.getByRole('img', { name: /^Outbox.* queued 0/ }).waitFor()
    await latency.hover()
  })

  await t.test('slow queries with their plans', async (t) => {
    await tab(page, 'Now').press('ArrowRight')
    t.match(page.url(), /\/console\/health\/slow$/)
    await page.getByRole('gridcell', { name: 'select from late' }).first().click()
    const { database: about } = await server.must('server_status', {})
    const plan =
      parseInt(about.version) < 16 ? page.getByText('not-supported') : page.getByLabel('Plan of the statement')
    await plan.waitFor()
    await page.getByRole('button', { name: 'Copy SQL' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    t.match(await page.evaluate('navigator.clipboard.readText()'), /"public"\."late"/)
  })

  await t.test('indexes that would help, with costs and the statement to copy', async (t) => {
    await server.must('run_sql', {
      sql: `create table orders (id int primary key, customer_id int not null, note text);
        insert into orders select i, i % 1000, repeat('x', 90) from generate_series(1, 20000) i; analyze orders`,
    })
    await server.must('bulk', [
      { type: 'track_table', args: 'orders' },
      {
        type: 'create_select_permission',
        args: {
          table: 'orders',
          role: 'customer',
          permission: { columns: '*', filter: { customer_id: 'X-Service-User-Id' } },
        },
      },
    ])
    await tab(page, 'Indexes').click()
    await page.getByRole('checkbox', { name: /^Try each index/ }).check()
    await page.getByRole('button', { name: 'Look for indexes' }).click()
    const row = page.getByRole('row', { name: /filter of orders customer .* → .* times cheaper/ })
    await row.waitFor()
    t.same(await accessibility(page), [])
    await page.getByRole('button', { name: 'Copy SQL' }).first().click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    t.match(await page.evaluate('navigator.clipboard.readText()'), /create index .* on public.orders \(customer_id\)/)

    let isAsked = false
    await page.route('**/v1/query', async (route) => {
      if (route.request().postDataJSON().type !== 'advise_indexes') return route.continue()
      isAsked = true
    })
    await page.getByRole('button', { name: 'Look for indexes' }).click()
    await page.getByText('Waiting for an answer').waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByRole('button', { name: 'Look for indexes' }).waitFor()
    t.ok(isAsked)
    await page.unroute('**/v1/query')
    await row.waitFor()
  })

  await t.test('versions and connected servers', async () => {
    await tab(page, 'Server').click()
    await page.getByRole('cell', { name: '(this server)' }).waitFor()
    await page.getByText('listens for changes').waitFor()
    await page.getByRole('cell', { name: 'memory' }).first().waitFor()
  })

  await t.test('the log can be filtered, paused and followed', async (t) => {
    await tab(page, 'Log').click()
    const lines = page.getByRole('log').getByText('slow query')
    await lines.first().waitFor()
    await page.getByLabel('From level').selectOption('error')
    await page.getByText('No line matches.').waitFor()
    await page.getByLabel('From level').selectOption('warn')
    await page.getByLabel('Search the lines').fill('planner=')
    t.equal(await lines.count(), 0, 'the search is for what the line contains')
    await page.getByLabel('Search the lines').fill('LOW QUERY')
    const before = await lines.count()
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('Paused.').waitFor()
    await beSlow()
    await page.getByRole('button', { name: 'Follow' }).click()
    await lines.nth(before).waitFor()
  })

  await t.test('every tab suits a phone and a screen reader', async (t) => {
    await page.setViewportSize({ width: 390, height: 844 })
    for (const name of TABS) {
      await show(page, name)
      t.equal(await overflow(page), 0, name)
      t.same(await accessibility(page), [], name)
    }
    await page.setViewportSize({ width: 1280, height: 800 })
    await page.emulateMedia({ colorScheme: 'dark' })
    await show(page, 'Now')
    t.same(await accessibility(page), [], 'dark')
  })

  await t.test('it is about the server, as whomever the admin acts', async () => {
    await tab(page, 'Now').click()
    await page.getByRole('button', { name: 'Acting as admin' }).click()
    await page.getByLabel('Role').fill('user')
    await page.getByRole('button', { name: 'Act as this role' }).click()
    await page.locator('.tile', { hasText: 'Outbox' }).waitFor()
    await page.getByRole('button', { name: 'Be admin again' }).click()
    await page.locator('.tile', { hasText: 'Outbox' }).waitFor()
  })
  t.same(complaints, [])

  await t.test('without the database, the last figures stay, and it recovers by itself', async (t) => {
    proxy.set({ kind: 'refuse' })
    proxy.killAll()
    await page.locator('.trouble').waitFor({ timeout: patience(30_000) })
    await page.getByText('Last figures').waitFor()
    await page.locator('.tile', { hasText: 'Memory' }).waitFor()
    await tab(page, 'Server').click()
    await page.getByRole('cell', { name: '(this server)' }).waitFor()
    await tab(page, 'Log').click()
    await page.getByRole('log').getByText('slow query').first().waitFor()
    await tab(page, 'Now').click()
    t.same(await accessibility(page), [])
    t.equal(await overflow(page), 0)

    proxy.set({ kind: 'pass' })
    await page.locator('.trouble').waitFor({ state: 'hidden', timeout: patience(60_000) })
    await page.locator('.tile').first().waitFor()
    await page.getByText('Last figures').waitFor({ state: 'hidden', timeout: patience(30_000) })
    await page.getByRole('img', { name: /^Requests per second over time; last: 2xx \d/ }).waitFor()
  })
  t.same(
    complaints.filter((each) => !/Failed to load resource/.test(each)),
    [],
    'the browser only reports the requests that failed',
  )
  t.same(elsewhere, [])
})

async function show(page: Page, name: string): Promise<void> {
  await tab(page, name).click()
  await page.locator('.tile, .slow, .advice, .fact, .log').first().waitFor()
}

const CANARY = `<img src=x onerror="window.canary = 1"></script><script>window.canary = 1</script>"'\u0000\u001b[31m\u202e\u2066 ${'x'.repeat(9000)}`

t.test('hostile lines, names and figures are only text', async (t) => {
  const { page, complaints, elsewhere, open } = await openConsole(t, { config: CONFIG })
  const line = {
    level: 'error',
    time: CANARY,
    msg: CANARY,
    [CANARY]: CANARY,
    err: { message: CANARY, stack: `${CANARY}\n  at x` },
  }
  const lines = [line, {}, { level: CANARY, msg: { a: [CANARY] }, err: CANARY }, { level: 'info', time: 7, msg: null }]
  const slow = { id: 'a', role: CANARY, kind: CANARY, planner: CANARY, name: CANARY, sql: CANARY }
  const figures = { count: 1, total_ms: 1, mean_ms: 1, max_ms: 1, last_seen: CANARY }
  await page.route('**/v1/query', async (route) => {
    const { type, args } = route.request().postDataJSON() as { type: string; args: { plan?: string } }
    const answers: Record<string, unknown> = {
      log_lines: { server: 's', last: lines.length, lines: lines.map((each, i) => ({ number: i + 1, line: each })) },
      slow_queries:
        args.plan === undefined
          ? { server: 's', threshold_ms: 100, queries: [{ ...slow, ...figures }] }
          : { id: 'a', sql: CANARY, plan: [CANARY] },
      server_status: {
        server: CANARY,
        version: CANARY,
        node: CANARY,
        platform: CANARY,
        host: CANARY,
        pid: 1,
        started_at: CANARY,
        plugins: [CANARY],
        providers: [{ kind: CANARY, name: CANARY, provider: CANARY, default: false }],
        metadata: { version: CANARY, listening: false },
        pools: [{ name: CANARY, max: 1, busy: 1 }],
        database: {
          version: CANARY,
          standby: true,
          metadata_version: '2',
          migrations: { [CANARY]: CANARY },
          servers: [{ address: null, own: false, servers: 0, connections: 3, since: CANARY }],
        },
      },
    }
    const json = answers[type]
    await (json === undefined ? route.continue() : route.fulfill({ json }))
  })
  const report = { status: 'not ready', probes: [{ name: CANARY, ok: false, detail: CANARY }] }
  await page.route('**/readyz', (route) => route.fulfill({ json: report }))

  await open('health')
  await page.getByText('Needs attention: <img').waitFor()
  await tab(page, 'Slow queries').click()
  await page.getByRole('gridcell').first().click()
  await page.getByLabel('Plan of the statement').waitFor()
  await tab(page, 'Log').click()
  await page
    .getByText(String.raw`"'\u0000\u001b[31m\u202e`)
    .first()
    .waitFor()
  await page.setViewportSize({ width: 390, height: 844 })
  for (const name of TABS) {
    await show(page, name)
    t.equal(await overflow(page), 0, name)
  }
  t.equal(await page.evaluate('window.canary'), undefined)
  t.equal(await page.locator('#main img[src]').count(), 0)
  t.same(complaints, [])
  t.same(elsewhere, [])
})
