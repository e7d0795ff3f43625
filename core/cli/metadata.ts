import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import type { Invocation } from '../cli.js'
import { startServer } from '../host/server.js'
import { builtins, databaseUrl, source } from './setting.js'

type Ask = (type: string, args: string) => Promise<string>

/** Exports, compares and replaces all metadata. */
export async function metadata({ flags, words: [action, file] }: Invocation): Promise<number> {
  if (action !== 'export' && action !== 'apply' && action !== 'diff') throw new Error('say export, apply or diff')
  if (action !== 'export' && file === undefined) throw new Error(`rowhouse metadata ${action} needs a file`)
  await databaseUrl(flags)
  const wanted = action === 'export' ? '' : await readFile(file as string, 'utf8')
  return withServer(flags, async (ask) => {
    const now = await ask('export_metadata', '{}')
    if (action === 'export') {
      const text = `${JSON.stringify(JSON.parse(now), null, 2)}\n`
      if (file === undefined) process.stdout.write(text)
      else await writeFile(file, text)
      return 0
    }
    const changes = compare(objects(JSON.parse(now) as Exported), objects(JSON.parse(wanted) as Exported))
    for (const change of changes) console.log(change)
    if (changes.length === 0) console.log('no difference')
    if (action === 'diff') return changes.length === 0 ? 0 : 1
    if (flags['dry-run'] !== true && changes.length > 0) await ask('replace_metadata', wanted)
    return 0
  })
}

/** For the time of the command a server runs on a free port of this machine, with a secret that nobody else has. */
async function withServer<T>(flags: Invocation['flags'], fn: (ask: Ask) => Promise<T>): Promise<T> {
  const adminSecret = randomBytes(32).toString('base64url')
  const { overrides: _, ...from } = source(flags)
  const server = await startServer({
    ...from,
    address: { host: '127.0.0.1', port: 0 },
    overrides: {
      auth: { adminSecret, mode: 'direct' },
      log: { level: 'error' },
      compile: { threads: 0 },
    },
    builtins: builtins(),
  })
  try {
    return await fn(async (type, args) => {
      const response = await fetch(`${server.url}/v1/query`, {
        method: 'POST',
        headers: { 'X-Service-Admin-Secret': adminSecret },
        body: `{"type":"${type}","args":${args}}`,
      })
      const text = await response.text()
      if (response.ok) return text
      const { error, path } = JSON.parse(text) as { error: string; path: string }
      throw new Error(`${error} (${path.replace('$.args', '$')})`)
    })
  } finally {
    await server.close()
  }
}

type Entry = Readonly<Record<string, unknown>>
interface Exported {
  readonly tables?: readonly (Entry & { readonly table: string | { readonly schema: string; readonly name: string } })[]
  readonly query_templates?: readonly Entry[]
}

/** What was said, by the name of the object that it was said of. */
function objects({ tables = [], query_templates: templates = [] }: Exported): Map<string, string> {
  const all = new Map<string, string>()
  for (const { table, ...lists } of tables) {
    const name = typeof table === 'string' ? table : `${table.schema}.${table.name}`
    all.set(`table ${name}`, '')
    for (const [list, entries] of Object.entries(lists) as [string, readonly Entry[]][]) {
      const type = list.slice(0, list.indexOf('_'))
      for (const entry of entries ?? []) {
        const object =
          'role' in entry
            ? `permission ${name}.${String(entry['role'])}.${type}`
            : `relationship ${name}.${String(entry['name'])}`
        all.set(object, canonical(entry))
      }
    }
  }
  for (const entry of templates) all.set(`query-template ${String(entry['name'])}`, canonical(entry))
  return all
}

/** Keys sorted, because their order means nothing; an absent comment is a null one. */
function canonical(entry: Entry): string {
  const sorted = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(sorted)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, inner]) => [key, sorted(inner)]),
    )
  }
  return JSON.stringify(sorted({ comment: null, ...entry }))
}

function compare(now: ReadonlyMap<string, string>, wanted: ReadonlyMap<string, string>): readonly string[] {
  return [
    ...[...wanted.keys()].filter((name) => !now.has(name)).map((name) => `+ ${name}`),
    ...[...now.keys()].filter((name) => !wanted.has(name)).map((name) => `- ${name}`),
    ...[...wanted].filter(([name, text]) => now.has(name) && now.get(name) !== text).map(([name]) => `~ ${name}`),
  ]
}
