import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { transformSync } from 'esbuild'
import { startMeasured } from '../calibrate.js'
import { createTemplate } from '../kit/template.js'
import type { Job } from '../pool.js'
import { full, quick } from '../suites.js'
import { firstFailure } from './first-failure.js'

/**
 * `npm run test:mutations [-- NAME... --quick]`: plants each fault of this folder into a copy of the product, one by one, and
 * runs `npm test` until a test fails. Those that it does not find, `npm run test:full` must find, unless `--quick` leaves it out.
 */
const LEAST = 0.9
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const FOLDER = join(ROOT, 'test/mutations')
const { positionals, values } = parseArgs({ allowPositionals: true, options: { quick: { type: 'boolean' } } })
const names = readdirSync(FOLDER)
  .filter(
    (name) => name.endsWith('.patch') && (positionals.length === 0 || positionals.some((each) => name.includes(each))),
  )
  .sort()

const cluster = await startMeasured()
const place = { databaseUrl: cluster.url, template: (await createTemplate(cluster.url)).name }
const copy = copyOf(ROOT)
const found = { quick: 0, full: 0 }
for (const name of names) {
  const began = performance.now()
  const patch = readFileSync(join(FOLDER, name), 'utf8')
  const undo = plant(patch)
  const byQuick = await firstFailure(jobsFor(quick(place), patch), copy)
  const by = byQuick ?? (values.quick ? undefined : await firstFailure(jobsFor(full(place), patch), copy))
  undo()
  if (byQuick !== undefined) found.quick++
  if (by !== undefined) found.full++
  const verdict = by === undefined ? 'SURVIVED' : byQuick === undefined ? 'test:full' : 'npm test'
  console.log(
    `${verdict.padEnd(9)} ${seconds(began).padStart(5)}  ${name.replace('.patch', '').padEnd(32)} ${by ?? ''}`,
  )
}
await cluster.stop()
rmSync(copy, { recursive: true, force: true })
console.log(`\n${names.length} faults: npm test found ${found.quick}, npm run test:full ${found.full}`)
if ((!values.quick && found.full < names.length) || found.quick < names.length * LEAST) process.exitCode = 1

/** The tree with its build, and the packages of this one. */
function copyOf(root: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'rowhouse-mutations-'))
  const left = new Set(['node_modules', '.git', '.tap', '.rowhouse'])
  for (const name of readdirSync(root)) {
    if (!left.has(name)) cpSync(join(root, name), join(folder, name), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

/** Applies a patch to the copy, and compiles the files that it changes. Returns what takes it back. */
function plant(patch: string): () => void {
  const sources = [...patch.matchAll(/^\+\+\+ b\/(\S+\.ts)$/gm)].map(([, path]) => path as string)
  const before = new Map<string, string>()
  const write = (path: string, text: string) => writeFileSync(join(copy, path), text)
  const read = (path: string) => readFileSync(join(copy, path), 'utf8')
  for (const path of sources) for (const each of [path, compiledOf(path)]) before.set(each, read(each))
  const { status, stderr } = spawnSync('git', ['apply', '--whitespace=nowarn'], {
    cwd: copy,
    input: patch,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`a patch no longer applies: ${stderr}`)
  for (const path of sources) {
    const { code } = transformSync(read(path), {
      loader: 'ts',
      target: 'node20',
      sourcefile: path,
      sourcemap: 'inline',
    })
    write(compiledOf(path), code)
  }
  bundle()
  return () => {
    for (const [path, text] of before) write(path, text)
  }
}

/** Tests that start processes start the program. It is made of the sources. */
function bundle(): void {
  const { status, stderr } = spawnSync(process.execPath, ['build.mjs', 'program'], { cwd: copy, encoding: 'utf8' })
  if (status !== 0) throw new Error(`the copy cannot be built: ${stderr}`)
}

function compiledOf(path: string): string {
  return `build/${path.replace(/\.ts$/, '.js')}`
}

/**
 * Jobs without those that check sources. A line `Found by: PATTERN` of the patch names those that probably find it: they run
 * first.
 */
function jobsFor(jobs: readonly Job[], patch: string): readonly Job[] {
  const likely = new RegExp(/^Found by: (.+)$/m.exec(patch)?.[1] ?? '(?!)')
  const all = jobs.filter(({ command }) => command !== 'npm')
  return [...all.filter(({ name }) => likely.test(name)), ...all.filter(({ name }) => !likely.test(name))]
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(0)} s`
}
