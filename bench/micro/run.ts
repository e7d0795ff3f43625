import { readCatalog } from '../../core/metadata/change.js'
import { openCatalog } from '../../core/catalog/catalog.js'
import { CompileCache } from '../../core/data/shared-cache.js'
import { compile, type Compiled, type Task } from '../../core/compile/compile.js'
import { encodeCatalog } from '../../core/compile/encoded.js'
import { CompilePool } from '../../core/compile/pool.js'
import { CellQuery } from '../../core/db/cell-query.js'
import { inTransaction } from '../../core/db/database.js'
import { type JsonObject, parseJson } from '../../core/json/parse.js'
import { createLogger } from '../../core/observe/log.js'
import { bind } from '../../core/sql/bind.js'
import { liftSelect } from '../../plugins/query/rows/lift/reads.js'
import plan from '../../plugins/query/rows/plan.js'
import { loadData, loadMetadata, SMALL, USER_ID } from '../data.js'
import { startDatabase, withClient } from '../database.js'
import { byPk } from '../scenarios/by-pk.js'
import { filter } from '../scenarios/filter.js'
import { list } from '../scenarios/list.js'
import { nested } from '../scenarios/nested.js'
import { startServerChild } from '../systems/server.js'
import { median } from '../statistics.js'

/** `node build/bench/micro/run.js`: µs of each step of a request in this process; only the last one asks the database. */
const WARM_MS = 300
const BATCHES = 15
const BATCH_MS = 40
const PLANNER = 'query'

const database = await startDatabase()
try {
  const url = await database.create('micro')
  await withClient(url, (client) => loadData(client, SMALL))
  const server = await startServerChild(url)
  await loadMetadata(server.ask)
  await server.stop()
  await withClient(url, async (client) => {
    const data = await inTransaction(client, () => readCatalog(client))
    const catalog = openCatalog(data)
    const planners = new Map([[PLANNER, new URL('../../plugins/query/rows/plan.js', import.meta.url)]])
    const log = createLogger({ level: 'silent' })
    const pool = new CompilePool({ log, threads: 1, timeoutMs: 10_000, planners }, 0)
    const sendable = { id: data.id, encoded: () => encodeCatalog(data) }
    console.log('| step | request | µs, median (least..most) |\n| --- | --- | --- |')
    for (const scenario of [byPk, list, nested, filter]) {
      const body = JSON.stringify(scenario.request(0, SMALL))
      const argsOf = () => (parseJson(body) as JsonObject)['args'] ?? null
      const lifted = liftSelect(argsOf())
      const task: Task = { planner: PLANNER, shape: lifted.shape, role: 'user', form: 'array' }
      const compiled = compile(task, plan, catalog)
      const [statement] = compiled.statements
      if (!statement) throw new Error('nothing to ask')
      const variables = new Map([['x-service-user-id', String(USER_ID)]])
      const bound = () => bind(statement.params, { values: lifted.values, variables })
      const keyOf = () => JSON.stringify([task.role, task.planner, task.form, task.shape])
      const cache = new CompileCache<Compiled>(() => 1)
      await cache.getOrCompile(keyOf(), async () => compiled)
      const steps: Readonly<Record<string, () => unknown>> = {
        'parse the body': () => parseJson(body),
        'parse it and take the values out': () => liftSelect(argsOf()),
        'compile a new form': () => compile(task, plan, catalog),
        'find a known form': () => cache.get(keyOf()),
        'compile a new form in a worker': () => pool.run(task, sendable),
        'bind the values': bound,
        'ask the database, prepared': async () => {
          const query = new CellQuery(statement.text, bound(), statement.name)
          client.query(query)
          return query.answer
        },
      }
      for (const [step, run] of Object.entries(steps)) {
        console.log(`| ${step} | ${scenario.id} | ${await timed(run)} |`)
      }
    }
    await pool.close()
  })
} finally {
  await database.stop()
}

/** One at a time, after a while of warming up. */
async function timed(run: () => unknown): Promise<string> {
  const repeat = async (ms: number): Promise<number> => {
    const start = performance.now()
    let times = 0
    for (; performance.now() - start < ms; times++) {
      const done = run()
      if (done instanceof Promise) await done
    }
    return ((performance.now() - start) * 1000) / times
  }
  await repeat(WARM_MS)
  const batches: number[] = []
  for (let n = 0; n < BATCHES; n++) batches.push(await repeat(BATCH_MS))
  const short = (us: number) => String(Number(us.toPrecision(3)))
  return `${short(median(batches))} (${short(Math.min(...batches))}..${short(Math.max(...batches))})`
}
