import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { startThrowaway, TEST_DATABASE_URL } from '../kit/cluster.js'
import type { Part, PartOptions, Score } from './part.js'

/** The fuzz suites and the permission oracle, with large counts and one seed after the other. */
export const fuzz: Part = {
  about: 'random requests, documents, permissions and statements, with new seeds until time is up',
  run,
}

interface Suite {
  readonly name: string
  readonly file: string
  /** What the counts are of. */
  readonly unit: string
  readonly count: number
  /** Its settings in the environment. */
  env(count: number, seed: number): Readonly<Record<string, string>>
}

const SUITES: readonly Suite[] = [
  {
    name: 'query',
    file: '../fuzz/query.test.js',
    unit: 'requests',
    count: 10_000,
    env: (count, seed) => ({ ROWHOUSE_FUZZ_REQUESTS: String(count), ROWHOUSE_FUZZ_SEED: String(seed) }),
  },
  {
    name: 'graphql',
    file: '../fuzz/graphql.test.js',
    unit: 'documents',
    count: 4_000,
    env: (count, seed) => ({ ROWHOUSE_FUZZ_REQUESTS: String(count), ROWHOUSE_FUZZ_SEED: String(seed) }),
  },
  {
    name: 'files',
    file: '../fuzz/files.test.js',
    unit: 'odd ids, ranges and requests for one file each',
    count: 10_000,
    env: (count, seed) => ({ ROWHOUSE_FUZZ_REQUESTS: String(count), ROWHOUSE_FUZZ_SEED: String(seed) }),
  },
  {
    name: 'permission oracle',
    file: '../db/permission-oracle.test.js',
    unit: 'cases',
    count: 2_000,
    env: (count, seed) => ({ ROWHOUSE_ORACLE_CASES: String(count), ROWHOUSE_ORACLE_SEED: String(seed) }),
  },
]
/** A run that takes longer hangs. */
const RUN_MS = 600_000
const SHOWN = 3000

async function run({ minutes, seed, only, progress }: PartOptions): Promise<Score> {
  const suites = SUITES.filter(({ name }) => only.test(name))
  if (suites.length === 0) throw new Error(`no suite has a name like ${only.source}`)
  const cluster = await startThrowaway()
  const seeds = new Map<Suite, number>()
  const violations: string[] = []
  const end = performance.now() + minutes * 60_000
  try {
    for (let next = Math.floor(seed); performance.now() < end; next++) {
      for (const suite of suites) {
        if (performance.now() > end && seeds.has(suite)) break
        const began = performance.now()
        const failure = await runSuite(suite, next, cluster.url)
        const seconds = ((performance.now() - began) / 1000).toFixed(0)
        seeds.set(suite, (seeds.get(suite) ?? 0) + 1)
        const { name, count, unit } = suite
        progress(`${name}, seed ${next}: ${count} ${unit} in ${seconds} s${failure === undefined ? '' : ', FAILED'}`)
        if (failure !== undefined) violations.push(`${name}, seed ${next}: ${failure}`)
      }
    }
  } finally {
    await cluster.stop()
  }
  return {
    done: [...seeds].map(([{ name, unit, count }, n]) => `${n * count} ${unit} (${name}, ${n} seeds)`).join(', '),
    violations,
    figures: [`seeds from ${Math.floor(seed)}`],
  }
}

/** @returns what a failing run said, and how to repeat it */
async function runSuite({ file, count, env }: Suite, seed: number, url: string): Promise<string | undefined> {
  const path = fileURLToPath(new URL(file, import.meta.url))
  const settings = env(count, seed)
  const child = spawn(process.execPath, [path], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...settings, TAP_TIMEOUT: String(RUN_MS / 1000), [TEST_DATABASE_URL]: url },
  })
  const tooLate = setTimeout(() => child.kill('SIGKILL'), RUN_MS)
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  clearTimeout(tooLate)
  if (child.exitCode === 0) return undefined
  const said = out.slice(Math.max(0, out.search(/^ *not ok/m)))
  const again = Object.entries(settings).map(([key, value]) => `${key}=${value}`)
  return `${said.slice(0, SHOWN)}\n${err.slice(0, SHOWN)}\nagain: ${again.join(' ')} node build/test/run.js build/test/${file.slice(3)}`
}
