import t from 'tap'
import { COLUMNS, generateExp, generateModel, generateRow, Random } from '../kit/oracle/generate.js'
import type { Exp, Model, Row } from '../kit/oracle/model.js'
import { cases } from '../kit/property.js'
import { testServer, type TestServer } from '../kit/server.js'

/** A condition of a trigger decides about a row as the same condition in a query does. */
const CASES = cases(400, 'ROWHOUSE_EVENT_CONDITIONS')
const SEED = Number(process.env['ROWHOUSE_EVENT_SEED'] ?? 20261129)
/** A table may have fifty. */
const PER_MODEL = 40
const ROWS = 12

t.test(`conditions decide about changes as about rows (seed ${SEED})`, async (t) => {
  const events = new URL('../../plugins/events/index.js', import.meta.url)
  // Nothing is delivered.
  const config = { plugins: { events: { concurrency: 0 } }, limits: { newQueries: { perSecond: 0 }, price: 0 } }
  const server = await testServer(t, { builtins: { events }, config })
  const random = new Random(SEED)
  const seen = { made: 0, none: 0 }
  for (let done = 0; done < CASES; done += PER_MODEL) {
    const model = generateModel(random)
    await install(server, model)
    const conditions = await triggers(server, model, random)
    // Rows that refer to others of the same table see them as they are after the statement.
    await server.sql(
      valuesOf(
        't0',
        Array.from({ length: ROWS }, (_, i) => generateRow(random, i + 1)),
      ),
    )
    await compare(t, server, conditions, 'insert', seen)
    await server.sql(`update t0 set n = (n + 2) % 6, b = not b, ref = 1 + (coalesce(ref, id) * 5) % 9`)
    await compare(t, server, conditions, 'update', seen)
  }
  t.comment(JSON.stringify(seen))
  t.ok(seen.made > CASES && seen.none > CASES / 10, 'the cases say something')
})

async function install(server: TestServer, model: Model): Promise<void> {
  const tables = Object.values(model)
  await server.must('clear_metadata', {})
  const sql = tables.map(({ name }) => `create table ${name} (id int primary key, n int, b bool, s text, ref int);`)
  await server.must('run_sql', {
    sql: `drop table if exists t0, t1, t2, t3, t4 cascade; delete from svc_catalog.svc_event; ${sql.join('')}`,
  })
  await server.must('bulk', [
    ...tables.map(({ name }) => ({ type: 'track_table', args: name })),
    ...tables.flatMap(({ name, relations }) =>
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
  for (const { name, rows } of tables) if (name !== 't0') await server.sql(valuesOf(name, rows))
}

const valuesOf = (table: string, rows: readonly Row[]): string =>
  `insert into ${table} select * from json_populate_recordset(null::${table}, '${JSON.stringify(rows)}')`

/** Makes triggers of the first table. @returns their conditions by name */
async function triggers(server: TestServer, model: Model, random: Random): Promise<ReadonlyMap<string, Exp>> {
  const conditions = new Map<string, Exp>()
  const create = (name: string, when: Exp) => {
    return { name, table: 't0', on: { insert: { when }, update: { when } }, to: { plugin: 'none' } }
  }
  while (conditions.size < PER_MODEL) {
    const when = generateExp(random, model, 't0', 3, false, COLUMNS)
    if ((await server.query('select', { table: 't0', columns: ['id'], where: when })).status === 200) {
      conditions.set(`c${conditions.size}`, when)
    } else if ((await server.query('create_event_trigger', create('refused', when))).status === 200) {
      throw new Error(`a query refuses ${JSON.stringify(when)}`)
    }
  }
  const all = [...conditions].map(([name, when]) => ({ type: 'create_event_trigger', args: create(name, when) }))
  await server.must('bulk', all)
  return conditions
}

async function compare(
  t: Tap,
  server: TestServer,
  conditions: ReadonlyMap<string, Exp>,
  operation: string,
  seen: { made: number; none: number },
): Promise<void> {
  const { result } = await server.sql(
    `select trigger_name, jsonb_agg(new -> 'id' order by new -> 'id') from svc_catalog.svc_event where operation = '${operation}' group by 1`,
  )
  const told = new Map(result.slice(1).map(([name, ids]) => [name!, JSON.parse(ids!) as number[]]))
  for (const [name, where] of conditions) {
    const rows = (await server.must('select', { table: 't0', columns: ['id'], where, order_by: ['id'] })) as {
      id: number
    }[]
    const wanted = rows.map(({ id }) => id)
    const found = told.get(name) ?? []
    if (wanted.length > 0) seen.made++
    else seen.none++
    if (JSON.stringify(found) !== JSON.stringify(wanted))
      t.same(found, wanted, `${operation}: ${JSON.stringify(where)}`)
  }
}

type Tap = Pick<typeof t, 'same'>
