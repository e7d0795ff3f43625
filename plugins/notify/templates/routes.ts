import type { Context } from 'koa'
import { assertSameOrigin, type Host, type Json, readJson, serviceError } from 'rowhouse'
import { invalidPayload, missingKey } from '../errors.js'
import { Fields } from '../fields.js'
import { readContent } from '../payload.js'
import { MOST_SUBJECT } from '../mailbox.js'
import type { Content, Rendered } from './render.js'
import { type MailTemplates, parse, TEMPLATE_NAME, type TemplateInput } from './templates.js'

export interface TemplateRouteOptions {
  /** Throws a 401 for any role but admin. */
  adminOnly(ctx: Context): void
}

const ALL = '/v1/send/template'
const ONE = `${ALL}/:name`

/** Stores, shows and previews mail templates. Nothing is sent. */
export function templateRoutes(
  router: Host['router'],
  templates: MailTemplates,
  { adminOnly }: TemplateRouteOptions,
): void {
  router.get(ALL, async (ctx) => {
    adminOnly(ctx)
    ctx.body = { templates: await templates.list() }
  })
  router.get(ONE, async (ctx) => {
    adminOnly(ctx)
    const name = readName(ctx.params['name'])
    const template = await templates.find(name)
    if (!template) throw templateNotFound(name)
    ctx.body = template
  })
  router.put(ONE, async (ctx) => {
    adminOnly(ctx)
    const name = readName(ctx.params['name'])
    const input = readTemplate(await readJson(ctx))
    await parse(input)
    ctx.body = await templates.put(name, input)
  })
  router.delete(ONE, async (ctx) => {
    adminOnly(ctx)
    assertSameOrigin(ctx, ctx.state.session)
    const name = readName(ctx.params['name'])
    if (!(await templates.remove(name))) throw templateNotFound(name)
    ctx.body = { name, status: 'deleted' }
  })
  router.post(`${ALL}/preview`, async (ctx) => {
    adminOnly(ctx)
    const { input, content } = readPreviewOfInput(await readJson(ctx))
    ctx.body = previewOf((await parse(input))(content))
  })
  router.post(`${ONE}/preview`, async (ctx) => {
    adminOnly(ctx)
    const name = readName(ctx.params['name'])
    const rendered = await templates.render(name, readPreview(await readJson(ctx)))
    if (!rendered) throw templateNotFound(name)
    ctx.body = previewOf(rendered)
  })
}

const previewOf = ({ subject, text, html }: Rendered) => ({ subject, text: text ?? null, html: html ?? null })
const templateNotFound = (name: string) => serviceError('not-found', `there is no template "${name}"`)

const KEYS = ['subject', 'text', 'html', 'comment']
const CONTENT = 'templateContent'
const MOST_COMMENT = 1_000

/** @throws ServiceError 400 */
function readName(name: string | undefined): string {
  if (name !== undefined && TEMPLATE_NAME.test(name)) return name
  throw invalidPayload('the name of a template has 1 to 64 letters, digits, "_", ".", "-"')
}

/** Reads the body that stores a template. @throws ServiceError 400 */
function readTemplate(body: Json): TemplateInput {
  return templateFrom(new Fields(body, KEYS))
}

/** Reads the body that previews a stored template. @throws ServiceError 400 */
function readPreview(body: Json): readonly Content[] {
  return readContent(new Fields(body, [CONTENT]))
}

/** Reads the body that previews a template without storing it. @throws ServiceError 400 */
function readPreviewOfInput(body: Json): {
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
