import cluster, { type Worker } from 'node:cluster'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { returnUntaken } from './handover.js'
import { memoryLimit } from './machine.js'
import { serviceManager } from './service-manager.js'
import { endAsked } from './signals.js'
import { PLACE, type Place, type ToProcess, type ToSupervisor } from './siblings.js'

/** Delay before a process that ended is replaced, in milliseconds. It doubles with each end within a minute. */
const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 30_000
const STABLE_MS = 60_000
/** Maximum time for answers of the processes, in milliseconds. */
const ANSWER_MS = 3000
/** How often processes are asked whether they are alive, and how many answers in a row may be missing. */
const ALIVE_EVERY_MS = 5000
const MAX_MISSED = 6
/** Time for a process to end after its own limit, in milliseconds. */
const GRACE_MS = 5000
/** Part of the memory limit for the JavaScript heaps of all processes. The rest is for buffers and threads. */
const HEAP_PART = 0.5

interface Process {
  readonly number: number
  readonly worker: Worker
  readonly startedAt: number
  /** Resolves with the exit code; null after a signal. */
  readonly ended: Promise<number | null>
  /** Resolves with true when it serves requests, with false when it ended before. */
  readonly served: Promise<boolean>
  serves: boolean
  shutdownTimeoutMs: number
  missed: number
}

/**
 * Runs the same command in several processes that share its ports. Replaces those that end. SIGHUP replaces all, one after
 * the other; SIGTERM and SIGINT end all.
 * @returns the exit code
 */
export async function supervise(count: number, log: Logger): Promise<number> {
  // A process makes its unix socket accessible once it listens.
  const umask = process.umask(0o177)
  const limit = memoryLimit()
  const heap = limit === undefined ? [] : [`--max-old-space-size=${megabytes((limit * HEAP_PART) / count)}`]
  cluster.setupPrimary({ serialization: 'advanced', execArgv: [...process.execArgv, ...heap] })
  /** The process of each number, which may still be starting. */
  const running = new Map<number, Process>()
  /** Those that have not ended. */
  const alive = new Set<Process>()
  const replacing = new Map<number, Promise<Process | undefined>>()
  const questions = createQuestions()
  const server = randomUUID()
  const manager = serviceManager(log)
  let restarts = 0
  let isEnding = false
  let isReplacement = false
  const ending = endAsked(() => {
    for (const { worker } of alive) worker.process.kill('SIGKILL')
  }).then((by) => {
    isEnding = true
    log.info({ by, processes: alive.size }, 'ending all processes')
    void manager.stopping()
  })

  const unknownNode = () =>
    log.warn(
      { node: process.version },
      'this Node passes connections in an unknown way: those that a process has not taken when it ends are lost',
    )

  function start(number: number): Process {
    const place: Place = { number, count, server, umask, isReplacement }
    const worker = cluster.fork({ [PLACE]: JSON.stringify(place) })
    const handBack = returnUntaken(worker, unknownNode)
    let isServing: (serves: boolean) => void
    const served = new Promise<boolean>((resolve) => (isServing = resolve))
    const ended = new Promise<number | null>((resolve) => {
      worker.on('exit', (code: number | null) => {
        isServing(false)
        alive.delete(started)
        handBack()
        questions.gone(worker)
        resolve(code)
      })
    })
    const started: Process = {
      number,
      worker,
      startedAt: performance.now(),
      ended,
      served,
      serves: false,
      shutdownTimeoutMs: 0,
      missed: 0,
    }
    alive.add(started)
    // The channel may break just before the process ends.
    worker.on('error', () => {})
    worker.on('message', (message: ToSupervisor) => {
      if (message.rowhouse === 'ready') {
        started.serves = true
        started.shutdownTimeoutMs = message.shutdownTimeoutMs
        isServing(true)
      } else if (message.rowhouse === 'ask') {
        // Those that are still starting do not answer yet.
        const serving = [...running.values()].filter((each) => each.serves || each === started)
        void questions.ask(message.question, message.args, serving).then((values) => {
          const all = message.question === 'metrics' ? [...values, ownMetrics(serving.length, restarts)] : values
          send(worker, { rowhouse: 'answers', id: message.id, values: all })
        })
      } else if (message.rowhouse === 'answer') questions.answered(worker, message)
    })
    return started
  }

  /** Keeps one process running under a number until the end. */
  async function keep(first: Process): Promise<void> {
    const { number } = first
    let delayMs = FIRST_DELAY_MS
    for (let current = first; ;) {
      running.set(number, current)
      const code = await current.ended
      const next = await replacing.get(number)
      if (next !== undefined) {
        current = next
        continue
      }
      running.delete(number)
      if (isEnding) return
      delayMs = performance.now() - current.startedAt > STABLE_MS ? FIRST_DELAY_MS : delayMs
      log.error({ process: number, pid: current.worker.process.pid, code, delayMs }, 'a process ended; replacing it')
      await Promise.race([sleep(delayMs), ending])
      if (isEnding) return
      restarts++
      delayMs = Math.min(2 * delayMs, MAX_DELAY_MS)
      current = start(number)
    }
  }

  async function reload(): Promise<void> {
    if (isEnding) return
    await manager.reloading()
    const problem = await roll()
    if (!isEnding) await manager.ready(problem)
  }

  /**
   * Starts a replacement for each process, and ends the process once the replacement serves requests.
   * @returns why not all are replaced
   */
  async function roll(): Promise<string | undefined> {
    log.info({ processes: count }, 'replacing all processes')
    for (let number = 1; number <= count; number++) {
      const old = running.get(number)
      if (isEnding) return undefined
      // It ended, and will come back with the new configuration.
      if (!old) continue
      const next = start(number)
      const served = next.served.then((serves) => (serves ? next : undefined))
      replacing.set(number, served)
      if (!(await served)) {
        replacing.delete(number)
        log.error({ process: number }, NOT_REPLACED)
        return NOT_REPLACED
      }
      running.set(number, next)
      send(old.worker, { rowhouse: 'retire' })
      await endWithin(old)
      replacing.delete(number)
    }
    log.info({ processes: count }, 'all processes are replaced')
    return undefined
  }

  const first = start(1)
  running.set(1, first)
  let rolling = Promise.race([first.served, ending]) as Promise<unknown>
  process.on('SIGHUP', () => {
    rolling = rolling.then(reload)
  })
  // The first one migrates. If it cannot start, neither can the others.
  if (!(await Promise.race([first.served, ending.then(() => false)]))) {
    first.worker.process.kill('SIGTERM')
    const code = await endWithin(first)
    if (!isEnding) return code ?? 1
    log.info(ENDED)
    return 0
  }
  void manager.ready()
  const kept = [keep(first)]
  for (let number = 2; number <= count; number++) kept.push(keep(start(number)))
  log.info({ processes: count, pid: process.pid }, 'supervising')
  isReplacement = true

  const watch = setInterval(() => {
    for (const each of running.values()) void endIfStuck(each)
  }, ALIVE_EVERY_MS)

  await ending
  clearInterval(watch)
  const all = [...alive]
  for (const { worker } of all) worker.process.kill('SIGTERM')
  const codes = await Promise.all(all.map(endWithin))
  await Promise.all(kept)
  log.info(ENDED)
  // Those that were still starting had nothing to finish.
  return codes.every((code, i) => code === 0 || !all[i]?.serves) ? 0 : 1

  /** Ends a process that does not respond. Its socket would keep every request that it gets. */
  async function endIfStuck(each: Process): Promise<void> {
    if (!each.serves) return
    const [answer] = await questions.ask('alive', undefined, [each])
    each.missed = answer === true ? 0 : each.missed + 1
    if (each.missed < MAX_MISSED) return
    log.error({ process: each.number, pid: each.worker.process.pid }, 'a process does not respond; ending it')
    each.worker.process.kill('SIGKILL')
  }
}

const ENDED = 'all processes have ended'
const NOT_REPLACED = 'the replacement did not start; the other processes go on as they are'

/** Waits for the end of a process, and kills it when it takes longer than its own limit. */
async function endWithin({ worker, ended, shutdownTimeoutMs }: Process): Promise<number | null> {
  const late = setTimeout(() => worker.process.kill('SIGKILL'), shutdownTimeoutMs + GRACE_MS)
  const code = await ended
  clearTimeout(late)
  return code
}

interface Question {
  readonly values: unknown[]
  readonly waiting: Set<Worker>
  done(): void
}

/** Passes questions of one process on to others. */
function createQuestions() {
  const open = new Map<number, Question>()
  let asked = 0
  return {
    async ask(question: string, args: unknown, of: readonly Process[]): Promise<readonly unknown[]> {
      const id = ++asked
      const values: unknown[] = []
      const waiting = new Set(of.map(({ worker }) => worker))
      const answered = new Promise<void>((done) => {
        open.set(id, { values, waiting, done })
        for (const worker of waiting) send(worker, { rowhouse: 'question', id, question, args })
        if (waiting.size === 0) done()
      })
      await Promise.race([answered, sleep(ANSWER_MS, undefined, { ref: false })])
      open.delete(id)
      return values
    },
    answered(worker: Worker, { id, value, failed }: Extract<ToSupervisor, { readonly rowhouse: 'answer' }>): void {
      const question = open.get(id)
      if (!question?.waiting.delete(worker)) return
      if (failed !== true) question.values.push(value)
      if (question.waiting.size === 0) question.done()
    },
    /** Stops waiting for a process that ended. */
    gone(worker: Worker): void {
      for (const question of open.values())
        if (question.waiting.delete(worker) && question.waiting.size === 0) question.done()
    },
  }
}

function send(worker: Worker, message: ToProcess): void {
  if (worker.isConnected()) worker.process.send(message, () => {})
}

/** Returns the supervisor's own metrics, in the form of prom-client's `getMetricsAsJSON`. */
const ownMetrics = (processes: number, restarts: number) => [
  metric('gauge', 'rowhouse_processes', 'Processes that serve the ports of this server.', processes),
  metric('counter', 'rowhouse_process_restarts_total', 'Processes that ended and were replaced.', restarts),
]
const metric = (type: string, name: string, help: string, value: number) => ({
  type,
  name,
  help,
  aggregator: 'sum',
  values: [{ value, labels: {} }],
})

const megabytes = (bytes: number): number => Math.max(64, Math.floor(bytes / 1024 / 1024))
