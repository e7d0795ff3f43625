import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type Json, type JsonObject, NO_LIMITS, parseJson, stringifyJson } from '../json/parse.js'
import { isObject } from '../plan/encode.js'
import { type Invocation, pathIn } from './invocation.js'
import { type Ask, Refusal, withOwnServer, withServer } from './temporary-server.js'

/** Exports, compares or replaces all metadata. */
export async function metadata(invocation: Invocation): Promise<number> {
  const { flags, words, cwd, print } = invocation
  const [action, file] = words
  if (action !== 'export' && action !== 'apply' && action !== 'diff') throw new Error('expected export, apply or diff')
  if (action !== 'export' && file === undefined) throw new Error(`rowhouse metadata ${action} requires a file`)
  if (action !== 'diff' && flags['json'] === true) throw new Error('--json is for diff')
  const path = pathIn(cwd, file ?? '')
  const wanted = action === 'export' ? '' : await readFile(path, 'utf8')
  return withOwnServer(invocation, async (ask) => {
    if (action === 'export') {
      const text = indented(parseJson(await ask('export_metadata', '{}'), NO_LIMITS))
      if (file === undefined) print(text)
      else {
        await mkdir(dirname(path), { recursive: true })
        await writeFile(path, `${text}\n`)
        print(`wrote ${file}`)
      }
      return 0
    }
    if (action === 'apply') {
      await replaceWith(invocation, ask, wanted, flags['dry-run'] === true)
      return 0
    }
    const diff = await compareWith(ask, wanted)
    if (flags['json'] === true) print(indented(diff))
    else printDiff(diff, invocation)
    return changesOf(diff).length > 0 ? 1 : 0
  })
}

/** Replaces all metadata of a database with that of a text. */
export async function applyMetadata(url: string, invocation: Invocation, wanted: string): Promise<void> {
  await withServer(url, invocation, async (ask) => replaceWith(invocation, ask, wanted, false))
}

/** Prints the changes, and makes them. @param isDry runs them and rolls back, so that what would be refused is */
async function replaceWith(invocation: Invocation, ask: Ask, wanted: string, isDry: boolean): Promise<void> {
  const diff = await compareWith(ask, wanted)
  printChanges(diff, invocation)
  if (changesOf(diff).length === 0) return
  await ask('replace_metadata', wanted, { isDry })
  invocation.print(isDry ? 'dry run: nothing was changed' : 'applied')
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

function printChanges(diff: JsonObject, { print }: Invocation): void {
  const changes = changesOf(diff)
  for (const { change, object, effects } of changes) {
    print(`${MARKS[change]} ${object}`)
    for (const { effect, text } of effects) print(`    ${effect}: ${text}`)
  }
  if (changes.length === 0) print('no differences')
}

/** Prints the changes, and why the server would refuse them. */
function printDiff(diff: JsonObject, invocation: Invocation): void {
  printChanges(diff, invocation)
  const refused = diff['refused'] as { readonly error: string; readonly path: string } | null
  if (refused) invocation.print(`apply would fail: ${new Refusal(refused.error, refused.path).message}`)
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
