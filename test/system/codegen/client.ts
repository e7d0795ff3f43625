import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { loadPackage } from '../packages.js'

const PATIENCE_MS = 120_000
const TSC = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')

/** A folder of TypeScript that is written, compiled and run with what the generators need beside it. */
export interface Client {
  readonly folder: string
  write(name: string, text: string): Promise<void>
  /** Compiles every file strictly. @returns what the compiler had against them, empty when nothing */
  compile(): Promise<string>
  /** Runs a compiled file, or a command of a package. @returns what it printed */
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<string>
  /** A module of a package that is installed. */
  // oxlint-disable-next-line typescript/no-explicit-any
  load(name: string): any
}

export async function client(home: string, name: string): Promise<Client> {
  const folder = join(home, `${process.pid}-${name.replaceAll(/\W+/g, '-')}`)
  await mkdir(folder, { recursive: true })
  const write = (file: string, text: string) => writeFile(join(folder, file), text)
  await write('tsconfig.json', JSON.stringify({ compilerOptions: OPTIONS, include: ['*.ts'] }))
  const run = (args: readonly string[], env: Readonly<Record<string, string>> = {}) => node(folder, args, env)
  return {
    folder,
    write,
    run,
    compile: () => run([TSC, '-p', '.']).then(() => '', complaints),
    load: (name) => loadPackage(home, name),
  }
}

const OPTIONS = {
  target: 'ES2022',
  lib: ['ES2023', 'DOM', 'DOM.Iterable'],
  types: [],
  module: 'NodeNext',
  strict: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: true,
  pretty: false,
}

function complaints(error: unknown): string {
  const { stdout, message } = error as { stdout?: string; message: string }
  return stdout === undefined || stdout === '' ? message : stdout
}

function node(cwd: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
  const options = { cwd, timeout: PATIENCE_MS, maxBuffer: 64 * 2 ** 20, env: { ...process.env, ...env } }
  // Without the loaders that the test runner gives to every child.
  const command = ['-u', 'NODE_OPTIONS', process.execPath, ...args]
  return new Promise((resolve, reject) => {
    execFile('env', command, options, (error, stdout, stderr) => {
      if (error) reject(Object.assign(error, { stdout, message: `${error.message}\n${stderr}` }))
      else resolve(stdout)
    })
  })
}
