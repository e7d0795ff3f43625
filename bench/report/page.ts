import { EFFICIENCY } from '../efficiency.js'
import { ratioBars } from './ratio-bars.js'
import { isWorse } from '../compare.js'
import { isOurs, placesOf, shownRatios, systemsOf, valuesOf } from '../ratios.js'
import type { Result, SectionResult } from '../result.js'
import {
  comparisonVerdict,
  differenceTable,
  efficienciesOf,
  EFFICIENCY_NOTE,
  methodText,
  missingOf,
  outcomeText,
  targetsOf,
  verdictText,
  warningsOf,
} from '../summary.js'
import { type Table, tableOf } from '../table.js'
import { boundText, type Standing, standingOf, type Verdict } from '../targets.js'
import { cpuStacks } from './cpu-stacks.js'
import { curves } from './curves.js'
import { history } from './history.js'
import { STYLE } from './style.js'
import { element, escape } from './svg.js'
import { valueBars } from './value-bars.js'

/**
 * The report of a result as one file of HTML, which needs nothing else and runs no script.
 * @param kept earlier results, the oldest first
 */
export function page(result: Result, kept: readonly Result[]): string {
  const earlier = kept.filter(({ date }) => date < result.date)
  const title = `Rowhouse bench ${result.date.slice(0, 10)} ${result.build.sha}`
  const parts = [
    header(result),
    ...warningsOf(result).map((warning) => element('p', { class: 'warn' }, escape(warning))),
    contents(result.sections),
    comparison(result),
    efficiency(result.sections),
    targets(result.sections),
    element('h2', {}, 'Measured'),
    ...result.sections.map(article),
    result.options.window.kind === 'seconds' ? past([...earlier, result]) : '',
    notMeasured(result.sections),
    circumstances(result),
    notRun(result),
  ]
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<style>${STYLE}</style>
</head>
<body><main>
${parts.filter((part) => part !== '').join('\n')}
</main></body>
</html>
`
}

function header({ date, build, options, sections, comparison: compared }: Result): string {
  const all = targetsOf(sections)
  const day = `${date.slice(0, 16).replace('T', ' ')} UTC`
  const commit = `commit ${build.sha}${build.changed ? ' with changes' : ''}`
  const kind = options.full ? 'all scenarios, large data' : `${compared === undefined ? 'quick run, ' : ''}small data`
  const standings: readonly Standing[] = ['met', 'missed', 'not proven', 'not measured']
  const counts = standings.map((standing): readonly [string, string] => {
    const count = all.filter(({ verdict }) => standingOf(verdict) === standing).length
    return [String(count), standing === 'met' ? `of ${all.length} targets met` : standing]
  })
  const worse = compared?.differences.filter(isWorse).length ?? 0
  const tiles: readonly (readonly [string, string])[] = [
    ...(all.length === 0 ? [] : counts),
    ...(compared === undefined || compared.differences.length === 0
      ? []
      : [[String(worse), `of ${compared.differences.length} figures worse`] as const]),
  ]
  return [
    element('h1', {}, 'Rowhouse bench'),
    element('p', { class: 'quiet' }, escape(`${day} · ${commit} · ${kind}`)),
    element(
      'div',
      { class: 'tiles' },
      ...tiles.map(([figure, what]) => element('div', { class: 'tile' }, element('b', {}, figure), escape(what))),
    ),
  ].join('\n')
}

function contents(sections: readonly SectionResult[]): string {
  const links = sections.map((section, i) =>
    element('a', { href: `#${anchor(section, i)}` }, escape(withId(section.id, stemOf(section)))),
  )
  return element('nav', {}, ...links)
}

const anchor = ({ id }: SectionResult, i: number): string => `${id}-${i}`
const stemOf = ({ title }: SectionResult): string => title.split(',')[0] ?? ''
/** Where the words have it already, the id is not said twice. */
const saysId = (id: string, words: string): boolean => id.length > 1 && words.split(' ').includes(id)
const withId = (id: string, words: string): string => (saysId(id, words) ? words : `${id} ${words}`)
const badged = (id: string, words: string): string =>
  (saysId(id, words) ? '' : element('span', { class: 'id' }, escape(id))) + escape(words)

/** The headline of all scenarios that have one, in a picture. */
function efficiency(sections: readonly SectionResult[]): string {
  const own = efficienciesOf(sections).filter(({ verdict }) => verdict.median !== undefined)
  const [first] = own
  if (first === undefined) return ''
  const named = own.map(({ section, verdict }) => ({ section, verdict, system: withId(section.id, stemOf(section)) }))
  const together: SectionResult = {
    ...first.section,
    cells: named.flatMap(({ section, verdict, system }) =>
      section.cells.filter((cell) => cell.system === verdict.system).map((cell) => ({ ...cell, system })),
    ),
    verdicts: named.map(({ verdict, system }) => ({ ...verdict, system })),
  }
  const note = element('p', { class: 'quiet' }, escape(EFFICIENCY_NOTE))
  return `<h2>Efficiency</h2>${note}<div class="card">${valueBars(together, EFFICIENCY, () => true)}</div>`
}

function targets(sections: readonly SectionResult[]): string {
  const rows = targetsOf(sections).map(({ section, verdict }, i, all) =>
    [
      // Named once above all of its targets.
      all[i - 1]?.section === section ? '' : badged(section.id, stemOf(section)),
      escape(boundText(section, verdict)),
      escape(verdictText(section, verdict)),
      badge(verdict),
    ].map((cell, column) => element('td', column === 3 ? { class: 'whole' } : {}, cell)),
  )
  if (rows.length === 0) return ''
  const head = ['', 'target', 'measured', ''].map((word) => element('th', { scope: 'col' }, word))
  const body = rows.map((row) => element('tr', {}, ...row)).join('')
  const whole = element(
    'table',
    { class: 'stack' },
    element('thead', {}, element('tr', {}, ...head)),
    element('tbody', {}, body),
  )
  const note =
    'The median of the rounds, and where it is with 95 % confidence. Not proven: the target is within, or the rounds were too few.'
  return `<h2>Targets</h2><div class="card scroll">${whole}</div>${element('p', { class: 'quiet' }, note)}`
}

function badge(verdict: Verdict): string {
  const standing = standingOf(verdict)
  const kind = standing === 'met' || standing === 'missed' ? standing : 'open'
  return element('span', { class: `badge ${kind}` }, outcomeText(verdict))
}

function comparison({ comparison: compared }: Result): string {
  if (compared === undefined) return ''
  const table = differenceTable(compared)
  return [
    `<h2>This build over ${escape(compared.ref)} (${escape(compared.build.sha)})</h2>`,
    element('p', {}, escape(comparisonVerdict(compared))),
    `<div class="card scroll">${htmlTable(table, 'Differences', 'stack')}</div>`,
  ].join('')
}

function article(section: SectionResult, i: number): string {
  const { id, title, cells } = section
  const foreign = shownRatios(section).some(({ against }) => !isOurs(against))
  const curve = section.along !== undefined
  const bars = curve ? [] : barColumns(section, foreign)
  const part = (heading: string, chart: string) =>
    chart === '' ? '' : element('div', {}, element('h4', {}, escape(heading)), chart)
  return element(
    'article',
    { id: anchor(section, i) },
    element('h3', {}, badged(id, title)),
    curve ? element('h4', {}, escape(`Each along: ${section.along}`)) : '',
    element(
      'div',
      { class: 'pair' },
      part(ratioHeading(section), ratioBars(section)),
      curve ? curves(section) : part('CPU of a request', cpuStacks(section)),
      ...bars.map((column) => part(section.columns[column] ?? column, valueBars(section, column))),
    ),
    cells.length === 0
      ? ''
      : element(
          'details',
          {},
          element('summary', {}, 'All figures as a table'),
          element('div', { class: 'scroll' }, htmlTable(tableOf(section), title)),
        ),
  )
}

function ratioHeading({ columns, compared, lessIsBetter }: SectionResult): string {
  const less = lessIsBetter?.includes(compared) ?? false
  return `${columns[compared]}: ours is so many times as ${less ? 'little' : 'much'} as`
}

/** What no ratio shows: figures with targets of their own, memory, and what is compared where only ours was measured. */
function barColumns(section: SectionResult, foreign: boolean): readonly string[] {
  const { columns, compared, targets: aims = [], cells } = section
  const aimed = aims.filter(({ against }) => against === undefined).map(({ figure }) => figure)
  return Object.keys(columns).filter(
    (column) =>
      (aimed.includes(column) || isMemory(columns[column] ?? '') || (column === compared && !foreign)) &&
      systemsOf(section).some((system) => placesOf(cells).some((at) => valuesOf(cells, system, column, at).length > 0)),
  )
}

const isMemory = (heading: string): boolean => /\bRSS\b/.test(heading)

function past(results: readonly Result[]): string {
  const charts = history(results)
  const words =
    charts === ''
      ? element(
          'p',
          { class: 'quiet' },
          'There is one result so far. Those that are kept with --save are shown here beside it.',
        )
      : element('div', { class: 'pair card' }, charts)
  return `<h2>History</h2>${words}`
}

/** Other systems that were not there, once for all scenarios. */
function notMeasured(sections: readonly SectionResult[]): string {
  const missing = missingOf(sections)
  if (missing.length === 0) return ''
  const lines = missing.map(({ what, ids }) => element('li', {}, escape(`${what} (${ids.join(', ')})`)))
  return `<h2>Not measured</h2><div class="card">${element('ul', { class: 'note' }, ...lines)}</div>`
}

function notRun({ notRun: left }: Result): string {
  if (left.length === 0) return ''
  const rows = left.map(({ id, name, reason }) => [withId(id, name), reason])
  const names = left.map(({ id }) => id).join(', ')
  return element(
    'details',
    {},
    element('summary', {}, escape(`Not in this run: ${names}`)),
    htmlTable({ head: ['scenario', 'why'], rows }, 'Not in this run'),
  )
}

function circumstances(result: Result): string {
  const { machine, versions, settings, tool } = result
  const load = (values: readonly number[]) => values.map((value) => value.toFixed(1)).join(', ')
  const facts: readonly (readonly [string, string])[] = [
    ['processors', `${machine.cpus} × ${machine.model}`],
    ['memory', `${machine.memoryMiB} MiB`],
    ['system', machine.system],
    ['load before and after', `${load(machine.loadBefore)} and ${load(machine.loadAfter)}`],
    [
      'versions',
      Object.entries(versions)
        .map((pair) => pair.join(' '))
        .join(', '),
    ],
    [
      'PostgreSQL settings',
      Object.entries(settings)
        .map((pair) => pair.join(' '))
        .join(', '),
    ],
    ['load tool', tool],
  ]
  const list = facts.map(([name, value]) => element('dt', {}, escape(name)) + element('dd', {}, escape(value)))
  return [
    '<h2>Machine</h2>',
    `<div class="card">${element('dl', {}, ...list)}`,
    element('p', { class: 'quiet' }, escape(methodText(result))),
    '</div>',
  ].join('\n')
}

function htmlTable({ head, rows }: Table, caption: string, kind = ''): string {
  const cells = (row: readonly string[]) => row.map((cell) => element('td', {}, escape(cell)))
  const headings = head.map((word) => element('th', { scope: 'col' }, escape(word)))
  const body = rows.map((row) => element('tr', {}, ...cells(row)))
  return element(
    'table',
    { 'aria-label': caption, class: kind },
    element('thead', {}, element('tr', {}, ...headings)),
    element('tbody', {}, ...body),
  )
}
