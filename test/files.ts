import { existsSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TEST_DATABASE_URL } from './kit/cluster.js'
import { TEST_TEMPLATE } from './kit/database.js'
import { patience } from './kit/patience.js'
import type { Job } from './pool.js'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const GROUP = 'build/test/group.js'

/** A hung file ends itself with an error before the pool ends it. */
const FILE_MS = 1_800_000

/**
 * The compiled tests of a folder and the folders in it, e.g. `build/test/api/bulk.test.js`, by name. Those whose source is
 * gone do not count.
 */
export function filesOf(folder: string): string[] {
  const isThere = (name: string) => existsSync(join(ROOT, 'test', folder, name.replace(/\.js$/, '.ts')))
  const inside = join(ROOT, 'build/test', folder)
  return readdirSync(inside, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.js') && isThere(name))
    .map((name) => relative(ROOT, join(inside, name)))
    .sort()
}

/** Where tests run. */
export interface Setting {
  /** A cluster for its databases. By default the file starts one for itself if it needs one. */
  readonly databaseUrl?: string
  /** Name of a database of the cluster, which servers copy. By default they migrate their own. */
  readonly template?: string
  readonly env?: Readonly<Record<string, string>>
}

/** A test file is a program of its own that prints TAP: no test runner stands between. */
export const testFile = (file: string, setting: Setting = {}): Job => testJob(file, [file], setting)

/** Test files that run one after the other in one process. */
export const testGroup = (name: string, files: readonly string[], setting: Setting = {}): Job =>
  testJob(name, [GROUP, name.replaceAll(/\W+/g, '-'), ...files], setting)

function testJob(name: string, program: readonly string[], { databaseUrl, template, env = {} }: Setting): Job {
  return {
    name,
    command: process.execPath,
    args: ['--enable-source-maps', ...program],
    env: {
      TAP_TIMEOUT: String(patience(FILE_MS) / 1000),
      ...(databaseUrl === undefined ? {} : { [TEST_DATABASE_URL]: databaseUrl }),
      ...(template === undefined ? {} : { [TEST_TEMPLATE]: template }),
      ...env,
    },
    prints: TAP,
  }
}

/** More than no test. */
const TAP = /^1\.\.[1-9]/m
