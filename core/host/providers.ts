import type { Logger } from 'pino'
import type { ProviderKinds } from '../contracts.js'
import { closeHooks, runWithin } from './lifecycle.js'
import type { LoadedKind, LoadedProvider } from './load-providers.js'

/** A provider that was asked for is not configured. */
export class ProviderMissing extends Error {
  override readonly name = 'ProviderMissing'
  /** `no-default`: no name was given and there is no default. `not-configured`: nothing has the name. */
  readonly code: 'no-default' | 'not-configured'
  /** The name that nothing has. */
  readonly provider: string | undefined

  constructor(kind: string, provider: string | undefined, configured: readonly string[]) {
    const what = provider === undefined ? `no default ${kind} provider` : `no ${kind} provider "${provider}"`
    const names = configured.length === 0 ? 'none is' : `configured: ${configured.join(', ')}`
    const set = provider === undefined ? `providers.${kind}.default` : `providers.${kind}.${provider}`
    super(`${what} is configured (${names}); set ${set}`)
    this.code = provider === undefined ? 'no-default' : 'not-configured'
    this.provider = provider
  }
}

/** The configured providers. Each is made when it is first asked for, and shared. */
export interface Providers {
  /** @throws ProviderMissing, or what the provider throws when it cannot be made */
  get<K extends keyof ProviderKinds>(kind: K, name?: string): Promise<ProviderKinds[K]>
  /** The name that `get` uses for a kind when none is given. */
  defaultName(kind: string): string | undefined
  /** All that are configured. */
  names(kind: string): readonly string[]
  /** Closes those that were made, in reverse order. */
  close(): Promise<void>
}

/** @param timeoutMs for making one, and for closing one */
export function createProviders(
  kinds: ReadonlyMap<string, LoadedKind>,
  { log, timeoutMs, dataDir }: { readonly log: Logger; readonly timeoutMs: number; readonly dataDir: string },
): Providers {
  const made = new Map<LoadedProvider, { readonly title: string; readonly instance: Promise<Closable> }>()

  const make = (title: string, loaded: LoadedProvider): Promise<Closable> => {
    const context = { log: log.child({ provider: title }), dataDir }
    const create = () => loaded.provider.create(loaded.config, context) as Closable | Promise<Closable>
    const instance = runWithin(`provider "${title}"`, 'create', create, timeoutMs)
    made.set(loaded, { title, instance })
    // One that could not be made is tried again when it is next asked for.
    instance.catch(() => made.delete(loaded))
    return instance
  }
  const defaultName = (kind: string) => {
    const found = kinds.get(kind)
    return found?.default ?? (found?.byName.size === 1 ? [...found.byName.keys()][0] : undefined)
  }

  return {
    async get<K extends keyof ProviderKinds>(kind: K, name = defaultName(kind)) {
      const byName = kinds.get(kind)?.byName
      const loaded = name === undefined ? undefined : byName?.get(name)
      if (loaded === undefined) throw new ProviderMissing(kind, name, [...(byName?.keys() ?? [])])
      const instance = made.get(loaded)?.instance ?? make(`${kind}.${name}`, loaded)
      return (await instance) as ProviderKinds[K]
    },
    defaultName,
    names: (kind) => [...(kinds.get(kind)?.byName.keys() ?? [])],
    async close() {
      const hooks = [...made.values()].map(({ title, instance }) => ({
        owner: `provider "${title}"`,
        run: async () => (await instance).close?.(),
      }))
      made.clear()
      await closeHooks(hooks, timeoutMs)
    },
  }
}

interface Closable {
  close?(): Promise<void>
}
