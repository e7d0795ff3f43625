import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type standaloneCode from 'ajv/dist/standalone/index.js'
import { transform } from 'esbuild'
import { BUILT, holderOf, keyOf } from '../host/validate.js'
import { sections } from '../host/sections.js'
import { newAjv } from '../json/ajv.js'
import type { Schema } from '../json/schema.js'
import type { Plugin } from '../host/plugin.js'
import { builtins } from './builtins.js'
import { LIST, type ListedCommand } from './listed-commands.js'

/**
 * Writes validators of the schemas of the core, and of the built-in plugins and providers, as a module. They only accept or
 * reject, so that they are small. Also lists the commands of those plugins. `npm run build` runs this.
 */
const { plugins, optional, providers } = builtins({ sample: true })
const modules = [plugins, optional ?? {}, ...Object.values(providers)].flatMap((each) => Object.values(each))
const imported = await Promise.all(modules.map(({ href }) => import(href) as Promise<{ default: { config?: Schema } }>))
/** That of plugins and providers without settings. */
const none: Schema = { type: 'object', properties: {} }
const schemas: readonly Schema[] = [
  // `providers.<kind>.default`
  { type: 'string' },
  ...Object.values(sections),
  ...imported.map((each) => each.default.config ?? none),
]

const ajv = newAjv({ useDefaults: true, strict: true, logger: false, messages: false, code: { source: true } })
const names = new Map<string, string>()
for (const schema of schemas) {
  const name = keyOf(schema)
  if (!names.has(name)) ajv.addSchema(withoutWords(holderOf(schema)), name)
  names.set(name, name)
}
const standalone = createRequire(import.meta.url)('ajv/dist/standalone') as { default: typeof standaloneCode.default }
// The only module that the code asks for. With it, a start would load Ajv's.
const LENGTH = 'require("ajv/dist/runtime/ucs2length").default'
const code = standalone.default(ajv, Object.fromEntries(names)).replaceAll(LENGTH, '((text) => [...text].length)')
if (code.includes('require(')) throw new Error('the validators ask for a module of Ajv')
// Only Ajv itself says what is wrong.
const ERROR = /\{\s*instancePath:(?:"(?:[^"\\]|\\.)*"|\{(?:"(?:[^"\\]|\\.)*"|[^"{}])*\}|[^"{}])*\}/g
writeFileSync(BUILT, (await transform(code.replaceAll(ERROR, '{}'), { minify: true })).code)

const commands = Object.entries({ ...plugins, ...optional }).map(
  async ([plugin, { href }]): Promise<ListedCommand[]> => {
    const { default: loaded } = (await import(href)) as { readonly default: Plugin }
    return (loaded.commands ?? []).map(({ name, summary, standalone = false }) => ({
      plugin,
      name,
      summary,
      standalone,
      default: standalone || Object.hasOwn(plugins, plugin),
    }))
  },
)
writeFileSync(LIST, JSON.stringify((await Promise.all(commands)).flat()))

/** Leaves out the descriptions of settings. */
function withoutWords(schema: object): object {
  const text = JSON.stringify(schema, (key, value: unknown) =>
    key === 'description' && typeof value === 'string' ? undefined : value,
  )
  return JSON.parse(text) as object
}
