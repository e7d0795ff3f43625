import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'

/**
 * PostGraphile 5 from the packages in `PEER_FOLDER`, set up for production: Amber preset, grafserv on
 * `node:http`, without GraphiQL, websockets, watching or explain, with lists in place of connections, and answers put
 * together as text. As many connections as the server that it stands beside. Filters and orders of columns without an
 * index are allowed, because the requests have them.
 */
process.stdin.once('end', () => process.exit()).resume()
process.once('SIGTERM', () => process.exit())

const need = createRequire(join(process.env['PEER_FOLDER'] ?? '', 'package.json'))
const { postgraphile } = need('postgraphile') as { postgraphile: (preset: object) => Instance }
const { PostGraphileAmberPreset: amber } = need('postgraphile/presets/amber') as Presets
const { PostGraphileConnectionFilterPreset: filter } = need('postgraphile-plugin-connection-filter') as Presets
const { makePgService } = need('postgraphile/adaptors/pg') as { makePgService: (options: object) => object }
const { grafserv } = need('postgraphile/grafserv/node') as { grafserv: object }

const instance = postgraphile({
  extends: [amber, filter],
  disablePlugins: ['PgIndexBehaviorsPlugin'],
  pgServices: [
    makePgService({
      connectionString: process.env['DATABASE_URL'],
      schemas: ['public'],
      pubsub: false,
      poolConfig: { max: 10 },
    }),
  ],
  schema: { defaultBehavior: '+list -connection', connectionFilterRelations: true },
  grafast: { explain: false, context: ({ node }: RequestContext) => settingsOf(node?.req) },
  grafserv: {
    graphiql: false,
    websockets: false,
    watch: false,
    outputDataAsString: true,
    maxRequestLength: 2 ** 24,
    maskError: giveUp,
  },
})
const server = createServer()
await instance.createServ(grafserv).addTo(server)
await instance.getSchema()
await once(server.listen(Number(process.env['PORT']), '127.0.0.1'), 'listening')

/** A caller who is named is a role of the database for one transaction; nobody checks the name. */
function settingsOf(request: IncomingMessage | undefined): object {
  const user = request?.headers['x-bench-user']
  return user === undefined ? {} : { pgSettings: { role: 'bench_user', 'bench.user_id': user } }
}

/** An answer with errors has status 200, which a load tool takes for a success. */
function giveUp(error: unknown): never {
  console.log(error)
  process.exit(1)
}

interface Instance {
  createServ(kind: object): { addTo(server: Server): Promise<void> }
  getSchema(): Promise<object>
}
type Presets = Readonly<Record<string, object>>
interface RequestContext {
  readonly node?: { readonly req: IncomingMessage }
}
