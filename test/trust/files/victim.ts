import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { ADMIN_SECRET } from '../../kit/server.js'
import { type Fault, plant } from './plant.js'

const CLI = fileURLToPath(new URL('../../../core/cli.js', import.meta.url))
const START_MS = 60_000

/** A server that may be killed, and started again on the same files and database. */
export interface Victim {
  readonly url: string
  readonly process: ChildProcess
  /** Resolves when it is gone. */
  readonly gone: Promise<unknown>
}

/**
 * @param folder of the configuration; the bytes are in its `data/files`
 * @returns what takes away what was planted
 */
export async function writeConfig(folder: string, fault?: Fault, filestore: object = {}): Promise<() => Promise<void>> {
  const planted = fault === undefined ? undefined : await plant(fault, join(folder, 'data'))
  const collect = { everySeconds: 1, graceSeconds: 0 }
  const config = {
    plugins: { filestore: { collect, resumable: { maxPerUser: 10_000 }, ...filestore, ...planted?.filestore } },
    ...(planted?.storage === undefined ? {} : { providers: { storage: planted.storage } }),
    compile: { threads: 0 },
    http: { drainDelayMs: 0 },
  }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify(config))
  return planted?.remove ?? (async () => {})
}

/** @param threads for files; one, so that their calls have an order */
export async function startVictim(folder: string, databaseUrl: string, threads = 1): Promise<Victim> {
  const child = spawn(process.execPath, [CLI, 'start', '--port', '0'], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'] ?? '',
      DATABASE_URL: databaseUrl,
      ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET,
      ROWHOUSE_DATA_DIR: join(folder, 'data'),
      UV_THREADPOOL_SIZE: String(threads),
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
