import type { Comparison } from './compare.js'
import { type Ratio, shownRatios, subjectsOf, valuesOf } from './ratios.js'
import type { Result, SectionResult } from './result.js'
import { intervalText, markdown, ratioText, short, table, type Table } from './table.js'
import { boundText, type Verdict } from './targets.js'
import { median } from './statistics.js'

/** What a run prints, as Markdown: all of its figures, or a short table for a README. */
export function summary(result: Result, length: 'all' | 'short'): string {
  const { comparison, sections } = result
  if (comparison) return [conditions(result), comparisonText(comparison)].join('\n')
  if (length === 'short') return [markdown(shortTable(sections)), '', conditions(result)].join('\n')
  return [conditions(result), ...sections.map(table), targetsText(sections), noiseText(result)].join('\n')
}

/** What the figures depend on. */
export function conditions({ build, machine, versions, settings, options, tool }: Result): string {
  const { window, size, rounds } = options
  const length = window.kind === 'seconds' ? `${window.seconds} s` : `${window.requests} requests, which prove nothing`
  const load = (machine.loadBefore[0] ?? 0).toFixed(1)
  const others = Object.entries(settings).map(([name, setting]) => `${name} ${setting}`)
  return [
    `Commit ${build.sha}${build.changed ? ' with changes' : ''}. ${machine.cpus} CPUs (${machine.model}), load before ${load}; database, servers and load tool share them.`,
    `Node ${versions['node']}, PostgreSQL ${versions['postgres']}: ${others.join(', ')}.`,
    `Data ${size}; ${rounds} rounds; windows of ${length}; load tool: ${tool}. Figures are medians (least..most), ratios medians of the rounds' ratios (95 % interval).`,
    '',
  ].join('\n')
}

export function noiseText({ noise }: Result): string {
  const percent = (share: number | undefined) => (share === undefined ? 'unknown' : `${(share * 100).toFixed(1)} %`)
  const lines = [
    `Noise: ${noise.marked} of ${noise.rounds} rounds marked, ${noise.repeated} times something was repeated; a known piece of work was at most ${percent(noise.furthest)} off its median; taken by the host ${percent(noise.steal)}, idle ${percent(noise.idle)}.`,
    noise.floor === undefined
      ? 'The same build beside itself was not measured (--full does): differences below some 10 % prove nothing.'
      : `The same build beside itself: at most ${percent(noise.floor.furthest)} apart (${noise.floor.ratios.map((ratio) => `${ratio.section} ${intervalText(ratio)}`).join(', ')}).`,
  ]
  return `${lines.join('\n')}\n`
}

/** Every target of a run, with its section. */
export const targetsOf = (
  sections: readonly SectionResult[],
): readonly { section: SectionResult; verdict: Verdict }[] =>
  sections.flatMap((section) => section.verdicts.map((verdict) => ({ section, verdict })))

export function outcomeText({ outcome, proven }: Verdict): string {
  return outcome === 'not measured' || proven ? outcome : `${outcome}, not proven`
}

function targetsText(sections: readonly SectionResult[]): string {
  const rows = targetsOf(sections).map(({ section, verdict }) => [
    section.id,
    boundText(section, verdict),
    verdictText(verdict),
    outcomeText(verdict),
  ])
  return rows.length === 0 ? '' : `### Targets\n\n${markdown({ head: ['', 'target', 'measured', ''], rows })}\n`
}

export function verdictText({ median: middle, low, high }: Verdict): string {
  return middle === undefined || low === undefined || high === undefined
    ? ''
    : intervalText({ median: middle, low, high })
}

/** A row for each section with targets: ours, and beside its limit and its peers. Curves are left to the report. */
function shortTable(sections: readonly SectionResult[]): Table {
  const shown = sections.filter(({ along }) => along === undefined)
  const rows = shown.map((section) => {
    const { id, title, cells, compared, columns } = section
    const subject = subjectsOf(section)[0] ?? ''
    const own = valuesOf(cells, subject, compared)
    const ours = own.length === 0 ? '' : `${short(median(own))} ${columns[compared]}`
    const others = shownRatios(section).filter(({ system }) => system === subject)
    return [
      `${id}: ${title}`,
      ours,
      others.map(besideText).join('<br>'),
      section.verdicts.map(aimText(section)).join('<br>'),
    ]
  })
  return { head: ['', 'rowhouse', 'rowhouse / other (95 %)', 'target'], rows }
}

const besideText = (ratio: Ratio): string => `${ratio.against}: ${ratioText(ratio)}`

const aimText =
  (section: SectionResult) =>
  (verdict: Verdict): string =>
    `${boundText(section, verdict)}: ${outcomeText(verdict)}`

function comparisonText({ ref, build, differences }: Comparison): string {
  const rows = differences.map(({ section, title, ratio, worse }) => [
    `${section}: ${title}`,
    ratio.at === undefined ? ratio.system : `${ratio.system} at ${ratio.at}`,
    `${ratio.figure}${ratio.lessIsBetter ? ', less is better' : ''}`,
    ratioText(ratio),
    worse ? '**worse**' : '',
  ])
  const worse = differences.filter((difference) => difference.worse).length
  const head = ['', 'system', 'figure', `this / ${ref}`, 'by more than a tenth']
  const silent = differences.filter(
    ({ ratio: { finding } }) => finding === 'too few rounds' || finding === 'too noisy',
  ).length
  const verdict = [
    worse === 0 ? 'Nothing is proven to be worse by more than a tenth.' : `${worse} figures are worse.`,
    ...(silent === 0
      ? []
      : [`${silent} of ${differences.length} figures say nothing: too few or too many disturbed rounds.`]),
  ].join(' ')
  return `### This build over ${ref} (${build.sha})\n\n${markdown({ head, rows })}\n\n${verdict}\n`
}
