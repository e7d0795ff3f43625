import { randomUUID } from 'node:crypto'
import type { Context } from 'koa'
import { assertSameOrigin, type Call, callOf, serviceError } from 'rowhouse'
import { countedAs } from '../caller.js'
import type { Components } from '../components.js'
import { limitsOf } from '../config.js'
import { essenceOf } from '../content-type.js'
import { badRequest } from '../errors.js'
import { isUuid } from '../file-id.js'
import { meterRequest } from '../meter.js'
import { checkUploadHeaders } from '../uploads.js'
import {
  CHECKSUMS,
  EXTENSIONS,
  OFFSET_TYPE,
  readChecksum,
  readInteger,
  readUploadHeaders,
  VERSION,
} from './protocol.js'
import { unknownUpload, type Upload } from './records.js'
import type { Chunk, ResumableUploads } from './resumable.js'

const PATH = '/v1/upload'
const UPLOAD_PATH = `${PATH}/:upload_id`
const EXPOSED_HEADERS =
  'Tus-Checksum-Algorithm, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Expires, Upload-Length, Upload-Metadata, Upload-Offset'

export function tusRoutes(
  { host, config, access, changes, rules, pending }: Components,
  resumable: ResumableUploads,
): void {
  const { router } = host
  const create = async (ctx: Context): Promise<void> => {
    const call = writeCall(ctx)
    const withBytes = hasBytes(ctx)
    const id = randomUUID()
    const wanted = readUploadHeaders(ctx.headers, limitsOf(call.session.role, config).maxBytes)
    const { fileId = id, replace } = wanted
    const { caller, ruled } = await access.check({ operation: 'create', id: fileId, replaces: replace }, call)
    const counted = countedAs(call.session, caller)
    const file = { ...wanted, ...caller, id: fileId, create: !replace, pending: wanted.pending ? counted : undefined }
    if (ruled || wanted.pending) await changes.precheck(file, ruled ? { call, rules } : { call })
    if (wanted.pending) await pending.requireRoom(file)
    const chunk = withBytes ? chunkOf(ctx, 0) : undefined
    const upload = await resumable.create({ ...wanted, fileId, ...caller, id, counted }, call)
    // Set before the first bytes are read, because the upload stays if that fails.
    ctx.set('Location', `${PATH}/${id}`)
    ctx.set('Upload-Expires', upload.expiresAt.toUTCString())
    if (chunk) ctx.set('Upload-Offset', String((await resumable.append(id, call, chunk)).offset))
    ctx.body = null
    ctx.status = 201
  }
  const append = async (ctx: Context): Promise<void> => {
    const call = writeCall(ctx)
    if (!hasBytes(ctx)) throw wrongType()
    const chunk = chunkOf(ctx, readInteger(ctx.headers, 'Upload-Offset'))
    setProgress(ctx, await resumable.append(idOf(ctx), call, chunk))
    ctx.status = 204
  }
  const remove = async (ctx: Context): Promise<void> => {
    await resumable.remove(idOf(ctx), writeCall(ctx))
    ctx.status = 204
  }
  const head = async (ctx: Context): Promise<void> => {
    const upload = await resumable.progress(idOf(ctx), callOf(ctx))
    setProgress(ctx, upload)
    ctx.set('Upload-Length', String(upload.length))
    if (upload.metadata !== '') ctx.set('Upload-Metadata', upload.metadata)
    ctx.status = 200
  }
  /** For clients behind proxies that block PATCH. */
  const override = (ctx: Context): Promise<void> => {
    const method = ctx.get('X-HTTP-Method-Override').toUpperCase()
    if (method === 'PATCH') return append(ctx)
    if (method === 'DELETE') return remove(ctx)
    throw badRequest('X-HTTP-Method-Override should be PATCH or DELETE')
  }
  const chunkOf = (ctx: Context, offset: number): Chunk => ({
    offset,
    length: checkUploadHeaders(ctx.req, Infinity),
    checksum: readChecksum(ctx.headers),
    open: (maxBytes) => meterRequest(ctx.req, maxBytes, config.minBytesPerSecond, null),
    signal: ctx.state.signal,
  })

  for (const path of [PATH, `${PATH}/`]) router.post(path, tus(create))
  router.patch(UPLOAD_PATH, tus(append))
  router.delete(UPLOAD_PATH, tus(remove))
  router.head(UPLOAD_PATH, tus(head))
  router.post(UPLOAD_PATH, tus(override))
  for (const path of [PATH, `${PATH}/`, UPLOAD_PATH]) {
    router.options(path, (ctx) => {
      setCommonHeaders(ctx)
      ctx.set('Tus-Version', VERSION)
      ctx.set('Tus-Extension', EXTENSIONS)
      ctx.set('Tus-Max-Size', String(config.maxBytes))
      ctx.set('Tus-Checksum-Algorithm', CHECKSUMS.join(','))
      ctx.status = 204
    })
  }
}

/** @throws ServiceError 412 for another version of the protocol */
function tus(handle: (ctx: Context) => Promise<void>): (ctx: Context) => Promise<void> {
  return async (ctx) => {
    setCommonHeaders(ctx)
    if (ctx.get('Tus-Resumable') !== VERSION) {
      ctx.set('Tus-Version', VERSION)
      throw serviceError('precondition_failed', `Tus-Resumable should be ${VERSION}`)
    }
    await handle(ctx)
  }
}

/** Sets the common headers. Allows pages of permitted origins to read the headers of the protocol. */
function setCommonHeaders(ctx: Context): void {
  ctx.set('Tus-Resumable', VERSION)
  ctx.set('Cache-Control', 'no-store')
  const exposed = ctx.response.get('Access-Control-Expose-Headers')
  if (exposed) ctx.set('Access-Control-Expose-Headers', `${exposed}, ${EXPOSED_HEADERS}`)
}

function setProgress(ctx: Context, { offset, expiresAt }: Upload): void {
  ctx.set('Upload-Offset', String(offset))
  ctx.set('Upload-Expires', expiresAt.toUTCString())
}

/** @throws ServiceError 403 when a page of another site sends the request */
function writeCall(ctx: Context): Call {
  const call = callOf(ctx)
  assertSameOrigin(ctx, call.session)
  return call
}

/** @throws ServiceError 415 for a body of another type */
function hasBytes({ headers }: Context): boolean {
  if (essenceOf(headers['content-type'] ?? '') === OFFSET_TYPE) return true
  if (Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined) throw wrongType()
  return false
}

function idOf(ctx: Context): string {
  const id = String(ctx['params'].upload_id).toLowerCase()
  if (!isUuid(id)) throw unknownUpload(id)
  return id
}

const wrongType = () => serviceError('unsupported-media-type', `the Content-Type should be ${OFFSET_TYPE}`)
