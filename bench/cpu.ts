import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** CPU time spent so far, in ms: user and system. */
export interface Cpu {
  /** The process of the server with its threads, and the processes that it has started. */
  readonly server: number
  /** PostgreSQL: the postmaster, its processes, and those that have ended. */
  readonly database: number
  /** Programs that this process started and that have ended: the load tool. */
  readonly load: number
}

/** The kernel reports in ticks of 10 ms whatever its own clock is: proc(5), USER_HZ. */
const TICK_MS = 10

/** @returns undefined where there is no /proc */
export function readCpu(server: number | undefined, postmaster: number): Cpu | undefined {
  const own = stat(process.pid)
  let main = stat(postmaster)
  let backends = childrenOf(postmaster)
  // A backend that the postmaster reaps meanwhile would be in neither.
  for (let again = stat(postmaster); again && again.reaped !== main?.reaped; again = stat(postmaster)) {
    main = again
    backends = childrenOf(postmaster)
  }
  if (!own || !main) return undefined
  return {
    server: server === undefined ? 0 : preciseMs([stat(server), ...childrenOf(server)]),
    database: main.reaped + preciseMs([main, ...backends]),
    load: own.reaped,
  }
}

/**
 * CPU time of the threads of a process, in µs. The kernel counts it in ns here, unlike in `stat`.
 * @returns 0 for a process that has ended, and where a kernel does not count it
 */
export function threadsCpu(pid: number): number {
  const tasks = `/proc/${pid}/task`
  return threadsOf(tasks).reduce(
    (sum, id) => sum + Number(read(`${tasks}/${id}/schedstat`)?.split(' ')[0] ?? 0) / 1000,
    0,
  )
}

function threadsOf(tasks: string): readonly string[] {
  try {
    return readdirSync(tasks)
  } catch {
    return []
  }
}

/** Processes of PostgreSQL that serve connections to a database, by their titles: `postgres: USER DATABASE HOST ...`. */
export function backendsOf(postmaster: number, url: string): readonly number[] {
  const database = new URL(url).pathname.slice(1)
  return childrenOf(postmaster).flatMap(({ pid }) =>
    read(`/proc/${pid}/cmdline`)?.split(' ')[2] === database ? pid : [],
  )
}

/** Resident memory in MiB: `VmRSS` now, `VmHWM` the most it has ever been. */
export function readMemory(pid: number, field: 'VmRSS' | 'VmHWM'): number | undefined {
  const kib = read(`/proc/${pid}/status`)?.match(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm'))?.[1]
  return kib === undefined ? undefined : Number(kib) / 1024
}

/** Threads that have ended are in `stat` only, whose figures are cut to ticks. */
const preciseMs = (processes: readonly (Stat | undefined)[]): number =>
  processes.reduce((sum, each) => sum + (each ? Math.max(each.own, threadsCpu(each.pid) / 1000) : 0), 0)

/** What all processors have done so far, in ticks. */
export interface Usage {
  readonly all: number
  readonly idle: number
  /** Ready to run, but the host of this machine ran something else. */
  readonly steal: number
}

/** @returns undefined where there is no /proc */
export function readUsage(): Usage | undefined {
  const line = read('/proc/stat')?.split('\n')[0]
  return line === undefined ? undefined : usageOf(line)
}

/** @param line proc(5), /proc/stat: `cpu  user nice system idle iowait irq softirq steal guest guest_nice`; guests are users */
export function usageOf(line: string): Usage {
  const [user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number)
  return { all: user + nice + system + idle + wait + irq + soft + steal, idle: idle + wait, steal }
}

/** Shares of the time since, from 0 to 1; nothing where there is no /proc or no time has passed. */
export function usageSince(before: Usage | undefined, after = readUsage()): { steal?: number; idle?: number } {
  if (!before || !after || after.all <= before.all) return {}
  const share = (part: 'steal' | 'idle') => (after[part] - before[part]) / (after.all - before.all)
  return { steal: share('steal'), idle: share('idle') }
}

const LOOK_MS = 400

/** The share of the processors' time that others use while this process waits, from 0 to 1; undefined where there is no /proc. */
export async function otherUse(): Promise<number | undefined> {
  const before = readUsage()
  await sleep(LOOK_MS)
  const { idle } = usageSince(before)
  return idle === undefined ? undefined : 1 - idle
}

interface Stat {
  readonly pid: number
  readonly parent: number
  readonly own: number
  /** Of children that it has waited for. */
  readonly reaped: number
}

function childrenOf(parent: number): Stat[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => stat(Number(name)) ?? [])
    .filter((process) => process.parent === parent)
}

/** proc(5), /proc/pid/stat: the name, second, may hold anything and ends at the last bracket. */
function stat(pid: number): Stat | undefined {
  const text = read(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const ticks = (field: number) => Number(fields[field - 3]) * TICK_MS
  return { pid, parent: Number(fields[1]), own: ticks(14) + ticks(15), reaped: ticks(16) + ticks(17) }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
