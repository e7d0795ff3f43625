import t from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'

const PANELS = [
  'data/note',
  'ask',
  'structure',
  'structure/diagram',
  'structure/sql',
  'permissions',
  'templates',
  'files',
  'messages',
  'health',
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
