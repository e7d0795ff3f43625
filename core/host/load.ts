import { at } from '../errors.js'
import type { Schema } from '../schema.js'
import { asPlugin, asProvider, type Shaped } from './check-shape.js'
import { ConfigError, readConfig, type ConfigOptions, type LoadedConfig, type Sections } from './config.js'
import { importUse } from './import-use.js'
import { loadOrder } from './load-order.js'
import type { Plugin, Provider } from './plugin.js'
import { isPlain, isText, jsonOf, settle, type Mistake, type Setting } from './settle.js'
import { hint, lowerCamel, sameKey } from './spelling.js'

/** What comes with the program: modules by name, loaded only when used. */
export interface Builtins {
  /** Loaded unless the configuration says `false`. */
  readonly plugins: Readonly<Record<string, URL>>
  /** Plugins that are loaded when the configuration names them. */
  readonly optional?: Readonly<Record<string, URL>>
  /** By kind, then by name. */
  readonly providers: Readonly<Record<string, Readonly<Record<string, URL>>>>
  /** By kind, the provider of a kind of which the configuration names none. */
  readonly defaults?: Readonly<Record<string, string>>
}

export interface LoadedPlugin {
  readonly plugin: Plugin
  readonly config: unknown
  /** URL of the module that it was imported from. */
  readonly module: string | undefined
}

export interface LoadedProvider {
  readonly provider: Provider
  readonly config: unknown
}

/** The providers of one kind. The default may name one that is not configured, which is found out when it is used. */
export interface LoadedKind {
  readonly default: string | undefined
  readonly byName: ReadonlyMap<string, LoadedProvider>
}

export interface Loaded {
  /** Each after what it needs and wants. */
  readonly plugins: readonly LoadedPlugin[]
  readonly providers: ReadonlyMap<string, LoadedKind>
  /** Worth a line in the log at the start. */
  readonly warnings: readonly string[]
}

/** A section names a plugin, which must be loaded. */
export interface Mention {
  /** e.g. `$.http.listeners[0].plugins[0]` */
  readonly path: string
  readonly plugin: string
}

export type LoadOptions<S extends Sections> = ConfigOptions<S> & {
  readonly builtins: Builtins
  /** All plugins that sections name. Sections with mistakes are missing. */
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
  const mentions = options.mentions?.(config.values) ?? []
  const { loaded, mistakes: others } = await load(config, options.builtins, mentions)
  if (mistakes.length + others.length > 0) throw new ConfigError([...mistakes, ...others])
  return { config, loaded }
}

/** Whether any plugin wants a database; a server without plugins serves it by what the core has. */
export function needsDatabase({ plugins }: Loaded): boolean {
  return plugins.length === 0 || plugins.some(({ plugin }) => plugin.database !== false)
}

/** One place in the configuration, with the settings that lie in it. */
interface Node {
  readonly key: string
  readonly path: string
  readonly value: unknown
  readonly settings: readonly Setting[]
}

interface Loading {
  readonly config: LoadedConfig
  readonly builtins: Builtins
  readonly mentions: readonly Mention[]
  readonly mistakes: Mistake[]
}

async function load(config: LoadedConfig, builtins: Builtins, mentions: readonly Mention[]) {
  const mistakes: Mistake[] = []
  const loading = { config, builtins, mentions, mistakes }
  const [plugins, kinds] = await Promise.all([loadEveryPlugin(loading), loadEveryKind(loading)])
  const providers = new Map(kinds)
  return { loaded: { plugins, providers, warnings: [...providers].flatMap(warnings) }, mistakes }
}

async function loadEveryPlugin(loading: Loading): Promise<readonly LoadedPlugin[]> {
  const { config, builtins, mentions, mistakes } = loading
  const nodes = pluginNodes(loading)
  const disabled = nodes.filter(({ value }) => value === false).map(({ key }) => key)
  const wanted = nodes.filter(({ value }) => value !== false)
  const found = await Promise.all(
    wanted.map(async (node): Promise<(LoadedPlugin & { node: Node }) | undefined> => {
      const known = { ...builtins.plugins, ...builtins.optional }
      const one = await find({ loading, node, what: 'plugin', builtins: known, as: asPlugin })
      if (one === undefined) return undefined
      const { value: plugin, module } = one
      if (plugin.name !== node.key) {
        const message = `is the plugin "${plugin.name}", so its key must be "${plugin.name}"`
        mistakes.push({ path: node.path, message, where: config.parts.where })
      }
      const settled = settleEntry(loading, node, plugin.config)
      return settled === undefined ? undefined : { plugin, config: settled.value, module, node }
    }),
  )

  const loaded = found.filter((one) => one !== undefined)
  const absent = wanted.map(({ key }) => key).filter((key) => !loaded.some(({ node }) => node.key === key))
  const needing = loaded.map((one) => {
    const { name, needs = [], wants = [] } = one.plugin
    return { ...one, name, needs, wants }
  })
  const { order, problems } = loadOrder(needing, absent)
  for (const { plugin, message } of problems) {
    const off = disabled.find((name) => message.includes(`needs "${name}"`))
    const reason = off === undefined ? '' : ` ("${off}" is switched off)`
    mistakes.push({ path: plugin.node.path, message: message + reason, where: config.parts.where })
  }
  const names = loaded.map(({ plugin }) => plugin.name)
  for (const { path, plugin } of mentions) {
    // What could not be loaded has been reported already.
    if (names.includes(plugin) || absent.includes(plugin)) continue
    const message = disabled.includes(plugin)
      ? `the plugin "${plugin}" is switched off`
      : `no plugin "${plugin}" is loaded${hint(plugin, names)}`
    mistakes.push({ path, message, where: config.parts.where })
  }
  return order.map(({ plugin, config: own, module }) => ({ plugin, config: own, module }))
}

/** A list of imported plugins is read as if each stood under its own name. */
function pluginNodes({ config, builtins, mistakes }: Loading): readonly Node[] {
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

async function loadEveryKind(loading: Loading): Promise<(readonly [string, LoadedKind])[]> {
  const { config, builtins, mistakes } = loading
  const { providers, settings, where } = config.parts
  if (providers !== undefined && !isPlain(providers))
    mistakes.push({ path: '$.providers', message: 'must be an object of provider kinds', where })
  const top = { key: 'providers', path: '$.providers', value: providers, settings: inside(settings, 'providers') }

  const named = children(top, Object.keys(builtins.providers))
  const silent = Object.entries(builtins.defaults ?? {})
    .filter(([kind]) => !named.some(({ key }) => key === kind))
    .map(([key, name]) => ({ key, path: at('$.providers', key), value: { [name]: {} }, settings: [] }))
  return Promise.all(
    [...named, ...silent].map(async (kind) => {
      const own = builtins.providers[kind.key] ?? {}
      const nodes = children(kind, ['default', ...Object.keys(own)]).filter(({ value }) => value !== false)
      const choice = nodes.find(({ key }) => key === 'default')
      const chosen = choice === undefined ? undefined : settleEntry(loading, choice, { type: 'string' })
      const found = await Promise.all(
        nodes
          .filter((node) => node !== choice)
          .map(async (node): Promise<(readonly [string, LoadedProvider])[]> => {
            const as = (value: unknown) => asProvider(value, kind.key)
            const provider = (await find({ loading, node, what: `${kind.key} provider`, builtins: own, as }))?.value
            const settled = provider && settleEntry(loading, node, provider.config)
            return provider && settled ? [[node.key, { provider, config: settled.value }]] : []
          }),
      )
      const name = typeof chosen?.value === 'string' ? chosen.value : undefined
      return [kind.key, { default: name, byName: new Map(found.flat()) }] as const
    }),
  )
}

function warnings([kind, { default: name, byName }]: readonly [string, LoadedKind]): string[] {
  if (name === undefined || byName.has(name)) return []
  const others = byName.size === 0 ? '' : `; configured: ${[...byName.keys()].join(', ')}`
  return [`providers.${kind}.default is "${name}", which has no configuration: set providers.${kind}.${name}${others}`]
}

/** Those of one key, which is then cut off. */
function inside(settings: readonly Setting[], key: string): readonly Setting[] {
  return settings
    .filter(({ keys: [first] }) => first !== undefined && sameKey(first, key))
    .map((setting) => ({ ...setting, keys: setting.keys.slice(1) }))
}

/** The entries of a node that the file or a setting mentions. A setting of the whole entry replaces it. */
function children(node: Node, known: readonly string[]): Node[] {
  const value = isPlain(node.value) ? node.value : {}
  const spellings = [...Object.keys(value), ...known]
  const heads = node.settings.flatMap(({ keys: [first] }) => first ?? [])
  const named = heads.map((head) => spellings.find((key) => sameKey(key, head)) ?? lowerCamel(head))
  return [...new Set([...Object.keys(value), ...named])].map((key) => {
    const own = inside(node.settings, key)
    const whole = own.findLast(({ keys }) => keys.length === 0)?.value
    return {
      key,
      path: at(node.path, key),
      value: whole === undefined ? value[key] : isText(whole) ? jsonOf(whole) : whole,
      settings: own.filter(({ keys }) => keys.length > 0),
    }
  })
}

interface Finding<T> {
  readonly loading: Loading
  readonly node: Node
  /** For messages: `plugin`, `sms provider`. */
  readonly what: string
  readonly builtins: Readonly<Record<string, URL>>
  readonly as: (value: unknown) => Shaped<T>
}

/** Something that was found, and the URL of the module that it was imported from. */
interface Imported<T> {
  readonly value: T
  readonly module: string | undefined
}

/** The plugin or provider of an entry: an imported object, what `use` names, or the built-in of the entry's name. */
async function find<T>({ loading, node, what, builtins, as }: Finding<T>): Promise<Imported<T> | undefined> {
  const { config, mistakes } = loading
  const refuse = (message: string) => void mistakes.push({ path: node.path, message, where: config.parts.where })
  const { use = builtins[node.key] } = entryOf(node)
  if (use === undefined) {
    const near = hint(node.key, Object.keys(builtins)) || '; "use" names a package or a path'
    refuse(`there is no built-in ${what} "${node.key}"${near}`)
    return undefined
  }
  try {
    const named = typeof use === 'string' ? (builtins[use] ?? use) : use
    const isNamed = typeof named === 'string' || named instanceof URL
    const { value, module } = isNamed ? await importUse(named, config) : { value: named, module: undefined }
    const shaped = as(value)
    if (shaped.ok) return { value: shaped.value, module }
    refuse(shaped.message)
  } catch (error) {
    refuse(error instanceof Error ? error.message : String(error))
  }
  return undefined
}

/** Separates what an entry is from how it is configured. It may be an imported object, which has no configuration. */
function entryOf({ value }: Node): { readonly use?: unknown; readonly value?: unknown } {
  if (value === undefined || value === true) return {}
  if (isObject(value) && !isPlain(value)) return { use: value }
  if (!isPlain(value)) return { value }
  const { use, ...own } = value
  return { ...(use === undefined ? {} : { use }), value: own }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isText(value)
}

/** The checked configuration of an entry; nothing when it has mistakes. */
function settleEntry({ config, mistakes }: Loading, node: Node, schema: Schema = { type: 'object', properties: {} }) {
  const { value } = entryOf(node)
  const settled = settle({ path: node.path, schema, value, settings: node.settings, where: config.parts.where })
  if (settled.ok) return { value: settled.value }
  mistakes.push(...settled.mistakes)
  return undefined
}
