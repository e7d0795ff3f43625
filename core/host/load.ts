import { ConfigError, readConfig, type ConfigOptions, type LoadedConfig, type Sections } from './config.js'
import type { Builtins } from './config-entry.js'
import { type LoadedPlugin, loadPlugins, type Mention } from './load-plugins.js'
import { type LoadedKind, loadProviders, providerWarnings } from './load-providers.js'

export type { Builtins, Mention }

export interface Loaded {
  /** Plugins in load order. */
  readonly plugins: readonly LoadedPlugin[]
  readonly providers: ReadonlyMap<string, LoadedKind>
  /** Warnings to log at startup. */
  readonly warnings: readonly string[]
  /** Warnings about settings under a former name, which still works. */
  readonly renamed: readonly string[]
}

export type LoadOptions<S extends Sections> = ConfigOptions<S> & {
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
  const { config, mistakes, renamed } = await readConfig(options)
  const loading = { config, builtins: options.builtins, mistakes: [...mistakes], renamed: [...renamed] }
  const [plugins, providers] = await Promise.all([
    loadPlugins(loading, options.mentions?.(config.values) ?? []),
    loadProviders(loading),
  ])
  if (loading.mistakes.length > 0) throw new ConfigError(loading.mistakes)
  const warnings = [...providers].flatMap(providerWarnings)
  return { config, loaded: { plugins, providers, warnings, renamed: loading.renamed } }
}

/** Returns whether any plugin uses the database. A server without plugins uses it, too. */
export function needsDatabase({ plugins }: Loaded): boolean {
  return plugins.length === 0 || plugins.some(({ plugin }) => plugin.database !== false)
}
