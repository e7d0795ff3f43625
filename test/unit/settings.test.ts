import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { builtins } from '../../core/cli/builtins.js'
import { sections } from '../../core/host/server.js'
import { BUILT, keyOf } from '../../core/host/validate.js'
import type { Schema } from '../../core/json/schema.js'
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

t.test(
  'the build has a validator of every schema, so that a start with a valid configuration does not wait for Ajv',
  async (t) => {
    const { default: built } = (await import(BUILT)) as { readonly default: object }
    const { plugins, optional, providers } = builtins()
    const modules = [plugins, optional ?? {}, ...Object.values(providers)].flatMap((each) => Object.values(each))
    const owned = await Promise.all(
      modules.map(async ({ href }) => (await import(href)).default.config as Schema | undefined),
    )
    const schemas: readonly Schema[] = [...Object.values(sections), ...owned.filter((schema) => schema !== undefined)]

    t.ok(schemas.length > 20)
    for (const schema of schemas) t.ok(keyOf(schema) in built)
  },
)
