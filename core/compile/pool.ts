import { readFileSync } from 'node:fs'
import type { Logger } from 'pino'
import { Piscina } from 'piscina'
import { ServiceError, serviceError } from '../errors.js'
import type { WorkerAnswer, WorkerTask } from './worker.js'

export interface PoolConfig {
  readonly log: Logger
  /** Number of worker threads. 0 compiles in the main thread. */
  readonly threads: number
  /** Maximum CPU time of the worker, counted from when it holds the snapshot, so that other load does not count. */
  readonly timeoutMs: number
  readonly planners: ReadonlyMap<string, URL>
}

/** Maximum time for a worker to start and read the snapshot. A compilation without CPU use also gets at least this time. */
const WARM_UP_MS = 30_000

/** Reports a planner whose module cannot be imported, so that no request of its plugin could be compiled. */
export class UnloadablePlanner extends Error {}

/** A snapshot that can be sent to workers. */
export interface Sendable {
  readonly id: string
  /** @param held ids of the worker's snapshots; parts that one of them contains can be omitted */
  encoded(held: readonly string[]): Uint8Array<ArrayBuffer>
}

/** Compiles in worker threads with a deadline and a memory limit, so that hostile requests cannot delay others. */
export class CompilePool {
  private readonly pool: Piscina<WorkerTask, WorkerAnswer>
  private running = 0

  constructor(
    private readonly config: PoolConfig,
    snapshotBytes: number,
  ) {
    this.pool = new Piscina<WorkerTask, WorkerAnswer>({
      filename: new URL('./worker.js', import.meta.url).href,
      minThreads: config.threads,
      maxThreads: config.threads,
      maxQueue: 1000,
      workerData: { planners: Object.fromEntries([...config.planners].map(([name, url]) => [name, url.href])) },
      resourceLimits: {
        maxOldGenerationSizeMb: Math.ceil(256 + (4 * snapshotBytes) / 1048576),
        // V8 never shrinks the young generation, and a plan needs little memory.
        maxYoungGenerationSizeMb: 12,
      },
    })
    // A worker may fail after its task was abandoned. The pool replaces it.
    this.pool.on('error', (error: Error) => config.log.error({ err: error }, 'a compile worker failed'))
  }

  /**
   * Waits until a worker has started, imported all planners and received the snapshot.
   * @throws UnloadablePlanner
   * @throws ServiceError 503 after the timeout
   */
  async warmUp(catalog: Sendable): Promise<void> {
    await this.run(undefined, catalog, true)
  }

  /** @throws ServiceError of the planner, or 503 when the task timed out or the queue is full */
  async run(task: WorkerTask['task'], catalog: Sendable, patient = false): Promise<unknown> {
    const timeoutMs = patient ? WARM_UP_MS : this.config.timeoutMs
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
          if (now - waitingSince > WARM_UP_MS) abort.abort()
        } else if (!cpuMs) {
          cpuMs = cpuClock(thread)
          startedAt = now
        } else if (cpuMs() > timeoutMs || now - startedAt > Math.max(WARM_UP_MS, 10 * timeoutMs)) abort.abort()
      },
      Math.max(10, Math.ceil(timeoutMs / 5)),
    )
    const ask = (more?: Uint8Array<ArrayBuffer>) =>
      this.pool.run(
        { task, catalogId: catalog.id, started, catalog: more },
        // Transfers the buffer; a copy would stay in memory here until the next garbage collection.
        { signal: abort.signal, transferList: more ? [more.buffer] : [] },
      )
    let answer: WorkerAnswer
    this.running++
    try {
      answer = await ask()
      if ('lacking' in answer) answer = await ask(catalog.encoded(answer.lacking))
      // A different worker answered, which lacks what the first one has.
      if ('lacking' in answer) answer = await ask(catalog.encoded([]))
    } catch (cause) {
      const message = abort.signal.aborted
        ? 'the request could not be compiled in time (compile.timeoutMs)'
        : `the request could not be compiled: ${messageOf(cause)}`
      throw serviceError('compile-failed', message, '$', { cause, retryAfter: 1 })
    } finally {
      this.running--
      clearInterval(timer)
    }
    if ('result' in answer) return answer.result
    if ('lacking' in answer) throw new Error('a worker lost the snapshot')
    if ('unloadable' in answer) throw new UnloadablePlanner(answer.unloadable)
    if ('bug' in answer) throw new Error(`a planner failed: ${answer.bug}`)
    const { status, code, message, path, missing, denied } = answer.refused
    throw new ServiceError(status, code, message, path, { missing, denied })
  }

  /** Number of compilations by state. */
  get load(): { readonly busy: number; readonly waiting: number } {
    const waiting = this.pool.queueSize
    return { busy: this.running - waiting, waiting }
  }

  async close(): Promise<void> {
    await this.pool.destroy()
  }
}

/** Returns the reason for clients. The worker's own message may reveal details of this machine. */
function messageOf(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : ''
  if (text.includes('queue')) return 'too many requests wait for compile.threads'
  return 'the compile worker ended'
}

/**
 * Measures the CPU time of a thread of this process from now on, in milliseconds. On Linux it reads the time of the
 * thread. Elsewhere it returns the smaller of two upper bounds: the CPU time of the process, and the elapsed time.
 * @param thread Linux thread id; -1 when unknown
 */
export function cpuClock(thread: number): () => number {
  const start = threadCpuMs(thread)
  const wallStart = performance.now()
  const processStart = process.cpuUsage()
  return () => {
    const now = threadCpuMs(thread)
    if (start !== undefined && now !== undefined) return now - start
    const { user, system } = process.cpuUsage(processStart)
    return Math.min(performance.now() - wallStart, (user + system) / 1000)
  }
}

function threadCpuMs(thread: number): number | undefined {
  if (thread < 0) return undefined
  try {
    const [ns] = readFileSync(`/proc/self/task/${thread}/schedstat`, 'utf8').split(' ')
    return Number(ns) / 1e6
  } catch {
    return undefined
  }
}
