import { randomUUID } from 'node:crypto'
import { parse } from 'node:querystring'
import { type Answer, assertSameOrigin, type Call, callOf, type Exchange, readJson } from 'rowhouse'
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
import { gatherRequest, type Meter, meterRequest } from './meter.js'
import type { Parts } from './parts.js'
import { readSigning } from './signing.js'
import { checkUploadHeaders, type Upload } from './uploads.js'

const PREFIX = '/v1/file/'
/** Whatever stands behind the prefix, so that an id with a mistake in it gets our answer. */
const ONE = `${PREFIX}{*file_id}`
/** A body that says that it is no longer is kept in memory until it is written as a whole. */
const GATHERED_BYTES = 2 ** 20

export function fileRoutes({ host, config, files, changes, uploads, rules, access, urls, small }: Parts): void {
  const guardOf = (exchange: Exchange, { ruled }: Permit, call: Call): Guard | undefined => {
    const conditions = writeConditions(exchange)
    return ruled || conditions
      ? { call, ...(ruled ? { rules } : {}), ...(conditions ? { conditions } : {}) }
      : undefined
  }

  /** Of an id that the client made. */
  const upload = async (exchange: Exchange, id: string, create: boolean): Promise<Answer> => {
    const call = callOf(exchange)
    assertSameOrigin(exchange, call.session)
    const permit = await access.permit({ operation: 'create', id, replaces: !create }, call)
    const contentType = readContentType(exchange.get('Content-Type'))
    // What is around the file of a form does not count.
    const most = isForm(contentType) ? Infinity : limitsOf(permit.caller.role, config).maxBytes
    const size = checkUploadHeaders(exchange.req, most)
    const file = { id, create, contentType, ...permit.caller }
    const plain = (): Upload => ({
      file,
      ...(size === undefined ? {} : { size }),
      begin: (maxBytes) => meterRequest(exchange.req, maxBytes, config.minBytesPerSecond),
      ...(size === undefined || size > GATHERED_BYTES ? {} : { gather }),
    })
    const gather = (maxBytes: number, signal: AbortSignal) =>
      gatherRequest(exchange.req, maxBytes, config.minBytesPerSecond, signal)
    const body = isForm(contentType) ? onlyFileOf(exchange, file) : [plain()]
    const [record = ''] = await uploads.take(body, call, guardOf(exchange, permit, call))
    return { kind: 'text', text: record }
  }

  /** The body of a form with one file. */
  async function* onlyFileOf(exchange: Exchange, file: NewFile): AsyncGenerator<Upload> {
    let count = 0
    for await (const { contentType, meter } of filesOf(exchange.req, config, exchange.state.signal)) {
      if (++count > 1) throw badRequest('there is one file_id, and the form has more than one file')
      yield { file: { ...file, contentType }, begin: meter }
    }
    if (count === 0) throw badRequest('the form has no file')
  }

  /** Of ids that we make, or that a form has: all of them files at once. */
  const uploadNew = async (exchange: Exchange): Promise<Answer> => {
    const call = callOf(exchange)
    if (!isForm(exchange.get('Content-Type'))) return upload(exchange, randomUUID(), true)
    assertSameOrigin(exchange, call.session)
    const guard = access.ruled(call) ? { call, rules } : undefined
    const records = await uploads.take(newFilesOf(exchange, call), call, guard)
    return { kind: 'text', text: `[${records.join(',\n')}]` }
  }

  async function* newFilesOf(exchange: Exchange, call: Call): AsyncGenerator<Upload> {
    let taken = 0
    let count = 0
    for await (const { id = randomUUID(), contentType, meter } of filesOf(exchange.req, config, call.signal)) {
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

  const stored = { host, files, config, small }
  const download = async (exchange: Exchange): Promise<Answer> => {
    const id = readFileId(exchange.path, PREFIX)
    const query = exchange.querystring === '' ? {} : parse(exchange.querystring)
    if (query['signature'] === undefined) await access.permit({ operation: 'read', id }, callOf(exchange))
    else await urls.verify(id, query)
    return sendFile(exchange, stored, id)
  }

  /** An address for whoever is given it, of a file that the caller may read. */
  const sign = async (exchange: Exchange): Promise<Answer> => {
    const { file_id: id, expires_in: seconds, download } = readSigning(await readJson(exchange), config)
    await access.permit({ operation: 'read', id }, callOf(exchange))
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
    const permit = await access.permit({ operation: 'delete', id }, call)
    await changes.remove(id, guardOf(exchange, permit, call))
    return json({ file_id: id, status: 'deleted' })
  }

  if (config.signedUrls.maxSeconds > 0) host.route('post', '/v1/file-url', sign)
  for (const path of ['/v1/file', '/v1/file/']) host.route('post', path, uploadNew)
  host.route('post', ONE, async (exchange) => upload(exchange, readFileId(exchange.path, PREFIX), true))
  host.route('put', ONE, async (exchange) => upload(exchange, readFileId(exchange.path, PREFIX), false))
  host.route('get', ONE, download)
  host.route('head', ONE, download)
  host.route('delete', ONE, remove)
}

const json = (value: object): Answer => ({ kind: 'text', text: JSON.stringify(value) })
