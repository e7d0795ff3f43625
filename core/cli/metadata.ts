import { readFile, writeFile } from 'node:fs/promises'
import type { Invocation } from '../cli.js'
import { type Json, NO_LIMITS, NumberText, parseJson, stringifyJson } from '../json/parse.js'
import { isObject } from '../plan/encode.js'
import { withDatabase } from './builtins.js'
import { type Ask, withServer } from './temporary-server.js'

/** Exports, compares or replaces all metadata. */
export async function metadata({ flags, words: [action, file] }: Invocation): Promise<number> {
  if (action !== 'export' && action !== 'apply' && action !== 'diff') throw new Error('expected export, apply or diff')
  if (action !== 'export' && file === undefined) throw new Error(`rowhouse metadata ${action} requires a file`)
  const wanted = action === 'export' ? '' : await readFile(file as string, 'utf8')
  return withDatabase(flags, (url) =>
    withServer(url, flags, async (ask) => {
      const now = await ask('export_metadata', '{}')
      if (action === 'export') {
        const text = `${indented(parseJson(now, NO_LIMITS))}\n`
        if (file === undefined) process.stdout.write(text)
        else await writeFile(file, text)
        return 0
      }
      const changes = await replaceWith(ask, now, wanted, action === 'apply' && flags['dry-run'] !== true)
      return action === 'diff' && changes > 0 ? 1 : 0
    }),
  )
}

/** Replaces all metadata of a database with that of a text. */
export async function applyMetadata(url: string, flags: Invocation['flags'], wanted: string): Promise<void> {
  await withServer(url, flags, async (ask) => replaceWith(ask, await ask('export_metadata', '{}'), wanted, true))
}

/** Prints the changes, and makes them if told so. @returns their number */
async function replaceWith(ask: Ask, now: string, wanted: string, isApplied: boolean): Promise<number> {
  const changes = compare(objects(read(now)), objects(read(wanted)))
  for (const change of changes) console.log(change)
  if (changes.length === 0) console.log('no differences')
  if (isApplied && changes.length > 0) await ask('replace_metadata', wanted)
  return changes.length
}

/** Parses JSON and keeps all digits of numbers. */
const read = (text: string): Exported => parseJson(text, NO_LIMITS) as unknown as Exported

/** Returns JSON with one key or element a line. */
export function indented(value: Json, by = ''): string {
  const inner = `${by}  `
  if (Array.isArray(value) && value.length > 0) {
    return `[\n${value.map((each) => inner + indented(each, inner)).join(',\n')}\n${by}]`
  }
  if (!isObject(value) || Object.keys(value).length === 0) return stringifyJson(value)
  const entries = Object.entries(value).map(([key, each]) => `${inner}${JSON.stringify(key)}: ${indented(each, inner)}`)
  return `{\n${entries.join(',\n')}\n${by}}`
}

type Entry = Readonly<Record<string, unknown>>
interface Exported {
  readonly tables?: readonly (Entry & { readonly table: Name })[]
  readonly query_templates?: readonly Entry[]
  readonly functions?: readonly (Entry & { readonly function: Name })[]
}
type Name = string | { readonly schema: string; readonly name: string }
const nameOf = (name: Name): string => (typeof name === 'string' ? name : `${name.schema}.${name.name}`)

/** Returns the entries of an export, in canonical form, by the name of the object that they configure. */
function objects({ tables = [], query_templates: templates = [], functions = [] }: Exported): Map<string, string> {
  const all = new Map<string, string>()
  for (const { table, configuration, is_enum: isEnum, ...lists } of tables) {
    const name = nameOf(table)
    all.set(`table ${name}`, '')
    if (isEnum === true) all.set(`enum ${name}`, '')
    if (isObject(configuration as Json)) all.set(`customization ${name}`, canonical(configuration as Entry))
    for (const [list, entries] of Object.entries(lists) as [string, readonly Entry[]][]) {
      const type = list.slice(0, list.indexOf('_'))
      for (const entry of entries ?? []) {
        const object =
          'role' in entry
            ? `permission ${name}.${String(entry['role'])}.${type}`
            : `${type === 'computed' ? 'computed-field' : 'relationship'} ${name}.${String(entry['name'])}`
        all.set(object, canonical(entry))
      }
    }
  }
  for (const entry of functions) all.set(`function ${nameOf(entry.function)}`, canonical(entry))
  for (const entry of templates) all.set(`query-template ${String(entry['name'])}`, canonical(entry))
  return all
}

/** Returns JSON with sorted keys, because their order has no meaning, and without null comments. */
function canonical(entry: Entry): string {
  const sorted = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(sorted)
    if (typeof value !== 'object' || value === null || value instanceof NumberText) return value
    return Object.fromEntries(
      Object.entries(value)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, inner]) => [key, sorted(inner)]),
    )
  }
  return stringifyJson(sorted({ comment: null, ...entry }) as Json)
}

function compare(now: ReadonlyMap<string, string>, wanted: ReadonlyMap<string, string>): readonly string[] {
  return [
    ...[...wanted.keys()].filter((name) => !now.has(name)).map((name) => `+ ${name}`),
    ...[...now.keys()].filter((name) => !wanted.has(name)).map((name) => `- ${name}`),
    ...[...wanted].filter(([name, text]) => now.has(name) && now.get(name) !== text).map(([name]) => `~ ${name}`),
  ]
}
