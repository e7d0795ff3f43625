import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Imports what `use` names, a package or a path, as seen from the configuration file.
 * @returns its default export, and the URL of the module
 * @throws Error that says what could not be found, or what failed while it was loaded
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
 * A package whose `exports` have no `require` or `default` condition is invisible to `require.resolve`; it is then
 * looked for beside this program.
 */
function locate(use: string, file: string): string {
  try {
    return pathToFileURL(createRequire(file).resolve(use)).href
  } catch (error) {
    if (/^[./]/.test(use)) throw new Error(`there is no file "${use}" as seen from ${file}`, { cause: error })
    return use
  }
}
