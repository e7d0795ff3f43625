import { readFile } from 'node:fs/promises'
import type { Download, Page } from 'playwright-core'
import t from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'

const CANARY = 'globalThis.canary = 1'
const IMAGE = `<img src=x onerror="${CANARY}">`
const SCRIPT = `</script><script>${CANARY}</script>`
const ODD = `a"b'c\u0001\u202eיום ${'x'.repeat(40)}`.slice(0, 50)
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

const SCHEMA = `
  create table author (id int primary key, name text);
  comment on table author is '${IMAGE}';
  create table article (id int primary key, author_id int references author, editor_id int references author);
  create table mood (value text primary key);
  create view good_article as select * from article;
  create table ${quoted(IMAGE)} (id int primary key, ${quoted(SCRIPT)} text);
  create schema ${quoted(ODD)};
  create table ${quoted(ODD)}.${quoted(ODD)} (${quoted(ODD)} int primary key);
  create function shout(a author) returns text language sql stable as 'select upper(a.name)';
  create function find_authors(part text) returns setof author language sql stable as 'select * from author';
  create function ${quoted(SCRIPT)}() returns text language sql stable as 'select 1::text'`

/** The browser reports refused requests itself. */
const ownErrors = (complaints: readonly string[]) => complaints.filter((each) => !/status of 400/.test(each))

/** Replaces the text of the editor by its own keys: `fill` makes the browser add styles, which the page's policy refuses. */
const write = async (page: Page, sql: string) => {
  await page.getByRole('textbox', { name: 'SQL' }).click()
  await page.keyboard.press('Control+A')
  await page.keyboard.press('Delete')
  await page.keyboard.insertText(sql)
}

const run = async (page: Page, sql: string) => {
  await write(page, sql)
  await page.keyboard.press('Escape')
  await page.keyboard.press('Control+Enter')
}

const textIn = async (download: Download) => readFile(await download.path(), 'utf8')

t.test('an admin tracks a database, changes it by SQL, and compares and applies metadata', async (t) => {
  const dir = t.testdir({ '20260101000000_add_notes.up.sql': 'select 1' })
  const { server, page, complaints, elsewhere, open } = await openConsole(t, { config: { plugins: { sql: { dir } } } })
  await server.must('run_sql', { sql: SCHEMA })
  const heading = (name: string) => page.getByRole('heading', { name, exact: true })
  const dialog = page.getByRole('dialog')

  await t.test('a migration that has not run is pending', async () => {
    await open('structure/migrations')
    await page.getByText('1 not yet').waitFor()
    await page.getByRole('row', { name: 'your SQL files 20260101000000_add_notes has not run yet' }).waitFor()
  })

  await t.test('tables are tracked by ticks, with names for the relationships', async (t) => {
    await page.getByRole('link', { name: 'Structure' }).click()
    await page.getByRole('button', { name: /^Track \d+ items$/ }).waitFor()
    t.same(await accessibility(page), [])
    await page.getByLabel('good_article').uncheck()
    await page.getByLabel('Name of the relationship from author to article').first().fill('written')
    await page.getByRole('button', { name: /^Track \d+ items$/ }).click()
    await page.getByRole('link', { name: 'article', exact: true }).waitFor()
    const { tables } = await server.must('export_metadata', {})
    const names = tables.map(({ table }: { table: unknown }) => table)
    t.notOk(names.includes('good_article'))
    t.ok(names.includes(IMAGE))
    t.match(tables.find(({ table }: { table: unknown }) => table === 'author').array_relationships, [
      { name: 'articles_by_editor' },
      { name: 'written' },
    ])
    await page.getByText('Track one by its name').click()
    await page.getByLabel('Table or view').fill('good_article')
    await page.getByRole('button', { name: 'Track', exact: true }).click()
    await heading('good_article').waitFor()
  })

  await t.test('a table has its relationships, computed fields and names', async (t) => {
    await open('structure/table/author')
    await page.getByRole('paragraph').getByText(IMAGE).waitFor()
    await page.locator('li', { hasText: 'written' }).getByRole('button', { name: 'Edit' }).click()
    await dialog.getByLabel('Name').fill('works')
    await dialog.getByLabel('Comment').fill('What they wrote')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('What they wrote').waitFor()
    await page.getByRole('button', { name: 'Add a computed field' }).click()
    await dialog.getByLabel('Name').fill('loud')
    await dialog.getByLabel('Function').fill('shout')
    await dialog.getByRole('button', { name: 'Add', exact: true }).click()
    await page.locator('li', { hasText: 'loud' }).waitFor()
    await page.getByLabel('The rows are the values of an enum').click()
    await page.getByText(/cannot be an enum/).waitFor()
    await page.getByText('those of the database').click()
    await page.getByLabel('Table', { exact: true }).fill('Writer')
    await page.getByRole('button', { name: 'Save the names' }).click()
    await page.getByText('some are changed').waitFor()
    t.same(await accessibility(page), [])
    const { tables } = await server.must('export_metadata', {})
    t.match(
      tables.find(({ table }: { table: unknown }) => table === 'author'),
      {
        configuration: { custom_name: 'Writer' },
        computed_fields: [{ name: 'loud', definition: { function: 'shout' } }],
      },
    )
    await open('structure/table/article')
    await page.getByRole('button', { name: 'Untrack' }).click()
    await dialog.getByText('relationship author', { exact: true }).waitFor()
    await dialog.getByRole('button', { name: 'Untrack' }).click()
    await dialog.getByText('relationship author.works', { exact: true }).waitFor()
    t.same(await accessibility(page), [])
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Add by columns' }).click()
    await dialog.getByLabel('Name').fill('same')
    await dialog.getByLabel('Of the table').selectOption('good_article')
    await dialog.getByLabel('Column of article').selectOption('id')
    await dialog.getByLabel('Column of good_article').selectOption('id')
    await dialog.getByRole('button', { name: 'Add', exact: true }).click()
    await page.locator('li', { hasText: 'same' }).waitFor()
  })

  await t.test('SQL runs, says what it would drop, and can be stopped', async (t) => {
    await open('structure/sql')
    await run(page, `select 1 as a, 2 as a, '${IMAGE.replaceAll("'", "''")}'`)
    await page.getByText('1 row in').waitFor()
    await page.getByRole('gridcell', { name: IMAGE }).waitFor()
    t.same(await accessibility(page), [])
    await write(page, '')
    await page.getByRole('textbox', { name: 'SQL' }).pressSequentially('select * from good_a')
    await page.getByRole('option', { name: /^good_article/ }).waitFor()
    await run(page, 'select 1;\nselect nam from author')
    await page.getByText('2 │ select nam from author').waitFor()
    await page.getByText(/42703/).waitFor()
    await run(page, 'drop view good_article')
    await page.getByText('relationship article.same').waitFor()
    await page.getByRole('button', { name: 'Run, and drop these too' }).click()
    await page.getByText(/^Done in/).waitFor()
    await page.getByLabel('Read only').check()
    await run(page, 'create table no (id int)')
    await page.getByText(/read-only transaction/).waitFor()
    await run(page, 'select pg_sleep(60)')
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText(/^Stopped/).waitFor()
  })

  await t.test('functions are tracked and allowed', async () => {
    await open('structure/functions')
    const card = page.locator('li.function', { hasText: 'find_authors' })
    await card.getByLabel('Role to allow to call find_authors').fill('user')
    await card.getByRole('button', { name: 'Allow' }).click()
    await card.locator('.chip', { hasText: 'user' }).waitFor()
    await card.getByRole('button', { name: 'Forbid user to call find_authors' }).click()
    await card.getByText('Only admin may call it.').waitFor()
    await page.getByRole('button', { name: SCRIPT }).click()
    await page.getByRole('button', { name: 'Track', exact: true }).click()
    await page.locator('li.function', { hasText: SCRIPT }).waitFor()
  })

  await t.test('an export is compared in words, and applied', async (t) => {
    await open('structure/metadata')
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Save metadata.json' }).click()
    const text = await textIn(await saved)
    t.strictSame(JSON.parse(text), await server.must('export_metadata', {}))
    const choose = (content: string) =>
      page
        .getByLabel('Export to compare with')
        .setInputFiles({ name: 'other.json', mimeType: 'application/json', buffer: Buffer.from(content) })
    await choose(text)
    await page.getByText('The server has the same metadata').waitFor()
    await choose(text.replace('What they wrote', IMAGE.replaceAll('"', '\\"')))
    await page.getByText(`comment: What they wrote becomes ${IMAGE}`).waitFor()
    await page.getByRole('button', { name: 'Apply other.json' }).click()
    await dialog.getByText('nothing').waitFor()
    await dialog.getByRole('button', { name: 'Make 1 change' }).click()
    await page.getByText('Applied.').waitFor()
    await choose('{"tables": [{"table": "nowhere"}], "query_templates": []}')
    await page.getByText(/The server would refuse it/).waitFor()
    t.same(await accessibility(page), [])
    await choose('[1]')
    await page.getByText('other.json is no export of metadata.').waitFor()
    await server.must('run_sql', { sql: 'drop function shout', check_metadata_consistency: false })
    await page.getByRole('button', { name: 'Read the database again' }).click()
    await page.getByText('computed-field author.loud').waitFor()
    await page.getByRole('button', { name: /^Drop 1 object/ }).click()
    await dialog.getByRole('button', { name: 'Drop', exact: true }).click()
    await page.getByText('All metadata matches the database.').waitFor()
  })

  await t.test('the diagram shows tables, filters and leads to them', async (t) => {
    await open('structure/diagram')
    const author = page.getByRole('button', { name: 'author, 2 columns' })
    await author.click()
    await page.getByRole('complementary', { name: 'author' }).getByRole('link', { name: 'Structure' }).waitFor()
    t.same(await accessibility(page), [])
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Save as SVG' }).click()
    const svg = await textIn(await saved)
    t.notMatch(svg, /var\(|<script|<img/)
    await page.goto(`data:image/svg+xml,${encodeURIComponent(svg)}`)
    t.ok(await page.evaluate('document.documentElement.querySelectorAll("text").length > 4'), 'it is well-formed')
    await open('structure/diagram')
    await page.getByLabel('Filter tables').fill('arti')
    await page.getByText('1 of 5 tables').waitFor()
    await page.getByLabel('Filter tables').fill('')
    await author.waitFor()
    await author.focus()
    await page.keyboard.press('Enter')
    await page.keyboard.press('Enter')
    await heading('author').waitFor()
  })

  await t.test('it fits on a phone, and no name or value runs', async (t) => {
    await page.setViewportSize({ width: 390, height: 844 })
    const odd = [IMAGE, `${ODD}.${ODD}`].map((label) => `structure/table/${encodeURIComponent(label)}`)
    const views = ['', '/diagram', '/sql', '/functions', '/migrations', '/metadata', '/table/author']
    for (const view of [...views.map((each) => `structure${each}`), ...odd]) {
      await open(view)
      await page.getByText('Loading').waitFor({ state: 'detached' })
      t.equal(await overflow(page), 0, view)
      if (/functions|migrations|onerror/.test(view)) t.same(await accessibility(page), [], view)
    }
    await open(odd[0]!)
    await page.getByRole('rowheader', { name: SCRIPT }).waitFor()
    t.equal(await page.evaluate('globalThis.canary'), undefined)
    t.same(ownErrors(complaints), [])
    t.same(elsewhere, [])
  })
})
