import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import type Router from '@koa/router'
import type { Context } from 'koa'

export interface StaticPage {
  /** HTML that refers to its assets below `assets`. */
  readonly html: string
  /** Path of the assets, e.g. `/v1/graphql/assets`. */
  readonly assets: string
  /** Files by name, or their text. */
  readonly files: Readonly<Record<string, URL | string>>
}

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}
/** Allows resources from this server only. Inline styles are needed by third-party pages. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Serves a page that needs no other server. Its assets are read once, on first use. */
export function staticPage(router: Router, { html, assets, files }: StaticPage): (ctx: Context) => void {
  const read = new Map<string, Promise<{ readonly body: Buffer; readonly tag: string }>>()
  const load = async (file: URL | string) => {
    const body = typeof file === 'string' ? Buffer.from(file) : await readFile(file)
    return { body, tag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"` }
  }
  for (const [name, file] of Object.entries(files)) {
    router.get(`${assets}/${name}`, async (ctx) => {
      let loading = read.get(name)
      if (!loading) {
        read.set(name, (loading = load(file)))
        loading.catch(() => read.delete(name))
      }
      const { body, tag } = await loading
      ctx.set('ETag', tag)
      ctx.set('Cache-Control', 'no-cache')
      ctx.set('X-Content-Type-Options', 'nosniff')
      ctx.type = TYPES[extname(name)] ?? 'application/octet-stream'
      if (ctx.get('If-None-Match') === tag) ctx.status = 304
      else ctx.body = body
    })
  }
  return (ctx) => {
    ctx.set('Content-Security-Policy', POLICY)
    ctx.set('Cache-Control', 'no-cache')
    ctx.set('X-Content-Type-Options', 'nosniff')
    ctx.type = 'html'
    ctx.body = html
  }
}
