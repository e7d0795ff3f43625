import t from 'tap'
import { pairedRatios, ratio, ratiosOf, shownRatios } from '../../bench/ratios.js'
import type { Cell, Section } from '../../bench/section.js'
import { clusteredMean, median, medianInterval, trimmedMean } from '../../bench/statistics.js'
import { verdictsOf } from '../../bench/targets.js'

/** Rounds of one figure. */
const cellsOf = (system: string, values: readonly number[], more: Partial<Cell> = {}): Cell[] =>
  values.map((rps, round) => ({ system, round, figures: { rps }, ...more }))

const sectionOf = (cells: readonly Cell[], more: Partial<Section> = {}): Section => ({
  id: 'a',
  title: 'a scenario',
  columns: { rps: 'requests/s' },
  compared: 'rps',
  cells,
  notMeasured: [],
  ...more,
})

t.test('a median is the middle, or between the two middles', async (t) => {
  t.equal(median([3, 1, 2]), 2)
  t.equal(median([4, 1, 2, 3]), 2.5)
})

t.test('a trimmed mean is without the third at each end, and starts are drawn whole', async (t) => {
  t.equal(trimmedMean([-100, 1, 3, 100]), 2)
  t.equal(trimmedMean([1, 2]), 1.5)
  t.same(
    clusteredMean([
      [1, 1],
      [1, 1, 1],
    ]),
    { mean: 1, low: 1, high: 1 },
  )
  const { mean, low, high } = clusteredMean([[1], [2], [3], [4], [5]])
  t.ok(mean === 3 && low > 1 && low < 3 && high > 3 && high < 5)
})

t.test('an interval is the same for the same sample, and within it', async (t) => {
  const sample = [1, 2, 3, 4, 5, 6, 7, 8, 9]

  t.same(medianInterval(sample), medianInterval(sample))
  t.same(medianInterval(sample), { low: 2, high: 8 })
  t.same(medianInterval([2, 2, 2]), { low: 2, high: 2 })
  t.same(medianInterval([1, 2, 3, 4, 5]), { low: 1, high: 5 }, 'of five rounds it is all of them')
})

t.test('a ratio is of the same round and place, and of figures that count', async (t) => {
  const cells: Cell[] = [
    ...cellsOf('ours', [10, 20, 30]),
    { system: 'theirs', round: 2, figures: { rps: 10 } },
    { system: 'theirs', round: 0, figures: { rps: 5 } },
    { system: 'theirs', round: 1, figures: { rps: 1 }, void: 'requests failed' },
    { system: 'theirs', round: 1, at: 64, figures: { rps: 1 } },
  ]

  t.same(pairedRatios(cells, 'ours', 'theirs', 'rps'), [2, 3])
  t.same(pairedRatios(cells, 'ours', 'theirs', 'rps', 64), [])
})

t.test('a finding needs an interval beside 1, and five rounds that are not too far apart', async (t) => {
  const finding = (ours: readonly number[], more: Partial<Section> = {}) => {
    const cells = [
      ...cellsOf('ours', ours),
      ...cellsOf(
        'theirs',
        ours.map(() => 100),
      ),
    ]
    return ratio(sectionOf(cells, more), 'ours', 'theirs', 'rps')?.finding
  }

  t.equal(finding([110, 120, 130, 140, 150]), 'better')
  t.equal(finding([60, 70, 80, 90, 90]), 'worse')
  t.equal(finding([60, 70, 80, 90, 90], { lessIsBetter: ['rps'] }), 'better')
  t.equal(finding([110, 120, 130, 140, 150], { lessIsBetter: ['rps'] }), 'worse')
  t.equal(finding([98, 120, 130, 140, 147]), 'no proven difference')
  t.equal(finding([110, 120, 130, 140]), 'too few rounds')
  t.equal(finding([102, 120, 130, 140, 154]), 'too noisy', 'the most is more than 1.5 times the least')
})

t.test('every subject is compared with every other system at every place', async (t) => {
  const cells = ['ours', 'too', 'theirs'].flatMap((system) => [
    ...cellsOf(system, [1], { at: 1 }),
    ...cellsOf(system, [1], { at: 64 }),
  ])
  const pairs = ratiosOf(sectionOf(cells, { subjects: ['ours', 'too'], along: 'clients' })).map(
    ({ system, against, at }) => `${system}/${against}@${at}`,
  )

  t.same(pairs, [
    'ours/too@1',
    'ours/theirs@1',
    'ours/too@64',
    'ours/theirs@64',
    'too/ours@1',
    'too/theirs@1',
    'too/ours@64',
    'too/theirs@64',
  ])
})

t.test('a target is met or missed by the median, and proven by the interval', async (t) => {
  const verdict = (ours: readonly number[], least: number) => {
    const theirs = cellsOf(
      'limit, 16 clients',
      ours.map(() => 100),
    )
    const targets = [{ system: 'ours', figure: 'rps', against: 'limit', least }]
    const [found] = verdictsOf(sectionOf([...cellsOf('ours', ours), ...theirs], { targets }))
    return `${found?.outcome} ${found?.proven}`
  }

  t.equal(verdict([80, 81, 82, 83, 84], 0.75), 'met true')
  t.equal(verdict([70, 81, 82, 83, 84], 0.75), 'met false')
  t.equal(verdict([70, 71, 72, 73, 84], 0.75), 'missed false')
  t.equal(verdict([70, 71, 72, 73, 74], 0.75), 'missed true')
  t.equal(verdict([80, 81, 82, 83], 0.75), 'met false', 'four rounds prove nothing')
  t.equal(verdict([80, 81, 82, 83, 124], 0.75), 'not measured false', 'rounds that are so far apart are void')
})

t.test('a target beside several is beside the best of them', async (t) => {
  const cells = [...cellsOf('ours', [50]), ...cellsOf('limit, 1 client', [60]), ...cellsOf('limit, 16 clients', [100])]
  const target = { system: 'ours', figure: 'rps', against: 'limit', least: 0.6 }
  const beside = (more: Partial<Section>) => verdictsOf(sectionOf(cells, { targets: [target], ...more }))[0]?.beside

  t.equal(beside({}), 'limit, 16 clients')
  t.equal(beside({ lessIsBetter: ['rps'] }), 'limit, 1 client')
})

t.test('a target of a figure without a place is one of the worst place', async (t) => {
  const cells = [...cellsOf('ours', [50], { at: 1 }), ...cellsOf('ours', [500], { at: 64 })]
  const targets = [
    { system: 'ours', figure: 'rps', most: 100 },
    { system: 'ours', figure: 'rps', least: 100 },
    { system: 'ours', figure: 'rps', at: 1, most: 100 },
    { system: 'nobody', figure: 'rps', most: 100 },
  ]

  t.same(
    verdictsOf(sectionOf(cells, { along: 'clients', targets })).map(({ outcome, median }) => [outcome, median]),
    [
      ['missed', 500],
      ['missed', 50],
      ['met', 50],
      ['not measured', undefined],
    ],
  )
})

t.test('pictures show ratios to other systems, and to others of ours where there are none', async (t) => {
  const shown = (...systems: readonly string[]) => {
    const section = sectionOf(systems.flatMap((system) => cellsOf(system, [1])))
    return shownRatios({ ...section, ratios: ratiosOf(section) }).map(({ against }) => against)
  }

  t.same(shown('rowhouse', 'rowhouse again', 'koa'), ['koa'])
  t.same(shown('rowhouse', 'rowhouse with a neighbour'), ['rowhouse with a neighbour'])
})
