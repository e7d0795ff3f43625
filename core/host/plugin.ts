import type Router from '@koa/router'
import type { Middleware } from 'koa'
import type { Logger } from 'pino'
import type { Counter, Gauge, Histogram } from 'prom-client'
import type { Migration } from '../catalog/migration.js'
import type { ProviderKinds } from '../contracts.js'
import type { Data } from '../data/data.js'
import type { Operation, Operations } from '../data/operations.js'
import type { ServiceError } from '../errors.js'
import type { Handler, HandlerRoute } from '../http/exchange.js'
import type { Authenticator } from '../http/session.js'
import type { Infer, Schema } from '../schema.js'
import type { Session } from '../session.js'

/** Services by name, for `host.use`. A plugin adds its own by declaration merging on `rowhouse`. */
export interface Services {
  /** Structured log, every line labelled with the plugin that asks. Never log a secret or a bound value. */
  log: Logger
  /** Compile and run requests against the database; read the catalog; change metadata. */
  data: Data
  /** The operations of the JSON query API by `type`, those of every plugin. */
  operations: Operations
}
export type ServiceName = keyof Services

/**
 * A plugin: what must be known before it runs is data, everything else is code in `setup`.
 * @see plugins/README.md for a complete one
 */
export interface Plugin<
  S extends Schema = Schema,
  N extends ServiceName = ServiceName,
  K extends string = string,
  W extends ServiceName = ServiceName,
> {
  /** Lower case; also the key of its config, and the name of the service that it offers, if it offers one. */
  readonly name: K
  /**
   * `false`: it works without a database. A server whose plugins all say so opens none, and `data` and `operations`
   * do not exist there.
   */
  readonly database?: false
  /** Services that must exist before `setup` runs; gives the load order. `log`, `data`, `operations` always exist. */
  readonly needs?: readonly N[]
  /**
   * Services that are used if they are there: `host.find` gives them. They exist before `setup` runs, as with `needs`,
   * except where plugins want each other, or one needs what wants it: then a want gives no order.
   */
  readonly wants?: readonly W[]
  /** JSON schema of its config: validates, fills defaults, documents, and types the second argument of `setup`. */
  readonly config?: S
  /** Its tables, in order, all in the schema `svc_catalog`. A migration that has run must never change. */
  readonly migrations?: readonly Migration[]
  /** What it adds to the command line. */
  readonly commands?: readonly PluginCommand<Infer<S>>[]
  setup(host: Host<N, W>, config: Infer<S>): Provided<K> | Promise<Provided<K>>
}
type Provided<K> = K extends ServiceName ? Services[K] : void

/** A command of `rowhouse`. It has the configuration, the database and the providers of a server, and no server runs. */
export interface PluginCommand<C = unknown> {
  /** Lower case, as in `rowhouse NAME`; the core's own come first. */
  readonly name: string
  /** Half a line, for `rowhouse --help`. */
  readonly summary: string
  /** e.g. `rowhouse NAME [--all] [--config FILE]` */
  readonly usage: string
  /** What `rowhouse NAME --help` says below the usage; `--config` is explained there by the core. */
  readonly help: string
  /** By name without `--`; beside `config` and `help`. A `list` may be given more than once. */
  readonly flags?: Readonly<Record<string, 'boolean' | 'string' | 'list'>>
  /** The maximum number of words beside the flags; without it none. */
  readonly words?: number
  /**
   * It uses neither the configuration, the database nor providers. A built-in plugin offers such a command without being
   * loaded, and `config` is undefined.
   */
  readonly standalone?: boolean
  /**
   * @param config of the plugin, as in `setup`
   * @returns the exit code; 2 is for a wrong call. What it throws is told, and ends with 1
   */
  run(context: CommandContext, config: C): Promise<number>
}

export interface CommandContext {
  readonly flags: Readonly<Record<string, string | boolean | undefined>>
  /** The values of flags of the kind `list`. */
  readonly lists: Readonly<Record<string, readonly string[]>>
  /** What was given beside the flags. */
  readonly words: readonly string[]
  /** Aborts when somebody presses Ctrl-C. */
  readonly signal: AbortSignal
  /** As `query` of the service `data`; a plugin with `database: false` has none. The plugin's tables are up to date. */
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>
  provider: Host['provider']
  providerName: Host['providerName']
  /** All that are configured. */
  providerNames(kind: keyof ProviderKinds): readonly string[]
  /** A line of the result, to standard output. */
  print(text: string): void
  /** A line about what goes on, to standard error. */
  tell(text: string): void
}

export type Probe = () => Promise<string | void> | string | void

/** The only way for a plugin to contribute. */
export interface Host<N extends ServiceName = ServiceName, W extends ServiceName = ServiceName> {
  /** Routes of this plugin. Each is labelled with its name in logs and metrics. `ctx.state.session` is the caller. */
  readonly router: Router
  /**
   * A route of `router` that answers with rows, text or bytes. It costs less than one with a Koa context, and does the same.
   * @param path literal, or with one parameter at its end: `/v1/template/:name`, or `/v1/file/{*file_id}`, which also
   *   takes nothing and slashes
   */
  route(method: HandlerRoute['method'], path: string, handler: Handler): void
  /** Absolute; where the server keeps files of its own. A plugin makes a folder there. */
  readonly dataDir: string
  /** A service of the core, or of a plugin named in `needs`. */
  use<K extends N | 'log' | 'data' | 'operations'>(service: K): Services[K]
  /**
   * A service that is named in `wants` or `needs`; undefined when no plugin that is loaded offers it, or it is not set up
   * yet. For plugins that want each other: ask after `setup`.
   */
  find<K extends N | W>(service: K): Services[K] | undefined
  /** The configured provider of a kind, the default one when no name is given. */
  provider<K extends keyof ProviderKinds>(kind: K, name?: string): Promise<ProviderKinds[K]>
  /**
   * The name of the default provider of a kind, to store or to show beside what it did: `providers.<kind>.default`, or
   * the only one that is configured. undefined: there is no default, and `provider(kind)` throws.
   */
  providerName(kind: keyof ProviderKinds): string | undefined
  /** All that are configured. */
  providerNames(kind: keyof ProviderKinds): readonly string[]
  /**
   * Adds Koa middleware for all routes, after the session is known and before routing. With any middleware every request goes
   * through Koa, which costs reads of single rows about a quarter of their throughput.
   */
  middleware(fn: Middleware): void
  /** Asked in load order, before a request without credentials becomes anonymous. */
  authenticator(fn: Authenticator): void
  /**
   * Requests below this path prove by themselves who sent them, in a way of their own: nobody is asked for credentials
   * there, and the session is anonymous whatever they carry.
   * @param prefix from the first slash to the last, e.g. `/v1/hooks/`
   * @throws Error when it is another
   */
  proves(prefix: string): void
  /**
   * The plugin's route at this path honours `Idempotency-Key`: the same request with the same key has its effect once.
   * Everywhere else a request with that header is refused with 400 `not-supported`, as it would be ignored.
   * @param path literal, e.g. `/v1/orders`
   */
  idempotent(path: string): void
  /** Adds one `type` to the JSON query API. */
  operation(type: string, operation: Operation): void
  /** A pure planner, imported by the workers too: its default export is `(shape, names) => Plan`. */
  planner(name: string, module: URL): void
  /** Shows a page of this plugin at `/`. */
  link(title: string, href: string): void
  /** Gives this plugin's routes an error body of their own. Default: `{path, error, code}`. */
  formatError(fn: (error: ServiceError, session: Session | undefined) => unknown): void
  /**
   * Part of `/readyz`; a probe that rejects makes the server not ready and is named there. A text says what is weak
   * although the server is ready.
   */
  health(name: string, probe: Probe): void
  /** Prometheus metrics; names are prefixed `rowhouse_<plugin>_`. */
  readonly metric: {
    counter(name: string, help: string, labels?: readonly string[]): Counter
    gauge(name: string, help: string, labels?: readonly string[]): Gauge
    histogram(name: string, help: string, labels?: readonly string[], buckets?: number[]): Histogram
  }
  /** After every plugin is set up and before the first request. */
  onReady(fn: () => Promise<void> | void): void
  /** When the server stops taking requests; those under way go on. */
  onDrain(fn: () => Promise<void> | void): void
  /** When no request is left; in reverse load order. */
  onClose(fn: () => Promise<void> | void): void
}

/** A provider: one way to the outside world, of one kind. */
export interface Provider<K extends keyof ProviderKinds = keyof ProviderKinds, S extends Schema = Schema> {
  readonly kind: K
  readonly name: string
  readonly config?: S
  create(config: Infer<S>, context: ProviderContext): ProviderKinds[K] | Promise<ProviderKinds[K]>
}
export interface ProviderContext {
  readonly log: Logger
  /** Absolute; where the server keeps files of its own. */
  readonly dataDir: string
}

/** Types a plugin from its own config schema and needs. Returns it unchanged. */
export function definePlugin<
  const S extends Schema = { readonly type: 'object' },
  const N extends ServiceName = never,
  const K extends string = string,
  const W extends ServiceName = never,
>(plugin: Plugin<S, N, K, W>): Plugin<S, N, K, W> {
  return plugin
}

/** Types a provider from its kind and its config schema. Returns it unchanged. */
export function defineProvider<K extends keyof ProviderKinds, const S extends Schema = { readonly type: 'object' }>(
  provider: Provider<K, S>,
): Provider<K, S> {
  return provider
}
