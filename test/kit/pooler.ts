import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from './free-port.js'
import { until } from './until.js'

/** Names the pooler that servers of tests are to go through. */
export const TEST_POOLER_URL = 'ROWHOUSE_TEST_POOLER_URL'
export const PGBOUNCER = '/usr/sbin/pgbouncer'

export interface Pooler {
  /** A database of the cluster is added to it as the path. */
  readonly url: string
  stop(): Promise<void>
}

/**
 * PgBouncer in transaction mode before all databases of a cluster.
 * @param options lines of its configuration
 */
export async function startPooler(clusterUrl: string, options: readonly string[] = []): Promise<Pooler> {
  const folder = await mkdtemp(join(tmpdir(), 'rowhouse-pgbouncer-'))
  const port = await freePort()
  const { hostname, port: serverPort, username, password } = new URL(clusterUrl)
  const file = join(folder, 'pgbouncer.ini')
  await writeFile(
    file,
    `[databases]
* = host=${decodeURIComponent(hostname)} port=${serverPort} user=${username} password=${decodeURIComponent(password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${folder}/users
admin_users = admin
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 10
server_idle_timeout = 20
${options.join('\n')}
`,
  )
  await writeFile(join(folder, 'users'), '"admin" ""')
  // It refuses to be root, and reads the file as somebody else.
  await chmod(folder, 0o755)
  const account = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
  const bouncer = spawn(PGBOUNCER, [...account, file], { stdio: 'ignore' })
  const url = `postgresql://admin@127.0.0.1:${port}`
  await until('PgBouncer answers', () =>
    tellPooler(url, 'show version').then(
      () => true,
      () => false,
    ),
  )
  return {
    url,
    async stop() {
      bouncer.kill('SIGTERM')
      if (bouncer.exitCode === null) await once(bouncer, 'exit')
      await rm(folder, { recursive: true })
    },
  }
}

/** Says something in the console of PgBouncer. */
export async function tellPooler(poolerUrl: string, command: string): Promise<void> {
  const client = new pg.Client({ connectionString: `${poolerUrl}/pgbouncer` })
  client.on('error', () => undefined)
  await client.connect()
  try {
    await client.query(command)
  } finally {
    await client.end()
  }
}
