import { builtins } from '../../core/cli/builtins.js'
import { sections } from '../../core/host/server.js'

interface Setting {
  readonly path: string
  readonly type: string
  readonly standard: string
  readonly description: string
}

/** The reference of all settings as Markdown, from the schemas of the core, the plugins and the providers. */
export async function settingsPage(): Promise<string> {
  const core = Object.entries(sections as Readonly<Record<string, Node>>)
  const parts = [HEAD, '## Core', table(core.flatMap(([name, schema]) => settingsOf(schema, name)))]
  const { plugins, optional, providers } = builtins()
  parts.push('## Plugins', 'Each under `plugins.<name>`. `false` in place of a section switches the plugin off.')
  for (const [name, url] of Object.entries({ ...plugins, ...optional })) {
    const { default: plugin } = (await import(url.href)) as { default: { config?: Node } }
    const settings = plugin.config ? settingsOf(plugin.config, `plugins.${name}`) : []
    if (settings.length > 0) parts.push(`### ${name}`, table(settings))
  }
  parts.push('## Providers', 'Each under `providers.<kind>.<name>`.')
  for (const [kind, named] of Object.entries(providers)) {
    for (const [name, url] of Object.entries(named)) {
      const { default: provider } = (await import(url.href)) as { default: { config?: Node } }
      const settings = provider.config ? settingsOf(provider.config, `providers.${kind}.${name}`) : []
      if (settings.length > 0) parts.push(`### ${kind}: ${name}`, table(settings))
    }
  }
  return `${parts.join('\n\n')}\n`
}

const HEAD = `# Settings

Every setting of the core, of the built-in plugins and of the built-in providers, with its default. The configuration is
\`rowhouse.config.js\`, \`.mjs\`, \`.cjs\`, \`.ts\`, \`.mts\` or \`.json\` in the folder where the server starts, or the file that \`ROWHOUSE_CONFIG\` names:

\`\`\`js
export default {
  http: { cors: { origins: ['https://app.example.com'] } },
  plugins: { filestore: { maxBytes: 1_000_000_000 } },
}
\`\`\`

- Every setting can also come from the environment: \`ROWHOUSE_HTTP__MAX_JSON_BYTES\` is \`http.maxJsonBytes\`.
- A secret is \`{"$env": "NAME"}\` or \`{"$file": "PATH"}\`.
- The server reads the configuration when it starts, and reports all errors in it together.
- \`DATABASE_URL\`, \`ROWHOUSE_HOST\`, \`ROWHOUSE_PORT\`, \`ROWHOUSE_ADMIN_SECRET\` and \`ROWHOUSE_DATA_DIR\` are short names of the obvious settings.

This page is generated from the schemas; a test compares it with them.`

/** A schema, read without knowing which of its kinds it is. */
interface Node {
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly items?: Node
  readonly properties?: Readonly<Record<string, Node>>
  readonly anyOf?: readonly Node[]
  readonly default?: unknown
  readonly description?: string
}

function settingsOf(schema: Node, path: string): readonly Setting[] {
  const { description = '' } = schema
  const standard = schema.default === undefined ? '' : JSON.stringify(schema.default)
  if (schema.type === 'object' && schema.properties) {
    const inner = Object.entries(schema.properties).flatMap(([name, each]) => settingsOf(each, `${path}.${name}`))
    return description === '' ? inner : [{ path, type: '', standard: '', description }, ...inner]
  }
  if (schema.type === 'array' && schema.items?.type === 'object') {
    return [{ path, type: 'list', standard, description }, ...settingsOf(schema.items, `${path}[]`)]
  }
  return [{ path, type: typeOf(schema), standard, description }]
}

function typeOf({ type, items, anyOf, enum: values }: Node): string {
  if (items) return `list of ${typeOf(items)}`
  if (anyOf) return anyOf.map(typeOf).join(' or ')
  return values ? values.map((value) => JSON.stringify(value)).join(', ') : (type ?? 'any')
}

function table(settings: readonly Setting[]): string {
  const rows = settings.map(({ path, type, standard, description }) =>
    [`\`${path}\``, type, standard === '' ? '' : `\`${standard}\``, description].map(escape).join(' | '),
  )
  return ['| setting | type | default | |', '|---|---|---|---|', ...rows.map((row) => `| ${row} |`)].join('\n')
}

const escape = (cell: string): string => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')
