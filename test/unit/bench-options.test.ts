import t from 'tap'
import { differenceOf, hasNoVerdict, isSettled } from '../../bench/compare.js'
import type { Pair } from '../../bench/load/paired-client.js'
import { readOptions, USAGE } from '../../bench/options.js'
import { SCENARIOS } from '../../bench/scenarios/index.js'
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

t.test('a comparison takes six minutes for what is compared, or some of it', async (t) => {
  t.match(read('--compare', 'v1'), { minutes: 6, compare: 'v1' })
  t.same(read('--compare', 'v1').scenarios, ['a', 'c', 'e'])
  t.match(read('--compare', 'v1', '--only', 'b', '--minutes', '3'), { minutes: 3, scenarios: ['b'] })
})

t.test('peers are named, or all of them', async (t) => {
  t.ok(read('--peers', 'all').peers.includes('directus'))
  t.same(read('--peers', 'fastify,postgraphile').peers, ['fastify', 'postgraphile'])
  t.throws(() => read('--peers', 'mongo'), /no "mongo": there are all, or directus, fastify/)
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
  t.throws(() => read('--compare', 'v1', '--only', 'g'), /no scenario "g": with --compare there are a, b, c, d, e$/)
  t.throws(() => read('--minutes', '3'), /belongs to --compare/)
  t.throws(() => read('--compare', 'v1', '--peers', 'all'), /without --peers/)
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

/** Starts of both builds, whose requests cost so many times as much; neighbouring pairs go a twentieth to either side. */
const startsOf = (ratios: readonly number[], server = 100): Pair[][] =>
  ratios.map((ratio) =>
    Array.from({ length: 20 }, (_, i): Pair => {
      const noise = 1 + ((i % 3) - 1) / 20
      return [
        { server: server * ratio * noise, database: 50 },
        { server, database: 50 },
      ]
    }),
  )
const findings = (starts: readonly (readonly Pair[])[]) =>
  differenceOf('a', 'by-pk', starts).map(({ ratio: { figure, finding } }) => `${figure} ${finding}`)

t.test('a loss of 5 % is found, of the server or of PostgreSQL', async (t) => {
  t.same(findings(startsOf([1.03, 1.04, 1.05, 1.06, 1.07])), ['server worse', 'database no proven difference'])
  t.same(findings(startsOf([0.93, 0.94, 0.95, 0.96, 0.97])), ['server better', 'database no proven difference'])
  t.same(
    findings(startsOf([1.01, 1.02, 1.01, 1.02, 1.01])),
    ['server no proven difference', 'database no proven difference'],
    'proven, but less than half of 5 %, as chance may be',
  )
  t.same(findings(startsOf([0.97, 0.99, 1, 1.01, 1.03]))[0], 'server no proven difference')
  t.same(findings(startsOf([0.9, 0.95, 1.05, 1.1, 1.15]))[0], 'server too noisy', 'a loss of 5 % cannot be excluded')
  t.same(findings(startsOf([1.05, 1.05, 1.05, 1.05]))[0], 'server too few rounds')
})

t.test('a start that is unlike the others, and bursts that something interrupted, decide nothing', async (t) => {
  const interrupted = startsOf([1, 1, 1, 1, 1]).map((pairs) =>
    pairs.map(([own, other], i): Pair => [i % 10 === 0 ? { ...own, server: 1000 } : own, other]),
  )

  t.same(findings(startsOf([1, 1, 1.1, 1, 1, 1, 1, 1]))[0], 'server no proven difference')
  t.same(findings(interrupted)[0], 'server no proven difference')
})

t.test('PostgreSQL must differ by more, because its figures are less steady', async (t) => {
  const database = (ratio: number) =>
    findings(
      startsOf([1, 1, 1, 1, 1]).map((pairs) =>
        pairs.map(([own, other]): Pair => [{ ...own, database: own.database * ratio }, other]),
      ),
    )[1]

  t.equal(database(1.1), 'database no proven difference')
  t.equal(database(1.2), 'database worse')
})

t.test('figures that are certain need no more starts', async (t) => {
  const settled = (...ratios: number[]) => differenceOf('a', 'by-pk', startsOf(ratios)).map(isSettled)

  t.same(settled(1, 1, 1, 1, 1), [true, true])
  t.same(settled(1, 1, 1, 1), [false, false])
  t.same(settled(0.97, 0.98, 1, 1.02, 1.03), [false, true])
})

t.test('a comparison of too few starts has no verdict', async (t) => {
  const comparison = {
    ref: 'v1',
    build: { sha: '1a2b3c4', changed: false },
    differences: differenceOf('a', 'by-pk', startsOf([1])),
  }

  t.ok(hasNoVerdict(comparison))
  t.match(comparisonVerdict(comparison), /^No verdict: 2 of 2 figures/)
})
