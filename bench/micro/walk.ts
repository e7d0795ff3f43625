import { pathToFileURL } from 'node:url'
import { Session } from 'node:inspector/promises'
import { spawnThrowaway, TEST_DATABASE_URL } from '../../test/kit/cluster.js'
import { testServer } from '../../test/kit/server.js'

const NEW = ['$gt', '$gte', '$lte', '$ne', '$is_distinct']
/** On a busy machine, many requests are too slow for shared connections. */
const TIMES = 25

/** The files in which some code runs for one request, by kind of request. `TEST_DATABASE_URL` names a cluster. */
export async function walks(): Promise<Readonly<Record<string, readonly string[]>>> {
  const atEnd: (() => Promise<void>)[] = []
  const server = await testServer({ teardown: (fn) => atEnd.push(fn) })
  await server.must('run_sql', { sql: 'create table note (id int primary key, title text)' })
  await server.must('bulk', [
    { type: 'track_table', args: 'note' },
    {
      type: 'create_select_permission',
      args: { table: 'note', role: 'user', permission: { columns: '*', filter: {} } },
    },
    {
      type: 'create_query_template',
      args: {
        name: 'one',
        template: { type: 'select', args: { table: 'note', columns: ['id'], where: { id: { param: 'id' } } } },
      },
    },
  ])
  const profiler = new Session()
  profiler.connect()
  await profiler.post('Profiler.enable')

  /** Runs a request a few times, because others may be in the way, and returns the fewest files. */
  async function filesOf(request: (times: number) => Promise<unknown>, most = TIMES): Promise<readonly string[]> {
    const all: (readonly string[])[] = []
    for (let times = 0; times < most; times++) all.push(await filesOfOne(() => request(times)))
    return all.reduce((least, each) => (each.length < least.length ? each : least))
  }

  async function filesOfOne(request: () => Promise<unknown>): Promise<readonly string[]> {
    await profiler.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    await profiler.post('Profiler.takePreciseCoverage')
    await request()
    const { result } = await profiler.post('Profiler.takePreciseCoverage')
    await profiler.post('Profiler.stopPreciseCoverage')
    return result
      .filter(({ url }) => /\/build\/(core|plugins|providers)\//.test(url))
      .filter(({ functions }) =>
        functions.some(({ functionName, ranges }) => functionName !== '' && ranges[0]!.count > 0),
      )
      .map(({ url }) => url.replace(/.*\/build\//, '').replace(/\.js$/, '.ts'))
      .toSorted()
  }

  const ask = (type: string, args: object) => server.query(type, args, { role: 'user' })
  const select = (where: object) => ask('select', { table: 'note', columns: ['id'], where })
  const template = () => ask('execute_query_template', { name: 'one', args: { id: 3 } })
  for (let id = 0; id < 40; id++) await select({ id })
  for (let times = 0; times < 40; times++) await template()
  // Opens a connection for many rows.
  await select({ id: { $lt: 3 } })
  const found = {
    'a select that was compiled before': await filesOf(() => select({ id: 7 })),
    'a select of a new shape': await filesOf((times) => select({ id: { [NEW[times]!]: 3 } }), NEW.length),
    'a template that was compiled before': await filesOf(template),
  }
  profiler.disconnect()
  for (const end of atEnd.reverse()) await end()
  return found
}

/** `node build/bench/micro/walk.js [--list]` */
async function main(): Promise<void> {
  const cluster = await spawnThrowaway()
  process.env[TEST_DATABASE_URL] = cluster.url
  for (const [name, files] of Object.entries(await walks())) {
    process.stdout.write(`${name}: ${files.length} files\n`)
    if (process.argv.includes('--list')) process.stdout.write(`${files.map((file) => `  ${file}\n`).join('')}`)
  }
  await cluster.stop()
  process.exit()
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()
