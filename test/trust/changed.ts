import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * A copy of a folder of our own code with a piece of one file left out, or replaced.
 * @param name of that file in `build`
 * @param to as in `replace`; default: the first group stays
 */
export async function changed(
  name: string,
  piece: RegExp,
  to = '$1',
): Promise<{ readonly file: string; remove(): Promise<void> }> {
  const original = fileURLToPath(new URL(`../../${name}`, import.meta.url))
  const source = await readFile(original, 'utf8')
  const changedSource = source.replace(piece, to)
  if (changedSource === source) throw new Error(`${name} has changed: ${piece.source} is not in it`)
  // Inside the package, so that it still finds "rowhouse".
  const folder = await mkdtemp(fileURLToPath(new URL('../planted-', import.meta.url)))
  await cp(dirname(original), folder, { recursive: true })
  const file = join(folder, name.slice(name.lastIndexOf('/') + 1))
  await writeFile(file, changedSource)
  return { file, remove: () => rm(folder, { recursive: true }) }
}
