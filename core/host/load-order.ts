import { didYouMean, nearest } from '../wording.js'

/** The dependencies of a plugin. A plugin provides the service of its own name. */
interface Needing {
  readonly name: string
  readonly needs?: readonly string[]
  readonly wants?: readonly string[]
}

/** Services of the core, available to every plugin. */
export const CORE_SERVICES: readonly string[] = ['log', 'data', 'operations']

/**
 * Sorts plugins so that each follows what it needs, and what it wants if loaded, and otherwise in the given order.
 * Ignores a want that would close a cycle.
 * @param absent names of plugins that failed to load and were reported already
 * @param others names of plugins that are not loaded, which a misspelt need may mean
 * @returns the order, a message for each plugin that cannot be ordered, and one for each want that seems misspelt
 */
export function loadOrder<P extends Needing>(
  plugins: readonly P[],
  absent: readonly string[],
  others: readonly string[] = [],
) {
  const byName = new Map(plugins.map((plugin) => [plugin.name, plugin]))
  const known = [...byName.keys(), ...others, ...CORE_SERVICES]
  const wanted = wantedFirst(plugins, byName)
  const order = new Set<P>()
  const problems: { readonly plugin: P; readonly message: string }[] = []

  const visit = (plugin: P, waiting: readonly string[]) => {
    if (order.has(plugin)) return
    if (waiting.includes(plugin.name)) {
      const ring = [...waiting.slice(waiting.indexOf(plugin.name)), plugin.name].join(' -> ')
      problems.push({ plugin, message: `plugins need each other in a cycle: ${ring}` })
      return
    }
    for (const need of plugin.needs ?? []) {
      const provider = byName.get(need)
      if (provider !== undefined) visit(provider, [...waiting, plugin.name])
      else if (!CORE_SERVICES.includes(need) && !absent.includes(need))
        problems.push({ plugin, message: `plugin "${plugin.name}" needs ${unprovided(need, known)}` })
    }
    for (const provider of wanted.get(plugin) ?? []) visit(provider, [...waiting, plugin.name])
    order.add(plugin)
  }
  for (const plugin of plugins) visit(plugin, [])
  const misspelt = plugins.flatMap(({ name, wants = [] }) =>
    wants.flatMap((want) =>
      known.includes(want) || nearest(want, known) === undefined
        ? []
        : [`plugin "${name}" wants ${unprovided(want, known)}`],
    ),
  )
  return { order: [...order], problems, misspelt }
}

const unprovided = (name: string, known: readonly string[]): string =>
  `"${name}", which no loaded plugin provides${known.includes(name) ? '' : didYouMean(name, known)}`

/**
 * Returns for each plugin the wanted ones that may precede it: those that do not depend on it by needs or earlier
 * wants.
 */
function wantedFirst<P extends Needing>(plugins: readonly P[], byName: ReadonlyMap<string, P>) {
  const wanted = new Map<P, P[]>()
  const comesAfter = (plugin: P, first: P, seen = new Set<P>()): boolean => {
    if (plugin === first) return true
    if (seen.has(plugin)) return false
    seen.add(plugin)
    const needed = (plugin.needs ?? []).flatMap((name) => byName.get(name) ?? [])
    return [...needed, ...(wanted.get(plugin) ?? [])].some((next) => comesAfter(next, first, seen))
  }
  for (const plugin of plugins) {
    for (const name of plugin.wants ?? []) {
      const provider = byName.get(name)
      if (provider === undefined || comesAfter(provider, plugin)) continue
      wanted.set(plugin, [...(wanted.get(plugin) ?? []), provider])
    }
  }
  return wanted
}
