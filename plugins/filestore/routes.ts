import { randomUUID } from 'node:crypto'
import type { Context } from 'koa'
import { assertSameOrigin, type Host } from 'rowhouse'
import { callerOf, permit } from './caller.js'
import type { FilestoreConfig } from './config.js'
import { readContentType } from './content-type.js'
import { sendFile } from './download.js'
import { readFileId } from './file-id.js'
import type { Files } from './files.js'
import type { Uploads } from './uploads.js'

const PREFIX = '/v1/file/'
/** Whatever stands behind the prefix, so that an id with a mistake in it gets our answer. */
const ONE = `${PREFIX}{*file_id}`

export function fileRoutes(host: Host, files: Files, uploads: Uploads, config: FilestoreConfig): void {
  const { router } = host

  /** Of an id that the client made, or that we do. */
  const upload = async (ctx: Context, id: string, create: boolean): Promise<void> => {
    const caller = callerOf(ctx.state.session)
    permit(caller, 'create', config)
    assertSameOrigin(ctx, ctx.state.session)
    const contentType = readContentType(ctx.get('Content-Type'))
    const file = { id, create, contentType, ...caller }
    ctx.type = 'json'
    ctx.body = await uploads.take(ctx.req, file, ctx.state.signal)
  }
  const download = async (ctx: Context): Promise<void> => {
    permit(callerOf(ctx.state.session), 'read', config)
    await sendFile(ctx, host, files, readFileId(ctx.path, PREFIX))
  }

  for (const path of ['/v1/file', '/v1/file/']) router.post(path, (ctx) => upload(ctx, randomUUID(), true))
  router.post(ONE, (ctx) => upload(ctx, readFileId(ctx.path, PREFIX), true))
  router.put(ONE, (ctx) => upload(ctx, readFileId(ctx.path, PREFIX), false))
  router.get(ONE, download)
  router.head(ONE, download)
  router.delete(ONE, async (ctx) => {
    permit(callerOf(ctx.state.session), 'delete', config)
    assertSameOrigin(ctx, ctx.state.session)
    const id = readFileId(ctx.path, PREFIX)
    await files.remove(id)
    ctx.body = { file_id: id, status: 'deleted' }
  })
}
