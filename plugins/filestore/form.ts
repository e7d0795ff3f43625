import { on } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { Busboy, FileInfo } from 'busboy'
import { ServiceError } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import { essenceOf, readContentType, withoutEmptyParameters } from './content-type.js'
import { badRequest } from './errors.js'
import { checkFileId } from './file-id.js'
import { type Meter, meterStream, pipeRequest } from './meter.js'

/** One file of a form (RFC 7578). */
interface FormFile {
  /** The value of the field `file_id` before it. */
  readonly id: string | undefined
  readonly contentType: string
  meter(maxBytes: number): Meter
}

const LIMITS = { files: 100, fields: 200, fieldSize: 4096, parts: 300 }

export const isForm = (contentType: string): boolean => essenceOf(contentType) === 'multipart/form-data'

/**
 * Yields the files of a form as they arrive. Read each to its end before the next.
 * @throws ServiceError 400 when the form is malformed or cut off
 */
export async function* filesOf(
  req: IncomingMessage,
  { minBytesPerSecond }: Pick<FilestoreConfig, 'minBytesPerSecond'>,
  signal: AbortSignal,
): AsyncGenerator<FormFile> {
  const form = await parserOf(req)
  // The parser may emit several errors, some of them late.
  form.on('error', () => {})
  failOnUnterminatedHeaders(form)
  const parts = { count: 0, read: 0, type: '' }
  onPartHeaders(form, ({ 'content-type': [type = ''] = [] }) => {
    parts.count++
    parts.type = type
  })
  let id: string | undefined
  let problem: ServiceError | undefined
  const ids = new WeakMap<Readable, string>()
  const types = new WeakMap<Readable, string>()
  form.on('field', (name, value, { valueTruncated }) => {
    parts.read++
    if (name !== 'file_id') return
    id = value
    if (valueTruncated) problem = badRequest('a file_id has at most 1024 bytes')
  })
  for (const event of ['filesLimit', 'fieldsLimit', 'partsLimit'] as const) {
    form.on(event, () => (problem = badRequest(`a form has at most ${LIMITS.files} files and ${LIMITS.fields} fields`)))
  }
  form.on('file', (_name, bytes) => {
    // The reader gets the error. Without a reader, the error must not end the process.
    bytes.on('error', () => {})
    parts.read++
    types.set(bytes, parts.type)
    if (id !== undefined) ids.set(bytes, id)
    id = undefined
  })
  try {
    const files = on(form, 'file', { signal, close: ['close'] })
    pipeRequest(req, form, minBytesPerSecond)
    for await (const [, bytes, { filename }] of files as AsyncIterable<FileEvent>) {
      const fileId = ids.get(bytes)
      if (filename === undefined) await assertEmpty(bytes)
      else {
        yield {
          id: fileId === undefined ? undefined : checkFileId(fileId),
          contentType: readContentType(types.get(bytes) || 'text/plain'),
          meter: (maxBytes) => meterStream(bytes, maxBytes, formError),
        }
      }
      if (problem) throw problem
    }
    if (problem) throw problem
    if (parts.read < parts.count) throw badRequest('a part of the form has no valid Content-Disposition')
  } catch (error) {
    throw signal.aborted ? error : formError(error)
  } finally {
    form.destroy()
  }
}
type FileEvent = [name: string, bytes: Readable, info: FileInfo]

async function parserOf({ headers }: IncomingMessage): Promise<Busboy> {
  const { default: busboy } = await import('busboy')
  const type = withoutEmptyParameters(readContentType(headers['content-type']))
  try {
    return busboy({ headers: { ...headers, 'content-type': type }, limits: LIMITS, defParamCharset: 'utf8' })
  } catch (error) {
    throw formError(error)
  }
}

/**
 * Calls a function with the headers of each part, before busboy reads them. busboy itself reports the type of a file without its
 * parameters, and says nothing about parts that it skips.
 * @throws Error for a version of busboy that works in another way
 */
export function onPartHeaders(form: Busboy, read: (headers: PartHeaders) => void): void {
  if (!Object.hasOwn(form, '_hparser'))
    throw new Error('the headers of parts cannot be read with this version of busboy')
  let parser: HeaderParser | null = null
  let known: HeaderParser | undefined
  // busboy sets this to its one parser of headers when a part begins, and to null when they end.
  Object.defineProperty(form, '_hparser', {
    get: () => parser,
    set(next: HeaderParser | null) {
      parser = next
      if (!next || next === known) return
      const { cb } = next
      known = next
      next.cb = (headers) => {
        read(headers)
        cb(headers)
      }
    },
  })
}
type PartHeaders = Readonly<Record<string, readonly string[]>>
interface HeaderParser {
  cb: (headers: PartHeaders) => void
}

/** busboy never ends a part whose headers run into a boundary, so its reader would wait forever. */
function failOnUnterminatedHeaders(form: Busboy): void {
  const unterminated = () => new Error('the headers of a part do not end')
  let open: Readable | undefined
  form.on('file', (_name, bytes) => {
    open?.destroy(unterminated())
    open = bytes
    const push = bytes.push.bind(bytes)
    bytes.push = (chunk, encoding) => {
      if (chunk === null) open = undefined
      return push(chunk, encoding)
    }
  })
  const final = form._final.bind(form)
  form._final = (done) => (open ? done(unterminated()) : final(done))
}

/** Browsers send an empty part without a file name for a field without a chosen file. */
async function assertEmpty(bytes: Readable): Promise<void> {
  for await (const _ of bytes) throw badRequest('a file of a form needs a filename')
}

const formError = (error: unknown): Error =>
  error instanceof ServiceError
    ? error
    : badRequest(`the form cannot be read: ${error instanceof Error ? error.message : String(error)}`)
