import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface Changed {
  readonly file: string
  remove(): Promise<void>
}

/**
 * A copy of a folder of our own code with a piece of one file left out, or replaced.
 * @param name of that file in `build`
 * @param to as in `replace`; default: the first group stays
 */
export async function changed(name: string, piece: RegExp, to = '$1'): Promise<Changed> {
  const source = await changedSource(name, piece, to)
  // Inside the package, so that it still finds "rowhouse".
  const folder = await mkdtemp(built('test/planted-'))
  await cp(dirname(built(name)), folder, { recursive: true })
  const file = join(folder, basename(name))
  await writeFile(file, source)
  return { file, remove: () => rm(folder, { recursive: true }) }
}

/**
 * The same with a copy of all of our own code, as a package of its own: its files find each other, and a test in it
 * tries what was changed.
 * @param test a file in `build`, e.g. `test/db/canary.test.js`
 * @returns that test in the copy
 */
export async function changedPackage(name: string, piece: RegExp, to: string, test: string): Promise<Changed> {
  const source = await changedSource(name, piece, to)
  const root = await mkdtemp(built('planted-'))
  await cp(fileURLToPath(new URL('../../../package.json', import.meta.url)), join(root, 'package.json'))
  for (const folder of ['core', 'plugins', 'providers'])
    await cp(built(folder), join(root, 'build', folder), { recursive: true })
  await cp(built('package.json'), join(root, 'build/package.json'))
  await cp(built('test'), join(root, 'build/test'), { recursive: true, filter: (path) => !path.includes('planted-') })
  await writeFile(join(root, 'build', name), source)
  return { file: join(root, 'build', test), remove: () => rm(root, { recursive: true }) }
}

const built = (name: string): string => fileURLToPath(new URL(`../../${name}`, import.meta.url))

export async function changedSource(name: string, piece: RegExp, to: string): Promise<string> {
  const source = await readFile(built(name), 'utf8')
  const changedSource = source.replace(piece, to)
  if (changedSource === source) throw new Error(`${name} has changed: ${piece.source} is not in it`)
  return changedSource
}
