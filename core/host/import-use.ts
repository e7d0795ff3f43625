import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isObject } from '../json/value.js'
import { placeOf } from './blame.js'
import { importDefault } from './import-module.js'

/**
 * Imports the package or path in `use`, relative to the configuration file.
 * @returns its default export, and the URL of the module
 * @throws Error that names what could not be found, or why it failed to load. Its `place` is the file and line, if known
 */
export async function importUse(
  use: string | URL,
  from: { readonly file?: string | undefined; directory: string },
): Promise<{ readonly value: unknown; readonly module: string }> {
  const specifier = use instanceof URL ? use.href : locate(use, from.file ?? join(from.directory, 'rowhouse.config.js'))
  let value: unknown
  try {
    value = await importDefault(specifier)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const failure = new Error(`"${String(use)}" cannot be loaded: ${reason}`, { cause: error })
    throw Object.assign(failure, { place: placeOf(error) ?? placeOfSyntax(error, specifier) })
  }
  if (value === undefined) throw new Error(`"${String(use)}" has no default export`)
  return { value, module: specifier }
}

/** Returns the place of a syntax error in a file, which the error itself does not have. */
function placeOfSyntax(error: unknown, module: string): string | undefined {
  if (!(error instanceof SyntaxError) || !module.startsWith('file:')) return undefined
  const file = fileURLToPath(module)
  const { stderr } = spawnSync(process.execPath, ['--check', file], { encoding: 'utf8', timeout: CHECK_MS })
  const [, line] = /^.*:(\d+)$/m.exec(stderr) ?? []
  return line === undefined ? undefined : `${file}:${line}`
}
const CHECK_MS = 10_000

/** Resolves a package or path, as `import` in the configuration file would. */
function locate(use: string, file: string): string {
  const { resolve } = createRequire(file)
  try {
    return pathToFileURL(resolve(use)).href
  } catch (error) {
    if (/^[./]/.test(use)) throw new Error(`file "${use}" does not exist (relative to ${file})`, { cause: error })
    return locateModule(use, resolve.paths(use) ?? []) ?? use
  }
}

/**
 * Resolves a package whose `exports` lack the conditions `require` and `default`, which `require.resolve` cannot find.
 * @param folders folders called `node_modules`, the nearest first
 */
function locateModule(use: string, folders: readonly string[]): string | undefined {
  const [, name = use, rest = ''] = /^((?:@[^/]+\/)?[^/]+)(.*)$/.exec(use) ?? []
  const folder = folders.map((each) => join(each, name)).find((each) => existsSync(join(each, 'package.json')))
  if (folder === undefined) return undefined
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { readonly exports?: unknown }
  const entries =
    isObject(exports) && Object.keys(exports).some((key) => key.startsWith('.')) ? exports : { '.': exports }
  const target = importTarget(entries[`.${rest}`])
  const path = target === undefined ? undefined : join(folder, target)
  return path !== undefined && existsSync(path) ? pathToFileURL(realpathSync(path)).href : undefined
}

/** Returns the file of an entry in `exports`: a path, or conditions of which the first that applies counts. */
function importTarget(entry: unknown): string | undefined {
  if (typeof entry === 'string') return entry
  if (!isObject(entry)) return undefined
  for (const [condition, target] of Object.entries(entry)) {
    const found = CONDITIONS.includes(condition) ? importTarget(target) : undefined
    if (found !== undefined) return found
  }
  return undefined
}
const CONDITIONS = ['node', 'import', 'module-sync', 'default']
