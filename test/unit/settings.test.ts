import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { settingsPage } from '../kit/settings.js'

const file = fileURLToPath(new URL('../../../core/SETTINGS.md', import.meta.url))

t.test('core/SETTINGS.md is what the schemas say (UPDATE=1 writes it)', async (t) => {
  const page = await settingsPage()
  if (process.env['UPDATE'] === '1') await writeFile(file, page)

  t.same((await readFile(file, 'utf8')).split('\n'), page.split('\n'))
})

t.test('every setting says what it does', async (t) => {
  const silent = (await settingsPage()).split('\n').filter((line) => line.startsWith('| `') && line.endsWith('|  |'))

  t.same(silent, [])
})
