import { at } from 'rowhouse/plan'
import { invalidPayload, missingKey } from './errors.js'
import { Fields } from './fields.js'

/** An attachment of a request: its bytes, or a file of the filestore to copy. */
export type AttachmentSource =
  | { readonly filename: string; readonly contentType: string; readonly content: Buffer }
  | { readonly filename: string; readonly contentType?: string; readonly fileId: string }

const CONTENT_TYPE = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+\/[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:\s*;\s*[ -~]+)?$/
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const MAX_ATTACHMENTS = 20

/** @throws ServiceError 400 `invalid_payload` */
export function readAttachments(fields: Fields, maxBytes: number): readonly AttachmentSource[] {
  const list = fields.list('attachments') ?? []
  if (list.length > MAX_ATTACHMENTS)
    throw invalidPayload(`more than ${MAX_ATTACHMENTS} attachments`, fields.at('attachments'))
  let size = 0
  return list.map((each, i) => {
    const path = at(fields.at('attachments'), i)
    const entry = new Fields(each, ['filename', 'contentType', 'content', 'file_id'], path)
    const fileId = entry.text('file_id')
    const filename = entry.line('filename', 200) ?? fileId?.split('/').at(-1)
    if (filename === undefined) throw missingKey('filename', path)
    if (/[/\\\p{Cc}]/u.test(filename) || filename === '')
      throw invalidPayload('not a valid file name', entry.at('filename'))
    const contentType = entry.line('contentType', 200)
    if (contentType !== undefined && !CONTENT_TYPE.test(contentType)) {
      throw invalidPayload('expecting "type/subtype"', entry.at('contentType'))
    }
    const content = entry.text('content')
    if ((content === undefined) === (fileId === undefined)) {
      throw invalidPayload("one of the keys 'content' and 'file_id' has to be present", path)
    }
    if (fileId !== undefined) return { filename, fileId, contentType }
    if (!BASE64.test(content as string)) throw invalidPayload('expecting base64', entry.at('content'))
    const bytes = Buffer.from(content as string, 'base64')
    size += bytes.length
    if (size > maxBytes) throw tooLarge(maxBytes, fields.at('attachments'))
    return { filename, contentType: contentType ?? 'application/octet-stream', content: bytes }
  })
}

const tooLarge = (maxBytes: number, path: string) =>
  invalidPayload(`the attachments are larger than ${maxBytes} bytes (plugins.notify.email.maxAttachmentBytes)`, path)
