import { on } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { Busboy, FileInfo } from 'busboy'
import { ServiceError } from 'rowhouse'
import type { FilestoreConfig } from './config.js'
import { readContentType } from './content-type.js'
import { badRequest } from './errors.js'
import { checkFileId } from './file-id.js'
import { type Meter, meterStream, pipeRequest } from './meter.js'

/** One file of a form (RFC 7578). */
export interface FormFile {
  /** The value of the field `file_id` before it. */
  readonly id: string | undefined
  readonly contentType: string
  meter(maxBytes: number): Meter
}

const LIMITS = { files: 100, fields: 200, fieldSize: 4096, parts: 300 }

export const isForm = (contentType: string): boolean => /^multipart\/form-data\s*(?:;|$)/i.test(contentType)

/**
 * Yields the files of a form as they arrive; each must be read to its end before the next.
 * @throws ServiceError 400 when the form is malformed or cut off
 */
export async function* filesOf(
  req: IncomingMessage,
  { minBytesPerSecond }: Pick<FilestoreConfig, 'minBytesPerSecond'>,
  signal: AbortSignal,
): AsyncGenerator<FormFile> {
  const form = await parserOf(req)
  // It may emit several errors, some of them late.
  form.on('error', () => {})
  failOnOpenParts(form)
  let id: string | undefined
  let problem: ServiceError | undefined
  const ids = new WeakMap<Readable, string>()
  form.on('field', (name, value, { valueTruncated }) => {
    if (name !== 'file_id') return
    id = value
    if (valueTruncated) problem = badRequest('a file_id has at most 1024 bytes')
  })
  for (const event of ['filesLimit', 'fieldsLimit', 'partsLimit'] as const) {
    form.on(event, () => (problem = badRequest(`a form has at most ${LIMITS.files} files and ${LIMITS.fields} fields`)))
  }
  form.on('file', (_name, bytes) => {
    // Its reader gets the error. Without a reader, it must not end the process.
    bytes.on('error', () => {})
    if (id !== undefined) ids.set(bytes, id)
    id = undefined
  })
  try {
    const found = on(form, 'file', { signal, close: ['close'] })
    pipeRequest(req, form, minBytesPerSecond)
    for await (const [, bytes, { filename, mimeType }] of found as AsyncIterable<FileEvent>) {
      const own = ids.get(bytes)
      if (filename === undefined) await skipEmpty(bytes)
      else {
        yield {
          id: own === undefined ? undefined : checkFileId(own),
          contentType: readContentType(mimeType),
          meter: (maxBytes) => meterStream(bytes, maxBytes, refusal),
        }
      }
      if (problem) throw problem
    }
    if (problem) throw problem
  } catch (error) {
    throw signal.aborted ? error : refusal(error)
  } finally {
    form.destroy()
  }
}
type FileEvent = [name: string, bytes: Readable, info: FileInfo]

async function parserOf({ headers }: IncomingMessage): Promise<Busboy> {
  const { default: busboy } = await import('busboy')
  try {
    return busboy({ headers, limits: LIMITS, defParamCharset: 'utf8' })
  } catch (error) {
    throw refusal(error)
  }
}

/** busboy never ends a part whose headers run into a boundary, which would make its reader wait for ever. */
function failOnOpenParts(form: Busboy): void {
  const noEnd = () => new Error('the headers of a part do not end')
  let open: Readable | undefined
  form.on('file', (_name, bytes) => {
    open?.destroy(noEnd())
    open = bytes
    const push = bytes.push.bind(bytes)
    bytes.push = (chunk, encoding) => {
      if (chunk === null) open = undefined
      return push(chunk, encoding)
    }
  })
  const final = form._final.bind(form)
  form._final = (done) => (open ? done(noEnd()) : final(done))
}

/** Browsers send an empty part for a field in which no file was chosen. */
async function skipEmpty(bytes: Readable): Promise<void> {
  for await (const _ of bytes) throw badRequest('a file of a form needs a filename')
}

const refusal = (error: unknown): Error =>
  error instanceof ServiceError
    ? error
    : badRequest(`the form cannot be read: ${error instanceof Error ? error.message : String(error)}`)
