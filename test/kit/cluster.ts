import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { realpathSync } from 'node:fs'
import { access, constants, readdir, rm } from 'node:fs/promises'
import { constants as os, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startEmbedded } from '../../core/postgres/index.js'
import { readHolder } from '../../core/postgres/lock.js'
import { readPostmaster } from '../../core/postgres/postmaster.js'

export const TEST_DATABASE_URL = 'ROWHOUSE_TEST_DATABASE_URL'

const TEMPORARY = realpathSync(tmpdir())
const PREFIX = 'rowhouse-test-'

/** A cluster for tests in a temporary folder, which `stop` deletes. */
export async function startThrowaway(): Promise<{ url: string; stop(): Promise<void> }> {
  await sweep()
  const dataDir = join(TEMPORARY, `${PREFIX}${randomBytes(6).toString('hex')}`)
  const cluster = await startEmbedded({ dataDir, throwaway: true })
  const stop = async () => {
    await cluster.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
  return { url: cluster.url, stop }
}

/** Deletes what killed test runs left behind: a lock whose holder has ended, and no server. */
async function sweep(): Promise<void> {
  for (const name of (await readdir(TEMPORARY)).filter((entry) => entry.startsWith(PREFIX))) {
    const dataDir = join(TEMPORARY, name)
    const isLocked = await access(join(dataDir, 'lock'), constants.R_OK).then(
      () => true,
      () => false,
    )
    if (!isLocked || (await readHolder(join(dataDir, 'lock'))) !== undefined) continue
    if ((await readPostmaster(join(dataDir, 'postgres', 'data')))?.state === 'ours') continue
    await rm(dataDir, { recursive: true, force: true })
  }
}

/**
 * `node build/test/kit/cluster.js <command...>`: one throwaway cluster for a whole test run. Runs the command with
 * `ROWHOUSE_TEST_DATABASE_URL` set, and ends with its exit code. A cluster that is given already is used, not stopped.
 */
async function runCommand([file = '', ...args]: string[]): Promise<number> {
  if (process.env[TEST_DATABASE_URL] !== undefined) return runToEnd(file, args, {})
  const cluster = await startThrowaway()
  try {
    return await runToEnd(file, args, { [TEST_DATABASE_URL]: cluster.url })
  } finally {
    await cluster.stop()
  }
}

/** Ctrl-C reaches the command by itself, as one of our process group; a plain kill is passed on. */
async function runToEnd(file: string, args: string[], env: Record<string, string>): Promise<number> {
  const child = spawn(file, args, { stdio: 'inherit', env: { ...process.env, ...env } })
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  return code ?? 128 + (signal === null ? 0 : os.signals[signal])
}

/**
 * `node build/test/kit/cluster.js --until-stdin-ends`: prints the URL of a throwaway cluster, and removes it when the
 * process that started this one has ended, whatever way.
 */
async function serveUntilStdinEnds(): Promise<number> {
  const cluster = await startThrowaway()
  process.on('SIGINT', () => {})
  process.stdout.write(`${cluster.url}\n`)
  process.stdin.resume()
  await once(process.stdin, 'end')
  await cluster.stop()
  return 0
}

const main = process.argv[1]
if (main !== undefined && realpathSync(main) === fileURLToPath(import.meta.url)) {
  const args = process.argv.slice(2)
  if (args.length === 0) throw new Error('usage: node build/test/kit/cluster.js <command...>')
  process.exitCode = await (args[0] === '--until-stdin-ends' ? serveUntilStdinEnds() : runCommand(args))
}
