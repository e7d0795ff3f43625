/** Required surplus of quick runs over slow ones. Runs in between may be the fault of a busy machine. */
const RUNS = 8
/** Multiples of the quick limit: longer runs are slow, and very slow ones count twice. */
export const SLOW = 10
const VERY_SLOW = 100
/** Multiple of the quick limit for inserts, which wait for the disk and for other commits. */
export const COMMIT = 8
/** Strikes that cause a ban. A pause of the whole machine looks like a slow run; `QUICK_FOR_ONE` quick runs cancel one. */
const STRIKES = 4
const QUICK_FOR_ONE = 50
const BAN_MS = 1000
const MAX_BAN_MS = 600_000

/** Maximum number of remembered callers with failed requests; the oldest are forgotten. */
const MAX_CALLERS = 100

/** Receives the outcomes of a statement on a shared connection. */
export type Judge = Pick<Pace, 'ranShared' | 'overtaken' | 'failed' | 'suspend'>

/**
 * Decides whether a statement may share a connection. It must prove to be quick on its own connection first. When it
 * delays others it must prove it again, after a pause that doubles each time this recurs soon.
 */
export class Pace {
  private quick = 0
  private readonly ban = new Ban()
  /** Bans of callers whose requests failed, latest last. */
  private readonly callers = new Map<string, Ban>()

  constructor(readonly quickMs: number) {}

  get mayShare(): boolean {
    return this.quick >= RUNS && this.ban.isOver
  }

  /**
   * Returns the pace for one caller. Failures caused by values ban that caller only. They count once in total, so that
   * a statement that fails for many callers is banned for all.
   * @param caller `Session.caller`; without it the statement itself is judged
   */
  of(caller: string | undefined): Judge & Pick<Pace, 'mayShare'> {
    return caller === undefined ? this : new CallerPace(this, this.callers, caller)
  }

  ranAlone(ms: number): void {
    if (ms <= this.quickMs) this.quick++
    else if (ms > SLOW * this.quickMs) this.quick = Math.max(0, this.quick - 1)
  }

  ranShared(ms: number): void {
    if (ms <= SLOW * this.quickMs) this.ban.forgive()
    else this.strike(ms > VERY_SLOW * this.quickMs ? 2 : 1)
  }

  /** Reports that it was running while others waited too long. */
  overtaken(): void {
    this.strike(1)
  }

  /** Reports a failure, after which others were sent again. */
  failed(): void {
    this.strike(1)
  }

  /** Suspends it for a while; it must prove itself again. */
  suspend(): void {
    this.quick = 0
    this.ban.start()
  }

  private strike(times: number): void {
    if (this.ban.strike(times)) this.quick = 0
  }
}

/** The pace of a statement for one caller. */
class CallerPace implements Judge {
  constructor(
    private readonly pace: Pace,
    private readonly callers: Map<string, Ban>,
    private readonly caller: string,
  ) {}

  get mayShare(): boolean {
    return this.pace.mayShare && (this.callers.get(this.caller)?.isOver ?? true)
  }

  ranShared(ms: number): void {
    this.pace.ranShared(ms)
    const ban = this.callers.get(this.caller)
    if (ban && ms <= SLOW * this.pace.quickMs && ban.forgive()) this.callers.delete(this.caller)
  }

  overtaken(): void {
    this.pace.overtaken()
  }

  failed(): void {
    this.blamed().strike(1)
  }

  suspend(): void {
    this.blamed().start()
  }

  private blamed(): Ban {
    const { callers, caller } = this
    const known = callers.get(caller)
    if (!known) this.pace.failed()
    const ban = known ?? new Ban()
    callers.delete(caller)
    if (callers.size >= MAX_CALLERS) callers.delete(callers.keys().next().value!)
    callers.set(caller, ban)
    return ban
  }
}

/** A period without sharing, after too many strikes. */
class Ban {
  private strikes = 0
  private ms = BAN_MS
  private until = 0

  get isOver(): boolean {
    return this.until === 0 || performance.now() >= this.until
  }

  /** @returns whether this was one strike too many */
  strike(times: number): boolean {
    this.strikes += times
    if (this.strikes < STRIKES) return false
    this.start()
    return true
  }

  /** @returns whether nothing is left to remember */
  forgive(): boolean {
    this.strikes = Math.max(0, this.strikes - 1 / QUICK_FOR_ONE)
    return this.strikes === 0 && performance.now() - this.until > MAX_BAN_MS
  }

  start(): void {
    const now = performance.now()
    if (now - this.until > MAX_BAN_MS) this.ms = BAN_MS
    this.strikes = 0
    this.until = now + this.ms
    this.ms = Math.min(2 * this.ms, MAX_BAN_MS)
  }
}

const TICK_MS = 20
/** Of what one tick was late, the next one still counts most. */
const KEPT = 0.95
/** Ticks without a statement after which nothing is measured. */
const MAX_IDLE = 100

/**
 * Measures how late this process gets a processor, in milliseconds: on a busy machine, every statement takes that much longer, and none
 * of them is to blame. Costs a timer while there are statements.
 */
export class Lateness {
  private late = 0
  private idle = 0
  private timer: NodeJS.Timeout | undefined

  /** The most that a timer was late of late. */
  get ms(): number {
    return this.late
  }

  /** Says that a statement runs. */
  touch(): void {
    this.idle = 0
    if (this.timer) return
    let last = performance.now()
    this.timer = setInterval(() => {
      const now = performance.now()
      this.late = Math.max(now - last - TICK_MS - 1, this.late * KEPT, 0)
      last = now
      if (this.idle++ > MAX_IDLE) this.stop()
    }, TICK_MS).unref()
  }

  stop(): void {
    clearInterval(this.timer)
    this.timer = undefined
    this.late = 0
  }
}
