import type { Page, Route } from 'playwright-core'
import t from 'tap'
import { openConsole } from '../../kit/console.js'

t.test('GraphiQL: the documentation, its search, the explorer, and tabs that move', async (t) => {
  const { server, page, complaints, elsewhere } = await openConsole(t)
  await server.must('run_sql', { sql: 'create table town (id int primary key, name text)' })
  await server.must('track_table', 'town')
  await page.route('**/v1/graphql', describeTowns)
  await page.goto(`${server.url}/v1/graphql`)

  await write(page, 'query One { town { name } }')
  await page.keyboard.press('Control+Enter')
  await page.locator('.result-window').getByText('"town"').first().waitFor()

  await page.getByRole('button', { name: 'Show Documentation Explorer' }).click()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('town')
  await page.getByRole('option', { name: 'town', exact: true }).first().click()
  await page.locator('.graphiql-doc-explorer').getByText('Towns & villages © &nosuch; <b>').first().waitFor()

  await page.getByRole('button', { name: 'Show GraphiQL Explorer' }).click()
  await page.locator('.graphiql-explorer-root').getByText('town_by_pk').click()
  t.match(await page.locator('.graphiql-query-editor').textContent(), /town_by_pk/)

  for (const name of ['Two', 'Three']) {
    await page.getByRole('button', { name: 'Add tab' }).click()
    await write(page, `query ${name} { __typename }`)
    await page.getByRole('tab', { name }).waitFor()
  }
  t.same(await tabs(page), ['One', 'Two', 'Three'])
  await page.getByRole('tab', { name: 'Three' }).dragTo(page.getByRole('tab', { name: 'One' }))
  t.same(await tabs(page), ['Three', 'One', 'Two'])
  await page.getByRole('tab', { name: 'Three' }).dragTo(page.getByRole('tab', { name: 'Two' }))
  t.same(await tabs(page), ['One', 'Two', 'Three'])
  t.same(complaints, [])
  t.same(elsewhere, [])
})

/** Adds a description with entities to the answer that has the schema. */
async function describeTowns(route: Route): Promise<void> {
  if (route.request().postDataJSON()?.operationName !== 'IntrospectionQuery') return route.continue()
  const response = await route.fetch()
  const json = await response.json()
  const types: { name: string; description: string }[] = json.data.__schema.types
  for (const type of types)
    if (type.name === 'town') type.description = 'Towns &amp; villages &copy; &nosuch; &lt;b&gt;'
  return route.fulfill({ response, json })
}

async function write(page: Page, text: string): Promise<void> {
  await page.locator('.graphiql-query-editor .CodeMirror').click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText(text)
}

function tabs(page: Page): Promise<readonly string[]> {
  return page.locator('.graphiql-tab-button').allTextContents()
}
