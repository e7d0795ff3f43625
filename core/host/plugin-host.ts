import type Router from '@koa/router'
import type { Middleware } from 'koa'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { PlannerSource } from '../compile/compile.js'
import type { Operation } from '../data/operations.js'
import { type ServiceError, unavailable } from '../errors.js'
import type { Exchange, HandlerRoute } from '../http/exchange.js'
import { respond } from '../http/respond.js'
import type { Link } from '../http/page.js'
import { createRouter, tooLate } from '../http/router.js'
import type { Authenticator } from '../http/admission.js'
import type { UpgradeRoute } from '../http/upgrade.js'
import { Counter, createGauge, Histogram } from '../observe/metrics.js'
import type { Siblings } from '../processes/siblings.js'
import { Periodic } from '../queue/periodic.js'
import type { Session } from '../session.js'
import { unknownKey } from './check-shape.js'
import type { Hook } from './lifecycle.js'
import { CORE_SERVICES } from './load-order.js'
import type { Host, Plugin, Probe, ServiceName, Services } from './plugin.js'
import type { Providers } from './providers.js'

export type ErrorFormat = (error: ServiceError, session: Session | undefined) => unknown

/** Everything that plugins have registered. One per server. */
export interface Shared {
  /** What runs: `setup` of the plugins, then their `ready` hooks, then the server. Some things can be added early only. */
  stage: 'setup' | 'ready' | 'started'
  readonly log: Logger
  readonly metrics: Registry
  readonly providers: Providers
  /** Absolute path of the folder for the server's own files. */
  readonly dataDir: string
  readonly background: boolean
  readonly siblings: Siblings
  /** `data` and `operations`, then the return values of `setup` by plugin name. */
  readonly services: Map<string, unknown>
  /** Routers by plugin, in load order. */
  readonly routers: Map<string, Router>
  /** Direct routes by plugin; its router contains them as well. */
  readonly handlers: Map<string, readonly HandlerRoute[]>
  /** Error formats by plugin. */
  readonly errorFormats: Map<string, ErrorFormat>
  readonly middlewares: Middleware[]
  readonly authenticators: Authenticator[]
  /** Path prefixes where a plugin authenticates requests itself. */
  readonly proofs: { readonly plugin: string; readonly prefix: string }[]
  /** Routes for upgrades of connections, by path. */
  readonly upgrades: Map<string, UpgradeRoute>
  /** What honours `Idempotency-Key`, by path. */
  readonly idempotent: Map<string, 'route' | 'server'>
  /** Operations by `type`. */
  readonly operations: Map<string, Operation>
  readonly links: (Link & { readonly plugin: string })[]
  /** Planners by name. */
  readonly planners: Map<string, PlannerSource>
  /** Health probes by name. The name starts with the plugin's name. */
  readonly probes: Map<string, Probe>
  readonly hooks: { readonly ready: Hook[]; readonly drain: Hook[]; readonly close: Hook[] }
}

/**
 * Creates an empty registry. The server adds `data` and `operations` to `services` before the first plugin is set up.
 */
export function createShared(
  base: Pick<Shared, 'log' | 'metrics' | 'providers' | 'dataDir' | 'background' | 'siblings'>,
): Shared {
  return {
    ...base,
    stage: 'setup',
    services: new Map(),
    routers: new Map(),
    handlers: new Map(),
    errorFormats: new Map(),
    middlewares: [],
    authenticators: [],
    proofs: [],
    upgrades: new Map(),
    idempotent: new Map(),
    operations: new Map(),
    links: [],
    planners: new Map(),
    probes: new Map(),
    hooks: { ready: [], drain: [], close: [] },
  }
}

type Uses = Pick<Plugin, 'name' | 'needs' | 'wants'>

/** Creates the interface of the server for one plugin. */
export function createHost(plugin: Uses, shared: Shared): Host {
  const { name } = plugin
  const owner = `plugin "${name}"`
  const log = shared.log.child({ plugin: name })
  const router = createRouter()
  shared.routers.set(name, router)
  const handlers: HandlerRoute[] = []
  shared.handlers.set(name, handlers)
  let lifts = false
  const full = (metric: string) => `rowhouse_${name.replaceAll('-', '_')}_${metric}`
  const metric = (short: string, help: string, labels: readonly string[] = []) => ({
    name: full(short),
    help,
    labelNames: [...labels],
    registers: [shared.metrics],
  })

  const inSetup = (what: string) => {
    if (shared.stage !== 'setup') throw tooLate(name, what, '"setup"')
  }
  const untilStarted = (what: string) => {
    if (shared.stage === 'started') throw tooLate(name, what)
  }

  return {
    router,
    route(method, path, handler) {
      untilStarted('a route')
      handlers.push({ method, path, handler })
      router[method](path, async (ctx) => respond(ctx, await handler(ctx as unknown as Exchange)))
    },
    upgrade(path, handler) {
      untilStarted('an upgrade')
      add(shared.upgrades, path, { plugin: name, path, handler }, `${owner}: an upgrade at "${path}"`)
    },
    dataDir: shared.dataDir,
    background: shared.background,
    every(what, ms, task) {
      untilStarted('periodic work')
      const periodic = new Periodic(ms, task, (err) => log.warn({ err }, `could not ${what}; will retry`))
      if (shared.background) {
        if (shared.stage === 'ready') periodic.start()
        else shared.hooks.ready.push({ owner, run: () => void periodic.start() })
      }
      shared.hooks.close.push({ owner, run: () => periodic.stop() })
      return periodic
    },
    inOneProcess: <A, R>(what: string, run: (args: A) => R | Promise<R>) => {
      inSetup('what one process does')
      return inFirst(shared.siblings, `${name} ${what}`, run)
    },
    use: <K extends ServiceName>(service: K) =>
      (service === 'log' ? log : findService(plugin, service, shared.services)) as Services[K],
    find: <K extends ServiceName>(service: K) =>
      (service === 'log' ? log : findWanted(plugin, service, shared.services)) as Services[K] | undefined,
    provider: (kind, which) => shared.providers.get(kind, which),
    providerName: (kind) => shared.providers.defaultName(kind),
    providerNames: (kind) => shared.providers.names(kind),
    providerProblem: (kind, which) => shared.providers.problem(kind, which),
    middleware: (fn) => {
      inSetup('middleware')
      shared.middlewares.push(fn)
      log.info(
        'middleware sends every request through Koa, which costs reads of single rows about a quarter of their throughput',
      )
    },
    authenticator: (fn) => {
      untilStarted('an authenticator')
      shared.authenticators.push(fn)
    },
    proves: (prefix) => {
      inSetup('a path that proves its callers')
      if (!/^\/([^/]+\/)+$/.test(prefix)) throw new Error(`${owner}: "${prefix}" is not a path such as "/v1/hooks/"`)
      shared.proofs.push({ plugin: name, prefix })
    },
    idempotent: (path, { by = 'route' } = {}) => {
      inSetup('an idempotent path')
      shared.idempotent.set(path, by)
    },
    operation(type, typed) {
      untilStarted('an operation')
      // The registry passes arguments that fit the schema.
      const operation = typed as unknown as Operation
      const unknown = unknownKey(operation, OPERATION_KEYS)
      if (unknown !== undefined) throw new Error(`${owner}: operation "${type}" ${unknown}`)
      add(shared.operations, type, operation, `${owner}: operation "${type}"`)
      lifts ||= operation.lift !== undefined
    },
    link: (title, href, { panel } = {}) => void shared.links.push({ plugin: name, title, href, panel }),
    planner: (planner, module) => {
      inSetup('a planner')
      add(shared.planners, planner, { module, lifts: () => lifts }, `${owner}: planner "${planner}"`)
    },
    formatError: (fn) => {
      inSetup('an error format')
      add(shared.errorFormats, name, fn, `${owner}: an error format`)
    },
    health: (probe, fn) => {
      const key = probe === name ? name : `${name}.${probe}`
      add(shared.probes, key, fn, `${owner}: health probe "${probe}"`)
    },
    metric: {
      counter: (...args) => new Counter(metric(...args)),
      gauge: (short, help, labels, collect, across = 'sum') =>
        createGauge({ ...metric(short, help, labels), aggregator: across }, collect),
      histogram: (short, help, labels, buckets) =>
        new Histogram({ ...metric(short, help, labels), ...(buckets === undefined ? {} : { buckets }) }),
    },
    onReady: (run) => {
      untilStarted('a ready hook')
      shared.hooks.ready.push({ owner, run })
    },
    onDrain: (run) => void shared.hooks.drain.push({ owner, run }),
    onClose: (run) => void shared.hooks.close.push({ owner, run }),
  }
}

const OPERATION_KEYS = [
  'admin',
  'explains',
  'formats',
  'args',
  'templatable',
  'referable',
  'lift',
  'resolve',
  'answer',
  'undoable',
  'ifMatch',
  'version2',
  'timeoutMs',
  'run',
] as const satisfies readonly (keyof Operation)[]

/** Finds a service. The compiler also rejects undeclared needs; this check is for plugins without types. */
function findService({ name, needs }: Uses, service: string, services: Shared['services']): unknown {
  if (!CORE_SERVICES.includes(service) && !isNamed(service, needs))
    throw new Error(`plugin "${name}" uses "${service}" without listing it in "needs"`)
  const found = services.get(service)
  if (found === undefined && CORE_SERVICES.includes(service))
    throw new Error(`plugin "${name}" uses "${service}", which does not exist because no plugin needs a database`)
  if (found === undefined) throw new Error(`plugin "${name}" uses "${service}", which offers no service`)
  return found
}

/** Finds an optional service. In a cycle of wants it may be set up later than the plugin that asks. */
function findWanted({ name, needs, wants }: Uses, service: string, services: Shared['services']): unknown {
  if (!isNamed(service, needs) && !isNamed(service, wants))
    throw new Error(`plugin "${name}" uses "${service}" without listing it in "wants"`)
  return services.get(service)
}

const isNamed = (service: string, names: readonly string[] = []): boolean => names.includes(service)

function add<T>(map: Map<string, T>, key: string, value: T, what: string): void {
  if (map.has(key)) throw new Error(`${what} already exists`)
  map.set(key, value)
}

/** The first process is always there, except while it is being replaced. */
function inFirst<A, R>(siblings: Siblings, question: string, run: (args: A) => R | Promise<R>) {
  const { number = 1 } = siblings
  if (siblings.count === 1) return async (args: A): Promise<R> => run(args)
  siblings.answer(question, async (args: A) => (number === 1 ? { result: await run(args) } : undefined))
  return async (args: A): Promise<R> => {
    const answers = (await siblings.ask(question, args)) as readonly ({ readonly result: R } | undefined)[]
    const answer = answers.find((each) => each !== undefined)
    if (!answer) throw unavailable(undefined, 'the process that does this did not answer; send the request again')
    return answer.result
  }
}
