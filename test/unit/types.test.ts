import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { patience } from '../kit/patience.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const folder = `${root}test/types`
/** Below the program, so that `rowhouse` is this package. */
const examples = `${root}dist/examples`
const compiler = `${root}node_modules/typescript/bin/tsc`

t.test('plugins and providers that break their contract do not compile, and those that keep it do', async (t) => {
  // Without the loaders that the test runner gives to every child.
  const command = ['-u', 'NODE_OPTIONS', process.execPath, compiler, '-p', folder, '--pretty', 'false']
  const { stdout, stderr } = spawnSync('env', command, { cwd: root, encoding: 'utf8', timeout: patience(600_000) })

  t.equal(stderr, '')
  const found = stdout.matchAll(/^test\/types\/([\w-]+\.ts)\((\d+),\d+\): error (TS\d+)/gm)
  t.same([...new Set([...found].map(([, file, line, code]) => `${file}:${line} ${code}`))].toSorted(), expected())
  t.notMatch(stdout, /^(?!test\/types\/)\S+: error/m, 'nothing else fails')
})

t.test('the examples in the comments of Host and Data compile', async (t) => {
  t.teardown(() => rmSync(examples, { recursive: true, force: true }))
  mkdirSync(examples, { recursive: true })
  const found = ['core/host/plugin.ts', 'core/data/data.ts'].flatMap((file) =>
    [...readFileSync(root + file, 'utf8').matchAll(/^ +\* ```ts\n([^]*?)^ +\* ```$/gm)].map(([, code = '']) =>
      code.replaceAll(/^ +\* ?/gm, ''),
    ),
  )
  t.ok(found.length >= 25, `${found.length} examples`)
  for (const [i, code] of found.entries()) writeFileSync(`${examples}/example-${i}.ts`, inSetup(code))
  const settings = {
    extends: '../../test/types/tsconfig.json',
    compilerOptions: { noUnusedLocals: false, noUnusedParameters: false },
  }
  writeFileSync(`${examples}/tsconfig.json`, JSON.stringify({ ...settings, include: ['.'], exclude: [] }))

  const command = ['-u', 'NODE_OPTIONS', process.execPath, compiler, '-p', examples, '--pretty', 'false']
  const { stdout } = spawnSync('env', command, { cwd: root, encoding: 'utf8', timeout: patience(600_000) })

  t.equal(stdout, '')
})

/** A plugin with an example in its `setup`, and what the examples take for granted. */
const inSetup = (code: string): string => `import { join } from 'node:path'
import { type Call, callOf, definePlugin, jsonAnswer, type Request } from 'rowhouse'
import type {} from 'rowhouse/plugins/filestore'
import { WebSocketServer } from 'ws'
declare const call: Call, request: Request, signal: AbortSignal, tasks: Set<string>, isFull: boolean
declare const id: string, entry: string, badge: string, worker: Record<'start' | 'pause' | 'stop', () => void>
export default definePlugin({
  name: 'example',
  needs: ['data', 'operations'],
  wants: ['filestore'],
  async setup(host) {
    const data = host.use('data')
    const operations = host.use('operations')
    const example = async () => {
${code}    }
  },
})
`

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
