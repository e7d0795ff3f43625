import type { Context } from 'koa'
import { assertSameOrigin, type Host, readJson } from 'rowhouse'
import { templateNotFound } from './errors.js'
import type { Rendered } from './render.js'
import { readName, readPreview, readPreviewOfInput, readTemplate } from './template-payload.js'
import { type MailTemplates, parse } from './templates.js'

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
