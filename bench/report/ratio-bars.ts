import { type Ratio, shownRatios, subjectsOf } from '../ratios.js'
import type { SectionResult } from '../result.js'
import { ENOUGH_FOR_INTERVAL, ratioInterval, short } from '../table.js'
import { logAxis, tickText } from './axis.js'
import { bar, chart, element, line, text, whisker, WIDTH } from './svg.js'

const PLOT = { from: 12, to: WIDTH - 16 }
const ROW = 42
const TOP = 34

/**
 * How each subject stands to what it is compared with: bars from 1, to the right where it is better, on a scale of ratios.
 * Where less is better, it is how many times as little ours is.
 */
export function ratioBars(section: SectionResult): string {
  const ratios = shownRatios(section).map((ratio) => ({ ratio, shown: turned(ratio) }))
  if (ratios.length === 0) return ''
  const groups = subjectsOf(section)
    .map((subject) => ratios.filter(({ ratio }) => ratio.system === subject))
    .filter((group) => group.length > 0)
  const aims = ratios.flatMap(({ ratio }) => aimsOf(section, ratio))
  const axis = logAxis([0.5, 1, 2, ...aims, ...ratios.flatMap(({ shown: { low, high } }) => [low, high])], PLOT)
  const one = axis.place(1)
  const rows: string[] = []
  let y = TOP
  for (const group of groups) {
    if (groups.length > 1) {
      rows.push(text({ x: 0, y: y + 16 }, `${group[0]?.ratio.system}, beside`, 'strong', 60))
      y += 22
    }
    for (const { ratio, shown } of group) {
      const { low, high, median } = shown
      const [from, to] = [Math.min(one, axis.place(median)), Math.max(one, axis.place(median))]
      const tip = `${ratio.system} / ${ratio.against}: ${ratioInterval(ratio)}, ${ratio.finding}`
      const middle = y + 28
      const interval = ratio.pairs < ENOUGH_FOR_INTERVAL ? '' : ` (${short(low)}–${short(high)})`
      rows.push(
        text({ x: 0, y: y + 16 }, ratio.against, '', 34),
        text({ x: WIDTH, y: y + 16 }, `${short(median)} ×${interval} ${ratio.finding}`, 'figure end'),
        bar({ x: from, y: middle - 7, width: to - from, height: 14 }, kindOf(ratio), tip),
        ratio.pairs < ENOUGH_FOR_INTERVAL ? '' : whisker(axis.place(low), axis.place(high), middle),
        ...aimsOf(section, ratio).map((aim) => aimMark(axis.place(aim), middle, aim)),
      )
      y += ROW
    }
  }
  const places = axis.ticks.filter((_, i, all) => all.length <= 9 || i % 3 === all.indexOf(1) % 3)
  const grid = places.map((tick) =>
    [
      line({ x: axis.place(tick), y: TOP - 6 }, { x: axis.place(tick), y: y + 4 }, tick === 1 ? 'one' : 'grid'),
      text({ x: axis.place(tick), y: TOP - 12 }, tickText(tick), 'tick'),
    ].join(''),
  )
  const title = `${section.columns[section.compared]}: ratio to each other system`
  const words = ratios.map(
    ({ ratio }) => `${ratio.system} over ${ratio.against} ${ratioInterval(ratio)}, ${ratio.finding}`,
  )
  return chart(
    { title, description: `${words.join('; ')}.`, height: y + 26 },
    ...grid,
    ...rows,
    text({ x: one - 8, y: y + 18 }, '← worse', 'quiet end'),
    text({ x: one + 8, y: y + 18 }, 'better →', 'quiet'),
  )
}

/** So that more is better. */
function turned({ median, low, high, lessIsBetter }: Ratio): Pick<Ratio, 'median' | 'low' | 'high'> {
  return lessIsBetter ? { median: 1 / median, low: 1 / high, high: 1 / low } : { median, low, high }
}

/** A mark for a target, pointing down on its value. */
export function aimMark(x: number, middle: number, aim: number): string {
  const top = middle - 11
  const shape = `M${x - 5} ${top} h10 l-5 7 z M${x - 0.75} ${top + 6} h1.5 v16 h-1.5 z`
  return element('path', { d: shape, class: 'aim' }, element('title', {}, `target ${short(aim)}`))
}

/** Targets of a ratio, turned as it is. */
const aimsOf = ({ verdicts }: SectionResult, { system, against, figure, lessIsBetter }: Ratio): readonly number[] =>
  verdicts
    .filter((verdict) => verdict.system === system && verdict.beside === against && verdict.figure === figure)
    .flatMap(({ least, most }) => least ?? most ?? [])
    .map((aim) => (lessIsBetter ? 1 / aim : aim))

function kindOf({ finding }: Ratio): string {
  return finding === 'better' || finding === 'worse' ? finding : 'unproven'
}
