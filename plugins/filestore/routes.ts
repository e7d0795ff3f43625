import { randomUUID } from 'node:crypto'
import { parse } from 'node:querystring'
import { type Answer, assertSameOrigin, type Call, callOf, type Exchange, readJson } from 'rowhouse'
import type { Permit } from './access.js'
import type { Guard } from './changes.js'
import { type Caller, countedAs } from './caller.js'
import type { Components } from './components.js'
import { writeConditions } from './conditions.js'
import { limitsOf } from './config.js'
import { readContentType } from './content-type.js'
import { sendFile } from './download.js'
import { accessDenied, badRequest } from './errors.js'
import { readFileId } from './file-id.js'
import type { NewFile } from './files.js'
import { filesOf, isForm } from './form.js'
import { bufferRequest, type Meter, meterRequest } from './meter.js'
import { readSignedUrlRequest } from './signed-urls.js'
import { checkUploadHeaders, type Upload } from './uploads.js'

const PREFIX = '/v1/file/'
/** Matches any path below the prefix, so that this plugin answers requests with an invalid id. */
const FILE_PATH = `${PREFIX}{*file_id}`
/** Maximum announced size of a body that is read into memory and written in one piece. */
const BUFFERED_BYTES = 2 ** 20

export function fileRoutes(components: Components): void {
  const { host, config, files, changes, uploads, pending, rules, access, urls } = components
  const guardOf = (exchange: Exchange, { ruled }: Permit, call: Call): Guard | undefined => {
    const conditions = writeConditions(exchange)
    return ruled || conditions ? { call, rules: ruled ? rules : undefined, conditions } : undefined
  }

  /** Returns a file with what its parameter `pending` says. @throws ServiceError 400, 429 */
  const newFile = async (exchange: Exchange, file: NewFile, caller: Caller): Promise<NewFile> => {
    if (!isPending(exchange)) return file
    if (writeConditions(exchange)) throw badRequest('a pending upload takes no conditions such as If-Match')
    const held = { ...file, pending: countedAs(exchange.state.session, caller) }
    await pending.requireRoom(held)
    return held
  }

  /** Stores one file under an id that the client chose. */
  const upload = async (exchange: Exchange, id: string, create: boolean): Promise<Answer> => {
    const call = callOf(exchange)
    assertSameOrigin(exchange, call.session)
    const permit = await access.check({ operation: 'create', id, replaces: !create }, call)
    const contentType = readContentType(exchange.get('Content-Type'))
    // In a form, the limit applies to the file, not to the body.
    const maxBytes = isForm(contentType) ? Infinity : limitsOf(permit.caller.role, config).maxBytes
    const size = checkUploadHeaders(exchange.req, maxBytes)
    const file = await newFile(exchange, { id, create, contentType, ...permit.caller }, permit.caller)
    const readAll: Upload['readAll'] = (maxBytes, signal) =>
      bufferRequest(exchange.req, maxBytes, config.minBytesPerSecond, signal)
    const plain: Upload = {
      file,
      size,
      open: (maxBytes) => meterRequest(exchange.req, maxBytes, config.minBytesPerSecond),
      readAll: size === undefined || size > BUFFERED_BYTES ? undefined : readAll,
    }
    const body = isForm(contentType) ? onlyFileOf(exchange, file) : [plain]
    const [record = ''] = await uploads.store(body, call, guardOf(exchange, permit, call))
    return { kind: 'text', text: record }
  }

  /** Yields the file of a form that must have exactly one. */
  async function* onlyFileOf(exchange: Exchange, file: NewFile): AsyncGenerator<Upload> {
    let count = 0
    for await (const { contentType, meter } of filesOf(exchange.req, config, exchange.state.signal)) {
      if (++count > 1) throw badRequest('the form has more than one file; POST /v1/file takes several')
      yield { file: { ...file, contentType }, open: meter }
    }
    if (count === 0) throw badRequest('the form has no file')
  }

  /** Stores one file under a new id, or all files of a form with one commit. */
  const uploadNew = async (exchange: Exchange): Promise<Answer> => {
    const call = callOf(exchange)
    if (!isForm(exchange.get('Content-Type'))) return upload(exchange, randomUUID(), true)
    assertSameOrigin(exchange, call.session)
    checkUploadHeaders(exchange.req, Infinity)
    const guard = access.ruled(call) ? { call, rules } : undefined
    const records = await uploads.store(newFilesOf(exchange, call), call, guard)
    return { kind: 'text', text: `[${records.join(',\n')}]` }
  }

  async function* newFilesOf(exchange: Exchange, call: Call): AsyncGenerator<Upload> {
    let usedBytes = 0
    let count = 0
    for await (const { id: named, contentType, meter } of filesOf(exchange.req, config, call.signal)) {
      const id = named ?? randomUUID()
      call.keyed?.add(named ?? null)
      const { caller } = await access.check({ operation: 'create', id }, call)
      count++
      let metered: Meter | undefined
      const left = Math.max(0, limitsOf(caller.role, config).maxBytes - usedBytes)
      const open = (maxBytes: number) => (metered = meter(Math.min(maxBytes, left)))
      yield { file: await newFile(exchange, { id, create: true, contentType, ...caller }, caller), open }
      usedBytes += metered?.size ?? 0
    }
    if (count === 0) throw badRequest('the form has no file')
  }

  const download = async (exchange: Exchange): Promise<Answer> => {
    assertNoProgram(exchange)
    const id = readFileId(exchange.path, PREFIX)
    const query = exchange.querystring === '' ? {} : parse(exchange.querystring)
    const isSigned = query['signature'] !== undefined
    if (isSigned) await urls.verify(id, query)
    else await access.check({ operation: 'read', id }, callOf(exchange))
    return sendFile(exchange, components, id, isSigned)
  }

  /** Signs a URL of a file that the caller may read. */
  const sign = async (exchange: Exchange): Promise<Answer> => {
    const { file_id: id, expires_in: seconds, download } = readSignedUrlRequest(await readJson(exchange), config)
    await access.check({ operation: 'read', id }, callOf(exchange))
    await files.find(id)
    const expires = Math.floor(Date.now() / 1000) + seconds
    return json({
      file_id: id,
      url: `${PREFIX}${encodeURIComponent(id)}${await urls.query(id, { expires, download })}`,
      expires_at: new Date(expires * 1000).toISOString(),
    })
  }

  const remove = async (exchange: Exchange): Promise<Answer> => {
    const call = callOf(exchange)
    assertSameOrigin(exchange, call.session)
    const id = readFileId(exchange.path, PREFIX)
    const permit = await access.check({ operation: 'delete', id }, call)
    return host.use('data').once(call, async (once) => {
      await changes.remove(id, guardOf(exchange, permit, once), once.transaction)
      return json({ file_id: id, status: 'deleted' })
    })
  }

  for (const path of ['/v1/file', PREFIX]) host.idempotent(path, { by: 'server' })
  if (config.signedUrls.maxSeconds > 0) host.route('post', '/v1/file-url', sign)
  for (const path of ['/v1/file', '/v1/file/']) host.route('post', path, uploadNew)
  host.route('post', FILE_PATH, async (exchange) => upload(exchange, readFileId(exchange.path, PREFIX), true))
  host.route('put', FILE_PATH, async (exchange) => upload(exchange, readFileId(exchange.path, PREFIX), false))
  host.route('get', FILE_PATH, download)
  host.route('head', FILE_PATH, download)
  host.route('delete', FILE_PATH, remove)
}

/** @throws ServiceError 400 */
function isPending({ querystring }: Exchange): boolean {
  const { pending = 'false' } = querystring === '' ? {} : parse(querystring)
  if (pending !== 'true' && pending !== 'false') throw badRequest('pending should be true or false')
  return pending === 'true'
}

/**
 * Refuses a file as a script or a style sheet of a page of this origin, where it would have the rights of that page.
 * Browsers say what they need a file for (https://www.w3.org/TR/fetch-metadata/).
 */
function assertNoProgram(exchange: Exchange): void {
  if (exchange.get('Sec-Fetch-Site') !== 'same-origin' || !PROGRAMS.test(exchange.get('Sec-Fetch-Dest'))) return
  throw accessDenied('a file cannot be a script or a style sheet of a page of this server')
}
const PROGRAMS = /script|worker|worklet|style|xslt/

const json = (value: object): Answer => ({ kind: 'text', text: JSON.stringify(value) })
