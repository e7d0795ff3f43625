import { at } from '../errors.js'
import { asPlugin } from './check-shape.js'
import { children, type Entry, importEntry, inside, type Loading, resolveEntry } from './config-entry.js'
import { didYouMean } from './did-you-mean.js'
import { loadOrder } from './load-order.js'
import type { Plugin } from './plugin.js'
import { isPlain } from './resolve-section.js'

export interface LoadedPlugin {
  readonly plugin: Plugin
  readonly config: unknown
  /** URL of its module. */
  readonly module: string | undefined
}

/** A reference to a plugin in another section. That plugin must be loaded. */
export interface Mention {
  /** e.g. `$.http.listeners[0].plugins[0]` */
  readonly path: string
  readonly plugin: string
}

/** Imports every plugin that is not disabled. @returns the plugins in load order */
export async function loadPlugins(loading: Loading, mentions: readonly Mention[]): Promise<readonly LoadedPlugin[]> {
  const { config, builtins, mistakes } = loading
  const entries = pluginEntries(loading)
  const disabled = entries.filter(({ value }) => value === false).map(({ key }) => key)
  const wanted = entries.filter(({ value }) => value !== false)
  const found = await Promise.all(
    wanted.map(async (entry): Promise<(LoadedPlugin & { entry: Entry }) | undefined> => {
      const known = { ...builtins.plugins, ...builtins.optional }
      const one = await importEntry(loading, entry, { what: 'plugin', builtins: known, as: asPlugin })
      if (one === undefined) return undefined
      const { value: plugin, module } = one
      if (plugin.name !== entry.key) {
        const message = `is the plugin "${plugin.name}", so its key must be "${plugin.name}"`
        mistakes.push({ path: entry.path, message, where: config.parts.where })
      }
      const resolved = resolveEntry(loading, entry, plugin.config)
      return resolved === undefined ? undefined : { plugin, config: resolved.value, module, entry }
    }),
  )

  const loaded = found.filter((one) => one !== undefined)
  const absent = wanted.map(({ key }) => key).filter((key) => !loaded.some(({ entry }) => entry.key === key))
  const needing = loaded.map((one) => {
    const { name, needs = [], wants = [] } = one.plugin
    return { ...one, name, needs, wants }
  })
  const { order, problems } = loadOrder(needing, absent)
  for (const { plugin, message } of problems) {
    const off = disabled.find((name) => message.includes(`needs "${name}"`))
    const reason = off === undefined ? '' : ` ("${off}" is disabled)`
    mistakes.push({ path: plugin.entry.path, message: message + reason, where: config.parts.where })
  }
  const names = loaded.map(({ plugin }) => plugin.name)
  for (const { path, plugin } of mentions) {
    // A plugin that failed to load has been reported already.
    if (names.includes(plugin) || absent.includes(plugin)) continue
    const message = disabled.includes(plugin)
      ? `the plugin "${plugin}" is disabled`
      : `no plugin "${plugin}" is loaded${didYouMean(plugin, names)}`
    mistakes.push({ path, message, where: config.parts.where })
  }
  return order.map(({ plugin, config: own, module }) => ({ plugin, config: own, module }))
}

/** Returns the configured entries. Each plugin in a list of imported plugins gets an entry under its own name. */
function pluginEntries({ config, builtins, mistakes }: Loading): readonly Entry[] {
  const { plugins, settings, where } = config.parts
  const always = Object.keys(builtins.plugins)
  const known = [...always, ...Object.keys(builtins.optional ?? {})]
  const listed: Record<string, unknown> = {}
  if (Array.isArray(plugins)) {
    for (const [i, item] of plugins.entries()) {
      const path = at('$.plugins', i)
      const plugin = asPlugin(item)
      if (!plugin.ok) mistakes.push({ path, message: plugin.message, where })
      else if (Object.hasOwn(listed, plugin.value.name))
        mistakes.push({ path, message: `there are two plugins "${plugin.value.name}"`, where })
      else listed[plugin.value.name] = item
    }
  } else if (plugins !== undefined && !isPlain(plugins)) {
    mistakes.push({ path: '$.plugins', message: 'must be an object or a list of plugins', where })
  } else Object.assign(listed, plugins)

  const top = { key: 'plugins', path: '$.plugins', value: listed, settings: inside(settings, 'plugins') }
  const mentioned = children(top, known)
  const missing = always.filter((name) => !mentioned.some(({ key }) => key === name))
  const silent = missing.map((key) => ({ key, path: at('$.plugins', key), value: undefined, settings: [] }))
  return [...silent, ...mentioned]
}
