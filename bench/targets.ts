import { EFFICIENCY } from './efficiency.js'
import { doubt, MOST_APART, placesOf, ratio, systemsOf, valuesOf } from './ratios.js'
import type { Section, Target } from './section.js'
import { median, medianInterval } from './statistics.js'
import { short } from './table.js'

/** What became of a target. */
export interface Verdict extends Target {
  /** The system that `against` stood for. */
  readonly beside?: string
  readonly outcome: Outcome
  /** It was measured, but its rounds are too far apart. */
  readonly isVoid?: boolean
  /** The median of the figure, or of its ratio, and where it is with 95 % confidence. */
  readonly median?: number
  readonly low?: number
  readonly high?: number
  /** How many it is the median of. */
  readonly rounds?: number
  /** Whether the whole interval is on the same side of the target, in enough quiet rounds. */
  readonly proven: boolean
}
export type Outcome = 'met' | 'missed' | 'not measured'

export const verdictsOf = (section: Section): Verdict[] =>
  (section.targets ?? []).map((target) => judge(section, target))

/** As it is counted: what is not proven is neither met nor missed. */
export type Standing = 'met' | 'missed' | 'not proven' | 'not measured'

export const standingOf = ({ outcome, proven }: Verdict): Standing =>
  outcome === 'not measured' || proven ? outcome : 'not proven'

/** Why a target was not measured: what its section says of the other system. */
export function whyNotMeasured(
  { notMeasured }: Pick<Section, 'notMeasured'>,
  { system, figure, against, isVoid }: Target & Pick<Verdict, 'isVoid'>,
): string {
  if (figure === EFFICIENCY)
    return `void: an efficiency needs pgbench, bare Koa, CPU times of all of them, and rounds that differ at most ${MOST_APART} times`
  if (isVoid === true) return `void: rounds differ more than ${MOST_APART} times`
  if (against === undefined) return `${system} was not measured in this run, or this machine does not show it`
  const [name = against] = against.split(/[ ,]/)
  return notMeasured.find((what) => what.startsWith(name)) ?? `${plain(against)} was not measured in this run`
}

function judge(section: Section, target: Target): Verdict {
  const measured = target.against === undefined ? ofFigure(section, target) : ofRatio(section, target, target.against)
  if (measured === undefined) return { ...target, outcome: 'not measured', proven: false }
  const { least = -Infinity, most = Infinity } = target
  const holds = (value: number) => value >= least && value <= most
  const { beside, doubt: why, rounds, median, low, high } = measured
  if (why === 'too noisy') return { ...target, outcome: 'not measured', isVoid: true, proven: false }
  const sure = holds(low) === holds(median) && holds(high) === holds(median)
  return {
    ...target,
    beside,
    outcome: holds(median) ? 'met' : 'missed',
    median,
    low,
    high,
    rounds,
    proven: sure && why === undefined,
  }
}

interface Measure {
  readonly beside?: string
  readonly doubt: ReturnType<typeof doubt>
  readonly rounds: number
  readonly median: number
  readonly low: number
  readonly high: number
}

/** Where a target names no place, it is one of the worst place. */
function ofFigure(section: Section, { system, figure, at, most }: Target): Measure | undefined {
  const places = at === undefined ? placesOf(section.cells) : [at]
  const measures = places.flatMap((place) => {
    const values = valuesOf(section.cells, system, figure, place)
    if (values.length === 0) return []
    return [
      {
        doubt: doubt(section.cells, figure, [system], place),
        rounds: values.length,
        median: median(values),
        ...medianInterval(values),
      },
    ]
  })
  return worst(measures, most !== undefined)
}

function ofRatio(section: Section, { system, figure, at, most }: Target, against: string): Measure | undefined {
  const places = at === undefined ? placesOf(section.cells) : [at]
  const measures = places.flatMap((place) => {
    const beside = bestOf(section, against, figure, place)
    const found = beside === undefined ? undefined : ratio(section, system, beside, figure, place)
    if (beside === undefined || found === undefined) return []
    const { median, low, high, pairs } = found
    const doubted = doubt(section.cells, figure, [system, beside], place)
    return [{ beside, doubt: doubted, rounds: pairs, median, low, high }]
  })
  return worst(measures, most !== undefined)
}

const worst = (measures: readonly Measure[], bounded: boolean): Measure | undefined =>
  measures.toSorted((a, b) => (bounded ? b.median - a.median : a.median - b.median))[0]

/** Of the systems that are named so, the one with the best median. */
function bestOf(section: Section, name: string, figure: string, at: number | undefined): string | undefined {
  const less = section.lessIsBetter?.includes(figure) ?? false
  const [begins = '', ends = ''] = name.split('*')
  const medians = systemsOf(section)
    .filter((system) => system.startsWith(begins) && system.endsWith(ends))
    .map((system) => ({ system, values: valuesOf(section.cells, system, figure, at) }))
    .filter(({ values }) => values.length > 0)
    .map(({ system, values }) => ({ system, middle: median(values) }))
  const exact = medians.find(({ system }) => system === name)
  return (exact ?? medians.toSorted((a, b) => (less ? a.middle - b.middle : b.middle - a.middle))[0])?.system
}

/** In words: `requests/s: at least 0.85 × pgbench`. */
export function boundText({ columns, along }: Pick<Section, 'columns' | 'along'>, target: Target): string {
  const { system, figure, against, at, least, most } = target
  const bounds = [
    ...(least === undefined ? [] : [`at least ${short(least)}`]),
    ...(most === undefined ? [] : [`at most ${short(most)}`]),
  ].join(' and ')
  const whose = system === 'rowhouse' ? '' : `${system}, `
  const where = at === undefined ? '' : ` at ${at}${along === undefined ? '' : ` ${along}`}`
  return `${whose}${columns[figure] ?? figure}${where}: ${bounds}${against === undefined ? '' : ` × ${plain(against)}`}`
}

const plain = (against: string): string => against.replace('*', '')
