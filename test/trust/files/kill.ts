import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { freshDatabase } from '../../kit/database.js'
import type { PartOptions, Score } from '../part.js'
import { checkDisk, Model } from './model.js'
import { checkPieces, Parts } from './parts.js'
import type { Fault } from './plant.js'
import { tamper } from './tamper.js'
import { startVictim, type Victim, writeConfig } from './victim.js'

/** Of the thread that works on files, and of the one that serves. */
const CALLS = [
  'openat',
  'write',
  'pwrite64',
  'fsync',
  'fdatasync',
  'close',
  'unlink',
  'read',
  'writev',
  'epoll_pwait',
  'epoll_wait',
]
const FAULTS: readonly Fault[] = ['in-place', 'late']
/** For `--only`. */
export const KILLS = CALLS.map((call) => `kills ${call}`)
/** A round of the collector. */
const COLLECTED_MS = 1200
const MOST_POINTS = 400

/** The server killed at every call to the system while files come and go. */
export async function kills({ minutes, only, progress }: PartOptions): Promise<Score> {
  const calls = CALLS.filter((call) => only.test(`kills ${call}`))
  const end = performance.now() + minutes * 60_000
  const violations = await plantedKills(progress)
  const {
    points,
    acknowledged,
    violations: found,
  } = await withServer(undefined, async (loop) => {
    for (const [i, call] of calls.entries()) {
      const share = (end - performance.now()) / (calls.length - i)
      const { points: killed, complete } = await loop.every(call, performance.now() + share)
      progress(`${call}: ${killed} points${complete ? '' : ', out of time'}`)
    }
    return loop.score()
  })
  return {
    done: `${points} kills, ${acknowledged} acknowledged changes`,
    violations: [...violations, ...found],
    figures: [`${FAULTS.length} planted faults caught by kills`],
  }
}

/** Some of it. @param most how many points of each call */
export async function someKills(most: Readonly<Record<string, number>>): Promise<LoopScore> {
  return withServer(undefined, async (loop) => {
    for (const [call, points] of Object.entries(most)) await loop.every(call, Infinity, points)
    return loop.score()
  })
}

/** @returns which planted faults were not caught */
export async function plantedKills(progress: (text: string) => void, faults = FAULTS): Promise<string[]> {
  const missed: string[] = []
  for (const fault of faults) {
    const { violations: caught, points } = await withServer(fault, (loop) => loop.until(['write'], 12, true))
    progress(`planted fault "${fault}": ${caught.length > 0 ? 'caught' : 'NOT CAUGHT'} at ${points} points`)
    if (caught.length === 0) missed.push(`the planted fault "${fault}" was not caught by ${points} kills`)
  }
  return missed
}

export interface LoopScore {
  readonly points: number
  readonly acknowledged: number
  readonly violations: readonly string[]
}

/** One database and one folder, on which a server lives, is killed, and lives again. */
class Loop {
  private readonly folder: string
  private readonly databaseUrl: string
  private readonly database: pg.Client
  private readonly fault: Fault | undefined
  private readonly model = new Model()
  private readonly parts = new Parts()
  private readonly violations: string[] = []
  private points = 0
  private victim: Victim | undefined

  constructor(folder: string, databaseUrl: string, database: pg.Client, fault: Fault | undefined) {
    this.folder = folder
    this.databaseUrl = databaseUrl
    this.database = database
    this.fault = fault
  }

  score(): LoopScore {
    return { points: this.points, acknowledged: this.model.acknowledged, violations: this.violations }
  }

  /** Each call of a kind in turn, until the server lives through them all. */
  async every(call: string, end: number, most = MOST_POINTS): Promise<{ points: number; complete: boolean }> {
    let points = 0
    for (; points < most && performance.now() < end; points++) {
      if (!(await this.killedAt(call, points + 1))) return { points, complete: true }
    }
    return { points, complete: false }
  }

  /** The first points of some calls. @param enough whether one violation is all that is wanted */
  async until(calls: readonly string[], most: number, enough: boolean): Promise<LoopScore> {
    for (const call of calls) {
      for (let n = 1; n <= most; n++) {
        await this.killedAt(call, n)
        if (enough && this.violations.length > 0) return this.score()
      }
    }
    return this.score()
  }

  private async killedAt(call: string, n: number): Promise<boolean> {
    const victim = (this.victim ??= await startVictim(this.folder, this.databaseUrl))
    const inject = `inject=${call}:signal=SIGKILL:when=${n}`
    const strace = await tamper(victim, ['-e', `trace=${call}`, '-e', inject])
    const alive = await Promise.race([
      this.model
        .play(victim.url, ['a', ...(this.fault === 'in-place' ? [] : ['b'])])
        // A store with a fault mixes up pieces without any kill.
        .then(() => (this.fault === undefined ? this.parts.play(victim.url) : undefined))
        .then(() => sleep(COLLECTED_MS, true)),
      victim.gone.then(() => false),
    ]).catch(() => victim.gone.then(() => false))
    await strace.stop()
    if (!alive) {
      this.points++
      this.victim = await startVictim(this.folder, this.databaseUrl)
    }
    const { url } = this.victim as Victim
    const wrong = [...(await this.model.check(url)), ...(await this.parts.check(url))]
    if (this.fault === undefined) {
      wrong.push(...(await checkPieces(this.database)), ...(await checkDisk(this.database, this.folder)))
    }
    this.violations.push(...wrong.map((each) => `${call} ${n}: ${each}`))
    return !alive
  }

  async stop(): Promise<void> {
    this.victim?.process.kill('SIGKILL')
    await this.victim?.gone
  }
}

async function withServer<T>(fault: Fault | undefined, fn: (loop: Loop) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-trust-'))
  await mkdir(join(folder, 'data'))
  const unplant = await writeConfig(folder, fault)
  const { url, drop } = await freshDatabase()
  const database = new pg.Client({ connectionString: url })
  await database.connect()
  const loop = new Loop(folder, url, database, fault)
  try {
    return await fn(loop)
  } finally {
    await loop.stop()
    await database.end()
    await drop()
    await unplant()
    await rm(folder, { recursive: true, force: true })
  }
}
