import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { builtins } from '../../core/cli/builtins.js'
import { sections } from '../../core/host/sections.js'
import { BUILT, keyOf } from '../../core/host/validate.js'
import type { Schema } from '../../core/json/schema.js'
import { settingsPages } from '../kit/settings.js'

const pathOf = (file: string) => fileURLToPath(new URL(`../../../${file}`, import.meta.url))

t.test('the pages of settings are what the schemas say (UPDATE=1 writes them)', async (t) => {
  for (const [file, page] of Object.entries(await settingsPages())) {
    if (process.env['UPDATE'] === '1') await writeFile(pathOf(file), page)
    t.same((await readFile(pathOf(file), 'utf8')).split('\n'), page.split('\n'))
    t.ok(page.split(/\s+/).length < 3000, `${file} is short enough to read`)
  }
})

t.test('every setting says what it does', async (t) => {
  const lines = Object.values(await settingsPages())
    .join('')
    .split('\n')

  t.same(
    lines.filter((line) => line.startsWith('| `') && line.endsWith('|  |')),
    [],
  )
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
