import { at } from '../errors.js'
import { asPlugin, asProvider } from './check-shape.js'
import { type Builtins, children, type Entry, importEntry, inside, type Loading, resolveEntry } from './config-entry.js'
import { ConfigError, type ConfigOptions, type LoadedConfig, readConfig, type Sections } from './config.js'
import { didYouMean } from '../wording.js'
import { loadOrder } from './load-order.js'
import type { Plugin, Provider } from './plugin.js'
import { isPlain } from './resolve-section.js'

export type { Builtins }

export interface Loaded {
  /** Plugins in load order. */
  readonly plugins: readonly LoadedPlugin[]
  readonly providers: ReadonlyMap<string, LoadedKind>
  /** Warnings to log at startup. */
  readonly warnings: readonly string[]
}

type LoadOptions<S extends Sections> = ConfigOptions<S> & {
  readonly builtins: Builtins
  /** Returns the plugins that sections refer to. Invalid sections are missing. */
  readonly mentions?: (values: Partial<LoadedConfig<S>['values']>) => readonly Mention[]
}

/**
 * Reads the configuration and imports everything that it names.
 * @throws ConfigError with every mistake of sections, plugins and providers together
 */
export async function loadAll<const S extends Sections>(
  options: LoadOptions<S>,
): Promise<{ readonly config: LoadedConfig<S>; readonly loaded: Loaded }> {
  const { config, mistakes } = await readConfig(options)
  const loading = { config, builtins: options.builtins, mistakes: [...mistakes] }
  const [plugins, providers] = await Promise.all([
    loadPlugins(loading, options.mentions?.(config.values) ?? []),
    loadProviders(loading),
  ])
  if (loading.mistakes.length > 0) throw new ConfigError(loading.mistakes)
  const warnings = [...plugins.misspelt, ...[...providers].flatMap(providerWarnings)]
  return { config, loaded: { plugins: plugins.order, providers, warnings } }
}

/** Returns whether any plugin uses the database. A server without plugins uses it, too. */
export function needsDatabase({ plugins }: Loaded): boolean {
  return plugins.length === 0 || plugins.some(({ plugin }) => plugin.database !== false)
}

interface LoadedPlugin {
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

/** Imports every plugin that is not disabled. @returns the plugins in load order, and wants that seem misspelt */
async function loadPlugins(
  loading: Loading,
  mentions: readonly Mention[],
): Promise<{ readonly order: readonly LoadedPlugin[]; readonly misspelt: readonly string[] }> {
  const { config, builtins, mistakes } = loading
  const entries = pluginEntries(loading)
  const disabled = entries.filter(({ value }) => value === false).map(({ key }) => key)
  const wanted = entries.filter(({ value }) => value !== false)
  const found = await Promise.all(
    wanted.map(async (entry): Promise<(LoadedPlugin & { entry: Entry }) | undefined> => {
      const known = { ...builtins.plugins, ...builtins.optional }
      const imported = await importEntry(loading, entry, { what: 'plugin', builtins: known, as: asPlugin })
      if (imported === undefined) return undefined
      const { value: plugin, module } = imported
      if (plugin.name !== entry.key) {
        const message = `is the plugin "${plugin.name}", so its key must be "${plugin.name}"`
        mistakes.push({ path: entry.path, message, where: config.parts.where })
      }
      const resolved = resolveEntry(loading, entry, plugin.config)
      return resolved === undefined ? undefined : { plugin, config: resolved.value, module, entry }
    }),
  )

  const loaded = found.filter((each) => each !== undefined)
  const absent = wanted.map(({ key }) => key).filter((key) => !loaded.some(({ entry }) => entry.key === key))
  const needing = loaded.map((each) => {
    const { name, needs = [], wants = [] } = each.plugin
    return { ...each, name, needs, wants }
  })
  const others = [...disabled, ...absent, ...Object.keys({ ...builtins.plugins, ...builtins.optional })]
  const { order, problems, misspelt } = loadOrder(needing, absent, others)
  for (const { plugin, message } of problems) {
    const off = disabled.find((name) => message.includes(`needs "${name}"`))
    const reason = off === undefined ? '' : ` ("${off}" is disabled)`
    mistakes.push({ path: plugin.entry.path, message: message + reason, where: config.parts.where })
  }
  const commands = new Map(builtins.commands?.map((name) => [name, 'rowhouse']))
  for (const { plugin, entry } of loaded) {
    for (const { name } of plugin.commands ?? []) {
      const owner = commands.get(name)
      const message = `plugin "${plugin.name}" cannot have the command "${name}", which is a command of ${owner}`
      if (owner !== undefined) mistakes.push({ path: entry.path, message, where: config.parts.where })
      commands.set(name, `the plugin "${plugin.name}"`)
    }
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
  return { order: order.map(({ plugin, config: own, module }) => ({ plugin, config: own, module })), misspelt }
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
  const isOff = (name: string | undefined) => mentioned.some(({ key, value }) => key === name && value === false)
  const missing = always.filter(
    (name) => !mentioned.some(({ key }) => key === name) && !isOff(builtins.follows?.[name]),
  )
  const silent = missing.map((key) => ({ key, path: at('$.plugins', key), value: undefined, settings: [] }))
  return [...silent, ...mentioned]
}

export interface LoadedProvider {
  readonly provider: Provider
  readonly config: unknown
}

/**
 * The providers of one kind. The default may name a provider that is not configured, which fails only when it is used.
 */
export interface LoadedKind {
  readonly default: string | undefined
  readonly byName: ReadonlyMap<string, LoadedProvider>
}

/** Imports every configured provider, by kind. */
async function loadProviders(loading: Loading): Promise<ReadonlyMap<string, LoadedKind>> {
  const { config, builtins, mistakes } = loading
  const { providers, settings, where } = config.parts
  if (providers !== undefined && !isPlain(providers))
    mistakes.push({ path: '$.providers', message: 'must be an object of provider kinds', where })
  const top = { key: 'providers', path: '$.providers', value: providers, settings: inside(settings, 'providers') }

  const named = children(top, Object.keys(builtins.providers))
  const silent = Object.entries(builtins.defaults ?? {})
    .filter(([kind]) => !named.some(({ key }) => key === kind))
    .map(([key, name]) => ({ key, path: at('$.providers', key), value: { [name]: {} }, settings: [] }))
  const loaded = await Promise.all(
    [...named, ...silent].map(async (kind) => {
      const own = builtins.providers[kind.key] ?? {}
      const entries = children(kind, ['default', ...Object.keys(own)]).filter(({ value }) => value !== false)
      const choice = entries.find(({ key }) => key === 'default')
      const chosen = choice === undefined ? undefined : resolveEntry(loading, choice, { type: 'string' })
      const found = await Promise.all(
        entries
          .filter((entry) => entry !== choice)
          .map(async (entry): Promise<(readonly [string, LoadedProvider])[]> => {
            const as = (value: unknown) => asProvider(value, kind.key)
            const imported = await importEntry(loading, entry, { what: `${kind.key} provider`, builtins: own, as })
            const provider = imported?.value
            const resolved = provider && resolveEntry(loading, entry, provider.config)
            return provider && resolved ? [[entry.key, { provider, config: resolved.value }]] : []
          }),
      )
      const name = typeof chosen?.value === 'string' ? chosen.value : undefined
      return [kind.key, { default: name, byName: new Map(found.flat()) }] as const
    }),
  )
  return new Map(loaded)
}

/** Returns warnings to log at startup. */
function providerWarnings([kind, { default: name, byName }]: readonly [string, LoadedKind]): string[] {
  if (name === undefined || byName.has(name)) return []
  const others = byName.size === 0 ? '' : `; configured: ${[...byName.keys()].join(', ')}`
  return [`providers.${kind}.default is "${name}", which has no configuration: set providers.${kind}.${name}${others}`]
}
