import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'

/**
 * PostGraphile 4 from the packages in `PEER_FOLDER`, as a library on `node:http`: its filter plugin, lists beside connections,
 * prepared statements, its cache of queries, no watching, no GraphiQL, no log of queries. As many connections as the server that
 * it stands beside.
 */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const need = createRequire(join(process.env['PEER_FOLDER'] ?? '', 'package.json'))
const { postgraphile } = need('postgraphile') as {
  postgraphile: (pool: object, schema: string, options: object) => RequestListener
}
const filter = need('postgraphile-plugin-connection-filter') as object
const { Pool } = need('pg') as { Pool: new (options: object) => object }

const pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: 10 })
const options = {
  appendPlugins: [filter],
  graphileBuildOptions: { connectionFilterRelations: true },
  simpleCollections: 'both',
  dynamicJson: true,
  disableQueryLog: true,
  graphiql: false,
  watchPg: false,
  retryOnInitFail: false,
  bodySizeLimit: '16MB',
  pgSettings: settingsOf,
  handleErrors: giveUp,
}
createServer(postgraphile(pool, 'public', options)).listen(Number(process.env['PORT']), '127.0.0.1')

/** A caller who is named is a role of the database for one transaction; nobody checks the name. */
async function settingsOf(request: IncomingMessage): Promise<object> {
  const user = request.headers['x-bench-user']
  return user === undefined ? {} : { role: 'bench_user', 'bench.user_id': user }
}

/** An answer with errors has status 200, which a load tool takes for a success. */
function giveUp(errors: readonly Error[]): never {
  console.log(errors)
  process.exit(1)
}
