import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { ADMIN_SECRET } from '../../kit/server.js'

const CLI = fileURLToPath(new URL('../../../core/cli.js', import.meta.url))
const PLANTED = fileURLToPath(new URL('planted.js', import.meta.url))
const START_MS = 60_000

export type Fault = 'in-place' | 'late'

/** A server that may be killed, and started again on the same files and database. */
export interface Victim {
  readonly url: string
  readonly process: ChildProcess
  /** Resolves when it is gone. */
  readonly gone: Promise<unknown>
}

/** @param folder of the configuration; the bytes are in its `data/files` */
export async function writeConfig(folder: string, fault: Fault | undefined): Promise<void> {
  const planted = { default: 'planted', planted: { use: PLANTED, root: join(folder, 'data'), fault } }
  const config = {
    plugins: { filestore: { collect: { everySeconds: 1, graceSeconds: 0 } } },
    ...(fault === undefined ? {} : { providers: { storage: planted } }),
    compile: { threads: 0 },
    http: { drainDelayMs: 0 },
  }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify(config))
}

export async function startVictim(folder: string, databaseUrl: string): Promise<Victim> {
  const child = spawn(process.execPath, [CLI, 'start', '--port', '0'], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'] ?? '',
      DATABASE_URL: databaseUrl,
      ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET,
      ROWHOUSE_DATA_DIR: join(folder, 'data'),
      // One thread for files, so that its calls have an order.
      UV_THREADPOOL_SIZE: '1',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const gone = once(child, 'exit')
  let said = ''
  const url = await new Promise<string>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`did not start: ${said}`)), START_MS)
    void gone.then(() => reject(new Error(`ended: ${said}`)))
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        said += `${line}\n`
        const found = /"url":"([^"]+)"/.exec(line)?.[1]
        if (found === undefined) return
        clearTimeout(late)
        resolve(found)
      })
    }
  })
  return { url, process: child, gone }
}

/** Kills the server at its n-th call of a kind; resolves when strace holds it. */
export async function killAt(victim: Victim, call: string, n: number): Promise<ChildProcess> {
  const { pid } = victim.process
  const inject = `inject=${call}:signal=SIGKILL:when=${n}`
  const strace = spawn('strace', ['-f', '-o', '/dev/null', '-e', `trace=${call}`, '-e', inject, '-p', String(pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  await new Promise<void>((resolve, reject) => {
    strace.once('error', reject)
    strace.once('exit', () => reject(new Error(`strace: ${said}`)))
    strace.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      if (said.includes('attached')) resolve()
    })
  })
  return strace
}
