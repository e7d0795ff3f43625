import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Imports the package or path in `use`, relative to the configuration file.
 * @returns its default export, and the URL of the module
 * @throws Error that names what could not be found, or why it failed to load
 */
export async function importUse(
  use: string | URL,
  from: { readonly file?: string | undefined; directory: string },
): Promise<{ readonly value: unknown; readonly module: string }> {
  const specifier = use instanceof URL ? use.href : locate(use, from.file ?? join(from.directory, 'rowhouse.config.js'))
  let module: { readonly default?: unknown }
  try {
    module = (await import(specifier)) as { readonly default?: unknown }
  } catch (error) {
    throw new Error(`"${String(use)}" cannot be loaded: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    })
  }
  if (module.default === undefined) throw new Error(`"${String(use)}" has no default export`)
  return { value: module.default, module: specifier }
}

/**
 * Resolves a package or path. `require.resolve` cannot find a package whose `exports` lack the conditions `require` and
 * `default`; such a package is resolved from Rowhouse instead.
 */
function locate(use: string, file: string): string {
  try {
    return pathToFileURL(createRequire(file).resolve(use)).href
  } catch (error) {
    if (/^[./]/.test(use)) throw new Error(`file "${use}" does not exist (relative to ${file})`, { cause: error })
    return use
  }
}
