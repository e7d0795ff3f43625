import { readdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TEST_DATABASE_URL } from './kit/cluster.js'
import { patience } from './kit/patience.js'
import type { Job } from './pool.js'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const BUILT = dirname(fileURLToPath(import.meta.url))

/** A hung file ends itself with an error before the pool ends it. */
const FILE_MS = 1_800_000

/** The compiled tests of a folder and the folders in it, e.g. `build/test/api/bulk.test.js`, by name. */
export function filesOf(folder: string): string[] {
  const inside = join(BUILT, folder)
  return readdirSync(inside, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.js'))
    .map((name) => relative(ROOT, join(inside, name)))
    .sort()
}

/**
 * A test file is a program of its own that prints TAP: no test runner stands between.
 * @param databaseUrl of a cluster; default: the file starts one for itself if it needs one
 */
export function testFile(file: string, { databaseUrl, env = {} }: { databaseUrl?: string; env?: Env } = {}): Job {
  const cluster: Env = databaseUrl === undefined ? {} : { [TEST_DATABASE_URL]: databaseUrl }
  return {
    name: file,
    command: process.execPath,
    args: ['--enable-source-maps', file],
    env: { TAP_TIMEOUT: String(patience(FILE_MS) / 1000), ...cluster, ...env },
    prints: TAP,
  }
}

type Env = Readonly<Record<string, string>>

/** More than no test. */
const TAP = /^1\.\.[1-9]/m
