import { mkdtemp, mkdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freshDatabase } from '../../kit/database.js'
import type { PartOptions, Score } from '../part.js'
import { Model } from './model.js'
import type { Fault } from './plant.js'
import { tamper } from './tamper.js'
import { startVictim, writeConfig } from './victim.js'

const PLANTED: readonly Fault[] = ['unnamed', 'unsynced', 'forgetful']
const CALLS = 'trace=openat,fsync,unlink,write,writev'
const ROUNDS = 3
const COLLECTED_MS = 2200

/**
 * The order of calls to the system: bytes, then their name, then the database; the name gone, and only then the row.
 * Shows what power cuts on ext4 cannot, where an fsync of a new file makes its name durable as well.
 */
export async function orderOfCalls({ progress }: PartOptions): Promise<Score> {
  const missed = await plantedOrders(PLANTED, progress)
  const { promises, violations } = await ordered(undefined)
  progress(`order: ${promises} times something was said of bytes, ${violations.length} times too early`)
  return {
    done: `${promises} statements to the database in the order of calls`,
    violations: [...missed, ...violations],
    figures: [`${PLANTED.length} planted faults caught by the order of calls`],
  }
}

/** @returns which planted faults were not caught */
export async function plantedOrders(faults: readonly Fault[], progress: (text: string) => void): Promise<string[]> {
  const missed: string[] = []
  for (const fault of faults) {
    const [caught] = (await ordered(fault)).violations
    progress(`planted fault "${fault}": ${caught === undefined ? 'NOT CAUGHT' : `caught (${caught})`}, order of calls`)
    if (caught === undefined) missed.push(`the planted fault "${fault}" was not caught by the order of calls`)
  }
  return missed
}

interface Order {
  /** How often something was said of bytes that had been made or taken away. */
  readonly promises: number
  readonly violations: readonly string[]
}

/** Plays with a server and listens to what it says to the system. */
export async function ordered(fault: Fault | undefined): Promise<Order> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  await mkdir(join(folder, 'data'))
  const unplant = await writeConfig(folder, fault)
  const { url: databaseUrl, drop } = await freshDatabase()
  const victim = await startVictim(folder, databaseUrl)
  try {
    const log = join(folder, 'log')
    const strace = await tamper(victim, ['-s', '3000', '-e', CALLS], log)
    const model = new Model()
    for (let i = 0; i < ROUNDS; i++) {
      await Promise.all([model.play(victim.url, ['a', 'b']), model.play(victim.url, ['c', 'd'])])
    }
    await sleep(COLLECTED_MS)
    await strace.stop()
    return judge(await readFile(log, 'utf8'))
  } finally {
    victim.process.kill('SIGKILL')
    await victim.gone
    await drop()
    await unplant()
    await rm(folder, { recursive: true, force: true })
  }
}

/** What is known of a blob: the lines at which something began to be, or had come to be. */
interface Trace {
  created: number
  unlinked: number
  bytes: number
}

const BLOB = /files\/([0-9a-f]{2})\/([0-9a-f-]{36})[">]/
const IDS = /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/g

function judge(log: string): Order {
  const traces = new Map<string, Trace>()
  /** Of a folder: where its last fsync that succeeded began. */
  const names = new Map<string, number>()
  const violations: string[] = []
  let promises = 0
  for (const { call, begin, end, ok } of callsOf(log)) {
    const [, , blob] = BLOB.exec(call) ?? []
    if (/^writev?\(\d+<(?:TCP|socket)/.test(call)) {
      for (const id of new Set(call.match(IDS))) {
        const trace = traces.get(id)
        if (!trace) continue
        promises++
        const named = names.get(id.slice(-2)) ?? -1
        if (trace.bytes < 0) violations.push('the database hears of bytes that are not durable')
        else if (named < trace.created) violations.push('the database hears of bytes whose name is not durable')
        else if (named < trace.unlinked) violations.push('bytes are forgotten before it is durable that they are gone')
      }
    } else if (!ok) continue
    else if (call.startsWith('openat') && blob !== undefined && call.includes('O_EXCL')) {
      traces.set(blob, { created: end, unlinked: -1, bytes: -1 })
    } else if (call.startsWith('unlink') && blob !== undefined) {
      const trace = traces.get(blob)
      if (trace) trace.unlinked = end
    } else if (call.startsWith('fsync') && blob !== undefined) {
      const trace = traces.get(blob)
      if (trace) trace.bytes = end
    } else if (call.startsWith('fsync')) {
      const [, name] = /files\/([0-9a-f]{2})>/.exec(call) ?? []
      if (name !== undefined) names.set(name, begin)
    }
  }
  if (promises === 0) violations.push('nothing was seen of what the server does')
  return { promises, violations }
}

interface Call {
  readonly call: string
  /** Lines of the log. */
  readonly begin: number
  readonly end: number
  readonly ok: boolean
}

/** In the order in which they take effect: what is written when it begins, the rest when it has come back. */
function* callsOf(log: string): Generator<Call> {
  const open = new Map<string, { call: string; begin: number }>()
  for (const [line, text] of log.split('\n').entries()) {
    const [, pid = '', rest = ''] = /^(\d+) +(.*)$/.exec(text) ?? []
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest)
    if (rest.endsWith('<unfinished ...>')) {
      open.set(pid, { call: rest, begin: line })
      if (rest.startsWith('write')) yield { call: rest, begin: line, end: line, ok: true }
      continue
    }
    const { call, begin } = resumed ? (open.get(pid) ?? { call: '', begin: line }) : { call: rest, begin: line }
    if (resumed && call.startsWith('write')) continue
    yield { call, begin, end: line, ok: !/= -1 \w+ /.test(rest) }
  }
}
