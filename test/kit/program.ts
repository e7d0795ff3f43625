import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { type Done, PATIENT } from './command.js'
import { endKeptConnections } from './server.js'
import { until } from './until.js'

const CLI = fileURLToPath(new URL('../../core/cli.js', import.meta.url))

/** A folder without a configuration. */
export async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-program-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

type Environment = Readonly<Record<string, string>>
/** The environment of the program, which has nothing of that of the tests. */
export const environment = (env: Environment) => ({ PATH: process.env['PATH'], ...PATIENT, ...env })

/** Runs the program until its end. */
export function run(folder: string, args: readonly string[], env: Environment = {}, stdin = ''): Promise<Done> {
  return new Promise((resolve) => {
    const options = { cwd: folder, env: environment(env) }
    const child = execFile(process.execPath, [CLI, ...args], options, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, out, err }),
    )
    child.stdin?.end(stdin)
  })
}

/** Starts the program. */
export function spawnRowhouse(t: Test, folder: string, args: readonly string[], env: Environment = {}) {
  const child = spawn(process.execPath, [CLI, ...args], { cwd: folder, env: environment(env) })
  const ended = (once(child, 'close') as Promise<[number | null]>).then(([code]) => code)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const stop = (signal: NodeJS.Signals) => {
    endKeptConnections()
    child.kill(signal)
    return ended
  }
  t.teardown(() => (child.exitCode === null && child.signalCode === null ? stop('SIGTERM') : undefined))
  return { child, ended, stop, output: () => output }
}

/** Starts a command that serves, and waits until it says where and all that it has to say. */
export async function start(t: Test, folder: string, args: readonly string[], env: Environment = {}) {
  const started = spawnRowhouse(t, folder, args, env)
  const { child, output } = started
  const url = () => /https?:\/\/127\.0\.0\.1:\d+/.exec(output())?.[0]
  await until('it serves', () => {
    if (child.exitCode !== null) throw new Error(`it did not start:\n${output()}`)
    const isWhole =
      (output().includes('Try, from this folder') && output().trimEnd().endsWith("'")) ||
      /without a database[^]*The admin secret/.test(output())
    return url() !== undefined && (args[0] !== 'dev' || isWhole)
  })
  return { ...started, url: url() as string }
}
