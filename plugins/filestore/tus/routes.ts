import { randomUUID } from 'node:crypto'
import type { Context } from 'koa'
import { assertSameOrigin, type Call, callOf, ServiceError } from 'rowhouse'
import { limitsOf } from '../config.js'
import { badRequest } from '../errors.js'
import { meterRequest } from '../meter.js'
import type { Parts } from '../parts.js'
import { checkUploadHeaders } from '../uploads.js'
import { CHECKSUMS, EXTENSIONS, OFFSET_TYPE, readAnnounced, readChecksum, readInteger, VERSION } from './protocol.js'
import { unknownUpload } from './records.js'
import type { Part, Progress, Resumable } from './resumable.js'

const PATH = '/v1/upload'
const ONE = `${PATH}/:upload_id`
const READABLE =
  'Tus-Checksum-Algorithm, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Expires, Upload-Length, Upload-Metadata, Upload-Offset'

export function tusRoutes({ host, config, access, changes, rules }: Parts, resumable: Resumable): void {
  const { router } = host
  const create = async (ctx: Context): Promise<void> => {
    const call = writer(ctx)
    const first = carriesBytes(ctx)
    const id = randomUUID()
    const wanted = readAnnounced(ctx.headers, limitsOf(call.session.role, config).maxBytes)
    const { fileId = id, replace } = wanted
    const { caller, ruled } = await access.permit({ operation: 'create', id: fileId, replaces: replace }, call)
    if (ruled) await changes.foresee(fileId, !replace, { call, rules })
    const part = first ? readPart(ctx, 0) : undefined
    const counted = call.session.caller ?? `user ${caller.userId} ${caller.role}`
    const upload = await resumable.create({ ...wanted, fileId, ...caller, id, counted }, call)
    // Also for the error of its first bytes: it is there.
    ctx.set('Location', `${PATH}/${id}`)
    ctx.set('Upload-Expires', upload.expiresAt.toUTCString())
    if (part) ctx.set('Upload-Offset', String((await resumable.append(id, call, part)).offset))
    ctx.body = null
    ctx.status = 201
  }
  const append = async (ctx: Context): Promise<void> => {
    const call = writer(ctx)
    if (!carriesBytes(ctx)) throw wrongType()
    const part = readPart(ctx, readInteger(ctx.headers, 'Upload-Offset'))
    tell(ctx, await resumable.append(idOf(ctx), call, part))
    ctx.status = 204
  }
  const remove = async (ctx: Context): Promise<void> => {
    await resumable.remove(idOf(ctx), writer(ctx))
    ctx.status = 204
  }
  const head = async (ctx: Context): Promise<void> => {
    const progress = await resumable.progress(idOf(ctx), callOf(ctx))
    tell(ctx, progress)
    ctx.set('Upload-Length', String(progress.upload.length))
    if (progress.upload.metadata !== '') ctx.set('Upload-Metadata', progress.upload.metadata)
    ctx.status = 200
  }
  /** For clients whose proxies let no PATCH pass. */
  const overridden = (ctx: Context): Promise<void> => {
    const method = ctx.get('X-HTTP-Method-Override').toUpperCase()
    if (method === 'PATCH') return append(ctx)
    if (method === 'DELETE') return remove(ctx)
    throw badRequest('X-HTTP-Method-Override should be PATCH or DELETE')
  }
  const readPart = (ctx: Context, offset: number): Part => {
    checkUploadHeaders(ctx.req, Infinity)
    const length = ctx.headers['content-length']
    const { minBytesPerSecond } = config
    return {
      offset,
      length: length === undefined ? undefined : Number(length),
      checksum: readChecksum(ctx.headers),
      begin: (maxBytes) => meterRequest(ctx.req, maxBytes, minBytesPerSecond, null),
      signal: ctx.state.signal,
    }
  }

  for (const path of [PATH, `${PATH}/`]) router.post(path, speaking(create))
  router.patch(ONE, speaking(append))
  router.delete(ONE, speaking(remove))
  router.head(ONE, speaking(head))
  router.post(ONE, speaking(overridden))
  for (const path of [PATH, `${PATH}/`, ONE]) {
    router.options(path, (ctx) => {
      describe(ctx)
      ctx.set('Tus-Version', VERSION)
      ctx.set('Tus-Extension', EXTENSIONS)
      ctx.set('Tus-Max-Size', String(config.maxBytes))
      ctx.set('Tus-Checksum-Algorithm', CHECKSUMS.join(','))
      ctx.status = 204
    })
  }
}

/** @throws ServiceError 412 for another version of the protocol */
function speaking(handle: (ctx: Context) => Promise<void>): (ctx: Context) => Promise<void> {
  return async (ctx) => {
    describe(ctx)
    if (ctx.get('Tus-Resumable') !== VERSION) {
      ctx.set('Tus-Version', VERSION)
      throw new ServiceError(412, 'precondition_failed', `Tus-Resumable should be ${VERSION}`)
    }
    await handle(ctx)
  }
}

/** What every answer says, and that a page of another origin may read it where it may read anything. */
function describe(ctx: Context): void {
  ctx.set('Tus-Resumable', VERSION)
  ctx.set('Cache-Control', 'no-store')
  const readable = ctx.response.get('Access-Control-Expose-Headers')
  if (readable) ctx.set('Access-Control-Expose-Headers', `${readable}, ${READABLE}`)
}

function tell(ctx: Context, { offset, expiresAt }: Progress): void {
  ctx.set('Upload-Offset', String(offset))
  ctx.set('Upload-Expires', expiresAt.toUTCString())
}

/** @throws ServiceError 403 when another site sends it */
function writer(ctx: Context): Call {
  const call = callOf(ctx)
  assertSameOrigin(ctx, call.session)
  return call
}

/** @throws ServiceError 415 for a body that is something else */
function carriesBytes({ headers }: Context): boolean {
  if (headers['content-type']?.toLowerCase() === OFFSET_TYPE) return true
  if (Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined) throw wrongType()
  return false
}

function idOf(ctx: Context): string {
  const id = String(ctx['params'].upload_id).toLowerCase()
  if (!/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/.test(id)) throw unknownUpload(id)
  return id
}

const wrongType = () => new ServiceError(415, 'unsupported_media_type', `the Content-Type should be ${OFFSET_TYPE}`)
