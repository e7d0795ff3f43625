/** Where values go on a line of pixels. */
export interface Axis {
  readonly ticks: readonly number[]
  place(value: number): number
}

interface Pixels {
  readonly from: number
  readonly to: number
}

/** From 0 to a round number. */
export function linearAxis(values: readonly number[], { from, to }: Pixels): Axis {
  const most = Math.max(...values, Number.MIN_VALUE)
  const step = roundStep(most / 4)
  const end = Math.ceil(most / step - 1e-9) * step
  const ticks = Array.from({ length: Math.round(end / step) + 1 }, (_, i) => Number((i * step).toPrecision(12)))
  return { ticks, place: (value) => from + (value / end) * (to - from) }
}

const STEPS = [1, 2, 5, 10]

/** 1, 2 or 5 of a power of ten, and no less than that. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least))
  return (STEPS.find((step) => step * power >= least - 1e-12) ?? 10) * power
}

/** Equal ratios are equally far apart. @param values above 0 */
export function logAxis(values: readonly number[], { from, to }: Pixels): Axis {
  const positive = values.filter((value) => value > 0)
  const ticks = roundNumbers(Math.min(...positive), Math.max(...positive))
  const [first = 1, last = 10] = [ticks[0], ticks.at(-1)]
  const place = (value: number) =>
    from + (Math.log(Math.max(value, first) / first) / Math.log(last / first)) * (to - from)
  // Over many decades there is no room for 2 and 5.
  const shown = last / first > 1000 ? ticks.filter((tick) => Number.isInteger(Math.log10(tick))) : ticks
  return { ticks: shown, place }
}

/** Numbers of 1, 2 and 5 with powers of ten, from below the least to above the most. */
function roundNumbers(least: number, most: number): number[] {
  const ticks: number[] = []
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power++)
    for (const step of [1, 2, 5]) ticks.push(Number((step * 10 ** power).toPrecision(12)))
  const first = ticks.findLastIndex((tick) => tick <= least)
  const last = ticks.findIndex((tick) => tick >= most && tick > least)
  return ticks.slice(Math.max(0, first), last < 0 ? undefined : last + 1)
}

/** Beyond this, what is small could not be seen on a linear axis. */
const WIDE = 20

export function spansDecades(values: readonly number[]): boolean {
  const least = Math.min(...values)
  return least > 0 && Math.max(...values) / least >= WIDE
}

/** @returns e.g. `25k` */
export function tickText(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`
  return value >= 10_000 ? `${Number((value / 1000).toPrecision(3))}k` : String(value)
}
