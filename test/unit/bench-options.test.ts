import t from 'tap'
import { differencesOf, hasNoVerdict } from '../../bench/compare.js'
import { readOptions, USAGE } from '../../bench/options.js'
import { SCENARIOS } from '../../bench/scenarios/index.js'
import type { Cell, Section } from '../../bench/section.js'
import { comparisonVerdict } from '../../bench/summary.js'

function read(...args: readonly string[]) {
  const options = readOptions(args)
  if (options === 'help') throw new Error('help')
  return { ...options, scenarios: options.scenarios.map(({ id }) => id) }
}

t.test('a run without options is the quick one, and --full is all of it', async (t) => {
  const quick = read()
  const full = read('--full')

  t.match(quick, { rounds: 5, window: { kind: 'seconds', seconds: 1 }, full: false, size: { name: 'S' } })
  t.match(full, { rounds: 9, window: { kind: 'seconds', seconds: 3 }, full: true, size: { name: 'M' } })
  t.ok(quick.scenarios.includes('a') && !quick.scenarios.includes('h'))
  t.ok(full.scenarios.includes('h'))
})

t.test('a comparison has nine rounds of what is compared, or some of it', async (t) => {
  t.match(read('--compare', 'v1'), { rounds: 9, compare: 'v1' })
  t.ok(read('--compare', 'v1').scenarios.includes('a'))
  t.notOk(read('--compare', 'v1').scenarios.includes('b'))
  t.same(read('--compare', 'v1', '--only', 'g').scenarios, ['g'])
})

t.test('peers by their URL may be several', async (t) => {
  t.match(read('--peer', 'hasura=http://h:1', '--peer', 'postgrest=http://h:2').peerUrls, [
    { product: 'hasura', url: { host: 'h:1' } },
    { product: 'postgrest', url: { host: 'h:2' } },
  ])
  t.same(read().peerUrls, [])
})

t.test('options that make no sense are refused', async (t) => {
  t.throws(() => read('--only', 'a,zz'), /no scenario "zz"/)
  t.throws(() => read('--compare', 'v1', '--only', 'b'), /no scenario "b": with --compare there are a, c, e, g, i$/)
  t.throws(() => read('--compare', 'v1', '--peers'), /without --peers/)
  t.throws(() => read('--compare', 'v1', '--peer', 'hasura=http://h'), /without --peers and --peer/)
  t.throws(() => read('--peer', 'hasura=http://h', '--peer', 'hasura=http://h'), /twice/)
  t.throws(() => read('--compare', 'v1', '--save'), /two builds/)
  t.throws(() => read('--rounds', '0'), /whole number above 0/)
  t.throws(() => read('--sudo'), /--sudo/)
  t.throws(() => read('--requests', '9', '--seconds', '1'), /not both/)
  t.throws(() => read('--requests', '9', '--save'), /prove nothing/)
  t.throws(() => read('--full', '--full'), /--full is there twice/)
})

t.test('the help fits into a terminal and names every scenario', async (t) => {
  const lines = USAGE.split('\n')

  t.same(
    lines.filter((line) => line.length > 100),
    [],
  )
  for (const { id, name } of SCENARIOS) t.ok(USAGE.includes(`${id} ${name}`), id)
})

t.test('a build is worse by more than a tenth, of processor time or of what is compared', async (t) => {
  const cells = (system: string, rps: number, server: number): Cell[] =>
    [0, 1, 2, 3, 4].map((round) => ({ system, round, figures: { rps: rps + round, server, database: 100 } }))
  const worse = (rps: number, server: number, last: Partial<Cell> = {}) => {
    const section: Section = {
      id: 'a',
      title: 'a scenario',
      columns: {},
      compared: 'rps',
      cells: [
        ...cells('rowhouse', rps, server).map((cell) => (cell.round === 4 ? { ...cell, ...last } : cell)),
        ...cells('rowhouse at v1', 100, 100),
        ...cells('koa', 1, 1),
      ],
      notMeasured: [],
    }
    return differencesOf([section], ' at v1').map(({ ratio, worse }) => `${ratio.figure} ${worse}`)
  }

  t.same(worse(100, 100), ['cpu false', 'rps false'])
  t.same(worse(92, 115), ['cpu false', 'rps false'], 'worse, but not by much')
  t.same(worse(85, 130), ['cpu true', 'rps true'])
  const quick = { figures: { rps: 200, server: 50, database: 50 } }
  t.same(worse(85, 130, quick), ['cpu false', 'rps false'], 'one round was better, so it may be by chance')
  t.same(worse(150, 50), ['cpu false', 'rps false'], 'better')
})

t.test('a comparison of too few rounds has no verdict', async (t) => {
  const cells: Cell[] = ['rowhouse', 'rowhouse at v1'].map((system) => ({ system, round: 0, figures: { rps: 100 } }))
  const section: Section = { id: 'a', title: 'a scenario', columns: {}, compared: 'rps', cells, notMeasured: [] }
  const comparison = {
    ref: 'v1',
    build: { sha: '1a2b3c4', changed: false },
    differences: differencesOf([section], ' at v1'),
  }

  t.ok(hasNoVerdict(comparison))
  t.match(comparisonVerdict(comparison), /^No verdict: 1 of 1 figures/)
})
