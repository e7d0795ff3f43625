/** So many more runs have to be quick than slow. What is neither may be the fault of a busy machine. */
const RUNS = 8
/** Times as long as quick: what a run may take, and what counts as two that took longer. */
export const SLOW = 10
const VERY_SLOW = 100
/** Times as long as a read an insert may take to be quick: it waits for the disk, and until commits are shared for those of others. */
export const COMMIT = 8
/** A pause of the whole machine looks the same as a slow run: so many are borne, and one more for so many quick ones. */
const STRIKES = 4
const QUICK_FOR_ONE = 50
const BARRED_MS = 1000
const MAX_BARRED_MS = 600_000

/** Of those whose requests of one form have failed, the latest. */
const MAX_CALLERS = 100

/** What is told how a statement did that shared a connection. */
export type Judge = Pick<Pace, 'ranShared' | 'overtaken' | 'failed' | 'bar'>

/**
 * Whether a statement may share a connection with others. It may when it has proven to be quick on a connection of its own, and
 * until it holds up others: then it has to prove it again, after a while that doubles each time that it happens soon.
 */
export class Pace {
  private quick = 0
  private readonly ban = new Ban()
  private readonly quickMs: number
  /** The bans of those whose requests have failed, the latest last. */
  private readonly callers = new Map<string, Ban>()

  constructor(quickMs: number) {
    this.quickMs = quickMs
  }

  get mayShare(): boolean {
    return this.quick >= RUNS && this.ban.isOver
  }

  /**
   * The pace for one caller. What fails because of its values bars that caller alone; it counts once for all, so that a form
   * that fails for many is barred for everybody.
   * @param caller `Session.caller`; without one the form itself is judged
   */
  of(caller: string | undefined): Judge & Pick<Pace, 'mayShare'> {
    if (caller === undefined) return this
    const blame = (judge: (ban: Ban) => void) => {
      if (!this.callers.has(caller)) this.failed()
      judge(this.banOf(caller))
    }
    return {
      mayShare: this.mayShare && (this.callers.get(caller)?.isOver ?? true),
      ranShared: (ms) => {
        this.ranShared(ms)
        const ban = this.callers.get(caller)
        if (ban && ms <= SLOW * this.quickMs && ban.forgive()) this.callers.delete(caller)
      },
      overtaken: () => this.overtaken(),
      failed: () => blame((ban) => void ban.strike(1)),
      bar: () => blame((ban) => ban.start()),
    }
  }

  ranAlone(ms: number): void {
    if (ms <= this.quickMs) this.quick++
    else if (ms > SLOW * this.quickMs) this.quick = Math.max(0, this.quick - 1)
  }

  ranShared(ms: number): void {
    if (ms <= SLOW * this.quickMs) this.ban.forgive()
    else this.strike(ms > VERY_SLOW * this.quickMs ? 2 : 1)
  }

  /** It was under way when others were kept waiting. */
  overtaken(): void {
    this.strike(1)
  }

  /** What fails has others sent again. */
  failed(): void {
    this.strike(1)
  }

  /** It has to prove itself anew, in a while. */
  bar(): void {
    this.quick = 0
    this.ban.start()
  }

  private strike(times: number): void {
    if (this.ban.strike(times)) this.quick = 0
  }

  private banOf(caller: string): Ban {
    const ban = this.callers.get(caller) ?? new Ban()
    this.callers.delete(caller)
    if (this.callers.size >= MAX_CALLERS) this.callers.delete(this.callers.keys().next().value!)
    this.callers.set(caller, ban)
    return ban
  }
}

/** A time without sharing, after too many strikes. */
class Ban {
  private strikes = 0
  private ms = BARRED_MS
  private until = 0

  get isOver(): boolean {
    return this.until === 0 || performance.now() >= this.until
  }

  /** @returns whether that was one too many */
  strike(times: number): boolean {
    this.strikes += times
    if (this.strikes < STRIKES) return false
    this.start()
    return true
  }

  /** @returns whether nothing is left to remember */
  forgive(): boolean {
    this.strikes = Math.max(0, this.strikes - 1 / QUICK_FOR_ONE)
    return this.strikes === 0 && performance.now() - this.until > MAX_BARRED_MS
  }

  start(): void {
    const now = performance.now()
    if (now - this.until > MAX_BARRED_MS) this.ms = BARRED_MS
    this.strikes = 0
    this.until = now + this.ms
    this.ms = Math.min(2 * this.ms, MAX_BARRED_MS)
  }
}
