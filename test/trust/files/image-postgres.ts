import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { chooseAccount } from '../../../providers/database/embedded/account.js'
import { findBinaries } from '../../../providers/database/embedded/binaries.js'
import { SHARED } from '../../../providers/database/embedded/home.js'
import { runAs } from '../../../providers/database/embedded/run.js'
import { freePort } from '../../kit/free-port.js'
import { until } from '../../kit/until.js'

/** A PostgreSQL that waits for its disk, in a folder whose power is cut. */
export interface ImagePostgres {
  /** The same at every start. */
  readonly url: string
  /** Recovers, and resolves when it answers. */
  start(): Promise<void>
  /** With -9, all of it. */
  kill(): Promise<void>
}

const SETTINGS = [
  'listen_addresses=127.0.0.1',
  'unix_socket_directories=',
  'shared_buffers=16MB',
  'min_wal_size=2MB',
  'max_wal_size=8MB',
]

export async function makeImagePostgres(folder: string): Promise<ImagePostgres> {
  const account = await chooseAccount()
  const { bin } = await findBinaries({ account, copyTo: SHARED })
  const how = runAs(account)
  await mkdir(folder, { mode: 0o700 })
  if (account !== undefined) await chown(folder, account.uid, account.gid)
  const made = ['-D', folder, '-U', 'rowhouse', '--auth=trust', '--encoding=UTF8', '--locale=C', '--wal-segsize=1']
  const { status, stderr } = spawnSync(join(bin, 'initdb'), [...made, '--no-sync'], { ...how, encoding: 'utf8' })
  if (status !== 0) throw new Error(`initdb: ${stderr}`)
  const port = await freePort()
  const url = `postgresql://rowhouse@127.0.0.1:${port}/postgres`
  let server: ChildProcess | undefined
  return {
    url,
    async start() {
      const settings = [`port=${port}`, ...SETTINGS].flatMap((setting) => ['-c', setting])
      // It ends with us, whatever way.
      const command = ['--pdeathsig', 'KILL', join(bin, 'postgres'), '-D', folder, ...settings]
      const child = spawn('setpriv', command, { ...how, stdio: ['ignore', 'ignore', 'pipe'] })
      server = child
      let said = ''
      child.stderr.on('data', (chunk: Buffer) => (said = `${said}${chunk.toString()}`.slice(-4000)))
      await until('PostgreSQL answers', () => {
        if (child.exitCode !== null) throw new Error(`PostgreSQL ended: ${said}`)
        return answers(url)
      })
    },
    async kill() {
      if (!server || server.exitCode !== null || server.signalCode !== null) return
      const gone = once(server, 'exit')
      // Stopped first, so that it does not start another process.
      server.kill('SIGSTOP')
      const list = await readFile(`/proc/${server.pid}/task/${server.pid}/children`, 'utf8').catch(() => '')
      const children = list.trim().split(' ').filter(Boolean).map(Number)
      for (const pid of [...children, server.pid as number]) {
        try {
          process.kill(pid, 'SIGKILL')
        } catch {
          // It ended by itself.
        }
      }
      await gone
      // A child that still ends holds the shared memory, and no other server can start on it.
      await until('its processes have ended', async () => !(await Promise.all(children.map(runs))).includes(true))
    },
  }
}

/** Returns whether a process exists and is not a zombie. */
async function runs(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return stat !== '' && !/\) Z/.test(stat)
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    return false
  }
}
