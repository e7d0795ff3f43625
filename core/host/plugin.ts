import type { Readable, Writable } from 'node:stream'
import type Router from '@koa/router'
import type { Middleware } from 'koa'
import type { ClientBase } from 'pg'
import type { Logger } from 'pino'
import type { Counter, Gauge, Histogram } from 'prom-client'
import type { Migration } from '../metadata/schema.js'
import type { ProviderKinds } from './contracts.js'
import type { Data } from '../data/data.js'
import type { Operation, Operations } from '../data/operations.js'
import type { ServiceError } from '../errors.js'
import type { Handler, HandlerRoute } from '../http/exchange.js'
import type { Authenticator } from '../http/admission.js'
import type { UpgradeHandler } from '../http/upgrade.js'
import type { Across, Collect } from '../observe/metrics.js'
import type { Periodic } from '../queue/periodic.js'
import type { Infer, Schema } from '../json/schema.js'
import type { Session } from '../session.js'

/** Services by name, for `host.use`. Plugins add theirs by declaration merging on `rowhouse`. */
export interface Services {
  /** Structured log. Every line carries the name of the plugin. Never log a secret or a bound value. */
  log: Logger
  /** Compiles and runs requests against the database, reads the catalog, and changes metadata. */
  data: Data
  /** The operations of the JSON query API of all plugins, by `type`. */
  operations: Operations
}
export type ServiceName = keyof Services

/**
 * A plugin. Everything that must be known before it runs is data; everything else is code in `setup`.
 * @see plugins/README.md for a complete example
 */
export interface Plugin<
  S extends Schema = Schema,
  N extends ServiceName = ServiceName,
  K extends string = string,
  W extends ServiceName = ServiceName,
> {
  /** Lower case. Also the key of its configuration, and the name of its service if it offers one. */
  readonly name: K
  /**
   * Range of versions of the extension API that it works with, such as `^1` or `^1.2`. A server with another version
   * does not start.
   */
  readonly api?: ApiRange
  /**
   * `false` if it works without a database. A server on which no plugin needs a database opens none and has no `data`
   * or `operations`.
   */
  readonly database?: false
  /**
   * Services that must exist before `setup` runs. Determines the load order. `log`, `data` and `operations` always
   * exist.
   */
  readonly needs?: readonly N[]
  /**
   * Optional services, returned by `host.find`. They exist before `setup` runs, except where plugins want each other,
   * or a plugin needs another that wants it: then the want does not affect the order.
   */
  readonly wants?: readonly W[]
  /**
   * JSON schema of its configuration. It validates, fills in defaults, documents, and types the argument `config` of
   * `setup`.
   */
  readonly config?: S
  /**
   * Its migrations in order, for tables in the schema `svc_catalog`; a function if they depend on the configuration.
   * Never change a migration that may have run.
   */
  readonly migrations?: readonly Migration[] | Migrations<Infer<S>>
  /** Its commands for the command line. */
  readonly commands?: readonly PluginCommand<Infer<S>>[]
  setup(host: Host<N, W>, config: Infer<S>): Provided<K> | Promise<Provided<K>>
}
/** A major version, and the least minor version: `^1`, `^1.2`. */
type ApiRange = `^${number}`

/** A method, so that a plugin with any configuration is a `Plugin`. */
type Migrations<C> = { of(config: C): readonly Migration[] }['of']
type Provided<K> = K extends ServiceName ? Services[K] : void

/** A command of `rowhouse`. It can use the configuration, the database and the providers; no server is running. */
export interface PluginCommand<C = unknown> {
  /** Lower case, as in `rowhouse NAME`. No two plugins have the same, and none has one of the core. */
  readonly name: string
  /** Short phrase for `rowhouse --help`. */
  readonly summary: string
  /** e.g. `rowhouse NAME [--all] [--config FILE]` */
  readonly usage: string
  /** Text of `rowhouse NAME --help` after the usage. The core explains `--config`. */
  readonly help: string
  /** Flags by name without `--`, in addition to `config` and `help`. A `list` can be repeated. */
  readonly flags?: Readonly<Record<string, 'boolean' | 'string' | 'list'>>
  /** Maximum number of positional arguments. Defaults to 0. */
  readonly words?: number
  /** Exit code after an error, where 1 is an answer. Defaults to 1. */
  readonly failure?: number
  /**
   * Whether `words` has all arguments as they are, but `--config` and `--help`: for a command that runs another program.
   */
  readonly verbatim?: boolean
  /**
   * Whether it needs neither the configuration of its plugin nor providers. Built-in plugins offer such a command without
   * being loaded; `config` is then undefined.
   */
  readonly standalone?: boolean
  /**
   * Runs the command.
   * @param config configuration of the plugin, as in `setup`
   * @returns the exit code; use 2 for wrong usage. An error is printed
   */
  run(context: CommandContext, config: C): Promise<number>
}

export interface AskOptions {
  /** Rolls it back. */
  readonly isDry?: boolean
  /**
   * URL of a running server that is asked instead. The admin secret is that of the flag `admin-secret-file`, of the
   * environment, of the configuration, or the one that `rowhouse dev` created.
   */
  readonly server?: string
}

/** A server refused an operation. */
export class OperationRefused extends Error {
  /** @param path place in the operation, beginning with `$.args` */
  constructor(
    readonly reason: string,
    readonly path: string,
    readonly code?: string,
  ) {
    super(`${reason.trimEnd()} (${path.replace('$.args', '$')})`)
  }
}

export interface CommandContext {
  readonly flags: Readonly<Record<string, string | boolean | undefined>>
  /** Values of flags of the kind `list`. */
  readonly lists: Readonly<Record<string, readonly string[]>>
  /** Positional arguments. */
  readonly words: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Absolute path of the folder that relative paths start from. */
  readonly cwd: string
  /** The streams of the command, for another program that it runs. */
  readonly terminal: {
    readonly stdin: Readable & { readonly isTTY?: boolean }
    readonly stdout: Writable
    readonly stderr: Writable
  }
  /** Aborts on Ctrl-C. If a command never reads it, Ctrl-C ends the command immediately. */
  readonly signal: AbortSignal
  /**
   * Runs a query, like `query` of the service `data`; unavailable to a plugin with `database: false`. The plugin's
   * tables are up to date.
   */
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>
  /**
   * Runs an operation of the JSON query API as admin, on a temporary server without the plugins that `rowhouse dev` adds.
   * @param args as JSON text
   * @returns its response, with all digits of its numbers
   * @throws OperationRefused
   */
  ask(type: string, args: string, options?: AskOptions): Promise<string>
  /** Runs another command of `rowhouse` with the same configuration. @returns its exit code */
  rowhouse(...args: readonly string[]): Promise<number>
  /**
   * Returns the URL of PostgreSQL itself, past a connection pooler, with the login of the server. Without a configured
   * database, that of the data directory runs until the command ends.
   */
  databaseUrl(): Promise<string>
  /** Opens a connection to `databaseUrl` that ends with the command: for the locks and settings of a session. */
  connect(): Promise<ClientBase>
  provider: Host['provider']
  providerName: Host['providerName']
  /** Returns the names of all configured providers of a kind. */
  providerNames(kind: keyof ProviderKinds): readonly string[]
  /** Prints a line of the result to standard output. */
  print(text: string): void
  /** Prints a progress message to standard error. */
  tell(text: string): void
}

export type Probe = () => Promise<string | void> | string | void

/** The interface through which a plugin registers everything. */
export interface Host<N extends ServiceName = ServiceName, W extends ServiceName = ServiceName> {
  /**
   * Routes of this plugin. Logs and metrics carry its name. `ctx.state.session` is the caller.
   * @example
   * ```ts
   * host.router.get('/v1/hello', (ctx) => {
   *   ctx.body = { hello: ctx.state.session.role }
   * })
   * ```
   */
  readonly router: Router
  /**
   * Adds a route to `router` that returns rows, text or bytes. It behaves the same and is faster than a route with a
   * Koa context.
   * @param path literal, or with one parameter at the end: `/v1/template/:name`, or `/v1/file/{*file_id}`, which also
   *   matches an empty rest and slashes
   * @example
   * ```ts
   * host.route('get', '/v1/hello', async () => jsonAnswer({ hello: 'world' }))
   * ```
   */
  route(method: HandlerRoute['method'], path: string, handler: Handler): void
  /**
   * Handles the requests at a path that upgrade their connection to WebSocket. Such requests at other paths are ordinary ones.
   * @param path literal
   * @example
   * ```ts
   * const server = new WebSocketServer({ noServer: true, maxPayload: 65_536 }) // of the package ws
   * host.upgrade('/v1/hello', async ({ req, socket, head, identify }) => {
   *   const { role } = await identify()
   *   server.handleUpgrade(req, socket, head, (client) => client.send(`hello ${role}`))
   * })
   * ```
   */
  upgrade(path: string, handler: UpgradeHandler): void
  /**
   * Absolute path of the folder for the server's own files. Create a subfolder for the plugin there.
   * @example
   * ```ts
   * const folder = join(host.dataDir, 'guestbook')
   * ```
   */
  readonly dataDir: string
  /**
   * Whether this process does the plugin's work that no request asks for, such as sending queued messages or deleting what
   * has expired. Of several processes of one server, one does.
   */
  readonly background: boolean
  /**
   * Runs such work at intervals from the end of the start on, in that process. It never runs twice at the same time, and a
   * failure is logged. That the database is a standby is no failure. The server aborts the signal when it closes, and waits for
   * two seconds at most.
   * @param what for the log, as in `could not delete old entries; will retry`
   * @returns `run` runs the task now; if it is running already, once more afterwards
   */
  every(what: string, ms: number, task: (signal: AbortSignal) => Promise<void>): Pick<Periodic, 'run' | 'stop'>
  /**
   * Returns a function that calls `run` in one process of this server, whichever process calls it: for what is in the memory of a
   * process, such as a task that is running. Arguments and results are copied between processes.
   * @throws ServiceError 503 unavailable if `run` fails, takes longer than three seconds, or its process is being replaced
   * @example
   * ```ts
   * const stop = host.inOneProcess('stop', (task: string) => tasks.delete(task))
   * const wasRunning = await stop('import')
   * ```
   */
  inOneProcess<A, R>(name: string, run: (args: A) => R | Promise<R>): (args: A) => Promise<R>
  /**
   * Returns a service of the core, or of a plugin listed in `needs`.
   * @example
   * ```ts
   * const data = host.use('data')
   * ```
   */
  use<K extends N | 'log' | 'data' | 'operations'>(service: K): Services[K]
  /**
   * Returns a service listed in `wants` or `needs`; undefined when no loaded plugin offers it, or when it is not set up
   * yet. Plugins that want each other should call this after `setup`.
   * @example
   * ```ts
   * const files = host.find('filestore') // undefined without the plugin filestore
   * ```
   */
  find<K extends N | W>(service: K): Services[K] | undefined
  /**
   * Returns a configured provider of a kind, by default the default one.
   * @example
   * ```ts
   * const sms = await host.provider('sms')
   * await sms.send({ id, countryCode: '1', to: '5550100', message: 'Hi' }, signal)
   * ```
   */
  provider<K extends keyof ProviderKinds>(kind: K, name?: string): Promise<ProviderKinds[K]>
  /**
   * Returns the name of the default provider of a kind, e.g. to store it with a result: `providers.<kind>.default`, or
   * the only one configured. Returns undefined without a default; `provider(kind)` then throws.
   */
  providerName(kind: keyof ProviderKinds): string | undefined
  /** Returns the names of all configured providers of a kind. */
  providerNames(kind: keyof ProviderKinds): readonly string[]
  /** Returns why a provider could not work: it is not configured, or its `check` fails. Creates nothing. */
  providerProblem(kind: keyof ProviderKinds, name?: string): Promise<string | undefined>
  /**
   * Adds Koa middleware for all routes, after authentication and before routing. Any middleware sends every request
   * through Koa, which costs reads of single rows about a quarter of their throughput.
   * @example
   * ```ts
   * host.middleware(async (ctx, next) => {
   *   ctx.set('X-Guestbook', '1')
   *   await next()
   * })
   * ```
   */
  middleware(fn: Middleware): void
  /**
   * Adds an authenticator. They are tried in load order before a request without credentials becomes anonymous.
   * @example
   * ```ts
   * host.authenticator(({ header }) =>
   *   header('x-badge') === badge ? { role: 'staff', variables: new Map(), via: 'token' } : null)
   * ```
   */
  authenticator(fn: Authenticator): void
  /**
   * Disables authentication below this path, because the plugin authenticates these requests itself. Their session is
   * always anonymous.
   * @param prefix from the first to the last slash, e.g. `/v1/hooks/`
   * @throws Error for any other prefix
   * @example
   * ```ts
   * host.proves('/v1/hooks/')
   * ```
   */
  proves(prefix: string): void
  /**
   * Declares that the plugin's route at this path honours `Idempotency-Key`: repeating a request with the same key has
   * no further effect. Other routes refuse that header with 400 `not-supported` instead of ignoring it.
   * @param path literal, e.g. `/v1/orders`, or a prefix that ends with a slash
   * @param options.by `server` if the route runs one operation, or `once` of the service `data`, with the `callOf` its
   *   exchange: the server keeps the answer. Defaults to `route`
   * @example
   * ```ts
   * host.idempotent('/v1/orders', { by: 'server' })
   * ```
   */
  idempotent(path: string, options?: { readonly by?: 'route' | 'server' }): void
  /**
   * Adds a `type` to the JSON query API. The schema `args` types the arguments of `run`.
   * @example
   * ```ts
   * host.operation('count_entries', {
   *   admin: true,
   *   run: async () => jsonAnswer(await data.query('select count(*)::integer as entries from guestbook')),
   * })
   * ```
   */
  operation<const S extends Schema>(type: string, operation: Operation<S>): void
  /**
   * Adds a pure planner, which the workers import as well: its default export is `(shape, names) => Plan`.
   * @example
   * ```ts
   * host.planner('guestbook', new URL('./plan.js', import.meta.url))
   * ```
   */
  planner(name: string, module: URL): void
  /**
   * Links a page of this plugin at `/`.
   * @param options.panel whether the console shows it too, in a frame. Serve it with `staticPage`, because other pages
   *   cannot be framed
   * @example
   * ```ts
   * host.link('Guestbook', '/v1/guestbook', { panel: true })
   * ```
   */
  link(title: string, href: string, options?: { readonly panel?: boolean }): void
  /**
   * Sets the error body of this plugin's routes. Defaults to `{path, error, code}`.
   * @example
   * ```ts
   * host.formatError(({ code, message }) => ({ code, message }))
   * ```
   */
  formatError(fn: (error: ServiceError, session: Session | undefined) => unknown): void
  /**
   * Adds a probe to `/readyz`. A rejecting probe makes the server unready and appears there by name. A returned text
   * describes a degraded but ready state.
   * @example
   * ```ts
   * host.health('mailbox', () => (isFull ? 'degraded: the mailbox is full' : undefined))
   * ```
   */
  health(name: string, probe: Probe): void
  /**
   * Prometheus metrics. Names get the prefix `rowhouse_<plugin>_`.
   * @example
   * ```ts
   * const entries = host.metric.counter('entries_total', 'entries written')
   * entries.inc()
   * ```
   */
  readonly metric: {
    counter(name: string, help: string, labels?: readonly string[]): Counter
    /**
     * @param collect sets the values just before they are read
     * @param across how the values of several processes become one; defaults to `sum`
     */
    gauge(name: string, help: string, labels?: readonly string[], collect?: Collect, across?: Across): Gauge
    histogram(name: string, help: string, labels?: readonly string[], buckets?: number[]): Histogram
  }
  /**
   * Runs `fn` after every plugin is set up and before the first request.
   * @example
   * ```ts
   * host.onReady(() => worker.start())
   * ```
   */
  onReady(fn: () => Promise<void> | void): void
  /**
   * Runs `fn` when the server stops accepting requests; requests in progress continue.
   * @example
   * ```ts
   * host.onDrain(() => worker.pause())
   * ```
   */
  onDrain(fn: () => Promise<void> | void): void
  /**
   * Runs `fn` when no request is left, in reverse load order.
   * @example
   * ```ts
   * host.onClose(() => worker.stop())
   * ```
   */
  onClose(fn: () => Promise<void> | void): void
}

/** A provider: an implementation of one kind of external service. */
export interface Provider<K extends keyof ProviderKinds = keyof ProviderKinds, S extends Schema = Schema> {
  readonly kind: K
  /** Lower case letters, digits and hyphens. */
  readonly name: string
  /** Range of versions of the extension API that it works with, as in a plugin. */
  readonly api?: ApiRange
  readonly config?: S
  create(config: Infer<S>, context: ProviderContext): ProviderKinds[K] | Promise<ProviderKinds[K]>
  /**
   * Fails if what `create` makes could not work here. Cheap, because health checks call it, and leaves nothing. `rowhouse
   * check` calls it instead of `create`.
   */
  check?(config: Infer<S>, context: ProviderContext): Promise<void>
}
export interface ProviderContext {
  readonly log: Logger
  /** Absolute path of the folder for the server's own files. */
  readonly dataDir: string
}

/** Types a plugin by its configuration schema and needs. Returns it unchanged. */
export function definePlugin<
  const S extends Schema = { readonly type: 'object' },
  const N extends ServiceName = never,
  const K extends string = string,
  const W extends ServiceName = never,
>(plugin: Plugin<S, N, K, W>): Plugin<S, N, K, W> {
  return plugin
}

/** Types a provider by its kind and its configuration schema. Returns it unchanged. */
export function defineProvider<K extends keyof ProviderKinds, const S extends Schema = { readonly type: 'object' }>(
  provider: Provider<K, S>,
): Provider<K, S> {
  return provider
}
