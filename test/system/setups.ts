import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { filesOf, testFile } from '../files.js'
import { spawnThrowaway } from '../kit/cluster.js'
import { startPooler, TEST_POOLER_URL } from '../kit/pooler.js'
import { TEST_FAST } from '../kit/server.js'
import { TEST_PROCESSES } from '../kit/several-processes.js'
import { createTemplate } from '../kit/template.js'
import type { Pool } from '../pool.js'
import { installWithTests, nodesOf } from './package/tarball.js'

/** Suites of `npm test` that `npm run test:system` runs again on another setup. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const apiFile = (name: string): string => `build/test/api/${name}.test.js`

/** Tests of the API that depend on what PostgreSQL does. */
const OF_THE_DATABASE = ['files', 'hidden-rows', 'partitions', 'writes-at-the-edge'].map(apiFile)
const promiseFiles = (): readonly string[] => filesOf('promises')
const apiFiles = (): readonly string[] => [...filesOf('api'), ...promiseFiles()]
/** Names are quoted the same way for each. */
const dependsOnIt = (file: string): boolean => !file.endsWith('/names.test.js')
/** Others than those that `npm test` asks; what our part of the work does is the same for each PostgreSQL. */
const ORACLE = {
  ROWHOUSE_ORACLE_CASES: '800',
  ROWHOUSE_ORACLE_SEED: '15',
  ROWHOUSE_NONINTERFERENCE_CASES: '6000',
  ROWHOUSE_NONINTERFERENCE_SEED: '15',
}

/** Tests of connections that requests share, of which there are none behind a pooler and without the fast lanes. */
const OF_SPEED = ['quick-reads', 'shared-commits'].map(apiFile)

const promiseFile = (group: string): string => `build/test/promises/${group}.test.js`
/** What a server says of itself, its listeners and its configurations: the same on each database. */
const OF_SETTINGS = promiseFile('settings')

/** Why files cannot run on a server of several processes. */
const IN_ONE_PROCESS: Readonly<Record<string, readonly string[]>> = {
  'the fake providers of the test are objects of its own process': [
    'notify',
    'outbox',
    'provider-answers',
    'services',
    'steps',
  ],
  'a plugin of the server calls functions of the test': ['file-service'],
  'each process learns by itself which inserts share a commit': ['shared-commits'],
  'the limits that it counts hold for each process': ['caller-limits', 'server', 'unread-answers'],
  'it starts servers with settings, and commands, of its own': ['settings'],
}

/** The suites that depend on the database, on the PostgreSQL of the system. */
export function onSystemPostgres(pool: Pool, bin: string): Promise<boolean> {
  const files = [...filesOf('db').filter(dependsOnIt), ...OF_THE_DATABASE, ...promiseFiles()]
  return runAgain(pool, 'PostgreSQL of the system', files, { env: { PG_BIN: bin, ...ORACLE } })
}

/** The tests of the API on servers without the fast lanes that reach their databases through PgBouncer in transaction mode. */
export function throughPooler(pool: Pool): Promise<boolean> {
  const files = apiFiles().filter((file) => !OF_SPEED.includes(file) && file !== OF_SETTINGS)
  return runAgain(pool, 'PgBouncer', files, { env: { [TEST_FAST]: 'false' }, isPooled: true })
}

/** The tests of the API on servers of two processes. */
export function onTwoProcesses(pool: Pool): Promise<boolean> {
  const left = new Set(Object.values(IN_ONE_PROCESS).flat())
  const files = apiFiles().filter((file) => !left.has(basename(file, '.test.js')))
  return runAgain(pool, 'two processes', files, { env: { [TEST_PROCESSES]: '2' } })
}

/** The tests of the API on the code and the dependencies of the tarball, with each version of Node.js. */
export async function fromTarball(pool: Pool, tools: string): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-tarball-'))
  const installed = await installWithTests(folder)
  const nodes = [...nodesOf(tools)].filter(([, node]) => existsSync(node))
  const all = nodes.map(([name, node]) =>
    runAgain(pool, `the tarball, ${name}`, apiFiles(), { node, folder: installed }),
  )
  const ok = (await Promise.all(all)).every((passed) => passed)
  await rm(folder, { recursive: true, force: true })
  return ok
}

interface Setup {
  readonly env?: Readonly<Record<string, string>>
  /** Whether PgBouncer is in front of the database. */
  readonly isPooled?: boolean
  /** The path of Node.js. */
  readonly node?: string
  /** Where `build` is. */
  readonly folder?: string
}

async function runAgain(
  pool: Pool,
  name: string,
  files: readonly string[],
  { env = {}, isPooled = false, node = process.execPath, folder = ROOT }: Setup,
): Promise<boolean> {
  const cluster = await spawnThrowaway(env)
  const template = await createTemplate(cluster.url)
  const pooler = isPooled ? await startPooler(cluster.url) : undefined
  const ofSetup = {
    ...env,
    ...(pooler === undefined ? {} : { [TEST_POOLER_URL]: pooler.url }),
    // The same file may run on another setup at the same time, and has folders of its own there.
    TAP_CWD: join(folder, '.tap', name.replaceAll(/\W+/g, '-')),
  }
  const jobs = files.map((file) => ({
    ...testFile(join(folder, file), { databaseUrl: cluster.url, template: template.name, env: ofSetup }),
    name: `${file} (${name})`,
    command: node,
  }))
  const ok = await pool.run(jobs)
  await pooler?.stop()
  await cluster.stop()
  return ok
}
