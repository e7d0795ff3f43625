import t from 'tap'
import { linearAxis, logAxis, roundStep, spansDecades, tickText } from '../../bench/report/axis.js'
import { page } from '../../bench/report/page.js'
import { ratiosOf } from '../../bench/ratios.js'
import { checkResult, resultName, type Result } from '../../bench/result.js'
import type { Section } from '../../bench/section.js'
import { summary } from '../../bench/summary.js'
import { verdictsOf } from '../../bench/targets.js'

const LOAD: Section = {
  id: 'a',
  title: 'one <row>, 64 clients',
  columns: {
    efficiency: 'efficiency',
    cpu: 'CPU µs/request',
    rps: 'requests/s',
    server: 'server CPU',
    database: 'PostgreSQL CPU',
    peak: 'peak RSS MiB',
  },
  compared: 'rps',
  targets: [
    { system: 'rowhouse', figure: 'efficiency', least: 0.9 },
    { system: 'rowhouse', figure: 'rps', against: 'koa', least: 0.75 },
    { system: 'rowhouse', figure: 'rps', against: 'another', least: 2 },
    { system: 'rowhouse', figure: 'peak', most: 50 },
  ],
  cells: [0, 1, 2, 3, 4].flatMap((round) => [
    {
      system: 'rowhouse',
      round,
      figures: { efficiency: 0.95, cpu: 500, rps: 80, server: 300, database: 200, peak: 90 },
    },
    { system: 'koa', round, figures: { rps: 100, server: 70 } },
  ]),
  notMeasured: ['another, which is not installed'],
}
const CURVE: Section = {
  id: 'k',
  title: 'more & more clients',
  columns: { rps: 'requests/s' },
  compared: 'rps',
  along: 'clients',
  cells: [1, 16, 256].map((at) => ({ system: 'rowhouse', round: 0, at, figures: { rps: 1000 * at } })),
  notMeasured: [],
}

const resultOf = (...sections: readonly Section[]): Result => ({
  format: 2,
  date: '2026-11-20T12:00:00.000Z',
  build: { sha: '1a2b3c4', changed: false },
  machine: {
    cpus: 2,
    model: 'a processor',
    memoryMiB: 1024,
    system: 'Linux 6',
    loadBefore: [0.1, 0.1, 0.1],
    loadAfter: [1, 1, 1],
  },
  versions: { node: 'v20', postgres: '18.4' },
  settings: { fsync: 'on' },
  options: {
    size: 'S',
    rounds: 5,
    window: { kind: 'seconds', seconds: 1 },
    full: false,
    peers: [],
    scenarios: ['a', 'k'],
  },
  tool: 'wrk',
  sections: sections.map((section) => ({ ...section, ratios: ratiosOf(section), verdicts: verdictsOf(section) })),
  notRun: [{ id: 'h', name: 'files', reason: 'runs with --full' }],
})

t.test('a result is of its schema, and what is not is named with its place', async (t) => {
  const result = JSON.parse(JSON.stringify(resultOf(LOAD, CURVE))) as Result

  t.equal(checkResult(result), result)
  t.throws(() => checkResult({ ...result, format: 1 }), /\/format must be equal to constant/)
  t.throws(() => checkResult({ ...result, surprise: 1 }), /must NOT have additional properties/)
  const broken = { ...LOAD, ratios: [], verdicts: [], cells: [{ system: 'a', round: 0, figures: { rps: null } }] }
  t.throws(() => checkResult({ ...result, sections: [broken] }), /\/sections\/0\/cells\/0\/figures\/rps must be number/)
})

t.test('the report shows ratios, processor time, memory, curves, targets and what is missing', async (t) => {
  const html = page(resultOf(LOAD, CURVE), [])

  for (const words of [
    'rowhouse over koa 0.8 (0.8..0.8), worse',
    '<desc>a one &lt;row&gt; 0.95 (0.95..0.95)</desc>',
    'rowhouse: server 300, PostgreSQL 200; koa: server 70, PostgreSQL 0',
    'rowhouse: 1 1000, 16 16k, 256 256k',
    '<title>target 0.75</title>',
    '<title>target 50</title>',
    'another, which is not installed (a)',
    'Not in this run: h',
  ])
    t.ok(html.includes(words), words)
  t.match(html, /<b>2<\/b>of 4 targets met[^]*<b>1<\/b>missed[^]*<b>1<\/b>not measured/)
})

/** A round that something disturbed. */
const apart = (section: Section): Section => ({
  ...section,
  cells: section.cells.map((cell) =>
    cell.round === 0 && cell.system === 'rowhouse'
      ? { ...cell, figures: { ...cell.figures, efficiency: 0.5, cpu: 900, rps: 30, server: 700 } }
      : cell,
  ),
})

t.test(
  'what is void or not proven is counted neither as met nor as missed, and there are no tiles of nothing',
  async (t) => {
    t.match(page(resultOf(apart(LOAD)), []), /<b>0<\/b>of 4 targets met[^]*<b>1<\/b>missed[^]*<b>3<\/b>not measured/)
    const few = { ...LOAD, cells: LOAD.cells.filter(({ round }) => round < 4) }
    t.match(page(resultOf(few), []), /<b>0<\/b>of 4 targets met[^]*<b>3<\/b>not proven[^]*<b>1<\/b>not measured/)
    t.notMatch(page(resultOf(CURVE), []), /targets met/)
  },
)

t.test('figures whose rounds are too far apart are void, grey, and no headline', async (t) => {
  const [good, bad] = [LOAD, apart(LOAD)].map((section) => page(resultOf(section), [])) as [string, string]
  const bar = (html: string) => /class="([\w]+)"[^>]*><title>server (?:300|700)/.exec(html)?.[1]

  t.same([bar(good), bar(bad)], ['series1', 'unproven'])
  t.match(good, '<h2>Efficiency</h2>')
  t.notMatch(bad, '<h2>Efficiency</h2>')
  t.match(summary(resultOf(apart(LOAD)), 'all'), /void: 500 \(500\.\.900\)[^]*void: rounds differ more than 1\.5 times/)
})

t.test('other work and windows of requests are warned of at the top', async (t) => {
  const result = resultOf(LOAD)
  const busy: Result = { ...result, machine: { ...result.machine, loadBefore: [8, 4, 2] } }
  const trial: Result = { ...result, options: { ...result.options, window: { kind: 'requests', requests: 50 } } }

  t.notMatch(summary(result, 'all'), 'Warning')
  t.match(
    summary(busy, 'all'),
    /^> \*\*Warning:\*\* Other work ran on this machine \(the load average[^]* 8\.0 on 2 CPUs/,
  )
  t.match(summary(trial, 'short'), /^> \*\*Warning:\*\* Windows of so many requests prove nothing/)
  t.match(page(busy, []), 'Other work ran on this machine')
})

t.test('no two results have the same name', async (t) => {
  t.equal(resultName(resultOf(LOAD)), '2026-11-20T12-00-00-1a2b3c4.json')
})

t.test('the report needs nothing from elsewhere, runs no script, and escapes words', async (t) => {
  const html = page(resultOf(LOAD, CURVE), [])

  t.notMatch(html, /<script|<link|@import|url\(|src=/)
  t.notMatch(html, /https?:/)
  t.match(html, 'one &lt;row&gt;')
  t.notMatch(html, '<row>')
  t.equal(html.match(/<svg/g)?.length, html.match(/<desc>/g)?.length, 'every picture is described')
})

t.test('the history has the CPU time of earlier results of the same machine', async (t) => {
  const earlier = { ...resultOf(LOAD), date: '2026-11-01T12:00:00.000Z', build: { sha: '9f8e7d6', changed: false } }

  t.match(page(resultOf(LOAD), []), /There is one result so far/)
  const trial: Result = {
    ...resultOf(LOAD),
    options: { ...resultOf(LOAD).options, window: { kind: 'requests', requests: 50 } },
  }
  t.notMatch(page(trial, [earlier]), 'History', 'what proves nothing is in no history')
  t.match(page(resultOf(LOAD), [earlier]), /rowhouse: 9f8e7d6 500, 1a2b3c4 500/)
  const other = { ...earlier, machine: { ...earlier.machine, model: 'another processor' } }
  t.notMatch(page(resultOf(LOAD), [other]), /9f8e7d6 500/)
  t.notMatch(page(resultOf(LOAD), [{ ...earlier, ...resultOf(apart(LOAD)), date: earlier.date }]), /1a2b3c4 500, /)
})

t.test('the short summary has a row for each section, and no curve', async (t) => {
  const lines = summary(resultOf(LOAD, CURVE), 'short').split('\n')

  t.equal(
    lines[2],
    '| a: one <row>, 64 clients | 0.95 (0.95..0.95) | 80 requests/s | koa: 0.8 (0.8..0.8), worse | ' +
      'efficiency: at least 0.9: met<br>requests/s: at least 0.75 × koa: met<br>peak RSS MiB: at most 50: missed |',
  )
  t.notMatch(lines.join('\n'), 'more & more')
})

t.test('the efficiency is above all other figures', async (t) => {
  const result = resultOf(LOAD, CURVE)

  t.match(
    summary(result, 'all'),
    /### Efficiency[^]*\| a: one <row>, 64 clients \| 0\.95 \(0\.95\.\.0\.95\) \| met \|[^]*### a/,
  )
  t.match(page(result, []), /<h2>Efficiency<\/h2>[^]*<h2>Targets<\/h2>/)
  t.notMatch(summary(resultOf(CURVE), 'all'), 'Efficiency')
})

t.test('the short summary says once what was too noisy', async (t) => {
  const text = summary(resultOf(apart(LOAD)), 'short')

  t.equal(text.match(/too noisy/g)?.length, 1)
  t.match(text, /No difference is proven where .* \(too noisy: a\)/)
})

t.test('axes have round numbers', async (t) => {
  const pixels = { from: 0, to: 100 }

  t.same(linearAxis([37], pixels).ticks, [0, 10, 20, 30, 40])
  t.equal(linearAxis([37], pixels).place(20), 50)
  t.same(logAxis([0.3, 4], pixels).ticks, [0.2, 0.5, 1, 2, 5])
  t.equal(Math.round(logAxis([1, 100], pixels).place(10)), 50)
  t.same(logAxis([1, 1e6], pixels).ticks, [1, 10, 100, 1000, 10_000, 100_000, 1e6])
  t.same([0.3, 7, 40].map(roundStep), [0.5, 10, 50])
  t.same(
    [
      [1, 10],
      [1, 20],
      [0, 20],
    ].map(spansDecades),
    [false, true, false],
  )
  t.same([500, 25_000, 2e6].map(tickText), ['500', '25k', '2M'])
})
