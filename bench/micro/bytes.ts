import { Session } from 'node:inspector/promises'
import { spawnThrowaway, TEST_DATABASE_URL } from '../../test/kit/cluster.js'
import { GATEWAY_SECRET, testServer } from '../../test/kit/server.js'
import { runLoad } from '../load/load.js'

/** Until the compiler of V8 has settled, and each shape has proved to be quick. */
const WARM = 6000
const REQUESTS = 4000
const CLIENTS = 32
/** A sample for so many bytes: some 40,000 samples, so that a run differs from another by less than a hundredth. */
const INTERVAL = 2048

const COLUMNS = ['id', 'name', 'a', 'b', 'c', 'd', 'e']
const SCHEMA = `
  create table author (id int primary key, name text, a int, b int, c numeric, d timestamptz default now(), e boolean default true);
  insert into author select i, 'author ' || i, i, i * 2, i * 1.5 from generate_series(1, 10000) i;
  create table note (id serial primary key, author_id int references author, t text)`

interface Case {
  readonly path: string
  readonly body: (id: number) => object
}
const query = (type: string, args: (id: number) => object): Case => ({
  path: '/v1/query',
  body: (id: number) => ({ type, args: args(id) }),
})
const CASES = {
  'one row by key': query('select', (id) => ({ table: 'author', columns: COLUMNS, where: { id } })),
  '100 rows': query('select', (id) => ({
    table: 'author',
    columns: COLUMNS,
    where: { id: { $gt: id } },
    order_by: ['id'],
    limit: 100,
  })),
  'one row inserted': query('insert', (id) => ({
    table: 'note',
    objects: [{ author_id: id, t: 'x' }],
    returning: ['id'],
  })),
  'one row by key with GraphQL': {
    path: '/v1/graphql',
    body: (id: number) => ({
      query: `query ($id: Int!) { author_by_pk(id: $id) { ${COLUMNS.join(' ')} } }`,
      variables: { id },
    }),
  },
}

interface Bytes {
  readonly total: number
  /** By name and place. */
  readonly functions: ReadonlyMap<string, number>
}

/** Returns the bytes that the main thread allocates for a request of a known shape. */
async function bytesPerRequest(): Promise<ReadonlyMap<string, Bytes>> {
  const atEnd: (() => Promise<void>)[] = []
  // On a busy machine too, each shape proves to be quick and stays so.
  const config = { database: { pipelineMaxMs: 1000 } }
  const server = await testServer({ teardown: (fn) => atEnd.push(fn) }, { config })
  await server.must('run_sql', { sql: SCHEMA })
  for (const table of ['author', 'note']) {
    await server.must('track_table', table)
    const permission = { columns: '*', filter: { id: { $gt: 0 } } }
    await server.must('create_select_permission', { table, role: 'user', permission })
  }
  const insert = { check: {}, columns: ['author_id', 't'] }
  await server.must('create_insert_permission', { table: 'note', role: 'user', permission: insert })
  const profiler = new Session()
  profiler.connect()
  await profiler.post('HeapProfiler.enable')
  const found = new Map<string, Bytes>()
  for (const [name, each] of Object.entries(CASES)) found.set(name, await bytesOf(each))
  profiler.disconnect()
  for (const end of atEnd.reverse()) await end()
  return found

  async function bytesOf({ path, body }: Case): Promise<Bytes> {
    const headers = {
      'content-type': 'application/json',
      'x-service-gateway-secret': GATEWAY_SECRET,
      'x-service-role': 'user',
      'x-service-user-id': '1',
    }
    const bodies = Array.from({ length: 1000 }, (_, i) => JSON.stringify(body(1 + 9 * i)))
    const port = Number(new URL(server.url).port)
    const run = async (requests: number): Promise<void> => {
      const job = { port, path, headers, bodies, clients: CLIENTS, window: { kind: 'requests', requests } } as const
      const { failures } = await runLoad(job)
      if (failures > 0) throw new Error(`${failures} requests failed`)
    }
    await run(WARM)
    await profiler.post('HeapProfiler.startSampling', {
      samplingInterval: INTERVAL,
      includeObjectsCollectedByMajorGC: true,
      includeObjectsCollectedByMinorGC: true,
    })
    await run(REQUESTS)
    const { profile } = await profiler.post('HeapProfiler.stopSampling')
    const functions = new Map<string, number>()
    let total = 0
    const walk = ({ callFrame, selfSize, children }: typeof profile.head): void => {
      const file = callFrame.url.replace(/^.*\/(?:build|node_modules)\//, '')
      const at = `${callFrame.functionName || '(anonymous)'} ${file}:${callFrame.lineNumber + 1}`
      functions.set(at, (functions.get(at) ?? 0) + selfSize / REQUESTS)
      total += selfSize / REQUESTS
      children.forEach(walk)
    }
    walk(profile.head)
    return { total, functions }
  }
}

/** `node build/bench/micro/bytes.js [--list]` */
const cluster = process.env[TEST_DATABASE_URL] === undefined ? await spawnThrowaway() : undefined
process.env[TEST_DATABASE_URL] ??= cluster?.url
for (const [name, { total, functions }] of await bytesPerRequest()) {
  process.stdout.write(`${name}: ${total.toFixed(0)} bytes\n`)
  const most = [...functions].toSorted(([, a], [, b]) => b - a).slice(0, 30)
  const lines = most.map(([at, bytes]) => `${bytes.toFixed(0).padStart(7)}  ${at}\n`)
  if (process.argv.includes('--list')) process.stdout.write(lines.join(''))
}
await cluster?.stop()
process.exit()
