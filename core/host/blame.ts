import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A plugin and the module it was imported from. */
export interface Origin {
  readonly name: string
  /** URL of its module; undefined for a plugin that the configuration passes as an object. */
  readonly module: string | undefined
}

/** Folder of Rowhouse's own files. They appear in most stacks and never point to a plugin. */
const OWN = fileURLToPath(new URL('../', import.meta.url))

/**
 * Finds the plugin that caused an error: by the innermost stack frame in the module of a plugin, or in a folder that
 * contains only one plugin.
 * @returns its name; undefined when the stack does not show it
 */
export function pluginToBlame(error: unknown, origins: readonly Origin[]): string | undefined {
  if (!(error instanceof Error)) return undefined
  const places = origins.flatMap(({ name, module }) => {
    if (!module?.startsWith('file:')) return []
    const file = fileURLToPath(module)
    return [{ name, file, folder: `${dirname(file)}/` }]
  })
  for (const file of filesOf(error.stack)) {
    const exact = places.find((place) => place.file === file)
    if (exact) return exact.name
    if (file.startsWith(OWN)) continue
    const around = places.filter(
      ({ folder }) => file.startsWith(folder) && !file.slice(folder.length).includes('node_modules'),
    )
    if (around.length === 1) return around[0]?.name
  }
  return undefined
}

/** Rowhouse's own folders, compiled or not. A plugin may lie beside them, in a clone. */
const OWN_FOLDERS = ['build', 'dist', 'core', 'plugins', 'providers', 'test'].map((name) =>
  fileURLToPath(new URL(`../../../${name}/`, import.meta.url)),
)

/**
 * Returns where an error of a plugin or a provider is from, e.g. `/srv/app/hello.js:12`: the innermost place outside of
 * Rowhouse, preferably one that is not in a package.
 */
export function placeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const outside = framesOf(error.stack).filter((frame) => !OWN_FOLDERS.some((folder) => frame.file.startsWith(folder)))
  const first = outside.find((frame) => !frame.file.includes('/node_modules/')) ?? outside[0]
  return first && `${first.file}:${first.line}`
}

/** Returns the files of a stack, innermost first. */
const filesOf = (stack?: string): readonly string[] => framesOf(stack).map(({ file }) => file)

function framesOf(stack = ''): readonly { readonly file: string; readonly line: string }[] {
  const frames = [...stack.matchAll(/^ +at (?:.*[ (])?((?:file:\/\/)?\/[^()]+?):(\d+):\d+\)?$/gm)]
  return frames.map(([, place = '', line = '']) => ({
    file: place.startsWith('file:') ? fileURLToPath(place) : place,
    line,
  }))
}
