import { ConfigError, readConfig, type ConfigOptions, type LoadedConfig, type Sections } from './config.js'
import type { Builtins } from './config-entry.js'
import { type LoadedPlugin, loadPlugins, type Mention } from './load-plugins.js'
import { type LoadedKind, loadProviders, providerWarnings } from './load-providers.js'

export type { Builtins, Mention }

export interface Loaded {
  /** Each after what it needs and wants. */
  readonly plugins: readonly LoadedPlugin[]
  readonly providers: ReadonlyMap<string, LoadedKind>
  /** Worth a line in the log at the start. */
  readonly warnings: readonly string[]
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
  const loading = { config, builtins: options.builtins, mistakes: [...mistakes] }
  const [plugins, providers] = await Promise.all([
    loadPlugins(loading, options.mentions?.(config.values) ?? []),
    loadProviders(loading),
  ])
  if (loading.mistakes.length > 0) throw new ConfigError(loading.mistakes)
  return { config, loaded: { plugins, providers, warnings: [...providers].flatMap(providerWarnings) } }
}

/** Whether any plugin wants a database; a server without plugins serves it by what the core has. */
export function needsDatabase({ plugins }: Loaded): boolean {
  return plugins.length === 0 || plugins.some(({ plugin }) => plugin.database !== false)
}
