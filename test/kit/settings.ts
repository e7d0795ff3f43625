import { builtins } from '../../core/cli/builtins.js'
import { sections } from '../../core/host/sections.js'

interface Setting {
  readonly path: string
  readonly type: string
  readonly standard: string
  readonly description: string
  readonly advanced: boolean
}

/** The pages of all settings by their file, as Markdown, from the schemas of the core, the plugins and the providers. */
export async function settingsPages(): Promise<Readonly<Record<string, string>>> {
  const { plugins, optional, providers } = builtins()
  const ofCore = Object.entries(sections as Readonly<Record<string, Node>>).flatMap(([name, schema]) =>
    settingsOf(schema, name),
  )
  const ofPlugins = await Promise.all(
    Object.entries({ ...plugins, ...optional }).map(
      async ([name, url]) => [name, await settingsIn(url, `plugins.${name}`)] as const,
    ),
  )
  const ofProviders = await Promise.all(
    Object.entries(providers).flatMap(([kind, named]) =>
      Object.entries(named).map(
        async ([name, url]) => [`${kind}: ${name}`, await settingsIn(url, `providers.${kind}.${name}`)] as const,
      ),
    ),
  )
  const page = (head: string, advanced: boolean) => {
    const some = (settings: readonly Setting[]) => settings.filter((each) => each.advanced === advanced)
    const chosen = ofPlugins.map(([name, settings]) => [name, some(settings)] as const)
    return [head, '## Core', table(some(ofCore)), '## Plugins', ...(advanced ? [] : [OFF]), ...chosen.flatMap(section)]
  }
  const pages = {
    'core/SETTINGS.md': page(HEAD, false),
    'core/SETTINGS-ADVANCED.md': page(ADVANCED, true),
    'providers/SETTINGS.md': [PROVIDERS, ...ofProviders.flatMap(section)],
  }
  return Object.fromEntries(Object.entries(pages).map(([file, parts]) => [file, `${parts.join('\n\n')}\n`]))
}

async function settingsIn(url: URL, path: string): Promise<readonly Setting[]> {
  const { default: owner } = (await import(url.href)) as { readonly default: { readonly config?: Node } }
  return owner.config ? settingsOf(owner.config, path) : []
}

const section = ([title, settings]: readonly [string, readonly Setting[]]): readonly string[] =>
  settings.length > 0 ? [`### ${title}`, table(settings)] : []

const UNITS = 'Settings whose names end in `Ms` are in milliseconds, and in `Bytes` in bytes.'

const GENERATED = 'This page is generated.'

const HEAD = `# Settings

The settings that servers have reasons to change. [SETTINGS-ADVANCED.md](SETTINGS-ADVANCED.md) has all others, and
[providers/SETTINGS.md](../providers/SETTINGS.md) those of providers. The [configuration](host/README.md#configuration) is \`rowhouse.config.js\`:

\`\`\`js
export default {
  http: { cors: { origins: ['https://app.example.com'] } },
  plugins: { filestore: { maxBytes: 1_000_000_000 } },
}
\`\`\`

Every setting can also come from the environment: \`ROWHOUSE_HTTP__MAX_JSON_BYTES\` is \`http.maxJsonBytes\`. A secret can be \`{"$env": "NAME"}\` or
\`{"$file": "PATH"}\`.

${UNITS} ${GENERATED}`

const ADVANCED = `# Advanced settings

Limits, times and sizes whose defaults fit most servers. [SETTINGS.md](SETTINGS.md) has the others. ${UNITS}
${GENERATED}`

const PROVIDERS = `# Settings of providers

All settings of the built-in providers, each below \`providers.<kind>.<name>\`. The pages of [email](email/README.md),
[sms](sms/README.md) and [storage](storage/README.md) providers have examples. ${UNITS} ${GENERATED}`

const OFF = 'Each under `plugins.<name>`. `false` in place of a section switches the plugin off.'

/** A schema, read without knowing which of its kinds it is. */
interface Node {
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly items?: Node
  readonly properties?: Readonly<Record<string, Node>>
  readonly anyOf?: readonly Node[]
  readonly default?: unknown
  readonly description?: string
  readonly advanced?: boolean
}

function settingsOf(schema: Node, path: string, isInside = false): readonly Setting[] {
  const { description = '', advanced = isInside } = schema
  const standard = schema.default === undefined ? '' : JSON.stringify(schema.default)
  if (schema.type === 'object' && schema.properties) {
    const inner = Object.entries(schema.properties).flatMap(([name, each]) =>
      settingsOf(each, `${path}.${name}`, advanced),
    )
    return description === '' ? inner : [{ path, type: '', standard: '', description, advanced }, ...inner]
  }
  if (schema.type === 'array' && schema.items?.type === 'object') {
    return [{ path, type: 'list', standard, description, advanced }, ...settingsOf(schema.items, `${path}[]`, advanced)]
  }
  return [{ path, type: typeOf(schema), standard, description, advanced }]
}

function typeOf({ type, items, anyOf, enum: values }: Node): string {
  if (items) return `list of ${typeOf(items)}`
  if (anyOf) return anyOf.map(typeOf).join(' or ')
  return values ? values.map((value) => JSON.stringify(value)).join(', ') : (type ?? 'any')
}

/** Returns the default, and the type where the default does not show it. */
function valueOf({ type, standard }: Setting): string {
  if (standard === '' || standard === '[]') return type
  const others = type.startsWith('"') ? type.split(', ').filter((value) => value !== standard) : []
  return [standard, ...others].map((value, i) => (i === 0 ? `\`${value}\`` : value)).join(', ')
}

function table(settings: readonly Setting[]): string {
  const rows = settings.map((each) => [`\`${each.path}\``, valueOf(each), each.description].map(escape).join(' | '))
  return ['| setting | default, or type | |', '|---|---|---|', ...rows.map((row) => `| ${row} |`)].join('\n')
}

const escape = (cell: string): string => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')
