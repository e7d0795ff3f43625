import { type Json, numberOf, textOf } from '../json.js'
import type { GridRow } from './grid.js'
import type { PlotProps } from './plot.js'
import type { Flat } from './flat.js'

export const KINDS = ['line', 'bar', 'scatter', 'histogram'] as const
export const STEPS = ['each row', 'hour', 'day', 'week', 'month', 'year'] as const
export const MEASURES = ['sum', 'average', 'min', 'max'] as const

/** What somebody chose to see. */
export interface Choice {
  readonly kind: (typeof KINDS)[number]
  readonly x: string
  /** A column of numbers; '' for the number of rows. */
  readonly y: string
  /** Rows of a time that are shown as one. */
  readonly step: (typeof STEPS)[number]
  /** What is shown of several numbers at one place. */
  readonly measure: (typeof MEASURES)[number]
}

type Kind = 'number' | 'time' | 'text'

const SAMPLE = 500
/** More bars than this are not shown. */
const MOST_BARS = 60
const MOST_EACH = 400

/** Returns the kinds of the columns that can be plotted. */
export function kindsOf({ columns, rows }: Flat): ReadonlyMap<string, Kind> {
  const sample = rows.slice(0, SAMPLE)
  return new Map(
    columns.flatMap(({ key }): [string, Kind][] => {
      const values = sample.map((row) => row[key]).filter((value) => value !== null && value !== undefined)
      if (values.length === 0) return []
      if (values.every((value) => numberOf(value) !== undefined)) return [[key, 'number']]
      if (values.every((value) => secondsOf(value) !== undefined)) return [[key, 'time']]
      return values.every((value) => typeof value === 'string' || typeof value === 'boolean') ? [[key, 'text']] : []
    }),
  )
}

/** Guesses what somebody wants to see of some rows; undefined if they have nothing to plot. */
export function guess(flat: Flat): Choice | undefined {
  const kinds = kindsOf(flat)
  const of = (kind: Kind) => [...kinds].filter(([, each]) => each === kind).map(([key]) => key)
  const isKey = (name: string) => /(^|[._])id$/i.test(name)
  const numbers = of('number').filter((name) => !isKey(name))
  const [time] = of('time')
  const few = of('text')
    .map((name) => ({ name, count: distinct(flat.rows, name) }))
    .filter(({ count }) => count <= MOST_BARS)
  // A category that repeats says more than a name that does not.
  const category = few.toSorted((a, b) => a.count - b.count).at(0)?.name
  const base = { step: 'each row', measure: 'sum', y: numbers[0] ?? '' } as const
  if (time !== undefined) {
    const isRaw = numbers.length === 0 || flat.rows.length > MOST_EACH
    return {
      ...base,
      kind: numbers.length > 0 ? 'line' : 'bar',
      x: time,
      step: isRaw ? stepFor(flat.rows, time) : 'each row',
    }
  }
  if (category !== undefined) return { ...base, kind: 'bar', x: category }
  if (numbers.length >= 2) return { ...base, kind: 'scatter', x: numbers[0]!, y: numbers[1]! }
  const [number = of('number')[0]] = numbers
  return number === undefined ? undefined : { ...base, kind: 'histogram', x: number, y: '' }
}

const distinct = (rows: readonly GridRow[], key: string): number => new Set(rows.map((row) => textOf(row[key]))).size

const DAY = 86_400

function stepFor(rows: readonly GridRow[], time: string): Choice['step'] {
  const all = rows.map((row) => secondsOf(row[time])).filter((value) => value !== undefined)
  const span = all.reduce((a, b) => Math.max(a, b), -Infinity) - all.reduce((a, b) => Math.min(a, b), Infinity)
  return span > 20 * 365 * DAY ? 'year' : span > 120 * DAY ? 'month' : span > 3 * DAY ? 'day' : 'hour'
}

interface Figure extends Omit<PlotProps, 'handle'> {
  /** What is not in the plot. */
  readonly note: string
  /** Whether several rows are shown as one. */
  readonly isGrouped: boolean
}

/** Returns the plot of a choice. */
export function plotOf({ rows, columns }: Flat, choice: Choice): Figure {
  const kind = kindsOf({ rows, columns }).get(choice.x) ?? 'text'
  const yLabel = choice.y === '' ? 'rows' : choice.y
  if (choice.kind === 'histogram') return histogram(rows, choice.x)
  const scale = kind === 'text' ? 'names' : kind
  const label = `${yLabel} by ${choice.x}`
  if (choice.kind === 'scatter' && scale !== 'names' && choice.y !== '') {
    const points = rows.flatMap((row) => {
      const [x, y] = [positionOf(row[choice.x], scale), numberOf(row[choice.y])]
      return x === undefined || y === undefined ? [] : [{ x, y }]
    })
    points.sort((a, b) => a.x - b.x)
    return drawing(
      'scatter',
      label,
      { label: choice.x, scale, values: points.map(({ x }) => x) },
      yLabel,
      points.map(({ y }) => y),
    )
  }
  const isByRow = scale === 'number' || (scale === 'time' && choice.step === 'each row')
  const groups = new Map<string | number, number[]>()
  for (const row of rows) {
    const position = scale === 'names' ? nameOf(row[choice.x]) : positionOf(row[choice.x], scale)
    const y = choice.y === '' ? 1 : numberOf(row[choice.y])
    if (position === undefined || y === undefined) continue
    const at = scale === 'time' && !isByRow ? startOf(position as number, choice.step) : position
    const group = groups.get(at)
    if (group) group.push(y)
    else groups.set(at, [y])
  }
  const found = [...groups].map(([at, values]) => ({
    at,
    y: measured(values, choice.y === '' ? 'sum' : choice.measure),
  }))
  const isGrouped = found.length < rows.length
  if (scale !== 'names') {
    found.sort((a, b) => (a.at as number) - (b.at as number))
    const figure = drawing(
      choice.kind,
      isByRow ? label : `${yLabel} by ${choice.step}`,
      { label: choice.x, scale, values: found.map(({ at }) => at as number) },
      yLabel,
      found.map(({ y }) => y),
    )
    return { ...figure, isGrouped }
  }
  const shown = found.slice(0, MOST_BARS)
  const note = found.length > MOST_BARS ? `The first ${MOST_BARS} of ${found.length} values are shown.` : ''
  const x = {
    label: choice.x,
    scale,
    values: shown.map((_, i) => i),
    names: shown.map(({ at }) => String(at)),
  } as const
  return {
    ...drawing(
      choice.kind === 'line' ? 'line' : 'bar',
      label,
      x,
      yLabel,
      shown.map(({ y }) => y),
    ),
    note,
    isGrouped,
  }
}

function drawing(
  kind: PlotProps['kind'],
  label: string,
  x: PlotProps['x'],
  yLabel: string,
  values: readonly number[],
): Figure {
  return { kind, label, x, series: [{ label: yLabel, values }], note: '', isGrouped: false }
}

const nameOf = (value: Json | undefined): string => (value === null || value === undefined ? 'null' : textOf(value))
const positionOf = (value: Json | undefined, scale: 'time' | 'number'): number | undefined =>
  scale === 'time' ? secondsOf(value) : numberOf(value)

function measured(values: readonly number[], measure: Choice['measure']): number {
  switch (measure) {
    case 'sum':
    case 'average': {
      const sum = values.reduce((a, b) => a + b, 0)
      return measure === 'sum' ? sum : sum / values.length
    }
    case 'min':
      return values.reduce((a, b) => Math.min(a, b))
    case 'max':
      return values.reduce((a, b) => Math.max(a, b))
  }
}

/** Returns a time of PostgreSQL in seconds since 1970. Without an offset it is taken as UTC. */
function secondsOf(value: Json | undefined): number | undefined {
  const [, day, time = 'T00:00', offset = 'Z'] =
    (typeof value === 'string' &&
      /^(\d{4}-\d\d(?:-\d\d)?)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d(?::?\d\d)?)?)?$/.exec(value)) ||
    []
  if (day === undefined) return undefined
  const clock = time.startsWith('T') ? time : `T${time}`
  const zone = /^[+-]\d\d$/.test(offset) ? `${offset}:00` : offset
  const ms = Date.parse(`${day.length === 7 ? `${day}-01` : day}${clock.replace(/(\.\d{3})\d+/, '$1')}${zone}`)
  return Number.isNaN(ms) ? undefined : ms / 1000
}

/** Returns the start of the hour, day, week (Monday), month or year, in UTC. */
function startOf(seconds: number, step: Choice['step']): number {
  if (step === 'hour') return Math.floor(seconds / 3600) * 3600
  if (step === 'day') return Math.floor(seconds / DAY) * DAY
  if (step === 'week') return Math.floor((seconds - 4 * DAY) / (7 * DAY)) * 7 * DAY + 4 * DAY
  const date = new Date(seconds * 1000)
  return Date.UTC(date.getUTCFullYear(), step === 'month' ? date.getUTCMonth() : 0) / 1000
}

const BINS = 24

function histogram(rows: readonly GridRow[], x: string): Figure {
  const values = rows.map((row) => numberOf(row[x])).filter((value) => value !== undefined)
  const min = values.reduce((a, b) => Math.min(a, b), Infinity)
  const max = values.reduce((a, b) => Math.max(a, b), -Infinity)
  if (values.length === 0) return drawing('bar', x, { label: x, scale: 'number', values: [] }, 'rows', [])
  const width = widthOf((max - min) / BINS)
  const first = Math.floor(min / width)
  const counts = Array.from({ length: Math.floor(max / width) - first + 1 }, () => 0)
  for (const value of values) counts[Math.floor(value / width) - first]!++
  const middle = counts.map((_, i) => (first + i + 0.5) * width)
  return drawing(
    'bar',
    `Distribution of ${x}`,
    { label: `${x}, in steps of ${Number(width.toPrecision(3))}`, scale: 'number', values: middle },
    'rows',
    counts,
  )
}

/** Returns a round width of 1, 2 or 5 and zeros, at least as wide. */
function widthOf(least: number): number {
  if (!(least > 0)) return 1
  const unit = 10 ** Math.floor(Math.log10(least))
  return [1, 2, 5, 10].map((factor) => factor * unit).find((width) => width >= least) ?? 10 * unit
}
