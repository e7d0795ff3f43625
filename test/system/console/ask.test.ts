import type { Page } from 'playwright-core'
import t from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'
import type { TestServer } from '../../kit/server.js'

const HOSTILE = `<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script> "'\\ \u202e\u0007 ${'x'.repeat(500)}`

t.test('somebody asks, plots, explains and keeps a question', async (t) => {
  const { server, page, complaints, elsewhere, open } = await openConsole(t)
  await shop(server)
  await open('ask')

  // The first question is about a real table.
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByRole('gridcell', { name: 'paid', exact: true }).first().waitFor()
  t.match(await page.locator('.figures').textContent(), /^\d+ rows · .* · .*s$/)
  t.same(await accessibility(page), [])

  // Related rows become columns, and hostile values stay text.
  await write(
    page,
    '{"type": "select", "args": {"table": "sale", "columns": ["id", {"name": "buyer", "columns": ["name"]}], "order_by": ["id"]}}',
  )
  await page.keyboard.press('Control+Enter')
  await page.getByRole('columnheader', { name: 'buyer.name' }).waitFor()
  for (const view of ['Tree', 'JSON', 'Plot']) {
    await page.getByRole('tab', { name: view, exact: true }).click()
    await page.locator('.answer-body > *').first().waitFor()
  }
  t.same(await accessibility(page), [], 'the plot')
  t.notOk(await page.evaluate('window.hacked'))

  // A plot of times.
  await page.getByRole('button', { name: 'Plot by month' }).click()
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  const plot = page.getByRole('img', { name: /^rows by month: bars, placed_at from 2024-01-01 to 2024-12-01/ })
  await plot.waitFor()
  t.equal(await plot.locator('canvas').count(), 1)
  const [picture] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save picture' }).click(),
  ])
  t.equal(picture.suggestedFilename(), 'plot.png')
  await page.getByLabel('Plot', { exact: true }).selectOption('line')
  await page.getByRole('img', { name: /: lines,/ }).waitFor()

  // A kept template shows the same plot.
  await page.getByRole('button', { name: 'Keep as template' }).click()
  await page.getByLabel('Name', { exact: true }).fill('monthly_sales')
  await page.getByRole('button', { name: 'Keep', exact: true }).click()
  await page.getByRole('link', { name: 'Open it' }).click()
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByRole('img', { name: /^rows by month: lines, placed_at from 2024-01-01 to 2024-12-01/ }).waitFor()
  t.same(await accessibility(page), [], 'the plot of a template')
  await open('ask')

  // Errors at their place: of the syntax, and of the server.
  await write(page, '{"type": "select" "args": {}}')
  await page.locator('.cm-lintRange-error').waitFor()
  t.ok(await page.getByRole('button', { name: 'Run', exact: true }).isDisabled())
  await write(
    page,
    '{"type": "select", "args": {"table": "sale", "columns": ["id"], "where": {"$or": [{"id": 1}, {"buyer": {"nam": 2}}]}}}',
  )
  await page.keyboard.press('Control+Enter')
  await page.getByText('$.args.where.$or[1].buyer.nam').waitFor()
  await page.locator('.cm-lintRange-error').first().waitFor()
  const marked = await page.locator('.cm-lintRange-error').allTextContents()
  t.equal(marked.join(''), '"nam": 2')
  t.equal(complaints.filter((each) => !/status of 400/.test(each)).length, 0, String(complaints))
  complaints.length = 0

  // Completion knows the operators of a column.
  await write(page, '{"type": "select", "args": {"table": "sale", "columns": ["id"], "where": {"status": {}}}}')
  for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('Control+Space')
  await page.getByRole('option', { name: '$ilike' }).waitFor()
  await page.keyboard.press('Escape')

  // The SQL and the plan.
  await page.getByRole('button', { name: 'Filter' }).click()
  await page.getByRole('button', { name: 'Explain' }).click()
  await page.getByLabel(/measure/).check()
  await page.getByText(/Execution Time/).waitFor()
  await page.getByLabel('SQL').getByText('select array_to_json').waitFor()
  t.same(await accessibility(page), [])
  await page.keyboard.press('Escape')

  // A template with a parameter.
  await page.getByRole('button', { name: 'Keep as template' }).click()
  await page.getByLabel('Name', { exact: true }).fill('some sales')
  await page.getByRole('checkbox', { name: /^limit/ }).check()
  await page.getByRole('button', { name: 'Keep', exact: true }).click()
  await page.getByText('The template some sales is kept.').waitFor()
  t.equal(await page.locator('dialog code').textContent(), '/v1/template/some%20sales')
  await page.keyboard.press('Escape')
  t.equal((await server.fetch('/v1/template/some%20sales?limit=2')).body.length, 2)

  // Tabs and the history.
  await page.getByLabel('Name of this tab').fill(HOSTILE.slice(0, 40))
  await page.getByRole('button', { name: 'New', exact: true }).click()
  await write(page, '{"type": "run_sql", "args": {"sql": "select 1 as password"}}')
  await page.keyboard.press('Control+Enter')
  await page.getByRole('gridcell', { name: '1', exact: true }).waitFor()
  await page.reload()
  await page.getByRole('tab', { name: /^<img/ }).waitFor()
  await page.getByRole('button', { name: 'History' }).click()
  await page.getByRole('dialog').getByText('buyer').first().waitFor()
  t.equal(await page.getByRole('dialog').getByText('select 1 as password').count(), 0)
  await page.getByRole('button', { name: 'Delete history' }).click()
  await page.getByText('Nothing was asked yet.').waitFor()
  await page.keyboard.press('Escape')
  t.equal(await page.evaluate('localStorage.getItem("rowhouse-asked-admin")'), null)

  // GraphiQL asks as the one whom the admin acts as.
  await page.evaluate(`sessionStorage.setItem('rowhouse-acting', '{"role":"clerk","variables":{}}')`)
  await open('ask/graphql')
  const frame = page.frameLocator('iframe')
  await frame.getByRole('button', { name: /Execute/ }).click()
  await frame.locator('.result-window').getByText('"paid"').first().waitFor()
  t.notMatch(
    await frame.locator('.graphiql-query-editor').textContent(),
    /secret_note|buyer_id/,
    'the schema of the role',
  )
  await frame.getByRole('button', { name: /^Explain/ }).click()
  const dialog = page.getByRole('dialog', { name: 'Explain' })
  await dialog.getByText('As clerk.').waitFor()
  await dialog.getByLabel('Plan', { exact: true }).waitFor()
  t.match(await dialog.getByLabel('SQL').textContent(), /"public"\."sale"/)
  await page.keyboard.press('Escape')
  await frame.getByRole('button', { name: /GraphiQL Explorer/ }).click()
  await frame.locator('.graphiql-explorer-root').waitFor()

  t.notOk(await page.evaluate('window.hacked'))
  t.same(complaints, [])
  t.same(elsewhere, [])
})

t.test('steps of a bulk are completed, and a dry run changes nothing', async (t) => {
  const { server, page, complaints, open } = await openConsole(t)
  await shop(server)
  await open('ask')
  const steps = (second: string) =>
    `{"type": "bulk", "args": [{"as": "added", "type": "insert", "args": {"table": "buyer",
      "objects": [{"id": 9, "name": "Ida"}], "returning": ["id"]}}, ${second}]}`
  const run = () => page.getByRole('button', { name: 'Run', exact: true }).click()
  /** Offers at the place of `|`. */
  const offers = async (text: string) => {
    await write(page, text.replace('|', ''))
    for (let i = 0; i < text.length - text.indexOf('|') - 1; i++) await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('Control+Space')
    await page.getByRole('option').first().waitFor()
    const found = await page.locator('.cm-completionLabel').allTextContents()
    await page.keyboard.press('Escape')
    return found
  }
  const sale = (rest: string) =>
    steps(`{"type": "insert", "args": {"table": "sale", "objects": [{"id": 999, "buyer_id": ${rest}}]}}`)

  t.same(await offers(steps('{"type": "count", |}')), ['args', 'as', 'expect', 'for_each'])
  t.same(await offers(steps('{"type": "count", "expect": {|}}')), ['affected', 'rows', 'exists'])
  t.same(await offers(steps('{"type": "count", "expect": {"affected": {|}}}')), ['min', 'max'])
  t.same(await offers(steps('{"type": "count", "for_each": "|"}')), ['added.returning'])
  t.same(await offers(sale('{|}')), ['$ref'])
  const paths = ['added.returning[0].id', 'added.affected_rows', 'added.returning[*].id', 'added']
  t.same(await offers(sale('{"$ref": "|"}')), paths)
  const inEach = steps(
    '{"for_each": "added.returning", "type": "count", "args": {"table": "sale", "where": {"id": |}}}',
  )
  t.same(await offers(inEach), ['each.id', 'each', ...paths])
  t.same(await offers('{"type": "count", |}'), ['args', 'dry_run'])

  await write(page, sale('|').replace('|', ''))
  for (let i = 0; i < '}]}}]}'.length; i++) await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('Control+Space')
  await page.getByRole('option', { name: 'added.returning[0].id' }).click()
  await page.getByRole('checkbox', { name: 'Dry run' }).check()
  await run()
  await page.getByText('Dry run: the server rolled it back').waitFor()
  t.same(await accessibility(page), [])
  t.same(await server.must('count', { table: 'buyer', where: { id: 9 } }), { count: 0 })
  await page.getByRole('checkbox', { name: 'Dry run' }).uncheck()
  await run()
  await page.getByText('Dry run: the server rolled it back').waitFor({ state: 'detached' })
  await page.locator('.answer-body > *').first().waitFor()
  t.same(await server.must('count', { table: 'sale', where: { buyer_id: 9 } }), { count: 1 })
  t.same(complaints, [])
})

t.test('a phone, many rows, and Stop', async (t) => {
  const { server, page, complaints, open } = await openConsole(t, {
    browser: { viewport: { width: 390, height: 844 } },
  })
  await shop(server)
  await server.must('run_sql', {
    sql: `create table big as select i as id, repeat('x', 20) as text from generate_series(1, 120000) i;
          create function slow() returns boolean language sql volatile as 'select pg_sleep(60) is null'`,
  })
  await server.must('track_table', 'big')
  await server.must('track_function', 'slow')
  await open('ask')
  t.equal(await overflow(page), 0)
  await write(page, '{"type": "select", "args": {"table": "big", "columns": ["*"]}}')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByText(/keeps at most 100,000 rows/).waitFor()
  t.match(await page.locator('.figures').textContent(), /^100,000 rows/)
  t.equal((await page.getByRole('row').count()) < 100, true, 'only the rows in view are drawn')
  t.equal(await overflow(page), 0)

  await write(page, '{"type": "call", "args": {"function": "slow"}}')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByText('Waiting for the answer').waitFor()
  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByRole('button', { name: 'Run', exact: true }).waitFor()

  await page.getByRole('tab', { name: 'GraphQL' }).click()
  const frame = page.frameLocator('iframe')
  await frame.getByRole('button', { name: /Execute/ }).waitFor()
  t.equal(await overflow(page), 0)
  const box = await frame.locator('.graphiql-response').boundingBox()
  t.ok((box?.width ?? 0) > 300, `the response is ${box?.width} px wide`)
  t.same(await accessibility(page).then((found) => found.filter((each) => !each.includes('iframe'))), [])
  t.same(complaints, [])
})

/** Creates customers and what they bought. The role clerk sees only the state of the sales. */
async function shop(server: TestServer): Promise<void> {
  await server.must('run_sql', {
    sql: `create table buyer (id int primary key, name text);
          create table sale (id int primary key, buyer_id int references buyer, status text, total numeric, placed_at timestamptz);
          insert into buyer select i, 'buyer ' || i from generate_series(1, 5) i;
          insert into sale select i, 1 + i % 5, case when i % 3 = 0 then 'new' else 'paid' end, i * 1.5,
            '2024-01-01Z'::timestamptz + i * interval '1 day' from generate_series(0, 359) i`,
  })
  await server.must('run_sql', { sql: 'update buyer set name = $1 where id = 2', params: [HOSTILE] })
  await server.must('track_all', {})
  await server.must('create_select_permission', {
    table: 'sale',
    role: 'clerk',
    permission: { columns: ['id', 'status'], filter: {} },
  })
}

/** Replaces the text of the request. */
async function write(page: Page, text: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Request' }).click()
  await page.keyboard.press('Control+a')
  await page.keyboard.press('Delete')
  await page.keyboard.insertText(text)
}
