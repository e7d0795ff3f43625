import { access, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type CommandContext, pathIn } from 'rowhouse'
import { indented, type Json } from 'rowhouse/plan'
import { applyMetadata, countObjects } from './apply.js'
import { mapMetadata } from './map-metadata.js'
import { listOf, type Metadata } from './metadata.js'
import { readProject } from './read-project.js'

/**
 * Moves the metadata of a Hasura project to a file, and to the database if told so.
 * @returns the exit code: 1 if something was left
 */
export async function importHasura({ flags, words, cwd, ask, print }: CommandContext): Promise<number> {
  const [place] = words
  if (place === undefined) throw new Error('rowhouse import-hasura requires a folder or a file')
  const { out = 'metadata.json', source, anonymous } = flags as Readonly<Record<string, string | undefined>>
  const isForced = flags['force'] === true
  const [from, to] = [pathIn(cwd, place), pathIn(cwd, out)]
  if (resolve(to) === resolve(from)) throw new Error(`${out} is the file to read; choose another file with --out`)
  if (!isForced && (await exists(to))) throw new Error(`${out} exists; choose another file with --out, or use --force`)
  const { metadata, report } = mapMetadata(await readProject(from), source, anonymous)
  if (flags['apply'] === true) {
    const objects = await countObjects(ask)
    if (objects > 0 && !isForced) {
      throw new Error(`the database has metadata (${objects} tables, functions and templates); --force replaces it`)
    }
    await applyMetadata(ask, metadata, report)
  }
  const text = `${indented(metadata as unknown as Json)}\n`
  await writeFile(to, text, { flag: isForced ? 'w' : 'wx' })
  const counts = countsOf(metadata)
  if (flags['json'] === true) print(JSON.stringify({ file: out, counts, ...report.toJSON() }, null, 2))
  else {
    const moved = Object.entries(counts).map(
      ([name, count]) => `${count} ${(count === 1 ? name.slice(0, -1) : name).replaceAll('_', ' ')}`,
    )
    print(`${flags['apply'] === true ? 'applied, and wrote' : 'wrote'} ${out}: ${moved.join(', ')}`)
    for (const line of report.lines()) print(line)
  }
  return report.isComplete ? 0 : 1
}

const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  )

function countsOf({ tables, functions, query_templates: templates }: Metadata): Readonly<Record<string, number>> {
  const count = (suffix: string) =>
    tables.reduce((sum, table) => {
      const lists = Object.entries(table).filter(([key]) => key.endsWith(suffix))
      return sum + lists.reduce((all, [, list]) => all + listOf(list).length, 0)
    }, 0)
  return {
    tables: tables.length,
    relationships: count('_relationships'),
    computed_fields: count('computed_fields'),
    permissions: count('_permissions'),
    functions: functions.length,
    query_templates: templates.length,
  }
}
