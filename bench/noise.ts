import { setTimeout as sleep } from 'node:timers/promises'
import { readUsage, usageSince } from './cpu.js'
import type { Cell } from './section.js'
import { median } from './statistics.js'

/**
 * Watches the machine: before each round it checks the speed of the processor, by how often a fixed computation fits into some
 * time, and it reads how much of the processors was taken.
 */
export interface Guard {
  /** Measures a round when the machine is quiet, again when it was not, and marks it in the end when it never was. */
  round(measure: () => Promise<readonly Cell[]>): Promise<readonly Cell[]>
  /** Gives back what was used up of the repeats. */
  renew(): void
  noise(): Noise
}

/** How quiet the machine was. */
export interface Noise {
  readonly rounds: number
  /** Disturbed. */
  readonly marked: number
  /** Rounds and speed checks that were made again. */
  readonly repeated: number
  readonly calibrations: number
  /** The furthest that a speed before a round that was kept was off the median until then, as a share. */
  readonly furthest: number
  /** The furthest that one of them was below the best of the whole run: a steady load on the machine is in each median. */
  readonly belowBest?: number
  /** Of the processors' time in rounds, from 0 to 1. */
  readonly steal?: number
  readonly idle?: number
}

export interface GuardOptions {
  /** How long it works to see how fast the machine is. */
  readonly calibrationMs: number
  /** How often something may be made again, until `renew`. */
  readonly repeats: number
  progress(text: string): void
  /** Turns of a loop per millisecond. */
  readonly spin?: (ms: number) => number
  readonly pauseMs?: number
}

/** Of the speed of the processor, off the median. */
export const OFF = 0.1
/** Below the best, which is a bit above the median on a quiet machine too. */
export const BELOW_BEST = 0.2
export const STOLEN = 0.03
/** Before the first round, so that there is a median to be off. */
const FIRST_CALIBRATIONS = 3
const PAUSE_MS = 500

export function createGuard(options: GuardOptions): Guard {
  const { calibrationMs, progress, spin = spinFor, pauseMs = PAUSE_MS } = options
  const speeds: number[] = []
  const shares: { steal?: number; idle?: number }[] = []
  const kept: { readonly speed: number; readonly off: number }[] = []
  let repeats = options.repeats
  let repeated = 0
  let rounds = 0
  let marked = 0

  const below = (speed: number): number => 1 - speed / Math.max(...speeds)
  const calibrate = () => {
    while (speeds.length < FIRST_CALIBRATIONS) speeds.push(spin(calibrationMs))
    const speed = spin(calibrationMs)
    speeds.push(speed)
    return { speed, off: Math.abs(speed / median(speeds) - 1) }
  }
  const again = async (why: string): Promise<boolean> => {
    if (repeats === 0) return false
    repeats--
    repeated++
    progress(`${why}: once more`)
    await sleep(pauseMs)
    return true
  }
  return {
    async round(measure) {
      for (;;) {
        const check = calibrate()
        const slow = check.off > OFF || below(check.speed) > BELOW_BEST
        const how = `${percent(check.off)} off the median, ${percent(below(check.speed))} below the best`
        if (slow && (await again(`the machine is busy (speed of the processor: ${how})`))) continue
        const before = readUsage()
        const cells = await measure()
        const share = usageSince(before)
        const stolen = (share.steal ?? 0) > STOLEN
        if (stolen && (await again(`${percent(share.steal ?? 0)} of the processors was taken`))) continue
        rounds++
        kept.push(check)
        shares.push(share)
        if (slow || stolen) marked++
        return slow || stolen ? cells.map((cell) => ({ ...cell, marked: true })) : cells
      }
    },
    renew() {
      repeats = options.repeats
    },
    noise() {
      const middle = (part: 'steal' | 'idle') => {
        const values = shares.flatMap((share) => share[part] ?? [])
        return values.length === 0 ? {} : { [part]: median(values) }
      }
      const furthest = Math.max(0, ...kept.map(({ off }) => off))
      const belowBest = Math.max(0, ...kept.map(({ speed }) => below(speed)))
      const counts = { rounds, marked, repeated, calibrations: speeds.length, furthest, belowBest }
      return { ...counts, ...middle('steal'), ...middle('idle') }
    },
  }
}

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`

const TURNS = 100_000

/** Works for so long. @returns turns per millisecond */
function spinFor(ms: number): number {
  const start = performance.now()
  let turns = 0
  let mixed = 1
  let passed = 0
  while (passed < ms) {
    for (let i = 0; i < TURNS; i++) mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97) + i
    turns += TURNS
    passed = performance.now() - start
  }
  // Whoever compiles this must not see that nobody needs it.
  return mixed === 0.5 ? 0 : turns / passed
}
