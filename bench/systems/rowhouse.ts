import { startServer } from '../../core/host/server.js'

const plugin = (name: string): URL => new URL(`../../plugins/${name}/index.js`, import.meta.url)
const disk = new URL('../../providers/storage/disk.js', import.meta.url)
const role = ['create', 'read'] as const
/** Bytes of files that are deleted go at once. */
const filestore = { maxBytes: 2 ** 32, permissions: { user: role }, collect: { everySeconds: 1, graceSeconds: 0 } }

/**
 * The server under measurement: `DATABASE_URL`, `ROWHOUSE_*` and `PORT` come from the environment. With `FILES`, a folder,
 * it has files there, of the durability that `DURABILITY` says.
 */
const { FILES: root, DURABILITY: durability } = process.env
process.stdin.once('end', () => process.exit()).resume()
try {
  const server = await startServer({
    env: process.env,
    cwd: import.meta.dirname,
    overrides: {
      http: { port: Number(process.env['PORT']) },
      ...(root === undefined
        ? {}
        : { plugins: { filestore }, providers: { storage: { default: 'disk', disk: { root, durability } } } }),
    },
    builtins: {
      plugins: {
        query: plugin('query'),
        graphql: plugin('graphql'),
        ...(root === undefined ? {} : { filestore: plugin('filestore') }),
      },
      providers: { storage: { disk } },
    },
  })
  process.once('SIGTERM', () => void server.close().then(() => process.exit()))
} catch (error) {
  console.log(error)
  process.exit(1)
}
