import t from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'
import { freshDatabase } from '../../kit/database.js'
import { patience } from '../../kit/patience.js'
import { startProxy } from '../../kit/proxy.js'

const PANELS = [
  'data/note',
  'ask',
  'structure',
  'structure/diagram',
  'structure/sql',
  'permissions',
  'permissions/findings',
  'templates',
  'files',
  'messages',
  'health',
  'health/indexes',
]

t.test('each panel fits wide and narrow windows, and is accessible in light and dark', async (t) => {
  const { server, page, open, complaints, elsewhere } = await openConsole(t, { files: true, notify: true })
  await server.must('run_sql', {
    sql: `create table note (id int primary key, text text); insert into note select i, 'note ' || i from generate_series(1, 50) i`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'note' },
    {
      type: 'create_select_permission',
      args: { table: 'note', role: 'user', permission: { columns: ['id'], filter: { id: { $lt: 9 } } } },
    },
  ])
  for (const [width, colorScheme] of [
    [1280, 'light'],
    [390, 'dark'],
  ] as const) {
    await page.setViewportSize({ width, height: 844 })
    await page.emulateMedia({ colorScheme })
    for (const panel of PANELS) {
      await open(panel)
      await page.waitForFunction(() => !(globalThis as any).document.querySelector('.wait'))
      t.equal(await overflow(page), 0, `${panel} at ${width} has no horizontal scroll bar`)
      t.same(await accessibility(page), [], `${panel} at ${width}`)
    }
  }
  t.same(complaints, [])
  t.same(elsewhere, [])
})

t.test('a panel is used by keyboard only', async (t) => {
  const { server, page, open } = await openConsole(t)
  await server.must('run_sql', {
    sql: `create table note (id int primary key, text text); insert into note values (1, 'one'), (2, 'two')`,
  })
  await server.must('track_table', 'note')
  await open('data/note')
  await page.getByRole('gridcell', { name: 'one' }).waitFor()
  const tabTo = async (what: () => Promise<boolean>) => {
    for (let i = 0; i < 60; i++) {
      if (await what()) return
      await page.keyboard.press('Tab')
    }
    throw new Error('not reached by the tab key')
  }
  const focused = (selector: string) => () =>
    page.evaluate((each) => (globalThis as any).document.activeElement?.matches(each) ?? false, selector)
  await tabTo(focused('.menu a[href="/console/ask"]'))
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/console\/ask/)
  await open('data/note')
  await page.getByRole('gridcell', { name: 'one' }).waitFor()
  await tabTo(focused('[role="grid"]'))
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('End')
  await page.keyboard.press('Enter')
  await page.keyboard.press('Control+A')
  await page.keyboard.type('changed')
  await page.keyboard.press('Enter')
  await page.getByRole('gridcell', { name: 'changed' }).waitFor()
  t.same(await server.must('select', { table: 'note', columns: ['text'], where: { id: 2 } }), [{ text: 'changed' }])
})

/** What a panel shows that it can only know from the database. */
const KNOWN: Readonly<Record<string, string>> = {
  'data/note': 'role=gridcell >> text="note 1"',
  ask: '.examples button >> nth=0',
  structure: 'role=link[name=/^note/] >> nth=0',
  'structure/diagram': '[aria-label^="note, "]',
  'structure/sql': '.cm-content',
  permissions: 'role=columnheader[name="select"] >> nth=0',
  'permissions/why': 'role=combobox >> nth=0',
  'templates/notes': 'role=heading[name="notes"]',
  'templates/notes?view=calls': 'text=Mean time',
  'templates/notes?view=roles': 'role=row[name=/^user/]',
  files: 'role=gridcell >> text="a.txt"',
  'files?file=a.txt': 'text="words of a file"',
  messages: '.message-list .title',
  'messages/templates': 'text=hello-mail',
  'messages/providers': '.card >> nth=0',
  'messages/suppressed': 'text=gone@example.com',
  'structure/functions': '.cards >> text=loud >> nth=0',
  'structure/migrations': 'text="plugin notify" >> nth=0',
  'structure/metadata': 'role=button[name=/Save|Export/] >> nth=0',
  health: '.tile >> nth=0',
  'health/slow': '.page.health .scroll >> text=/slow|No statement/i',
  'health/server': 'text=Servers at this database',
  'health/log': '.log-page :is(.empty, .log)',
}

t.test('each panel says when the database is away, and shows its contents when it is back', async (t) => {
  const database = await freshDatabase(t)
  const proxy = await startProxy(t, database.url)
  const { server, page, open, complaints } = await openConsole(t, {
    databaseUrl: proxy.url,
    files: true,
    notify: true,
    config: { log: { level: 'silent' }, providers: { email: { default: 'memory', memory: { keep: 10 } } } },
  })
  await server.must('run_sql', {
    sql: `create table note (id int primary key, text text); insert into note select i, 'note ' || i from generate_series(1, 50) i;
          create function loud() returns setof note stable language sql as $$ select id, upper(text) from note $$;
          insert into svc_catalog.svc_mail_template (name, subject, text) values ('hello-mail', 'Hello', 'Hello');
          insert into svc_catalog.svc_suppression (address, reason) values ('gone@example.com', 'bounced')`,
  })
  await server.must('bulk', [
    { type: 'track_table', args: 'note' },
    { type: 'track_table', args: { schema: 'svc_catalog', name: 'svc_file' } },
    { type: 'track_function', args: 'loud' },
    {
      type: 'create_select_permission',
      args: { table: 'note', role: 'user', permission: { columns: ['id'], filter: {} } },
    },
    {
      type: 'create_query_template',
      args: { name: 'notes', template: { type: 'select', args: { table: 'note', columns: ['id'] } } },
    },
  ])
  const owner = { variables: { 'x-service-user-id': '7' } }
  const put = { method: 'PUT', headers: { 'Content-Type': 'text/plain' }, body: 'words of a file' }
  await server.fetch('/v1/file/a.txt', put, owner)
  const mail = { to: 'a@example.com', from: 'b@example.com', sub: 'A subject', text: 'hi' }
  t.match(await server.fetch('/v1/send/email', { method: 'POST', body: JSON.stringify(mail) }), { status: 200 })

  await page.setViewportSize({ width: 390, height: 844 })
  page.setDefaultTimeout(patience(4_000))
  for (const [panel, known] of Object.entries(KNOWN)) {
    await t.test(panel, async (t) => {
      proxy.set({ kind: 'pass' })
      await open(panel)
      await page.locator(known).waitFor()

      for (const way of ['another panel', 'a reload']) {
        proxy.set({ kind: 'refuse' })
        proxy.killAll()
        if (way === 'a reload') await page.reload()
        else {
          await page.getByRole('link', { name: panel === 'ask' ? 'Data' : 'Ask', exact: true }).click()
          await page.goBack()
        }
        await page.getByText('tries again every two seconds').waitFor()
        await page.locator('.wait').waitFor({ state: 'detached' })
        t.equal(await overflow(page), 0)

        proxy.set({ kind: 'pass' })
        await page.locator(known).waitFor()
        await page.locator('.trouble').waitFor({ state: 'detached' })
        await page.locator('.problem').waitFor({ state: 'detached' })
      }
    })
  }
  t.same(
    complaints.filter((each) => !/Failed to load resource/.test(each)),
    [],
    'the browser only reports the requests that failed',
  )
})
