import type { Logger } from 'pino'
import type { ProviderKinds } from './contracts.js'
import { messageOf } from '../errors.js'
import { runWithin } from '../deadline.js'
import { closeHooks } from './lifecycle.js'
import { type AskedServer, tracedMethods } from '../observe/tracing.js'
import type { LoadedKind, LoadedProvider } from './load.js'

/** Reports that a requested provider is not configured. */
class ProviderMissing extends Error {
  override readonly name = 'ProviderMissing'
  /** `no-default`: no name was given and there is no default. `not-configured`: no provider has the name. */
  readonly code: 'no-default' | 'not-configured'
  /** The unknown name. */
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

/** The configured providers. Each is created on first use and shared. */
export interface Providers {
  /** @throws ProviderMissing, or the provider's error when it cannot be created */
  get<K extends keyof ProviderKinds>(kind: K, name?: string): Promise<ProviderKinds[K]>
  /** Returns the name that `get` uses by default. */
  defaultName(kind: string): string | undefined
  /** Returns the names of all configured providers. */
  names(kind: string): readonly string[]
  /** Returns why a provider could not work: it is not configured, or its `check` fails. Creates nothing. */
  problem(kind: string, name?: string): Promise<string | undefined>
  /** Closes the created providers in reverse order. */
  close(): Promise<void>
}

/** @param timeoutMs limit for creating a provider, and for closing it */
export function createProviders(
  kinds: ReadonlyMap<string, LoadedKind>,
  { log, timeoutMs, dataDir }: { readonly log: Logger; readonly timeoutMs: number; readonly dataDir: string },
): Providers {
  /** A check that hangs, as on a network file system, does not start again with each probe. */
  const checking = new Map<LoadedProvider, Promise<void>>()
  const made = new Map<LoadedProvider, { readonly title: string; readonly instance: Promise<Closable> }>()

  const contextOf = (title: string) => ({ log: log.child({ provider: title }), dataDir })
  const make = (title: string, loaded: LoadedProvider): Promise<Closable> => {
    const create = () => loaded.provider.create(loaded.config, contextOf(title)) as Closable | Promise<Closable>
    const instance = runWithin(`provider "${title}"`, 'create', create, timeoutMs).then((made) =>
      tracedMethods(made, title.split('.', 1)[0]!, { 'rowhouse.provider': title }, made.server),
    )
    made.set(loaded, { title, instance })
    // A provider that failed to start is created again on its next use.
    instance.catch(() => made.delete(loaded))
    return instance
  }
  const defaultName = (kind: string) => {
    const found = kinds.get(kind)
    return found?.default ?? (found?.byName.size === 1 ? [...found.byName.keys()][0] : undefined)
  }
  const find = (kind: string, name: string | undefined): LoadedProvider => {
    const byName = kinds.get(kind)?.byName
    const loaded = name === undefined ? undefined : byName?.get(name)
    if (loaded === undefined) throw new ProviderMissing(kind, name, [...(byName?.keys() ?? [])])
    return loaded
  }
  const startCheck = async (title: string, loaded: LoadedProvider): Promise<void> => {
    const check = loaded.provider.check?.(loaded.config, contextOf(title))
    if (!check) return
    checking.set(loaded, check)
    await check.finally(() => checking.delete(loaded))
  }

  return {
    async get<K extends keyof ProviderKinds>(kind: K, name = defaultName(kind)) {
      const loaded = find(kind, name)
      const instance = made.get(loaded)?.instance ?? make(`${kind}.${name}`, loaded)
      return (await instance) as ProviderKinds[K]
    },
    async problem(kind, name = defaultName(kind)) {
      try {
        const loaded = find(kind, name)
        await (checking.get(loaded) ?? startCheck(`${kind}.${name}`, loaded))
        return undefined
      } catch (error) {
        return error instanceof ProviderMissing ? error.message : `${kind}.${name}: ${messageOf(error)}`
      }
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
  readonly server?: AskedServer
  close?(): Promise<void>
}
