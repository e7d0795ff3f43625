import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from '../observe/log.js'
import type { Metrics } from '../observe/metrics.js'
import { type Database, isSilence, type Pool, withClient } from './database.js'
import { isOfRecovery, isStale } from './errors.js'
import { hostOf } from './hosts.js'
import type { Job, Lane } from './lane.js'
import { isConnectionError, isTrouble } from './sqlstates.js'
import { formatPosition, type Position, readPosition } from './wal-position.js'

/** What is known of a standby. */
export interface StandbyState {
  /** Host and port. */
  readonly name: string
  /** Why it gets no reads; absent: it does. */
  readonly problem?: string
  /** Upper limit of the age of its data in milliseconds, once known. */
  readonly lagMs?: number
  /** WAL of the primary that it has not replayed, in bytes. */
  readonly lagBytes?: number
}

/** Chooses standbys for reads. One is used only if it has replayed everything that the read may depend on. */
export interface Standbys {
  readonly states: readonly StandbyState[]
  /**
   * Returns the standby for a read, in turn; undefined for the primary.
   * @param after position that it must have replayed. Waits shortly for one that has.
   */
  choose(after?: Position): Promise<Database | undefined> | Database | undefined
  /**
   * Reports that requests now use another snapshot of the catalog. Standbys are used again once they have replayed what
   * it was read from.
   */
  snapshotChanged(): void
  /** Calls `lost` if a standby falls silent. @returns a function that takes this back */
  whenSilent(server: Database, lost: () => void): () => void
  /** Returns a position after everything that was committed before the call. Concurrent calls share a query. */
  position(): Promise<string>
  start(): Promise<void>
  close(): Promise<void>
}

const CHECK_MS = 250
/** Maximum time of a check, in milliseconds. */
const ANSWER_MS = 1000
/** Number of checks without an answer after which reads in progress run again on the primary. */
const MAX_MISSED = 2
/** Maximum time that a read waits for a standby, in milliseconds. The primary could answer it, too. */
const WAIT_MS = 50
const WAIT_POLL_MS = 5
/** More WAL than a primary writes between two checks, in bytes. No standby has a position that is further ahead. */
const FAR = 2n ** 30n
/** Maximum number of samples; more than fit into `maxLagMs` are of no use. */
const MAX_SAMPLES = 1000

/** Position of the primary at a time of this process's clock: the standby that has replayed it has data of that time. */
interface Sample {
  readonly position: Position
  readonly at: number
}

const UNCHECKED = 'it was not checked yet'
const BEHIND = 'it is behind'
const CATCHES_UP = 'it has not caught up with the primary'
/** What passes, and may come and go. */
const ofLag = (state: string | undefined): boolean => state === BEHIND || state === CATCHES_UP
/** Time for which a standby must be behind, or no longer be, before the log says so. */
const STEADY_MS = 1000

class Standby {
  replayed: Position = 0n
  /** Time of which it has all data. */
  freshAt = -Infinity
  problem: string | undefined = UNCHECKED
  /** Start time of the server, once it was checked. */
  started = ''
  /** Whether it has commits that the primary lost. It keeps them until it is rewound, which restarts it. */
  hasLost = false
  /** Position of the primary after the first check. One with lost commits that the primary has overtaken never gets there. */
  goal: Position | undefined
  follows = false

  /** What keeps it from being used, as the last check found it, and since when. */
  state: string | undefined = UNCHECKED
  since = 0
  /** What the log says of it. */
  logged: string | undefined = UNCHECKED

  /** Number of checks without an answer in a row. */
  missed = 0
  /** Called when it falls silent. */
  readonly lost = new Set<() => void>()

  readonly name: string
  readonly checks: Pool
  constructor(readonly database: Database) {
    this.name = hostOf(database.config.url as string)
    this.checks = database.openChecks()
  }

  lagMs(): number {
    return performance.now() - this.freshAt
  }

  /** After it started, or the primary changed: lets it show again that it follows the primary. */
  forget(): void {
    this.hasLost = false
    this.goal = undefined
    this.follows = false
  }
}

const lossOf = ({ hasLost, follows, goal }: Standby): string | undefined => {
  if (hasLost) return 'it has commits that the primary lost'
  if (follows) return undefined
  return goal === undefined ? UNCHECKED : CATCHES_UP
}

/** @returns undefined without standbys */
export function openStandbys(primary: Database, log: Logger, metrics: Metrics): Standbys | undefined {
  if (primary.standbys.length === 0) return undefined
  const { maxLagMs } = primary.config
  const standbys = primary.standbys.map((database) => new Standby(database))
  const checks = primary.openChecks()
  let samples: readonly Sample[] = []
  let identity: Pick<Identity, 'system' | 'started'> | undefined
  /** Position that contains everything in the current snapshot of the catalog. */
  let catalogAt: Position | undefined
  let snapshots = 0
  let turn = 0
  let closed = false
  let timer: NodeJS.Timeout | undefined

  metrics.gauge(
    'standby_lag_seconds',
    'Upper limit of the age of the data of a standby. -1 while it is not known.',
    ['standby'],
    (gauge) => {
      for (const each of standbys) {
        const lagMs = each.lagMs()
        gauge.set({ standby: each.name }, Number.isFinite(lagMs) ? lagMs / 1000 : -1)
      }
    },
    'max',
  )
  metrics.gauge(
    'standby_usable',
    '1 while a standby gets reads.',
    ['standby'],
    (gauge) => {
      for (const each of standbys) gauge.set({ standby: each.name }, stateOf(each) === undefined ? 1 : 0)
    },
    'min',
  )
  const reads = metrics.counter('standby_reads_total', 'Reads by where they ran. primary: no standby was usable.', [
    'standby',
  ])

  /** Returns what keeps it from being used, the same while that does not change. */
  const stateOf = (standby: Standby): string | undefined => {
    const problem = standby.problem ?? lossOf(standby)
    if (problem !== undefined) return problem
    if (standby.database.breaker.isOpen) return 'it does not answer'
    return standby.lagMs() > maxLagMs ? BEHIND : undefined
  }
  const problemOf = (standby: Standby): string | undefined => {
    const state = stateOf(standby)
    return state === BEHIND ? `it is ${described(standby.lagMs())} behind (database.maxLagMs)` : state
  }

  /** Logs whether a standby can be used, when that has changed. Its lag may vary around the limit, so that takes a second. */
  function report(standby: Standby): void {
    const state = stateOf(standby)
    if (closed || state === UNCHECKED) return
    const now = performance.now()
    if (state !== standby.state) [standby.state, standby.since] = [state, now]
    if (state === standby.logged) return
    if ((ofLag(state) || ofLag(standby.logged)) && now - standby.since < STEADY_MS) return
    standby.logged = state
    if (state === undefined) log.info({ standby: standby.name }, 'the standby can be used')
    else log.warn({ standby: standby.name, error: problemOf(standby) }, 'the standby cannot be used')
  }

  const readPrimary = async (): Promise<Identity & Sample> => {
    const at = performance.now()
    return { ...(await ask(checks)), at }
  }

  async function checkPrimary(): Promise<void> {
    const before = snapshots
    const checked = standbys.map(({ started, replayed }) => ({ started, replayed }))
    const { position, at, system, started } = await readPrimary()
    // Positions of another primary mean something else.
    if (identity && (identity.system !== system || identity.started !== started)) {
      samples = []
      catalogAt = undefined
      for (const standby of standbys) standby.forget()
    }
    for (const [i, { started, replayed }] of checked.entries()) {
      const standby = standbys[i] as Standby
      if (started === '' || started !== standby.started) continue
      standby.hasLost ||= replayed > position
      standby.goal ??= position
    }
    identity = { system, started }
    samples = [...samples.slice(1 - MAX_SAMPLES), { position, at }]
    if (before === snapshots) catalogAt ??= position
  }

  async function checkReplay(standby: Standby): Promise<void> {
    try {
      const found = await ask(standby.checks)
      standby.missed = 0
      if (found.started !== standby.started) standby.forget()
      standby.started = found.started
      standby.replayed = found.position
      standby.follows ||= standby.goal !== undefined && found.position >= standby.goal
      standby.problem = identity && !mayFollow(found, identity) ? STRANGER : lossOf(standby)
      const fresh = samples.findLast(({ position }) => position <= found.position)
      if (fresh && fresh.at > standby.freshAt) standby.freshAt = fresh.at
    } catch (error) {
      if (++standby.missed >= MAX_MISSED) for (const lost of standby.lost) lost()
      standby.problem = `it does not answer: ${error instanceof Error ? error.message : String(error)}`
    }
    report(standby)
  }

  const checkAll = coalesced(async () => {
    // Standbys remain usable within `maxLagMs` while the primary is down.
    await checkPrimary().catch(() => undefined)
    await Promise.all(standbys.map(checkReplay))
  })
  const checkReplays = coalesced(() => Promise.all(standbys.map(checkReplay)))

  const schedule = () => {
    if (!closed) timer = setTimeout(() => void checkAll().finally(schedule), CHECK_MS).unref()
  }

  function pick(after: Position): Standby | undefined {
    for (let i = 0; i < standbys.length; i++) {
      const standby = standbys[(turn + i) % standbys.length] as Standby
      if (problemOf(standby) !== undefined || standby.replayed < after) continue
      turn = (turn + i + 1) % standbys.length
      return standby
    }
    return undefined
  }

  async function wait(after: Position): Promise<Standby | undefined> {
    const until = performance.now() + WAIT_MS
    for (;;) {
      await Promise.race([checkReplays(), sleep(WAIT_MS)])
      const found = pick(after)
      if (found || performance.now() > until) return found
      await sleep(WAIT_POLL_MS)
    }
  }

  const counted = (standby: Standby | undefined): Database | undefined => {
    reads.inc({ standby: standby?.name ?? 'primary' })
    return standby?.database
  }

  return {
    get states() {
      const newest = samples.at(-1)?.position
      return standbys.map((standby): StandbyState => {
        const lagMs = standby.lagMs()
        const bytes = newest === undefined || standby.replayed === 0n ? undefined : newest - standby.replayed
        return {
          name: standby.name,
          problem: problemOf(standby),
          lagMs: Number.isFinite(lagMs) ? Math.round(lagMs) : undefined,
          lagBytes: bytes === undefined ? undefined : Math.max(0, Number(bytes)),
        }
      })
    },
    choose(after) {
      if (catalogAt === undefined) return counted(undefined)
      if (after === undefined || after <= catalogAt) return counted(pick(catalogAt))
      const found = pick(after)
      const isFar = after > (samples.at(-1)?.position ?? 0n) + FAR
      if (found || isFar || standbys.every((each) => problemOf(each) !== undefined)) return counted(found)
      return wait(after).then(counted)
    },
    whenSilent(server, lost) {
      const known = standbys.find(({ database }) => database === server)?.lost
      known?.add(lost)
      return () => known?.delete(lost)
    },
    snapshotChanged() {
      snapshots++
      catalogAt = undefined
      if (timer) void checkAll()
    },
    position: coalesced(async () => formatPosition((await readPrimary()).position)),
    async start() {
      // Before the primary, whose position then tells whether they follow it.
      await checkReplays()
      await checkAll()
      schedule()
    },
    async close() {
      closed = true
      clearTimeout(timer)
    },
  }
}

/**
 * Returns a lane whose reads go to standbys where their job allows it. A read that fails there because of the standby
 * runs again on the primary.
 * @param lanes lanes of the standbys
 */
export function standbyLane(standbys: Standbys, lanes: ReadonlyMap<Database, Lane>, primary: Lane): Lane {
  const reading =
    <T>(from: (lane: Lane) => (job: Job) => Promise<T>, drop: (late: T) => void) =>
    async (job: Job): Promise<T> => {
      const chosen = job.standby && (await standbys.choose(job.standby.after))
      const lane = chosen && lanes.get(chosen)
      if (!lane) return from(primary)(job)
      try {
        return await unlessSilent(standbys, chosen, from(lane)(job), drop)
      } catch (error) {
        if (job.call.signal.aborted || !isOfStandby(error)) throw error
        return from(primary)(job)
      }
    }
  return {
    cell: reading(
      ({ cell }) => cell,
      () => {},
    ),
    rows: reading(
      ({ rows }) => rows,
      (rows) => void rows.end(),
    ),
    write: primary.write,
  }
}

class Silent extends Error {}

/** Rejects when the standby falls silent, and drops what it returns later. */
function unlessSilent<T>(
  standbys: Standbys,
  server: Database,
  running: Promise<T>,
  drop: (late: T) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let late = false
    const forget = standbys.whenSilent(server, () => {
      late = true
      reject(new Silent('the standby fell silent'))
    })
    running.then((result) => (late ? drop(result) : resolve(result)), reject).finally(forget)
  })
}

const isOfStandby = (error: unknown): boolean =>
  error instanceof Silent ||
  (isConnectionError(error) && !isSilence(error)) ||
  isTrouble(error) ||
  isStale(error) ||
  isOfRecovery(error)

const STRANGER = 'it does not follow the primary'

/** Identifies a server of PostgreSQL. */
interface Identity {
  readonly standby: boolean
  readonly position: Position
  readonly system: string
  /** Start time, which distinguishes the servers of one system. */
  readonly started: string
}

/** A promoted standby is usable only if it is the primary that this server uses. */
const mayFollow = (found: Identity, primary: Pick<Identity, 'system' | 'started'>): boolean =>
  found.system === primary.system && (found.standby || found.started === primary.started)

const ASK = `select pg_catalog.pg_is_in_recovery() as standby,
  case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn() else pg_catalog.pg_current_wal_insert_lsn() end::text as text,
  pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size'))::text as segment,
  (select system_identifier from pg_catalog.pg_control_system())::text as system,
  pg_catalog.pg_postmaster_start_time()::text as started`

async function ask(checks: Pool): Promise<Identity> {
  const { rows } = await withClient(checks, (client) =>
    client.query<Omit<Identity, 'position'> & { text: string; segment: string }>({
      text: ASK,
      query_timeout: ANSWER_MS,
    } as pg.QueryConfig),
  )
  const { text, segment, ...found } = rows[0]!
  return { ...found, position: readPosition(text, BigInt(segment)) }
}

/** Returns a function whose calls during a run share the next run. A call never shares a run that began before it. */
function coalesced<T>(run: () => Promise<T>): () => Promise<T> {
  let current: Promise<T> | undefined
  let next: Promise<T> | undefined
  const start = (): Promise<T> => {
    const started: Promise<T> = run().finally(() => {
      if (current === started) current = undefined
    })
    current = started
    return started
  }
  const follow = (): Promise<T> => {
    next = undefined
    return start()
  }
  return () => {
    if (!current) return start()
    return (next ??= current.then(follow, follow))
  }
}

const described = (ms: number): string => (Number.isFinite(ms) ? `${Math.round(ms)} ms` : 'an unknown time')
