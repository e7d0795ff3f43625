import {
  type Data,
  type Host,
  type Operations,
  readJson,
  respond,
  type Session,
  ServiceError,
  wantedFormat,
} from 'rowhouse'
import { explain } from './operations.js'

/** `POST /v1/query`, and `POST /v1/query/explain` for admins. */
export function queryRoutes(router: Host['router'], data: Data, operations: Operations): void {
  router.post('/v1/query', async (ctx) => {
    const { session, signal } = ctx.state
    const format = wantedFormat(ctx)
    const query = await readJson(ctx, { isRows: isObjects, largeForAdmin: true })
    respond(ctx, await operations.run(query, { session, signal, format }))
  })

  router.post('/v1/query/explain', async (ctx) => {
    const { session, signal } = ctx.state
    refuseOthers(session)
    const body = await readJson(ctx)
    respond(ctx, { kind: 'text', text: await explain(data, body, { session, signal, format: 'json' }) })
  })
}

/** `$.args.objects`, or the same inside bulks: the rows of an insert. `args` below `args` are those of a template. */
function isObjects(path: readonly (string | number)[]): boolean {
  return (
    path.at(-2) === 'args' &&
    path.at(-3) !== 'args' &&
    path.every((key, i) => typeof key === 'number' || key === 'args' || i === path.length - 1)
  )
}

function refuseOthers({ role }: Session): void {
  if (role !== 'admin') throw new ServiceError(400, 'access-denied', 'restricted access : admin only', '$')
}
