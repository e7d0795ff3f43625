import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type ServerOptions, startServer } from '../../core/host/server.js'
import { createLogger } from '../../core/observe/log.js'
import { supervised } from '../../core/processes/siblings.js'
import { supervise } from '../../core/processes/supervisor.js'

/** The number of processes that servers of tests are to have; without it, they run in the process of the test. */
export const TEST_PROCESSES = 'ROWHOUSE_TEST_PROCESSES'
/** The number of processes of each server of a test. */
export const PROCESSES = Number(process.env[TEST_PROCESSES] ?? 1)
const OPTIONS = 'ROWHOUSE_TEST_SERVER_OPTIONS'

/** Starts a server of several processes. Its modules are given by their addresses. */
export async function startProcesses(options: ServerOptions, count: string) {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], {
    cwd: options.cwd,
    env: { PATH: process.env['PATH'], [TEST_PROCESSES]: count, [OPTIONS]: JSON.stringify(options) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaint += text))
  child.stderr.pipe(process.stderr)
  const exited = once(child, 'exit')
  const closed = once(child, 'close')
  const urls = new Set<string>()
  let serving = 0
  for await (const line of createInterface(child.stdout)) {
    urls.add(line)
    if (++serving === Number(count)) break
  }
  const [url] = urls
  if (url === undefined) {
    await closed
    throw new Error(`the processes did not start:\n${complaint}`)
  }
  if (urls.size > 1) throw new Error(`the processes have several addresses: ${[...urls].join()}`)
  return {
    url,
    async close() {
      child.kill('SIGTERM')
      await exited
    },
  }
}

const given = process.env[OPTIONS]
if (given !== undefined) {
  const siblings = supervised()
  if (!siblings) process.exit(await supervise(Number(process.env[TEST_PROCESSES]), createLogger({ level: 'info' })))
  const options = JSON.parse(given, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith('file:') ? new URL(value) : value,
  ) as ServerOptions
  const server = await startServer({ ...options, siblings })
  siblings.ready(server.config.values.shutdownTimeoutMs)
  console.log(server.url)
  const end = async (atOnce: boolean) => {
    await server.close({ atOnce })
    process.exit()
  }
  process.once('SIGTERM', () => void end(false))
  void siblings.retired.then(() => end(true))
}
