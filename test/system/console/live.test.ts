import t from 'tap'
import { accessibility, openConsole } from '../../kit/console.js'

t.test('somebody watches rows change, sees the history of one, and undoes a change', async (t) => {
  const builtin = (name: string) => new URL(`../../../plugins/${name}/index.js`, import.meta.url)
  const { server, page, complaints, open } = await openConsole(t, {
    builtins: { live: builtin('live'), history: builtin('history') },
  })
  await server.must('run_sql', {
    sql: `create table town (id int primary key, name text, people int); create table still (id int primary key);
      insert into town values (1, 'Rome', 10), (2, 'Oslo', 20)`,
  })
  await server.must('bulk', [
    ...['town', 'still'].map((args) => ({ type: 'track_table', args })),
    { type: 'set_table_live', args: { table: 'town', live: true } },
    { type: 'set_table_history', args: { table: 'town' } },
  ])
  const cell = (text: string) => page.getByRole('gridcell', { name: text, exact: true })
  const button = (name: string) => page.getByRole('button', { name, exact: true })

  await open('data/still')
  await button('Columns').waitFor()
  t.equal(await button('Live').count(), 0, 'only where changes are noted')

  await open('data/town')
  await button('Live').click()
  await cell('Rome').waitFor()
  await server.sql(`insert into town values (3, 'Bern', 30); update town set people = 11 where id = 1`)
  await cell('Bern').waitFor()
  await cell('11').waitFor()
  t.equal(await button('Live').getAttribute('aria-pressed'), 'true')

  await button('Open row 1').click()
  const sheet = page.getByRole('region', { name: 'Row 1' })
  await server.sql(`delete from town where id = 2`)
  await sheet.getByText(/^History/).click()
  await sheet.getByText('Changed', { exact: true }).waitFor()
  await sheet.getByText('10', { exact: true }).waitFor()
  t.same(await accessibility(page), [])
  if (process.env['ROWHOUSE_PICTURE']) await page.screenshot({ path: process.env['ROWHOUSE_PICTURE'] })
  await sheet.getByRole('button', { name: 'Undo', exact: true }).first().click()
  const dialog = page.getByRole('dialog', { name: 'Undo this change?' })
  await dialog.getByText('The row gets its former values:').waitFor()
  await dialog.getByRole('button', { name: 'Undo', exact: true }).click()
  await cell('10').waitFor()
  await cell('Oslo').waitFor({ state: 'detached' })
  t.same((await server.sql('select people from town where id = 1')).result[1], ['10'])
  t.same(complaints, [])
})
