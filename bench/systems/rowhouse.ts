import { pathToFileURL } from 'node:url'
import type { startServer as StartServer } from '../../core/host/server.js'
import { createLogger } from '../../core/observe/log.js'
import { supervised } from '../../core/processes/siblings.js'
import { supervise } from '../../core/processes/supervisor.js'

/** `BUILD` is the folder of compiled files of another build, which is measured in place of this one. */
const { BUILD: other, PROCESSES } = process.env
const build = other === undefined ? new URL('../../', import.meta.url) : pathToFileURL(`${other}/`)
const plugin = (name: string): URL => new URL(`plugins/${name}/index.js`, build)
const provider = (name: string): URL => new URL(`providers/${name}.js`, build)
const role = ['create', 'read'] as const
/** Bytes of files that are deleted go at once. */
const filestore = { maxBytes: 2 ** 32, permissions: { user: role }, collect: { everySeconds: 1, graceSeconds: 0 } }

/**
 * The server under measurement: `DATABASE_URL`, `ROWHOUSE_*` and `PORT` come from the environment. With `FILES`, a folder,
 * it has files there, of the durability that `DURABILITY` says. With `SMTP_PORT` it sends mail there, by as many connections
 * as `CONNECTIONS` says. With `PROCESSES` it has that many. With `PLUGIN`, a file of this folder, it has that plugin, too.
 */
const { FILES: root, DURABILITY: durability, SMTP_PORT: port, CONNECTIONS: connections } = process.env
const storage = root === undefined ? undefined : { default: 'disk', disk: { root, durability } }
const smtp = { host: '127.0.0.1', port: Number(port), security: 'none', connections: Number(connections) }
const own = process.env['PLUGIN']
const email = port === undefined ? undefined : { default: 'smtp', smtp }
process.stdin.once('end', () => process.exit()).resume()
// Otherwise the server is this process alone. Another build may have no processes.
const siblings = PROCESSES === undefined ? undefined : supervised()
if (PROCESSES !== undefined && !siblings)
  process.exit(await supervise(Number(PROCESSES), createLogger({ level: 'info' })))
try {
  const { startServer } = (await import(new URL('core/host/server.js', build).href)) as {
    startServer: typeof StartServer
  }
  const server = await startServer({
    env: process.env,
    cwd: import.meta.dirname,
    siblings,
    overrides: {
      http: { port: Number(process.env['PORT']) },
      plugins: storage ? { filestore } : {},
      providers: { ...(storage ? { storage } : {}), ...(email ? { email } : {}) },
    },
    builtins: {
      plugins: {
        query: plugin('query'),
        graphql: plugin('graphql'),
        template: plugin('template'),
        ...(storage ? { filestore: plugin('filestore') } : {}),
        ...(email ? { notify: plugin('notify') } : {}),
        ...(own === undefined ? {} : { own: new URL(`${own}.js`, import.meta.url) }),
      },
      providers: {
        storage: { disk: provider('storage/disk') },
        email: { smtp: provider('email/smtp') },
      },
    },
  })
  siblings?.ready(server.config.values.shutdownTimeoutMs)
  process.once('SIGTERM', () => void server.close().then(() => process.exit()))
} catch (error) {
  console.log(error)
  process.exit(1)
}
