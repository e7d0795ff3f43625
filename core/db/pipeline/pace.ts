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

/**
 * Whether a statement may share a connection with others. It may when it has proven to be quick on a connection of its own, and
 * until it holds up others: then it has to prove it again, after a while that doubles each time that it happens soon.
 */
export class Pace {
  private quick = 0
  private strikes = 0
  private barredMs = BARRED_MS
  private barredUntil = 0
  private readonly quickMs: number

  constructor(quickMs: number) {
    this.quickMs = quickMs
  }

  get mayShare(): boolean {
    return this.quick >= RUNS && (this.barredUntil === 0 || performance.now() >= this.barredUntil)
  }

  ranAlone(ms: number): void {
    if (ms <= this.quickMs) this.quick++
    else if (ms > SLOW * this.quickMs) this.quick = Math.max(0, this.quick - 1)
  }

  ranShared(ms: number): void {
    if (ms <= SLOW * this.quickMs) this.strikes = Math.max(0, this.strikes - 1 / QUICK_FOR_ONE)
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

  private strike(times: number): void {
    this.strikes += times
    if (this.strikes >= STRIKES) this.bar()
  }

  /** It has to prove itself anew, in a while. */
  bar(): void {
    const now = performance.now()
    if (now - this.barredUntil > MAX_BARRED_MS) this.barredMs = BARRED_MS
    this.quick = 0
    this.strikes = 0
    this.barredUntil = now + this.barredMs
    this.barredMs = Math.min(2 * this.barredMs, MAX_BARRED_MS)
  }
}
