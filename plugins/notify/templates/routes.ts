import { assertSameOrigin, type Host, type Json, readJson, serviceError } from 'rowhouse'
import { invalidPayload, missingKey } from '../errors.js'
import { Fields } from '../fields.js'
import { readContent } from '../payload.js'
import { MAX_SUBJECT } from '../mailbox.js'
import type { Content, Rendered } from './render.js'
import { type MailTemplate, type MailTemplates, parse, TEMPLATE_NAME, type TemplateInput } from './templates.js'
import { adminOnly } from '../routes.js'

const TEMPLATES_PATH = '/v1/send/template'
const TEMPLATE_PATH = `${TEMPLATES_PATH}/:name`

/** Adds the routes that store, return and preview mail templates. */
export function templateRoutes(router: Host['router'], templates: MailTemplates): void {
  router.get(TEMPLATES_PATH, async (ctx) => {
    adminOnly(ctx)
    ctx.body = { templates: await templates.list() }
  })
  router.get(TEMPLATE_PATH, async (ctx) => {
    adminOnly(ctx)
    const name = readName(ctx.params['name'])
    const template = await templates.find(name)
    if (!template) throw templateNotFound(name)
    ctx.body = template
  })
  router.put(TEMPLATE_PATH, async (ctx) => {
    adminOnly(ctx)
    ctx.body = await putTemplate(templates, ctx.params['name'], await readJson(ctx))
  })
  router.delete(TEMPLATE_PATH, async (ctx) => {
    adminOnly(ctx)
    assertSameOrigin(ctx, ctx.state.session)
    const name = readName(ctx.params['name'])
    if (!(await templates.remove(name))) throw templateNotFound(name)
    ctx.body = { name, status: 'deleted' }
  })
  router.post(`${TEMPLATES_PATH}/preview`, async (ctx) => {
    adminOnly(ctx)
    const { input, content } = readPreviewOfInput(await readJson(ctx))
    ctx.body = previewOf((await parse(input))(content))
  })
  router.post(`${TEMPLATE_PATH}/preview`, async (ctx) => {
    adminOnly(ctx)
    const name = readName(ctx.params['name'])
    const rendered = await templates.render(name, readPreview(await readJson(ctx)))
    if (!rendered) throw templateNotFound(name)
    ctx.body = previewOf(rendered)
  })
}

/** Stores a template as a PUT does. @throws ServiceError 400 */
export async function putTemplate(
  templates: MailTemplates,
  name: string | undefined,
  body: Json,
): Promise<MailTemplate> {
  const checked = readName(name)
  const input = readTemplate(body)
  await parse(input)
  return templates.put(checked, input)
}

const previewOf = ({ subject, text, html }: Rendered) => ({ subject, text: text ?? null, html: html ?? null })
const templateNotFound = (name: string) => serviceError('not-found', `there is no template "${name}"`)

const KEYS = ['subject', 'text', 'html', 'comment']
const CONTENT = 'templateContent'
const MAX_COMMENT = 1_000

/** @throws ServiceError 400 */
function readName(name: string | undefined): string {
  if (name !== undefined && TEMPLATE_NAME.test(name)) return name
  throw invalidPayload('the name of a template has 1 to 64 letters, digits, "_", ".", "-"')
}

/** Reads the body of a PUT. @throws ServiceError 400 */
function readTemplate(body: Json): TemplateInput {
  return templateFrom(new Fields(body, KEYS))
}

/** Reads the body of a preview of a stored template. @throws ServiceError 400 */
function readPreview(body: Json): readonly Content[] {
  return readContent(new Fields(body, [CONTENT]))
}

/** Reads the body of a preview of a template that is not stored. @throws ServiceError 400 */
function readPreviewOfInput(body: Json): {
  readonly input: TemplateInput
  readonly content: readonly Content[]
} {
  const fields = new Fields(body, [...KEYS, CONTENT])
  return { input: templateFrom(fields), content: readContent(fields) }
}

function templateFrom(fields: Fields): TemplateInput {
  const subject = fields.line('subject', MAX_SUBJECT)
  if (subject === undefined || subject === '') throw missingKey('subject')
  const [text = null, html = null] = [fields.text('text'), fields.text('html')]
  if (text === null && html === null) throw invalidPayload("one of the keys 'text' and 'html' has to be present")
  const comment = fields.text('comment') ?? null
  if (comment !== null && comment.length > MAX_COMMENT) {
    throw invalidPayload(`longer than ${MAX_COMMENT} characters`, fields.at('comment'))
  }
  return { subject, text, html, comment }
}
