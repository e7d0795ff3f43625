import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, chmod, chown, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { chooseAccount } from '../../providers/database/embedded/account.js'
import { findBinaries } from '../../providers/database/embedded/binaries.js'
import { run, runAs } from '../../providers/database/embedded/run.js'
import { freePort } from './free-port.js'
import { until } from './until.js'

/** One of the servers. */
export interface Node {
  readonly url: string
  /** Host and port. */
  readonly place: string
  query<Row extends object>(sql: string): Promise<Row[]>
  start(): Promise<void>
  stop(): Promise<void>
}

/** Starts a primary and a streaming standby of it, with the database `postgres`; both are gone when the test ends. */
export async function startPair(t: {
  teardown(fn: () => Promise<void>): unknown
}): Promise<Record<'primary' | 'standby', Node>> {
  const account = await chooseAccount()
  const { bin } = await findBinaries({ account })
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-test-pair-'))
  await chmod(folder, 0o755)
  const own = async (path: string) => account && chown(path, account.uid, account.gid)
  const data = { primary: join(folder, 'primary', 'data'), standby: join(folder, 'standby', 'data') }
  for (const each of ['primary', 'standby']) {
    await mkdir(join(folder, each))
    await own(join(folder, each))
  }
  const made = await run(
    join(bin, 'initdb'),
    ['-D', data.primary, '-U', 'postgres', '-E', 'UTF8', '--locale=C', '--auth=trust', '--no-sync', '--wal-segsize=4'],
    { account, timeoutMs: 300_000 },
  )
  if (!made.ok) throw new Error(made.output)
  const ports = { primary: await freePort(), standby: await freePort() }
  // Both begin with the same files.
  const copied = await run('cp', ['-a', data.primary, data.standby], { account })
  if (!copied.ok) await cp(data.primary, data.standby, { recursive: true })
  await appendFile(
    join(data.standby, 'postgresql.auto.conf'),
    `primary_conninfo = 'host=127.0.0.1 port=${ports.primary} user=postgres'\nwal_retrieve_retry_interval = 100\n`,
  )
  await writeFile(join(data.standby, 'standby.signal'), '')
  await own(join(data.standby, 'standby.signal'))

  const running = new Map<string, ChildProcess>()
  const node = (name: 'primary' | 'standby'): Node => {
    const port = ports[name]
    const url = `postgresql://postgres@127.0.0.1:${port}/postgres`
    const query: Node['query'] = async <Row extends object>(sql: string) => {
      const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 })
      client.on('error', () => {})
      try {
        await client.connect()
        return (await client.query<Row>(sql)).rows
      } finally {
        await client.end().catch(() => {})
      }
    }
    return {
      url,
      place: `127.0.0.1:${port}`,
      query,
      async start() {
        const settings = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off']
        const args = ['-D', data[name], ...[...settings, 'shared_buffers=32MB'].flatMap((each) => ['-c', each])]
        const child = spawn(join(bin, 'postgres'), args, { ...runAs(account), stdio: ['ignore', 'ignore', 'pipe'] })
        let log = ''
        child.stderr.on('data', (chunk: Buffer) => (log = (log + chunk.toString()).slice(-4000)))
        running.set(name, child)
        await until(`the ${name} answers`, () => {
          if (child.exitCode !== null) throw new Error(log)
          return query('select 1').then(
            () => true,
            () => false,
          )
        })
      },
      async stop() {
        const child = running.get(name)
        if (!child || child.exitCode !== null || child.signalCode !== null) return
        const ended = once(child, 'exit')
        child.kill('SIGQUIT')
        await ended
      },
    }
  }
  const pair = { primary: node('primary'), standby: node('standby') }
  t.teardown(async () => {
    await Promise.all([pair.primary.stop(), pair.standby.stop()])
    await rm(folder, { recursive: true, force: true })
  })
  await pair.primary.start()
  await pair.standby.start()
  return pair
}
