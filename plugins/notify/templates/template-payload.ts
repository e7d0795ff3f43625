import type { Json } from 'rowhouse'
import { invalidPayload, missingKey } from '../errors.js'
import { Fields } from '../fields.js'
import { MOST_SUBJECT } from '../mailbox.js'
import { readContent } from '../payload.js'
import type { Content } from './render.js'
import { type TemplateInput, TEMPLATE_NAME } from './templates.js'

const KEYS = ['subject', 'text', 'html', 'comment']
const CONTENT = 'templateContent'
const MOST_COMMENT = 1_000

/** @throws ServiceError 400 */
export function readName(name: string | undefined): string {
  if (name !== undefined && TEMPLATE_NAME.test(name)) return name
  throw invalidPayload('the name of a template has 1 to 64 letters, digits, "_", ".", "-"')
}

/** Reads the body that stores a template. @throws ServiceError 400 */
export function readTemplate(body: Json): TemplateInput {
  return templateFrom(new Fields(body, KEYS))
}

/** Reads the body that previews a stored template. @throws ServiceError 400 */
export function readPreview(body: Json): readonly Content[] {
  return readContent(new Fields(body, [CONTENT]))
}

/** Reads the body that previews a template without storing it. @throws ServiceError 400 */
export function readPreviewOfInput(body: Json): {
  readonly input: TemplateInput
  readonly content: readonly Content[]
} {
  const fields = new Fields(body, [...KEYS, CONTENT])
  return { input: templateFrom(fields), content: readContent(fields) }
}

function templateFrom(fields: Fields): TemplateInput {
  const subject = fields.line('subject', MOST_SUBJECT)
  if (subject === undefined || subject === '') throw missingKey('subject')
  const [text = null, html = null] = [fields.text('text'), fields.text('html')]
  if (text === null && html === null) throw invalidPayload("one of the keys 'text' and 'html' has to be present")
  const comment = fields.text('comment') ?? null
  if (comment !== null && comment.length > MOST_COMMENT) {
    throw invalidPayload(`it has more than ${MOST_COMMENT} characters`, fields.at('comment'))
  }
  return { subject, text, html, comment }
}
