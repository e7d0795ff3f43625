import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ADMIN_SECRET, endKeptConnections } from './server.js'
import { until } from './until.js'

const CLI = fileURLToPath(new URL('../../core/cli.js', import.meta.url))

interface ProcessOptions {
  /** Arguments of Node.js itself. */
  readonly node?: readonly string[]
  /** Arguments of the command `start`. */
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** A server in a process of its own, `rowhouse start`, which ends with the test. */
export async function serverProcess(
  t: { teardown(fn: () => Promise<void>): unknown },
  databaseUrl: string,
  { node = [], args = [], env = {} }: ProcessOptions = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-test-process-'))
  const child = spawn(process.execPath, [...node, CLI, 'start', '--port', '0', ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'], DATABASE_URL: databaseUrl, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const gone = once(child, 'exit').then(([code]) => code as number | null)
  const stop = async () => {
    endKeptConnections()
    child.kill('SIGTERM')
    return gone
  }
  t.teardown(async () => {
    await stop()
    await rm(folder, { recursive: true, force: true })
  })
  let log = ''
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()))
  const found = () => /"url":"(http:[^"]+)"/.exec(log)?.[1]
  await until('it listens', () => found() !== undefined)
  return {
    url: found() as string,
    /** What it has logged. */
    log: () => log,
    /** Ends it in good order. Returns its exit code. */
    stop,
    /** Ends it at once, in the midst of whatever it does. */
    async kill() {
      child.kill('SIGKILL')
      await gone
    },
    /** The processes that it has started. */
    children: () => readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ').map(Number),
    /** The most bytes of memory that it ever had. */
    peak: () => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) * 1024,
  }
}
