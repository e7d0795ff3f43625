import t from 'tap'
import { chromium } from 'playwright-core'
import { accessibility } from '../../kit/console.js'
import { patience } from '../../kit/patience.js'
import { startSample } from './sample.js'

t.test('the first fifteen minutes: a missing order, its rule, a plot, a template, a file and a mail', async (t) => {
  const sample = await startSample()
  t.teardown(sample.stop)
  const browser = await chromium.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  })
  t.teardown(() => browser.close())
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  const page = await context.newPage()
  page.setDefaultTimeout(patience(20_000))
  const complaints: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  const panel = (name: string) => page.getByLabel('Panels').getByRole('link', { name, exact: true }).click()
  const orders = async () => {
    await panel('Data')
    await page
      .getByLabel('Tables')
      .getByRole('link', { name: /^orders(?!_)/ })
      .click()
  }

  await page.goto(sample.link)
  await page.getByRole('button', { name: 'Acting as admin' }).waitFor()
  t.notMatch(page.url(), 'code', 'the code leaves the address')

  await page.getByRole('button', { name: 'Acting as admin' }).click()
  await page.getByLabel('Role').fill('customer')
  await page.getByLabel('User id').fill('157')
  await page.getByRole('button', { name: 'Act as this role' }).click()
  await orders()
  await page.getByRole('gridcell', { name: 'shipped', exact: true }).first().waitFor()
  t.equal(await page.getByRole('gridcell', { name: '46455', exact: true }).count(), 0)

  await page.getByRole('link', { name: 'Is a row missing?' }).click()
  await page.locator('input[name="key0"]:focus').waitFor()
  await page.goto(
    `${new URL(page.url()).origin}/console/data/orders?where=${encodeURIComponent('{"id":{"$eq":46455}}')}`,
  )
  await page.getByRole('link', { name: 'Is a row missing?' }).click()
  await page.getByText('status is "late"').waitFor()
  t.same(await accessibility(page), [])
  await page.getByRole('link', { name: 'Change the permission' }).click()
  const editor = page.getByRole('textbox', { name: 'Rows that customer may select' })
  await editor.click()
  await page.keyboard.press('Control+A')
  await page.keyboard.insertText('{"customer_id": "X-Service-User-Id"}')
  await page.getByText('Unsaved', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Unsaved', { exact: true }).waitFor({ state: 'detached' })
  await orders()
  const id = page.getByRole('columnheader', { name: /^id/ }).getByRole('button')
  await id.click()
  await page.locator('[aria-sort="ascending"]').waitFor()
  await id.click()
  await page.getByRole('gridcell', { name: '46455', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Be admin again' }).click()

  await panel('Ask')
  await page.getByRole('button', { name: 'Plot by month' }).click()
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByRole('img', { name: /by month: bars/ }).waitFor()
  await page.getByRole('button', { name: 'Keep as template' }).click()
  await page.getByLabel('Name', { exact: true }).fill('all_orders')
  await page.getByRole('button', { name: 'Keep', exact: true }).click()
  await page.getByRole('link', { name: 'Open it' }).click()
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByRole('img', { name: /by month: bars/ }).waitFor()

  await panel('Files')
  await page.getByLabel('Files to upload').setInputFiles({
    name: 'hello.txt',
    mimeType: 'text/plain',
    buffer: Buffer.from('a file of the story'),
  })
  await page
    .getByRole('gridcell', { name: /hello\.txt/ })
    .first()
    .waitFor()
  await panel('Messages')
  await page.getByText('Your order 46455 is late').first().click()
  await page.getByRole('heading', { name: 'Your order 46455 is late' }).waitFor()
  t.same(complaints, [])

  await sample.endDatabase()
  await orders()
  await page
    .getByRole('gridcell', { name: 'shipped', exact: true })
    .first()
    .waitFor({ timeout: patience(60_000) })
  t.equal(await page.getByRole('alert').filter({ hasText: 'unavailable' }).count(), 0, 'the trouble is over')

  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Admin secret', { exact: true }).waitFor()
  await page.goto(sample.link)
  await page.getByLabel('Admin secret', { exact: true }).waitFor()
  t.pass('the link works once')
})
