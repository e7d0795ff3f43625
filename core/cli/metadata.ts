import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Invocation } from '../cli.js'
import { type Json, type JsonObject, NO_LIMITS, parseJson, stringifyJson } from '../json/parse.js'
import { isObject } from '../plan/encode.js'
import { withDatabase } from './builtins.js'
import { type Ask, Refusal, withServer } from './temporary-server.js'

/** Exports, compares or replaces all metadata. */
export async function metadata({ flags, words: [action, file] }: Invocation): Promise<number> {
  if (action !== 'export' && action !== 'apply' && action !== 'diff') throw new Error('expected export, apply or diff')
  if (action !== 'export' && file === undefined) throw new Error(`rowhouse metadata ${action} requires a file`)
  if (action !== 'diff' && flags['json'] === true) throw new Error('--json is for diff')
  const wanted = action === 'export' ? '' : await readFile(file as string, 'utf8')
  return withDatabase(flags, (url) =>
    withServer(url, flags, async (ask) => {
      if (action === 'export') {
        const text = `${indented(parseJson(await ask('export_metadata', '{}'), NO_LIMITS))}\n`
        if (file === undefined) process.stdout.write(text)
        else {
          await mkdir(dirname(file), { recursive: true })
          await writeFile(file, text)
          console.log(`wrote ${file}`)
        }
        return 0
      }
      if (action === 'apply') {
        await replaceWith(ask, wanted, flags['dry-run'] === true)
        return 0
      }
      const diff = await compareWith(ask, wanted)
      if (flags['json'] === true) console.log(indented(diff))
      else printDiff(diff)
      return changesOf(diff).length > 0 ? 1 : 0
    }),
  )
}

/** Replaces all metadata of a database with that of a text. */
export async function applyMetadata(url: string, flags: Invocation['flags'], wanted: string): Promise<void> {
  await withServer(url, flags, async (ask) => replaceWith(ask, wanted, false))
}

/** Prints the changes, and makes them. @param isDry runs them and rolls back, so that what would be refused is */
async function replaceWith(ask: Ask, wanted: string, isDry: boolean): Promise<void> {
  const diff = await compareWith(ask, wanted)
  printChanges(diff)
  if (changesOf(diff).length === 0) return
  await ask('replace_metadata', wanted, { isDry })
  console.log(isDry ? 'dry run: nothing was changed' : 'applied')
}

const compareWith = async (ask: Ask, wanted: string): Promise<JsonObject> =>
  parseJson(await ask('diff_metadata', wanted), NO_LIMITS) as JsonObject

const changesOf = (diff: JsonObject) => diff['changes'] as unknown as readonly Change[]
interface Change {
  readonly change: keyof typeof MARKS
  readonly object: string
  readonly effects: readonly { readonly effect: string; readonly text: string }[]
}
const MARKS = { added: '+', removed: '-', changed: '~' } as const

function printChanges(diff: JsonObject): void {
  const changes = changesOf(diff)
  for (const { change, object, effects } of changes) {
    console.log(`${MARKS[change]} ${object}`)
    for (const { effect, text } of effects) console.log(`    ${effect}: ${text}`)
  }
  if (changes.length === 0) console.log('no differences')
}

/** Prints the changes, and why the server would refuse them. */
function printDiff(diff: JsonObject): void {
  printChanges(diff)
  const refused = diff['refused'] as { readonly error: string; readonly path: string } | null
  if (refused) console.log(`apply would fail: ${new Refusal(refused.error, refused.path).message}`)
}

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
