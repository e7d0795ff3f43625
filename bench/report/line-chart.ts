import { type Axis, linearAxis, logAxis, spansDecades, tickText } from './axis.js'
import { chart, element, escape, line, text, WIDTH } from './svg.js'

export interface Series {
  readonly name: string
  readonly points: readonly Point[]
}
export interface Point {
  readonly x: number
  readonly y: number
  readonly low: number
  readonly high: number
}

export interface LineChart {
  readonly title: string
  /** What is along the lower edge; left out where the words around it say so. */
  readonly along?: string
  readonly series: readonly Series[]
  /** Names of places in order, where the lower edge is no scale. */
  readonly places?: readonly string[]
  /** Lines at values that matter, with a word. */
  readonly marks?: readonly { readonly value: number; readonly word: string }[]
}

const HEIGHT = 250
const LEFT = 52
const RIGHT = WIDTH - 14
const TOP = 34
const BOTTOM = HEIGHT - 44
/** As many as there are colours. */
const COLOURS = 8
const LEGEND_ROW = 18

/** A line for each system, with the least and the most of each point. An axis over decades is logarithmic. */
export function lineChart({ title, along, series, places, marks = [] }: LineChart): string {
  const points = series.flatMap((one) => one.points)
  if (points.length === 0) return ''
  const heights = [...points.flatMap(({ low, high }) => [low, high]), ...marks.map(({ value }) => value)]
  const tall = { from: BOTTOM, to: TOP }
  const upward = spansDecades(heights) ? logAxis(heights, tall) : linearAxis(heights, tall)
  const across = acrossOf(points, places)
  const drawn = series.map((one, i) => seriesOf(one, `line${(i % COLOURS) + 1}`, across, upward))
  const grid = [
    ...upward.ticks.map((tick) =>
      [
        line({ x: LEFT, y: upward.place(tick) }, { x: RIGHT, y: upward.place(tick) }, 'grid'),
        text({ x: LEFT - 6, y: upward.place(tick) + 4 }, tickText(tick), 'tick end'),
      ].join(''),
    ),
    ...across.ticks.map((tick) =>
      text({ x: across.place(tick), y: BOTTOM + 16 }, places?.[tick] ?? tickText(tick), 'tick', 11),
    ),
    ...marks.map(({ value, word }) =>
      [
        line({ x: LEFT, y: upward.place(value) }, { x: RIGHT, y: upward.place(value) }, 'aim-line'),
        text({ x: RIGHT, y: upward.place(value) - 4 }, word, 'quiet end'),
      ].join(''),
    ),
  ]
  // A single line needs no name.
  const named = series.length > 1 ? series : []
  const legend = named.map(({ name }, i) => {
    const y = HEIGHT + i * LEGEND_ROW
    const kind = `line${(i % COLOURS) + 1}`
    return [
      line({ x: LEFT, y: y + 6 }, { x: LEFT + 18, y: y + 6 }, kind),
      text({ x: LEFT + 26, y: y + 10 }, name, 'quiet', 60),
    ].join('')
  })
  const description = series
    .map(
      ({ name, points: own }) =>
        `${name}: ${own.map(({ x, y }) => `${places?.[x] ?? x} ${tickText(Number(y.toPrecision(3)))}`).join(', ')}`,
    )
    .join('; ')
  const height = HEIGHT + named.length * LEGEND_ROW + 4
  return chart(
    { title, description, height },
    text({ x: 0, y: 14 }, title, 'strong', 64),
    ...grid,
    ...drawn,
    along === undefined ? '' : text({ x: (LEFT + RIGHT) / 2, y: BOTTOM + 34 }, along, 'tick'),
    ...legend,
  )
}

/** Only places that were measured are named, as far as there is room between them. */
function acrossOf(points: readonly Point[], places: readonly string[] | undefined): Axis {
  const xs = [...new Set(points.map(({ x }) => x))].toSorted((a, b) => a - b)
  const wide = { from: LEFT + 10, to: RIGHT - 14 }
  const last = xs.at(-1) ?? 1
  const scale = spansDecades(xs)
    ? exactLog(xs, wide)
    : (x: number) => wide.from + (last === 0 ? 0.5 : x / last) * (wide.to - wide.from)
  const spread = (x: number) =>
    wide.from + (xs.length < 2 ? 0.5 : xs.indexOf(x) / (xs.length - 1)) * (wide.to - wide.from)
  const place = places === undefined ? scale : spread
  const ticks: number[] = []
  for (const x of xs) if (ticks.length === 0 || place(x) - place(ticks.at(-1) as number) > 34) ticks.push(x)
  return { ticks, place }
}

function exactLog(xs: readonly number[], { from, to }: { from: number; to: number }): (x: number) => number {
  const [first = 1, last = 10] = [xs[0], xs.at(-1)]
  return (x) => from + (Math.log(x / first) / Math.log(last / first)) * (to - from)
}

function seriesOf({ name, points }: Series, kind: string, across: Axis, upward: Axis): string {
  const sorted = points.toSorted((a, b) => a.x - b.x)
  const path = sorted.map(
    ({ x, y }, i) => `${i === 0 ? 'M' : 'L'}${across.place(x).toFixed(1)} ${upward.place(y).toFixed(1)}`,
  )
  const dots = sorted.map((point) => {
    const x = across.place(point.x)
    const tip = element('title', {}, escape(`${name}: ${Number(point.y.toPrecision(3))}`))
    return [
      line({ x, y: upward.place(point.low) }, { x, y: upward.place(point.high) }, `${kind} thin`),
      element('circle', { cx: x, cy: upward.place(point.y), r: 3.5, class: `${kind} dot` }, tip),
    ].join('')
  })
  return `${element('path', { d: path.join(' '), class: kind })}${dots.join('')}`
}
