import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PostgresBinaries } from 'rowhouse'
import { attempt, type Attempt } from './connect.js'
import type { Home } from './home.js'
import { readPostmaster, type Postmaster } from './postmaster.js'
import { isAlive } from './processes.js'
import { run, runAs } from './run.js'

/** Everything needed to start a server. */
export interface Cluster {
  readonly home: Home
  readonly binaries: PostgresBinaries
  /** Password of the superuser. */
  readonly password: string
  readonly options: ServerOptions
}

export interface ServerOptions {
  /** For tests: no fsync, initdb --no-sync, smaller. */
  readonly throwaway: boolean
  readonly maxConnections: number
  /** Stops the server when this process dies, even by SIGKILL, where the platform supports that (Linux). */
  readonly dieWithParent: boolean
  readonly progress: (message: string) => void
}

interface Server {
  readonly pid: number
  readonly port: number
  readonly version: string
  /** Whether it was running already, because the Rowhouse that started it was killed. */
  readonly adopted: boolean
  /** Its last log lines; empty when it was adopted. */
  readonly log: readonly string[]
}

const POLL_MS = 15
const LEFTOVER_POLL_MS = 300
/** Maximum time without a response of the server, in milliseconds. */
const SILENCE_MS = 60_000
/**
 * Maximum time while the server reports that it is starting or stopping, because it may be recovering from a crash, and
 * while processes of a killed postmaster finish their work. In milliseconds.
 */
const BUSY_MS = 600_000
const FAST_STOP_MS = 10_000
const IMMEDIATE_STOP_MS = 60_000
const WATCH_MS = 250
const LOG_LINES = 100
const PORT_TRIES = 5
/** Below the ephemeral ports, so that the previous port is likely still free on the next start. */
const [FIRST_PORT, LAST_PORT] = [15_000, 32_000]

/**
 * Adopts the running server of a cluster, or starts one and waits until it responds.
 * @param fixedPort required port, because clients know it
 * @throws Error with the last lines of PostgreSQL's log
 */
export async function startServer(cluster: Cluster, fixedPort?: number): Promise<Server> {
  const { home, binaries, options } = cluster
  const running = await readPostmaster(home.data)
  if (running?.state === 'ours') {
    const adopted = await adopt(running, cluster)
    if (adopted !== undefined) return adopted
  }
  const since = Date.now()
  for (let tries = 1; ; tries += 1) {
    const port = fixedPort ?? (await choosePort(home, tries === 1))
    const child = await launch(cluster, port, running)
    const outcome = await waitUntilReady(cluster, port, child.isRunning)
    if (outcome.kind === 'ready') {
      await writeFile(join(home.folder, 'port'), `${port}\n`, { mode: 0o600 })
      return { pid: child.pid, port, version: outcome.version, adopted: false, log: child.log }
    }
    const log = child.log.join('\n')
    // Another program took the port between the check and PostgreSQL's bind.
    if (outcome.kind === 'ended' && tries < PORT_TRIES && log.includes('could not bind')) continue
    // Processes of a killed postmaster end when they notice.
    const leftovers = log.includes('pre-existing shared memory block')
    if (outcome.kind === 'ended' && leftovers && Date.now() - since < BUSY_MS) {
      if (tries === 1) options.progress('waiting for processes of the previous PostgreSQL to end')
      await sleep(LEFTOVER_POLL_MS)
      continue
    }
    if (outcome.kind !== 'ended') await stopServer(child.pid, binaries).catch(() => {})
    throw new Error(
      `PostgreSQL did not start on ${home.data}: ${reasonOf(outcome)}\n${log}\n` +
        'if you cannot fix this, set DATABASE_URL to a running PostgreSQL',
    )
  }
}

/**
 * Stops a server: with a fast shutdown (disconnects clients), and after 10 s with an immediate one (the next start
 * recovers). Never uses SIGKILL, which leaves backends and shared memory behind.
 * @throws Error when it is still running a minute later
 */
export async function stopServer(pid: number, binaries: PostgresBinaries): Promise<void> {
  await signal(pid, 'INT', binaries)
  if (await endsWithin(pid, FAST_STOP_MS)) return
  await signal(pid, 'QUIT', binaries)
  if (await endsWithin(pid, IMMEDIATE_STOP_MS)) return
  throw new Error(`PostgreSQL (pid ${pid}) does not stop; it may be waiting for its disk`)
}

/** @returns undefined when the server was stopping and has stopped */
async function adopt({ pid, port }: Postmaster, cluster: Cluster): Promise<Server | undefined> {
  const outcome = await waitUntilReady(cluster, port, () => isAlive(pid))
  if (outcome.kind === 'ended') return undefined
  if (outcome.kind === 'ready') return { pid, port, version: outcome.version, adopted: true, log: [] }
  throw new Error(
    `PostgreSQL (pid ${pid}) is running on ${cluster.home.data} and cannot be used: ${reasonOf(outcome)}\n` +
      `stop it with "kill -INT ${pid}" and start again`,
  )
}

/** Spawns `postgres` in its own process group, so that Ctrl-C reaches only Rowhouse, which drains and then stops it. */
async function launch({ home, binaries, options }: Cluster, port: number, previous: Postmaster | undefined) {
  const [file = '', ...args] = [
    ...(options.dieWithParent ? await parentDeathPrefix() : []),
    join(binaries.bin, 'postgres'),
    '-D',
    home.data,
    ...settings(port, options).flatMap((setting) => ['-c', setting]),
  ]
  const how = runAs(home.account)
  // PostgreSQL refuses to start when another program has the pid of a stale postmaster.pid, unless that program is
  // declared its grandparent. It still checks shared memory for processes of the old server.
  if (previous?.state === 'foreign') how.env.PG_GRANDPARENT_PID = String(previous.pid)

  const child = spawn(file, args, { ...how, detached: true, stdio: ['ignore', 'ignore', 'pipe'] })
  const log: string[] = []
  createInterface({ input: child.stderr }).on('line', (line) => {
    log.push(line)
    if (log.length > LOG_LINES) log.shift()
  })
  let ended = false
  child.once('exit', () => (ended = true))
  await once(child, 'spawn')
  return { pid: child.pid ?? 0, log, isRunning: async () => !ended }
}

function settings(port: number, { throwaway, maxConnections }: ServerOptions): string[] {
  const own = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=']
  const always = [...own, `max_connections=${maxConnections}`]
  if (!throwaway) return [...always, 'shared_buffers=128MB']
  return [
    ...always,
    'shared_buffers=32MB',
    'fsync=off',
    'synchronous_commit=off',
    'full_page_writes=off',
    'min_wal_size=32MB',
    'max_wal_size=256MB',
  ]
}

/**
 * Returns the command prefix for stopping the server when this process dies (Linux). Elsewhere the next start adopts
 * it.
 */
async function parentDeathPrefix(): Promise<string[]> {
  if (process.platform !== 'linux') return []
  const { ok } = await run('setpriv', ['--pdeathsig', 'INT', 'true'])
  return ok ? ['setpriv', '--pdeathsig', 'INT'] : []
}

type Waited = Attempt | { readonly kind: 'ended' }

/** Connects until it succeeds, the server ends, or success is impossible. */
async function waitUntilReady(
  { home, password, options }: Cluster,
  port: number,
  isRunning: () => Promise<boolean>,
): Promise<Waited> {
  const since = Date.now()
  let told = false
  for (;;) {
    const outcome = await attempt({ port, password })
    if (outcome.kind === 'ready' && outcome.data === home.data) return outcome
    if (outcome.kind === 'ready') {
      return { kind: 'refused', code: '', message: `another server, on ${outcome.data}, is using port ${port}` }
    }
    if (!(await isRunning())) return { kind: 'ended' }
    const waited = Date.now() - since
    // 28P01 invalid_password, 28000 invalid_authorization_specification, 3D000 invalid_catalog_name
    const hopeless = outcome.kind === 'refused' && ['28P01', '28000', '3D000'].includes(outcome.code)
    if (hopeless || waited > (outcome.kind === 'busy' ? BUSY_MS : SILENCE_MS)) return outcome
    if (!told && waited > 1000) {
      options.progress('waiting for PostgreSQL, which may be recovering from a crash')
      told = true
    }
    await sleep(POLL_MS)
  }
}

function reasonOf(outcome: Exclude<Waited, { kind: 'ready' }>): string {
  if (outcome.kind === 'refused') return outcome.message
  return outcome.kind === 'ended' ? 'it ended unexpectedly' : 'it is still starting or stopping after ten minutes'
}

/** Waits until a server has ended for any reason. */
export async function serverEnd({ pid }: Server): Promise<void> {
  while (await isAlive(pid)) await sleep(WATCH_MS, undefined, { ref: false })
}

/** Chooses the previous port if it is free, so that clients can keep using it. */
async function choosePort(home: Home, keep: boolean): Promise<number> {
  const last = Number(await readFile(join(home.folder, 'port'), 'utf8').catch(() => '0'))
  const random = Array.from({ length: PORT_TRIES }, () => randomInt(FIRST_PORT, LAST_PORT))
  for (const port of [...(keep && last > 0 && last < 65_536 ? [last] : []), ...random, 0]) {
    const free = await tryPort(port)
    if (free !== undefined) return free
  }
  throw new Error('no free TCP port on 127.0.0.1 for PostgreSQL')
}

async function tryPort(port: number): Promise<number | undefined> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(undefined))
    server.listen({ host: '127.0.0.1', port }, () => {
      const { port: bound } = server.address() as AddressInfo
      server.close(() => resolve(bound))
    })
  })
}

async function endsWithin(pid: number, timeoutMs: number): Promise<boolean> {
  for (const since = Date.now(); Date.now() - since < timeoutMs; await sleep(POLL_MS)) {
    if (!(await isAlive(pid))) return true
  }
  return false
}

async function signal(pid: number, name: 'INT' | 'QUIT', binaries: PostgresBinaries): Promise<void> {
  if (process.platform === 'win32') {
    // Windows has no signals; PostgreSQL emulates them with a pipe.
    await run(join(binaries.bin, 'pg_ctl.exe'), ['kill', name, String(pid)])
    return
  }
  try {
    process.kill(pid, `SIG${name}`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
