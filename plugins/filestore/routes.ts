import { randomUUID } from 'node:crypto'
import type { Context } from 'koa'
import { assertSameOrigin, type Call, callOf, readJson } from 'rowhouse'
import type { Permit } from './access.js'
import type { Guard } from './changes.js'
import { writeConditions } from './conditions.js'
import { limitsOf } from './config.js'
import { readContentType } from './content-type.js'
import { sendFile } from './download.js'
import { badRequest } from './errors.js'
import { readFileId } from './file-id.js'
import type { NewFile } from './files.js'
import { filesOf, isForm } from './form.js'
import { type Meter, meterRequest } from './meter.js'
import type { Parts } from './parts.js'
import { readSigning } from './signing.js'
import { checkUploadHeaders, type Upload } from './uploads.js'

const PREFIX = '/v1/file/'
/** Whatever stands behind the prefix, so that an id with a mistake in it gets our answer. */
const ONE = `${PREFIX}{*file_id}`

export function fileRoutes({ host, config, files, changes, uploads, rules, access, urls, small }: Parts): void {
  const { router } = host

  const guardOf = (ctx: Context, { ruled }: Permit, call: Call): Guard | undefined => {
    const conditions = writeConditions(ctx)
    return ruled || conditions
      ? { call, ...(ruled ? { rules } : {}), ...(conditions ? { conditions } : {}) }
      : undefined
  }

  /** Of an id that the client made. */
  const upload = async (ctx: Context, id: string, create: boolean): Promise<void> => {
    const call = callOf(ctx)
    assertSameOrigin(ctx, call.session)
    const permit = await access.permit({ operation: 'create', id, replaces: !create }, call)
    const contentType = readContentType(ctx.get('Content-Type'))
    // What is around the file of a form does not count.
    const most = isForm(contentType) ? Infinity : limitsOf(permit.caller.role, config).maxBytes
    const size = checkUploadHeaders(ctx.req, most)
    const file = { id, create, contentType, ...permit.caller }
    const plain = (): Upload => ({
      file,
      ...(size === undefined ? {} : { size }),
      begin: (maxBytes) => meterRequest(ctx.req, maxBytes, config.minBytesPerSecond),
    })
    const body = isForm(contentType) ? onlyFileOf(ctx, file) : [plain()]
    ctx.type = 'json'
    ctx.body = (await uploads.take(body, call, guardOf(ctx, permit, call)))[0]
  }

  /** The body of a form with one file. */
  async function* onlyFileOf(ctx: Context, file: NewFile): AsyncGenerator<Upload> {
    let count = 0
    for await (const { contentType, meter } of filesOf(ctx.req, config, ctx.state.signal)) {
      if (++count > 1) throw badRequest('there is one file_id, and the form has more than one file')
      yield { file: { ...file, contentType }, begin: meter }
    }
    if (count === 0) throw badRequest('the form has no file')
  }

  /** Of ids that we make, or that a form has: all of them files at once. */
  const uploadNew = async (ctx: Context): Promise<void> => {
    const call = callOf(ctx)
    if (!isForm(ctx.get('Content-Type'))) return upload(ctx, randomUUID(), true)
    assertSameOrigin(ctx, call.session)
    const guard = access.ruled(call) ? { call, rules } : undefined
    const records = await uploads.take(newFilesOf(ctx, call), call, guard)
    ctx.type = 'json'
    ctx.body = `[${records.join(',\n')}]`
  }

  async function* newFilesOf(ctx: Context, call: Call): AsyncGenerator<Upload> {
    let taken = 0
    let count = 0
    for await (const { id = randomUUID(), contentType, meter } of filesOf(ctx.req, config, call.signal)) {
      const { caller } = await access.permit({ operation: 'create', id }, call)
      count++
      let metered: Meter | undefined
      const left = Math.max(0, limitsOf(caller.role, config).maxBytes - taken)
      const begin = (maxBytes: number) => (metered = meter(Math.min(maxBytes, left)))
      yield { file: { id, create: true, contentType, ...caller }, begin }
      taken += metered?.size ?? 0
    }
    if (count === 0) throw badRequest('the form has no file')
  }

  const download = async (ctx: Context): Promise<void> => {
    const id = readFileId(ctx.path, PREFIX)
    if (ctx.query['signature'] === undefined) await access.permit({ operation: 'read', id }, callOf(ctx))
    else await urls.verify(id, ctx.query)
    await sendFile(ctx, { host, files, config, small }, id)
  }

  /** An address for whoever is given it, of a file that the caller may read. */
  const sign = async (ctx: Context): Promise<void> => {
    const { file_id: id, expires_in: seconds, download } = readSigning(await readJson(ctx), config)
    await access.permit({ operation: 'read', id }, callOf(ctx))
    await files.find(id)
    const expires = Math.floor(Date.now() / 1000) + seconds
    ctx.body = {
      file_id: id,
      url: `${PREFIX}${encodeURIComponent(id)}${await urls.query(id, { expires, download })}`,
      expires_at: new Date(expires * 1000).toISOString(),
    }
  }

  if (config.signedUrls.maxSeconds > 0) router.post('/v1/file-url', sign)
  for (const path of ['/v1/file', '/v1/file/']) router.post(path, uploadNew)
  router.post(ONE, (ctx) => upload(ctx, readFileId(ctx.path, PREFIX), true))
  router.put(ONE, (ctx) => upload(ctx, readFileId(ctx.path, PREFIX), false))
  router.get(ONE, download)
  router.head(ONE, download)
  router.delete(ONE, async (ctx) => {
    const call = callOf(ctx)
    assertSameOrigin(ctx, call.session)
    const id = readFileId(ctx.path, PREFIX)
    const permit = await access.permit({ operation: 'delete', id }, call)
    await changes.remove(id, guardOf(ctx, permit, call))
    ctx.body = { file_id: id, status: 'deleted' }
  })
}
