import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { patience } from '../kit/patience.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const folder = `${root}test/types`

t.test('plugins and providers that break their contract do not compile, and those that keep it do', async (t) => {
  const compiler = `${root}node_modules/typescript/bin/tsc`

  // Without the loaders that the test runner gives to every child.
  const command = ['-u', 'NODE_OPTIONS', process.execPath, compiler, '-p', folder, '--pretty', 'false']
  const { stdout, stderr } = spawnSync('env', command, { cwd: root, encoding: 'utf8', timeout: patience(600_000) })

  t.equal(stderr, '')
  const found = stdout.matchAll(/^test\/types\/([\w-]+\.ts)\((\d+),\d+\): error (TS\d+)/gm)
  t.same([...new Set([...found].map(([, file, line, code]) => `${file}:${line} ${code}`))].toSorted(), expected())
  t.notMatch(stdout, /^(?!test\/types\/)\S+: error/m, 'nothing else fails')
})

/** `// error TS2322` is about the line below it. */
function expected(): string[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.ts'))
  return files
    .flatMap((file) =>
      readFileSync(`${folder}/${file}`, 'utf8')
        .split('\n')
        .flatMap((line, i) => {
          const code = /^\s*\/\/ error (TS\d+)$/.exec(line)?.[1]
          return code === undefined ? [] : [`${file}:${i + 2} ${code}`]
        }),
    )
    .toSorted()
}
