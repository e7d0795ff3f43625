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

/** A server in a process of its own, which ends with the test. */
export async function serverProcess(
  t: { teardown(fn: () => Promise<void>): unknown },
  databaseUrl: string,
  nodeArguments: readonly string[] = [],
  variables: Readonly<Record<string, string>> = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-test-process-'))
  const child = spawn(process.execPath, [...nodeArguments, CLI, 'start', '--port', '0'], {
    cwd: folder,
    env: { PATH: process.env['PATH'], DATABASE_URL: databaseUrl, ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET, ...variables },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const gone = once(child, 'exit')
  const stop = async () => {
    endKeptConnections()
    child.kill('SIGTERM')
    await gone
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
    stop,
    /** Ends it at once, in the midst of whatever it does. */
    async kill() {
      child.kill('SIGKILL')
      await gone
    },
    /** The most bytes of memory that it ever had. */
    peak: () => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) * 1024,
  }
}
