import { assertAdmin, callOf, type Data, type Host, type Operations, readJson, wantedFormat } from 'rowhouse'
import { explain } from './operations.js'

/** `POST /v1/query`, and `POST /v1/query/explain` for admins. */
export function queryRoutes(host: Pick<Host, 'route'>, data: Data, operations: Operations): void {
  host.route('post', '/v1/query', async (exchange) => {
    const format = wantedFormat(exchange)
    const query = await readJson(exchange, QUERY)
    return operations.run(query, callOf(exchange, format))
  })

  host.route('post', '/v1/query/explain', async (exchange) => {
    assertAdmin(exchange.state.session)
    const body = await readJson(exchange)
    return { kind: 'text', text: await explain(data, body, callOf(exchange)) }
  })
}

const QUERY = { isRows: isObjects, largeForAdmin: true }

/** `$.args.objects`, or the same inside bulks: the rows of an insert. `args` below `args` are those of a template. */
function isObjects(path: readonly (string | number)[]): boolean {
  return (
    path.at(-2) === 'args' &&
    path.at(-3) !== 'args' &&
    path.every((key, i) => typeof key === 'number' || key === 'args' || i === path.length - 1)
  )
}
