import { ratioBars } from './ratio-bars.js'
import { doubt, isOurs, markedShare, placesOf, shownRatios, systemsOf, valuesOf } from '../ratios.js'
import type { Result, SectionResult } from '../result.js'
import { conditions, noiseText, outcomeText, targetsOf, verdictText } from '../summary.js'
import { ratioText, type Table, tableOf } from '../table.js'
import { boundText, type Verdict } from '../targets.js'
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
    targets(result.sections),
    comparison(result),
    element('h2', {}, 'Measured'),
    ...result.sections.map(article),
    past([...earlier, result]),
    missing(result),
    circumstances(result),
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

function header({ date, build, machine, options, sections, noise }: Result): string {
  const all = targetsOf(sections)
  const count = (outcome: Verdict['outcome']) => String(all.filter(({ verdict }) => verdict.outcome === outcome).length)
  const day = `${date.slice(0, 16).replace('T', ' ')} UTC`
  const commit = `commit ${build.sha}${build.changed ? ' with changes' : ''}`
  const kind = options.full ? 'all scenarios, large data' : 'the quick run, small data'
  const tiles: readonly (readonly [string, string])[] = [
    [count('met'), `of ${all.length} targets met`],
    [count('missed'), 'missed'],
    [count('not measured'), 'not measured'],
    [`${noise.marked} / ${noise.rounds}`, 'rounds disturbed'],
  ]
  return [
    element('h1', {}, 'Rowhouse bench'),
    element('p', { class: 'quiet' }, escape(`${day} · ${commit} · ${kind} · ${machine.cpus} CPUs, ${machine.model}`)),
    element(
      'div',
      { class: 'tiles' },
      ...tiles.map(([figure, what]) => element('div', { class: 'tile' }, element('b', {}, figure), escape(what))),
    ),
    element(
      'nav',
      {},
      ...sections.map((section, i) => element('a', { href: `#${anchor(section, i)}` }, escape(shortTitle(section)))),
    ),
  ].join('\n')
}

const anchor = ({ id }: SectionResult, i: number): string => `${id}-${i}`
const shortTitle = ({ id, title }: SectionResult): string => `${id} ${title.split(',')[0]}`

function targets(sections: readonly SectionResult[]): string {
  const rows = targetsOf(sections).map(({ section, verdict }, i, all) =>
    [
      // Named once above all of its targets.
      all[i - 1]?.section === section
        ? ''
        : element('span', { class: 'id' }, escape(section.id)) + escape(section.title.split(',')[0] ?? ''),
      escape(boundText(section, verdict)),
      escape(verdictText(verdict)),
      badge(verdict),
    ].map((cell, column) => element('td', column < 2 ? {} : { class: 'whole' }, cell)),
  )
  if (rows.length === 0) return ''
  const head = ['', 'target', 'measured', ''].map((word) => element('th', { scope: 'col' }, word))
  const body = rows.map((row) => element('tr', {}, ...row)).join('')
  const whole = element('table', {}, element('thead', {}, element('tr', {}, ...head)), element('tbody', {}, body))
  const note =
    'The median of the rounds, and where it is with 95 % confidence. Not proven: the target is within, or the rounds were too few or too disturbed.'
  return `<h2>Targets</h2><div class="card scroll">${whole}</div>${element('p', { class: 'quiet' }, note)}`
}

function badge(verdict: Verdict): string {
  const kind = verdict.outcome === 'not measured' ? 'open' : verdict.outcome
  return element('span', { class: `badge ${kind}` }, outcomeText(verdict))
}

function comparison({ comparison: compared }: Result): string {
  if (compared === undefined) return ''
  const rows = compared.differences.map(({ section, title, ratio, worse }) => [
    `${section}: ${title}`,
    ratio.system,
    ratio.figure,
    ratioText(ratio),
    worse ? 'worse by more than a tenth' : '',
  ])
  const head = ['', 'system', 'figure', `this / ${compared.ref}`, '']
  return `<h2>Beside ${escape(compared.ref)}</h2><div class="card scroll">${htmlTable({ head, rows }, 'Differences')}</div>`
}

function article(section: SectionResult, i: number): string {
  const { id, title, cells, notMeasured } = section
  const foreign = shownRatios(section).some(({ against }) => !isOurs(against))
  const curve = section.along !== undefined
  const bars = curve ? [] : barColumns(section, foreign)
  const part = (heading: string, chart: string) => (chart === '' ? '' : element('h4', {}, escape(heading)) + chart)
  return element(
    'article',
    { id: anchor(section, i) },
    element('h3', {}, element('span', { class: 'id' }, escape(id)), escape(title)),
    doubtText(section),
    part(`Ratio of ${section.columns[section.compared]}: ours over each other system`, ratioBars(section)),
    curve ? element('div', { class: 'pair' }, curves(section)) : part('CPU of a request', cpuStacks(section)),
    ...bars.map((column) => part(section.columns[column] ?? column, valueBars(section, column))),
    ...notMeasured.map((what) => element('p', { class: 'note' }, escape(`Not measured: ${what}.`))),
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

function doubtText({ cells, ratios, verdicts }: SectionResult): string {
  if (ratios.length === 0 && verdicts.length === 0) return ''
  const rounds = new Set(cells.map(({ round }) => round)).size
  const why = doubt(cells, rounds)
  if (why === undefined) return ''
  const share = `${Math.round(markedShare(cells) * 100)} % of the rounds were disturbed`
  return element('p', { class: 'warn' }, `No verdict: ${why === 'too noisy' ? share : 'too few rounds'}.`)
}

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

function missing({ notRun }: Result): string {
  if (notRun.length === 0) return ''
  const rows = notRun.map(({ id, name, reason }) => [`${id} ${name}`, reason])
  return `<h2>Not in this run</h2><div class="card scroll">${htmlTable({ head: ['scenario', 'why'], rows }, 'Not in this run')}</div>`
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
    '<h2>Machine and noise</h2>',
    `<div class="card">${element('dl', {}, ...list)}`,
    ...`${conditions(result)}\n${noiseText(result)}`
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => element('p', { class: 'quiet' }, escape(line))),
    '</div>',
  ].join('\n')
}

function htmlTable({ head, rows }: Table, caption: string): string {
  const cells = (row: readonly string[]) => row.map((cell) => element('td', {}, escape(cell)))
  const headings = head.map((word) => element('th', { scope: 'col' }, escape(word)))
  const body = rows.map((row) => element('tr', {}, ...cells(row)))
  return element(
    'table',
    { 'aria-label': caption },
    element('thead', {}, element('tr', {}, ...headings)),
    element('tbody', {}, ...body),
  )
}
