import { traced } from '../observe/timing.js'
import {
  type AnyTask,
  type Compiled,
  importPlanner,
  isForeign,
  perform,
  type PlannerModule,
  type PlannerSource,
  type Preparation,
  type Task,
} from '../compile/compile.js'
import type { CompilePool, PoolConfig, Sendable } from '../compile/pool.js'
import type { Metrics } from '../observe/metrics.js'
import type { Eventual } from '../deadline.js'
import type { Op } from '../ir.js'
import type { Names } from '../plan/names.js'
import { Shares } from './caller-limits.js'
import type { Siblings } from '../processes/siblings.js'
import { createNewQueryLimit, type Limits } from './request-limits.js'
import type { Snapshot } from './snapshots.js'

export interface PlansOptions extends Omit<PoolConfig, 'planners'> {
  readonly metrics: Metrics
  readonly limits: Pick<Limits, 'newQueries'>
  readonly siblings?: Siblings | undefined
}

/** Maximum time to wait for a turn. */
const WAIT_MS = 30_000
/** Maximum number of compilations of a caller at a time. */
const COMPILATIONS = 2
/** Short answers that a plan needs after a long one until another short one is likely. */
const PROOF = 100

const HIT = { by: 'cache' }
const WORKER = { by: 'worker' }
const IN_PROCESS = { by: 'process' }

/** Compiles requests once per snapshot: in a worker as soon as one is warm. */
export class Plans {
  private readonly compilations: ReturnType<Metrics['counter']>
  private readonly chargeNewQuery: ReturnType<typeof createNewQueryLimit>
  /** Plans compiled by this instance. No other plan is executed. */
  private readonly branded = new WeakSet<Compiled>()
  /** Plans that were found in the cache. */
  private readonly found = new WeakSet<Compiled>()
  /** The number of short answers in a row; negative while more are needed after a long one. */
  private readonly shortAnswers = new WeakMap<Compiled, number>()
  private sources: ReadonlyMap<string, PlannerSource> = new Map()
  private readonly planners = new Map<string, PlannerModule>()
  private opened: CompilePool | undefined
  /** Set when a worker is warm. */
  private pool: CompilePool | undefined
  private warming: Promise<void> | undefined
  private closed = false
  /** Planners of front ends that prepare their requests. */
  private readonly preparing = new Set<string>()
  /** Turns in the queue of the workers, so that many new shapes of one caller do not hold up those of others. */
  private readonly turns: Shares

  constructor(private readonly options: PlansOptions) {
    this.turns = new Shares({
      most: ({ caller }) => (caller === undefined ? Infinity : COMPILATIONS),
      // One more than run, so that no worker waits for the main thread.
      total: options.threads + 1,
      waitMs: WAIT_MS,
      what: 'requests of this caller are being compiled',
      allTaken: 'requests of other callers are being compiled (compile.threads)',
    })
    this.chargeNewQuery = createNewQueryLimit(options.limits.newQueries, options.metrics, options.siblings?.count)
    this.compilations = options.metrics.counter('compilations_total', 'Requests by the source of their plan.', ['by'])
    options.metrics.gauge(
      'compile_tasks',
      'Compilations in worker threads by state. waiting: compilations that wait for a thread.',
      ['state'],
      (gauge) => {
        for (const [state, count] of Object.entries(this.load)) gauge.set({ state }, count)
      },
    )
  }

  /** Sets the planners of front ends. Imports those that the main thread always needs. */
  async use(sources: ReadonlyMap<string, PlannerSource>): Promise<void> {
    this.sources = sources
    for (const [name, { lifts }] of sources) if (lifts()) await this.importPlanner(name)
  }

  /** Starts the workers. Until one is warm, misses are compiled in the main thread if their planner is loaded. */
  start(current: () => Sendable): void {
    this.warming = this.options.threads > 0 ? this.openPool(current) : this.importAll()
    this.warming?.catch(() => {})
  }

  /** Resolves when a worker is warm, or when none could start. @throws UnloadablePlanner */
  async warm(): Promise<void> {
    await this.warming
  }

  /** Number of compilations in workers by state. */
  get load(): CompilePool['load'] {
    return this.opened?.load ?? { busy: 0, waiting: 0 }
  }

  async close(): Promise<void> {
    this.closed = true
    await this.opened?.close()
  }

  /** Returns the compiled plan. @param caller charged for a cache miss; absent: no charge */
  compiled(snapshot: Snapshot, task: Task, caller?: string): Eventual<Compiled> {
    const key = JSON.stringify([task.role, task.planner, task.form, task.shape])
    const hit = snapshot.cache.get(key)
    if (hit) {
      this.compilations.inc(HIT)
      this.found.add(hit)
      return hit
    }
    return this.compileOnce(snapshot, task, key, caller)
  }

  private async compileOnce(
    snapshot: Snapshot,
    task: Task,
    key: string,
    caller: string | undefined,
  ): Promise<Compiled> {
    const compile = async () => {
      // What was prepared has been charged for its length.
      this.chargeNewQuery(caller, this.preparing.has(task.planner) ? 1 : key.length)
      return (await this.work(snapshot, task)) as Compiled
    }
    const made = await this.inTurn(snapshot, task.role, caller, () => snapshot.cache.getOrCompile(key, compile, caller))
    this.branded.add(made)
    return made
  }

  prepared(snapshot: Snapshot, task: Preparation, caller: string | undefined, patient: boolean): Promise<unknown> {
    const key = JSON.stringify([task.role, task.planner, task.shape])
    const known = snapshot.prepared.get(key)
    if (known !== undefined) return Promise.resolve(known)
    const prepare = async () => {
      this.chargeNewQuery(caller, key.length)
      return this.work(snapshot, task, patient)
    }
    this.preparing.add(task.planner)
    return this.inTurn(snapshot, task.role, caller, () => snapshot.prepared.getOrCompile(key, prepare, caller))
  }

  /** Returns the plan of a request, authorized for the role. It is not cached. */
  async authorized(snapshot: Snapshot, task: Omit<Task, 'form'>): Promise<Op> {
    return (await this.work(snapshot, { ...task, form: 'plan' })) as Op
  }

  /** Returns whether a plan was requested repeatedly, so that a prepared statement on each connection is worthwhile. */
  isRepeated(plan: Compiled): boolean {
    return this.found.has(plan) && !plan.statements.some(({ fresh }) => fresh)
  }

  /** Returns whether a plan was ever found in the cache, rather than compiled for its only request. */
  isCached(plan: Compiled): boolean {
    return this.found.has(plan)
  }

  /** Returns whether the answers of a plan are likely to be short. */
  isShort(plan: Compiled): boolean {
    return this.answersInARow(plan) > 0
  }

  recordLength(plan: Compiled, isLong: boolean): void {
    this.shortAnswers.set(plan, isLong ? -PROOF : this.answersInARow(plan) + 1)
  }

  assertBranded(plan: Compiled): void {
    if (!this.branded.has(plan)) throw new Error('cannot run a plan that was not authorized here')
  }

  /** Plans synchronously, without authorizing. The planner must lift requests. */
  plan(planner: string, shape: unknown, names: Names): Op {
    return (this.planners.get(planner) as PlannerModule).default(shape as never, names)
  }

  private answersInARow(plan: Compiled): number {
    return this.shortAnswers.get(plan) ?? 0
  }

  /** Waits for the caller's turn before it compiles, or shares what another caller compiles. */
  private async inTurn<T>(
    snapshot: Snapshot,
    role: string,
    caller: string | undefined,
    compile: () => Promise<T>,
  ): Promise<T> {
    if (!this.pool || !snapshot.sendable) return compile()
    const release = await this.turns.take({ role, caller })
    return compile().finally(release)
  }

  private async work(snapshot: Snapshot, task: AnyTask, patient = false): Promise<unknown> {
    // Workers cannot see a snapshot inside a transaction.
    if (!this.pool && snapshot.sendable && !this.planners.has(task.planner)) await this.warming
    const { pool } = this
    const sendable = pool && snapshot.sendable
    const how = sendable ? WORKER : IN_PROCESS
    this.compilations.inc(how)
    const attributes = { 'rowhouse.planner': task.planner, 'rowhouse.by': how.by }
    return traced(
      () => ({ name: 'compile', attributes }),
      async () => {
        if (pool && sendable) return pool.run(task, sendable, patient)
        const planner = this.planners.get(task.planner) ?? (await this.importPlanner(task.planner))
        return perform(task, planner, snapshot.catalog)
      },
    )
  }

  private async openPool(current: () => Sendable): Promise<void> {
    const { CompilePool, UnloadablePlanner } = await import('../compile/pool.js')
    const planners = new Map([...this.sources].map(([name, { module }]) => [name, module]))
    const sendable = current()
    if (this.closed) return
    this.opened = new CompilePool({ ...this.options, planners }, sendable.encoded([]).byteLength)
    await this.opened.warmUp(sendable).catch((error: unknown) => {
      if (error instanceof UnloadablePlanner) throw error
      if (!this.closed) this.options.log.error({ err: error }, 'no compile worker could start')
    })
    if (!this.closed) this.pool = this.opened
  }

  private async importAll(): Promise<void> {
    for (const [name, { module }] of this.sources) {
      if (isForeign(module.href) && !this.planners.has(name)) await this.importPlanner(name)
    }
  }

  /** Imports a planner on demand, because it may load a library that only the workers need. */
  private async importPlanner(name: string): Promise<PlannerModule> {
    const { module } = this.sources.get(name) as PlannerSource
    const planner = await importPlanner(name, module.href)
    this.planners.set(name, planner)
    return planner
  }
}
