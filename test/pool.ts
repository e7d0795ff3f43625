import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuOfChildren } from './cpu.js'
import { patience } from './kit/patience.js'

/** A process that has to end with exit code 0. */
export interface Job {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** What it has to print. */
  readonly prints?: RegExp
}

export interface Pool {
  /**
   * Runs them as there is room, beside whatever else the pool has, in this order.
   * @param options.first before those of others that wait
   * @returns whether all succeeded
   */
  run(jobs: readonly Job[], options?: { readonly first: boolean }): Promise<boolean>
  /** Prints what took longest and what failed. */
  summary(): Summary
}

/** Seconds that all took: of the clock, and of processors where the system counts them. */
export interface Summary {
  readonly seconds: number
  readonly cpu: number | undefined
}

interface Ended {
  readonly name: string
  readonly seconds: number
  readonly cpu: number
  readonly passed: number
  readonly ok: boolean
}

/** Half of its time a test waits for timers and for PostgreSQL. */
const WIDTH = Number(process.env['ROWHOUSE_TEST_JOBS'] ?? availableParallelism() + 2)
const JOB_MS = 1_860_000
const GRACE_MS = 5_000
const SLOWEST = 15

/**
 * Runs processes side by side and prints a line for each when it has ended, with the tests that it skipped; of one that
 * failed all that it said but assertions that passed.
 * @param verbose all that they say
 */
export function createPool({ verbose = false } = {}): Pool {
  const ended: Ended[] = []
  const queue: (() => void)[] = []
  const running = new Set<ChildProcess>()
  const began = performance.now()
  let free = WIDTH
  let counted = cpuOfChildren() ?? 0

  process.once('SIGTERM', () => process.exit(143))
  process.once('exit', () => {
    for (const child of running) child.kill()
  })

  async function one(job: Job): Promise<boolean> {
    const from = performance.now()
    const { ok, output } = await runToEnd(job, running)
    const seconds = (performance.now() - from) / 1000
    const each = { name: job.name, seconds, cpu: cpuSince(), passed: passedIn(output), ok }
    ended.push(each)
    if (verbose) console.log(output)
    else if (!ok) console.log(output.replaceAll(PASSED, ''))
    console.log([`${ok ? 'ok    ' : 'FAILED'} ${line(each)}`, ...skipsIn(output)].join('\n'))
    return ok
  }

  /** The system counts a process, with those that it started, when it has ended: so what is new is of the last one. */
  function cpuSince(): number {
    const before = counted
    counted = cpuOfChildren() ?? 0
    return counted - before
  }

  function fill(): void {
    for (; free > 0 && queue.length > 0; free--) queue.shift()?.()
  }

  return {
    async run(jobs, { first } = { first: false }) {
      const begins: (() => void)[] = []
      const all = jobs.map(
        (job) =>
          new Promise<boolean>((resolve, reject) => {
            begins.push(() => {
              one(job)
                .then(resolve, reject)
                .finally(() => {
                  free++
                  fill()
                })
            })
          }),
      )
      queue.splice(first ? 0 : queue.length, 0, ...begins)
      fill()
      return (await Promise.all(all)).every((ok) => ok)
    },
    summary() {
      const slowest = ended.toSorted((a, b) => b.seconds - a.seconds).slice(0, SLOWEST)
      if (ended.length > 1) console.log(['\nslowest:', ...slowest.map(line)].join('\n'))
      const failed = ended.filter(({ ok }) => !ok)
      const passed = ended.reduce((sum, each) => sum + each.passed, 0)
      const seconds = (performance.now() - began) / 1000
      const cpu = cpuOfChildren()
      const took = `${seconds.toFixed(0)} s${cpu === undefined ? '' : `, ${cpu.toFixed(0)} CPU s`}`
      console.log(`\n${ended.length} processes, ${failed.length} failed, ${passed} assertions passed, ${took}`)
      for (const { name } of failed) console.log(`FAILED ${name}`)
      return { seconds, cpu }
    },
  }
}

async function runToEnd({ command, args, env, prints }: Job, running: Set<ChildProcess>) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  running.add(child)
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.err += text))
  const closed = once(child, 'close')
  const tooLate = setTimeout(() => child.kill('SIGKILL'), patience(JOB_MS))
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  clearTimeout(tooLate)
  running.delete(child)
  // A process that it left behind may hold its output open.
  await Promise.race([closed, sleep(GRACE_MS, undefined, { ref: false })])
  const silent = prints === undefined || prints.test(said.out) ? '' : `nothing in it is like ${prints.source}\n`
  const killed = signal === null ? '' : `ended by ${signal}\n`
  return { ok: code === 0 && silent === '', output: said.out + said.err + silent + killed }
}

/** TAP of what went well, which need not be read. */
const PASSED = /^ *(ok .*|# Subtest: .*|\d+\.\.\d+.*)?\n/gm

/** Tap's own count, which is on a line of its own at the end. */
const passedIn = (output: string): number => Number(/^# \{.* pass: (\d+)/m.exec(output)?.[1] ?? 0)
const skipsIn = (output: string): string[] =>
  [...output.matchAll(/^ *ok \d+ - (.*) # SKIP ?(.*)/gm)].map((match) => `       skipped: ${match[1]} ${match[2]}`)
const line = ({ name, seconds, cpu }: Pick<Ended, 'name' | 'seconds' | 'cpu'>): string =>
  `${seconds.toFixed(1).padStart(6)} s ${cpu.toFixed(1).padStart(6)} CPU s  ${name}`
