import { type Comparison, hasNoVerdict, isWorse, silentOf } from './compare.js'
import { EFFICIENCY } from './efficiency.js'
import { type Ratio, shownRatios, subjectsOf, valuesOf } from './ratios.js'
import type { Result, SectionResult } from './result.js'
import {
  ENOUGH_FOR_INTERVAL,
  intervalText,
  markdown,
  ratioInterval,
  ratioText,
  short,
  table,
  type Table,
} from './table.js'
import { boundText, type Verdict, whyNotMeasured } from './targets.js'
import { median } from './statistics.js'

/** What a run prints, as Markdown: all of its figures, or a short table for a README. */
export function summary(result: Result, length: 'all' | 'short'): string {
  const { comparison, sections } = result
  const warnings = warningsOf(result).map((warning) => `> **Warning:** ${warning}\n`)
  const missing = missingOf(sections).map(({ what, ids }) => `- ${what} (${ids.join(', ')})`)
  const notMeasured = missing.length === 0 ? [] : [['Not measured:', '', ...missing, ''].join('\n')]
  if (comparison) return [...warnings, conditions(result), comparisonText(comparison)].join('\n')
  if (length === 'short')
    return [...warnings, markdown(shortTable(sections)), '', ...doubtful(sections), conditions(result)].join('\n')
  const parts = [
    ...warnings,
    conditions(result),
    efficiencyText(sections),
    ...sections.map(table),
    targetsText(sections),
  ]
  return [...parts, ...notMeasured].join('\n')
}

/** How much of the processors others may use before a run. */
const MUCH_USE = 0.15

/** What makes the figures doubtful as a whole, in sentences. */
export function warningsOf({ machine, options }: Result): readonly string[] {
  const load = machine.loadBefore[0] ?? 0
  const signs = [
    ...(load > machine.cpus ? [`the load average before the run was ${load.toFixed(1)} on ${machine.cpus} CPUs`] : []),
    ...((machine.useBefore ?? 0) > MUCH_USE
      ? [`${percent(machine.useBefore)} of the processors were in use just before it`]
      : []),
  ]
  return [
    ...(options.window.kind === 'requests'
      ? ['Windows of so many requests prove nothing, and axes are shortened: this run only shows that the bench runs.']
      : []),
    ...(signs.length === 0
      ? []
      : [
          `Other work ran on this machine (${signs.join('; ')}): rates and times are worse than they would be, and ratios of CPU time less certain.`,
        ]),
  ]
}

/** What the figures depend on. */
export function conditions(result: Result): string {
  const { build, machine, versions, settings } = result
  const load = (machine.loadBefore[0] ?? 0).toFixed(1)
  const others = Object.entries(settings).map(([name, setting]) => `${name} ${setting}`)
  return [
    `Commit ${build.sha}${build.changed ? ' with changes' : ''}. ${machine.cpus} CPUs (${machine.model}), load before ${load}; database, servers and load tool share them.`,
    `Node ${versions['node']}, PostgreSQL ${versions['postgres']}: ${others.join(', ')}.`,
    methodText(result),
    '',
  ].join('\n')
}

/** How it was measured. */
export function methodText({ options, tool }: Result): string {
  const { window, size, rounds } = options
  const length = window.kind === 'seconds' ? `${window.seconds} s` : `${window.requests} requests`
  const interval = rounds < ENOUGH_FOR_INTERVAL ? '; so few rounds have no 95 % interval' : ' (95 % interval)'
  return `Data ${size}; ${rounds} rounds; windows of ${length}; load tool: ${tool}. Figures are medians (least..most), ratios medians of the rounds' ratios${interval}.`
}

const percent = (share: number | undefined): string =>
  share === undefined ? 'unknown' : `${(share * 100).toFixed(1)} %`

/** What could not be measured, once for all scenarios. */
export function missingOf(
  sections: readonly SectionResult[],
): readonly { readonly what: string; readonly ids: readonly string[] }[] {
  const all = new Map<string, Set<string>>()
  for (const { id, notMeasured } of sections)
    for (const what of notMeasured) all.set(what, (all.get(what) ?? new Set()).add(id))
  return [...all].map(([what, ids]) => ({ what, ids: [...ids] }))
}

/** Every target of a run, with its section. */
export const targetsOf = (
  sections: readonly SectionResult[],
): readonly { section: SectionResult; verdict: Verdict }[] =>
  sections.flatMap((section) => section.verdicts.map((verdict) => ({ section, verdict })))

export function outcomeText({ outcome, proven }: Verdict): string {
  return outcome === 'not measured' || proven ? outcome : `${outcome}, not proven`
}

/** What each efficiency is of, in a sentence. */
export const EFFICIENCY_NOTE =
  'What an ideal server that adds nothing would cost, over what ours costs: CPU time of PostgreSQL under pgbench and of bare Koa, over that of our server and its PostgreSQL.'

/** The headline of each section that has one. */
export const efficienciesOf = (
  sections: readonly SectionResult[],
): readonly { readonly section: SectionResult; readonly verdict: Verdict }[] =>
  targetsOf(sections).filter(({ verdict }) => verdict.figure === EFFICIENCY)

function efficiencyText(sections: readonly SectionResult[]): string {
  const rows = efficienciesOf(sections).map(({ section, verdict }) => [
    `${section.id}: ${section.title}`,
    verdictText(section, verdict),
    outcomeText(verdict),
  ])
  if (rows.length === 0) return ''
  const head = ['', 'efficiency', 'target']
  return `### Efficiency\n\n${EFFICIENCY_NOTE}\n\n${markdown({ head, rows })}\n`
}

function targetsText(sections: readonly SectionResult[]): string {
  const rows = targetsOf(sections).map(({ section, verdict }) => [
    section.id,
    boundText(section, verdict),
    verdictText(section, verdict),
    outcomeText(verdict),
  ])
  return rows.length === 0 ? '' : `### Targets\n\n${markdown({ head: ['', 'target', 'measured', ''], rows })}\n`
}

/** What was measured, or why it was not. */
export function verdictText(section: SectionResult, verdict: Verdict): string {
  const { median: middle, low, high, rounds = ENOUGH_FOR_INTERVAL } = verdict
  return middle === undefined || low === undefined || high === undefined
    ? whyNotMeasured(section, verdict)
    : intervalText({ median: middle, low, high }, rounds)
}

/** A row for each section: its efficiency, ours, and beside its limit and its peers. Curves are left to the report. */
function shortTable(sections: readonly SectionResult[]): Table {
  const shown = sections.filter(({ along }) => along === undefined)
  const rows = shown.map((section) => {
    const { id, title, cells, compared, columns } = section
    const subject = subjectsOf(section)[0] ?? ''
    const own = valuesOf(cells, subject, compared)
    const ours = own.length === 0 ? '' : `${short(median(own))} ${columns[compared]}`
    const others = shownRatios(section).filter(({ system }) => system === subject)
    const [efficiency] = efficienciesOf([section]).filter(({ verdict }) => verdict.median !== undefined)
    return [
      `${id}: ${title}`,
      efficiency === undefined ? '' : verdictText(section, efficiency.verdict),
      ours,
      others.map(besideText).join('<br>'),
      section.verdicts
        .filter(({ outcome }) => outcome !== 'not measured')
        .map(aimText(section))
        .join('<br>'),
    ]
  })
  return { head: ['', 'efficiency', 'rowhouse', 'rowhouse / other (95 %)', 'target'], rows }
}

const besideText = (ratio: Ratio): string =>
  `${ratio.against}: ${isDoubtful(ratio) ? ratioInterval(ratio) : ratioText(ratio)}`
const isDoubtful = ({ finding }: Ratio): boolean => finding === 'too few rounds' || finding === 'too noisy'

/** Once for all scenarios. */
function doubtful(sections: readonly SectionResult[]): readonly string[] {
  const why = (['too few rounds', 'too noisy'] as const).flatMap((finding) => {
    const ids = sections.filter(({ ratios }) => ratios.some((ratio) => ratio.finding === finding)).map(({ id }) => id)
    return ids.length === 0 ? [] : [`${finding}: ${ids.join(', ')}`]
  })
  return why.length === 0
    ? []
    : [`No difference is proven where there were too few rounds or too much else ran (${why.join('; ')}).`]
}

const aimText =
  (section: SectionResult) =>
  (verdict: Verdict): string =>
    `${boundText(section, verdict)}: ${outcomeText(verdict)}`

function comparisonText(comparison: Comparison): string {
  const { ref, build } = comparison
  const differences = markdown(differenceTable(comparison))
  return `### This build over ${ref} (${build.sha})\n\n${differences}\n\n${comparisonVerdict(comparison)}\n`
}

/** A row for each figure: in words as everywhere else. */
export function differenceTable({ ref, differences }: Comparison): Table {
  const rows = differences.map(({ section, title, ratio }) => [
    `${section}: ${title}`,
    `CPU time per request of ${ratio.figure === 'server' ? 'the server' : 'PostgreSQL'}`,
    ratioText(ratio),
    String(ratio.pairs),
  ])
  return { head: ['', 'figure, less is better', `this / ${ref}`, 'starts'], rows }
}

/** What comes of a comparison, in a sentence or two. */
export function comparisonVerdict(comparison: Comparison): string {
  const { differences } = comparison
  const worse = differences.filter(isWorse).length
  const silent = silentOf(comparison).length
  const few = `${silent} of ${differences.length} figures say nothing: too few starts, or too much noise to exclude a change.`
  if (hasNoVerdict(comparison)) return `No verdict: ${few}`
  const found = worse === 0 ? 'Nothing is worse.' : `${worse} of ${differences.length} figures are worse.`
  return silent === 0 ? found : `${found} ${few}`
}
