import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A plugin and where it was imported from. */
export interface Origin {
  readonly name: string
  /** URL of its module; undefined for one that the configuration brings as an object. */
  readonly module: string | undefined
}

/** Our own files, which are on many stacks: no plugin is to blame for those. */
const OWN = fileURLToPath(new URL('../', import.meta.url))

/**
 * Finds the plugin that an error is from: by the innermost line of its stack that is in the module of one, or else in the
 * folder of one alone.
 * @returns its name; undefined when the stack does not tell
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

/** Innermost first. */
function filesOf(stack = ''): readonly string[] {
  const places = [...stack.matchAll(/^ +at .*?\(?((?:file:\/\/)?\/[^()]+?):\d+:\d+\)?$/gm)].map(
    ([, place = '']) => place,
  )
  return places.map((place) => (place.startsWith('file:') ? fileURLToPath(place) : place))
}
