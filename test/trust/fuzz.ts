import { fileURLToPath } from 'node:url'
import { startThrowaway } from '../kit/cluster.js'
import type { Part, PartOptions, Score } from './part.js'
import { runTest } from './run-test.js'

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
    name: 'rubbish',
    file: '../fuzz/rubbish.test.js',
    unit: 'values that types may refuse',
    count: 50_000,
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
        const path = fileURLToPath(new URL(suite.file, import.meta.url))
        const { failure } = await runTest(path, suite.env(suite.count, next), cluster.url)
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
