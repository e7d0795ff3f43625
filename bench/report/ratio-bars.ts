import { type Ratio, shownRatios, subjectsOf } from '../ratios.js'
import type { SectionResult } from '../result.js'
import { intervalText, short } from '../table.js'
import { logAxis, tickText } from './axis.js'
import { bar, chart, element, line, text, whisker } from './svg.js'

const WIDTH = 900
const LABEL = 250
const PLOT = { from: LABEL + 10, to: 570 }
const ROW = 28
const TOP = 34

/** How each subject stands to what it is compared with: bars from 1, to the right or the left, on a scale of ratios. */
export function ratioBars(section: SectionResult): string {
  const ratios = shownRatios(section)
  if (ratios.length === 0) return ''
  const groups = subjectsOf(section)
    .map((subject) => ratios.filter(({ system }) => system === subject))
    .filter((group) => group.length > 0)
  const aims = section.verdicts.flatMap(({ beside, least, most }) =>
    beside === undefined ? [] : (least ?? most ?? []),
  )
  const axis = logAxis([0.5, 1, 2, ...aims, ...ratios.flatMap(({ low, high }) => [low, high])], PLOT)
  const one = axis.place(1)
  const rows: string[] = []
  let y = TOP
  for (const group of groups) {
    if (groups.length > 1) {
      rows.push(text({ x: 0, y: y + 17 }, `${group[0]?.system} /`, 'strong', 38))
      y += ROW - 4
    }
    for (const ratio of group) {
      const { low, high, median } = ratio
      const [from, to] = [Math.min(one, axis.place(median)), Math.max(one, axis.place(median))]
      const tip = `${ratio.system} / ${ratio.against}: ${intervalText(ratio)}, ${ratio.finding}`
      const middle = y + ROW / 2
      rows.push(
        text({ x: LABEL, y: middle + 4 }, ratio.against, 'end', 36),
        bar({ x: from, y: y + 6, width: to - from, height: ROW - 12 }, kindOf(ratio), tip),
        whisker(axis.place(low), axis.place(high), middle),
        ...aimsOf(section, ratio).map((aim) => aimMark(axis.place(aim), middle, aim)),
        text({ x: PLOT.to + 14, y: middle + 4 }, `${short(median)} ×`, 'strong figure'),
        text({ x: PLOT.to + 88, y: middle + 4 }, `${short(low)}–${short(high)}  ${wordsOf(ratio)}`, 'quiet'),
      )
      y += ROW
    }
  }
  const less = ratios[0]?.lessIsBetter === true
  const grid = axis.ticks.map((tick) =>
    [
      line({ x: axis.place(tick), y: TOP - 6 }, { x: axis.place(tick), y: y + 4 }, tick === 1 ? 'one' : 'grid'),
      text({ x: axis.place(tick), y: TOP - 12 }, tickText(tick), 'tick'),
    ].join(''),
  )
  const title = `${section.columns[section.compared]}: ratio to each other system`
  const description = `${ratios.map((ratio) => `${ratio.system} over ${ratio.against} ${intervalText(ratio)}, ${ratio.finding}`).join('; ')}.`
  return chart(
    { title, description, width: WIDTH, height: y + 26 },
    ...grid,
    ...rows,
    text({ x: one - 8, y: y + 18 }, less ? '← better' : '← worse', 'quiet end'),
    text({ x: one + 8, y: y + 18 }, less ? 'worse →' : 'better →', 'quiet'),
  )
}

/** A mark for a target, pointing down on its value. */
export function aimMark(x: number, middle: number, aim: number): string {
  const top = middle - 11
  const shape = `M${x - 5} ${top} h10 l-5 7 z M${x - 0.75} ${top + 6} h1.5 v16 h-1.5 z`
  return element('path', { d: shape, class: 'aim' }, element('title', {}, `target ${aim}`))
}

const aimsOf = ({ verdicts }: SectionResult, { system, against, figure }: Ratio): readonly number[] =>
  verdicts
    .filter((verdict) => verdict.system === system && verdict.beside === against && verdict.figure === figure)
    .flatMap(({ least, most }) => least ?? most ?? [])

function kindOf({ finding }: Ratio): string {
  return finding === 'better' || finding === 'worse' ? finding : 'unproven'
}

function wordsOf({ finding }: Ratio): string {
  return finding === 'better' || finding === 'worse' ? '' : finding
}
