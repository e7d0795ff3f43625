import pg from 'pg'
import t from 'tap'
import { openCatalog, type Table, tableKey } from '../../core/catalog/catalog.js'
import { inTransaction } from '../../core/db/database.js'
import { readCatalog } from '../../core/metadata/change.js'
import { partsOf } from '../../core/metadata/permission.js'
import { ServiceError } from '../../core/errors.js'
import type { Json } from '../../core/json/parse.js'
import { type BoolExp, TRUE } from '../../core/ir.js'
import { allNames } from '../../core/plan/names.js'
import { bind } from '../../core/sql/bind.js'
import { Printer } from '../../core/sql/printer.js'
import { compareRules, reachOf, type Relation } from '../../plugins/query/review/rules/compare.js'
import { generateModel, generateRow, Random } from '../kit/oracle/generate.js'
import type { Exp, Model } from '../kit/oracle/model.js'
import {
  generateNearRules,
  generateRule,
  mutate,
  type Mutation,
  SCHEMA,
  storedValue,
  TYPED,
} from '../kit/rule-pairs.js'
import { cases } from '../kit/property.js'
import { testServer } from '../kit/server.js'

const PAIRS = cases(1000, 'ROWHOUSE_RULE_PAIRS')
const SEED = Number(process.env['ROWHOUSE_RULE_SEED'] ?? 20261127)
const PER_MODEL = 200
const DATA_SETS = 3
const SESSIONS = [
  { 'x-service-user-id': '1', 'x-service-level': '2' },
  { 'x-service-user-id': 'a', 'x-service-level': '1' },
]

interface Pair {
  readonly kind: 'random' | 'near' | 'mutated'
  readonly table: Table
  readonly rules: readonly [Exp, Exp]
  readonly planned: readonly [BoolExp, BoolExp]
  readonly relation: Relation
  readonly mutation?: Mutation
  /** Rules that all rows meet, or none, as `reachOf` says. */
  readonly claims: readonly Claim[]
}
interface Claim {
  readonly exp: BoolExp
  readonly reach: 'all' | 'none'
}

t.test(`what compareRules and reachOf say holds for all rows (${PAIRS} pairs, seed ${SEED})`, async (t) => {
  const server = await testServer(t)
  const client = new pg.Client({ connectionString: server.databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  await server.must('run_sql', { sql: SCHEMA })
  const random = new Random(SEED)
  const relations: Record<string, number> = {}
  const claimed = { all: 0, none: 0 }
  const mutations: Record<string, { all: number; open: number }> = {}
  let distinct = 0

  for (let done = 0; done < PAIRS; done += PER_MODEL) {
    const model = generateModel(random)
    await install(model)
    const pairs = await generatePairs(model)
    const differed = new Set<Pair>()
    for (let set = 0; set < DATA_SETS; set++) {
      await fill(model)
      for (const session of SESSIONS) {
        for (const pair of pairs) {
          const [before, after] = await rowsOf(pair.table, pair.planned, session)
          for (const { exp, reach } of pair.claims) {
            const [met, all] = await rowsOf(pair.table, [exp, TRUE], session)
            if (met.length === (reach === 'all' ? all.length : 0)) continue
            t.fail(`not ${reach}`, { exp: JSON.stringify(exp), rules: JSON.stringify(pair.rules), session, met, all })
            throw new Error('a wrong claim')
          }
          const [kept, allowed] = [before.every((id) => after.includes(id)), after.every((id) => before.includes(id))]
          if (!kept || !allowed) differed.add(pair)
          const isTrue = { same: kept && allowed, wider: kept, narrower: allowed, different: true, unknown: true }
          if (isTrue[pair.relation]) continue
          t.fail(`not ${pair.relation}`, {
            rules: JSON.stringify(pair.rules),
            session,
            before,
            after,
            mutation: pair.mutation,
          })
          throw new Error('a wrong claim')
        }
      }
    }
    for (const { kind, relation, mutation, claims } of pairs) {
      for (const { reach } of claims) claimed[reach]++
      const key = `${kind} ${relation}`
      relations[key] = (relations[key] ?? 0) + 1
      if (!mutation) continue
      const seen = (mutations[mutation.kind] ??= { all: 0, open: 0 })
      seen.all++
      if (relation === 'unknown' || relation === 'different') seen.open++
    }
    distinct += differed.size
  }
  t.comment(JSON.stringify({ relations, differed: distinct, claimed, mutations }))
  const all = Object.values(mutations).reduce((sum, each) => sum + each.all, 0)
  const open = Object.values(mutations).reduce((sum, each) => sum + each.open, 0)
  t.ok(open < all / 10, `of ${all} changes with a known effect, ${open} were not recognised`)
  for (const relation of ['same', 'wider', 'narrower', 'different', 'unknown']) {
    t.ok(
      Object.keys(relations).some((key) => key.endsWith(relation)),
      `${relation} occurred`,
    )
  }
  t.ok(claimed.all > 0 && claimed.none > 0, 'rules with all rows and with none occurred')
  t.ok(distinct > PAIRS / 4, 'many pairs have different rows')

  async function install(model: Model): Promise<void> {
    await server.must('clear_metadata', {})
    const columns = TYPED.map(({ name, type }) => `, ${name} ${type}`).join('')
    const create = Object.keys(model).map(
      (name) => `create table ${name} (id int primary key, n int, b bool, s text, ref int${columns});`,
    )
    await server.must('run_sql', { sql: `drop table if exists t0, t1, t2, t3, t4 cascade; ${create.join('')}` })
    await server.must('bulk', [
      ...Object.keys(model).map((name) => ({ type: 'track_table', args: name })),
      ...Object.values(model).flatMap(({ name, relations }) =>
        Object.entries(relations).map(([relation, { single, table, local, remote }]) => ({
          type: `create_${single ? 'object' : 'array'}_relationship`,
          args: {
            table: name,
            name: relation,
            using: { manual_configuration: { remote_table: table, column_mapping: { [local]: remote } } },
          },
        })),
      ),
    ])
  }

  async function fill(model: Model): Promise<void> {
    const row = (id: number) => ({
      ...generateRow(random, id),
      ...Object.fromEntries(TYPED.map((column) => [column.name, storedValue(random, column)])),
    })
    await server.must(
      'bulk',
      Object.keys(model).flatMap((table) => [
        { type: 'delete', args: { table, where: {} } },
        {
          type: 'insert',
          args: { table, objects: Array.from({ length: 5 + random.below(20) }, (_, i) => row(i + 1)) },
        },
      ]),
    )
  }

  async function generatePairs(model: Model): Promise<readonly Pair[]> {
    const catalog = openCatalog(await inTransaction(client, () => readCatalog(client)))
    const names = allNames(catalog)
    const pairs: Pair[] = []
    while (pairs.length < PER_MODEL) {
      const name = random.pick(Object.keys(model))
      const table = catalog.tables.get(tableKey({ schema: 'public', name })) as Table
      const { kind, before, after, mutation } = generatePair(random, model, name)
      const plan = (rule: Exp) => partsOf({ filter: rule } as Json, 'filter', table, names).exp
      try {
        const planned = [plan(before), plan(after)] as const
        const relation = compareRules(...planned)
        const not = (of: BoolExp): BoolExp => ({ kind: 'not', of })
        const claims = [
          ...planned,
          { kind: 'and', of: [planned[0], not(planned[1])] } as const,
          { kind: 'or', of: [planned[0], not(planned[1])] } as const,
        ].flatMap((exp): readonly Claim[] => {
          const reach = reachOf(exp, table, catalog.tables, { left: 100_000 })
          return reach ? [{ exp, reach }] : []
        })
        pairs.push({
          kind,
          table,
          rules: [before, after],
          planned,
          relation,
          claims,
          ...(mutation ? { mutation } : {}),
        })
      } catch (error) {
        // Not every operator fits every type.
        if (!(error instanceof ServiceError)) throw error
      }
    }
    return pairs
  }

  async function rowsOf(
    table: Table,
    rules: readonly [BoolExp, BoolExp],
    session: Record<string, string>,
  ): Promise<[number[], number[]]> {
    const printer = new Printer()
    const [before, after] = rules.map((exp) => {
      const alias = printer.alias()
      return `array(select ${alias}.id from ${table.name} ${alias} where ${printer.condition(exp, alias)})`
    })
    const { params } = printer.statement('' as never)
    const variables = new Map(Object.entries(session))
    const { rows } = await client.query(
      `select ${before} as before, ${after} as after`,
      bind(params, { values: [], variables }),
    )
    return [rows[0].before, rows[0].after]
  }
})

function generatePair(random: Random, model: Model, table: string): Generated {
  const kind = random.pick(['random', 'near', 'near', 'mutated', 'mutated'] as const)
  if (kind === 'near') {
    const [before, after] = generateNearRules(random, model, table)
    return { kind, before, after }
  }
  const before = generateRule(random, model, table, 1 + random.below(3))
  if (kind === 'random') return { kind, before, after: generateRule(random, model, table, 1 + random.below(2)) }
  const mutation = mutate(random, model, table, before)
  return { kind, before, after: mutation.to, mutation }
}
interface Generated extends Pick<Pair, 'kind' | 'mutation'> {
  readonly before: Exp
  readonly after: Exp
}
