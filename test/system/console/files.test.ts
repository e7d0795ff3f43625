import { readFileSync } from 'node:fs'
import t from 'tap'
import { accessibility, openConsole, overflow } from '../../kit/console.js'
import type { As } from '../../kit/server.js'

const CANARY = 'window.stolen = 1; parent.stolen = 1'
const HOSTILE = [
  `<img src=x onerror="${CANARY}">`,
  `a" '</script><script>${CANARY}</script>/b.html`,
  '\u202egnp.exe',
  `long/${'x'.repeat(900)}.txt`,
  'a//b',
  '%25 & ?in=#hash',
]
const owner: As = { variables: { 'x-service-user-id': '7' } }

t.test('somebody uploads, pauses, resumes, looks at, shares and deletes files', async (t) => {
  const dataDir = t.testdir({})
  const { server, page, complaints, elsewhere, open } = await openConsole(t, { files: true, config: { dataDir } })
  const put = (id: string, type: string, body: string | Buffer) =>
    server.fetch(
      `/v1/file/${encodeURIComponent(id)}`,
      { method: 'PUT', headers: { 'Content-Type': type }, body: body as string },
      owner,
    )
  await open('files')
  await page.getByRole('button', { name: 'Track the table' }).click()
  await page.getByText('There are no files').waitFor()
  t.same(await accessibility(page), [])

  for (const id of HOSTILE) t.equal((await put(id, 'text/html', `<script>${CANARY}</script>`)).status, 200)
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="${CANARY}"><script>${CANARY}</script></svg>`
  await put('pictures/evil.svg', 'image/svg+xml', svg)
  await open('files')
  await page.getByText('4 folders, 3 files').waitFor()
  t.same(await accessibility(page), [])
  for (const id of HOSTILE) {
    await open(`files?file=${encodeURIComponent(id)}`)
    await page.getByLabel('Text of the file').waitFor()
    t.equal(await page.getByLabel('Text of the file').innerText(), `<script>${CANARY}</script>`, id)
  }
  await open('files?in=pictures/&file=pictures/evil.svg')
  await page.locator('img.preview').waitFor()
  t.equal(await page.evaluate('window.stolen'), undefined)

  await open('files')
  await page.getByText('pictures/', { exact: true }).click()
  await page.getByText('1 file', { exact: true }).waitFor()
  await page.route('**/v1/upload/*', async (route) => {
    if (route.request().method() === 'PATCH') await new Promise(() => {})
    else await route.continue()
  })
  const film = { name: 'film.mp4', mimeType: 'video/mp4', buffer: Buffer.alloc(300_000, 'f') }
  const note = { name: 'note.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') }
  await page.getByLabel('Files to upload').setInputFiles([film, note])
  await page.getByRole('button', { name: 'Pause pictures/film.mp4' }).click()
  await page.getByRole('button', { name: 'Pause pictures/note.txt' }).click()
  await page.getByRole('button', { name: 'Resume pictures/film.mp4' }).waitFor()
  t.same(await accessibility(page), [])
  await page.unroute('**/v1/upload/*')
  await page.getByRole('button', { name: 'Resume pictures/film.mp4' }).click()
  await page.getByText('300 kB, stored').waitFor()

  // Another page has only what the browser remembers, which is no secret.
  await open('files?in=pictures/')
  const kept = await page.evaluate<string>('JSON.stringify(localStorage)')
  t.match(kept, 'note.txt')
  t.notMatch(kept, /secret|cookie|bearer/i)
  await page.getByText('not finished before the page was closed').waitFor()
  await page.getByLabel('File to go on with pictures/note.txt').setInputFiles(note)
  await page.getByText('1 of 1 file stored').waitFor()
  await page.getByText('3 files', { exact: true }).waitFor()
  for (const id of ['many/page 10.txt', 'many/page 2.txt', 'many/page 1.txt', 'many/in 10/a', 'many/in 9/a'])
    await put(id, 'text/plain', id)
  await open('files?in=many/')
  await page.getByText('2 folders, 3 files').waitFor()
  const names = page.locator('[role=gridcell] bdi')
  t.same(await names.allTextContents(), ['in 9/', 'in 10/', 'page 1.txt', 'page 2.txt', 'page 10.txt'])
  await page.getByRole('button', { name: 'Name ▲' }).click()
  await page.getByRole('button', { name: 'Name ▼' }).waitFor()
  await page.getByText('2 folders, 3 files').waitFor()
  t.same(await names.allTextContents(), ['in 9/', 'in 10/', 'page 10.txt', 'page 2.txt', 'page 1.txt'])
  t.equal(await page.getByRole('checkbox').count(), 3, 'folders have no boxes')
  await page.getByLabel('Select many/page 10.txt').check()
  await page.getByLabel('Select many/page 1.txt').click({ modifiers: ['Shift'] })
  await page.getByText('3 selected').waitFor()
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.getByText('2 folders, 0 files').waitFor()
  await open('files?in=pictures/')
  await page.getByText('3 files', { exact: true }).waitFor()

  await page.getByRole('gridcell', { name: 'note.txt', exact: true }).click()
  await page.getByText('hello', { exact: true }).waitFor()
  t.same(await accessibility(page), [])
  await page.getByLabel('File to store in its place').setInputFiles({ ...note, buffer: Buffer.from('replaced') })
  await page.getByText('replaced', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Signed address' }).click()
  await page.getByRole('button', { name: 'Create' }).click()
  const address = await page.locator('dialog pre').innerText()
  t.equal(await (await fetch(address)).text(), 'replaced')
  t.same(await accessibility(page), [])
  await page.keyboard.press('Escape')
  const downloading = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download' }).click()
  const saved = await downloading
  t.equal(saved.suggestedFilename(), 'note.txt')
  t.equal(readFileSync(await saved.path(), 'utf8'), 'replaced')

  await page.setViewportSize({ width: 390, height: 844 })
  t.equal(await overflow(page), 0)
  await page.getByRole('button', { name: 'Close' }).click()
  t.equal(await overflow(page), 0)
  for (const name of ['pictures/note.txt', 'pictures/film.mp4']) await page.getByLabel(`Select ${name}`).check()
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.getByText('1 file', { exact: true }).waitFor()
  await page.setViewportSize({ width: 1280, height: 800 })

  await page.getByRole('button', { name: 'Usage' }).click()
  await page.getByRole('cell', { name: '7', exact: true }).first().waitFor()
  t.same(await accessibility(page), [])
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Check' }).click()
  await page.getByRole('button', { name: 'Check now' }).click()
  await page.getByText('All is well.').waitFor()
  t.same(await accessibility(page), [])
  await page.keyboard.press('Escape')

  await server.must('create_select_permission', {
    table: { schema: 'svc_catalog', name: 'svc_file' },
    role: 'reader',
    permission: { columns: ['file_id'], filter: { file_id: 'a//b' } },
  })
  await open('files')
  await page.getByText('5 folders, 3 files').waitFor()
  await page.route('**/v1/upload/*', () => new Promise(() => {}))
  await page.getByLabel('Files to upload').setInputFiles(note)
  await page.getByRole('button', { name: 'Pause note.txt' }).waitFor()
  await page.getByRole('button', { name: 'Acting as admin' }).click()
  await page.getByLabel('Role').fill('reader')
  await page.getByLabel('User id').fill('8')
  await page.getByRole('button', { name: 'Act as this role' }).click()
  await page.getByText('1 folder, 0 files').waitFor()
  t.equal(await page.getByText('pictures/').count(), 0, 'what the role may not see is not listed')
  t.equal(await page.getByRole('button', { name: 'Upload' }).count(), 0)
  t.equal(await page.getByText('note.txt').count(), 0, 'uploads of the admin are not shown')
  await page.getByRole('button', { name: 'Be admin again' }).click()
  await page.getByRole('button', { name: 'Resume note.txt' }).waitFor()
  t.same(complaints, [])

  await page.unroute('**/v1/upload/*')
  await server.must('create_insert_permission', {
    table: { schema: 'svc_catalog', name: 'svc_file' },
    role: 'reader',
    permission: { check: { file_size: { $lt: 3 } } },
  })
  await page.getByRole('button', { name: 'Acting as admin' }).click()
  await page.getByLabel('Role').fill('reader')
  await page.getByLabel('User id').fill('8')
  await page.getByRole('button', { name: 'Act as this role' }).click()
  await page.getByText('1 folder, 0 files').waitFor()
  await page.getByLabel('Files to upload').setInputFiles(note)
  await page.getByText('Why?').click()
  await page.getByText('file_size is 5').waitFor()
  t.same(await accessibility(page), [])
  t.match(complaints, [/403/])
  t.same(elsewhere, [])
})

t.test('a server without the filestore says so', async (t) => {
  const { page, open } = await openConsole(t)
  await open('files')
  await page.getByText('is not loaded').waitFor()
  t.same(await accessibility(page), [])
})
