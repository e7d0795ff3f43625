import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Invocation } from '../cli.js'
import { type Json, NO_LIMITS, parseJson, stringifyJson } from '../json/parse.js'
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
      if (action === 'export') {
        const text = `${indented(parseJson(await ask('export_metadata', '{}'), NO_LIMITS))}\n`
        if (file === undefined) process.stdout.write(text)
        else {
          await mkdir(dirname(file), { recursive: true })
          await writeFile(file, text)
        }
        return 0
      }
      const changes = await replaceWith(ask, wanted, action === 'apply' && flags['dry-run'] !== true)
      return action === 'diff' && changes > 0 ? 1 : 0
    }),
  )
}

/** Replaces all metadata of a database with that of a text. */
export async function applyMetadata(url: string, flags: Invocation['flags'], wanted: string): Promise<void> {
  await withServer(url, flags, async (ask) => replaceWith(ask, wanted, true))
}

/** Prints the changes, and makes them if told so. @returns their number */
async function replaceWith(ask: Ask, wanted: string, isApplied: boolean): Promise<number> {
  const { changes } = JSON.parse(await ask('diff_metadata', wanted)) as Diff
  for (const { change, object } of changes) console.log(`${MARKS[change]} ${object}`)
  if (changes.length === 0) console.log('no differences')
  if (isApplied && changes.length > 0) await ask('replace_metadata', wanted)
  return changes.length
}

interface Diff {
  readonly changes: readonly { readonly change: keyof typeof MARKS; readonly object: string }[]
}
const MARKS = { added: '+', removed: '-', changed: '~' } as const

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
