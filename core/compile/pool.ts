import { Piscina } from 'piscina'
import type { Logger } from 'pino'
import { ServiceError, serviceError } from '../errors.js'
import { cpuClock } from './cpu-clock.js'
import type { WorkerAnswer, WorkerTask } from './worker.js'

export interface PoolConfig {
  readonly log: Logger
  readonly threads: number
  /** CPU time of the worker, from the moment that it holds the snapshot: other load on the machine does not count. */
  readonly timeoutMs: number
  /** For a worker to start and to read the snapshot; at least as long may a compilation take that uses no CPU time. */
  readonly warmUpMs: number
  readonly planners: ReadonlyMap<string, URL>
}

/** A planner's module cannot be imported: no request of its plugin could ever be compiled. */
export class UnloadablePlanner extends Error {}

/** A snapshot for the workers. */
export interface Sendable {
  readonly id: string
  /** @param held ids of snapshots that a worker has: what one of them has too may be left out */
  encoded(held: readonly string[]): Uint8Array<ArrayBuffer>
}

/** Compiles in worker threads, so that a hostile request cannot hold up the others; each has a deadline and a memory cap. */
export class CompilePool {
  private readonly config: PoolConfig
  private readonly pool: Piscina<WorkerTask, WorkerAnswer>

  constructor(config: PoolConfig, snapshotBytes: number) {
    this.config = config
    this.pool = new Piscina<WorkerTask, WorkerAnswer>({
      filename: new URL('./worker.js', import.meta.url).href,
      minThreads: config.threads,
      maxThreads: config.threads,
      maxQueue: 1000,
      workerData: { planners: Object.fromEntries([...config.planners].map(([name, url]) => [name, url.href])) },
      resourceLimits: {
        maxOldGenerationSizeMb: Math.ceil(256 + (4 * snapshotBytes) / 1048576),
        // V8 keeps what the young generation has grown to; a plan needs little.
        maxYoungGenerationSizeMb: 12,
      },
    })
    // A worker that fails when its task has been given up: the pool replaces it, and nobody waits for it.
    this.pool.on('error', (error: Error) => config.log.error({ err: error }, 'a compile worker failed'))
  }

  /**
   * Waits until a worker has started, imported all planners and holds the snapshot.
   * @throws UnloadablePlanner
   * @throws ServiceError 503 when that takes too long
   */
  async warmUp(catalog: Sendable): Promise<void> {
    await this.run(undefined, catalog, true)
  }

  /** @throws ServiceError of the planner, or 503 when the task did not finish in time or the pool is flooded */
  async run(task: WorkerTask['task'], catalog: Sendable, patient = false): Promise<unknown> {
    const { warmUpMs } = this.config
    const timeoutMs = patient ? warmUpMs : this.config.timeoutMs
    const started = new Int32Array(new SharedArrayBuffer(4))
    const abort = new AbortController()
    const waitingSince = performance.now()
    let cpuMs: (() => number) | undefined
    let startedAt = 0
    const timer = setInterval(
      () => {
        const now = performance.now()
        const thread = Atomics.load(started, 0)
        if (thread === 0) {
          if (now - waitingSince > warmUpMs) abort.abort()
        } else if (!cpuMs) {
          cpuMs = cpuClock(thread)
          startedAt = now
        } else if (cpuMs() > timeoutMs || now - startedAt > Math.max(warmUpMs, 10 * timeoutMs)) abort.abort()
      },
      Math.max(10, Math.ceil(timeoutMs / 5)),
    )
    const ask = (more?: Uint8Array<ArrayBuffer>) =>
      this.pool.run(
        { task, catalogId: catalog.id, started, catalog: more },
        // It moves there: a copy would be held here until V8 looks for garbage.
        { signal: abort.signal, transferList: more ? [more.buffer] : [] },
      )
    let answer: WorkerAnswer
    try {
      answer = await ask()
      if ('lacking' in answer) answer = await ask(catalog.encoded(answer.lacking))
      // Another worker was asked, which has not what the first one has.
      if ('lacking' in answer) answer = await ask(catalog.encoded([]))
    } catch (cause) {
      const message = abort.signal.aborted
        ? 'the request could not be compiled in time (compile.timeoutMs)'
        : `the request could not be compiled: ${messageOf(cause)}`
      throw serviceError('compile-failed', message, '$', { cause, retryAfter: 1 })
    } finally {
      clearInterval(timer)
    }
    if ('result' in answer) return answer.result
    if ('lacking' in answer) throw new Error('a worker did not keep the snapshot')
    if ('unloadable' in answer) throw new UnloadablePlanner(answer.unloadable)
    if ('bug' in answer) throw new Error(`a planner failed: ${answer.bug}`)
    const { status, code, message, path } = answer.refused
    throw new ServiceError(status, code, message, path)
  }

  async close(): Promise<void> {
    await this.pool.destroy()
  }
}

/** What happened to a task that has no answer, for clients: the worker's own words may hold addresses of this machine. */
function messageOf(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : ''
  if (text.includes('queue')) return 'too many requests wait for compile.threads'
  return 'the compile worker ended'
}
