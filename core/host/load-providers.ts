import { at } from '../errors.js'
import { asProvider } from './check-shape.js'
import { children, importEntry, inside, type Loading, resolveEntry } from './config-entry.js'
import type { Provider } from './plugin.js'
import { isPlain } from './resolve-section.js'

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
export async function loadProviders(loading: Loading): Promise<ReadonlyMap<string, LoadedKind>> {
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
export function providerWarnings([kind, { default: name, byName }]: readonly [string, LoadedKind]): string[] {
  if (name === undefined || byName.has(name)) return []
  const others = byName.size === 0 ? '' : `; configured: ${[...byName.keys()].join(', ')}`
  return [`providers.${kind}.default is "${name}", which has no configuration: set providers.${kind}.${name}${others}`]
}
