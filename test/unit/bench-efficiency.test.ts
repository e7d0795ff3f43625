import t from 'tap'
import { EFFICIENCY, efficiencyTargets, withEfficiency } from '../../bench/efficiency.js'
import type { Cell, Section } from '../../bench/section.js'
import { boundText, verdictsOf, whyNotMeasured } from '../../bench/targets.js'

const ROLES = { servers: ['rowhouse', 'postgraphile 5.0 with policies'], koa: 'koa', pgbench: 'pgbench, 16 clients' }
const cell = (system: string, figures: Cell['figures'], more: Partial<Cell> = {}): Cell => ({
  system,
  round: 0,
  figures,
  ...more,
})

t.test('efficiency is the CPU time of pgbench and of Koa over that of server and PostgreSQL', async (t) => {
  const cells = [
    cell('rowhouse', { server: 100, database: 25 }),
    cell('koa', { server: 70, database: 1 }),
    cell('pgbench, 16 clients', { database: 30, load: 28 }),
    cell('postgraphile 5.0 with policies', { server: 600, database: 150 }),
    // Ours is 110 in this round, and the limits are 99.
    cell('rowhouse', { server: 80, database: 30 }, { round: 1 }),
    cell('koa', { server: 66, database: 0 }, { round: 1 }),
    cell('pgbench, 16 clients', { database: 33, load: 28 }, { round: 1 }),
  ]

  const measured = withEfficiency(cells, ROLES)

  t.same(
    measured.map(({ system, round, figures }) => [system, round, figures['efficiency'], figures['cpu']]),
    [
      ['rowhouse', 0, 0.8, 125],
      ['koa', 0, undefined, undefined],
      ['pgbench, 16 clients', 0, undefined, undefined],
      ['postgraphile 5.0 with policies', 0, 100 / 750, 750],
      ['rowhouse', 1, 0.9, 110],
      ['koa', 1, undefined, undefined],
      ['pgbench, 16 clients', 1, undefined, undefined],
    ],
  )
})

t.test('there is no efficiency without both limits, or without CPU times', async (t) => {
  const ours = cell('rowhouse', { server: 100, database: 25 })
  const koa = cell('koa', { server: 70 })
  const pgbench = cell('pgbench, 16 clients', { database: 30 })
  const efficiency = (...cells: readonly Cell[]) => withEfficiency(cells, ROLES)[0]?.figures['efficiency']

  t.equal(efficiency(ours, koa, pgbench), 0.8)
  t.equal(efficiency(ours, koa), undefined)
  t.equal(efficiency(ours, pgbench), undefined)
  t.equal(efficiency(ours, koa, { ...pgbench, round: 1 }), undefined, 'of another round')
  t.equal(efficiency(ours, koa, { ...pgbench, void: '3 requests failed' }), undefined)
  t.equal(efficiency(cell('rowhouse', { rps: 9 }), koa, pgbench), undefined)
  t.equal(efficiency(cell('rowhouse', { server: 0, database: 0 }), koa, pgbench), undefined)
})

t.test('there is no efficiency where rounds are more than 1.5 times apart, or of more than 2', async (t) => {
  const figures = (servers: readonly number[], koa = 70) =>
    withEfficiency(
      servers.flatMap((server, round) => [
        cell('rowhouse', { server, database: 20, rps: 9 }, { round }),
        cell('koa', { server: round === 0 ? koa : 70 }, { round }),
        cell('pgbench, 16 clients', { database: 30 }, { round }),
      ]),
      ROLES,
    ).flatMap(({ system, figures }) => (system === 'rowhouse' ? [Object.keys(figures)] : []))
  const own = ['server', 'database', 'rps', 'cpu']
  const all = [...own, 'efficiency']

  t.same(figures([80, 100, 130]), [all, all, all], '1.5 times')
  t.same(figures([80, 100, 131]), [own, own, own], 'more')
  t.same(figures([80, 80, 80], 110), [own, own, own], 'of a limit')
  t.same(figures([25, 25, 25]), [own, own, own], 'more than twice as good as what does nothing else')
})

t.test('targets are an efficiency, and a share of what PostGraphile 5 and a server written by hand take', async (t) => {
  const section = (server: number, peer: string): Section => ({
    id: 'a',
    title: 'a scenario',
    columns: { efficiency: 'efficiency', cpu: 'CPU' },
    compared: 'cpu',
    lessIsBetter: ['cpu'],
    targets: efficiencyTargets({ efficiency: 0.9, fastify: 0.8, postgraphile: 6 }),
    cells: [0, 1, 2, 3, 4].flatMap((round) =>
      withEfficiency(
        [
          cell('rowhouse', { server, database: 25 }, { round }),
          cell('rowhouse with tokens', { server: server + 10, database: 25 }, { round }),
          cell('koa', { server: 70 }, { round }),
          cell('pgbench, 16 clients', { database: 30 }, { round }),
          cell('fastify 5.1.0', { server: 130, database: 20 }, { round }),
          cell(peer, { server: 600, database: 150 }, { round }),
        ],
        { ...ROLES, servers: ['rowhouse', 'rowhouse with tokens', 'fastify 5.1.0', peer] },
      ),
    ),
    notMeasured: ['postgraphile 5.0.0-rc.3, which --peers postgraphile installs'],
  })
  const outcomes = (server: number, peer = 'postgraphile 5.0 with policies') =>
    verdictsOf(section(server, peer)).map(({ outcome, median, proven }) => [
      outcome,
      Number(median?.toFixed(3)),
      proven,
    ])

  t.same(outcomes(75), [
    ['met', 1, true],
    ['met', 0.733, true],
    ['met', 0.133, true],
  ])
  t.same(outcomes(125), [
    ['missed', 0.667, true],
    ['missed', 1.067, true],
    ['missed', 0.2, true],
  ])
  const without = section(100, 'postgraphile 5.0')
  const [efficiency, , beside] = verdictsOf(without)
  t.same(beside?.outcome, 'not measured', 'without policies it does less')
  t.equal(beside && whyNotMeasured(without, beside), 'postgraphile 5.0.0-rc.3, which --peers postgraphile installs')
  t.equal(efficiency && boundText(without, efficiency), 'efficiency: at least 0.9')
  t.equal(beside && boundText(without, beside), 'CPU: at most 0.167 × postgraphile 5 with policies')
  const bare = { ...without, cells: [cell('rowhouse', { rps: 1 })] }
  const [unknown] = verdictsOf(bare)
  t.equal(unknown?.figure, EFFICIENCY)
  t.match(unknown && whyNotMeasured(bare, unknown), /needs pgbench, bare Koa, CPU times/)
})
