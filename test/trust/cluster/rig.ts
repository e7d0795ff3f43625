import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync, readFileSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import pg from 'pg'
import { type Account, chooseAccount } from '../../../providers/database/embedded/account.js'
import { run } from '../../../providers/database/embedded/run.js'
import { freePort } from '../../kit/free-port.js'
import { PGBOUNCER, startPooler } from '../../kit/pooler.js'
import { ADMIN_SECRET } from '../../kit/server.js'
import { until } from '../../kit/until.js'
import { canRunSwift, startSwift, SWIFT_PACKAGES } from '../../system/s3/swift.js'

/** Values that survive a busy machine. A primary that is gone is replaced after about `ttl` seconds. */
export const PATRONI = { ttl: 20, loop_wait: 5, retry_timeout: 7 } as const

const SIZE = 3
const CLI = fileURLToPath(new URL('../../../core/cli.js', import.meta.url))
const PROXY = fileURLToPath(new URL('../../../../core/deploy/haproxy.cfg', import.meta.url))
const HAPROXY = '/usr/sbin/haproxy'
const STOP_MS = 40_000
const COMMAND_MS = 60_000
const ASK_MS = 2000

const NEEDED: Readonly<Record<string, readonly string[]>> = {
  'patroni python3-etcd': ['/usr/bin/patroni', '/usr/bin/patronictl'],
  'etcd-server': ['/usr/bin/etcd'],
  'etcd-client': ['/usr/bin/etcdctl'],
  haproxy: [HAPROXY],
  pgbouncer: [PGBOUNCER],
  'util-linux': ['/usr/bin/setpriv'],
}

/** @returns why the rig cannot run here, and what to do about it */
export async function whyNoRig(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'it needs root: Swift runs as root, and PostgreSQL as another user'
  const missing = Object.keys(NEEDED).filter((name) => !NEEDED[name]!.every((program) => existsSync(program)))
  if ((await postgresBin()) === undefined) missing.push('postgresql-15')
  if (!canRunSwift()) missing.push(...SWIFT_PACKAGES)
  if (missing.length === 0) return undefined
  const install = `apt-get install -y --no-install-recommends ${missing.join(' ')}`
  const attributes = `A temporary folder (${tmpdir()}) with extended attributes is needed, too.`
  return `these Debian packages are missing: ${missing.join(', ')}. Install them: ${install}. ${attributes}`
}

/** The newest PostgreSQL of Debian, which has the programs that Patroni needs. */
async function postgresBin(): Promise<string | undefined> {
  const versions = await readdir('/usr/lib/postgresql').catch(() => [])
  const bins = versions.toSorted((a, b) => Number(b) - Number(a)).map((version) => `/usr/lib/postgresql/${version}/bin`)
  return bins.find((bin) => ['postgres', 'pg_basebackup', 'pg_rewind'].every((name) => existsSync(join(bin, name))))
}

/** A program that can be killed and started again. */
export interface Machine {
  readonly name: string
  /** Whether it runs, and has been ready since it started. */
  isUp(): boolean
  /** As if its power failed. */
  kill(): Promise<void>
  start(): Promise<void>
}

/** PostgreSQL with its Patroni. */
export interface PostgresMachine extends Machine {
  readonly url: string
  /** Nothing moves any more between it and all others: PostgreSQL, Patroni's REST API, and etcd. */
  cut(): void
  mend(): void
}

const superuser = ({ url }: PostgresMachine): string => url.replace('app:app', 'postgres').replace(/app$/, 'postgres')

export interface RowhouseMachine extends Machine {
  readonly url: string
  /** Ends it with SIGTERM, and starts another. */
  restart(): Promise<void>
}

/** What Patroni knows of a server of PostgreSQL. */
interface Member {
  readonly name: string
  readonly role: string
  readonly state: string
  readonly timeline?: number
}

export interface Rig {
  /** Of HAProxy in front of all servers of Rowhouse. */
  readonly url: string
  readonly rowhouse: readonly RowhouseMachine[]
  readonly postgres: readonly PostgresMachine[]
  /** The primary, and the standby that confirms its commits. */
  roles(): Promise<{ readonly primary: PostgresMachine; readonly standby: PostgresMachine }>
  /** Waits until another server is the primary. */
  anotherThan(primary: PostgresMachine): Promise<void>
  etcdLeader(): Promise<Machine>
  /** Hands the role of the primary to the standby that confirms its commits. */
  switchOver(): Promise<void>
  /** Waits until all work, and each standby follows the primary. */
  whole(): Promise<void>
  stop(): Promise<void>
}

export async function startRig(progress: (text: string) => void): Promise<Rig> {
  const teardowns: (() => Promise<void>)[] = []
  const t = { teardown: (fn: () => Promise<void>) => teardowns.push(fn) }
  const stop = async () => {
    for (let fn = teardowns.pop(); fn; fn = teardowns.pop()) await fn().catch((error) => progress(String(error)))
  }
  try {
    return { ...(await startAll(t, progress)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type Teardown = { teardown(fn: () => Promise<void>): unknown }

async function startAll(t: Teardown, progress: (text: string) => void): Promise<Omit<Rig, 'stop'>> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-cluster-'))
  await chmod(folder, 0o755)
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const account = await chooseAccount()
  const bin = (await postgresBin()) as string

  progress('starts etcd and Patroni')
  const etcds = await startEtcds(t, folder)
  const postgres = await startPostgres(t, { folder, account, bin, etcds: etcds.map(({ port }) => port) })
  const members = async (): Promise<readonly Member[]> => {
    const answers = postgres.map(({ place }) =>
      fetch(`http://127.0.0.1:${place.rest}/cluster`, { signal: AbortSignal.timeout(ASK_MS) })
        .then((response) => response.json())
        .then((cluster) => (cluster as { members: Member[] }).members),
    )
    return Promise.any(answers).catch(() => [])
  }
  const isReplicated = async () => {
    const all = await members()
    const roles = all.map(({ role }) => role).toSorted()
    const timelines = new Set(all.map(({ timeline }) => timeline))
    const states = all.every(({ state }) => ['running', 'streaming'].includes(state))
    return roles.join() === 'leader,replica,sync_standby' && timelines.size === 1 && states
  }
  await until('PostgreSQL has a primary and two standbys', isReplicated)
  const roles = async () => {
    const all = await members()
    const of = (role: string) => postgres.find(({ name }) => name === all.find((each) => each.role === role)?.name)
    const [primary, standby] = [of('leader'), of('sync_standby')]
    if (!primary || !standby) throw new Error(`there is no primary, or no standby: ${JSON.stringify(all)}`)
    return { primary, standby }
  }

  progress('starts HAProxy, PgBouncer and Swift')
  const ports = { front: await freePort(), primary: await freePort() }
  const rowhousePorts = await Promise.all(Array.from({ length: SIZE }, freePort))
  await startProxy(t, folder, ports, rowhousePorts, postgres)
  const { primary } = await roles()
  await query(superuser(primary), "create role app login password 'app'")
  await query(superuser(primary), 'create database app owner app')
  const directUrl = `postgresql://app:app@127.0.0.1:${ports.primary}/app`
  await until('HAProxy leads to the primary', () => query(directUrl, 'select 1').then(Boolean, () => false))
  // Room for the pools of all three servers. Requests do not wait long for a primary that is gone, nor for the new one.
  const settings = ['default_pool_size = 60', 'query_wait_timeout = 5', 'server_login_retry = 1']
  const pooler = await startPooler(directUrl, settings)
  t.teardown(() => pooler.stop())
  const swift = await startSwift(t)
  await makeBucket(swift.access)

  progress('starts Rowhouse')
  const config = {
    database: {
      url: `${pooler.url}/app`,
      directUrl,
      readUrls: postgres.map(({ url }) => url),
      poolSize: 8,
      streamPoolSize: 2,
    },
    http: { trustedProxies: ['127.0.0.1'], drainDelayMs: 5000 },
    providers: { storage: { default: 's3', s3: { ...swift.access, bucket: 'files' } } },
  }
  await writeFile(join(folder, 'rowhouse.config.json'), JSON.stringify(config))
  const rowhouse = rowhousePorts.map((port, i) => rowhouseMachine(t, folder, port, `rowhouse-${i + 1}`))
  for (const machine of rowhouse) await machine.start()
  const url = `http://127.0.0.1:${ports.front}`
  await until('HAProxy leads to Rowhouse', () => isReady(url))

  return {
    url,
    rowhouse,
    postgres,
    roles,
    async anotherThan(primary) {
      await until('there is another primary', async () => {
        const leader = (await members()).find(({ role }) => role === 'leader')
        return leader !== undefined && leader.name !== primary.name
      })
    },
    async etcdLeader() {
      const found = await Promise.all(etcds.map(async (etcd) => ((await etcd.leads()) ? etcd : undefined)))
      const leader = found.find((each) => each !== undefined)
      if (!leader) throw new Error('etcd has no leader')
      return leader
    },
    async switchOver() {
      const { primary, standby } = await roles()
      const args = ['switchover', '--leader', primary.name, '--candidate', standby.name, '--force', 'rig']
      const done = await run('/usr/bin/patronictl', ['-c', join(folder, `${primary.name}.json`), ...args], {
        timeoutMs: COMMAND_MS,
      })
      if (!done.ok) throw new Error(`patronictl switchover: ${done.output}`)
    },
    async whole() {
      await until('PostgreSQL has a primary and two standbys', isReplicated)
      for (const each of rowhouse) await until(`${each.name} is ready`, () => isReady(each.url))
      await until('HAProxy leads to Rowhouse', () => isReady(url))
    },
  }
}

/** Ends with this process, whatever way that ends. */
function launch(log: string, account: Account | undefined, command: readonly string[], options: object = {}) {
  const user = account ? ['--reuid', String(account.uid), '--regid', String(account.gid), '--clear-groups'] : []
  const out = openSync(log, 'a')
  return spawn('/usr/bin/setpriv', [...user, '--pdeathsig', 'TERM', '--', ...command], {
    cwd: '/',
    stdio: ['ignore', out, out],
    ...options,
  })
}

const lives = (child: ChildProcess | undefined): child is ChildProcess =>
  child !== undefined && child.exitCode === null && child.signalCode === null

async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (!lives(child)) return
  const gone = once(child, 'exit')
  child.kill(signal)
  const patience = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
  await gone
  clearTimeout(patience)
}

/** One program, which keeps nothing but its files. */
function machine(t: Teardown, name: string, begin: () => ChildProcess) {
  let child: ChildProcess | undefined
  t.teardown(() => end(child, 'SIGTERM'))
  return {
    name,
    isUp: () => lives(child),
    pid: () => child?.pid,
    signal: (signal: NodeJS.Signals) => void child?.kill(signal),
    kill: () => end(child, 'SIGKILL'),
    stop: () => end(child, 'SIGTERM'),
    async start() {
      child = begin()
    },
  }
}

async function startEtcds(t: Teardown, folder: string) {
  const ports = await Promise.all(Array.from({ length: 2 * SIZE }, freePort))
  const at = (port: number | undefined) => `http://127.0.0.1:${port}`
  const members = Array.from({ length: SIZE }, (_, i) => `etcd-${i + 1}=${at(ports[SIZE + i])}`).join()
  const etcds = Array.from({ length: SIZE }, (_, i) => {
    const [name, client, peer] = [`etcd-${i + 1}`, at(ports[i]), at(ports[SIZE + i])]
    const settings = {
      name,
      'data-dir': join(folder, name),
      'listen-client-urls': client,
      'advertise-client-urls': client,
      'listen-peer-urls': peer,
      'initial-advertise-peer-urls': peer,
      'initial-cluster': members,
      // Faster than Patroni's retry_timeout, or the primary steps down while etcd has no leader.
      'heartbeat-interval': 200,
      'election-timeout': 2000,
      'log-level': 'error',
    }
    const args = Object.entries(settings).map(([key, value]) => `--${key}=${value}`)
    return {
      ...machine(t, name, () => launch(join(folder, `${name}.log`), undefined, ['/usr/bin/etcd', ...args])),
      port: ports[i] as number,
      async leads() {
        const { ok, output } = await run('/usr/bin/etcdctl', [
          '--endpoints',
          client,
          'endpoint',
          'status',
          '-w',
          'json',
        ])
        if (!ok) return false
        const [{ Status: status }] = JSON.parse(output.split('\n').findLast((line) => line.startsWith('[')) ?? '[{}]')
        return status?.leader === status?.header?.member_id
      },
    }
  })
  for (const etcd of etcds) await etcd.start()
  await until('etcd has a leader', async () => {
    for (const etcd of etcds) if (await etcd.leads()) return true
    return false
  })
  return etcds
}

interface PostgresOptions {
  readonly folder: string
  readonly account?: Account
  readonly bin: string
  readonly etcds: readonly number[]
}

async function startPostgres(t: Teardown, options: PostgresOptions) {
  const all = []
  for (let i = 1; i <= SIZE; i++) all.push(await postgresMachine(t, `pg${i}`, options))
  for (const each of all) await each.start()
  return all
}

/**
 * Others reach it through a HAProxy of its own, its network, and so does it reach etcd: a stopped HAProxy accepts what the
 * kernel accepts, and passes nothing on, like a cable that was pulled. What it asks of other servers of PostgreSQL passes
 * through theirs.
 */
async function postgresMachine(t: Teardown, name: string, { folder, account, bin, etcds }: PostgresOptions) {
  const [port, rest, outerPort, outerRest, ...outerEtcds] = (await Promise.all(
    Array.from({ length: 4 + etcds.length }, freePort),
  )) as [number, number, number, number, ...number[]]
  const home = join(folder, name)
  await mkdir(home)
  if (account) await chown(home, account.uid, account.gid)
  const data = join(home, 'data')
  const ways = [[outerPort, port], [outerRest, rest], ...outerEtcds.map((outer, i) => [outer, etcds[i]])].map(
    ([from, to]) => `listen ${from}\n  bind 127.0.0.1:${from}\n  server it 127.0.0.1:${to}`,
  )
  const network = join(folder, `${name}-network.cfg`)
  await writeFile(network, `${TCP}${ways.join('\n')}\n`)
  const cable = machine(t, `${name}-network`, () =>
    launch(join(folder, `${name}-network.log`), undefined, [HAPROXY, '-f', network]),
  )
  await cable.start()
  t.teardown(async () => cable.signal('SIGCONT'))

  const trust = { host: ['127.0.0.1/32', 'trust'].join(' ') }
  const config = {
    scope: 'rig',
    name,
    restapi: { listen: `127.0.0.1:${rest}`, connect_address: `127.0.0.1:${outerRest}` },
    etcd3: { hosts: outerEtcds.map((outer) => `127.0.0.1:${outer}`), use_proxies: true },
    bootstrap: {
      dcs: {
        ...PATRONI,
        synchronous_mode: true,
        postgresql: {
          use_pg_rewind: true,
          parameters: { max_connections: 200, shared_buffers: '64MB', max_wal_size: '256MB', wal_keep_size: '256MB' },
        },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C.UTF-8' }, 'data-checksums'],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${outerPort}`,
      data_dir: data,
      bin_dir: bin,
      pgpass: join(home, 'pgpass'),
      authentication: Object.fromEntries(['superuser', 'replication'].map((use) => [use, { username: 'postgres' }])),
      parameters: { unix_socket_directories: '' },
      pg_hba: [`host all all ${trust.host}`, `host replication all ${trust.host}`],
    },
  }
  const file = join(folder, `${name}.json`)
  await writeFile(file, JSON.stringify(config))
  const patroni = machine(t, name, () => launch(join(folder, `${name}.log`), account, ['/usr/bin/patroni', file]))
  const kill = async () => {
    await patroni.kill()
    killPostgres(data)
  }
  t.teardown(kill)
  return {
    ...patroni,
    url: `postgresql://app:app@127.0.0.1:${outerPort}/app`,
    place: { port: outerPort, rest: outerRest },
    kill,
    cut: () => cable.signal('SIGSTOP'),
    mend: () => cable.signal('SIGCONT'),
  }
}

/** Kills all processes of a cluster. */
function killPostgres(data: string): void {
  try {
    const postmaster = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
    if (!readFileSync(`/proc/${postmaster}/cmdline`, 'utf8').includes(data)) return
    const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8').trim().split(/\s+/)
    for (const pid of [postmaster, ...children.map(Number)]) if (pid > 0) process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

const TCP = `defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
`

/** Our example in front of Rowhouse, and the way to the primary: where Patroni says that it is. */
async function startProxy(
  t: Teardown,
  folder: string,
  ports: { readonly front: number; readonly primary: number },
  rowhouse: readonly number[],
  postgres: readonly { readonly name: string; readonly place: { readonly port: number; readonly rest: number } }[],
): Promise<void> {
  const front = join(folder, 'front.cfg')
  const example = (await readFile(PROXY, 'utf8'))
    .replace('bind :80', `bind 127.0.0.1:${ports.front}`)
    .replaceAll(/rowhouse-(\d):8080/g, (_, n: string) => `127.0.0.1:${rowhouse[Number(n) - 1]}`)
  await writeFile(front, example)
  const primary = join(folder, 'primary.cfg')
  const servers = postgres.map(({ name, place }) => `  server ${name} 127.0.0.1:${place.port} check port ${place.rest}`)
  await writeFile(
    primary,
    `${TCP}  timeout check 2s
listen primary
  bind 127.0.0.1:${ports.primary}
  option httpchk
  http-check send meth OPTIONS uri /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
${servers.join('\n')}
`,
  )
  for (const file of [front, primary])
    await machine(t, file, () => launch(`${file}.log`, undefined, [HAPROXY, '-f', file])).start()
}

async function makeBucket(access: { endpoint: string; accessKeyId: string; secretAccessKey: string }): Promise<void> {
  const { endpoint, ...credentials } = access
  const client = new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials,
    requestChecksumCalculation: 'WHEN_REQUIRED',
  })
  await until('a bucket can be made', () =>
    client.send(new CreateBucketCommand({ Bucket: 'files' })).then(
      () => true,
      () => false,
    ),
  )
  client.destroy()
}

function rowhouseMachine(t: Teardown, folder: string, port: number, name: string): RowhouseMachine {
  const url = `http://127.0.0.1:${port}`
  const env = {
    PATH: process.env['PATH'],
    ROWHOUSE_ADMIN_SECRET: ADMIN_SECRET,
    ROWHOUSE_PORT: String(port),
    ROWHOUSE_DATA_DIR: join(folder, name),
  }
  const one = machine(t, name, () =>
    launch(join(folder, `${name}.log`), undefined, [process.execPath, CLI, 'start'], { cwd: folder, env }),
  )
  let ready = false
  const start = async () => {
    ready = false
    await one.start()
    await until(`${name} is ready`, () => {
      if (!one.isUp())
        throw new Error(`${name} has ended:\n${readFileSync(join(folder, `${name}.log`), 'utf8').slice(-2000)}`)
      return isReady(url)
    })
    ready = true
  }
  return {
    ...one,
    url,
    isUp: () => ready && one.isUp(),
    start,
    async restart() {
      await one.stop()
      await start()
    },
  }
}

const isReady = (url: string): Promise<boolean> =>
  fetch(`${url}/readyz`, { signal: AbortSignal.timeout(ASK_MS) }).then(
    async (response) => {
      await response.text()
      return response.ok
    },
    () => false,
  )

/** One statement on a connection of its own. */
export async function query<Row extends object>(url: string, sql: string): Promise<Row[]> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: COMMAND_MS,
    query_timeout: COMMAND_MS,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query<Row>(sql)).rows
  } finally {
    await client.end().catch(() => {})
  }
}
