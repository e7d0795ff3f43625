import type { Json, JsonObject } from 'rowhouse'
import { isObject } from 'rowhouse/plan'
import { invalidPayload } from './errors.js'
import { type Content, CONTROL, MOST_SUBJECT } from './render.js'
import { type Draft, TEMPLATE_NAME } from './templates.js'

const DRAFT_KEYS = ['subject', 'text', 'html', 'comment']
const CONTENT_KEY = 'templateContent'
const MOST_COMMENT = 1_000
const MOST_CONTENT = 1_000
const MOST_CONTENT_NAME = 256

/** @throws ServiceError 400 */
export function readName(name: string | undefined): string {
  if (name !== undefined && TEMPLATE_NAME.test(name)) return name
  throw invalidPayload('the name of a template has 1 to 64 letters, digits, "_", ".", "-"')
}

/** The body that stores a template. @throws ServiceError 400 */
export function readDraft(body: Json): Draft {
  return draftOf(objectWith(body, DRAFT_KEYS))
}

/** The body that tries a stored template. @throws ServiceError 400 */
export function readTry(body: Json): readonly Content[] {
  return contentOf(objectWith(body, [CONTENT_KEY]))
}

/** The body that tries a template that is not stored. @throws ServiceError 400 */
export function readTryOfDraft(body: Json): { readonly draft: Draft; readonly content: readonly Content[] } {
  const object = objectWith(body, [...DRAFT_KEYS, CONTENT_KEY])
  return { draft: draftOf(object), content: contentOf(object) }
}

function draftOf(body: JsonObject): Draft {
  const { subject } = body
  if (typeof subject !== 'string' || subject === '') throw invalidPayload('missing parameter: subject')
  if (subject.length > MOST_SUBJECT) throw invalidPayload(`subject: longer than ${MOST_SUBJECT} characters`)
  if (CONTROL.test(subject)) throw invalidPayload('subject: must not have line breaks and control characters')
  const text = textOf(body, 'text')
  const html = textOf(body, 'html')
  if (text === null && html === null) throw invalidPayload('one of text and html is needed')
  const comment = textOf(body, 'comment')
  if (comment !== null && comment.length > MOST_COMMENT) {
    throw invalidPayload(`comment: longer than ${MOST_COMMENT} characters`)
  }
  return { subject, text, html, comment }
}

function textOf(body: JsonObject, key: string): string | null {
  const value = body[key] ?? null
  if (value !== null && typeof value !== 'string') throw invalidPayload(`${key}: expecting a text`)
  return value
}

function contentOf(body: JsonObject): readonly Content[] {
  const list = body[CONTENT_KEY] ?? []
  if (!Array.isArray(list)) throw invalidPayload(`${CONTENT_KEY}: expecting a list of {"name", "content"}`)
  if (list.length > MOST_CONTENT) throw invalidPayload(`${CONTENT_KEY}: more than ${MOST_CONTENT} members`)
  const names = new Set<string>()
  return list.map((member, i) => {
    const where = `${CONTENT_KEY}[${i}]`
    const { name, content } = objectWith(member, ['name', 'content'], where)
    if (typeof name !== 'string' || name === '' || name.length > MOST_CONTENT_NAME) {
      throw invalidPayload(`${where}.name: expecting a text of 1 to ${MOST_CONTENT_NAME} characters`)
    }
    if (typeof content !== 'string') throw invalidPayload(`${where}.content: expecting a text`)
    if (names.has(name)) throw invalidPayload(`${where}.name: "${name}" is there twice`)
    names.add(name)
    return { name, content }
  })
}

function objectWith(value: Json | undefined, keys: readonly string[], where = 'the body'): JsonObject {
  if (!isObject(value)) throw invalidPayload(`${where}: expecting an object with the keys ${keys.join(', ')}`)
  for (const key in value) if (!keys.includes(key)) throw invalidPayload(`${where}: unexpected key "${key}"`)
  return value
}
