import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { relative } from 'node:path'
import { text } from 'node:stream/consumers'
import { TEST_DATABASE_URL } from '../kit/cluster.js'

/** A run that takes longer hangs. */
const RUN_MS = 3_600_000
const SHOWN = 3000

/**
 * Runs a test file in a process of its own.
 * @param settings its environment, beside ours
 * @param url of a cluster
 * @returns all that it printed; of one that failed also what it said, and how to repeat it
 */
export async function runTest(
  path: string,
  settings: Readonly<Record<string, string>>,
  url: string,
): Promise<{ readonly out: string; readonly failure?: string }> {
  const child = spawn(process.execPath, [path], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...settings, TAP_TIMEOUT: String(RUN_MS / 1000), [TEST_DATABASE_URL]: url },
  })
  const tooLate = setTimeout(() => child.kill('SIGKILL'), RUN_MS)
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  clearTimeout(tooLate)
  if (child.exitCode === 0) return { out }
  const said = out.slice(Math.max(0, out.search(/^ *(not ok|# case)/m)))
  const again = Object.entries(settings).map(([key, value]) => `${key}=${value}`)
  const command = `${again.join(' ')} node build/test/run.js ${relative(process.cwd(), path)}`
  const stopped = child.signalCode === 'SIGKILL' ? `stopped after ${RUN_MS / 1000} s\n` : ''
  return { out, failure: `${stopped}${said.slice(0, SHOWN)}\n${err.slice(0, SHOWN)}\nagain: ${command}` }
}
