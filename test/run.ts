import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * `node build/test/run.js [files]`: runs the tests on one throwaway PostgreSQL for all of them. Without files: every test
 * that needs npm packages alone.
 */
const files = process.argv.slice(2)
const FOLDERS = ['unit', 'api', 'db', 'io', 'fuzz']

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const run = (command: string, args: readonly string[]): void => {
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

// tap compiles its own plugin set once; with the default one it would load a TypeScript that it cannot use.
if (!existsSync(here('../../.tap/plugins'))) run('npx', ['tap', 'build'])
const wanted = files.length > 0 ? files : FOLDERS.map((folder) => `build/test/${folder}/**/*.test.js`)
run(process.execPath, [
  here('./kit/cluster.js'),
  'npx',
  'tap',
  '--disable-coverage',
  process.stdout.isTTY ? '--reporter=terse' : '--reporter=base',
  ...wanted,
])
