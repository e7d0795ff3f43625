import { startServer } from '../../core/host/server.js'
import { createDatabase } from './database.js'

const builtin = (path: string): URL => new URL(`../../${path}.js`, import.meta.url)
/** The plugins that have migrations. */
const OWNERS = ['filestore', 'notify', 'console']

/**
 * Creates a database that has all migrations, for `ROWHOUSE_TEST_TEMPLATE`. `testServer` copies it, so its servers have
 * nothing to migrate. Copies share one thing that a new database has of its own: the key of signed URLs.
 * @returns its name
 */
export async function createTemplate(clusterUrl: string): Promise<{ readonly name: string; drop(): Promise<void> }> {
  const { name, url, drop, seal } = await createDatabase(clusterUrl)
  const server = await startServer({
    env: {},
    cwd: process.cwd(),
    overrides: {
      database: { url },
      log: { level: 'fatal' },
      compile: { threads: 0 },
      auth: { adminSecret: 'of a server that answers no request' },
      http: { port: 0 },
    },
    builtins: {
      plugins: Object.fromEntries(OWNERS.map((plugin) => [plugin, builtin(`plugins/${plugin}/index`)])),
      providers: { storage: { memory: builtin('providers/storage/memory') } },
      defaults: { storage: 'memory' },
    },
  })
  await server.close()
  await seal()
  return { name, drop }
}
