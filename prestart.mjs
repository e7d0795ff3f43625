// Builds when `build/` is missing or older than a source, so that `npm start` works on a fresh clone and after a pull.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

const SOURCES = ['core', 'plugins', 'providers', 'test', 'bench']
/** What the build writes last. */
const STAMP = 'build/plugins/graphql/page/assets/LICENSES.txt'

const newest = (path) => {
  const stat = statSync(path)
  return stat.isDirectory() ? Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name)))) : stat.mtimeMs
}

const sources = [...SOURCES.filter((path) => existsSync(path)), 'tsconfig.json', 'package.json']
if (!existsSync(STAMP) || Math.max(...sources.map(newest)) > statSync(STAMP).mtimeMs) {
  console.error('building ...')
  process.exitCode = spawnSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' }).status ?? 1
}
