import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type CommandContext, OperationRefused, pathIn } from 'rowhouse'
import { indented, type JsonObject, NO_LIMITS, parseJson } from 'rowhouse/plan'

/** Exports, compares or replaces all metadata. */
export async function metadata(context: CommandContext): Promise<number> {
  const { flags, words, cwd, ask, print } = context
  const [action, file] = words
  if (action !== 'export' && action !== 'apply' && action !== 'diff') throw new Error('expected export, apply or diff')
  if (action !== 'export' && file === undefined) throw new Error(`rowhouse metadata ${action} requires a file`)
  if (action !== 'diff' && flags['json'] === true) throw new Error('--json is for diff')
  const path = pathIn(cwd, file ?? '')
  const wanted = action === 'export' ? '' : await readFile(path, 'utf8')
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
    await replaceWith(context, wanted, flags['dry-run'] === true)
    return 0
  }
  const diff = await compareWith(ask, wanted)
  if (flags['json'] === true) print(indented(diff))
  else printDiff(diff, print)
  return changesOf(diff).length > 0 ? 1 : 0
}

/** Prints the changes, and makes them. @param isDry runs them and rolls back, so that what would be refused is */
async function replaceWith({ ask, print }: CommandContext, wanted: string, isDry: boolean): Promise<void> {
  const diff = await compareWith(ask, wanted)
  printChanges(diff, print)
  if (changesOf(diff).length === 0) return
  await ask('replace_metadata', wanted, { isDry })
  print(isDry ? 'dry run: nothing was changed' : 'applied')
}

const compareWith = async (ask: CommandContext['ask'], wanted: string): Promise<JsonObject> =>
  parseJson(await ask('diff_metadata', wanted), NO_LIMITS) as JsonObject

const changesOf = (diff: JsonObject) => diff['changes'] as unknown as readonly Change[]
interface Change {
  readonly change: keyof typeof MARKS
  readonly object: string
  readonly effects: readonly { readonly effect: string; readonly text: string }[]
}
const MARKS = { added: '+', removed: '-', changed: '~' } as const

type Print = CommandContext['print']

function printChanges(diff: JsonObject, print: Print): void {
  const changes = changesOf(diff)
  for (const { change, object, effects } of changes) {
    print(`${MARKS[change]} ${object}`)
    for (const { effect, text } of effects) print(`    ${effect}: ${text}`)
  }
  if (changes.length === 0) print('no differences')
}

/** Prints the changes, and why the server would refuse them. */
function printDiff(diff: JsonObject, print: Print): void {
  printChanges(diff, print)
  const refused = diff['refused'] as { readonly error: string; readonly path: string } | null
  if (refused) print(`apply would fail: ${new OperationRefused(refused.error, refused.path).message}`)
}
