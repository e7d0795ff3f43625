import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../test/kit/free-port.js'

/** Where a server is asked, and what can be read of it. */
export interface Endpoint {
  /** Without it this machine. */
  readonly host?: string
  readonly port: number
  /** Of a process of this machine. */
  readonly pid?: number
  /** Its data is not in the bench's PostgreSQL. */
  readonly ownDatabase?: boolean
}

/** A server under measurement, in a process of its own. */
export interface Child extends Endpoint {
  readonly pid: number
  /** From the spawn to the end of the first good answer. */
  readonly startMs: number
  stop(): Promise<void>
}

/** A request with a body; without `method` it is POST. */
export interface Post {
  readonly method?: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const POLL_MS = 5
const START_MS = 60_000
const STOP_MS = 40_000

/**
 * Starts a program of this folder, which listens on the port in its environment's `PORT`, and waits until it answers.
 * Its log, on standard error, goes to /dev/null.
 */
export async function startChild(
  program:
    | 'rowhouse'
    | 'command'
    | 'koa'
    | 'postgraphile'
    | 'postgraphile-4'
    | 'directus'
    | 'fastify'
    | 'tus'
    | 'nodemailer'
    | 'order-by-hand'
    | 'sink',
  env: Readonly<Record<string, string>>,
  probe: Post,
): Promise<Child> {
  const port = await freePort()
  const file = fileURLToPath(new URL(`./${program}.js`, import.meta.url))
  const start = performance.now()
  const child = spawn(process.execPath, [file], {
    // The program ends when its standard input does, so it never outlives this process.
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: process.env['PATH'] ?? '', NODE_ENV: 'production', PORT: String(port), ...env },
  })
  const complaints: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => complaints.push(chunk))
  const running = () => child.exitCode === null && child.signalCode === null
  const stop = async () => {
    if (!running()) return
    const ended = once(child, 'exit')
    const tooLate = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    child.kill('SIGTERM')
    await ended
    clearTimeout(tooLate)
  }
  const isUp = (status = 0) => status >= 200 && status < 300
  while (!isUp(await post(port, probe))) {
    const late = performance.now() - start > START_MS
    if (late || !running()) {
      await stop()
      throw new Error(`${program} ${late ? 'does not answer' : 'has ended'}: ${Buffer.concat(complaints).toString()}`)
    }
    await sleep(POLL_MS)
  }
  return { pid: child.pid ?? 0, port, startMs: performance.now() - start, stop }
}

/** @returns the status, or undefined when nobody answers */
function post(port: number, { method = 'POST', path, headers, body }: Post): Promise<number | undefined> {
  return new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port, path, method, headers, agent: false, timeout: START_MS })
    asked.once('error', () => resolve(undefined))
    asked.once('timeout', () => asked.destroy())
    asked.once('response', (answer) => answer.resume().once('close', () => resolve(answer.statusCode)))
    asked.end(body)
  })
}
